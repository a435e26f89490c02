"""Certificates made when a test needs them, by the openssl command: there are no keys in the repository."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Certificate:
    """Two PEM files."""

    path: Path
    key: Path

    @property
    def files(self) -> tuple[str, str]:
        return str(self.path), str(self.key)


def make_certificate(directory: Path, name: str, *, password: str = "", signer: Certificate | None = None) -> Certificate:
    """One that vouches for itself, or that `signer` vouches for."""
    assert shutil.which("openssl"), "these tests make certificates by the openssl command: sudo apt-get install -y openssl"
    made = Certificate(directory / f"{name}.pem", directory / f"{name}.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-subj", f"/CN={name}", "-days", "2"]
    command += ["-passout", f"pass:{password}"] if password else ["-nodes"]
    if signer is not None:
        command += ["-CA", *(signer.path, "-CAkey", signer.key), "-addext", "basicConstraints=critical,CA:false"]  # type: ignore[list-item]
    subprocess.run([*command, "-keyout", made.key, "-out", made.path], check=True, capture_output=True)
    return made
