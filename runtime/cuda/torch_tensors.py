"""Reads where torch's tensors lie without a capsule for each: launches use them in place, on the stream that torch uses.

torch is never imported here: whoever passes a tensor has done so. A capsule takes some 50 µs per tensor, most of them for
the events that order two streams.
"""

from __future__ import annotations

import sys
from typing import Any

from .device import LEGACY_STREAM


def address_of_tensor(value: Any, itemsize: int, ordinal: int) -> int | None:
    """Returns the address of a plain tensor on this CUDA device whose elements have so many bytes.

    Returns None for everything else, which `Buffer.from_dlpack` takes, or says why it does not: other objects, other devices,
    tensors that are not contiguous, sparse, lazily conjugated or negated, of a subclass, or that require gradients.
    """
    torch = sys.modules.get("torch")
    if torch is None or type(value) is not getattr(torch, "Tensor", None):
        return None
    if not value.is_cuda or value.layout is not torch.strided or value.requires_grad or value.get_device() != ordinal:
        return None
    if value.element_size() != itemsize or not value.is_contiguous() or value.is_conj() or value.is_neg():
        return None
    return int(value.data_ptr())


def stream_of_torch(ordinal: int) -> int:
    """Returns the handle of the stream on which torch queues work for this device in this thread."""
    handle = int(sys.modules["torch"].cuda.current_stream(ordinal).cuda_stream)
    return handle or LEGACY_STREAM
