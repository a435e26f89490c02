"""`wheel.py ARCH`: a wheel for x86_64 or aarch64 in dist/, with a cross compiler if this machine is another: `make wheel ARCH=aarch64`.

    CC (default aarch64-linux-gnu-gcc; gcc for this machine's own) ─► rocketpy_mq-….linux_ARCH.whl
    its shared objects ─► what they need: only the C library, of which release? ─► manylinux_2_N_ARCH in its name

Nothing of the other machine is needed but the compiler: of Python only the headers are read, and both machines have the same sizes and byte
order. Debian's headers choose a pyconfig.h by the compiler's target; that file is in libpython3-dev:arm64.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
MACHINES = {"x86_64": "Advanced Micro Devices X86-64", "aarch64": "AArch64"}  # by readelf's names
OF_ANY_HOST = re.compile(r"lib(c|m|dl|pthread|rt)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+|librocketpy\.so")
GLIBC = re.compile(r"\bGLIBC_2\.(\d+)\b")


def compiler_of(arch: str) -> str:
    return os.environ.get("CC") or ("gcc" if arch == platform.machine() else f"{arch}-linux-gnu-gcc")


def environment_of(arch: str, compiler: str) -> dict[str, str]:
    """Returns the environment that setuptools and csrc/library.py read."""
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX")).replace(platform.machine(), arch)
    return os.environ | {
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared",  # without the library directories of this machine's Python
        "_PYTHON_HOST_PLATFORM": f"linux-{arch}",
        "SETUPTOOLS_EXT_SUFFIX": suffix,
    }


def check_compiler(arch: str, compiler: str) -> None:
    if shutil.which(compiler.split()[0]) is None:
        sys.exit(
            f"there is no {compiler.split()[0]}: sudo apt-get install -y gcc-{arch.replace('_', '-')}-linux-gnu, or name another by CC"
        )
    command = [*compiler.split(), f"-I{sysconfig.get_paths()['include']}", "-x", "c", "-fsyntax-only", "-"]
    done = subprocess.run(command, input="#include <Python.h>\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(
            f"{done.stderr}Python.h cannot be compiled for {arch}. On Debian and Ubuntu: sudo dpkg --add-architecture arm64; "
            "sudo apt-get update; sudo apt-get install -y libpython3-dev:arm64"
        )


def readelf(shared: Path, *options: str) -> str:
    return subprocess.run(["readelf", "--wide", *options, str(shared)], capture_output=True, text=True, check=True).stdout


def glibc_of(shared: Path, arch: str) -> int:
    """Returns the N of the GLIBC_2.N that it needs. Exits if it needs another library, or searches for one where it was built: not
    every host has these."""
    header, dynamic = readelf(shared, "--file-header"), readelf(shared, "--dynamic")
    if MACHINES[arch] not in header:
        sys.exit(f"{shared.name} is not for {arch}:\n{header}")
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    strange = [name for name in needed if not OF_ANY_HOST.fullmatch(name)]
    paths = [path for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic) if path != "$ORIGIN"]
    if strange or paths:
        sys.exit(f"{shared.name} needs what not every host has: {' '.join(strange + paths)}")
    return max((int(number) for number in GLIBC.findall(readelf(shared, "--version-info"))), default=17)


def glibc_of_wheel(wheel: Path, arch: str) -> int:
    with tempfile.TemporaryDirectory() as directory, zipfile.ZipFile(wheel) as archive:
        shared = [name for name in archive.namelist() if name.endswith(".so")]
        if len(shared) < 2:
            sys.exit(f"{wheel.name} has no shared objects")
        return max(glibc_of(Path(archive.extract(name, directory)), arch) for name in shared)


def record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}"


def renamed(wheel: Path, before: str, after: str, directory: Path) -> Path:
    """Copies the wheel with another platform tag, which is in its name, in WHEEL and, as the digest of that file, in RECORD."""
    target = directory / wheel.name.replace(before, after)
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
        (about,) = (name for name in source.namelist() if name.endswith(".dist-info/WHEEL"))
        said = source.read(about).replace(before.encode(), after.encode())
        for item in source.infolist():
            content = source.read(item)
            if item.filename == about:
                content = said
            elif item.filename == about.replace("WHEEL", "RECORD"):
                lines = (record_line(about, said) if line.startswith(f"{about},") else line for line in content.decode().splitlines())
                content = ("\n".join(lines) + "\n").encode()
            made.writestr(item, content)
    return target


def build(arch: str, directory: Path) -> Path:
    compiler = compiler_of(arch)
    check_compiler(arch, compiler)
    with tempfile.TemporaryDirectory() as built:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", built, str(ROOT)]
        subprocess.run(command, check=True, env=environment_of(arch, compiler))
        (wheel,) = Path(built).glob("rocketpy_mq-*.whl")
        directory.mkdir(exist_ok=True)
        return renamed(wheel, f"linux_{arch}", f"manylinux_2_{glibc_of_wheel(wheel, arch)}_{arch}", directory)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in MACHINES:
        sys.exit(f"usage: wheel.py {'|'.join(MACHINES)} [directory]")
    print(build(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) == 3 else DIST))
