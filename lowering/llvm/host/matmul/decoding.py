"""Says how micro-kernels make numbers of a right operand that memory holds in fewer bits, as they read it."""

from __future__ import annotations

from .....promotion.dataclass import dataclass
from ...elementwise import from_memory, memory_element
from ...ir import Function
from ...masks.accesses import load_lanes
from ...values import V, vector
from ..loops.coordinates import memory_size_of


@dataclass(frozen=True, slots=True)
class Decoding:
    """What stands in memory, and what is done to it: ((code & mask) - zero) · scale + offset, in float32.

    stored: the block element in memory, "f16", "bf16" or "i8"; floats are only widened.  signed: whether codes are.  masked,
    rows: which operations there are, of a mask and of "zero", "scale" and "offset", each with a row of one number per column.
    """

    stored: str
    signed: bool = False
    masked: bool = False
    rows: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "_of_" + "_".join([self.stored, *["signed"] * self.signed, *["masked"] * self.masked, *self.rows])

    @property
    def element(self) -> str:
        """The LLVM type of an element in memory."""
        return memory_element(self.stored)

    @property
    def parameters(self) -> list[tuple[str, str]]:
        """The parameters of a function that decodes."""
        return [*([("i8", "mask")] if self.masked else []), *[("ptr", row) for row in self.rows]]

    def from_column(self, f: Function, values: list[V], column: V) -> list[V]:
        """Returns the arguments for columns from one on, from those for all."""
        return [*values[: self.masked], *[f.gep(row, column, "float") for row in values[self.masked :]]]


class Decoder:
    """Emits the decoding of vectors of `n` elements, for panels of `vectors` of them; its rows are loaded when it is made.

    values: of `Decoding.parameters`.  live: the mask of columns that there are, None where all are.
    """

    def __init__(self, f: Function, decoding: Decoding, values: list[V], n: int, vectors: int, live: V | None) -> None:
        self._f, self._decoding, self._n, self._live = f, decoding, n, live
        self._mask = f.splat(values[0], n) if decoding.masked else None
        self._rows = {
            name: [self._load("float", f.gep(row, v * n, "float")) for v in range(vectors)]
            for name, row in zip(decoding.rows, values[decoding.masked :], strict=True)
        }

    def load(self, pointer: V, number: int) -> V:
        """Loads vector `number` of a row of a panel, as numbers."""
        f, decoding = self._f, self._decoding
        found = self._load(decoding.element, pointer)
        if decoding.stored != "i8":
            return from_memory(f, found, decoding.stored)
        if self._mask is not None:
            found = f.binary("and", found, self._mask)
        value = f.cast("sitofp" if decoding.signed else "uitofp", found, vector("float", self._n))
        for name, operation in (("zero", "fsub"), ("scale", "fmul"), ("offset", "fadd")):
            if name in self._rows:
                value = f.binary(operation, value, self._rows[name][number])
        return value

    def _load(self, element: str, pointer: V) -> V:
        f, type_, size = self._f, vector(element, self._n), memory_size_of(element)
        if self._live is None:
            return f.load(type_, pointer, size)
        return load_lanes(f, type_, pointer, self._live, size)


