"""Defines a pass of the block IR: a frozen dataclass on xDSL's `ModulePass`, whose fields are its options."""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from dataclasses import dataclass, fields

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.hints import type_repr

from ..dialect.functions import FuncOp

VALUES = {
    "bool": "true or false", "int": "a number", "str": "a text", "tuple[int, ...]": "numbers", "tuple[str, ...]": "texts",
}  # fmt: skip
"""Types of options, by what users write."""


@dataclass(frozen=True)
class FunctionPass(ModulePass):
    """A named change of one `tt.func` at a time.

    The first line of a subclass's docstring is the summary that users read. Its fields are options: bool, int, str, or tuples
    of these, each with a default, so that the name alone is a pass. The docstring has a paragraph `option: meaning` for each,
    below the summary. A pass leaves the function valid.
    """

    @abstractmethod
    def run(self, function: FuncOp) -> None:
        """Change the function in place."""

    def is_needed(self, function: FuncOp) -> bool:
        """Return whether the pass could change the function. A function is not copied for a pass that could
        not."""
        return True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Change every function of a module that has a body, as xDSL's own passes do."""
        for function in list(op.body.block.ops):
            if isinstance(function, FuncOp) and function.body.blocks:
                self.run(function)

    @classmethod
    def usage(cls) -> str:
        """Return the name with its options and what they take, as in `cse` and `expand-library{library: texts}`."""
        options = ", ".join(f"{name}: {values}" for name, values in cls._values().items())
        return f"{cls.name}{{{options}}}" if options else cls.name

    @classmethod
    def options(cls) -> dict[str, tuple[str, str]]:
        """Return what each option takes, and what it means in one line, or ""."""
        text = inspect.cleandoc(cls.__doc__ or "")
        told = re.findall(r"^(\w+): ((?:.|\n(?!\w+: ))*)", text, re.MULTILINE)
        meanings = {name: " ".join(meaning.split()) for name, meaning in told}
        return {name: (values, meanings.get(name, "")) for name, values in cls._values().items()}

    @classmethod
    def _values(cls) -> dict[str, str]:
        """Return what each option takes."""
        types = {each.name: each.type if isinstance(each.type, str) else type_repr(each.type) for each in fields(cls)}
        return {name: VALUES.get(type_, type_) for name, type_ in types.items()}

    @classmethod
    def summary(cls) -> str:
        """Return what the pass does, in one line."""
        return (cls.__doc__ or "").strip().partition("\n")[0]


__all__ = ["FunctionPass"]
