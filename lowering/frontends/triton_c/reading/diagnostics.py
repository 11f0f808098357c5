"""Collects what is wrong with a text: several errors per run, each with line, column, caret and macros."""

from __future__ import annotations

from typing import NoReturn

from .....promotion.dataclass import dataclass
from .....promotion.errors import UserError, in_columns, printable
from .source import Source, Token

MAX_ERRORS = 20
"""Errors after which reading stops."""
_MAX_MACROS = 8
_MAX_EXCERPT = 120


@dataclass(frozen=True, slots=True)
class Location:
    """A position in a text, with the line that it stands in.

    Attributes:
        what: what stands there: "" for the subject itself, else the macro that led to it.
        excerpt: the line, cut to 120 characters; caret: the column to point at in it, from 0.
        end_line, end_column: the position behind the last character of what stands there.
    """

    what: str
    file: str
    line: int
    column: int
    excerpt: str
    caret: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, token: Token, what: str = "") -> Location:
        """Return the position at which a token is written."""
        file, line, column = token.position
        text = in_columns(token.source.line(token.start)).rstrip()
        first = max(0, min(column - 1 - _MAX_EXCERPT // 2, len(text) - _MAX_EXCERPT))
        is_written = token.source.spliced.startswith(token.text, token.start)  # else a macro has made it
        _, end_line, end_column = token.source.position(token.start + (len(token.text) if is_written else 1))
        if end_line < line:  # behind a line that #line renumbers
            end_line, end_column = line, column + 1
        excerpt = text[first : first + _MAX_EXCERPT]
        return cls(what, printable(file), line, column, excerpt, column - 1 - first, end_line, end_column)

    @property
    def position(self) -> dict[str, object]:
        """Where it is, as plain data."""
        start = {"file": self.file, "line": self.line, "column": self.column}
        return {**start, "endLine": self.end_line, "endColumn": self.end_column}

    @property
    def text(self) -> str:
        return f"  {self.excerpt}\n  {' ' * self.caret}^"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning.

    Attributes:
        severity: "error" or "warning".
        message: what is wrong, with the types at fault.
        fix: what to do instead; "" if nobody can say.
        locations: where it is in the text, then the macros that it came by, from the outermost on.
    """

    severity: str
    message: str
    fix: str
    locations: tuple[Location, ...]

    @property
    def text(self) -> str:
        """The diagnostic as a compiler prints it."""
        first, *rest = self.locations
        fix = f"; fix: {self.fix}" if self.fix else ""
        lines = [f"{first.file}:{first.line}:{first.column}: {self.severity}: {self.message}{fix}", first.text]
        for each in rest:
            lines += [f"{each.file}:{each.line}:{each.column}: {each.what}", each.text]
        return "\n".join(lines)

    @property
    def json(self) -> dict[str, object]:
        """The diagnostic as plain data, for editors. Lines and columns count from 1; the end is behind what is meant."""
        first, *rest = self.locations
        macros = [{**each.position, "note": each.what} for each in rest]
        return {**first.position, "severity": self.severity, "message": self.message, "fix": self.fix, "macros": macros}


class TritonCError(UserError):
    """A Triton-C text has errors. The message has them all.

    Attributes:
        diagnostics: the errors and the warnings beside them, as they stand in the text.
    """

    is_formatted = True

    def __init__(self, text: str, diagnostics: tuple[Diagnostic, ...] = ()) -> None:
        super().__init__(text)
        self.diagnostics = diagnostics


class Diagnostics:
    """The errors and warnings of one run.

    Attributes:
        reports: how many errors were added, those that had been there already included.
        has_gaps: whether declarations outside of functions are missing behind errors.
    """

    def __init__(self) -> None:
        self.found: list[Diagnostic] = []
        self._order: list[tuple[int, int]] = []
        self._sources: dict[Source, int] = {}
        self.reports = 0
        self.has_gaps = False
        self._errors = 0
        self._seen: set[tuple[str, Source, int]] = set()

    def error(self, token: Token, message: str, fix: str = "") -> None:
        """Add an error at a token. Raises `TritonCError` when there are enough of them."""
        self.reports += 1
        if self._add("error", token, message, fix):
            self._errors += 1
            if self._errors >= MAX_ERRORS:
                self.stop()

    def fatal(self, token: Token, message: str, fix: str = "") -> NoReturn:
        """Add an error behind which nothing can be read, and raise `TritonCError`."""
        self._add("error", token, message, fix)
        self._errors += 1
        self.stop()

    def warning(self, token: Token, message: str, fix: str = "") -> None:
        """Add a warning at a token."""
        self._add("warning", token, message, fix)

    def _add(self, severity: str, token: Token, message: str, fix: str) -> bool:
        """Add a diagnostic, once for each token that is written: a macro's definition is at fault in every use."""
        key = message, token.source, token.start
        if key in self._seen:
            return False
        self._seen.add(key)
        uses = token.uses
        if not uses:
            locations = [Location.of(token)]
        else:
            written = [*uses[1:], token]
            notes = [Location.of(at, f"from macro {use.text}") for use, at in zip(uses, written, strict=True)]
            if len(notes) > _MAX_MACROS:
                notes = [*notes[: _MAX_MACROS // 2], *notes[-_MAX_MACROS // 2 :]]
            locations = [Location.of(uses[0]), *notes]
        self.found.append(Diagnostic(severity, printable(message), printable(fix), tuple(locations)))
        outermost = uses[0] if uses else token
        self._order.append((self._sources.setdefault(outermost.source, len(self._sources)), outermost.start))
        return True

    @property
    def ordered(self) -> list[Diagnostic]:
        """What was found, as it stands in the text, whichever stage found it."""
        order = sorted(range(len(self.found)), key=self._order.__getitem__)
        return [self.found[each] for each in order]

    def check(self) -> None:
        """Raise `TritonCError` if there are errors."""
        if self._errors:
            self.stop()

    def stop(self) -> NoReturn:
        """Raise `TritonCError` with what there is."""
        ordered = self.ordered
        texts = [each.text for each in ordered if each.severity == "error"]
        if self._errors >= MAX_ERRORS:
            texts.append(f"{MAX_ERRORS} errors; reading stops here")
        raise TritonCError("\n".join(texts), tuple(ordered))

    @property
    def warnings(self) -> list[Diagnostic]:
        return [each for each in self.found if each.severity == "warning"]


__all__ = ["Diagnostic", "Diagnostics", "Location", "TritonCError"]
