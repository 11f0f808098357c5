"""The table of elementary functions that back ends expand inline, filled by the modules that hold the recipes.

    @recipe("expm1", "float", instructions=20)
    def expm1(lane: Lanes, x: V) -> V: ...

The other properties of functions derive from it: the operations of the block IR that they are, their cost, and the forms
for uses that need less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

from ....promotion.dataclass import dataclass
from ....promotion.errors import InternalError, UnsupportedError
from ..values import V

Recipe = Callable[..., V]
"""Emits a function: (lanes, operands …) → result."""
AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)
Element = Literal["float", "double"]
Form = Literal["accurate", "short", "weight", "approximate", "reduced", "portable"]

_TRIED: dict[Form, tuple[Form, ...]] = {
    "accurate": ("accurate",),
    "short": ("short", "accurate"),
    "weight": ("weight", "short", "accurate"),
    "approximate": ("approximate", "accurate"),
    "reduced": ("reduced", "accurate"),
    "portable": ("accurate",),
}
"""Maps the form that is asked for to the forms that serve, best first."""


@dataclass(frozen=True, slots=True)
class MathFunction:
    """The properties that all forms of a function share.

    Attributes:
        operands: their number; all have one type, that of the result.
        ops: operations of the block IR that are this function.
        instructions: a rough count for one element; 0 where it is not known, which counts as 1.
    """

    operands: int
    ops: tuple[str, ...]
    instructions: int


FUNCTIONS: dict[str, MathFunction] = {}
_RECIPES: dict[tuple[str, str, Form], Recipe] = {}


def recipe(
    name: str,
    *elements: Element,
    form: Form = "accurate",
    operands: int = 1,
    ops: tuple[str, ...] | None = None,
    instructions: int = 0,
) -> Callable[[AnyRecipe], AnyRecipe]:
    """Registers the recipe of a function for these element types.

    The first accurate recipe states `operands`, `ops` (`math.<name>` by default) and `instructions` of the function. Raises
    `InternalError` for a second recipe of the same function, element type and form.
    """

    def register(emit: AnyRecipe) -> AnyRecipe:
        if form == "accurate" and name not in FUNCTIONS:
            FUNCTIONS[name] = MathFunction(operands, (f"math.{name}",) if ops is None else ops, instructions)
        for element in elements:
            if (name, element, form) in _RECIPES:
                raise InternalError(f"two recipes of {name}, {element}, {form}")
            _RECIPES[name, element, form] = emit
        return emit

    return register


def recipe_of(name: str, element: str, form: Form) -> Recipe:
    """Returns the best recipe there is. A function without one for float is computed in double and rounded.

    Raises `UnsupportedError` for names that are no function, or none of that type.
    """
    for each in _TRIED[form]:
        found = _RECIPES.get((name, element, each))
        if found is not None:
            return found
    wide = _RECIPES.get((name, "double", "accurate"))
    if wide is None:
        raise UnsupportedError(
            f"the back ends have no function {name!r} of {element}; they have {', '.join(sorted(FUNCTIONS))}"
        )
    return lambda lane, *xs: lane.narrow(wide(lane.wide(), *map(lane.widen, xs)))


def names_with(form: Form) -> frozenset[str]:
    """Returns the functions that have a form of their own for float."""
    return frozenset([name for name, _, has in _RECIPES if has == form])


def instructions_by_op() -> dict[str, int]:
    """Maps operations of the block IR that are functions to instructions per element, where they are known."""
    return {op: each.instructions for each in FUNCTIONS.values() for op in each.ops if each.instructions}
