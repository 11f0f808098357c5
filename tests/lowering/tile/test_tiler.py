"""Programs and launches: determinism, sharing, signatures, parameter order, costs."""

from dataclasses import replace

import numpy as np
from joinery.graph.dims.dim import dim
from joinery.lowering.choices.kernel_schedules import kernel_names
from joinery.lowering.tile.schedule import Schedule
from joinery.lowering.tile.signature import signature
from joinery.lowering.tile.tile import Tiler, tile
from joinery.lowering.tt.canonical import canonical_text
from joinery.lowering.tt.printing import print_module
from joinery.promotion.dtype import bool_, float32, float64


def softmax_nest(body, rows=5, columns=40, names="ij"):
    b = body(**dict(zip(names, (rows, columns), strict=True)))
    x = b.load(np.zeros(1, np.float32), list(names), shape=(rows, columns))
    powers = b.op("exp", b.op("sub", x, b.reduce("max", x, names[1])))
    b.store(b.op("div", powers, b.reduce("sum", powers, names[1])), list(names), shape=(rows, columns))
    return b.nest()


def test_the_same_nest_gives_the_same_text(body):
    first, second = (tile(softmax_nest(body))[0] for _ in range(2))
    assert print_module(first.func) == print_module(second.func)
    assert first.key == second.key


def test_equal_nests_share_a_program(body):
    tiler = Tiler()
    first, one = tiler.tile(softmax_nest(body))
    second, other = tiler.tile(softmax_nest(body, names="ab"))
    assert first is second
    assert len(tiler.programs) == 1
    assert one.grid == other.grid
    third, _ = tiler.tile(softmax_nest(body, columns=41))
    assert third is not first
    assert third.key != first.key
    assert len({program.name for program in tiler.programs}) == 2


def test_runtime_sizes_share_a_program_but_not_a_launch(body):
    tiler = Tiler()
    first, one = tiler.tile(softmax_nest(body, dim("n"), dim("m")))
    second, other = tiler.tile(softmax_nest(body, dim("rows"), 2 * dim("columns")))
    assert first is second
    assert one.scalars == (dim("n"), dim("m"))
    assert other.scalars == (dim("rows"), 2 * dim("columns"))
    assert str(other.grid) == "rows"
    square, _ = tiler.tile(softmax_nest(body, dim("n"), dim("n")))
    assert square is not first


def test_signatures_see_structure_not_names(body):
    nest = softmax_nest(body)
    assert signature(nest) == signature(softmax_nest(body, names="xy"))
    assert signature(nest) == signature(replace(nest, fused=("softmax",), symbols=(3,)))
    assert signature(nest) != signature(softmax_nest(body, rows=6))
    b = body(i=4)
    b.store(b.const(1.0, float32), ["i"])
    c = body(i=4)
    c.store(c.const(-0.0, float32), ["i"])
    d = body(i=4)
    d.store(d.const(0.0, float32), ["i"])
    assert len({signature(x.nest()) for x in (b, c, d)}) == 3


def test_schedules_make_different_programs(body):
    tiler = Tiler()
    nest = softmax_nest(body)
    first, _ = tiler.tile(nest, Schedule(((1, 64),)))
    second, _ = tiler.tile(nest, Schedule(((1, 16),)))
    assert first.key != second.key
    again, _ = tiler.tile(nest, Schedule(((1, 16),)))
    assert again is second


def test_parameters_are_pointers_then_sizes(body):
    b = body(i=dim("n"))
    x = b.load(np.zeros(1, np.bool_), ["i"], bool_, shape=(dim("n"),))
    y = b.load(np.zeros(1), ["i"], kind="constant", shape=(dim("n"),))
    b.store(b.op("where", x, y, b.const(0.0, float64)), ["i"])
    program, launch = tile(b.nest())
    types = [str(argument.type) for argument in program.func.body.block.args]
    assert types == ["!tt.ptr<i8>", "!tt.ptr<f64>", "!tt.ptr<f64>", "i64"]
    assert (program.pointers, program.scalars) == (3, 1)
    assert [(buffer.kind, buffer.index) for buffer in launch.buffers] == [
        ("input", 0),
        ("constant", 0),
        ("output", 0),
    ]
    facts = [dict(attrs.data) for attrs in program.func.properties["arg_attrs"]]
    assert [str(attrs.get("tt.divisibility")) for attrs in facts] == ["None", "64 : i32", "64 : i32", "None"]


def test_costs_count_distinct_elements_and_operations(body):
    b = body(i=10, j=20)
    x = b.load(np.zeros((10, 20)), ["i", "j"])
    total = b.op("add", b.op("mul", x, b.load(np.zeros(20), ["j"])), x)
    b.store(b.reduce("sum", total, "j"), ["i"])
    _, launch = tile(b.nest())
    assert launch.bytes_read == 8 * (200 + 20)
    assert launch.bytes_written == 8 * 10
    assert launch.flops == 3 * 200
    nest = softmax_nest(body, dim("n"), 4)
    assert str(tile(nest)[1].bytes_written) == "16*n"


def test_names_tell_the_template_and_what_is_fused(body):
    nest = replace(softmax_nest(body), fused=("exp", "div", "exp"))
    other = softmax_nest(body, columns=41)
    assert kernel_names([nest, other, nest]) == ("row_exp_div_0", "row_1", "row_exp_div_0")
    program, launch = tile(nest, name="row_exp_div_0")
    assert launch.fused == ("exp", "div", "exp")
    assert program.tiles == (("i", 8), ("j", 64))
    assert program.func.sym_name.data == program.name
    renamed, _ = tile(nest, name="softmax")
    assert renamed.name == "softmax"
    assert canonical_text(renamed.func) == canonical_text(program.func)
