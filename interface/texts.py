"""Reads the texts that kernels are made of, each into a module of the block IR: TTIR and Triton-C."""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..lowering.frontends.ttir.text import parse
from ..lowering.gc_paused import gc_paused
from ..promotion.arrays import Array
from ..promotion.dataclass import dataclass
from ..promotion.dtype import DType
from ..promotion.errors import TritonCWarning, UserError

if TYPE_CHECKING:  # the front end of Triton-C loads when it is used
    from xdsl.dialects.builtin import ModuleOp

    from ..lowering.frontends.triton_c.text import Reading
    from .triton_c_launches import LaunchRules

MakeArguments = Callable[[Any, Sequence[Any]], tuple[Any, ...]]
"""(grid, arguments of a launch) → arguments of the block function."""
MAX_TEXT = 1 << 26
"""Most bytes of text that are read."""
TTIR_SUFFIXES = (".ttir", ".mlir")
TRITON_C_SUFFIXES = (".tc", ".c")
_TYPES = {
    "bool": "bool", "float16": "half", "bfloat16": "bfloat16", "float32": "float", "float64": "double",
    **{f"{u}int{bits}": f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
"""dtype → its name in Triton-C."""


class KernelText(Protocol):
    """What a kernel is made of: a value that can be pickled."""

    @property
    def text(self) -> str:
        """The text itself."""

    def identity(self) -> bytes:
        """Return what the block IR is made of, as bytes: what differs in it has other ones."""

    def module(self) -> ModuleOp:
        """Return the block IR. Raises `UserError` for a text with errors."""

    def launcher(self, constants: Callable[[], Mapping[str, Array]]) -> MakeArguments:
        """Return what makes the arguments of the block function from a grid, those of a launch, and the constant memory.

        It raises `UserError` for arguments that break what the text promises of them, and for a grid that it cannot have.
        """

    def refuse_null(self, args: Sequence[Any]) -> None:
        """Raise `UserError` for a None that every program reads or writes through. args: those of the block function."""

    def naming_types(self) -> AbstractContextManager[None]:
        """Let errors of a launch name types of parameters as the text has them."""

    def constants(self) -> dict[str, Array]:
        """Return new arrays for the constant memory of the kernel, by name."""


@dataclass(frozen=True, slots=True)
class TtirText:
    """A text in the tt dialect. source: its name in messages."""

    text: str
    source: str

    def identity(self) -> bytes:
        return f"tt {self.text}".encode(errors="surrogatepass")

    def module(self) -> ModuleOp:
        return parse(self.text, self.source)

    def launcher(self, constants: Callable[[], Mapping[str, Array]]) -> MakeArguments:
        """Return what leaves arguments as they are: launches find out by themselves what holds for them."""
        return _as_they_are

    def refuse_null(self, args: Sequence[Any]) -> None:
        """Accept everything: what such a text reads is not followed."""

    def naming_types(self) -> AbstractContextManager[None]:
        """Leave errors as they are: their types are those of the text."""
        return nullcontext()

    def constants(self) -> dict[str, Array]:
        """Return nothing: the dialect has no constant memory."""
        return {}


@dataclass(frozen=True, slots=True)
class TritonCText:
    """A text in Triton-C with what it is compiled for.

    The fields are the arguments of `frontends.triton_c.text.read`; `is_known`: its warnings were given before.
    """

    text: str
    source: str
    defines: tuple[tuple[str, str], ...]
    name: str | None
    include: tuple[tuple[str, str], ...]
    single_precision_constants: bool
    is_known: bool = False

    def __reduce__(self) -> tuple[type[TritonCText], tuple[object, ...]]:
        values = self.text, self.source, self.defines, self.name, self.include, self.single_precision_constants
        return TritonCText, (*values, True)

    def identity(self) -> bytes:
        """Return the fields as bytes; lines of the block IR have the name of the text."""
        made_of = self.text, self.source, self.defines, self.name, self.include, self.single_precision_constants
        return f"Triton-C {made_of!r}".encode(errors="surrogatepass")

    def reading(self) -> Reading:
        """Return the text as far as the typed tree."""
        from ..lowering.frontends.triton_c.text import read

        include = dict(self.include)
        return read(self.text, self.source, dict(self.defines), self.name, include, self.single_precision_constants)

    def module(self) -> ModuleOp:
        """Return the block IR, and warn of what is legal and perhaps not meant."""
        from ..lowering.frontends.triton_c.text import build

        with gc_paused():
            reading = self.reading()
            module = build(reading)
            found = () if self.is_known else reading.diagnostics.warnings
            del reading  # tokens and trees go before the next collection would visit them
        for each in found:
            warnings.warn(each.text, TritonCWarning, stacklevel=4)
        return module

    def flattened(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Return arguments with one for each part of a struct. Raises `UserError` for those that go to no parameter."""
        rules = _rules(self)
        found = rules.flattened(args)
        rules.check(found)
        return found

    def launcher(self, constants: Callable[[], Mapping[str, Array]]) -> MakeArguments:
        """Return what makes the arguments of the block function: one for each part of a struct, and tables behind them.

        Types of parameters are compared with them, and what is promised of them: multiples, alignments, arrays that do not
        overlap. Grids have positive sizes.
        """
        make = _rules(self).arguments
        return lambda grid, args: make(grid, args, constants)

    def refuse_null(self, args: Sequence[Any]) -> None:
        """Raise `UserError` for a None that every program reads or writes through. args: those of the block function."""
        _rules(self).refuse_null(args)

    @contextmanager
    def naming_types(self) -> Iterator[None]:
        """Let errors of a launch name types of parameters as the text has them, in place of those of the block IR."""
        try:
            yield
        except UserError as error:
            error.args = (_rules(self).with_own_types(str(error)), *error.args[1:])
            raise

    def constants(self) -> dict[str, Array]:
        """Return new arrays for the constant memory of the kernel, by name."""
        return {each.name: each.array() for each in _rules(self).tables}


def _as_they_are(grid: Any, args: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(args)


@functools.lru_cache(maxsize=256)
def _rules(text: TritonCText) -> LaunchRules:
    """Return what the launch of a kernel has to check and to add."""
    from .triton_c_launches import launch_rules

    return launch_rules(text.reading())


def marked_parameters(reading: Reading, attribute: str) -> frozenset[str]:
    """Return the names of the parameters of a kernel that have an attribute, such as "retune"."""
    kernel = reading.typed.kernel
    pairs = zip(kernel.parameters, kernel.promises, strict=True)
    return frozenset(symbol.name for symbol, promises in pairs if any(each.name == attribute for each in promises))


def read_text(text_or_path: str | os.PathLike[str], suffixes: tuple[str, ...], what: str) -> tuple[str, str]:
    """Return a text and its name in messages. `what` reads it, from text or the path of a file that ends in a suffix.

    Raises `UserError` for what can be neither, and for files that cannot be read.
    """
    if not isinstance(text_or_path, str | os.PathLike):
        raise UserError(f"{what}: expected text or a path, got {type(text_or_path).__name__}")
    is_text = isinstance(text_or_path, str) and ("\n" in text_or_path or not text_or_path.endswith(suffixes))
    if is_text:
        text = str(text_or_path)
        if len(text) > MAX_TEXT:
            raise UserError(f"{what}: {len(text)} characters; at most {MAX_TEXT} are read")
        return characters(text, f"{what}: the text"), "<text>"
    path = checked_path(text_or_path, f"{what}: the path")
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_TEXT + 1)
    except OSError as error:
        raise UserError(f"{what}: {path} cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_TEXT:
        raise UserError(f"{what}: {path} is larger than {MAX_TEXT} bytes")
    try:
        return content.decode("utf-8"), path.name
    except UnicodeDecodeError as error:
        raise UserError(f"{what}: {path} is no UTF-8 text: {error}") from None


def characters(text: str, what: str) -> str:
    """Return a text of characters. Raises `UserError` for one with half a character, a surrogate, which no file can hold."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            half = text[error.start]
            raise UserError(f"{what} has a lone surrogate, {half!a}, at {error.start}; fix: whole characters") from None
    return text


def checked_path(path: object, what: str) -> Path:
    """Return a path that files may have. Raises `UserError` for what is no path, and for names with NUL or surrogates."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise UserError(f"{what}: expected a path, got {type(path).__name__}")
    name = os.fspath(path)
    try:
        if "\0" not in name and os.fsencode(name):
            return Path(name)
        reason = "has a NUL character" if name else "is empty"
    except UnicodeEncodeError:
        reason = "has a lone surrogate"
    raise UserError(f"{what} {name!a} {reason}; fix: the name of a file")


def ttir_text(text_or_path: str | os.PathLike[str]) -> TtirText:
    """Return the value that a kernel in the tt dialect is made of."""
    return TtirText(*read_text(text_or_path, TTIR_SUFFIXES, "from_ttir"))


def triton_c_text(
    text_or_path: str | os.PathLike[str],
    defines: Mapping[str, object] | None,
    name: str | None,
    include: Mapping[str, str | os.PathLike[str]] | Sequence[str | os.PathLike[str]],
    single_precision_constants: bool,
) -> TritonCText:
    """Return the value that a kernel is made of. The arguments are those of `kernel.from_triton_c`."""
    text, source = read_text(text_or_path, TRITON_C_SUFFIXES, "from_triton_c")
    macros = checked_defines(defines, "from_triton_c")
    found = {key: macro_body(key, value, "from_triton_c") for key, value in macros.items()}
    bodies = [(key, body) for key, body in found.items() if body is not None]
    if name is not None and not isinstance(name, str):
        raise UserError(f"from_triton_c: name is {name!r}, expected the name of a kernel")
    return TritonCText(text, source, tuple(bodies), name, tuple(_files(include)), single_precision_constants)


def checked_defines(defines: object, what: str) -> Mapping[str, object]:
    """Return the macros of the caller. Raises `UserError` for what is no mapping."""
    if defines is None:
        return {}
    if not isinstance(defines, Mapping):
        fix = "dict(…) of the pairs" if isinstance(defines, list | tuple) else "{'NAME': value}"
        raise UserError(f"{what}: defines is a {type(defines).__name__}, expected a mapping of macros; fix: {fix}")
    return defines


def _files(include: object) -> list[tuple[str, str]]:
    """Return the files that `#include` finds, each with its name. Raises `UserError` for what can be none."""
    what = "from_triton_c: include"
    if isinstance(include, Mapping):
        for key in include:
            if not isinstance(key, str):
                raise UserError(f"{what} has {key!r}, expected the name of a file and its text or Path")
        return [(characters(key, f"{what}: a name"), _file(value, key)) for key, value in include.items()]
    if isinstance(include, str | os.PathLike) or not isinstance(include, Iterable):
        fix = f"include=[{include!r}]" if isinstance(include, str | os.PathLike) else "a list of paths, or {'name': text}"
        raise UserError(f"{what} is a {type(include).__name__}, expected paths, or a mapping of names; fix: {fix}")
    return [(checked_path(path, what).name, _file(Path(path))) for path in include]


def _file(value: object, name: str = "") -> str:
    """Return the text of a file to include, or what is given in place of it."""
    what = "from_triton_c: include"
    if isinstance(value, str):
        return characters(value, f"{what}[{name!r}]")
    return read_text(checked_path(value, what), (), what)[0]


def macro_body(name: object, value: object, what: str) -> str | None:
    """Return the tokens that a macro of the caller stands for; None for one that is not defined. what: names the caller."""
    is_named = isinstance(name, str) and name.isascii() and name.partition("(")[0].strip().isidentifier()
    if not isinstance(name, str) or not is_named:
        raise UserError(f"{what}: defines has {name!r}, expected the name of a macro, or a name with parameters, F(x)")
    if value is None:
        return None
    if isinstance(value, str):
        return characters(value, f"{what}: defines[{name!r}]")
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, int | np.integer):
        return _integer_body(name, int(value), what)
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isfinite(number):
            return repr(number)
        return "NAN" if math.isnan(number) else "INFINITY" if number > 0 else "-INFINITY"
    is_numpy = isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic))
    if is_numpy or isinstance(value, DType):
        asked: Any = value
        dtype = np.dtype(asked) if is_numpy else asked
        if dtype.name not in _TYPES:
            known = ", ".join(_TYPES)
            raise UserError(f"{what}: defines[{name!r}] is {dtype}, which Triton-C does not have; it has {known}")
        return _TYPES[dtype.name]
    if isinstance(value, list | tuple | np.ndarray):
        raise UserError(f"{what}: defines[{name!r}] is a list, and a kernel has one value; fix: jn.kernel.tune")
    raise UserError(f"{what}: defines[{name!r}] is a {type(value).__name__}, expected text, a number, a dtype or None")


def _integer_body(name: str, value: int, what: str) -> str:
    """Return an integer as C writes it: the least one is a difference, and from 2^63 on they are unsigned."""
    if not -(1 << 63) <= value < 1 << 64:
        bits = value.bit_length() + (value < 0)
        fix = "a smaller number, or a text if it is meant to be tokens"
        raise UserError(f"{what}: defines[{name!r}] is an integer of {bits} bits, and integers have 64; fix: {fix}")
    if value == -(1 << 63):
        return f"({value + 1} - 1)"
    return f"{value}u" if value >= 1 << 63 else str(value)


__all__ = [
    "MAX_TEXT", "KernelText", "TritonCText", "TtirText", "characters", "checked_defines", "checked_path", "macro_body",
    "marked_parameters", "read_text", "triton_c_text", "ttir_text",
]  # fmt: skip
