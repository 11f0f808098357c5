"""Errors about dims: sizes that are not given, and those whose text nobody could read back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ...promotion.errors import UserError, close_names
from .parser import MAX_DEPTH, MAX_DIGITS, MAX_TEXT

_DIGITS = re.compile(rf"\d{{{MAX_DIGITS + 1},}}")
_FIX = "give parts of it dims of their own, and state what they equal with joinery.rebind"


class LongSizeError(UserError):
    """A size has no form that a graph could be saved with.

    Attributes:
        names: the names of dims that it is made of.
        problem: the message without its fix.
    """

    names: tuple[str, ...] = ()
    problem: str = ""


def long_size(problem: str, names: Iterable[str], where: str = "") -> LongSizeError:
    error = LongSizeError(f"{problem}\n  {where}\n  fix: {_FIX}" if where else f"{problem}; fix: {_FIX}")
    error.names, error.problem = tuple(sorted(set(names))), problem
    return error


def unreadable(text: str) -> str:
    """Return why `Dim.parse` refuses the text of a dim, nothing if it does not."""
    problem = _problem(text)
    return problem and f"a size {problem}: {text:.60}…"


def _problem(text: str) -> str:
    if len(text) > MAX_TEXT:
        return f"of {len(text)} characters, more than {MAX_TEXT}"
    if text.count("(") > MAX_DEPTH:
        depth = deepest = 0
        for character in text:
            depth += (character == "(") - (character == ")")
            deepest = max(deepest, depth)
        if deepest > MAX_DEPTH:
            return f"of {deepest} quotients, maxima and minima in each other, more than {MAX_DEPTH}"
    if len(text) > MAX_DIGITS and _DIGITS.search(text):
        return f"with a number of more than {MAX_DIGITS} digits"
    return ""


def size_given(name: str, env: Mapping[str, int]) -> int:
    """Return the size of a dim. Raises `UserError` when it is missing."""
    value = env.get(name)
    if value is None:
        close = close_names(name, list(env), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else f"; given: {', '.join(env) or 'none'}"
        raise UserError(f"the size of dim {name!r} is not given{hint}")
    return value
