"""How many files of consume queues there may be before sends to further queues are refused.

Each may be a map of the process. One that has no map left cannot make its log's next file, gets no more memory, and starts no thread: it
loses its name servers, and answers nobody.
"""

from __future__ import annotations

from pathlib import Path

from .light_queues import MAX_MAP_COUNT


def queue_files_max(limit: Path = MAX_MAP_COUNT) -> int:
    """Seven eighths of the maps that the kernel lets a process have; 0, any number, where the limit cannot be read in this container."""
    try:
        return max(1, int(limit.read_text()) * 7 // 8)
    except (OSError, ValueError):
        return 0
