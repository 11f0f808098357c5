"""Computes the sizes of named dims from the extents of arrays, for the evaluator and compiled models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from .dim import MAX_ATOM, Dim, Extent, evaluate_dim
from .long import parse_long


def parse_extent(size: int | str) -> Extent:
    """Parse a size as compiled graphs hold it: an int, or the text of a `Dim`.

    Raises `UserError` for other text.
    """
    return size if isinstance(size, int) else Dim.parse(size)


def extent_at(size: int | str, dims: Mapping[str, int]) -> int:
    """Return the value of a size as compiled programs hold it. Raises `UserError` for a dim without one."""
    extent = parse_long(size) if isinstance(size, str) and len(size) > MAX_ATOM else parse_extent(size)
    return evaluate_dim(extent, dims)


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """The shape of an input beside the one that it is declared with."""

    name: str
    declared: tuple[Extent, ...]
    given: tuple[int, ...]

    def axis(self, number: int) -> str:
        return f"input {self.name!r} axis {number}"


@dataclass(frozen=True, slots=True)
class _Equation:
    """An equation `size = extent`, from an axis whose size is an expression."""

    size: Dim
    extent: int
    axis: str


def bind_dims(shapes: Iterable[ArrayShape], what: str) -> dict[str, int]:
    """Return the size of every dim that the shapes mention; ranks must agree already.

    A dim that occurs only inside expressions ("2*batch") is solved for where one extent determines it. Raises
    `UserError`, which begins with `what` and names the inputs and axes that disagree.
    """
    dims: dict[str, int] = {}
    origins: dict[str, str] = {}
    equations: list[_Equation] = []
    for shape in shapes:
        for axis, (size, extent) in enumerate(zip(shape.declared, shape.given, strict=True)):
            if isinstance(size, int):
                if size != extent:
                    raise UserError(
                        f"{what}: input {shape.name!r} expects shape {shape_pattern(shape.declared)}, got {shape.given}: "
                        f"axis {axis} is {extent}, not {size}; fix: pass an array of that shape"
                    )
            elif (name := size.name) is None:
                equations.append(_Equation(size, extent, shape.axis(axis)))
            elif name not in dims:
                dims[name] = extent
                origins[name] = shape.axis(axis)
            elif dims[name] != extent:
                raise UserError(
                    f"{what}: {name} is {dims[name]} from {origins[name]} but {extent} from {shape.axis(axis)}; "
                    f"fix: pass inputs whose {name!r} axes agree, or give one of them another name in the graph"
                )
    _solve_all(equations, dims, origins)
    for equation in equations:
        _check(equation, dims, origins, what)
    return dims


def shape_pattern(shape: Sequence[Extent]) -> str:
    """Return a shape as text, such as `(batch, 784)`, in the way Python prints tuples."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def solve(size: Dim, extent: int, dims: Mapping[str, int]) -> tuple[str, int] | None:
    """Solve `size = extent` for the only dim that `dims` lacks, and return its name and size.

    The result is None if several are missing, the dim is not linear in `size`, or the solution is no size.
    """
    unknown = size.symbols() - dims.keys()
    if len(unknown) != 1:
        return None
    (name,) = unknown
    at_zero, at_one = (size.evaluate({**dims, name: point}) for point in (0, 1))
    slope = at_one - at_zero
    if slope == 0 or (extent - at_zero) % slope:
        return None
    found = (extent - at_zero) // slope
    if found < 0 or size.evaluate({**dims, name: found}) != extent:
        return None
    return name, found


def _solve_all(equations: Sequence[_Equation], dims: dict[str, int], origins: dict[str, str]) -> None:
    """Bind dims that occur in expressions only, until no equation determines another one."""
    progress = True
    while progress:
        progress = False
        for equation in equations:
            solution = solve(equation.size, equation.extent, dims)
            if solution is not None:
                name, dims[solution[0]] = solution
                origins[name] = f"{equation.size} = {equation.extent}, {equation.axis}"
                progress = True


def _check(equation: _Equation, dims: Mapping[str, int], origins: Mapping[str, str], what: str) -> None:
    size, extent = equation.size, equation.extent
    unknown = sorted(size.symbols() - dims.keys())
    if unknown:
        raise UserError(
            f"{what}: {equation.axis} is {extent}, but {size} does not determine {unknown[0]!r}; "
            f"fix: an input that has {unknown[0]!r} itself as an axis, or an extent that {size} can take"
        )
    value = size.evaluate(dims)
    if value != extent:
        known = ", ".join(f"{name} = {dims[name]} from {origins[name]}" for name in sorted(size.symbols()))
        raise UserError(
            f"{what}: {equation.axis} must be {size} = {value} ({known}), got {extent}; "
            "fix: pass arrays whose shapes satisfy the dim expressions"
        )
