"""Finds attention in graphs and in their nests: scores = q @ kᵀ, elementwise scaling and masking, a softmax
over the keys, and the product with the values.

The composite `softmax` and the same thing written out in primitive ops look alike after expansion; both are
matched on the ops alone. The pattern is what an online softmax can compute (Milakov and Gimelshein 2018; Dao
et al. 2022): one maximum, one sum of `exp(x - maximum)`, a division. Weights that are NaN may be replaced by 0,
as exporters of PyTorch have it for rows of which a mask leaves nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ..graph_passes.constant_values import constant_value
from ..graph_passes.roundings import keeps_values, rounds_weights
from ..nest import Value
from .extents import is_one

MAX_HEAD = 256
"""Largest query/key and value width: the accumulator of a block of queries stays in registers and first-level
cache."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Ids of the two products and of everything between them."""

    scores: int
    values: int
    between: frozenset[int]


def find_attention(
    symbols: Sequence[Symbol],
    consumers: Sequence[Sequence[int]],
    outputs: Collection[int],
    refused: Collection[int],
) -> dict[int, Attention]:
    """Returns all attentions of a graph, by the id of the scores' matmul; those whose scores matmul is in
    `refused` are left out."""
    found: dict[int, Attention] = {}
    for symbol in symbols:
        if symbol.op.kind == "contract":
            match = _match(symbol, consumers, outputs)
            if match is not None and match.scores not in found and match.scores not in refused:
                found[match.scores] = match
    return found


def _match(values: Symbol, consumers: Sequence[Sequence[int]], outputs: Collection[int]) -> Attention | None:
    probability = _before_replacement(_exact(_before_rounding(values.inputs[0])))
    rank = len(probability.shape)
    if probability.op.name not in ("div", "div_approximate") or rank < 2 or len(values.shape) != rank:
        return None
    if values.shape[:-2] != probability.shape[:-2]:  # weights that are broadcast over more values are a product by themselves
        return None
    numerator, denominator = _exact(probability.inputs[0]), _unbroadcast(probability.inputs[1])
    if not _reduces_last(denominator, "reduce_sum", rank):
        return None
    if _exact(denominator.inputs[0]) is not numerator:
        return None
    difference = _exact(numerator.inputs[0]) if numerator.op.name == "exp" else numerator
    if difference.op.name != ("sub" if numerator.op.name == "exp" else "exp_shifted"):
        return None
    working = {symbol.dtype for symbol in (probability, numerator, denominator, difference)}
    if len(working) > 1 or difference.dtype.name not in ("float32", "float64"):
        return None
    logits, maximum = _exact(difference.inputs[0]), _unbroadcast(difference.inputs[1])
    if not _reduces_last(maximum, "reduce_max", rank) or _exact(maximum.inputs[0]) is not logits:
        return None
    scores = _scores_of(logits)
    if scores is None or len(scores.shape) != rank:
        return None
    head, width = scores.inputs[0].shape[-1], values.shape[-1]
    if (
        type(head) is not int
        or type(width) is not int
        or not (0 < head <= MAX_HEAD and 0 < width <= MAX_HEAD)
    ):
        return None
    between = _between(scores, values.inputs[0])
    inside = between | {values.id}
    for member in (scores.id, *between):
        if member in outputs or any(consumer not in inside for consumer in consumers[member]):
            return None
    if _depends_on(values.inputs[1], scores):
        return None
    return Attention(scores.id, values.id, between)


def _exact(symbol: Symbol) -> Symbol:
    """Looks through casts that change no value."""
    while symbol.op.name == "cast" and keeps_values(symbol.inputs[0].dtype, symbol.dtype):
        symbol = symbol.inputs[0]
    return symbol


def _before_rounding(weights: Symbol) -> Symbol:
    """Looks through the cast that rounds the weights to the type of the second product, if the rounding may
    precede the division."""
    if weights.op.name == "cast" and rounds_weights(weights.attrs, weights.dtype):
        return weights.inputs[0]
    return weights


def _before_replacement(weights: Symbol) -> Symbol:
    """Looks through the choice of 0 in place of NaN."""
    if weights.op.name != "where" or weights.inputs[0].op.name != "is_nan":
        return weights
    condition, other, kept = weights.inputs
    number = constant_value(other) if all(is_one(extent) for extent in other.shape) else None
    replaced = number is not None and not number.any() and condition.shape == weights.shape
    return _exact(kept) if replaced and _exact(condition.inputs[0]) is _exact(kept) else weights


def _unbroadcast(symbol: Symbol) -> Symbol:
    """Looks through exact casts and the views that put a reduced dimension back (`keepdims`, `[..., None]`, an
    explicit expand)."""
    while True:
        inner = _exact(symbol)
        if inner.op.name == "broadcast_to" or (inner.op.name == "reshape" and _drops_units(inner)):
            inner = inner.inputs[0]
        if inner is symbol:
            return symbol
        symbol = inner


def _drops_units(reshape: Symbol) -> bool:
    source = [extent for extent in reshape.inputs[0].shape if not is_one(extent)]
    return source == [extent for extent in reshape.shape if not is_one(extent)]


def _reduces_last(symbol: Symbol, name: str, rank: int) -> bool:
    return (
        symbol.op.name == name
        and len(symbol.inputs[0].shape) == rank
        and tuple(symbol.attrs["axes"]) == (rank - 1,)
    )


def _scores_of(logits: Symbol) -> Symbol | None:
    """Returns the last matmul of the logits' own shape that reaches them through elementwise ops alone."""
    best: Symbol | None = None
    pending, seen = [logits], {logits.id}
    while pending:
        symbol = pending.pop()
        if symbol.shape != logits.shape:
            continue
        if symbol.op.kind == "contract":
            if best is None or symbol.id > best.id:
                best = symbol
        elif symbol.op.kind == "map":
            for operand in symbol.inputs:
                if operand.id not in seen:
                    seen.add(operand.id)
                    pending.append(operand)
    return best


def _between(scores: Symbol, last: Symbol) -> frozenset[int]:
    """Returns the symbols on paths from `scores` to `last`, without `scores`."""
    depends: dict[int, bool] = {scores.id: True}
    stack: list[Symbol] = [last]
    while stack:
        symbol = stack[-1]
        if symbol.id in depends:
            stack.pop()
            continue
        pending = [
            operand for operand in symbol.inputs if operand.id >= scores.id and operand.id not in depends
        ]
        if pending:
            stack.extend(pending)
            continue
        depends[symbol.id] = any(depends.get(operand.id, False) for operand in symbol.inputs)
        stack.pop()
    return frozenset([key for key, value in depends.items() if value and key != scores.id])


def _depends_on(symbol: Symbol, target: Symbol) -> bool:
    pending, seen = [symbol], {symbol.id}
    while pending:
        current = pending.pop()
        if current is target:
            return True
        for operand in current.inputs:
            if operand.id >= target.id and operand.id not in seen:
                seen.add(operand.id)
                pending.append(operand)
    return False


@dataclass(frozen=True, slots=True)
class Softmax:
    """The softmax exp(logits - maximum) / total in a nest, as the numbers of its body values.

    replaces_nan: weights that are NaN become 0.
    """

    logits: int
    maximum: int
    total: int
    replaces_nan: bool = False


def find_softmax(body: Sequence[Value], weights: int, axis: int) -> Softmax | None:
    """Returns the softmax along `axis` in the body of a nest whose result is `weights`, the left operand of a
    product; None if there is none.

    The pattern is that of `find_attention` in graphs: between the operations may be casts that change no
    value, and the last one may be the cast that rounds the weights.
    """

    def exact(number: int) -> int:
        while body[number].op == "cast" and keeps_values(body[body[number].operands[0]].dtype, body[number].dtype):
            number = body[number].operands[0]
        return number

    def reduces(number: int, kind: str) -> bool:
        value = body[number]
        return value.op == "reduce" and value.attrs["kind"] == kind and tuple(value.attrs["over"]) == (axis,)

    if body[weights].op == "cast" and rounds_weights(body[weights].attrs, body[weights].dtype):
        weights = body[weights].operands[0]
    weights = exact(weights)
    replaces_nan = False
    if body[weights].op == "where":
        condition, other = (body[number] for number in body[weights].operands[:2])
        if condition.op != "is_nan" or other.op != "const" or other.attrs["value"] != 0:
            return None
        replaces_nan, weights = True, exact(body[weights].operands[2])
        if exact(condition.operands[0]) != weights:
            return None
    if body[weights].op not in ("div", "div_approximate"):
        return None
    powers, total = (exact(number) for number in body[weights].operands)
    if not reduces(total, "sum") or exact(body[total].operands[0]) != powers:
        return None
    difference = exact(body[powers].operands[0]) if body[powers].op == "exp" else powers
    if body[difference].op != ("sub" if body[powers].op == "exp" else "exp_shifted"):
        return None
    if len({body[number].dtype for number in (weights, powers, total, difference)}) > 1:
        return None
    logits, maximum = body[difference].operands[0], exact(body[difference].operands[1])
    if not reduces(maximum, "max") or exact(body[maximum].operands[0]) != exact(logits):
        return None
    return Softmax(logits, maximum, total, replaces_nan)
