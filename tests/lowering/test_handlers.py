"""Tables of handlers, one for each way to carry out block kernels: no operation stands in two, and one that stands in none is
named."""

from __future__ import annotations

import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.llvm.host.kernel import lower_kernel
from joinery.lowering.llvm.module import Module
from joinery.lowering.llvm.nvptx import kernel as nvptx
from joinery.lowering.llvm.nvptx.targets import gpu_target
from joinery.lowering.target import HostTarget
from joinery.lowering.tt.dialect.functions import FuncOp
from joinery.lowering.tt.interpret.descriptors import DESCRIPTOR_EVALUATORS
from joinery.lowering.tt.interpret.effects import STEPS
from joinery.lowering.tt.interpret.evaluators import EVALUATORS
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.interpret.translation import STRUCTURED
from joinery.promotion.errors import UnsupportedError
from xdsl.dialects import test

TEXT = """
tt.func public @k(%p: !tt.ptr<i32>, %n: i32) {
  %block = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  tt.return
}
"""


TAKEN_OVER = {"arith.select", "tt.load", "tt.store"}
"""Operations that evaluators of descriptors and block pointers look at first, and hand on."""


def with_unknown(operands: str, results: str) -> FuncOp:
    """A function with an operation that nobody knows: n: the number, b: the block."""
    (function,) = [op for op in parse(TEXT, "<text>").walk() if isinstance(op, FuncOp)]
    block = function.body.block
    values = {"n": block.args[1], "b": next(iter(block.ops)).results[0]}
    unknown = test.TestOp([values[o] for o in operands], [values[r].type for r in results])
    assert block.last_op is not None
    block.insert_op_before(unknown, block.last_op)
    return function


def on_host(function: FuncOp) -> None:
    target = HostTarget("x86_64-unknown-linux-gnu", "haswell", frozenset({"fma", "f16c", "sse4.1"}), 32)
    lower_kernel(Module(), function, "k", target)


def on_gpu(function: FuncOp) -> None:
    nvptx.lower_to_threads(function, gpu_target("sm_90a"))


def interpreted(function: FuncOp) -> None:
    interpret(function, (1,), [np.zeros(4, np.int32), 3])


@pytest.mark.parametrize("run", [on_host, on_gpu, interpreted])
@pytest.mark.parametrize(
    ("operands", "results"), [("", ""), ("n", "n"), ("b", "b"), ("b", ""), ("nb", "b"), ("", "n"), ("n", "b"), ("b", "n")]
)
def test_an_operation_without_a_handler_is_named(run, operands: str, results: str) -> None:
    with pytest.raises(UnsupportedError, match=r"test\.op"):
        run(with_unknown(operands, results))


def test_no_operation_stands_in_two_tables() -> None:
    rooms = [table for name, table in vars(nvptx).items() if name.isupper() and isinstance(table, dict) and name != "HANDLERS"]
    assert len(rooms) > 10
    evaluators = {name: make for name, make in EVALUATORS.items() if name not in TAKEN_OVER}
    assert set(EVALUATORS) & set(DESCRIPTOR_EVALUATORS) == TAKEN_OVER
    for tables in (rooms, [DESCRIPTOR_EVALUATORS, evaluators, STEPS, dict.fromkeys(STRUCTURED)]):
        names = [name for table in tables for name in table]
        assert sorted(names) == sorted(set(names))
