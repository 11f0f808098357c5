"""The floating-point modes around generated code: looked at always, written only where they are others."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from joinery.lowering.llvm.host.float_modes import default_modes
from joinery.lowering.llvm.ir import Function
from joinery.lowering.llvm.module import Module
from joinery.lowering.target import HostTarget


@pytest.mark.parametrize(
    ("triple", "read", "write"),
    [("x86_64-unknown-linux-gnu", "stmxcsr", "ldmxcsr"), ("aarch64-unknown-linux-gnu", "mrs\t", "msr\t"), ("riscv64", "", "")],
)
def test_what_a_call_costs(triple: str, read: str, write: str) -> None:
    module = Module()
    module.declare("work", "void", [])
    f = Function(module, "run", [])
    with default_modes(f, HostTarget(triple, "", frozenset(), 16)):
        f.call("work", "void", [])
    f.ret()
    module.add(f)
    if not read:
        assert module.text().count("call") == 1
        return
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=2, reloc="pic")
    parsed = llvm.parse_assembly(module.text())
    parsed.triple = triple
    parsed.verify()
    lines = machine.emit_assembly(parsed).splitlines()
    assert sum(read in line for line in lines) == 1
    assert sum(write in line for line in lines) == 2
    conditional = [line for line in lines if line.strip().startswith(("jne", "je", "b.", "cbz", "cbnz", "tbnz", "tbz"))]
    assert conditional
