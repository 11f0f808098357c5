"""Reads the texts that kernels are made of, each into a module of the block IR: TTIR and Triton-C."""

from __future__ import annotations

import functools
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
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

    def module(self) -> ModuleOp:
        """Return the block IR. Raises `UserError` for a text with errors."""

    def arguments(self, grid: Any, args: Sequence[Any], constants: Callable[[], Mapping[str, Array]]) -> tuple[Any, ...]:
        """Return the arguments of the block function, made of those of a launch and of the constant memory.

        Raises `UserError` for arguments that break what the text promises of them, and for a grid that it cannot have.
        """

    def constants(self) -> dict[str, Array]:
        """Return new arrays for the constant memory of the kernel, by name."""


@dataclass(frozen=True, slots=True)
class TtirText:
    """A text in the tt dialect. source: its name in messages."""

    text: str
    source: str

    def module(self) -> ModuleOp:
        return parse(self.text, self.source)

    def arguments(self, grid: Any, args: Sequence[Any], constants: Callable[[], Mapping[str, Array]]) -> tuple[Any, ...]:
        """Return the arguments as they are: launches find out by themselves what holds for them."""
        return tuple(args)

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

    def arguments(self, grid: Any, args: Sequence[Any], constants: Callable[[], Mapping[str, Array]]) -> tuple[Any, ...]:
        """Return the arguments of the block function: one for each part of a struct, and tables behind them.

        Types of parameters are compared with them, and what is promised of them: multiples, alignments, arrays that do not
        overlap. Grids have positive sizes.
        """
        rules = _rules(self)
        rules.check_grid(grid)
        found = rules.flattened(args)
        if rules.tables and len(found) == rules.count:
            memory = constants()
            found = (*found, *(memory[each.name] for each in rules.tables))
        rules.check(found)
        return rules.as_bytes(found)

    def constants(self) -> dict[str, Array]:
        """Return new arrays for the constant memory of the kernel, by name."""
        return {each.name: each.array() for each in _rules(self).tables}


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
        return text, "<text>"
    path = Path(text_or_path)
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
    found = {key: macro_body(key, value, "from_triton_c") for key, value in (defines or {}).items()}
    bodies = [(key, body) for key, body in found.items() if body is not None]
    if isinstance(include, Mapping):
        files = [(key, value if isinstance(value, str) else _file(value)) for key, value in include.items()]
    else:
        files = [(Path(path).name, _file(path)) for path in include]
    return TritonCText(text, source, tuple(bodies), name, tuple(files), single_precision_constants)


def _file(path: str | os.PathLike[str]) -> str:
    return read_text(Path(path), (), "from_triton_c: include")[0]


def macro_body(name: object, value: object, what: str) -> str | None:
    """Return the tokens that a macro of the caller stands for; None for one that is not defined. what: names the caller."""
    if not isinstance(name, str) or not name.partition("(")[0].strip().isidentifier():
        raise UserError(f"{what}: defines has {name!r}, expected the name of a macro, or a name with parameters, F(x)")
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool | np.bool_):
        return str(int(value))
    if isinstance(value, int | np.integer):
        return str(int(value))
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


__all__ = [
    "MAX_TEXT", "KernelText", "TritonCText", "TtirText", "macro_body", "marked_parameters", "read_text",
    "triton_c_text", "ttir_text",
]  # fmt: skip
