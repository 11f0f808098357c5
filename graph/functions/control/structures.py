"""Takes apart what loops carry: symbols in tuples, lists and dicts, and puts them together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError

_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Structure:
    """The form of a value without its leaves.

    Attributes:
        names: of the leaves, as Python writes their access: "state[0]['hidden']".
        form: nested containers; None is a leaf, () nothing.
    """

    names: tuple[str, ...]
    form: Any

    def put_together(self, leaves: Iterator[Any]) -> Any:
        """Return a value of this form."""
        return _joined(self.form, leaves)


def taken_apart(value: object, name: str, op: str) -> tuple[Structure, list[Any]]:
    """Return the form of a value and its leaves, in order. None stands for no leaf.

    Raises `UserError` for containers that are nested too deep.
    """
    names: list[str] = []
    leaves: list[Any] = []

    def form(value: object, name: str, depth: int) -> Any:
        if depth > _DEPTH:
            raise UserError(f"{op}: {name} is nested deeper than {_DEPTH}; fix: a flatter structure")
        if value is None:
            return ()
        if isinstance(value, (tuple, list)):
            make = value._make if hasattr(value, "_make") else type(value)
            return (make, tuple([form(entry, f"{name}[{number}]", depth + 1) for number, entry in enumerate(value)]))
        if isinstance(value, Mapping):
            keys = sorted(value, key=str)
            return (tuple(keys), tuple([form(value[key], f"{name}[{key!r}]", depth + 1) for key in keys]))
        names.append(name)
        leaves.append(value)
        return None

    found = form(value, name, 0)
    return Structure(tuple(names), found), leaves


def _joined(form: Any, leaves: Iterator[Any]) -> Any:
    if form is None:
        return next(leaves)
    if form == ():
        return None
    make, entries = form
    values = [_joined(entry, leaves) for entry in entries]
    if isinstance(make, tuple):
        return dict(zip(make, values, strict=True))
    found: Callable[[list[Any]], Any] = make
    return found(values)


def same_form(one: Structure, other: Structure) -> bool:
    """Return whether two values are nested alike; tuples and lists are alike."""
    return one.names == other.names
