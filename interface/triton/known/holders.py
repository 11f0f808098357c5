"""Finds what has memory, wherever programs keep it: tensors and storages of torch, and arrays of NumPy."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ....runtime.host.addresses import SMALLEST_ADDRESS

Span = tuple[int, int]
"""First byte and end of memory."""
Owned = tuple[Any, Span]
"""What has memory, with that memory."""
devices = {"cpu"}
"""Kinds of devices whose tensors lie in memory of this process."""
_OWN = frozenset({__name__, __name__.replace("holders", "seen")})
BORROWED = "joinery_borrows"
"""An attribute of what launches look at memory through: it keeps no memory, and may outlive what does."""
_ROOTS = 4096
"""Objects whose referents are looked at, of those that are young: the youngest."""


def _youngest_tensors() -> list[Owned]:
    """Nearly all of the next, in half the time."""
    torch = sys.modules.get("torch")
    if torch is None:
        return []
    kind = torch.Tensor
    tensors = [each for each in gc.get_objects(0) if type(each) is kind]
    return [(each, span) for each in tensors if (span := span_of(each)) is not None]


def _youngest() -> list[Owned]:
    """What was made since the collector last ran."""
    return _holders(gc.get_objects(0), False)


def _young() -> list[Owned]:
    return _holders(gc.get_objects(1), False)


def _referred_by_young() -> list[Owned]:
    """What lists, dictionaries and objects that are young refer to."""
    return _holders(gc.get_referents(*gc.get_objects(0), *gc.get_objects(1)[-_ROOTS:]), True)


def _collected() -> list[Owned]:
    """All that the collector knows; that takes as long as a collection of all objects."""
    return _holders(gc.get_objects(), False)


def _reachable() -> list[Owned]:
    """Arrays too, which the collector does not know, and what `gc.freeze` hid from it, in a few tenths of a second."""
    return _holders(_referred(), True)


def _holders(objects: Sequence[Any], arrays: bool) -> list[Owned]:
    """Those of the objects that have memory. arrays: whether to look for arrays of NumPy."""
    torch = sys.modules.get("torch")
    kinds: tuple[type, ...] = () if torch is None else (torch.Tensor, torch.UntypedStorage)
    kinds = (*kinds, np.ndarray) if arrays else kinds
    types = {type_ for type_ in set(map(type, objects)) if issubclass(type_, kinds)}
    if not types:
        return []
    return [(each, span) for each in objects if type(each) in types and (span := span_of(each)) is not None]


def _referred() -> list[Any]:
    """All objects that can be reached."""
    pending: list[Any] = gc.get_objects()
    reached = list(pending)
    pending += _variables()
    if gc.get_freeze_count():
        pending.append(sys.modules)
    seen = set(map(id, pending))
    while pending:
        found = []
        for each in gc.get_referents(*pending):
            if id(each) not in seen:
                seen.add(id(each))
                found.append(each)
        reached += found
        pending = found
    return reached


def _variables() -> list[dict[str, Any]]:
    """The variables of frames that run, of which they tell the collector nothing; those of this module hold all objects."""
    found = []
    frames: list[Any] = list(sys._current_frames().values())
    while frames:
        frame = frames.pop()
        if frame.f_globals.get("__name__") not in _OWN:
            found.append(dict(frame.f_locals))
        if frame.f_back is not None:
            frames.append(frame.f_back)
    del frame  # a frame that refers to itself would keep all that its callers list
    return found


def span_of(holder: Any) -> Span | None:
    """The memory of a tensor, a storage or an array; None for one without: a tensor of torch's for shapes alone lies at 0."""
    if isinstance(holder, np.ndarray):
        while isinstance(holder.base, np.ndarray):
            holder = holder.base
        if hasattr(getattr(holder.base, "obj", None), BORROWED):
            return None
        low, high = np.lib.array_utils.byte_bounds(holder)
        return (int(low), int(high)) if high > low >= SMALLEST_ADDRESS else None
    try:
        if getattr(holder, "layout", None) is not None and holder.layout is not sys.modules["torch"].strided:
            return None
        storage = holder.untyped_storage() if hasattr(holder, "untyped_storage") else holder
        if storage.device.type not in devices:
            return None
        first, size = int(storage.data_ptr()), int(storage.nbytes())
    except (AttributeError, RuntimeError, NotImplementedError):  # a tensor without memory
        return None
    return (first, first + size) if first >= SMALLEST_ADDRESS else None


def outermost(owned: Iterable[Owned]) -> list[tuple[Span, list[Any]]]:
    """Memory that lies in no other's, in order, each with all that have it.

    Of memory that overlaps otherwise, the last that begins before an address holds it.
    """
    found: list[tuple[Span, list[Any]]] = []
    for holder, span in sorted(owned, key=lambda each: (each[1][0], -each[1][1])):
        if found and found[-1][0] == span:
            found[-1][1].append(holder)
        elif not found or span[1] > found[-1][0][1]:
            found.append((span, [holder]))
    return found


NEAR_LOOKS: Sequence[Callable[[], list[Owned]]] = (_youngest_tensors, _youngest, _young, _referred_by_young)
"""Ways to look for what was made a short time ago, or is owned by what was, in some tens to some hundreds of microseconds."""
FAR_LOOKS: Sequence[Callable[[], list[Owned]]] = (_collected, _reachable)

__all__ = ["BORROWED", "FAR_LOOKS", "NEAR_LOOKS", "Owned", "Span", "devices", "outermost", "span_of"]
