"""Installs what pyproject.toml names (build, run time and dev) into the environment of this interpreter, and nothing twice."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).parent.parent.joinpath("pyproject.toml").read_text())
wanted = [
    *project["build-system"]["requires"],
    *project["project"]["dependencies"],
    *project["project"]["optional-dependencies"]["dev"],
]
sys.exit(subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *dict.fromkeys(wanted)], check=False).returncode)
