"""Launches whose arguments are plain: one native call takes them apart, compares their memory, and runs the kernel.

It does nothing where anything is not as it expects (`runtime/native/launch.ll`); the caller then looks in Python. Nothing but
NumPy loads with this module: programs of Triton whose kernels are in a cache launch without the code generator.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from ...promotion.arrays import Array
from ...runtime.native.library import Entry, native_library
from ..interrupts import begin_watching, end_watching
from .host_program import HostProgram
from .kernel import LaunchFacts, NativeKernel
from .memory_layout import MemoryLayout

Record = tuple[int, int, int]
"""What an argument is, and two details, as `launch.ll` reads them."""
NOTHING: Record = (0, 0, 0)
MEMORY: Record = (1, 0, 0)
INTEGER: Record = (2, 0, 0)
FLOAT32: Record = (3, 0, 0)
FLOAT64: Record = (4, 0, 0)
Start = Callable[..., "Literal[False] | bytes | None"]
"""(address of a pool, grid, arguments…) → None when all programs have run, False when nothing was done, the status words of a
launch that was stopped."""
_HEAD, _RECORD = 9, 3
_ANY_SIZE = 1 << 62


class PlainLaunches:
    """Launches of one kernel.

    Attributes:
        start: makes a launch; returns False until the kernel has code for launches whose arrays lie apart and fit the caches.
        program: that code, once it is there.
    """

    def __init__(self, records: Sequence[Record] | None, layout: MemoryLayout | None = None) -> None:
        """records: of the arguments; None if launches of the kernel are never plain. layout: see `launch.ll`."""
        self.start: Start = _never
        self.program: HostProgram | None = None
        self._records = records
        self._layout = layout
        self._table: Array | None = None
        self._dtypes: dict[int, object] = {}  # those in the table stay alive
        self._lock = threading.Lock()

    def prepare(self, native: NativeKernel) -> None:
        """Launch natively from now on, if the kernel has its simplest code, and this code is for such launches."""
        program, facts = native.simplest, native.facts
        entry = native_library().entry
        if self._table is not None or self._records is None or program is None or entry is None or facts.follows:
            return
        if program.prints:
            self._records = None
            return
        with self._lock:
            if self._table is None:
                self._make(program, facts, entry)

    def _make(self, program: HostProgram, facts: LaunchFacts, entry: Entry) -> None:
        assert self._records is not None
        values = len([record for record in self._records if record != NOTHING])
        layout = 0 if self._layout is None else self._layout.table.ctypes.data
        large = facts.large if facts.may_stream else _ANY_SIZE
        head = [program.address, program.unwatched, large, len(self._records), values, int(facts.checked), layout]
        head += [id(begin_watching), id(end_watching)]
        table = np.array([*head, *[field for record in self._records for field in record]], np.int64)
        self._table, self.program, self.start = table, program, entry.launch_function(table)

    def note_dtypes(self, args: Sequence[object]) -> None:
        """Take arrays of these dtypes from now on. The arguments were taken by their parameters."""
        if self._table is None:
            return
        with self._lock:
            for number, arg in enumerate(args):
                if type(arg) is np.ndarray:
                    dtype = arg.dtype
                    self._table[_HEAD + _RECORD * number + 1] = id(dtype)
                    self._dtypes[number] = dtype


def _never(*args: object) -> Literal[False]:
    return False
