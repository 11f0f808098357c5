"""Matches regular expressions in time that is linear in the text, whatever the pattern: an automaton follows all ways at once.

The syntax is that of RE2 as far as Python's parser reads it. What needs backtracking (references to groups, looking around,
possessive repeats) is refused, as RE2 does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from ...promotion.errors import UnsupportedError, UserError

_MAX_STATES = 20_000
_MAX_REPEAT = 1000
_Test = Callable[[str], bool]
_CATEGORIES = {
    "CATEGORY_DIGIT": r"[0-9]", "CATEGORY_NOT_DIGIT": r"[^0-9]", "CATEGORY_WORD": r"[0-9A-Za-z_]",
    "CATEGORY_NOT_WORD": r"[^0-9A-Za-z_]", "CATEGORY_SPACE": r"[\t\n\f\r ]", "CATEGORY_NOT_SPACE": r"[^\t\n\f\r ]",
}  # fmt: skip
"""Classes of characters as RE2 has them: of ASCII alone."""


class Pattern:
    """A regular expression as an automaton.

    A state has characters that it takes to a next state, states that it leads to without one, and a condition on the position
    that it needs for that.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._tests: list[_Test | None] = []
        self._next: list[list[int]] = []
        self._conditions: list[str] = []
        try:
            with_flags = _parser.parse(text, re.ASCII if text.isascii() else 0)
        except (re.error, RecursionError, OverflowError) as error:
            raise UserError(f"regex_full_match: {text!r:.80} is no pattern: {error}; fix: RE2's syntax") from None
        flags = with_flags.state.flags
        self._lower, self._all, self._lines = (bool(flags & flag) for flag in (re.IGNORECASE, re.DOTALL, re.MULTILINE))
        self._end = self._state()
        self._start = self._sequence(with_flags, self._end)

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches the whole text."""
        current = self._closed([self._start], text, 0)
        for position, character in enumerate(text):
            taken = [target for state in current if self._takes(state, character) for target in self._next[state]]
            current = self._closed(taken, text, position + 1)
            if not current:
                return False
        return self._end in current

    def parts(self, text: str) -> list[str]:
        """Return the parts of a text that match and are not empty, from the left, each the longest that begins there."""
        found, at = [], 0
        while (span := self._first(text, at)) is not None:
            found.append(text[span[0] : span[1]])
            at = span[1]
        return found

    def _first(self, text: str, at: int) -> tuple[int, int] | None:
        """Return where the first part from a position on begins and ends; a state knows the first beginning of its ways."""
        best: tuple[int, int] | None = None
        current: dict[int, int] = {}
        for position in range(at, len(text) + 1):
            if best is None:
                current.setdefault(self._start, position)
            closed: dict[int, int] = {}
            for begin in sorted(set(current.values())):
                for state in self._closed([each for each, first in current.items() if first == begin], text, position):
                    closed.setdefault(state, begin)
            ended = closed.get(self._end, position)
            if ended < position and (best is None or ended <= best[0]):
                best = (ended, position)
            current = {}
            if position < len(text):
                for state, begin in sorted(closed.items(), key=lambda entry: entry[1]):
                    if (best is None or begin <= best[0]) and self._takes(state, text[position]):
                        for target in self._next[state]:
                            current.setdefault(target, begin)
            if best is not None and not current:
                break
        return best

    def _takes(self, state: int, character: str) -> bool:
        test = self._tests[state]
        return test is not None and test(character)

    def _closed(self, states: Iterable[int], text: str, position: int) -> set[int]:
        """Return states with those they lead to without a character."""
        found: set[int] = set()
        pending = list(states)
        while pending:
            state = pending.pop()
            if state in found:
                continue
            found.add(state)
            if self._tests[state] is None and self._holds(self._conditions[state], text, position):
                pending += self._next[state]
        return found

    def _holds(self, condition: str, text: str, position: int) -> bool:
        match condition:
            case "":
                return True
            case "AT_BEGINNING" | "AT_BEGINNING_STRING":
                within = self._lines and condition == "AT_BEGINNING"
                return position == 0 or (within and text[position - 1] == "\n")
            case "AT_END" | "AT_END_STRING":
                return position == len(text) or (self._lines and condition == "AT_END" and text[position] == "\n")
        inside = [0 <= at < len(text) and text[at].isascii() and (text[at].isalnum() or text[at] == "_")
                  for at in (position - 1, position)]  # fmt: skip
        return (inside[0] != inside[1]) == (condition == "AT_BOUNDARY")

    def _state(self, test: _Test | None = None, targets: Iterable[int] = (), condition: str = "") -> int:
        if len(self._tests) >= _MAX_STATES:
            raise UserError(f"regex_full_match: {self.text!r:.80} has more than {_MAX_STATES} states; fix: a shorter pattern")
        self._tests.append(test)
        self._next.append(list(targets))
        self._conditions.append(condition)
        return len(self._tests) - 1

    def _sequence(self, parts: Any, after: int) -> int:
        for operator, argument in reversed(list(parts)):
            after = self._part(str(operator), argument, after)
        return after

    def _part(self, operator: str, argument: Any, after: int) -> int:
        """Return the state that matches one part of a pattern and goes on with `after`."""
        match operator:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._state(self._test(operator, argument), [after])
            case "BRANCH":
                return self._state(None, [self._sequence(each, after) for each in argument[1]])
            case "SUBPATTERN":
                if argument[1] or argument[2]:
                    raise UnsupportedError("regex_full_match: flags inside a group; fix: flags at the start of the pattern")
                return self._sequence(argument[3], after)
            case "AT":
                return self._state(None, [after], str(argument))
            case "MAX_REPEAT" | "MIN_REPEAT":
                return self._repeat(argument, after)
        around = "looking ahead or behind"
        what = {"GROUPREF": "a reference to a group", "ASSERT": around, "ASSERT_NOT": around}
        raise UnsupportedError(
            f"regex_full_match: {self.text!r:.80}: {what.get(operator, operator.lower())} is not supported; fix: RE2's syntax"
        )

    def _repeat(self, argument: Any, after: int) -> int:
        least, most, parts = argument
        unlimited = most is _constants.MAXREPEAT
        if least > _MAX_REPEAT or (not unlimited and most > _MAX_REPEAT):
            raise UserError(f"regex_full_match: more than {_MAX_REPEAT} repeats; fix: a smaller count")
        if unlimited:
            again = self._state(None, [after])
            self._next[again].append(self._sequence(parts, again))
            after = again
        else:
            last = after
            for _ in range(most - least):
                after = self._state(None, [last, self._sequence(parts, after)])
        for _ in range(least):
            after = self._sequence(parts, after)
        return after

    def _test(self, operator: str, argument: Any) -> _Test:
        if operator == "ANY":
            return (lambda character: True) if self._all else (lambda character: character != "\n")
        if operator == "IN":
            negated = bool(argument) and str(argument[0][0]) == "NEGATE"
            parts = [self._member(str(kind), value) for kind, value in argument[1 if negated else 0 :]]
            return lambda character: any(part(character) for part in parts) != negated
        same = self._member("LITERAL", argument)
        return same if operator == "LITERAL" else (lambda character: not same(character))

    def _member(self, kind: str, value: Any) -> _Test:
        """Return the test of one entry of a class of characters."""
        if kind == "CATEGORY":
            found = re.compile(_CATEGORIES[str(value)])
            return lambda character: found.fullmatch(character) is not None
        low, high = (chr(value), chr(value)) if kind == "LITERAL" else (chr(value[0]), chr(value[1]))
        if not self._lower:
            return lambda character: low <= character <= high
        return lambda character: any(low <= each <= high for each in (character, character.lower(), character.upper()))
