"""Installs all dependencies of pyproject.toml (build, run time and dev) into this interpreter's environment, in one call of pip. Meanwhile
the other core compiles csrc/, which needs none of them."""

from __future__ import annotations

import os
import signal
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
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
library = [sys.executable, Path(__file__).parent.parent / "csrc" / "library.py"]
compiling = subprocess.Popen(library, start_new_session=True)  # in its own process group, so that its compilers end with it
try:
    code = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *dict.fromkeys(wanted)], check=False).returncode
    if code == 0:
        sys.exit(compiling.wait())
finally:  # pip failed, or this was interrupted
    if compiling.poll() is None:
        os.killpg(compiling.pid, signal.SIGTERM)
        compiling.wait()
print("pip could not install what is needed, see above. Without a network: get the packages where there is one, by", file=sys.stderr)
print(f"    pip download -d wheels {' '.join(repr(name) for name in dict.fromkeys(wanted))}", file=sys.stderr)
print("and build with  PIP_NO_INDEX=1 PIP_FIND_LINKS=wheels make build", file=sys.stderr)
sys.exit(code)
