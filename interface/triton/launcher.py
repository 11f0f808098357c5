"""Launches of Triton's kernels on the CPU: arguments taken apart, and run as the settings say."""

from __future__ import annotations

import ctypes
import operator
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ...promotion.errors import KernelAssertionError, UserError
from ...runtime.host.threads import launch_pool, launch_threads
from ..native.kernel import NativeKernel
from ..native.memory_layout import memory_layout
from ..native.plain_launches import FLOAT32, FLOAT64, INTEGER, MEMORY, NOTHING, PlainLaunches, Record
from ..native.reach import NOTHING as NO_MEMORY
from ..native.reach import Reach, known_memory
from . import benchmarking, proving
from .memory import EVERYWHERE, Elsewhere, addressed_memory, device, flattened, memory_around, storage_of
from .options import settings_of
from .patches.arrays import ArrayArgument
from .settings import Settings, current
from .testing import record
from .testing.graphs.capture import Capture, captures

_Taken = tuple[list[int], list[tuple[int, int, int]]]
"""The arguments as the 64-bit values that native code reads, and (position, first byte, end) of the memory behind pointers."""
_FLOATS = ("fp16", "bf16", "fp32", "fp64", "f32")
_float, _float_bits = struct.Struct("<f"), struct.Struct("<i")
_double, _double_bits = struct.Struct("<d"), struct.Struct("<q")
MAX_PROGRAMS = (1 << 31) - 1
_MAX_COUNT = 1 << 62
"""Programs of a whole grid, which are counted in 64 bits."""


class Launcher:
    """Launches one compiled kernel, as Triton calls it: grid, stream, the loaded kernel, hooks, and all bound arguments."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self._metadata = metadata
        self._file = _file_of(source)
        self._types = list(source.signature.values())
        self._names = list(source.signature)
        self._runtime = [i for i, type_ in enumerate(self._types) if type_ != "constexpr"]
        self._take = _taker(self._types)
        self._records = _records(self._types)
        self._follow(current())

    def _follow(self, ambient: Settings) -> None:
        """Launch as the settings of the process say from now on, where a launch does not say it itself."""
        self._ambient = ambient
        self._settings = settings_of(self._metadata)
        self._plain, self._loaded, self._knows_torch = PlainLaunches(None), None, False

    def __call__(
        self, x: Any, y: Any, z: Any, stream: Any, function: Any, packed: Any, launch: Any, enter: Any, leave: Any, *args: Any
    ) -> None:
        if enter is not None:
            enter(launch)
        if current() is not self._ambient:
            self._follow(current())
        if captures and captures[0].concerns():
            self._capture(captures[0], function, (x, y, z, stream, function, packed, launch), args)
        settings = self._settings
        is_plain = function is self._loaded and not benchmarking.is_timed() and not proving.is_on()
        stopped = self._plain.start(launch_pool(settings.threads), (x, y, z), *args) if is_plain else False
        if stopped is not None:
            extents = _extents(function.name, x, y, z)
            if len(args) != len(self._types):
                args = self._completed(args)
            function.belong_to(self._file)
            if settings.mode == "native":
                if proving.is_on():
                    proving.note(function, extents, self._names, self._types, args)
                self._run(function, extents, args, settings, stopped)
            else:
                from .slow_launches import run

                run(function, extents, self._names, self._types, args, settings, self._metadata.num_warps)
        record.launched(function.name)
        if leave is not None:
            leave(launch)

    def _capture(self, capture: Capture, loaded: Any, head: tuple[Any, ...], args: Sequence[Any]) -> None:
        """Note a launch for a graph of CUDA, before it is made.

        Raises `NotImplementedError` for one that may write memory that is none of its arguments.
        """
        capture.check_stream(f"the kernel {loaded.name}")
        if len(args) != len(self._types):
            args = self._completed(args)
        pointers = [each for each in flattened(self._names, self._types, args) if each[1].startswith(("*", "tensordesc"))]
        found = [storage_of(arg.base if type_[0] == "t" else arg, what) for what, type_, arg in pointers]
        spans = [span for address, span in found if address]
        if loaded.checked_native.facts.follows or EVERYWHERE in spans:
            why = "it follows addresses, and what it writes there could not be taken back"
            capture.refuse(f"the kernel {loaded.name}", why)
        capture.keep(spans, [arg.untyped_storage() if hasattr(arg, "untyped_storage") else arg for arg in args])
        kept = [arg.detach() if hasattr(arg, "detach") else arg for arg in args]
        capture.add(lambda: self(*head, None, None, *kept))

    def _run(
        self, loaded: Any, extents: tuple[int, int, int], args: Sequence[Any], settings: Settings,
        stopped: Literal[False] | bytes,
    ) -> None:
        """Run native code. stopped: the status words, if the launch was made already, and a program stopped it.

        Raises `AccessError` for an access outside of the memory of its tensor, if these are compared. It notes this for the
        test-suite that runs, and assertions that fail.
        """
        try:
            values, spans = self._take(*args)
        except (AttributeError, OverflowError, TypeError, RuntimeError):
            values, spans = take_any(self._names, self._types, args)
        if benchmarking.is_timed():
            benchmarking.launched((loaded.text, loaded.numerics, extents, tuple(values)))
        native = loaded.checked_native if settings.check_bounds else loaded.native
        reach = self._reach(native, values, spans) if settings.check_bounds else None
        try:
            if stopped and self._plain.program is not None:
                self._plain.program.raise_stopped(loaded.function, stopped, extents, reach)
            native.program(spans, values).run(loaded.function, values, extents, launch_threads(settings.threads), reach)
        except UserError as error:
            from ...lowering.tt.interpret.memory import AccessError

            if isinstance(error, AccessError | KernelAssertionError):
                record.found(loaded.name, error)
            raise
        self._prepare(loaded, native)

    def _prepare(self, loaded: Any, native: NativeKernel) -> None:
        """Launch by one native call from now on, if the kernel and its arguments are such that it can."""
        if self._records is None:
            return
        has_torch = "torch" in sys.modules
        if loaded is not self._loaded or has_torch is not self._knows_torch:
            layout = memory_layout(ArrayArgument, device())
            self._plain = PlainLaunches(None if layout is None else self._records, layout)
            self._loaded, self._knows_torch = loaded, has_torch
        self._plain.prepare(native)

    def _reach(self, native: NativeKernel, values: list[int], spans: list[tuple[int, int, int]]) -> Reach:
        """The memory that a launch may reach. Raises `UserError` for an address that lies in none."""
        facts = native.facts
        spans = [self._known(each, values) if each[2] == EVERYWHERE[1] else each for each in spans]
        if not facts.follows:
            return Reach(spans, NO_MEMORY)
        reached = addressed_memory(values, spans, facts.tables, facts.follows_again)
        return Reach(spans, known_memory([*[(first, end) for _, first, end in spans], *reached]))

    def _known(self, span: tuple[int, int, int], values: list[int]) -> tuple[int, int, int]:
        """The memory around the address that a pointer was given as. Raises `UserError` for an address in none."""
        position = span[0]
        return position, *memory_around(values[position], f"argument {position}", Elsewhere())

    def _completed(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """The arguments with nothing for the constexprs, which some callers leave out.

        Raises `UserError` for another number.
        """
        if len(args) != len(self._runtime):
            raise UserError(f"the kernel takes {len(self._types)} arguments, got {len(args)}")
        found: list[Any] = [None] * len(self._types)
        for position, arg in zip(self._runtime, args, strict=True):
            found[position] = arg
        return tuple(found)


def _file_of(source: Any) -> str | None:
    """The file of the function that a kernel was compiled from; None of texts."""
    code = getattr(getattr(getattr(source, "fn", None), "fn", None), "__code__", None)
    return getattr(code, "co_filename", None)


def _extents(name: str, *grid: Any) -> tuple[int, int, int]:
    """The grid as integers. Raises `UserError` for what is none."""
    x, y, z = grid
    if type(x) is int and type(y) is int and type(z) is int and x >= 0 and y >= 0 and z >= 0 and x | y | z <= MAX_PROGRAMS:
        return _counted(name, x, y, z)
    found = []
    for extent in grid:
        try:
            number = extent.__index__()
        except (AttributeError, TypeError, RuntimeError):
            raise UserError(f"{name}: the grid {grid} has {extent!r}, expected integers") from None
        if not 0 <= number <= MAX_PROGRAMS:
            raise UserError(f"{name}: the grid {grid} has {number} programs along an axis, expected 0 to {MAX_PROGRAMS}")
        found.append(number)
    return _counted(name, found[0], found[1], found[2])


def _counted(name: str, x: int, y: int, z: int) -> tuple[int, int, int]:
    if x * y * z > _MAX_COUNT:
        raise UserError(f"{name}: the grid {(x, y, z)} has more than 2**62 programs")
    return x, y, z


def _records(types: Sequence[Any]) -> list[Record] | None:
    """What arguments of a signature are to native code that takes them apart; None if it cannot."""
    kinds = {"constexpr": NOTHING, "fp32": FLOAT32, "f32": FLOAT32, "fp64": FLOAT64}
    if any(not isinstance(type_, str) or type_.startswith("tensordesc") or type_ in ("fp16", "bf16") for type_ in types):
        return None
    return [MEMORY if type_.startswith("*") else kinds.get(type_, INTEGER) for type_ in types]


def _taker(types: Sequence[Any]) -> Callable[..., _Taken]:
    """A function that takes the arguments of a launch apart, if all of them are tensors, integers and float32.

    It is compiled for the signature: looking at types argument by argument takes longer than many a launch. What is not as it
    expects raises one of the errors after which the launcher calls `take_any`.
    """
    if any(not isinstance(type_, str) or type_.startswith("tensordesc") or type_ in ("fp16", "bf16") for type_ in types):
        return _take_nothing
    parameters = [f"a{i}" for i in range(len(types))]
    lines: list[str] = []
    values: list[str] = []
    spans: list[str] = []
    for i, type_ in enumerate(types):
        if type_ == "constexpr":
            continue
        if type_.startswith("*"):
            lines.append(f"  if type(a{i}) is array: b{i}, e{i} = a{i}.memory_span()")
            lines += ["  else:", f"    if not a{i}.is_{device()} or a{i}.is_nested or a{i}.is_neg(): raise TypeError"]
            lines += [f"    s{i} = a{i}.untyped_storage()", f"    b{i} = s{i}.data_ptr()", f"    e{i} = b{i} + s{i}.nbytes()"]
            lines.append(f"    if not b{i} and a{i}.numel(): raise TypeError")
            spans.append(f"({len(values)}, b{i}, e{i})")
            values.append(f"a{i}.data_ptr()")
        elif type_ in ("fp32", "f32"):
            values.append(f"bits(single(a{i}))[0]")
        elif type_ == "fp64":
            values.append(f"double_bits(double(a{i}))[0]")
        else:
            values.append(f"a{i}")
    text = f"def take({', '.join(parameters)}):\n" + "\n".join(lines)
    text += f"\n  return [{', '.join(values)}], [{', '.join(spans)}]"
    made: dict[str, Any] = {}
    exec(
        text,
        {
            "bits": _float_bits.unpack, "single": _float.pack, "double_bits": _double_bits.unpack, "double": _double.pack,
            "array": ArrayArgument,
        },
        made,
    )
    return made["take"]  # type: ignore[no-any-return]


def _take_nothing(*args: Any) -> _Taken:
    raise TypeError


def take_any(names: Sequence[str], types: Sequence[Any], args: Sequence[Any]) -> _Taken:
    """Take any arguments apart. Raises `UserError` for those that a kernel cannot be given."""
    values: list[int] = []
    spans: list[tuple[int, int, int]] = []
    for what, type_, arg in flattened(names, types, args):
        if type_.startswith("*"):
            address, (first, end) = storage_of(arg, what)
            spans.append((len(values), first, end))
            values.append(address)
        elif type_.startswith("tensordesc"):
            address, (first, end) = storage_of(arg.base, what)
            spans.append((len(values), first, end))
            values.append(address)
            shape, strides = [int(each) for each in arg.shape], [int(each) for each in arg.strides]
            nan = getattr(arg, "padding", "zero") == "nan"
            if (first, end) != EVERYWHERE:
                _check_reach(arg, what, address, (first, end), shape, strides)
            values += [*shape, *strides, int(nan), *shape, *strides]
        elif type_ in _FLOATS:
            values.append(_encoded_float(type_, arg))
        else:
            values.append(_encoded_integer(what, type_, arg))
    return values, spans


def _check_reach(
    arg: Any, what: str, address: int, span: tuple[int, int], shape: Sequence[int], strides: Sequence[int]
) -> None:
    """Raises `UserError` for a described tensor that reaches beyond its storage."""
    if 0 in shape:
        return
    size = arg.base.element_size()
    reach = [(extent - 1) * stride * size for extent, stride in zip(shape, strides, strict=True)]
    low = address + sum(step for step in reach if step < 0)
    high = address + sum(step for step in reach if step > 0) + size
    if low < span[0] or high > span[1]:
        beyond = max(high - span[1], span[0] - low)
        raise UserError(
            f"{what}: a descriptor of shape {list(shape)} with strides {list(strides)} reaches {beyond} bytes beyond its "
            f"tensor of {span[1] - span[0]} bytes"
        )


def _encoded_float(type_: str, arg: Any) -> int:
    import numpy as np

    number = float(arg)
    if type_ == "fp64":
        return int(np.float64(number).view(np.int64))
    if type_ == "bf16":
        import ml_dtypes

        number = float(ml_dtypes.bfloat16(number))
    with np.errstate(over="ignore"):
        single = np.float32(np.float16(number) if type_ == "fp16" else number)
    return int(single.view(np.int32))


def _encoded_integer(what: str, type_: str, arg: Any) -> int:
    try:
        number = operator.index(arg)
    except (TypeError, RuntimeError):
        raise UserError(f"{what}: expected a number for a parameter of type {type_}, got {type(arg).__name__}") from None
    return ctypes.c_int64(number).value
