"""Writes sizes that are known at a run: they are read from the shapes of inputs, and computed from these in int64."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ....promotion.dtype import int64
from ...dims.dim import Atom, Dim, Extent, lower_bound
from ...types import Shape
from .body import Body, Refused


class Sizes:
    """Values of sizes, each written once, as vectors of one element.

    A dim that an input has as an axis is read there; one that stands in expressions only is solved for where one axis
    determines it linearly.
    """

    def __init__(
        self, body: Body, inputs: Sequence[tuple[str, Shape]], opset: int, outer: Sizes | None = None,
        own: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        """Begin with the shapes of inputs. outer: of the graph around a region, which writes all sizes but the region's own."""
        self.body, self.inputs, self.opset, self.outer, self.own = body, inputs, opset, outer, own
        self._axes: dict[str, tuple[str, int]] = {}
        self._known: dict[Extent | Atom, str] = {}
        self._vectors: dict[tuple[Extent, ...], str] = {}
        self._pending: set[str] = set()
        for name, shape in inputs:
            self.learn(name, shape)

    def learn(self, name: str, shape: Shape) -> None:
        """Note that the sizes in a shape can be read from a value: of an input, or of a symbol that decides them."""
        for axis, extent in enumerate(shape):
            if isinstance(extent, Dim) and extent.name is not None:
                self._axes.setdefault(extent.name, (name, axis))

    def inside(self, body: Body, inputs: Sequence[tuple[str, Shape]], own: frozenset[str]) -> Sizes:
        """Return the sizes of a region that has some of its own, which nodes of its body compute."""
        return Sizes(body, inputs, self.opset, self, own)

    def vector(self, extents: Iterable[Extent]) -> str:
        """Return the name of a vector of sizes."""
        sizes = tuple(extents)
        numbers = [extent for extent in sizes if isinstance(extent, int)]
        if len(numbers) == len(sizes):
            return self.body.ints(*numbers)
        if self.outer is not None and not any([_symbols(extent) & self.own for extent in sizes]):
            return self.outer.vector(sizes)
        if sizes not in self._vectors:
            parts = [self.value(extent) for extent in sizes]
            self._vectors[sizes] = parts[0] if len(parts) == 1 else self.body.node("Concat", *parts, axis=0)
        return self._vectors[sizes]

    def scalar(self, extent: Extent) -> str:
        """Return the name of a size as a scalar."""
        if isinstance(extent, int):
            return self.body.constant(np.array(extent, np.int64), int64)
        return self.body.node("Squeeze", self.value(extent), self.body.ints(0))

    def value(self, extent: Extent) -> str:
        """Return the name of a size as a vector of one element."""
        if isinstance(extent, int):
            return self.body.ints(extent)
        if self.outer is not None and not extent.symbols() & self.own:
            return self.outer.value(extent)
        if extent not in self._known:
            name = extent.name
            self._known[extent] = self._named(name) if name is not None else self._polynomial(extent)
        return self._known[extent]

    def _polynomial(self, extent: Dim) -> str:
        total = ""
        for coefficient, monomial in extent.terms:
            factors = [self._factor(atom) for atom, power in monomial for _ in range(power)]
            if coefficient != 1 or not factors:
                factors.append(self.body.ints(coefficient))
            term = factors[0]
            for factor in factors[1:]:
                term = self.body.node("Mul", term, factor)
            total = self.body.node("Add", total, term) if total else term
        return total

    def _factor(self, atom: str | Atom) -> str:
        if isinstance(atom, str):
            return self._named(atom)
        if self.outer is not None and not any([_symbols(each) & self.own for each in atom.args]):
            return self.outer._factor(atom)
        if atom not in self._known:
            first, second = self.value(atom.args[0]), self.value(atom.args[1])
            if atom.kind == "max":
                self._known[atom] = self.body.node("Max", first, second)
            else:
                self._known[atom] = self._divided(atom, first, second)
        return self._known[atom]

    def _divided(self, atom: Atom, first: str, second: str) -> str:
        """Divide rounding down; ONNX rounds towards zero, and leaves division by 0 open."""
        body, (dividend, divisor) = self.body, atom.args
        is_zero, safe = "", second
        if not _is_at_least(divisor, 1):
            is_zero = body.node("Equal", second, body.ints(0))
            safe = body.node("Where", is_zero, body.ints(1), second)
        if atom.kind == "mod":
            rest = body.node("Mod", first, safe)
            return body.node("Where", is_zero, first, rest) if is_zero else rest
        if not _is_at_least(dividend, 0):  # without its remainder, which has the divisor's sign, it is a multiple
            first = body.node("Sub", first, body.node("Mod", first, safe))
        quotient = body.node("Div", first, safe)
        return body.node("Where", is_zero, body.ints(0), quotient) if is_zero else quotient

    def _named(self, name: str) -> str:
        dim = Dim(name)
        if self.outer is not None and name not in self.own:
            return self.outer.value(dim)
        if dim in self._known:
            return self._known[dim]
        if name in self._axes:
            source, axis = self._axes[name]
            self._known[dim] = self.body.node("Shape", source, start=axis, end=axis + 1)
            return self._known[dim]
        return self._solved(name, dim)

    def _solved(self, name: str, dim: Dim) -> str:
        """Return a dim that is found from an axis whose size is a multiple of it and a rest that do not depend on it."""
        if name not in self._pending:
            self._pending.add(name)
            for source, shape in self.inputs:
                for axis, extent in enumerate(shape):
                    if not isinstance(extent, Dim) or name not in extent.symbols() or extent.name is not None:
                        continue
                    rest = _at(extent, name, 0)
                    slope = _at(extent, name, 1) - rest
                    others = {*_symbols(rest), *_symbols(slope)}
                    if slope == 0 or slope * dim + rest != extent or others & self._pending:
                        continue
                    known = self.body.node("Shape", source, start=axis, end=axis + 1)
                    if rest != 0:
                        known = self.body.node("Sub", known, self.value(rest))
                    self._known[dim] = self.body.node("Div", known, self.value(slope)) if slope != 1 else known
                    self._pending.discard(name)
                    return self._known[dim]
        raise Refused(
            f"the size {name!r} cannot be computed from the shapes of the inputs", f"an input that has {name!r} as an axis"
        )


def _at(extent: Dim, name: str, value: int) -> Extent:
    replacements: Mapping[str, Extent] = {name: value}
    return extent.substitute(replacements)


def _symbols(extent: Extent) -> frozenset[str]:
    return extent.symbols() if isinstance(extent, Dim) else frozenset()


def _is_at_least(extent: Extent, least: int) -> bool:
    below = lower_bound(extent)
    return below is not None and below >= least
