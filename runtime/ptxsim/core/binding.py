"""Resolves operands of instructions to NumPy arrays and scalars, once per launch shape."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np

from ....lowering.ptx.instructions import WIDTHS, Decoded, describe
from ....lowering.ptx.modules import Function
from ....lowering.ptx.syntax import Float, Instruction, Integer, Name, Operand, Pair, Register, Sink, Special
from ....promotion.arrays import Array, NumpyDType
from ....promotion.errors import UnsupportedError, UserError
from ..checks.product_registers import ProductRegisters
from ..memory.spaces import Space
from .context import MachineContext
from .types import UNSIGNED, Mask, Source, Step, number_type

Write = Callable[[Array, Mask], None]
Ufunc = Callable[..., Array]
"""A function of sources that takes `out` and `where` as NumPy's ufuncs do."""


Access = Callable[[Space, Array, Array | None], None]
"""Called with the space, byte offsets and lanes (None: all) of an access, before it happens."""


class Observer(ABC):
    """Follows undefined values through instructions. `products`: the registers of pending products."""

    products: ProductRegisters

    @abstractmethod
    def row(self, k: Binding, name: str) -> Array:
        """Returns the undefined bytes of a register, per lane, as bits."""

    @abstractmethod
    def access(self, k: Binding, address: Operand, values: Sequence[Operand], size: int, write: bool) -> Access:
        """Returns a function that checks each access of the instruction that is being bound."""

    @abstractmethod
    def step(self, k: Binding, i: Instruction, step: Step) -> Step:
        """Wraps a step with the checks around it."""

    @abstractmethod
    def guard(self, k: Binding, guard: Register, value: Callable[[], Array]) -> Callable[[], Array]:
        """Wraps the value of a guard with a check that it is defined."""


class Binding:
    """Resolves the operands of one function. Sources are views of registers, 0-d arrays (special registers)
    or NumPy scalars."""

    def __init__(self, machine: MachineContext, function: Function, watch: Observer | None) -> None:
        """watch: follows undefined values, at level 2 and above; None below."""
        self.machine = machine
        self.watch = watch
        self.function = function
        self.lanes = machine.lanes
        self.start(Instruction("ret", (), (), None, function.line))

    def start(self, instruction: Instruction, pragmas: tuple[str, ...] = ()) -> None:
        """Begins an instruction. What its builder records for level 2 is kept until the next one:

        the registers that it reads and writes, whether it is an access that updates its own shadow, whether a result depends
        on the whole warp, and `shadow`, which computes exactly which lanes, or bytes as bits, of `shadow_targets` become
        undefined.
        """
        self.decoded: Decoded | None = None
        self.instruction = instruction
        self.pragmas = pragmas
        self.reads: set[str] = set()
        self.writes: set[str] = set()
        self.accesses = False
        self.of_warps = False
        self.shadow: Callable[[Mask], list[Array]] | None = None
        self.shadow_targets: list[str] = []

    @property
    def where(self) -> str:
        return f"PTX line {self.instruction.line}: {self.instruction.spelling}"

    def refuse(self, operand: Operand, expected: str) -> UserError:
        return UserError(f"{self.where}: {describe(operand)}, expected {expected}")

    def undefined(self, operand: Operand) -> Callable[[], Array]:
        """Returns a function that gives the undefined bytes of a source per lane, as bits, for `shadow`."""
        watch = self.watch
        if watch is None or not isinstance(operand, Register):
            nowhere = np.zeros(self.lanes, np.uint8)
            return lambda: nowhere
        row = watch.row(self, operand.name)
        return lambda: row

    def shadowed(self, targets: Sequence[Operand], shadow: Callable[[Mask], list[Array]]) -> None:
        """Sets the function that computes which lanes of the targets an instruction leaves undefined."""
        names = [o.name if isinstance(o, Register) else None for o in targets]
        kept = [index for index, name in enumerate(names) if name is not None]
        self.shadow_targets = [name for name in names if name is not None]
        self.shadow = lambda mask: [value for index, value in enumerate(shadow(mask)) if index in kept]

    # -- checks of level 2 and above

    def watcher(
        self, address: Operand, values: Sequence[Operand], size: int, write: bool
    ) -> Access | None:
        """Returns a function to call for every access, at level 2 and above; None below."""
        return None if self.watch is None else self.watch.access(self, address, values, size, write)

    def observed(self, i: Instruction, step: Step) -> Step:
        """Wraps a step with the checks of level 2 and above."""
        return step if self.watch is None else self.watch.step(self, i, step)

    def observed_guard(self, guard: Register, value: Callable[[], Array]) -> Callable[[], Array]:
        return value if self.watch is None else self.watch.guard(self, guard, value)

    # -- sources

    def row(self, name: str) -> Array:
        row = self.machine.registers.rows[(self.function.name, name)]
        if WIDTHS[self.function.registers[name]] > 64:
            raise UnsupportedError(f"{self.where}: registers of 128 bits")
        return row

    def source(self, operand: Operand, type_: str) -> Source:
        """Returns a source of a type; for a wider register its low bits."""
        dtype = number_type(type_)
        match operand:
            case Register(name, negated):
                if negated:
                    raise self.refuse(operand, "no '!'")
                self.reads.add(name)
                row = self.row(name)
                if (row.dtype == np.bool_) != (type_ == "pred") or row.dtype.itemsize < dtype.itemsize:
                    raise self.refuse(operand, f"{WIDTHS[type_]} bits ({type_})")
                ratio = row.dtype.itemsize // dtype.itemsize
                view = row.view(dtype)
                return view[::ratio] if ratio > 1 else view
            case Integer(value):
                if type_ == "pred":
                    return self.scalar(int(value != 0), dtype)
                return self.scalar(value & ((1 << WIDTHS[type_]) - 1), dtype)
            case Float(bits, width):
                if width == 64 and type_ == "f32":
                    single: Source = np.frombuffer(bits.to_bytes(8, "little"), np.float64).astype(np.float32)[0]
                    return single
                return self.scalar(bits & ((1 << WIDTHS[type_]) - 1), dtype)
            case Special(name):
                special = self.machine.special(name, self.where)
                ratio = (
                    special.dtype.itemsize // dtype.itemsize
                )  # the low half of %clock64 and %gridid may be read
                return special.reshape(-1).view(dtype)[::ratio].reshape(special.shape)
            case Name(text):
                address = self.machine.symbol(self.function, text, self.where)
                return self.scalar(address & ((1 << WIDTHS[type_]) - 1), dtype)
        raise self.refuse(operand, f"a register or a literal of {type_}")

    def scalar(self, bits: int, dtype: NumpyDType) -> Source:
        found: Source = np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype)[0]
        return found

    def predicate(self, operand: Operand) -> Callable[[], Array]:
        """Returns a function that gives a predicate source, which may be negated."""
        if isinstance(operand, Register) and operand.negated:
            row: Array = self.source(Register(operand.name), "pred")
            return lambda: ~row
        full = np.broadcast_to(np.asarray(self.source(operand, "pred")), (self.lanes,))
        return lambda: full

    def constant(self, operand: Operand, what: str) -> int:
        if not isinstance(operand, Integer):
            raise self.refuse(operand, f"{what} as an integer literal")
        return operand.value

    def full(self, operand: Operand, type_: str) -> Callable[[], Array]:
        """Returns a function that gives a source as an array over all lanes."""
        value = self.source(operand, type_)
        array = np.asarray(value)
        if array.ndim:
            return lambda: array
        shape = (self.lanes,)
        return lambda: np.broadcast_to(array, shape)

    # -- destinations

    def destination(self, operand: Operand, type_: str) -> Array:
        """Returns the array that a result of a type is written to. A wider register is viewed as an integer
        that extends with the type's sign."""
        dtype = number_type(type_)
        match operand:
            case Sink():
                return np.empty(self.lanes, dtype)
            case Register(name, False):
                self.writes.add(name)
                row = self.row(name)
                if (row.dtype == np.bool_) != (type_ == "pred") or row.dtype.itemsize < dtype.itemsize:
                    raise self.refuse(operand, f"{WIDTHS[type_]} bits ({type_})")
                if row.dtype.itemsize == dtype.itemsize:
                    return row.view(dtype)
                letter = "i" if type_[0] == "s" and not type_.endswith("x2") else "u"
                return row.view(f"{letter}{row.dtype.itemsize}")
        raise self.refuse(operand, "a register")

    def write(self, operand: Operand, type_: str) -> Write:
        """Returns a function that writes a value, given in the NumPy type of `type_`."""
        out = self.destination(operand, type_)
        unsigned = UNSIGNED[WIDTHS[type_]]
        if out.dtype.itemsize > unsigned.itemsize and out.dtype.kind == "u":

            def widened(value: Array, mask: Mask) -> None:
                np.copyto(
                    out, np.asarray(value).view(unsigned), casting="unsafe", where=True if mask is None else mask
                )

            return widened

        def same(value: Array, mask: Mask) -> None:
            if mask is None:
                np.copyto(out, value, casting="unsafe")
            else:
                np.copyto(out, value, casting="unsafe", where=mask)

        return same

    def result(self, d: Decoded) -> Write:
        (operand,) = d.results
        if isinstance(operand, Pair):
            raise self.refuse(operand, "one destination")
        return self.write(operand, d.result_types[0])

    def out(self, d: Decoded) -> Array:
        (operand,) = d.results
        return self.destination(operand, d.result_types[0])

    def sources(self, d: Decoded) -> list[Source]:
        return [self.source(o, t) for o, t in zip(d.sources, d.source_types, strict=True)]


# -- steps from NumPy functions


def unary(function: Ufunc, x: Source, out: Array) -> Step:
    def step(mask: Mask) -> None:
        if mask is None:
            function(x, out)
        else:
            function(x, out, where=mask)

    return step


def binary(function: Ufunc, x: Source, y: Source, out: Array) -> Step:
    def step(mask: Mask) -> None:
        if mask is None:
            function(x, y, out=out)
        else:
            function(x, y, out=out, where=mask)

    return step


def computed(value: Callable[[], Array], out: Array) -> Step:
    """Builds a step that computes for all lanes and writes those of the mask."""

    def step(mask: Mask) -> None:
        if mask is None:
            np.copyto(out, value(), casting="unsafe")
        else:
            np.copyto(out, value(), casting="unsafe", where=mask)

    return step


def copied(x: Source, out: Array) -> Step:
    def step(mask: Mask) -> None:
        if mask is None:
            np.copyto(out, x)
        else:
            np.copyto(out, x, where=mask)

    return step
