"""Random generators of CUDA: their state is 16 bytes, the seed of Philox and an offset, which kernels take numbers from.

Numbers of torch's own functions come from a generator of the CPU's kind beside it. Every state that was asked for stands for
one of its states, so that setting it brings the same numbers again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

_KEPT = 4096
"""States of the CPU's generator that are remembered: 5 KB each."""
_STEP = 4
"""What drawing numbers adds to an offset at least."""
_of_cuda: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Generators of CUDA's by the addresses of their objects in C++: operators get other objects of Python for them."""


def generator_class(torch: Any) -> Any:
    """`torch.Generator` that can be made for CUDA. It is a class: annotations name it."""
    plain = torch.Generator

    class Generator(plain):  # type: ignore[misc,valid-type]
        """A generator of the CPU, or one that has CUDA's kind of state."""

        def __new__(cls, device: Any = "cpu") -> Any:
            is_cuda = str(device).startswith("cuda")
            made = super().__new__(cls, "cpu" if is_cuda else device)
            made._philox = _Philox(torch, made, plain) if is_cuda else None
            if is_cuda:
                _of_cuda[made._cdata] = made
            return made

        @property
        def device(self) -> Any:
            return torch.device("cuda", 0) if self._philox else plain.device.__get__(self)

        def get_state(self) -> Any:
            return self._philox.get_state() if self._philox else super().get_state()

        def set_state(self, state: Any) -> Any:
            return self._philox.set_state(self, state) if self._philox else super().set_state(state)

        def manual_seed(self, seed: int) -> Any:
            return self._philox.manual_seed(self, seed) if self._philox else super().manual_seed(seed)

        def seed(self) -> int:
            found = super().seed()
            self.manual_seed(found)
            return int(found)

        def initial_seed(self) -> int:
            return self._philox.seed if self._philox else int(super().initial_seed())

        def get_offset(self) -> int:
            return self._philox.current_offset() if self._philox else int(super().get_offset())

        def set_offset(self, offset: int) -> Any:
            return self._philox.set_offset(self, offset) if self._philox else super().set_offset(offset)

    return Generator


def shared_generator(torch: Any) -> Any:
    """A generator of CUDA's that draws what the CPU's default one draws: for devices that share their functions."""
    made = torch.Generator("cuda")
    made._philox = _Philox(torch, torch.default_generator, type(torch.default_generator))
    return made


class Drawing:
    """The generator that a device draws from where a call says nothing.

    source: its numbers, as a generator that the CPU's functions take.
    """

    def __init__(self, torch: Any, source: Any) -> None:
        self.source = source
        self._default = torch.default_generator
        self._get, self._set = type(self._default).get_state, type(self._default).set_state

    def is_own(self, generator: Any) -> bool:
        """Whether a generator is of this device."""
        return generator._cdata in _of_cuda

    def drawing(self, compute: Callable[[], Any]) -> Any:
        """Compute what draws from the CPU's default generator, which stays as it is."""
        before = self._get(self._default)
        self._set(self._default, self._get(self.source))
        try:
            return compute()
        finally:
            self._set(self.source, self._get(self._default))
            self._set(self._default, before)


class _Philox:
    """CUDA's state beside a generator of the CPU."""

    def __init__(self, torch: Any, source: Any, plain: Any) -> None:
        self.seed = int(plain.initial_seed(source)) & ((1 << 63) - 1)
        self.offset = 0
        self._torch, self._source, self._plain = torch, source, plain
        self._states: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def current_offset(self) -> int:
        """The offset, which has moved on if numbers were drawn since it was last looked at."""
        state = self._plain.get_state(self._source)
        known = self._states.get((self.seed, self.offset))
        while known is not None and not self._torch.equal(known, state):
            self.offset += _STEP
            known = self._states.get((self.seed, self.offset))
        self._remember(state)
        return self.offset

    def get_state(self) -> Any:
        offset = self.current_offset()
        return self._torch.tensor([self.seed, offset], dtype=self._torch.int64).view(self._torch.uint8)

    def set_state(self, owner: Any, state: Any) -> Any:
        self.seed, offset = (int(each) for each in state.view(self._torch.int64))
        return self.set_offset(owner, offset)

    def set_offset(self, owner: Any, offset: int) -> Any:
        self.offset = offset
        known = self._states.get((self.seed, offset))
        if known is not None:
            self._plain.set_state(self._source, known)
        else:
            self._plain.manual_seed(self._source, hash((self.seed, offset)) & ((1 << 63) - 1) if offset else self.seed)
            self._remember(self._plain.get_state(self._source))
        return owner

    def manual_seed(self, owner: Any, seed: int) -> Any:
        self._plain.manual_seed(self._source, seed)
        self.seed, self.offset = seed & ((1 << 63) - 1), 0
        self._remember(self._plain.get_state(self._source))
        return owner

    def _remember(self, state: Any) -> None:
        self._states[self.seed, self.offset] = state
        if len(self._states) > _KEPT:
            self._states.popitem(last=False)
