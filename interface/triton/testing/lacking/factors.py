"""Functions of which torch has one case for GPUs alone: factors without pivots, medians of truth values, bags of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _lu_factor(torch: Any, matrix: Any, *, pivot: bool = True, check_errors: bool = False, **outs: Any) -> Any:
    """Factors without exchanged rows, the rows' own numbers, and for each matrix the number of its first pivot of 0, or 0."""
    if pivot:
        return NotImplemented
    both = matrix.clone()
    *batch, rows, columns = matrix.shape
    steps = min(rows, columns)
    failed = torch.zeros(batch, dtype=torch.int32)
    for k in range(steps):
        top = both[..., k, k]
        failed = torch.where((failed == 0) & (top == 0), k + 1, failed)
        both[..., k + 1 :, k] /= top[..., None]
        both[..., k + 1 :, k + 1 :] -= both[..., k + 1 :, k, None] * both[..., k, None, k + 1 :]
    pivots = torch.arange(1, steps + 1, dtype=torch.int32).expand(*batch, steps).contiguous()
    if check_errors:
        torch.ops.aten._linalg_check_errors(failed, "linalg.lu_factor_ex", is_matrix=not batch)
    return _put(outs, LU=both, pivots=pivots, info=failed)


def _median(torch: Any, x: Any, *args: Any, **keywords: Any) -> Any:
    """The median of all truth values; and no medians, of numbers of any kind, along a dimension."""
    if not args and not keywords:
        return torch.median(x.to(torch.uint8)).bool() if x.dtype == torch.bool and x.numel() else NotImplemented
    given = dict(zip(("dim", "keepdim"), args, strict=False)) | keywords
    if not isinstance(given.get("dim"), int) or not (x.dtype == torch.bool or x.is_complex()):
        return NotImplemented
    stand_in = torch.empty_like(x, dtype=torch.uint8)
    values, indices = torch.median(stand_in, given["dim"], given.get("keepdim", False))
    if values.numel():
        return NotImplemented  # which torch refuses on every device
    outs: dict[str, Any] = {name: given[name] for name in ("values", "indices") if name in given}
    return _put(outs, values=values.to(x.dtype), indices=indices)


def _embedding_bag(
    torch: Any, weight: Any, indices: Any, offsets: Any, scale: bool = False, mode: int = 0, sparse: bool = False,
    per_sample: Any = None, has_end: bool = False, padding: int = -1, **outs: Any,
) -> Any:  # fmt: skip
    """Bags of embeddings, with the bag of each index, which the CPU leaves out where it does not need them itself."""
    if outs:
        return NotImplemented
    found = torch.ops.aten._embedding_bag(weight, indices, offsets, scale, mode, sparse, per_sample, has_end, padding)
    starts = offsets[:-1] if has_end else offsets
    at = torch.arange(len(indices), dtype=starts.dtype)
    bags = (torch.searchsorted(starts, at, right=True) - 1).to(indices.dtype)
    counted = torch.zeros_like(starts).index_add_(0, bags, (indices != padding).to(starts.dtype))
    return found[0], bags, counted, found[3] if mode == 2 else indices.new_empty(0)


def _put(outs: dict[str, Any], **results: Any) -> tuple[Any, ...]:
    """The results, in the tensors given for them."""
    return tuple(outs[name].resize_(value.shape).copy_(value) if name in outs else value for name, value in results.items())


FACTORS: dict[str, Callable[..., Any]] = {
    "linalg_lu_factor_ex": _lu_factor, "median": _median, "_embedding_bag": _embedding_bag,
}  # fmt: skip
