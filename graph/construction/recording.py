"""Records the calls of the user, one by one.

The record serves to build a graph again (`promote/what_if.py`), to undo a call that failed, and to find the
checks that belong to what the outputs need. Only the outermost call counts: `sum` of an int8 tensor is a
cast, a reduction and another cast, whose dtypes the rule set decides, but one call. Public functions, the
methods and operators of `Symbol` and the building methods of `Graph` are `recorded`; what they call inside is
not.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeGuard, TypeVar, cast

import numpy as np

from .. import constants
from ..checks import Check
from ..location import Location, user_location
from ..protocols import GraphLike, SymbolLike
from .history import mark, rewind
from .keywords import explained, is_of_call

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

OWNERS: dict[type, Callable[[Any], Recording]] = {}
"""Types that have a graph → a function that returns it: `Symbol` and `Graph`, which register themselves."""

_SAME_UNDER_ALL_RULES = frozenset((
    "input", "constant", "scalar", "weight", "dim_value", "as_symbol", "apply", "output", "reshape", "permute", "transpose",
    "T", "broadcast_to", "__getitem__", "expand", "squeeze", "unsqueeze", "flatten", "flip", "slice_tensor", "rebind", "size",
    "shape_to_tensor", "concat", "stack", "split", "chunk", "tile", "repeat_interleave", "pad", "gather", "take_along_axis",
))  # fmt: skip
"""Functions that return an operand itself or an earlier symbol for reasons that no rule set influences."""


_NOTHING: Mapping[str, object] = MappingProxyType({})
_PLAIN = frozenset((int, float, bool, str, type(None)))


class Call(NamedTuple):
    """A finished call.

    Attributes:
        arguments, options: as they were given, but with read-only arrays, which nothing changes later.
        start: the first symbol it made, if any.
        checks: the runtime checks it added.
    """

    function: Callable[..., object]
    arguments: tuple[object, ...]
    options: Mapping[str, object]
    result: object
    start: int
    location: Location
    checks: tuple[Check, ...]


class Journal:
    """The calls of one graph.

    While `busy`, a call is part of another one; a graph that no user builds stays busy.
    """

    __slots__ = ("arrays", "busy", "calls")

    def __init__(self) -> None:
        self.busy = False
        self.calls: list[Call] = []
        self.arrays: dict[int, SymbolLike] = {}

    def saw(self, array: object, symbol: SymbolLike) -> None:
        """Note that the running call made `symbol` of this array.

        The symbol holds the array's contents at that time.
        """
        if self.busy and isinstance(array, np.ndarray):
            self.arrays[id(array)] = symbol

    def kept(self, value: object) -> object:
        """Return an argument in a form that does not change: containers are copied, arrays are read-only."""
        if type(value) in OWNERS or type(value) in _PLAIN:
            return value
        if isinstance(value, (tuple, list)):
            return rebuilt(value, self.kept)
        if isinstance(value, dict):
            return {key: self.kept(entry) for key, entry in value.items()}
        if isinstance(value, np.ndarray):
            known = self.arrays.get(id(value))
            return constants.frozen(value) if known is None else known.attrs["value"]
        return value


class Recording(GraphLike[SymbolLike], Protocol):
    """A graph that records the calls of its user."""

    @property
    def journal(self) -> Journal: ...


def rebuilt(value: tuple[object, ...] | list[object], each: Callable[[object], object]) -> object:
    """Return a tuple or list of the same type with every entry replaced."""
    entries = [each(entry) for entry in value]
    return value._make(entries) if hasattr(value, "_make") else type(value)(entries)


def recorded(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return the public form of a function: the graph records calls, and those that fail leave no trace."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        if arguments:
            owner = OWNERS.get(type(arguments[0]))
            if owner is not None and owner(arguments[0]).journal.busy:
                return function(*arguments, **options)
        graphs: list[Recording] = []
        _collect(arguments, graphs)
        if options:
            _collect(options.values(), graphs)
        if not graphs or graphs[0].journal.busy:
            return function(*arguments, **options)
        return cast(Result, perform(graphs, function, arguments, options))

    call.is_recorded = True  # type: ignore[attr-defined]
    return call


def perform(
    graphs: list[Recording], function: Callable[..., object], arguments: tuple[object, ...], options: Mapping[str, object]
) -> object:
    """Make a call and record it in the first graph.

    If it raises, all graphs return to their state before it.
    """
    graph = graphs[0]
    journal = graph.journal
    marks = [(each, mark(each)) for each in graphs if not each.journal.busy]
    for each, _ in marks:
        each.journal.busy = True
    finished, start, known = graph.finished, len(graph.symbols), len(graph.shape_checks)
    try:
        result = function(*arguments, **options)
        if finished or result is NotImplemented:
            rewind(graph, marks[0][1])
            return result
        location = graph.symbols[start].location if start < len(graph.symbols) else graph.current_location or user_location()
        if function.__name__ not in _SAME_UNDER_ALL_RULES:
            result = _told_apart(result, start)
        stated = tuple(graph.shape_checks.entries[known:])
        kept = {name: journal.kept(value) for name, value in options.items()} if options else _NOTHING
        given = tuple([journal.kept(value) for value in arguments])
        journal.calls.append(Call(function, given, kept, result, start, location, stated))
        return result
    except BaseException as error:
        for each, before in marks:
            rewind(each, before)
        if options and isinstance(error, TypeError) and is_of_call(error):
            raise explained(error, function, options) from None
        raise
    finally:
        for each, _ in marks:
            each.journal.busy = False
        journal.arrays.clear()


def _is_symbol(value: object) -> TypeGuard[SymbolLike]:
    """Return whether the value belongs to a graph and is none."""
    owner = OWNERS.get(type(value))
    return owner is not None and owner(value) is not value


def symbols_in(value: object) -> Iterable[SymbolLike]:
    """Yield the symbols of a value, also those inside sequences and mappings."""
    if _is_symbol(value):
        yield value
    elif isinstance(value, (tuple, list)):
        for entry in value:
            yield from symbols_in(entry)
    elif isinstance(value, Mapping):
        for entry in value.values():
            yield from symbols_in(entry)


def _told_apart(result: object, start: int) -> object:
    """Replace symbols that were there before the call by aliases.

    A cast to the dtype of its operand returns the operand, but under other rules it may be a cast. The
    operand and the result are then two objects for one symbol, so that later calls record which of the two
    they take.
    """
    if _is_symbol(result):
        return result.alias() if result.id < start else result
    if isinstance(result, (tuple, list)):
        return rebuilt(result, lambda entry: _told_apart(entry, start))
    return result


def _collect(values: Iterable[object], graphs: list[Recording]) -> None:
    for value in values:
        owner = OWNERS.get(type(value))
        if owner is not None:
            graph = owner(value)
            if not graphs or all(graph is not other for other in graphs):
                graphs.append(graph)
        elif isinstance(value, (tuple, list)):
            _collect(value, graphs)
