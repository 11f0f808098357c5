"""The named rule sets: presets, each a data file, and what users register."""

from __future__ import annotations

import difflib
import json
from functools import cache
from pathlib import Path

from .definition import read
from .errors import UserError
from .explain import compare_with
from .rules import RuleSet

_FILES = {
    "max": "max.json",
    "max-published": "max_published.json",
    "jax": "jax.json",
    "numpy": "numpy.json",
    "torch": "torch.json",
    "triton": "triton.json",
    "triton-3.9": "triton_3_9.json",
    "triton-3.9-division": "triton_3_9_division.json",
    "triton-3.9-scalar": "triton_3_9_scalar.json",
    "exact": "exact.json",
}

PRESETS = tuple(_FILES)
"""The names of the presets, in the order of the documentation."""

_registered: dict[str, RuleSet] = {}


@cache
def _preset(name: str) -> RuleSet:
    path = Path(__file__).parent / "data" / _FILES[name]
    return RuleSet(read(json.loads(path.read_text(encoding="utf-8")), path.name))


def names() -> tuple[str, ...]:
    """Every name `rules` knows: the presets and what was registered."""
    return (*PRESETS, *_registered)


def register(rule_set: RuleSet, replace: bool = False) -> RuleSet:
    """Make a rule set known by its name, for `rules(name)`, `Graph(semantics=name)` and graphs read from text.

    Raises `UserError` when the name is taken, unless `replace`; presets are never replaced. Returns the rule set.
    """
    if not isinstance(rule_set, RuleSet):
        raise UserError(f"register: expected a RuleSet, not {type(rule_set).__name__}; fix: RuleSet.from_edges(name, edges)")
    taken = rule_set.name in _FILES or (rule_set.name in _registered and not replace)
    if taken and rules(rule_set.name) != rule_set:
        raise UserError(f"register: the name {rule_set.name!r} is taken; fix: give the rule set another name")
    if rule_set.name not in _FILES:
        _registered[rule_set.name] = rule_set
    return rule_set


def rules(name: str | RuleSet = "max") -> RuleSet:
    """The rule set of that name (a `RuleSet` is returned as it is). Raises `UserError` for unknown names."""
    if isinstance(name, RuleSet):
        return name
    if isinstance(name, str) and name in _FILES:
        return _preset(name)
    if isinstance(name, str) and name in _registered:
        return _registered[name]
    close = difflib.get_close_matches(str(name).lower(), names(), n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]!r}" if close else ""
    raise UserError(f"unknown rule set {name!r}{hint}; known: {', '.join(names())}")


compare_with(lambda: [_preset(name) for name in PRESETS])
