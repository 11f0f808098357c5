"""Compares GPU code without running it: what the assembler makes of joinery's PTX, strict and with numerics="fast", beside
what Triton makes of the same text.

python benchmarks/gpu_static.py [NAME …] [--target sm_80] [--warps 4]

For each text of `kernels/gpu_*.ttir` it prints registers, spilled bytes, instructions in all and in the main loop, matrix
instructions and accesses by width, barriers, shared memory. It needs Triton (its disassembler too), but no GPU.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
COUNTED = {
    "matrix": r"[HIDQ]G?MMA", "ldmatrix": r"LDSM", "stmatrix": r"STSM", "async copies": r"LDGSTS|UTMALDG",
    "loads 128": r"LDG\.E\.128|LDG\.E\.\S*128", "loads narrower": r"LDG(?!STS)(?!\S*128)", "stores 128": r"STG\S*128",
    "stores narrower": r"STG(?!\S*128)", "shared loads": r"LDS(?!M)", "shared stores": r"STS(?!M)", "barriers": r"BAR\.",
    "shuffles": r"SHFL", "special functions": r"MUFU",
}  # fmt: skip
PROCESSES = 5
"""How many fresh processes time each compilation; the median and the range are printed."""
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\d+\s+)?([A-Z][\w.]*)([^;]*);", re.MULTILINE)


def tools() -> Path:
    """Returns the folder with Triton's assembler and disassembler."""
    import triton

    return Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def sass(cubin: bytes) -> list[tuple[int, str, str]]:
    """Returns (address, opcode, operands) of every instruction, without padding."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(tools() / "cuobjdump"), "-sass", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = [(int(m[1], 16), m[2], m[3]) for m in _INSTRUCTION.finditer(text)]
    return [each for each in found if each[1] != "NOP"]


def main_loop(code: list[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Returns the instructions of the innermost loop (a backward branch without another one inside) with the
    most matrix instructions, or without any, of the longest one."""
    back = []
    for address, opcode, operands in code:
        target = re.search(r"0x([0-9a-f]+)", operands)
        if opcode.startswith("BRA") and target is not None and int(target[1], 16) < address:
            back.append((int(target[1], 16), address))
    inner = [loop for loop in back if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1] for other in back)]
    bodies = [[each for each in code if low <= each[0] <= high] for low, high in inner]
    matrix = re.compile(COUNTED["matrix"])
    return max(bodies, key=lambda body: (sum(bool(matrix.match(opcode)) for _, opcode, _ in body), len(body)), default=[])


def facts(cubin: bytes, usage: str) -> dict[str, Any]:
    code = sass(cubin)
    loop = main_loop(code)
    names = Counter(opcode for _, opcode, _ in code)
    found: dict[str, Any] = {"instructions": len(code), "in the loop": len(loop)}
    for what, pattern in COUNTED.items():
        whole = sum(count for opcode, count in names.items() if re.match(pattern, opcode))
        inside = sum(bool(re.match(pattern, opcode)) for _, opcode, _ in loop)
        found[what] = f"{whole} ({inside})" if inside else whole
    for what, pattern in (("registers", r"Used (\d+) registers"), ("spilled bytes", r"(\d+) bytes spill stores")):
        match = re.search(pattern, usage)
        found[what] = int(match[1]) if match else None
    return found


def assemble(ptx: str, target: str) -> tuple[bytes, str]:
    """Returns the cubin, and what the assembler says about registers."""
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(ptx)
        command = [str(tools() / "ptxas"), "-arch", target, "-v", "-o", str(out), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the assembler refuses our PTX: {done.stderr}")
        return out.read_bytes(), done.stderr


def ours(path: Path, target: str, warps: int, numerics: str) -> dict[str, Any]:
    import joinery as jn

    code = jn.kernel.from_ttir(path, numerics=numerics).gpu_code(target, warps, tensor_maps=True, multiples=True, bounded=True)
    found = facts(*assemble(code.ptx, target))
    times = sorted(compile_ms(path, target, warps, numerics) for _ in range(PROCESSES))
    spread = f"{times[PROCESSES // 2]:.0f} ({times[0]:.0f}-{times[-1]:.0f})"
    return {**found, "shared memory": code.lowered.shared_bytes, "ms to PTX": spread}


_COMPILE = """
import sys, time
from pathlib import Path
import joinery as jn
first, path, target, warps, numerics = sys.argv[1:]
jn.kernel.from_ttir(Path(first)).ptx(target)  # loads LLVM
start = time.perf_counter()
facts = dict(tensor_maps=True, multiples=True, bounded=True)
jn.kernel.from_ttir(Path(path), numerics=numerics).gpu_code(target, int(warps), **facts).ptx
print(1000 * (time.perf_counter() - start))
"""


def compile_ms(path: Path, target: str, warps: int, numerics: str) -> float:
    """Returns the milliseconds from TTIR to PTX in a process that has compiled one other small kernel before."""
    other = HERE / "kernels" / ("matmul.ttir" if path.stem == "gpu_vec_add" else "gpu_vec_add.ttir")
    command = [sys.executable, "-c", _COMPILE, str(other), str(path), target, str(warps), numerics]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def triton_s(path: Path, target: str, warps: int) -> dict[str, Any]:
    import os

    import triton
    from triton.backends.compiler import GPUTarget

    os.environ["TRITON_CACHE_DIR"] = tempfile.mkdtemp()
    capability = int(re.sub(r"\D", "", target))
    start = time.perf_counter()
    try:
        made = triton.compile(str(path), target=GPUTarget("cuda", capability, 32), options={"num_warps": warps})
    except RuntimeError as error:  # descriptors that are parameters are for sm_90 and later only
        return {"refused": str(error).splitlines()[0][:200]}
    elapsed = time.perf_counter() - start
    # for registers and spills only: Triton's newer assembler writes PTX of a version that the older one refuses to read
    _, usage = assemble(made.asm["ptx"].replace(".version 9.4", ".version 8.8"), target)
    found = facts(made.asm["cubin"], usage)
    return {**found, "shared memory": made.metadata.shared, "ms to PTX": f"{1000 * elapsed:.0f} with the assembler"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="texts, without gpu_ and .ttir; all of them when none is given")
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--warps", type=int, default=4)
    parser.add_argument("--output", type=Path, help="result file (default: benchmarks/results/DATE-gpu-static-TARGET.json)")
    options = parser.parse_args()
    paths = [HERE / "kernels" / f"gpu_{name}.ttir" for name in options.names] or sorted((HERE / "kernels").glob("gpu_*.ttir"))
    results: dict[str, Any] = {}
    for path in paths:
        rows = {
            "strict": ours(path, options.target, options.warps, "strict"),
            "fast": ours(path, options.target, options.warps, "fast"),
            "triton": triton_s(path, options.target, options.warps),
        }
        results[path.stem] = rows
        print(f"{path.stem}, {options.target}, {options.warps} warps   (in brackets: in the main loop)")
        if "refused" in rows["triton"]:
            print(f"  Triton refuses it: {rows['triton']['refused']}")
        print(f"  {'':18} {'strict':>12} {'fast':>12} {'Triton':>24}")
        for fact in rows["strict"]:
            print(f"  {fact:18} {rows['strict'][fact]!s:>12} {rows['fast'][fact]!s:>12} {rows['triton'].get(fact)!s:>24}")
        print(flush=True)
    stamp = datetime.now(UTC).strftime("%Y-%m-%d-%H%M")
    output = options.output or RESULTS / f"{stamp}-gpu-static-{options.target}.json"
    output.write_text(json.dumps({"target": options.target, "warps": options.warps, "kernels": results}, indent=1) + "\n")
    print(f"written to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
