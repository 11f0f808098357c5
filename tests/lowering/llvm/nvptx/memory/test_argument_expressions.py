"""Sizes of descriptors that a launch computes in the kernel's place: the same integers, or none."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.artifact import EXPRESSION_OPERATIONS, ArgumentExpression
from joinery.lowering.tt.analysis.hoistable_descriptors import hoistable_descriptors
from joinery.lowering.tt.transforms.pipeline import pipeline_of

from .....support.kernels.descriptors import launched, load, make, some, store, text_of

WIDTHS = (8, 16, 32, 64)


def random_arithmetic(rng: np.random.Generator) -> tuple[str, str]:
    """Lines, and the name of an i32 computed from parameters of several widths."""
    names = {width: [f"%p{width}"] for width in WIDTHS}
    lines = []
    binary = sorted(EXPRESSION_OPERATIONS - {"extsi", "extui", "trunci"})
    for number in range(int(rng.integers(2, 9))):
        kind, width = str(rng.choice(["constant", "cast", "binary", "binary"])), int(rng.choice(WIDTHS))
        name = f"%e{number}"
        if kind == "constant":
            value = int(rng.integers(-(1 << (width - 1)), 1 << (width - 1))) if rng.random() < 0.3 else int(rng.integers(-5, 9))
            lines.append(f"{name} = arith.constant {value} : i{width}")
        elif kind == "cast":
            other = int(rng.choice([each for each in WIDTHS if each != width]))
            operation = "trunci" if other > width else str(rng.choice(["extsi", "extui"]))
            lines.append(f"{name} = arith.{operation} {rng.choice(names[other])} : i{other} to i{width}")
        else:
            left, right = rng.choice(names[width]), rng.choice(names[width])
            lines.append(f"{name} = arith.{rng.choice(binary)} {left}, {right} : i{width}")
        names[width].append(name)
    width = next(width for width in rng.permutation(WIDTHS) if len(names[width]) > 1)
    last = names[width][-1]
    if width != 32:
        lines.append(f"%last = arith.{'trunci' if width > 32 else 'extsi'} {last} : i{width} to i32")
        last = "%last"
    return "\n".join(lines) + "\n", last


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))])
def test_a_launch_computes_what_the_kernel_does(seed: int) -> None:
    rng, valued = np.random.default_rng(seed), 0
    for _ in range(40):
        lines, last = random_arithmetic(rng)
        body = lines + make("x", "a", f"{last}, %n") + load("v", "x") + make("y", "b") + store("y", "v")
        body += f"tt.store %o, {last} : !tt.ptr<i32>\n"
        parameters = "%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %m: i32, %n: i32, %o: !tt.ptr<i32>, "
        kernel = jn.kernel.from_ttir(text_of(body, parameters + ", ".join(f"%p{width}: i{width}" for width in WIDTHS)))
        before, _ = pipeline_of("host").split("expand-descriptors")
        function = kernel._stages.after(before)
        found = next(each.source.extents[0] for each in hoistable_descriptors(function) if each.parameter == 0)
        for _ in range(4):
            numbers = [int(rng.integers(-(1 << (width - 1)), 1 << (width - 1))) for width in WIDTHS]
            numbers = [each if rng.random() < 0.5 else int(rng.integers(-3, 8)) for each in numbers]
            value = found.evaluate([0, 0, 8, 32, 0, *numbers])
            out = np.zeros(1, np.int32)
            kernel.interpret((1,), some(8, 32), np.zeros((8, 32), np.float32), 8, 32, out, *numbers)
            valued += value is not None
            assert value in (None, out[0]), (lines, numbers)
    assert valued > 80


@pytest.mark.parametrize(
    ("operation", "left", "right", "value"),
    [("divsi", 5, 0, None), ("remui", 5, 0, None), ("shli", 5, 32, None), ("shrui", 5, -1, None), ("divsi", -7, 2, -3),
     ("divui", -7, 2, 2147483644), ("shrui", -1, 28, 15), ("addi", 2147483647, 1, -2147483648), ("minui", -1, 3, 3)],
)  # fmt: skip
def test_values_of_expressions(operation: str, left: int, right: int, value: int | None) -> None:
    expression = ArgumentExpression((("argument", 32, 1), ("argument", 32, 0), (operation, 32, 0)))
    assert expression.evaluate([right, left]) == value
    assert expression.arguments == {0, 1}
    assert not expression.problem(lambda number: number < 2)


def test_arguments_are_as_wide_as_their_parameter() -> None:
    assert ArgumentExpression.argument(0, 32).evaluate([(1 << 32) - 4]) == -4
    assert ArgumentExpression((("argument", 8, 0), ("extui", 8, 0))).evaluate([-1]) == 255


def test_expressions_have_a_limit() -> None:
    body = "%s0 = arith.addi %m, %n : i32\n"
    body += "".join(f"%s{number} = arith.addi %s{number - 1}, %s0 : i32\n" for number in range(1, 40))
    body += make("x", "a", "%s39, %n") + make("y", "b", "%eight, %n") + load("v", "x") + store("y", "v")
    kernel = jn.kernel.from_ttir(text_of(body))
    assert launched(kernel, (1,), some(40 * 32, 32), np.zeros((8, 32), np.float32), 0, 32) == 1
