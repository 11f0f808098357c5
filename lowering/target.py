"""Defines host targets, the frozen values that code is generated for and cache keys contain; nothing here
probes a device."""

from __future__ import annotations

from collections.abc import Callable

from ..promotion.dataclass import dataclass
from ..promotion.dtype import DType

LONG_TRANSFORM = 128
"""Numbers of a line from which on registers hold parts of one line in its transform, not a number of each of several."""
MAX_TOGETHER = 63
"""The most bytes of neighbours that a transposed copy of the host moves together, as the colors of a pixel are."""
MIN_SIDE = 16
"""The fewest rows and columns of such a copy, and of one of columns in the opposite order: smaller ones are computed in
vectors."""
WIDE_POSITIONS = 512
"""Bytes of the longest table of registers whose positions are not of 8 or 16 bits: these come in few lanes."""
MAX_SORTED_BYTES = 1 << 18
"""Bytes of the longest line that a program sorts or transforms in scratch, and the most that lines beside each other have
together: they need stack twice, and as much again for each value that is read again. Longer lines are sorted in the memory
of the result."""
LONGEST_SORTED_BYTES = 1 << 23
"""The same of lines in the memory of the result: as many as a block may have."""
SHORT_LINE = 256
"""Elements of the longest line of a length known at launch that is sorted beside others, a lane of a register for each."""
CACHE_LINE = 64
"""Size of a cache line in bytes."""


def register_bytes(dtype: DType) -> int:
    """Returns the bytes that an element takes in a register of the host: floats of fewer than 32 bits are widened."""
    return 4 if dtype.is_float and dtype.bits < 32 else dtype.itemsize


def is_table(dtype: DType, count: int, has_short_positions: bool, table_elements: Callable[[int], int]) -> bool:
    """Returns whether so many elements are a table that registers hold, from which positions pick.

    has_short_positions: whether these are unsigned integers of 8 or 16 bits.  table_elements: returns the elements of so many
    bytes of the longest table.
    """
    size = register_bytes(dtype)
    if not has_short_positions and size == 1 and not table_elements(2):
        return False  # AVX2, whose selections take bytes alone: few positions would take as long as a register of them
    most = table_elements(size) if has_short_positions else min(table_elements(size), WIDE_POSITIONS // size)
    return 1 < count <= most


@dataclass(frozen=True, slots=True)
class HostTarget:
    """A CPU: LLVM triple, CPU name and resolved feature string, plus the sizes that tiling and lowering use (bytes)."""

    triple: str
    cpu: str
    features: frozenset[str]
    vector_bytes: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 32 << 20

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686"))

    def has(self, *names: str) -> bool:
        return all(name in self.features for name in names)

    @property
    def registers(self) -> int:
        """Vector registers: 32 with AVX-512 and on AArch64, else 16."""
        return 32 if self.has("avx512f") or self.triple.startswith("aarch64") else 16

    @property
    def follows_streams(self) -> bool:
        """Whether it fetches ahead by itself what one pass over memory reads, so that prefetches of a row ahead only cost.

        AMD's do: sums took 0.83 to 0.97 of the time without, x * 2 + 1 0.79 to 1.0, but softmax 1.1 to 1.4 (Zen 4).
        """
        return self.cpu.startswith("znver")

    @property
    def divides_beside(self) -> bool:
        """Whether a division or root of a whole register takes little more time than a correction of an estimate, and other
        work goes on beside it: 10 cycles for 16 floats on AMD's processors, up to 24 on Intel's."""
        return self.cpu.startswith("znver")

    @property
    def has_short_vectors(self) -> bool:
        """Whether vectors have 32 bytes or fewer: an iteration over one is hardly more than its counting, and registers hold no
        masks."""
        return self.vector_bytes <= 32

    @property
    def compresses(self) -> bool:
        """Whether it moves the chosen elements of a whole register side by side (`vpcompressd`, or `vpermd` by a table)."""
        return self.is_x86 and self.has({64: "avx512f", 32: "avx2"}.get(self.vector_bytes, "no other"))

    @property
    def picks_lanes(self) -> bool:
        """Whether one instruction picks lanes of two whole registers (`vpermt2ps`), and loads have masks."""
        return self.is_x86 and self.vector_bytes == 64 and self.has("avx512f")

    def table_elements(self, size: int) -> int:
        """Returns the elements of `size` bytes of the longest table that registers hold; 0 where none picks them."""
        if self.is_x86 and self.vector_bytes == 32 and self.has("avx2"):
            return {1: 256, 4: 32}.get(size, 0)
        if not self.is_x86 or self.vector_bytes != 64:
            return 0
        most = {1: (256, "avx512vbmi"), 2: (512, "avx512bw"), 4: (256, "avx512f"), 8: (64, "avx512f")}
        elements, needed = most.get(size, (0, ""))
        return elements if self.has(needed) else 0

    @property
    def tables(self) -> tuple[tuple[int, int], ...]:
        """The elements of the longest tables that registers hold, by the bytes of an element."""
        return tuple([(size, self.table_elements(size)) for size in (1, 2, 4, 8)])

    @property
    def interleaves_bytes(self) -> bool:
        """Whether it multiplies four bytes at a time (`vpdpbusd`), and one instruction picks bytes of two whole registers."""
        return self.is_x86 and self.vector_bytes == 64 and self.has("avx512vnni", "avx512vbmi", "avx512bw")

    @property
    def sums_fours(self) -> bool:
        """Whether sums of products of bytes take fewer instructions two or four at a time than one by one."""
        return self.interleaves_bytes or (self.is_x86 and self.vector_bytes == 32 and self.has("avx2"))

    @property
    def multiplies_unsigned(self) -> bool:
        """Whether it multiplies unsigned bytes with signed ones, four at a time (`vpdpbusd`), in the registers of its code."""
        wide = self.vector_bytes == 64 and self.has("avx512vnni")
        return self.is_x86 and (wide or (self.vector_bytes == 32 and self.has("avxvnni")))

    @property
    def multiplies_pairs(self) -> bool:
        """Whether it multiplies pairs of bfloat16 (`vdpbf16ps`), in the registers that code is made for."""
        return self.is_x86 and self.vector_bytes == 64 and self.has("avx512bf16", "avx512bw")

    @property
    def feature_text(self) -> str:
        return ",".join(f"+{name}" for name in sorted(self.features))

    @property
    def llvm_features(self) -> str:
        """The features that LLVM may use: without SSE4a, by which it puts bytes together on AMD's processors (`insertq`). That
        took 380 ns an instruction on a virtual machine, and two others take its place."""
        without = ",-sse4a" if self.is_x86 else ""
        return ",".join(f"+{name}" for name in sorted(self.features - {"sse4a"})) + without

    @property
    def key(self) -> str:
        return f"{self.triple}|{self.cpu}|{self.feature_text}|{self.vector_bytes}"
