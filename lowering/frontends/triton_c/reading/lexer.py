"""Splits a text into tokens. A number never extends over two dots, so that `0...16` is a range."""

from __future__ import annotations

import re

from ....tt.limits import MAX_LITERAL, MAX_SOURCE
from .diagnostics import Diagnostics
from .source import CHARACTER, NAME, NUMBER, OTHER, PUNCTUATOR, STRING, Source, Token

_TOKENS = re.compile(
    r"""(?P<space>[ \t\r\f\v\ufeff]+|//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/)
    |(?P<newline>\n)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>0[xX][0-9a-fA-F]*(?:\.(?!\.)[0-9a-fA-F]*)?(?:[pP][+-]?[0-9]+)?[0-9a-zA-Z_]*
        |(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[0-9a-zA-Z_]*)
    |(?P<punctuator>\.\.\.|->|<<=|>>=|[-+*/%&|^=!<>]=|\+\+|--|<<|>>|&&|\|\||\#\#|[-+*/%&|^=!<>()\[\]{},;:?@~.\#])
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*+")
    |(?P<character>'(?:[^'\\\n]|\\[^\n])++')
    |(?P<other>.)""",
    re.VERBOSE,
)
_KINDS: dict[str | None, str] = {kind: kind for kind in (NAME, NUMBER, STRING, CHARACTER, PUNCTUATOR, OTHER)}


MAX_READ = 1 << 19
"""Tokens of a text and of all files that it includes, before the preprocessor."""


def lex(source: Source, diagnostics: Diagnostics, most: int = MAX_READ) -> list[Token]:
    """Return the tokens of a text, at most `most`, without comments and white space. Errors are added to `diagnostics`."""
    tokens: list[Token] = []
    append = tokens.append
    text = source.spliced
    if len(text) > MAX_SOURCE:
        diagnostics.fatal(Token(OTHER, "", source, 0), f"{len(text)} characters; at most {MAX_SOURCE} are read")
    is_first, is_spaced = True, False
    kinds = _KINDS
    for match in _TOKENS.finditer(text):
        kind = match.lastgroup
        if kind == "space":
            is_spaced = True
            continue
        if kind == "newline":
            is_first = is_spaced = True
            continue
        found = match.group()
        token = Token(kinds[kind], found, source, match.start(), is_spaced, is_first)
        if found == "/" and text.startswith("*", match.end()):
            diagnostics.fatal(token, "a comment begins here and does not end", "*/ at its end")
        if kind == "number" and len(found) > MAX_LITERAL:
            diagnostics.fatal(token, f"a number of {len(found)} characters; the limit is {MAX_LITERAL}")
        if len(tokens) >= most:
            message = f"the text and what it includes have more than {MAX_READ} tokens"
            diagnostics.fatal(token, message, "fewer or smaller files")
        append(token)
        is_first = is_spaced = False
    return tokens


__all__ = ["MAX_READ", "lex"]
