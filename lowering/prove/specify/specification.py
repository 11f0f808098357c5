"""Defines what a proof is about: the assumptions on sizes, the extents of arrays, and the grid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from .expressions import (
    Assumption,
    AtLaunch,
    Comparison,
    Elements,
    Expression,
    Joined,
    Name,
    Number,
    Ordered,
    Points,
    arrays_in,
    evaluate,
    holds,
    is_always_a_number,
    names_in,
    parse_assumption,
    parse_size,
)

GRID_NAMES = ("grid_x", "grid_y", "grid_z")


@dataclass(frozen=True, slots=True)
class Specification:
    """What launches a proof is about.

    Attributes:
        assume: comparisons of sizes, such as `n >= 1`, and of contents, such as `0 <= idx[:] < n`.
        extents: by name of a pointer parameter, the number of elements of its array.
        grid: the numbers of programs along x, y and z. `grid_x` is any number.
    """

    assume: tuple[str, ...]
    extents: tuple[tuple[str, str], ...]
    grid: tuple[str, str, str]

    @staticmethod
    def of(assume: object, extents: object, grid: object, taken: Collection[str] = ()) -> Specification:
        """Makes a specification of what users give. taken: names of parameters. Raises `UserError` for anything else."""
        if isinstance(assume, str):
            assume = [assume]
        texts = tuple(assume) if isinstance(assume, Iterable) and not isinstance(assume, bytes | bytearray) else (None,)
        if not all(isinstance(each, str) for each in texts):
            raise UserError(f"prove: assume={assume!r}: expected texts, as in assume=['n >= 1']")
        if not isinstance(extents, Mapping) or not all(isinstance(name, str) for name in extents):
            raise UserError(f"prove: extents={extents!r}: expected sizes by parameter, as in extents={{'x': 'n'}}")
        for name, size in extents.items():
            if isinstance(size, bool) or not isinstance(size, str | int):
                raise UserError(f"prove: extent of {name}: {size!r}: expected a size such as 'n * m', or a number")
        axes: Sequence[Any]
        if grid is None:
            axes = grid_names(taken)
        elif isinstance(grid, str | int):
            axes = (grid,)
        else:
            axes = tuple(grid) if isinstance(grid, Sequence) and not isinstance(grid, bytes | bytearray | memoryview) else ()
        if not 1 <= len(axes) <= 3 or any(isinstance(each, bool) or not isinstance(each, str | int) for each in axes):
            raise UserError(f"prove: grid={grid!r}: expected one to three sizes, as in grid=('cdiv(n, 32)', 'm')")
        x, y, z = [_one_line(str(each)) for each in (*axes, "1", "1", "1")[:3]]
        sizes = [(name, _one_line(str(size))) for name, size in extents.items()]
        return Specification(tuple([_one_line(str(text)) for text in texts]), tuple(sizes), (x, y, z))

    def parsed(self) -> ParsedSpecification:
        """Parses all expressions. Raises `UserError`."""
        return ParsedSpecification(
            tuple([(text, parse_assumption(text)) for text in self.assume]),
            {name: parse_size(text, f"extent of {name}") for name, text in self.extents},
            tuple([parse_size(text, f"grid, axis {'xyz'[axis]}") for axis, text in enumerate(self.grid)]),
            dict(self.extents),
        )

    def __str__(self) -> str:
        lines = [f"grid: {', '.join(self.grid)}"]
        lines += [f"extent of {name}: {size}" for name, size in self.extents]
        lines += [f"assume: {text}" for text in self.assume]
        return "\n".join(lines)

    @property
    def call(self) -> str:
        """The arguments of `Kernel.prove` that give this specification."""
        extents = ", ".join([f"{name!r}: {size!r}" for name, size in self.extents])
        assume = ", ".join([repr(text) for text in self.assume])
        grid = [axis for at, axis in enumerate(self.grid) if at == 0 or any(each != "1" for each in self.grid[at:])]
        return f"assume=[{assume}], extents={{{extents}}}, grid=({', '.join(map(repr, grid))},)"


def _one_line(text: str) -> str:
    """Returns an expression in one line, as proofs print it. It means the same: white space only separates its parts."""
    return " ".join(text.split())


def grid_names(taken: Collection[str]) -> tuple[str, str, str]:
    """Returns names for the numbers of programs along the axes that are no parameters'."""
    x, y, z = [_free_name(name, taken) for name in GRID_NAMES]
    return x, y, z


def _free_name(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


@dataclass(frozen=True, slots=True)
class ParsedSpecification:
    """A specification with its expressions parsed. texts: those of the extents."""

    assume: tuple[tuple[str, Assumption], ...]
    extents: Mapping[str, Expression]
    grid: tuple[Expression, ...]
    texts: Mapping[str, str]

    def names(self) -> list[str]:
        """Returns the names of all numbers that it mentions."""
        found: dict[str, None] = {}
        for _, assumption in self.assume:
            found.update(dict.fromkeys(names_in(assumption)))
        for expression in (*self.extents.values(), *self.grid):
            found.update(dict.fromkeys(names_in(expression)))
        return list(found)

    def ranges(self) -> dict[str, tuple[int | None, int | None]]:
        """Returns bounds of names, as far as single comparisons with numbers, extents and the grid give them."""
        found: dict[str, tuple[int | None, int | None]] = {}

        def narrow(name: str, low: int | None, high: int | None) -> None:
            before = found.get(name, (None, None))
            lows = [each for each in (before[0], low) if each is not None]
            highs = [each for each in (before[1], high) if each is not None]
            found[name] = (max(lows) if lows else None, min(highs) if highs else None)

        for left, relation, right in self._comparisons():
            for one, two, how in ((left, right, relation), (right, left, _MIRRORED[relation])):
                if not isinstance(one, Name) or any(True for _ in names_in(two)) or any(True for _ in arrays_in(two)):
                    continue
                try:
                    number = evaluate(two, {})
                except ZeroDivisionError:
                    continue
                match how:
                    case "<":
                        narrow(one.name, None, number - 1)
                    case "<=":
                        narrow(one.name, None, number)
                    case ">":
                        narrow(one.name, number + 1, None)
                    case ">=":
                        narrow(one.name, number, None)
                    case "==":
                        narrow(one.name, number, number)
        for extent in self.extents.values():
            if isinstance(extent, Name):
                narrow(extent.name, 0, None)
        for axis in self.grid:
            if isinstance(axis, Name):
                narrow(axis.name, 0, (1 << 31) - 1)
        return found

    def equations(self, numbers: Collection[str]) -> dict[str, Expression]:
        """Returns what names are by the assumptions: what is made of other ones. numbers: names of parameters.

        Of two names that are equal it is said of the one that is no parameter, whose range is not known.
        """
        found: dict[str, Expression] = {}
        for left, relation, right in self._comparisons():
            for one, two in ((left, right), (right, left)):
                if relation != "==" or not isinstance(one, Name) or not is_always_a_number(two) or one.name in names_in(two):
                    continue
                if not isinstance(two, Name) or two.name in numbers or one.name not in numbers:
                    found.setdefault(one.name, two)
                    break
        return found

    def _comparisons(self) -> Iterator[tuple[Expression, str, Expression]]:
        waiting = [assumption for _, assumption in self.assume]
        while waiting:
            match waiting.pop():
                case Comparison(relation, left, right):
                    yield left, relation, right
                case Joined("and", parts):
                    waiting += parts

    def contents(self) -> dict[str, list[tuple[str, Expression]]]:
        """Returns what is assumed of the elements of arrays: by name, pairs (relation, size); none where only an order is.

        Raises `UserError` for what is no bound and no order, or stands beside an `or`.
        """
        found: dict[str, list[tuple[str, Expression]]] = {}
        for text, assumption in self.assume:
            if not any(True for _ in arrays_in(assumption)):
                continue
            waiting = [assumption]
            while waiting:
                match waiting.pop():
                    case Joined("and", parts):
                        waiting += parts
                    case Comparison(relation, Elements(name), right) if relation != "!=" and not list(arrays_in(right)):
                        found.setdefault(name, []).append((relation, right))
                    case Comparison(relation, left, Elements(name)) if relation != "!=" and not list(arrays_in(left)):
                        found.setdefault(name, []).append((_MIRRORED[relation], left))
                    case Comparison() as other if not list(arrays_in(other)):
                        continue
                    case AtLaunch():
                        continue
                    case Ordered(_, Elements(name)):
                        found.setdefault(name, [])
                    case Points() as points:
                        found.update({name: found.get(name, []) for name in arrays_in(points)})
                    case _:
                        hint = "elements are compared with sizes, as in '0 <= idx[:] < n'"
                        raise UserError(f"prove: assumption {text!r}: {hint}")
        return found

    def _parts(self) -> Iterator[Assumption]:
        """Yields the assumptions that hold in every launch, those that are joined by `and` one by one."""
        waiting = [assumption for _, assumption in self.assume]
        while waiting:
            match waiting.pop():
                case Joined("and", parts):
                    waiting += parts
                case part:
                    yield part

    def ordered(self, how: str) -> frozenset[str]:
        """Returns the arrays of which an order of elements is assumed: "sorted" or "distinct"."""
        return frozenset([each.elements.name for each in self._parts() if isinstance(each, Ordered) and each.how == how])

    def points(self) -> dict[str, Expression]:
        """Returns how many bytes the arrays have that elements are addresses of, by the array of these elements."""
        return self._said_once(Points, "points({}[:], ...)")

    def starts(self) -> dict[str, Expression]:
        """Returns what all elements of arrays are when the launch begins, by name."""
        return self._said_once(AtLaunch, "at_launch({}[:])")

    def _said_once(self, kind: type[Points | AtLaunch], text: str) -> dict[str, Expression]:
        """Returns the sizes that assumptions of a kind say of arrays, by name. text: the assumption, for a message."""
        found: dict[str, Expression] = {}
        for part in self._parts():
            if isinstance(part, kind):
                name = part.elements.name
                if name in found:
                    raise UserError(f"prove: {text.format(name)} is assumed twice; fix: one of the two")
                found[name] = part.size
        return found

    def ranges_of_contents(self, values: Mapping[str, int]) -> dict[str, tuple[int | None, int | None]]:
        """Returns the least and the largest element of arrays, by name, for these values of names."""
        found: dict[str, tuple[int | None, int | None]] = {}
        for name, bounds in self.contents().items():
            low: int | None = None
            high: int | None = None
            for relation, size in bounds:
                number = evaluate(size, values)
                if relation in (">", ">=", "=="):
                    least = number + (relation == ">")
                    low = least if low is None else max(low, least)
                if relation in ("<", "<=", "=="):
                    most = number - (relation == "<")
                    high = most if high is None else min(high, most)
            found[name] = low, high
        return found

    def holds(self, values: Mapping[str, int]) -> bool:
        """Returns whether the assumptions about sizes hold, extents are not negative, and the grid can be launched."""
        try:
            if not all(holds(assumption, values) for _, assumption in self.assume):
                return False
            if any(evaluate(extent, values) < 0 for extent in self.extents.values()):
                return False
            return all(0 <= evaluate(axis, values) < 1 << 31 for axis in self.grid)
        except ZeroDivisionError:
            return False


_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

__all__ = ["GRID_NAMES", "Number", "ParsedSpecification", "Specification", "grid_names"]
