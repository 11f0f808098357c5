"""Splits the text of block IR into tokens, and describes positions in it."""

from __future__ import annotations

import re

from xdsl.utils.exceptions import ParseError
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken, MLIRTokenKind, StringLiteral

from ....promotion.errors import in_columns, printable
from ...tt.limits import MAX_LITERAL, MAX_SHAPE


class BlockLexer(MLIRLexer):
    """xDSL's lexer with bounds. Long numbers are errors, since Python converts them in quadratic time and
    cannot print them, and so are long shapes (`x2x2xi32`), which xDSL lexes anew for every extent. Strings
    are matched without xDSL's exponential backtracking."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_string_literal(self, start_pos: int) -> MLIRToken:
        """Lexes a string as text if its bytes are UTF-8: file names are printed as `m\\C3\\BCller.py`."""
        token = super()._lex_string_literal(start_pos)
        if token.kind == MLIRTokenKind.BYTES_LIT:
            try:
                StringLiteral(token.span.start, token.span.end, self.input).bytes_contents.decode()
            except UnicodeDecodeError:
                return token
            return MLIRToken(MLIRTokenKind.STRING_LIT, token.span)
        return token

    def _lex_bare_identifier(self, start_pos: int) -> MLIRToken:
        token = super()._lex_bare_identifier(start_pos)
        if self.pos - start_pos > MAX_SHAPE and self.input.content[start_pos] == "x":
            raise ParseError(token.span, f"a shape of {self.pos - start_pos} characters, the limit is {MAX_SHAPE}")
        return token

    def _lex_number(self, start_pos: int) -> MLIRToken:
        token = super()._lex_number(start_pos)
        if self.pos - start_pos > MAX_LITERAL:
            raise ParseError(token.span, f"a number of {self.pos - start_pos} characters, the limit is {MAX_LITERAL}")
        return token


def with_position(text: str, start: int, source: str, message: str) -> str:
    """Returns `message` with the line and column of a position in `text`, and an excerpt of the line."""
    start = min(start, len(text))
    begin, end = text.rfind("\n", 0, start) + 1, text.find("\n", start)
    first = max(begin, start - 60)
    excerpt = in_columns(text[first : min(len(text) if end < 0 else end, start + 60)].rstrip())
    shown = message if len(message) <= 500 else f"{message[:500]} …"
    return f"{source}:{line_and_column(text, start)}: {printable(shown)}\n  {excerpt}\n  {' ' * (start - first)}^"


def line_and_column(text: str, start: int) -> str:
    """Returns line and column of a position in a text, as in `7:12`."""
    return f"{text.count(chr(10), 0, start) + 1}:{start - text.rfind(chr(10), 0, start)}"
