"""Copies arrays between the host and a device, through page-locked memory.

A device reads and writes page-locked memory without the CPU. Arrays are copied through pieces of it: one piece is in flight
while the next is filled, and an event tells when a piece may be used again. A device keeps up to `PIECES` pieces, 8 MiB, for
as long as the process uses it, since locking pages takes longer than most copies. They are freed when memory runs out.
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
    """Copies on one stream. The caller makes the context current, and admits one thread at a time."""

    def __init__(self, driver: Driver, stream: int) -> None:
        self._driver = driver
        self._stream = stream
        self._pieces: list[_Piece] = []
        self._next_piece = 0

    def _next(self) -> _Piece:
        """Returns a piece with no copy in flight."""
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
        """Frees the pieces, once no copy is in flight. The next copy allocates new ones."""
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
        """Copies from the host to the device. The source may change as soon as this returns."""
        for start in range(0, nbytes, PIECE):
            size = min(PIECE, nbytes - start)
            piece = self._next()
            ctypes.memmove(piece.address, source + start, size)
            self._driver.cuMemcpyHtoDAsync(target + start, piece.address, size, self._stream)
            self._sent(piece)

    def download(self, target: int, source: int, nbytes: int) -> None:
        """Copies from the device to the host; returns when all bytes are there. While one piece is copied
        out, the next is in flight."""
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
