"""Says which lines programs of a target have whole."""

from __future__ import annotations

from typing import NamedTuple


class WholeLines(NamedTuple):
    """What programs do to lines that they have whole: nothing, for targets whose programs work in memory.

    Attributes:
        sorted_bytes: the longest line that they put in order; 0 for none.
        transforms: whether they do Fourier transforms of them. In reproducible numerics none do: sums are in another order
            than those of products, which all devices compute.
        columns: whether they store the columns of a narrow product together, and combine parts of long sums of products,
            scans and counts. In reproducible numerics products are chains, and rows are scanned in one order on all devices.
        short_rows: whether, besides, rows of few elements are computed several at a time, each lane with what its row reads.
        tables: by the bytes of an element, the elements of the longest arrays that are looked up in registers.
    """

    sorted_bytes: int = 0
    transforms: bool = False
    columns: bool = False
    short_rows: bool = False
    tables: tuple[tuple[int, int], ...] = ()


NO_LINES = WholeLines()
