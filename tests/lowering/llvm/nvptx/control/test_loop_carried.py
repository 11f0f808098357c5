"""Which blocks of pointers a loop carries as they are."""

from __future__ import annotations

import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.llvm.nvptx.control.loop_carried import CarriedPointers
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.transforms.pipeline import pipeline_of
from xdsl.dialects import scf

from .....support.kernels.products import Product


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("elem", "threads", "multiple", "few"),
    [
        ("f16", 128, 16, False),  # 128 x 64 in accesses of 8: eight for each thread
        ("f16", 256, 16, True),
        ("f16", 256, 4, False),  # of 4
        ("f16", 512, 4, True),
        ("f16", 1024, 1, False),  # one by one
        ("f32", 256, 16, False),
        ("f32", 512, 16, True),
    ],
)
@pytest.mark.parametrize(("a_transposed", "b_transposed"), [(False, False), (True, True)])
def test_few_pointers_per_thread(
    elem: str, threads: int, multiple: int, few: bool, a_transposed: bool, b_transposed: bool
) -> None:
    text = Product(128, 128, 64, elem, "f32", a_transposed, b_transposed, multiple=multiple).text
    function = find_function(parse(text), "product")
    pipeline_of("host").run(function)
    (loop,) = [op for op in function.walk() if isinstance(op, scf.ForOp)]
    pointers = [argument for argument in loop.body.blocks[0].args if "ptr" in str(argument.type)]
    assert len(pointers) == 2
    carried = CarriedPointers(function, threads)
    assert [carried.are_few(each) for each in pointers] == [few, few]
    assert not any(carried.are_few(each) for each in loop.body.blocks[0].args if each not in pointers)
