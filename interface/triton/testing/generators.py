"""Random generators of CUDA: their state is 16 bytes, the seed of Philox and an offset, which kernels take numbers from.

Numbers of torch's own functions follow from these two alone, so that a state brings the same numbers again in another generator
and in another process: each call that draws is given a generator of the CPU's that Philox fills, at an offset of its own. No
generator is drawn from twice, so that threads see nothing of each other.

With one device (`one_device`), functions of the CPU draw from the generator itself, which then has a state of the CPU's beside.
"""

from __future__ import annotations

import struct
import threading
from collections import OrderedDict
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

_KEPT = 4096
"""States of the CPU's generator that are remembered with one device: 5 KB each."""
_STEP = 4
"""What drawing numbers adds to an offset, which is a multiple of it."""
_MASK = (1 << 64) - 1
_SLOTS, _FIRST = 624, 24
"""Integers that the CPU's generator holds, a Mersenne twister, and the byte of its state at which they begin, 8 bytes each."""
_of_cuda: WeakValueDictionary[int, Any] = WeakValueDictionary()
"""Generators of CUDA's by the addresses of their objects in C++: operators get other objects of Python for them."""


def generator_class(torch: Any, is_device: bool) -> Any:
    """`torch.Generator` that can be made for CUDA. It is a class: annotations name it."""
    plain = torch.Generator
    kind = _Philox if is_device else _Beside

    class Kind(type(plain)):  # type: ignore[misc]
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, plain)

    class Generator(plain, metaclass=Kind):  # type: ignore[misc,valid-type]
        """A generator of the CPU, or one that has CUDA's kind of state."""

        _philox: Any

        def __new__(cls, device: Any = "cpu") -> Any:
            is_cuda = torch.device(device).type == "cuda"
            made = super().__new__(cls, "cpu" if is_cuda else device)
            made._philox = kind(torch, made, plain) if is_cuda else None
            if is_cuda:
                _of_cuda[made._cdata] = made
            return made

        @property
        def device(self) -> Any:
            return torch.device("cuda", 0) if self._philox else plain.device.__get__(self)

        def get_state(self) -> Any:
            return self._philox.get_state() if self._philox else super().get_state()

        def set_state(self, state: Any) -> Any:
            if not self._philox:
                return super().set_state(state)
            if not isinstance(state, torch.Tensor) or state.dtype != torch.uint8 or not state.is_cpu:
                raise TypeError("RNG state must be a torch.ByteTensor")
            if state.numel() not in (8, 16):
                raise RuntimeError("RNG state is wrong size")
            seed, offset = struct.unpack("<QQ", bytes(state.tolist()).ljust(16, b"\0"))
            self._philox.set(seed, offset)
            return self

        def manual_seed(self, seed: int) -> Any:
            if not self._philox:
                return super().manual_seed(seed)
            self._philox.manual_seed(int(seed))
            return self

        def seed(self) -> int:
            found = super().seed()
            self.manual_seed(found)
            return int(found)

        def initial_seed(self) -> int:
            return self._philox.seed if self._philox else int(super().initial_seed())

        def get_offset(self) -> int:
            return self._philox.current_offset() if self._philox else int(super().get_offset())

        def set_offset(self, offset: int) -> Any:
            if not self._philox:
                return super().set_offset(offset)
            self._philox.set(self._philox.seed, offset)
            return self

        def clone_state(self) -> Any:
            made = Generator(self.device)
            made.__setstate__(self.__reduce__()[2])
            return made

        def graphsafe_get_state(self) -> Any:
            if not self._philox:
                return super().graphsafe_get_state()
            made = Generator("cuda")
            made._philox = self._philox
            return made

        def graphsafe_set_state(self, state: Any) -> Any:
            if not self._philox:
                return super().graphsafe_set_state(state)
            self._philox = _of_cuda[state._cdata]._philox
            return self

        def __reduce__(self) -> Any:
            if not self._philox:
                return (torch.Generator, *super().__reduce__()[1:])
            return torch.Generator, (self.device,), (self.initial_seed(), self.get_offset(), self._philox.whole_state())

        def __setstate__(self, state: Any) -> None:
            if self._philox:
                self._philox.set_whole(state[2])
            else:
                super().__setstate__(state)

    Generator.__module__, Generator.__qualname__ = "torch", "Generator"  # where pickles look for it
    return Generator


def shared_generator(torch: Any) -> Any:
    """A generator of CUDA's that draws what the CPU's default one draws: for devices that share their functions."""
    made = torch.Generator("cuda")
    made._philox = _Beside(torch, torch.default_generator, type(torch.default_generator))
    return made


class Drawing:
    """What calls on a device draw from: where they say nothing, from its default generator."""

    def __init__(self, default: Any) -> None:
        self._default = default

    def source(self, generator: Any = None) -> Any:
        """What one call draws from, as a generator that the CPU's functions take; None for a generator of the CPU."""
        own = self._default if generator is None else _of_cuda.get(generator._cdata)
        return None if own is None else own._philox.next_source()


class _Philox:
    """CUDA's state."""

    def __init__(self, torch: Any, owner: Any, plain: Any) -> None:
        self.seed, self.offset = int(plain.initial_seed(owner)) & _MASK, 0
        self._torch, self._plain = torch, plain
        self._lock = threading.Lock()
        self._blank = plain("cpu").manual_seed(0).get_state().numpy()

    def current_offset(self) -> int:
        return self.offset

    def get_state(self) -> Any:
        return _as_state(self._torch, self.seed, self.offset)

    whole_state = get_state

    def set_whole(self, state: Any) -> None:
        self.set(*_unpacked(state))

    def set(self, seed: int, offset: int) -> None:
        """Go to an offset. Raises `RuntimeError`, as CUDA's generators do, for one that no draw begins at."""
        if offset % _STEP:
            raise RuntimeError("offset must be a multiple of 4")
        with self._lock:
            self.seed, self.offset = seed & _MASK, offset & _MASK

    def manual_seed(self, seed: int) -> None:
        self.set(seed, 0)

    def next_source(self) -> Any:
        """A generator of the CPU's for one call, filled with the numbers of Philox at this offset, which moves on."""
        with self._lock:
            seed, offset = self.seed, self.offset
            self.offset = (offset + _STEP) & _MASK
        numbers = np.random.Philox(key=[seed, 0], counter=[0, offset, 0, 0]).random_raw(_SLOTS // 2)
        state = self._blank.copy()
        state[_FIRST : _FIRST + 8 * _SLOTS].view(np.uint64)[:] = numbers.view(np.uint32)
        made = self._plain("cpu")
        made.set_state(self._torch.from_numpy(state))
        return made


class _Beside:
    """CUDA's state beside a generator of the CPU. Every state that was asked for stands for one of that generator's states."""

    def __init__(self, torch: Any, source: Any, plain: Any) -> None:
        self.seed = int(plain.initial_seed(source)) & _MASK
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
        return _as_state(self._torch, self.seed, offset)

    def whole_state(self) -> Any:
        """The state, with that of the CPU's generator behind it."""
        return self._torch.cat([self.get_state(), self._plain.get_state(self._source)])

    def set_whole(self, state: Any) -> None:
        self.seed, self.offset = _unpacked(state)
        self._plain.set_state(self._source, state[16:].clone())
        self._remember(state[16:].clone())

    def set(self, seed: int, offset: int) -> None:
        """Go to an offset: to the state of the CPU's generator that it stands for, or to one that follows from it."""
        self.seed, self.offset = seed, offset
        known = self._states.get((seed, offset))
        if known is not None:
            self._plain.set_state(self._source, known)
        else:
            self._plain.manual_seed(self._source, hash((seed, offset)) & (_MASK >> 1) if offset else seed)
            self._remember(self._plain.get_state(self._source))

    def manual_seed(self, seed: int) -> None:
        self._plain.manual_seed(self._source, seed)
        self.seed, self.offset = seed & _MASK, 0
        self._remember(self._plain.get_state(self._source))

    def _remember(self, state: Any) -> None:
        self._states[self.seed, self.offset] = state
        if len(self._states) > _KEPT:
            self._states.popitem(last=False)


def _as_state(torch: Any, seed: int, offset: int) -> Any:
    return torch.tensor(list(struct.pack("<QQ", seed, offset)), dtype=torch.uint8, device="cpu")


def _unpacked(state: Any) -> tuple[int, int]:
    seed, offset = struct.unpack("<QQ", bytes(state[:16].tolist()))
    return seed, offset
