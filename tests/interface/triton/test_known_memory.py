"""Which memory is known behind addresses, in every mode that looks: wherever it is held, and however the kernel gets them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

MODES = ["native", "checked", "interpret", "sanitize", "ptxsim"]
GUIDE = Path(__file__).parents[3] / "docs/guides/triton.md"
PROGRAM = """
import ctypes, gc, json, sys
import numpy as np, torch, triton, triton.language as tl, joinery.triton
mode, device = sys.argv[1:]
if device == "cuda":
    from joinery.interface.triton.testing.suites import Choices, prepare
    prepare(Choices("native" if mode == "checked" else mode, "cuda", "sm_90a", None, mode == "checked", 1))
elif mode == "checked":
    joinery.triton.enable("native", check_bounds=True)
else:
    joinery.triton.enable(mode)

F32 = tl.pointer_type(tl.float32)

@triton.jit
def copied(q, o, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(o + i, tl.load(q + i))

@triton.jit
def by_integers(t, o, N: tl.constexpr):
    copied(tl.load(t).to(tl.pointer_type(tl.float32)), o, N)

@triton.jit
def by_halves(t, o, N: tl.constexpr):
    low, high = tl.load(t).to(tl.int64) & 0xFFFFFFFF, tl.load(t + 1).to(tl.int64)
    copied((high << 32 | low).to(tl.pointer_type(tl.float32)), o, N)

@triton.jit
def by_bytes(t, o, N: tl.constexpr):
    address = tl.full((), 0, tl.int64)
    for i in range(8):
        address |= tl.load(t + i).to(tl.int64) << 8 * i
    copied(address.to(tl.pointer_type(tl.float32)), o, N)

@triton.jit
def by_number(address, o, N: tl.constexpr):
    copied(address.to(tl.int64).to(tl.pointer_type(tl.float32)), o, N)

@triton.jit
def by_tuple(pair, o, N: tl.constexpr):
    copied(tl.load(pair[1]).to(tl.pointer_type(tl.float32)), o, N)

@triton.jit
def by_pointer(q, o, N: tl.constexpr):
    copied(q, o, N)

@triton.jit
def by_two_tables(t, o, N: tl.constexpr):
    copied(tl.load(tl.load(t).to(tl.pointer_type(tl.int64))).to(tl.pointer_type(tl.float32)), o, N)

@triton.jit
def from_behind(t, o, N: tl.constexpr):
    copied(tl.load(t).to(tl.pointer_type(tl.float32)) - 48, o, N)

class Address:
    dtype = torch.float32
    def __init__(self, address): self.address = address
    def data_ptr(self): return self.address

def table(address, dtype=torch.int64):
    return torch.tensor([address]).view(dtype).to(device)

def two_tables(address):
    inner = table(address)
    kept.append(inner)
    return table(inner.data_ptr())

kept = []
WAYS = {
    "64-bit integers": (by_integers, table),
    "integers of 32 bits": (by_halves, lambda address: table(address, torch.int32)),
    "bytes": (by_bytes, lambda address: table(address, torch.uint8)),
    "a number": (by_number, lambda address: address),
    "a tuple": (by_tuple, lambda address: (1, table(address))),
    "an object with an address": (by_pointer, Address),
    "a table of tables": (by_two_tables, two_tables),
    "a view's end": (from_behind, lambda address: table(address + 4 * 48)),
}

def values():
    return torch.arange(5., 69.).to(device)

def frozen():
    found = values()
    gc.freeze()
    return found, found.data_ptr()

def of_storage():
    found = values().untyped_storage()
    return found, found.data_ptr()

HOLDERS = {
    "a tensor": lambda: (lambda x: (x, x.data_ptr()))(values()),
    "a view of one": lambda: (lambda x: (x, x.data_ptr() - 160))(values()[40:50].t()),
    "a storage": of_storage,
    "a gradient": lambda: (lambda x: (x, x.grad.data_ptr()))(graded()),
    "a frozen tensor": frozen,
}
ON_CPU = {
    "an array of NumPy": lambda: (lambda x: (x, x.ctypes.data))(np.arange(5, 69, dtype=np.float32)),
    "a view of an array": lambda: (lambda x: (x, x.ctypes.data - 160))(np.arange(5, 69, dtype=np.float32)[40:50]),
}

def graded():
    x = torch.zeros(64, device=device, requires_grad=True)
    x.grad = values()
    return x

def outcome(way, address, o):
    kernel, form = WAYS[way]
    try:
        kernel[(1,)](form(address), o, 64)
    except Exception as error:
        return type(error).__name__
    return "right" if o.tolist() == list(range(5, 69)) else "wrong"

found = {}
for holder, make in {**HOLDERS, **(ON_CPU if device == "cpu" else {})}.items():
    held, address = make()
    for way in WAYS:
        found[f"{holder}, {way}"] = outcome(way, address, torch.zeros(64, device=device))
    gc.unfreeze()
if mode != "native":
    gone = torch.zeros(1 << 16, device=device)
    address = gone.data_ptr()
    del gone
    for way in WAYS:
        short = torch.zeros(8, device=device)
        found[f"gone, {way}"] = outcome(way, address, torch.zeros(64, device=device))
        found[f"short, {way}"] = outcome(way, short.data_ptr(), torch.zeros(64, device=device))
print(json.dumps(found))
"""


def outcomes(mode: str, device: str, folder: Path) -> dict[str, str]:
    """How launches end, by what holds the memory and the way of the address."""
    (folder / "program.py").write_text(PROGRAM)
    surroundings = {**os.environ, "TRITON_CACHE_DIR": str(folder / "triton"), "HOME": str(folder)}
    command = [sys.executable, "program.py", mode, device]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings, cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("mode", MODES)
def test_all_modes_know_the_same_memory(mode: str, device: str, tmp_path: Path) -> None:
    found = outcomes(mode, device, tmp_path)
    refused = {case for case in found if case.startswith(("gone, ", "short, "))}
    assert len(refused) == (0 if mode == "native" else 16)
    assert {case: each for case, each in found.items() if case not in refused and each != "right"} == {}
    assert {case: found[case] for case in refused if found[case] in ("right", "wrong")} == {}


def test_the_guide_says_so() -> None:
    text = GUIDE.read_text()
    rows = text[text.index("<!-- known memory -->") : text.index("<!-- end of known memory -->")]
    holders = re.findall(r"^    \"(.+)\": ", PROGRAM[PROGRAM.index("HOLDERS = {") :], re.MULTILINE)
    ways = re.findall(r"^    \"(.+)\": ", PROGRAM[PROGRAM.index("WAYS = {") : PROGRAM.index("HOLDERS = {")], re.MULTILINE)
    assert (len(holders), len(ways)) == (7, 8)
    assert [each for each in (*holders, *ways) if each not in rows] == []
