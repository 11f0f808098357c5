"""Finds rule sets by name: the presets, each a data file, and those that users register."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from .definition import read
from .errors import UserError, close_names
from .explain import compare_with
from .rules import RuleSet

_DATA = Path(__file__).parent / "data"
_FIRST = ("max", "max-published", "jax", "numpy", "torch", "triton")


def _order(name: str) -> tuple[int, bool, str]:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), name == "exact", name)


PRESETS = tuple(sorted((path.stem for path in _DATA.glob("*.json")), key=_order))
"""The names of the presets, in the order of the documentation: the stems of the files in `promotion/data`."""

_registered: dict[str, RuleSet] = {}


@cache
def _preset(name: str) -> RuleSet:
    path = _DATA / f"{name}.json"
    return RuleSet(read(json.loads(path.read_text(encoding="utf-8")), path.name))


def names() -> tuple[str, ...]:
    """Return every name that `rules` accepts: the presets and the registered rule sets."""
    return (*PRESETS, *_registered)


def register(rule_set: RuleSet, replace: bool = False) -> RuleSet:
    """Make a rule set known by its name.

    `rules(name)`, `Graph(semantics=name)` and graphs read from text then find it. Raises `UserError` when the
    name is taken, unless `replace`; presets are never replaced. Returns the rule set.
    """
    if not isinstance(rule_set, RuleSet):
        raise UserError(f"register: expected a RuleSet, not {type(rule_set).__name__}; fix: RuleSet.from_edges(name, edges)")
    taken = rule_set.name in PRESETS or (rule_set.name in _registered and not replace)
    if taken and rules(rule_set.name) != rule_set:
        raise UserError(f"register: the name {rule_set.name!r} is taken; fix: give the rule set another name")
    if rule_set.name not in PRESETS:
        _registered[rule_set.name] = rule_set
    return rule_set


def rules(name: str | RuleSet = "max") -> RuleSet:
    """Return the rule set of that name (a `RuleSet` is returned as it is).

    Raises `UserError` for unknown names.
    """
    if isinstance(name, RuleSet):
        return name
    if isinstance(name, str) and name in PRESETS:
        return _preset(name)
    if isinstance(name, str) and name in _registered:
        return _registered[name]
    close = close_names(str(name).lower(), names(), n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}" if close else ""
    raise UserError(f"unknown rule set {name!r}{hint}; known: {', '.join(names())}")


compare_with(lambda: [_preset(name) for name in PRESETS])
