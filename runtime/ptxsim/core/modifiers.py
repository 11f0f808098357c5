"""The modifiers of an instruction that is not in the arithmetic table, consumed one by one: what is left over is unknown."""

from __future__ import annotations

from collections.abc import Iterable

from ....lowering.ptx.syntax import Instruction
from ....promotion.errors import UnsupportedError, UserError


class Words:
    """The modifiers as a bag; producers disagree about their order."""

    def __init__(self, instruction: Instruction) -> None:
        self.instruction = instruction
        self.left = list(instruction.modifiers)

    @property
    def where(self) -> str:
        return f"PTX line {self.instruction.line}: {self.instruction.spelling}"

    def has(self, word: str) -> bool:
        """Whether the word is there; it is used up."""
        if word in self.left:
            self.left.remove(word)
            return True
        return False

    def choice(self, words: Iterable[str], default: str | None = None) -> str:
        """The one of the words that is there."""
        choices = tuple(words)
        for word in choices:
            if self.has(word):
                return word
        if default is None:
            raise UnsupportedError(f"{self.where}: expected one of .{', .'.join(choices)}")
        return default

    def require(self, *words: str) -> None:
        for word in words:
            self.choice((word,))

    def drop(self, *words: str) -> None:
        """Hints without an effect on values."""
        for word in words:
            self.has(word)

    def drop_prefixed(self, *prefixes: str) -> None:
        self.left = [word for word in self.left if not word.startswith(prefixes)]

    def done(self) -> None:
        if self.left:
            raise UnsupportedError(f"{self.where}: the modifier .{self.left[0]} is not known here")

    def operands(self, *counts: int) -> int:
        found = len(self.instruction.operands)
        if found not in counts:
            raise UserError(f"{self.where}: {found} operands, expected {' or '.join(map(str, counts))}")
        return found
