"""A certificate that nobody has signed, for tlsTestModeEnable: made anew at each start, by OpenSSL's command, and kept nowhere."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

DAYS = "3650"
MADE_WITHIN_S = 30


def self_signed() -> tuple[bytes, bytes] | None:
    """(key, certificate) in PEM; None without the command."""
    command = shutil.which("openssl")
    if command is None:
        return None
    with tempfile.TemporaryDirectory(prefix="rocketpy-") as name:
        key, certificate = Path(name, "key.pem"), Path(name, "certificate.pem")
        arguments = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", DAYS]
        done = subprocess.run(
            [command, *arguments, "-subj", "/CN=rocketpy proxy", "-keyout", str(key), "-out", str(certificate)],
            capture_output=True,
            check=False,
            timeout=MADE_WITHIN_S,
        )
        return (key.read_bytes(), certificate.read_bytes()) if done.returncode == 0 else None
