"""Remembers calls of public functions that make several symbols, so that a graph can be built again as the user wrote it.

`sum` of an int8 tensor is a cast, a reduction and another cast, whose dtypes the rule set decides. To rebuild a graph under
other rules (`what_if.py`) such a call has to be made again as a whole; a single op is made again from its operands.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from .symbol import Symbol

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Call:
    """A finished call: symbols `start` to `stop` of the graph were made by it."""

    start: int
    stop: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]
    result: Any


def recorded(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """The public form of a function: the same, but its graph remembers the call."""

    @functools.wraps(function)
    def call(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        first = _symbol_in((*arguments, *options.values()))
        if first is None:
            return function(*arguments, **options)
        graph = first.graph
        start = len(graph.symbols)
        result = function(*arguments, **options)
        stop = len(graph.symbols)
        if stop - start > 1:
            graph.calls.append(Call(start, stop, function, arguments, options, result))
        return result

    return call


def _symbol_in(values: Iterable[Any]) -> Symbol | None:
    for value in values:
        if type(value) is Symbol:
            return value
        if isinstance(value, (tuple, list)):
            found = _symbol_in(value)
            if found is not None:
                return found
    return None
