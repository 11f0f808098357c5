"""Copies between arrays of the host and a device, through page-locked memory.

A device reads and writes page-locked memory on its own. Arrays are copied into pieces of it, which are in flight while the next
ones are copied; an event tells when a piece may be used again. A device keeps up to `PIECES` of them, 8 MiB, for as long as it
is used in the process: to lock pages takes longer than most copies. They go back where memory runs out.
"""

from __future__ import annotations

import ctypes

from ...promotion.dataclass import dataclass
from .driver import EVENT_DISABLE_TIMING, Driver

PIECE = 2 << 20
PIECES = 4


@dataclass(slots=True)
class _Piece:
    address: int
    event: int
    in_flight: bool = False


class Transfers:
    """Copies on one stream. The caller has made the context current, and lets one thread at a time."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self._driver = driver
        self._stream = stream
        self._pieces: list[_Piece] = []
        self._next_piece = 0

    def _next(self) -> _Piece:
        """A piece that nothing is in flight to or from."""
        if len(self._pieces) < PIECES:
            self._pieces.append(self._new())
            return self._pieces[-1]
        piece = self._pieces[self._next_piece]
        self._next_piece = (self._next_piece + 1) % PIECES
        self._wait(piece)
        return piece

    def _new(self) -> _Piece:
        address = self._driver.cuMemHostAlloc(PIECE)
        try:
            return _Piece(address, self._driver.cuEventCreate(EVENT_DISABLE_TIMING))
        except BaseException:
            self._driver.cuMemFreeHost(address)
            raise

    def free(self) -> None:
        """Gives the pieces back, once nothing is in flight. The next copy makes new ones."""
        while self._pieces:
            self._wait(self._pieces[-1])
            piece = self._pieces.pop()
            self._driver.cuEventDestroy(piece.event)
            self._driver.cuMemFreeHost(piece.address)
        self._next_piece = 0

    def _wait(self, piece: _Piece) -> None:
        if piece.in_flight:
            self._driver.cuEventSynchronize(piece.event)
            piece.in_flight = False

    def _sent(self, piece: _Piece) -> None:
        self._driver.cuEventRecord(piece.event, self._stream)
        piece.in_flight = True

    def upload(self, target: int, source: int, nbytes: int) -> None:
        """Host to device. The source may change as soon as this returns."""
        for start in range(0, nbytes, PIECE):
            size = min(PIECE, nbytes - start)
            piece = self._next()
            ctypes.memmove(piece.address, source + start, size)
            self._driver.cuMemcpyHtoDAsync(target + start, piece.address, size, self._stream)
            self._sent(piece)

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Device to host; returns when all is there. One piece is copied on while the next one is on its way."""
        before: tuple[_Piece, int, int] | None = None
        for start in range(0, nbytes, PIECE):
            size = min(PIECE, nbytes - start)
            piece = self._next()
            self._driver.cuMemcpyDtoHAsync(piece.address, source + start, size, self._stream)
            self._sent(piece)
            if before is not None:
                self._land(target, *before)
            before = piece, start, size
        if before is not None:
            self._land(target, *before)

    def _land(self, target: int, piece: _Piece, start: int, size: int) -> None:
        self._wait(piece)
        ctypes.memmove(target + start, piece.address, size)
