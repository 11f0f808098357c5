"""Index arithmetic against the layouts it computes."""

from __future__ import annotations

import itertools
import random

import pytest
from joinery.lowering.linear_layouts.arithmetic import Term, index_arithmetic
from joinery.lowering.linear_layouts.distributed import blocked, default_blocked, dot_operand, mma_accumulator
from joinery.lowering.linear_layouts.layout import LinearLayout

RANDOM = random.Random(2)
LAYOUTS = [
    default_blocked((64, 64), 4, 16),
    blocked((4, 8), (1, 4), (2, 16), (2, 2), (1, 0)),
    mma_accumulator((64, 64), (2, 2)),
    dot_operand((64, 64), "b", (2, 2), 16),
    *(
        LinearLayout.of(
            {
                n: [RANDOM.randrange(64) for _ in range(c)]
                for n, c in (("register", 2), ("lane", 5), ("warp", 2))
            },
            (8, 8),
        )
        for _ in range(6)
    ),
    LinearLayout.of({"lane": [0] * 5}, (1,)),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_expressions_compute_the_coordinates(layout: LinearLayout) -> None:
    strides = [4 << i for i in range(len(layout.shape))]
    expressions = index_arithmetic(layout, strides)
    for lane, warp in itertools.product(range(layout.size("lane")), range(layout.size("warp"))):
        for axis, expression in enumerate(expressions):
            threads = [each.at(lane if each.dim == "lane" else warp) for each in expression.terms]
            start = expression.at(0, lane=lane, warp=warp)
            if expression.disjoint:
                assert sum(threads) == start
            for register in range(layout.size("register")):
                want = layout.apply(register=register, lane=lane, warp=warp)[axis] * strides[axis]
                assert expression.at(register, lane=lane, warp=warp) == want


def test_a_run_of_bits_is_one_term() -> None:
    rows, columns = index_arithmetic(blocked((32, 64), (1, 4), (2, 16), (4, 1), (1, 0)))
    assert columns.terms == (Term("lane", 0b01111, 2),)
    assert rows.terms == (Term("lane", 0b10000, -4), Term("warp", 0b11, 1))
    assert rows.disjoint
    assert rows.constants == (0, 0, 0, 0, 8, 8, 8, 8, 16, 16, 16, 16, 24, 24, 24, 24)


def test_misuse_is_named() -> None:
    with pytest.raises(ValueError, match="1 strides for 2 dims"):
        index_arithmetic(LAYOUTS[0], [4])
    with pytest.raises(ValueError, match="stride 3"):
        index_arithmetic(LAYOUTS[0], [4, 3])
