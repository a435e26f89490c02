"""Stub of rocketpy._core.load: the native load generator (csrc/load/load.h)."""

from typing import Any

class Load:
    """One run against one broker address, in threads of its own. Keyword names are the fields of rp_load_options."""

    def __init__(self, **options: Any) -> None: ...
    def start(self) -> None: ...
    def progress(self) -> dict[str, int]:
        """Live counters: sent, acknowledged, errors, bytes, received, elapsed_ns."""
    def wait(self, timeout_s: float) -> bool:
        """True when finished; looks at signals every 100 ms."""
    def stop(self) -> None: ...
    def result(self) -> dict[str, Any]:
        """Rates, percentiles in ns, errors by response code, per-queue counts; after the run."""
    def close(self) -> None: ...
