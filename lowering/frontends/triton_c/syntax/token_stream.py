"""Reads tokens one after the other, with errors where an expected one is not there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from .....promotion.errors import close_names
from ..reading.diagnostics import Diagnostics
from ..reading.source import END, NAME, OTHER, STRING, Token

MAX_NESTED = 48
"""Brackets, operators and statements that are nested in one another."""
BASIC_TYPES = frozenset([
    "void", "bool", "_Bool", "char", "short", "int", "long", "signed", "unsigned", "half", "bfloat16", "float", "double",
    *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
])  # fmt: skip
BUILT_IN_TYPES = frozenset([
    "bool", "half", "bfloat16", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
])  # fmt: skip
"""Names of types that are no keywords of C, which a text may declare once more."""
QUALIFIERS = frozenset(["const", "volatile", "restrict", "__restrict__", "__restrict", "__constant__"])
STORAGE = frozenset([
    "static", "inline", "extern", "register", "typedef", "auto", "__global__", "__device__", "__inline__", "__inline",
    "__forceinline__", "__noinline__",
])  # fmt: skip
KEYWORDS = BASIC_TYPES | QUALIFIERS | STORAGE | frozenset([
    "if", "else", "for", "while", "do", "switch", "case", "default", "break", "continue", "return", "goto", "sizeof",
    "struct", "union", "enum", "newaxis", "_Static_assert", "true", "false", "_Atomic", "_Complex",
])  # fmt: skip
UNSUPPORTED = {
    "goto": "goto is not supported; use break, continue, return, or a loop",
    "_Atomic": "atomic types are not supported; use atomic_add(p, v) and its like, which change memory at once",
    "_Complex": "complex numbers are not supported; use a struct of two numbers",
}


_OTHER_NAMES = {"float16": "half", "float32": "float", "float64": "double", "size_t": "unsigned long"}
"""Types of other languages, and what they are called here."""


class SyntaxAbort(Exception):
    """Raised behind an error, where the parser cannot go on in the statement at hand."""


class TokenStream:
    """The tokens of a text, and where the parser is in them."""

    def __init__(self, tokens: Sequence[Token], diagnostics: Diagnostics) -> None:
        self.tokens = tokens
        self.at = 0
        self._last = len(tokens) - 1
        self.token = tokens[0]
        self.text = tokens[0].text
        self.diagnostics = diagnostics
        self.depth = 0
        self.types: list[set[str]] = [set()]
        """Names of typedefs, by scope; a variable of the same name takes one away in its scope."""
        self.hidden: list[set[str]] = [set()]

    def advance(self) -> Token:
        """Step behind the current token and return it."""
        token = self.token
        if self.at < self._last:
            self.at += 1
        following = self.token = self.tokens[self.at]
        self.text = following.text if following.kind is not STRING else ""
        return token

    def peek(self, distance: int = 1) -> Token:
        return self.tokens[min(self.at + distance, self._last)]

    def return_to(self, at: int) -> None:
        """Go back to a token, to read it in another way."""
        self.at = at
        self.token = self.tokens[at]
        self.text = self.token.text if self.token.kind is not STRING else ""

    def accept(self, text: str) -> bool:
        """Step behind the current token if it is `text`."""
        if self.text == text:
            self.advance()
            return True
        return False

    def expect(self, text: str, what: str = "") -> Token:
        """Step behind `text`, or fail."""
        if self.text != text:
            self.fail(f"expected {text}{what and f' {what}'}, got {self.shown()}", self.missing_define())
        return self.advance()

    def expect_semicolon(self, what: str = "") -> None:
        """Step behind a semicolon. Where it is missing at the end of a line or a block, go on as if it was there."""
        if self.text == ";":
            self.advance()
            return
        message = f"expected ;{what and f' {what}'}, got {self.shown()}"
        outermost = self.token.uses[:1] or [self.token]
        is_at_end = outermost[0].is_first or self.token.kind is END
        missing = self.missing_define()
        self.diagnostics.error(self._behind() if is_at_end and not missing else self.token, message, missing)
        if not (self.text == "}" or is_at_end):
            raise SyntaxAbort

    def _behind(self) -> Token:
        """Return a token for the place behind the token before the one at hand; that one itself if a macro has made it."""
        before = self.tokens[max(self.at - 1, 0)]
        if before.macro is not None or not before.source.spliced.startswith(before.text, before.start):
            return self.token
        return Token(OTHER, "", before.source, before.start + len(before.text))

    def missing_define(self, token: Token | None = None) -> str:
        """Return the fix for a name in capitals where none can stand, which was meant to be a macro; "" for other tokens.

        The token is the current one unless it is given.
        """
        token = token or self.token
        name = token.text
        is_macro = token.kind is NAME and name.isupper() and name not in KEYWORDS and not self.is_declared(name)
        return f"missing define? defines={{{name!r}: …}}" if is_macro else ""

    def is_declared(self, name: str) -> bool:
        """Return whether a name is that of a variable or a typedef here."""
        return any(name in each for each in (*self.types, *self.hidden))

    def fail_type(self, what: str) -> NoReturn:
        """Add an error at a token that is no type, and leave the statement."""
        fix = UNSUPPORTED.get(self.text, "") or _OTHER_NAMES.get(self.text, "") or self.missing_define()
        if not fix and self.token.kind is NAME:
            close = close_names(self.text, {*BASIC_TYPES, *(name for each in self.types for name in each)})
            fix = f"did you mean {' or '.join(close)}?" if close else ""
        self.fail(f"expected {what}, got {self.shown()}", fix)

    def identifier(self, what: str) -> Token:
        """Step behind a name that is no keyword, or fail."""
        if self.token.kind is not NAME or self.text in KEYWORDS:
            self.fail(f"expected {what}, got {self.shown()}", UNSUPPORTED.get(self.text, ""))
        return self.advance()

    def shown(self) -> str:
        """Return the current token as messages name it."""
        token = self.token
        if token.kind is END:
            return token.text
        if token.kind is OTHER:
            return f"the character {token.text!r}"
        return f"the keyword {token.text}" if token.text in KEYWORDS else repr(token.text)

    def fail(self, message: str, fix: str = "") -> NoReturn:
        """Add an error at the current token, and leave the statement."""
        self.fail_at(self.token, message, fix)

    def fail_at(self, token: Token, message: str, fix: str = "") -> NoReturn:
        """Add an error at a token, and leave the statement."""
        self.diagnostics.error(token, message, fix)
        raise SyntaxAbort

    def deeper(self) -> None:
        """Count one level of nesting; callers count it down again."""
        self.depth += 1
        if self.depth > MAX_NESTED:
            self.diagnostics.fatal(self.token, f"more than {MAX_NESTED} levels are nested in one another")

    def is_type(self, token: Token) -> bool:
        """Return whether a type name begins at a token."""
        if token.kind is not NAME:
            return False
        text = token.text
        if text in BASIC_TYPES or text in QUALIFIERS or text in ("struct", "union", "enum"):
            return True
        for types, hidden in zip(reversed(self.types), reversed(self.hidden), strict=True):
            if text in types:
                return True
            if text in hidden:
                return False
        return False

    def open_scope(self) -> None:
        self.types.append(set())
        self.hidden.append(set())

    def close_scope(self) -> None:
        self.types.pop()
        self.hidden.pop()

    def declare(self, name: str, is_type: bool) -> None:
        """Note what a name is in the current scope, as far as the grammar must know."""
        (self.types if is_type else self.hidden)[-1].add(name)
        (self.hidden if is_type else self.types)[-1].discard(name)


__all__ = [
    "BASIC_TYPES", "BUILT_IN_TYPES", "KEYWORDS", "MAX_NESTED", "QUALIFIERS", "STORAGE", "UNSUPPORTED",
    "SyntaxAbort", "TokenStream",
]  # fmt: skip
