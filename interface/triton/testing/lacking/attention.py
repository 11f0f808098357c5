"""Attention by the names of torch's kernels for GPUs, in single operations: scores, softmax, product, and their gradients.

Scores are computed in float32, or in float64 for float64, and rounded where GPUs round them, for products. Heads of keys may be
fewer than those of queries. Each row of scores is masked by a range of keys, so causal masks of both kinds and windows are one.
Where a row sees no key, its result is 0 and its logarithm of sums infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_ALIGNED = 32
"""Rows to which the memory-efficient kernel pads its logarithms of sums."""


def _refuse(name: str, given: Mapping[str, Any]) -> None:
    """Raise `NotImplementedError` for what is computed on a GPU alone."""
    for what, value in given.items():
        if value is not None and value != 0:
            raise NotImplementedError(
                f"{name}: {what} is not computed on the 'cuda' that stands in for a GPU's; fix: "
                f"{what}={0.0 if isinstance(value, float) else None}"
            )


class _Attention:
    """Attention of one batch of sequences: queries, keys and values of shape (batch, heads, rows, columns).

    before, after: how many keys in front of a row's own, and behind it, the row sees; None: all of them. from_end: whether the
    last row stands at the last key, instead of the first row at the first key.
    """

    def __init__(
        self, torch: Any, query: Any, key: Any, value: Any, scale: float | None, *,
        before: int | None = None, after: int | None = None, from_end: bool = False, bias: Any = None, slopes: Any = None,
    ) -> None:  # fmt: skip
        self._torch, self._like = torch, (query, key, value)
        wide = torch.float64 if query.dtype == torch.float64 else torch.float32
        self._scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        self._repeated = query.shape[1] // key.shape[1]
        self._query = query.to(wide)
        self._key, self._value = (each.to(wide).repeat_interleave(self._repeated, 1) for each in (key, value))
        scores = self._query @ self._key.mT * self._scale
        rows, keys = scores.shape[-2:]
        distance = torch.arange(keys) - torch.arange(rows)[:, None] - (keys - rows if from_end else 0)
        if bias is not None:
            scores = scores + bias.to(wide)
        if slopes is not None:
            slopes = slopes.to(wide).view(-1, query.shape[1], 1, 1)
            scores = scores - slopes * (distance - (0 if from_end else keys - rows)).abs()
        if before is not None:
            scores = scores.masked_fill(distance < -before, -math.inf)
        if after is not None:
            scores = scores.masked_fill(distance > after, -math.inf)
        self._scores = scores

    def forward(self) -> tuple[Any, Any]:
        """The result, and the logarithms of sums."""
        sums = self._scores.logsumexp(-1)
        sums = sums.masked_fill(sums == -math.inf, math.inf)
        result = self._short((self._scores - sums[..., None]).exp()) @ self._value
        return result.to(self._like[0].dtype), sums

    def backward(self, gradient: Any, result: Any, sums: Any) -> tuple[Any, Any, Any, Any]:
        """The gradients of queries, keys, values and scores."""
        wide = self._query.dtype
        gradient, result = gradient.to(wide), result.to(wide)
        shares = (self._scores - sums.to(wide)[..., None]).exp()
        of_scores = shares * (gradient @ self._value.mT - (gradient * result).sum(-1, keepdim=True))
        short = self._short(of_scores)
        of_query = short @ self._key * self._scale
        others = (short.mT @ self._query * self._scale, self._short(shares).mT @ gradient)
        others = tuple(each.unflatten(1, (-1, self._repeated)).sum(2) for each in others)
        given = zip((of_query, *others), self._like, strict=True)
        return *(each.to(like.dtype) for each, like in given), of_scores

    def _short(self, values: Any) -> Any:
        """What a product takes, rounded to its other operand's dtype: matrix instructions take 16 bits of both."""
        return values.to(self._like[0].dtype).to(values.dtype)


def _flash(
    torch: Any, query: Any, key: Any, value: Any, causal: bool, scale: Any, left: Any, right: Any, slopes: Any = None
) -> _Attention:
    before = None if left is None or left < 0 else left
    after = 0 if causal else None if right is None or right < 0 else right
    return _Attention(torch, query, key, value, scale, before=before, after=after, from_end=True, slopes=slopes)


def _efficient(
    torch: Any, query: Any, key: Any, value: Any, bias: Any, mask: int, scale: Any, window: int | None = None
) -> _Attention:
    """mask: 0 for none, 1 for rows that see no key behind their own, 2 for the same counted from the end."""
    after, before = (0 if mask else None), (window - 1 if window else None)
    return _Attention(torch, query, key, value, scale, before=before, after=after, from_end=mask == 2, bias=bias)


def _sequences(*ends: Any) -> Iterator[tuple[slice, ...]]:
    """The rows of each of several sequences that lie one behind the other, by the sums of their lengths."""
    for i in range(len(ends[0]) - 1):
        yield tuple(slice(int(each[i]), int(each[i + 1])) for each in ends)


def _packed(each: Any) -> Any:
    """A sequence's rows (rows, heads, columns) as a batch of one (1, heads, rows, columns)."""
    return each.transpose(0, 1)[None]


def _flash_forward(
    torch: Any, query: Any, key: Any, value: Any, ends_q: Any, ends_k: Any, max_q: int, max_k: int, dropout_p: float,
    causal: bool, return_mask: bool, *, scale: Any = None, window_size_left: Any = None, window_size_right: Any = None,
    seqused_k: Any = None, alibi_slopes: Any = None, block_table: Any = None, num_splits: Any = None,
) -> Any:  # fmt: skip
    given = {"dropout_p": dropout_p, "seqused_k": _number(seqused_k), "block_table": _number(block_table)}
    _refuse("_flash_attention_forward", given)
    rest = (causal, scale, window_size_left, window_size_right)
    if ends_q is None:
        q, k, v = _by_heads(query, key, value)
        result, sums = _flash(torch, q, k, v, *rest, alibi_slopes).forward()
        result = result.transpose(1, 2).contiguous()
    else:
        result, sums = torch.empty_like(query), torch.empty(query.shape[1], query.shape[0], dtype=torch.float32)
        for i, (rows, keys) in enumerate(_sequences(ends_q, ends_k)):
            slopes = alibi_slopes[i] if alibi_slopes is not None and alibi_slopes.dim() == 2 else alibi_slopes
            found, sum_ = _flash(torch, _packed(query[rows]), _packed(key[keys]), _packed(value[keys]), *rest, slopes).forward()
            result[rows], sums[:, rows] = found[0].transpose(0, 1), sum_[0]
    return result, sums, torch.zeros(2, dtype=torch.uint64), torch.zeros((), dtype=torch.uint64), query.new_empty(0)


def _flash_backward(
    torch: Any, gradient: Any, query: Any, key: Any, value: Any, result: Any, sums: Any, ends_q: Any, ends_k: Any,
    max_q: int, max_k: int, dropout_p: float, causal: bool, rng_state: Any, unused: Any, *,
    scale: Any = None, window_size_left: Any = None, window_size_right: Any = None,
) -> Any:  # fmt: skip
    _refuse("_flash_attention_backward", {"dropout_p": dropout_p})
    rest = (causal, scale, window_size_left, window_size_right)
    if ends_q is None:
        q, k, v, of_result, made = _by_heads(query, key, value, gradient, result)
        found = _flash(torch, q, k, v, *rest).backward(of_result, made, sums)[:3]
        return tuple(each.transpose(1, 2).contiguous() for each in found)
    whole = tuple(torch.empty_like(each) for each in (query, key, value))
    for rows, keys in _sequences(ends_q, ends_k):
        attention = _flash(torch, _packed(query[rows]), _packed(key[keys]), _packed(value[keys]), *rest)
        *parts, _ = attention.backward(_packed(gradient[rows]), _packed(result[rows]), sums[None, :, rows])
        for of, each, where in zip(whole, parts, (rows, keys, keys), strict=True):
            of[where] = each[0].transpose(0, 1)
    return whole


def _efficient_forward(
    torch: Any, query: Any, key: Any, value: Any, bias: Any, ends_q: Any, ends_k: Any, max_q: Any, max_k: Any,
    dropout_p: float, mask: int, compute_sums: bool = False, *,
    scale: Any = None, seqlen_k: Any = None, window_size: Any = None,
) -> Any:  # fmt: skip
    _refuse("_efficient_attention_forward", {"dropout_p": dropout_p, "seqlen_k": _number(seqlen_k)})
    if ends_q is None:
        max_q, max_k = query.shape[1], key.shape[1]
        q, k, v = _by_heads(query, key, value)
        result, sums = _efficient(torch, q, k, v, bias, mask, scale, window_size).forward()
        result = result.transpose(1, 2).contiguous()
    else:
        result = query.new_empty(*query.shape[:-1], value.shape[-1])
        sums = query.new_full((len(ends_q) - 1, query.shape[2], max_q), math.inf, dtype=torch.float32)
        for i, (rows, keys) in enumerate(_sequences(ends_q, ends_k)):
            of_bias = None if bias is None else bias[i : i + 1, :, : rows.stop - rows.start, : keys.stop - keys.start]
            given = (_packed(query[0, rows]), _packed(key[0, keys]), _packed(value[0, keys]))
            found, sum_ = _efficient(torch, *given, of_bias, mask, scale, window_size).forward()
            result[0, rows], sums[i, :, : rows.stop - rows.start] = found[0].transpose(0, 1), sum_[0]
    return result, _padded(torch, sums, compute_sums), *_no_seeds(torch), max_q, max_k


def _efficient_backward(
    torch: Any, gradient: Any, query: Any, key: Any, value: Any, bias: Any, result: Any, ends_q: Any, ends_k: Any,
    max_q: int, max_k: int, sums: Any, dropout_p: float, seed: Any, offset: Any, mask: int, wants_bias: bool, *,
    scale: Any = None, num_splits_key: Any = None, window_size: Any = None, shared_storage_dqdkdv: bool = False,
) -> Any:  # fmt: skip
    given = {"dropout_p": dropout_p, "cu_seqlens_q": _number(ends_q), "shared_storage_dqdkdv": shared_storage_dqdkdv or None}
    _refuse("_efficient_attention_backward", given)
    q, k, v, of_result, made = _by_heads(query, key, value, gradient, result)
    attention = _efficient(torch, q, k, v, bias, mask, scale, window_size)
    *found, of_scores = attention.backward(of_result, made, sums[..., : query.shape[1]])
    of_bias = _summed(of_scores, bias) if wants_bias and bias is not None else None
    return *(each.transpose(1, 2).contiguous() for each in found), of_bias


def _sdp_flash(
    torch: Any, query: Any, key: Any, value: Any, dropout_p: float = 0.0, causal: bool = False, return_mask: bool = False, *,
    scale: Any = None,
) -> Any:  # fmt: skip
    _refuse("_scaled_dot_product_flash_attention", {"dropout_p": dropout_p})
    result, sums = _flash(torch, query, key, value, causal, scale, None, None).forward()
    seeds = torch.zeros(2, dtype=torch.uint64), torch.zeros((), dtype=torch.uint64)
    return result, sums, None, None, query.shape[2], key.shape[2], *seeds, query.new_empty(0)


def _sdp_flash_backward(
    torch: Any, gradient: Any, query: Any, key: Any, value: Any, result: Any, sums: Any, ends_q: Any, ends_k: Any,
    max_q: int, max_k: int, dropout_p: float, causal: bool, seed: Any, offset: Any, *, scale: Any = None,
) -> Any:  # fmt: skip
    _refuse("_scaled_dot_product_flash_attention_backward", {"dropout_p": dropout_p})
    return _flash(torch, query, key, value, causal, scale, None, None).backward(gradient, result, sums)[:3]


def _sdp_efficient(
    torch: Any, query: Any, key: Any, value: Any, bias: Any, compute_sums: bool, dropout_p: float = 0.0,
    causal: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    _refuse("_scaled_dot_product_efficient_attention", {"dropout_p": dropout_p})
    result, sums = _efficient(torch, query, key, value, bias, int(causal), scale).forward()
    return result, _padded(torch, sums, compute_sums), *_no_seeds(torch)


def _sdp_efficient_backward(
    torch: Any, gradient: Any, query: Any, key: Any, value: Any, bias: Any, result: Any, sums: Any, seed: Any, offset: Any,
    dropout_p: float, wanted: Any, causal: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    _refuse("_scaled_dot_product_efficient_attention_backward", {"dropout_p": dropout_p})
    attention = _efficient(torch, query, key, value, bias, int(causal), scale)
    *found, of_scores = attention.backward(gradient, result, sums[..., : query.shape[2]])
    return *found, _summed(of_scores, bias) if wanted[3] and bias is not None else None


def _sdp_cudnn(
    torch: Any, query: Any, key: Any, value: Any, bias: Any, compute_sums: bool, dropout_p: float = 0.0, causal: bool = False,
    return_mask: bool = False, *, scale: Any = None,
) -> Any:  # fmt: skip
    _refuse("_scaled_dot_product_cudnn_attention", {"dropout_p": dropout_p})
    result, sums = _efficient(torch, query, key, value, bias, int(causal), scale).forward()
    sums = sums[..., None] if compute_sums else sums.new_empty(0)
    return result, sums, None, None, query.shape[2], key.shape[2], *_no_seeds(torch), query.new_empty(0)


def _sdp_cudnn_backward(
    torch: Any, gradient: Any, query: Any, key: Any, value: Any, result: Any, sums: Any, seed: Any, offset: Any, bias: Any,
    ends_q: Any, ends_k: Any, max_q: int, max_k: int, dropout_p: float, causal: bool, *, scale: Any = None,
) -> Any:  # fmt: skip
    _refuse("_scaled_dot_product_cudnn_attention_backward", {"dropout_p": dropout_p})
    sums = sums.squeeze(-1) if sums.dim() == 4 else sums
    return _efficient(torch, query, key, value, bias, int(causal), scale).backward(gradient, result, sums)[:3]


def _number(tensor: Any) -> int | None:
    return None if tensor is None else 1


def _by_heads(*tensors: Any) -> Any:
    """Tensors of shape (batch, rows, heads, columns) with the heads in front of the rows."""
    return tuple(each.transpose(1, 2) for each in tensors)


def _padded(torch: Any, sums: Any, wanted: bool) -> Any:
    """Logarithms of sums with as many rows as the kernel writes."""
    if not wanted:
        return sums.new_empty(*sums.shape[:2], 0)
    return torch.nn.functional.pad(sums, (0, -sums.shape[-1] % _ALIGNED), value=math.inf)


def _no_seeds(torch: Any) -> tuple[Any, Any]:
    return torch.zeros((), dtype=torch.int64), torch.zeros((), dtype=torch.int64)


def _summed(of_scores: Any, bias: Any) -> Any:
    """The gradient of a bias, which may have been broadcast."""
    return of_scores.sum_to_size(bias.shape).to(bias.dtype)


ATTENTION: dict[str, Callable[..., Any]] = {
    "_flash_attention_forward": _flash_forward, "_flash_attention_backward": _flash_backward,
    "_efficient_attention_forward": _efficient_forward, "_efficient_attention_backward": _efficient_backward,
    "_scaled_dot_product_flash_attention": _sdp_flash,
    "_scaled_dot_product_flash_attention_backward": _sdp_flash_backward,
    "_scaled_dot_product_efficient_attention": _sdp_efficient,
    "_scaled_dot_product_efficient_attention_backward": _sdp_efficient_backward,
    "_scaled_dot_product_cudnn_attention": _sdp_cudnn,
    "_scaled_dot_product_cudnn_attention_backward": _sdp_cudnn_backward,
}  # fmt: skip
