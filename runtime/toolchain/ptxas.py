"""Runs NVIDIA's assembler, where it is found, to report the resources that a kernel's machine code needs.

Devices do not use it, since their driver has an assembler of its own; reports on kernels and checks of code do.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from ...lowering.artifact import KernelCode
from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError

_SECONDS = 300
TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")


@dataclass(frozen=True, slots=True)
class Assembler:
    """The path of ptxas, and its release, such as "13.0"."""

    path: str
    version: str


@dataclass(frozen=True, slots=True)
class Resources:
    """Resources of a kernel's machine code: registers and bytes of stack per thread, bytes that threads store
    and load because of spills, bytes of shared memory besides those that a launch asks for."""

    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    static_shared_bytes: int


def toolkit_folders() -> list[Path]:
    """Lists the folders where a CUDA toolkit may be: its own variables, the usual folders, the wheels of this
    Python."""
    roots = [Path(os.environ[name]) for name in TOOLKIT_VARIABLES if os.environ.get(name)]
    roots += [Path("/usr/local/cuda"), Path("/opt/cuda")]
    wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    return [*roots, wheels / "cuda_nvcc", wheels / "cu13", wheels / "cu12"]


@functools.cache
def find_assembler() -> Assembler | None:
    """Returns the first ptxas on the path or in a toolkit that answers; None if there is none."""
    name = "ptxas.exe" if sys.platform == "win32" else "ptxas"
    candidates = [shutil.which("ptxas"), *(str(folder / "bin" / name) for folder in toolkit_folders())]
    for candidate in candidates:
        if candidate is None or not os.access(candidate, os.X_OK):
            continue
        try:
            said = subprocess.run([candidate, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        version = re.search(r"release (\d+\.\d+)", said)
        if version is not None:
            return Assembler(candidate, version[1])
    return None


@functools.lru_cache(maxsize=256)
def resources(code: KernelCode) -> Resources | None:
    """Returns what ptxas reports about a kernel; None where there is no ptxas, or one too old for the code's PTX.

    Raises `InternalError` if the assembler refuses the code.
    """
    assembler = find_assembler()
    if assembler is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(code.ptx, encoding="utf-8")
        command = [assembler.path, "-v", "-arch", code.target, "-o", str(Path(folder, "kernel.cubin")), str(source)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.SubprocessError):
            return None
    said = done.stdout + done.stderr
    if done.returncode:
        if "Unsupported .version" in said or "is not defined for option" in said:
            return None
        raise InternalError(f"@{code.name}: ptxas {assembler.version} refuses the code: {said.strip()[:500]}")
    return _parsed(code.name, said)


def _parsed(name: str, said: str) -> Resources:
    """Parses the part of ptxas' report on one function."""
    part = said.partition(f"Function properties for {name}")[2] or said
    used = re.search(r"Used (\d+) registers", part)
    if used is None:
        raise InternalError(f"@{name}: ptxas said nothing about registers: {said.strip()[:500]}")

    def number(pattern: str) -> int:
        match = re.search(pattern, part)
        return int(match[1]) if match is not None else 0

    return Resources(
        int(used[1]),
        number(r"(\d+) bytes stack frame"),
        number(r"(\d+) bytes spill stores"),
        number(r"(\d+) bytes spill loads"),
        number(r"(\d+) bytes smem"),
    )
