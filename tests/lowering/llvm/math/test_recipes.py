"""The table of elementary functions: what derives from it, and a function that is added to it."""

from pathlib import Path

import numpy as np
import pytest
from joinery.graph.ops.table import OPS
from joinery.lowering.llvm.host.nodes import COST
from joinery.lowering.llvm.ir import Function
from joinery.lowering.llvm.math import recipes
from joinery.lowering.llvm.math.lanes import Lanes
from joinery.lowering.llvm.math.library import FILLED_BY, MATH, MATH_NAMES, emit_math
from joinery.lowering.llvm.math.recipes import FUNCTIONS, MathFunction, names_with, recipe, recipe_of
from joinery.lowering.llvm.values import V
from joinery.lowering.tt.interpret.numerics import ELEMENTARY, FLOAT
from joinery.lowering.tt.transforms.expand.expand_library import _COMPOSED
from joinery.promotion.errors import InternalError, UnsupportedError

from ....support.native_code import MapKernel


@pytest.fixture
def table(monkeypatch):
    """What is added goes again."""
    monkeypatch.setattr(recipes, "FUNCTIONS", dict(FUNCTIONS))
    monkeypatch.setattr(recipes, "_RECIPES", dict(recipes._RECIPES))


def _softsign(lane: Lanes, x: V) -> V:
    return lane.div(x, lane.add(lane.abs(x), 1.0))


@pytest.mark.usefixtures("table")
def test_one_recipe_in_double_serves_both_types():
    recipe("softsign", "double", instructions=7)(_softsign)
    assert recipes.FUNCTIONS["softsign"] == MathFunction(1, ("math.softsign",), 7)
    assert recipes.instructions_by_op()["math.softsign"] == 7
    for name, dtype in (("float", np.float32), ("double", np.float64)):
        x = np.linspace(-50, 50, 1001).astype(dtype)
        emit = recipe_of("softsign", name, "approximate")
        got = MapKernel(lambda fn, v, emit=emit: emit(Lanes(fn, v.type), v), [name], name)(x)
        wide = x.astype(np.float64)
        np.testing.assert_array_equal(got, (wide / (1 + np.abs(wide))).astype(dtype))


@pytest.mark.usefixtures("table")
def test_a_form_that_is_missing_falls_back_to_the_accurate_one():
    recipe("softsign", "float")(_softsign)
    for form in ("short", "weight", "approximate", "reduced", "portable"):
        assert recipe_of("softsign", "float", form) is _softsign
    recipe("softsign", "float", form="short")(Lanes.abs)
    assert recipe_of("softsign", "float", "weight") is Lanes.abs
    assert recipe_of("softsign", "float", "approximate") is _softsign
    assert "softsign" in names_with("short")


@pytest.mark.usefixtures("table")
def test_a_second_recipe_is_refused():
    with pytest.raises(InternalError, match="two recipes of exp, float, accurate"):
        recipe("exp", "float")(_softsign)


def test_what_has_no_recipe_is_named():
    with pytest.raises(UnsupportedError, match="no function 'gamma' of float; they have abs, acos"):
        recipe_of("gamma", "float", "accurate")


def test_functions_of_the_op_table_have_a_recipe_and_a_meaning_in_the_interpreter():
    named = {text for row in OPS.values() for kind, text in row.emit.items() if kind == "float" and text.startswith("math.")}
    assert len(named) > 15
    assert not named - set(MATH)
    assert not named - {*ELEMENTARY, *FLOAT}


def test_costs_derive_from_the_recipes():
    assert {name for name in MATH_NAMES if FUNCTIONS[name].instructions} == {MATH[op] for op in COST if op in MATH}
    assert COST["math.powf"] == FUNCTIONS["pow"].instructions == 40


def test_every_file_of_recipes_is_loaded():
    """`emit_math` sees all recipes: a file that nobody imports would add none."""
    folder = recipes.__file__.removesuffix("recipes.py")
    having = {each.__name__.rsplit(".", 1)[1] for each in FILLED_BY}
    found = {path.stem for path in Path(folder).glob("*.py") if "\n@recipe(" in path.read_text(encoding="utf-8")}
    assert found == {*having, "library"}


def test_a_new_function_is_emitted_by_name(table):
    recipe("softsign", "double")(_softsign)

    def emit(fn: Function, x: V) -> V:
        return emit_math(fn, "softsign", x)

    x = np.float64([-3, -0.0, 1e300, np.inf, np.nan])
    np.testing.assert_array_equal(MapKernel(emit, ["double"], "double")(x), [-0.75, -0.0, 1, np.nan, np.nan])


def test_every_meaning_is_native_or_composed():
    """What the interpreter has a meaning for reaches every back end."""
    assert {name for name in ELEMENTARY if name not in MATH} <= _COMPOSED - {"math.round"}
