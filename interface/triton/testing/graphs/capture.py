"""What a graph of CUDA captures: launches and operators, which run once meanwhile, and again at each replay.

A GPU runs nothing while it captures. Here everything runs, since results have shapes, and others need them; memory that was
written gets back at the end what it held.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from .....promotion.arrays import Array
from ...known.holders import Span
from ...memory import bytes_of

captures: list[Capture] = []
"""The capture that is going on: one at most, as torch has it."""


class Capture:
    """A capture that is going on, or a graph.

    current: returns the current stream, which is captured.
    generators: those that captured operators may draw from; each replay moves them on.
    """

    def __init__(self, current: Callable[[], Any], generators: Sequence[Any]) -> None:
        self.steps: list[Callable[[], None]] = []
        self.failure: Exception | None = None
        self._current, self._streams, self._thread = current, {current()}, threading.get_ident()
        self._generators = list(generators)
        self._states = [(each, each.get_state()) for each in generators]
        self._before: dict[Span, Array] = {}
        self._owners: list[Any] = []

    def add(self, step: Callable[[], None]) -> None:
        """Do this at each replay, after all that was added before."""
        self.steps.append(step)

    def keep(self, spans: Iterable[Span], owners: Iterable[Any]) -> None:
        """Remember what memory holds before it is written. owners: storages and arrays that keep it alive."""
        self._owners += owners
        for span in spans:
            if span not in self._before and span[0] != span[1]:
                self._before[span] = bytes_of(span).copy()

    def end(self) -> None:
        """Give memory back what it held, and generators their states."""
        for span, content in self._before.items():
            bytes_of(span)[:] = content
        for generator, state in self._states:
            generator.set_state(state)
        self._before.clear()
        self._owners.clear()
        self._states.clear()

    def covers(self, stream: Any = None) -> bool:
        """Whether what is done on a stream is captured. stream: None for the current one."""
        return (self._current() if stream is None else stream) in self._streams

    def join(self, stream: Any = None) -> None:
        """Capture what is done on a stream too: it waits for one that is captured."""
        self._streams.add(self._current() if stream is None else stream)

    def concerns(self) -> bool:
        """Whether work of this thread is captured: all of the capturing thread, that of torch's threads, which run backward
        passes on the streams of their forward passes, and that of other threads on streams that are captured."""
        own = threading.get_ident() == self._thread
        return own or isinstance(threading.current_thread(), threading._DummyThread) or self.covers()

    def check_stream(self, what: str) -> None:
        """Raises `RuntimeError` for work on a stream that is not captured: a GPU would do it at once, and never again.

        Backward passes run in threads of torch's, on the streams of their forward passes.
        """
        if threading.get_ident() == self._thread and not self.covers():
            self.forbid(what, "runs on a stream that is not captured", "let it wait for the captured stream, by wait_stream")

    def check_generator(self, generator: Any, what: str) -> None:
        """Raises `RuntimeError` for a generator that was not registered."""
        if all(each is not generator and each._cdata != generator._cdata for each in self._generators):
            self.forbid(what, "draws from a generator of its own", "graph.register_generator_state(generator)")

    def forbid(self, what: str, why: str, fix: str) -> NoReturn:
        """Raise `RuntimeError` for what a GPU cannot capture either. The graph cannot be replayed."""
        self._fail(RuntimeError(f"CUDA error: operation not permitted when stream is capturing: {what} {why}; fix: {fix}"))

    def refuse(self, what: str, why: str) -> NoReturn:
        """Raise `NotImplementedError` for what a GPU may be able to capture. The graph cannot be replayed."""
        self._fail(NotImplementedError(f"{what} is in no graph of CUDA that is captured without a GPU: {why}"))

    def _fail(self, error: Exception) -> NoReturn:
        self.failure = self.failure or error
        raise error
