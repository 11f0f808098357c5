"""Defines a pass of the block IR: a frozen dataclass on xDSL's `ModulePass`, whose fields are its options."""

from __future__ import annotations

import functools
import inspect
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, get_args, get_type_hints

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpec
from xdsl.utils.hints import isa, type_repr

from ....promotion.errors import UserError
from ..dialect.functions import FuncOp

VALUES = {
    "bool": "true or false", "int": "an integer", "str": "a text", "tuple[int, ...]": "integers", "tuple[str, ...]": "texts",
}  # fmt: skip
"""Types of options, by what users write."""
_LONGEST_LIST = 32
"""Most numbers that a message lists."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an option may be.

    Attributes:
        what: in words that follow "expected": "a power of two up to 32".
        holds: whether a value of the option's type is one.
    """

    what: str
    holds: Callable[[Any], bool]

    @staticmethod
    def numbers(what: str, known: Iterable[int]) -> Allowed:
        """Allow lists of known numbers in which none is twice. `what` follows "numbers of"."""
        among = tuple(known)
        listed = ", ".join(map(str, among[:_LONGEST_LIST])) + (", …" if len(among) > _LONGEST_LIST else "")
        return Allowed(
            f"numbers of {what}, each once: {listed}" if among else f"no number, as there are no {what}",
            lambda given: len({*given}) == len(given) and {*given}.issubset(among),
        )


@dataclass(frozen=True)
class FunctionPass(ModulePass):
    """A named change of one `tt.func` at a time.

    The first line of a subclass's docstring is the summary that users read. Its fields are options: bool, int, str, or tuples
    of these, each with a default, so that the name alone is a pass; `allowed` and `allowed_in` say which values they take. The
    docstring has a paragraph `option: meaning` for each, below the summary. A pass leaves the function valid.
    """

    def __post_init__(self) -> None:
        """Check the options. Raises `UserError` for those of another type, and those that are not `allowed`."""
        for name, hint in _types(type(self)).items():
            if not _is_of_type(getattr(self, name), hint):
                raise self._refused(name, _type_text(hint))
        self._check(self.allowed())

    @classmethod
    def from_spec(cls, spec: ArgSpec) -> Self:
        """Return the pass with the options that a pipeline's text gives it.

        Raises `UserError` for options that there are not, and for values that they may not have.
        """
        types = _types(cls)
        options: dict[str, Any] = {}
        for name, values in spec.normalize_parameter_names().parameters.items():
            if name not in types:
                known = f"its options are {', '.join(types)}" if types else "it has none"
                raise UserError(f"pass {cls.name!r} has no option {name!r}; {known}")
            is_one = len(values) == 1 and isa(values[0], types[name])
            options[name] = values[0] if is_one else None if not values and isa(None, types[name]) else values
        missing = sorted(cls.required_fields() - options.keys())
        if missing:
            raise UserError(f"pass {cls.name!r}: option {missing[0]} is missing; expected {cls.usage()}")
        return cls(**options)

    @abstractmethod
    def run(self, function: FuncOp) -> None:
        """Change the function in place."""

    def allowed(self) -> Mapping[str, Allowed]:
        """Return option → what it may be, whatever the function is. Those left out may be anything of their type."""
        return {}

    def allowed_in(self, function: FuncOp) -> Mapping[str, Allowed]:
        """Return option → what it may be when the pass runs on this function."""
        return {}

    def check(self, function: FuncOp) -> None:
        """Raise `UserError` for options that do not fit a function that the pass is to run on."""
        self._check(self.allowed_in(function))

    def _check(self, allowed: Mapping[str, Allowed]) -> None:
        for name, each in allowed.items():
            if not each.holds(getattr(self, name)):
                raise self._refused(name, each.what)

    def _refused(self, option: str, expected: str) -> UserError:
        value = getattr(self, option)
        given = value if isinstance(value, tuple) else (value,)
        shown = ",".join([str(each).lower() if isinstance(each, bool) else str(each) for each in given])
        return UserError(f"pass {self.name!r}: option {option}={shown}: expected {expected}")

    def is_needed(self, function: FuncOp) -> bool:
        """Return whether the pass could change the function. A function is not copied for a pass that could
        not."""
        return True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Change every function of a module that has a body, as xDSL's own passes do."""
        for function in list(op.body.block.ops):
            if isinstance(function, FuncOp) and function.body.blocks:
                self.check(function)
                self.run(function)

    @classmethod
    def usage(cls) -> str:
        """Return the name with its options and what they take, as in `cse` and `expand-library{library: texts}`."""
        options = ", ".join(f"{name}: {_type_text(hint)}" for name, hint in _types(cls).items())
        return f"{cls.name}{{{options}}}" if options else cls.name

    @classmethod
    def options(cls) -> dict[str, tuple[str, str]]:
        """Return what each option takes, and what it means in one line, or ""."""
        text = inspect.cleandoc(cls.__doc__ or "")
        told = re.findall(r"^(\w+): ((?:.|\n(?!\w+: ))*)", text, re.MULTILINE)
        meanings = {name: " ".join(meaning.split()) for name, meaning in told}
        return {name: (_type_text(hint), meanings.get(name, "")) for name, hint in _types(cls).items()}

    @classmethod
    def summary(cls) -> str:
        """Return what the pass does, in one line."""
        return (cls.__doc__ or "").strip().partition("\n")[0]


@functools.cache
def _types(kind: type[FunctionPass]) -> dict[str, Any]:
    """Returns option → type of a pass."""
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _type_text(hint: Any) -> str:
    """Returns what an option of a type takes, as users write it."""
    return VALUES.get(type_repr(hint), type_repr(hint))


def _is_of_type(value: object, hint: Any) -> bool:
    """Returns whether a value has a type. To Python, true and false are integers; to an option they are not."""
    given = value if isinstance(value, tuple) else (value,)
    return isa(value, hint) and (_names_bool(hint) or not any(isinstance(each, bool) for each in given))


def _names_bool(hint: Any) -> bool:
    return hint is bool or any(_names_bool(each) for each in get_args(hint))


__all__ = ["Allowed", "FunctionPass"]
