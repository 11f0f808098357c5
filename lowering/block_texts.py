"""Prints the block programs of a compiled graph when they are first read: printing takes a quarter of a
compilation's time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping


class BlockTexts(Mapping[str, str]):
    """A mapping from kernel names to texts; the first access calls `make` for all of them."""

    __slots__ = ("_make", "_texts")

    def __init__(self, make: Callable[[], Mapping[str, str]]) -> None:
        self._make = make
        self._texts: Mapping[str, str] | None = None

    def _all(self) -> Mapping[str, str]:
        if self._texts is None:
            self._texts = self._make()
        return self._texts

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __copy__(self) -> BlockTexts:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> BlockTexts:
        return self

    def __reduce__(self) -> tuple[type[dict[str, str]], tuple[dict[str, str]]]:
        return dict, (dict(self._all()),)  # what would make them holds the graph
