"""Streams of a device whose launches end before the call returns: they are told apart, and wait for nothing."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from ...utilities import Event
from ..graphs.capture import captures

_FIRST = 1 << 20
"""The handle of the first stream that is made: 1 and 2 stand for streams that every device has."""


class Streams:
    """The streams of a device.

    made: their class; context: the class of contexts in which one is the current one; default: the one from the beginning.
    """

    def __init__(self, torch: Any, device: str) -> None:
        numbers = itertools.chain([0], itertools.count(_FIRST, 16))

        class Stream(torch.Stream):  # type: ignore[misc]
            """A stream, as torch's functions in C++ take it."""

            def __new__(cls, device_: Any = None, priority: int = 0, **keywords: Any) -> Any:
                made = super().__new__(cls, device=torch.device(device, 0) if device == "cuda" else torch.device(device))
                made.cuda_stream = next(numbers)
                made.priority = priority
                return made

            def __init__(self, *args: Any, **keywords: Any) -> None:
                """It takes what `torch.cuda.Stream` takes."""

            def __eq__(self, other: object) -> bool:
                return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

            def __ne__(self, other: object) -> bool:
                return not self == other

            def __hash__(self) -> int:
                return hash(self.cuda_stream)

            def __repr__(self) -> str:
                return f"<torch.cuda.Stream device=cuda:0 cuda_stream={self.cuda_stream:#x}>"

            @property
            def device(self) -> Any:
                return torch.device("cuda", 0)

            def synchronize(self) -> None:
                """Launches have ended."""

            def wait_stream(self, stream: Any) -> None:
                """Launches have ended. What is captured of the other stream is captured of this one too."""
                if captures and captures[0].covers(stream):
                    captures[0].join(self)

            def wait_event(self, event: Any) -> None:
                """Launches have ended."""
                event.wait(self)

            def record_event(self, event: Event | None = None) -> Event:
                event = event or Event()
                event.record()
                return event

            def query(self) -> bool:
                return True

            def __enter__(self) -> Any:
                enclosing.push(self)
                return self

            def __exit__(self, *error: object) -> None:
                enclosing.pop()

        enclosing = self
        self.made = Stream
        self.context = type("StreamContext", (StreamContext,), {"streams": self})
        self.default = Stream()
        self._entered = threading.local()

    def current(self) -> Any:
        return getattr(self._entered, "stream", self.default)

    def enter(self, stream: Any) -> None:
        """Make a stream the current one of this thread."""
        if stream is not None:
            self._entered.stream = stream

    def push(self, stream: Any) -> None:
        """Make a stream the current one of this thread until `pop`."""
        if not hasattr(self._entered, "left"):
            self._entered.left = []
        self._entered.left.append(self.current())
        self.enter(stream)

    def pop(self) -> None:
        self.enter(self._entered.left.pop())


class StreamContext:
    """`torch.cuda.stream(…)`: the current stream of the thread is another one meanwhile."""

    streams: Streams

    def __init__(self, stream: Any = None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self.streams.push(self.stream)

    def __exit__(self, *error: object) -> None:
        self.streams.pop()
