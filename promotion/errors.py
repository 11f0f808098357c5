"""Defines the exception classes of joinery, in the lowest layer because every layer raises them, and what messages show.

Names and lines of a stranger's file can neither begin a line of a message nor drive a terminal: control characters, separators
of lines and paragraphs, and what changes the direction of text or has no glyph are shown as `\\n`, `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar
from unicodedata import category

_Class = TypeVar("_Class", bound=type)


def printable(name: str) -> str:
    """Show a name, or any other text that is one line: line ends are escaped, too."""
    return name if name.isprintable() else "".join([_shown(each, "") for each in name])


def printable_lines(text: str) -> str:
    """Show a text of several lines, whose own line ends and tabs stay."""
    return text if text.isprintable() else "".join([_shown(each, "\n\t") for each in text])


def in_columns(line: str) -> str:
    """Show a line of a text below which a caret points to one of its columns: one character stands for each."""
    if line.isprintable():
        return line
    shown = [" " if each == "\t" else _shown(each, "") for each in line]
    return "".join([each if len(each) == 1 else "\N{REPLACEMENT CHARACTER}" for each in shown])


def _shown(character: str, kept: str) -> str:
    # Spaces of other widths are not printable to Python; people write them, and they do no harm.
    if character.isprintable() or character in kept or category(character) == "Zs":
        return character
    return repr(character)[1:-1]


def public(cls: _Class) -> _Class:
    """Name an exception by where users find it: `joinery.AccessError` in tracebacks and pickles, wherever its class is."""
    cls.__module__ = __name__.partition(".")[0]
    return cls


@public
class JoineryError(Exception):
    """Base class of every exception that joinery raises on purpose.

    A copied or pickled error has the message and the attributes of the original, whatever its class is made of.

    Attributes:
        origin: `file:line` of the operation that cannot be lowered or run, which the message names; else None.
        is_formatted: whether the message has lines with carets below them, which nobody may wrap.
        refuses_sizes: whether a model refuses the sizes of its inputs: one that is compiled for these sizes may take them.
    """

    origin: str | None = None
    is_formatted: bool = False
    refuses_sizes: bool = False

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        # Exceptions are made again by calling the class with `args`, the finished message, which many classes compose of
        # other arguments; a process pool waits forever for an error that it cannot read.
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]

    def __str__(self) -> str:
        # Messages quote names and lines of texts from anywhere; here none of those who compose them can forget it. Only
        # the ends of lines are left to them, since messages have several.
        return printable_lines(super().__str__())

    def add_note(self, note: str, /) -> None:
        """Add a note to the message, of which the same is shown as of that."""
        super().add_note(printable_lines(note))


@public
class UserError(JoineryError, ValueError):
    """The input is wrong. The message names the op, the operands, what was expected and one concrete fix."""


def called_from(callers: Sequence[tuple[str, int]]) -> str:
    """The lines of a message that name calls, (file, line), the innermost first."""
    return "".join([f"\n  called from {printable(file)}:{line}" for file, line in callers])


@public
class KernelAssertionError(UserError, RuntimeError):
    """A `tt.assert` of a block kernel failed.

    Attributes:
        message: the kernel's own message.
        file, line: where the assertion stands in the kernel's source; None when the text does not say.
        program: the program's coordinates in the grid along x, y, z.
        lane: the index of the first false element in the condition; () for a scalar.
    """

    def __init__(
        self,
        text: str,
        message: str = "",
        file: str | None = None,
        line: int | None = None,
        program: tuple[int, int, int] = (0, 0, 0),
        lane: tuple[int, ...] = (),
    ) -> None:
        super().__init__(text)
        self.message = message
        self.file = file
        self.line = line
        self.program = program
        self.lane = lane

    @classmethod
    def of(
        cls,
        message: str,
        location: tuple[str, int] | None,
        program: tuple[int, int, int],
        lane: tuple[int, ...],
        callers: Sequence[tuple[str, int]] = (),
    ) -> KernelAssertionError:
        """The error of an assertion with this message at `location`, (file, line), which fails in a program and element.

        callers: lines of the calls around it, the innermost first.
        """
        file, line = location if location is not None else (None, None)
        at = f" at {printable(location[0])}:{line}" if location is not None else ""
        element = f", element {lane}" if lane else ""
        text = f"the kernel's assertion{at} fails in program {program}{element}: {printable(message)}{called_from(callers)}"
        error = cls(text, message, file, line, program, lane)
        if location is not None:
            error.origin = f"{file}:{line}"
        return error


@public
class UnsupportedError(JoineryError, NotImplementedError):
    """The input is valid but joinery does not implement it. The message names what is missing."""


class ResourceError(UnsupportedError):
    """A kernel needs more of a device than there is.

    Attributes:
        what: the resource, "shared memory".
        required, limit: how much the kernel needs, and how much there is.
    """

    def __init__(self, text: str, what: str = "", required: int = 0, limit: int = 0) -> None:
        super().__init__(text)
        self.what = what
        self.required = required
        self.limit = limit


@public
class PromotionWarning(UserWarning):
    """An implicit cast that may lose values, in a graph whose `on_loss` asks for warnings about it."""


@public
class TritonCWarning(UserWarning):
    """Something in a text in Triton-C is legal, and perhaps not meant."""


@public
class InternalError(JoineryError, RuntimeError):
    """An invariant between joinery's layers does not hold: a bug in joinery, never the user's mistake."""


@public
class DeviceError(JoineryError, RuntimeError):
    """A device is missing, rejects a request, or failed.

    Attributes:
        code, name: the driver's error (700, "CUDA_ERROR_ILLEGAL_ADDRESS"); 0 and "" when the error is not the
            driver's.
    """

    def __init__(self, text: str, code: int = 0, name: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.name = name


@public
class DeviceMemoryError(UserError, MemoryError):
    """A device has too little free memory for an allocation; it stays usable.

    Attributes:
        asked, free, total: bytes that were asked for, are free, and exist on the device.
    """

    def __init__(self, text: str, asked: int = 0, free: int = 0, total: int = 0) -> None:
        super().__init__(text)
        self.asked = asked
        self.free = free
        self.total = total


def close_names(name: str, known: Iterable[str], n: int = 3, cutoff: float = 0.6) -> list[str]:
    """Return at most `n` known names spelled most like `name`, which a user may have meant, closest first."""
    import difflib  # imported here because only mistakes need it

    return difflib.get_close_matches(name, list(known), n, cutoff)
