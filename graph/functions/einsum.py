"""Composes Einstein summation of views, products and sums.

Operands are combined two at a time; a pair that shares a summed label becomes one matmul over merged axes, a
pair that shares none a broadcast product. Labels that occur in one operand only are summed first, which keeps
the products small.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ...promotion.dataclass import dataclass
from ..checks import ShapeError
from ..construction import primitives
from ..dims.dim import Extent, product
from ..errors import mistake
from ..graph import Graph, graph_of
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply
from .joining import pad
from .reductions import sum_

Label = str


@dataclass(frozen=True, slots=True)
class _Term:
    """An operand and the label of each of its axes; labels are distinct."""

    value: Symbol
    labels: tuple[Label, ...]

    def extent(self, label: Label) -> Extent:
        return self.value.shape[self.labels.index(label)]


def einsum(equation: str, *operands: TensorLike, precision: str = "ieee") -> Symbol:
    """Compute numpy.einsum: "ij,jk->ik", with or without "->".

    Labels may repeat (diagonals), and "..." stands for broadcast axes. Without "->" the result has the
    ellipsis axes, then the labels that occur once, in alphabetical order. Products of bools and 8-bit
    integers are summed in int32; 16-bit floats are accumulated in float32. Raises `UserError` for malformed
    equations and sizes that disagree.
    """
    graph = graph_of("einsum", *operands)
    symbols = (
        graph.promoted("einsum", operands, "concat")
        if len(operands) > 1
        else (graph.as_symbol(operands[0], "einsum"),)
    )
    inputs, output = _parse(equation, symbols)
    if not symbols[0].dtype.is_complex:
        result = graph.promotion("matmul", (symbols[0], symbols[0])).result
    if symbols[0].dtype.is_integer or symbols[0].dtype.is_bool:
        symbols = tuple([primitives.cast(symbol, result) for symbol in symbols])
    terms = [_term(symbol, labels) for symbol, labels in zip(symbols, inputs, strict=True)]
    terms = _broadcast_ones(equation, symbols, terms)
    while len(terms) > 1:
        first, second = _cheapest(terms, output)
        others = [term for term in terms if term is not first and term is not second]
        kept = {*output, *[label for term in others for label in term.labels]}
        terms = [*others, _combine(graph, first, second, kept, precision)]
    return _finish(terms[0], output, symbols[0])


# ------------------------------------------------------------------------------------------------------- the equation


def _parse(equation: object, operands: Sequence[Symbol]) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """Return the labels of each operand and of the result; ellipsis axes are "0", "1", … from the right."""
    if not isinstance(equation, str):
        raise mistake("einsum", f"the equation must be text, not {equation!r}", operands, '"ij,jk->ik"')
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise mistake(
            "einsum", f"{equation!r} describes {len(inputs)} operands, {len(operands)} are given", operands,
            "one comma-separated term per operand",
        )  # fmt: skip
    for part in (*inputs, right):
        letters = part.replace("...", "", 1)
        if letters and (not letters.isascii() or not letters.isalpha()):
            raise mistake(
                "einsum", f"{equation!r}: {part!r} is malformed", operands, "letters, and at most one '...'"
            )
    labels = [
        _labels(part, operand, equation, operands) for part, operand in zip(inputs, operands, strict=True)
    ]
    dotted = max((sum(label.isdigit() for label in term) for term in labels), default=0)
    ellipsis = tuple(str(number) for number in reversed(range(dotted)))
    used = [label for term in labels for label in term if not label.isdigit()]
    if not arrow:
        return labels, (*ellipsis, *sorted(label for label in set(used) if used.count(label) == 1))
    letters = right.replace("...", "")
    if len(set(letters)) != len(letters):
        raise mistake(
            "einsum",
            f"{equation!r}: a label is repeated in the result",
            operands,
            "each label once after '->'",
        )
    unknown = [letter for letter in letters if letter not in used]
    if unknown:
        raise mistake(
            "einsum", f"{equation!r}: the label {unknown[0]!r} of the result is in no operand", operands,
            f"labels of {', '.join(sorted(set(used))) or 'the operands'}",
        )  # fmt: skip
    if ellipsis and "..." not in right:
        raise mistake(
            "einsum",
            f"{equation!r}: the result drops the axes of '...'",
            operands,
            "'...' in the result",
            "add '...'",
        )
    before, _, after = right.partition("...")
    return labels, (*before, *ellipsis, *after) if "..." in right else tuple(right)


def _labels(part: str, operand: Symbol, equation: str, operands: Sequence[Symbol]) -> tuple[Label, ...]:
    rank = len(operand.shape)
    if "..." not in part:
        if len(part) != rank:
            raise mistake(
                "einsum", f"{equation!r}: {part!r} labels {len(part)} axes, the operand has {rank}", operands,
                "one letter per axis", "add '...' for the axes that are only broadcast",
            )  # fmt: skip
        return tuple(part)
    before, _, after = part.partition("...")
    missing = rank - len(before) - len(after)
    if missing < 0:
        raise mistake(
            "einsum", f"{equation!r}: {part!r} labels more than the {rank} axes of the operand", operands,
            "an axis for each letter besides '...'",
        )  # fmt: skip
    return (*before, *(str(number) for number in reversed(range(missing))), *after)


def _term(symbol: Symbol, labels: tuple[Label, ...]) -> _Term:
    """Make a term of an operand, in which repeated labels are resolved to diagonals."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            symbol = _diagonal(symbol, first, second)
            labels = (*[x for axis, x in enumerate(labels) if axis not in (first, second)], label)
    return _Term(symbol, labels)


def _diagonal(x: Symbol, first: int, second: int) -> Symbol:
    """Return the diagonal of two axes as the last axis.

    Its elements are n + 1 apart in row-major order: a slice, or for symbolic n the first column of longer
    rows.
    """
    others = [axis for axis in range(len(x.shape)) if axis not in (first, second)]
    try:
        n = x.graph.shape_checks.require_equal(x.shape[first], x.shape[second], "a repeated label")
    except ShapeError as error:
        raise mistake("einsum", error.problem, (x,), "axes of one size for a label", "give each axis its own label") from None
    last = primitives.permute(x, (*others, first, second))
    lead = tuple([x.shape[axis] for axis in others])
    flat = primitives.reshape(last, (*lead, n * n))
    if isinstance(n, int):
        return flat[..., :: n + 1]
    padded = pad(flat, [*[(0, 0)] * len(lead), (0, n)])
    return primitives.reshape(padded, (*lead, n, n + 1))[..., 0]


def _broadcast_ones(equation: str, operands: Sequence[Symbol], terms: list[_Term]) -> list[_Term]:
    """Drop axes of size 1 whose label is larger elsewhere, as they only broadcast. Other sizes must agree."""
    sizes: dict[Label, Extent] = {}
    checks = operands[0].graph.shape_checks
    for term in terms:
        for label in term.labels:
            extent = term.extent(label)
            known = sizes.get(label, 1)
            if known == 1 or extent == known:
                sizes[label] = extent
            elif extent != 1:
                if checks.decide(known, extent) is False:
                    name = "'...'" if label.isdigit() else f"label {label!r}"
                    raise mistake(
                        "einsum", f"{equation!r}: {name} is {known} and {extent}", operands, "one size per label",
                        "transpose an operand, or use another letter for one of the axes",
                    )  # fmt: skip
                sizes[label] = checks.require_equal(known, extent, f"einsum: label {label!r}")
    result = []
    for term in terms:
        kept = tuple([label for label in term.labels if not (term.extent(label) == 1 and sizes[label] != 1)])
        shape = tuple([term.extent(label) for label in kept])
        result.append(_Term(primitives.reshape(term.value, shape), kept))
    return result


# --------------------------------------------------------------------------------------------------------- evaluation


def _cheapest(terms: list[_Term], output: tuple[Label, ...]) -> tuple[_Term, _Term]:
    """Return the pair whose product is smallest; the first one where sizes are symbolic or equal."""
    best, best_size = (terms[0], terms[1]), None
    if len(terms) == 2:
        return best
    for first, second in combinations(terms, 2):
        elsewhere = {
            *output,
            *[label for term in terms if term is not first and term is not second for label in term.labels],
        }
        extents = {
            label: term.extent(label)
            for term in (first, second)
            for label in term.labels
            if label in elsewhere
        }
        size = product(extents.values())
        if isinstance(size, int) and (best_size is None or size < best_size):
            best, best_size = (first, second), size
    return best


def _sum_out(term: _Term, labels: set[Label]) -> _Term:
    """Sum the term over the given ones of its labels."""
    axes = tuple([axis for axis, label in enumerate(term.labels) if label in labels])
    if not axes:
        return term
    value = sum_(term.value, axis=axes, dtype=term.value.dtype)
    return _Term(value, tuple([label for label in term.labels if label not in labels]))


def _combine(graph: Graph, first: _Term, second: _Term, kept: set[Label], precision: str) -> _Term:
    shared = set(first.labels) & set(second.labels)
    first = _sum_out(first, set(first.labels) - shared - kept)
    second = _sum_out(second, set(second.labels) - shared - kept)
    over = [label for label in first.labels if label in shared and label not in kept]
    batch = [label for label in first.labels if label in shared and label in kept]
    rows = [label for label in first.labels if label not in shared]
    columns = [label for label in second.labels if label not in shared]
    if not over:
        labels = (*batch, *rows, *columns)
        return _Term(apply("mul", _spread(first, labels), _spread(second, labels)), labels)
    if not columns and first.labels == (*batch, *over, *rows):  # a row times a matrix as it lies
        first, second, rows, columns = second, first, columns, rows
    lead = tuple([first.extent(label) for label in batch])
    left = _arranged(first, (batch, rows, over), (*lead, _size(first, rows), _size(first, over)))
    right = _arranged(second, (batch, over, columns), (*lead, _size(second, over), _size(second, columns)))
    value = primitives.matmul(graph, left, right, precision, "einsum")
    shape = (*lead, *[first.extent(label) for label in rows], *[second.extent(label) for label in columns])
    return _Term(primitives.reshape(value, shape), (*batch, *rows, *columns))


def _size(term: _Term, labels: Sequence[Label]) -> Extent:
    return product(term.extent(label) for label in labels)


def _merges(term: _Term, groups: Sequence[Sequence[Label]]) -> bool:
    """Whether the labels of each group are neighbours in the term, in that order."""
    text = tuple(term.labels)
    return all(tuple(group) == text[(at := text.index(group[0])) : at + len(group)] for group in groups if group)


def _arranged(term: _Term, groups: Sequence[Sequence[Label]], shape: tuple[Extent, ...]) -> Symbol:
    """Return the term's axes in the order of the groups: those of the first one apart, those of the others as one axis each.

    Axes are merged before they are permuted where they can be, so that the elements stay where they are.
    """
    lead, *merged = groups
    wanted = [(label,) for label in lead] + [tuple(group) for group in merged]
    if not _merges(term, merged):
        order = tuple([term.labels.index(label) for group in wanted for label in group])
        return primitives.reshape(primitives.permute(term.value, order), shape)
    present = sorted([group for group in wanted if group], key=lambda group: term.labels.index(group[0]))
    flat = primitives.reshape(term.value, tuple([_size(term, group) for group in present]))
    order = tuple([present.index(group) for group in wanted if group])
    return primitives.reshape(primitives.permute(flat, order), shape)


def _spread(term: _Term, labels: tuple[Label, ...]) -> Symbol:
    """Return the term's axes in the order of `labels`, with size 1 for those it lacks."""
    present = tuple([label for label in labels if label in term.labels])
    shape = tuple([term.extent(label) if label in present else 1 for label in labels])
    return _arranged(term, (present,), shape)


def _finish(term: _Term, output: tuple[Label, ...], like: Symbol) -> Symbol:
    term = _sum_out(term, set(term.labels) - set(output))
    return primitives.permute(term.value, tuple([term.labels.index(label) for label in output]))
