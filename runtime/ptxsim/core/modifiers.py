"""Consumes, one by one, the modifiers of an instruction that is not in the arithmetic table; modifiers that
are left are unsupported."""

from __future__ import annotations

from collections.abc import Iterable

from ....lowering.ptx.syntax import Instruction
from ....promotion.errors import UnsupportedError, UserError


class Modifiers:
    """The modifiers of an instruction as a multiset, because producers disagree about their order."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)

    @property
    def where(self) -> str:
        return f"PTX line {self.instruction.line}: {self.instruction.spelling}"

    def has(self, modifier: str) -> bool:
        """Consumes the modifier; returns whether it was there."""
        if modifier in self.left:
            self.left.remove(modifier)
            return True
        return False

    def choice(self, modifiers: Iterable[str], default: str | None = None) -> str:
        """Consumes and returns the first of these modifiers that is there; without any, returns the default.
        Raises `UnsupportedError` if there is none either."""
        choices = tuple(modifiers)
        for modifier in choices:
            if self.has(modifier):
                return modifier
        if default is None:
            raise UnsupportedError(f"{self.where}: expected one of .{', .'.join(choices)}")
        return default

    def require(self, *modifiers: str) -> None:
        for modifier in modifiers:
            self.choice((modifier,))

    def drop(self, *modifiers: str) -> None:
        """Consumes hints, which have no effect on values."""
        for modifier in modifiers:
            self.has(modifier)

    def drop_prefixed(self, *prefixes: str) -> None:
        self.left = [modifier for modifier in self.left if not modifier.startswith(prefixes)]

    def done(self) -> None:
        if self.left:
            raise UnsupportedError(f"{self.where}: the modifier .{self.left[0]} is not known here")

    def operands(self, *counts: int) -> int:
        found = len(self.instruction.operands)
        if found not in counts:
            raise UserError(f"{self.where}: {found} operands, expected {' or '.join(map(str, counts))}")
        return found
