"""Defines source texts and their tokens, which know where they were written and by which macros they came."""

from __future__ import annotations

from bisect import bisect_right

NAME, NUMBER, STRING, CHARACTER, PUNCTUATOR, OTHER, END = (
    "name", "number", "string", "character", "punctuator", "other", "end",
)  # fmt: skip
"""The kinds of tokens. `OTHER` is what no token of the language begins with, or a quote without its end."""


class Source:
    """One text: a file, an included file, or the value of a macro that the caller defines.

    Attributes:
        name: the file in messages and locations.
        text: as it was given.
        spliced: the text with each backslash and the end of line behind it taken out, which offsets count in.
    """

    __slots__ = ("_cuts", "_numbered", "_numbering", "_removed", "_starts", "name", "spliced", "text")

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self._starts: list[int] | None = None
        self._numbered: list[int] = []  # lines that #line renumbers the text from, in order
        self._numbering: list[tuple[int, str]] = []  # the number and the name that each has
        self._cuts: list[int] = []
        self._removed: list[int] = []
        self.spliced = self._splice() if "\\" in text else text

    def _splice(self) -> str:
        parts, at, length = [], 0, 0
        while (found := self.text.find("\\", at)) >= 0:
            width = 3 if self.text.startswith("\r\n", found + 1) else 2 if self.text.startswith("\n", found + 1) else 0
            end = found if width else found + 1
            parts.append(self.text[at:end])
            length += end - at
            at = found + (width or 1)
            if width:
                self._cuts.append(length)
                self._removed.append(at - length)
        return "".join([*parts, self.text[at:]])

    def line_and_column(self, start: int) -> tuple[int, int]:
        """Return where an offset in `spliced` stands in the text, both from 1."""
        cut = bisect_right(self._cuts, start)
        offset = start + (self._removed[cut - 1] if cut else 0)
        if self._starts is None:
            self._starts = [0]
            at = self.text.find("\n")
            while at >= 0:
                self._starts.append(at + 1)
                at = self.text.find("\n", at + 1)
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def position(self, start: int) -> tuple[str, int, int]:
        """Return file, line and column of an offset, as `#line` renumbers them."""
        line, column = self.line_and_column(start)
        at = bisect_right(self._numbered, line)
        if not at:
            return self.name, line, column
        number, name = self._numbering[at - 1]
        return name, number + line - self._numbered[at - 1], column

    def renumber(self, start: int, number: int, name: str | None) -> None:
        """Give the line behind that of an offset another number, and the file another name from there on."""
        line, _ = self.line_and_column(start)
        found = number, name if name is not None else self.position(start)[0]
        self._numbered.append(line + 1)
        self._numbering.append(found)

    def line(self, start: int) -> str:
        """Return the line of text that an offset stands in."""
        number, _ = self.line_and_column(start)
        starts = self._starts or [0]
        end = self.text.find("\n", starts[number - 1])
        return self.text[starts[number - 1] : len(self.text) if end < 0 else end]


class MacroUse:
    """One use of a macro: its name as a token, which another macro may have produced.

    Attributes:
        has_arguments: whether more belongs to what it became than its body.
    """

    __slots__ = ("has_arguments", "token")

    def __init__(self, token: Token, has_arguments: bool) -> None:
        self.token = token
        self.has_arguments = has_arguments


NOTHING_HIDDEN: frozenset[str] = frozenset()


class Token:
    """A token of the language.

    Attributes:
        kind: one of the kinds above.
        text: as it is written; a macro's parameter that was pasted is its text.
        source, start: where it is written, which may be in a macro's definition.
        is_spaced: whether white space stands before it.
        is_first: whether it begins a line.
        macro: the use of the macro whose definition it is written in; None for what stands in the text itself.
        hidden: names of macros that it is not expanded by any more.
    """

    __slots__ = ("hidden", "is_first", "is_spaced", "kind", "macro", "source", "start", "text")

    def __init__(
        self,
        kind: str,
        text: str,
        source: Source,
        start: int,
        is_spaced: bool = False,
        is_first: bool = False,
        macro: MacroUse | None = None,
        hidden: frozenset[str] = NOTHING_HIDDEN,
    ) -> None:
        self.kind = kind
        self.text = text
        self.source = source
        self.start = start
        self.is_spaced = is_spaced
        self.is_first = is_first
        self.macro = macro
        self.hidden = hidden

    def __repr__(self) -> str:
        file, line, column = self.position
        return f"<{self.text} {file}:{line}:{column}>"

    @property
    def position(self) -> tuple[str, int, int]:
        """File, line and column at which the token is written."""
        return self.source.position(self.start)

    @property
    def uses(self) -> list[Token]:
        """The uses of macros that the token came by, from the one that stands in the text to the innermost."""
        return [each.token for each in self.macros()][::-1]

    def macros(self) -> list[MacroUse]:
        """Return the uses of macros that the token came by, from the innermost."""
        found = []
        macro = self.macro
        while macro is not None:
            found.append(macro)
            macro = macro.token.macro
        return found


__all__ = ["CHARACTER", "END", "NAME", "NUMBER", "OTHER", "PUNCTUATOR", "STRING", "MacroUse", "Source", "Token"]
