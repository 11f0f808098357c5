"""Composes messages for mistakes made while building.

A message names the op, its operands with their origin, what was expected, and one fix.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from ..promotion.errors import UserError
from ..promotion.literals import is_scalar
from .checks import ShapeError
from .protocols import SymbolLike
from .types import shape_text


def describe(operand: object) -> str:
    """Describe one operand for a message: what it is, its dtype and shape, and the user's line."""
    text = getattr(operand, "describe", None)
    if callable(text):
        return str(text())
    if is_scalar(operand):
        return f"literal {operand!r}"
    dtype, shape = getattr(operand, "dtype", None), getattr(operand, "shape", None)
    if dtype is not None and isinstance(shape, tuple):
        return f"array {dtype} {shape_text(shape)}"
    return f"{type(operand).__name__} {operand!r:.60}"


def compose(problem: str, operands: Sequence[object] = (), expected: str = "", fix: str = "") -> str:
    lines = [problem]
    lines += [f"  operand {position}: {describe(operand)}" for position, operand in enumerate(operands)]
    if expected:
        lines.append(f"  expected: {expected}")
    if fix:
        lines.append(f"  fix: {fix}")
    return "\n".join(lines)


def mistake(
    op: str, problem: str, operands: Sequence[object] = (), expected: str = "", fix: str = ""
) -> UserError:
    """Return the error for a wrong use of `op`."""
    return UserError(compose(f"{op}: {problem}", operands, expected, fix))


def completed(op: str, operands: Sequence[object], error: ShapeError) -> UserError:
    """Return a `ShapeError` as a `UserError` with the op and its operands."""
    return mistake(op, error.problem, operands, error.expected, error.fix)


class describing:
    """A context that completes a `ShapeError` raised inside with the op and its operands, which are symbols.

    `with describing("reshape", x): …` also drops the runtime checks that were recorded inside before an
    error.
    """

    __slots__ = ("_checks", "_count", "op", "operands")

    def __init__(self, op: str, *operands: SymbolLike) -> None:
        self.op, self.operands = op, operands

    def __enter__(self) -> None:
        self._checks = self.operands[0].graph.shape_checks
        self._count = len(self._checks)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._checks.truncate(self._count)
        if isinstance(error, ShapeError):
            raise completed(self.op, self.operands, error) from None
