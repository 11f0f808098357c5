"""Makes a canonical `Nest` from the entries of a body: drops dead values and unit axes, merges contiguous
axes, and orders the axes.

Two axes merge when every value varies along both or neither and every address steps over them as over one
(the outer coefficient is the inner one times the inner extent): an elementwise op on contiguous 4-D arrays
becomes one loop. Then axes are reversed along which something is read backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...graph.location import Location
from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ...promotion.dtype import uint8
from ..nest import Affine, Axis, Buffer, Extent, Nest, Store, Value
from .extents import is_one
from .groups import Group
from .indexing import Entry, Index
from .templates import IN_ORDER, template_of


@dataclass(slots=True)
class PendingStore:
    """A store before its axes are final; `axes` is the bit mask of the axes its value must vary along."""

    value: int
    target: Symbol | Buffer  # a storage root, or a buffer that belongs to no symbol
    at: Index
    axes: int
    line: Location


class AxisTable:
    """The axes of a nest while they are merged, with every expression and value as a set of axis numbers."""

    def __init__(self, entries: Sequence[Entry], stores: Sequence[PendingStore], group: Group) -> None:
        self.entries = entries
        self.extents: dict[int, Extent] = dict(enumerate(group.axes))
        self.roles = {key: list(axes) for key, axes in group.roles.items()}
        self.depth = group.depth
        self.live = _live(entries, stores)
        self.coefficients: list[dict[int, Extent]] = []
        self.offsets: list[Extent] = []
        self.position: dict[int, int] = {}  # entry -> its expression
        for number in self.live:
            at = entries[number].at
            if at is not None:
                self.position[number] = len(self.coefficients)
                self.coefficients.append(dict(at[1]))
                self.offsets.append(at[0])
        self.store_position = len(self.coefficients)
        self.coefficients.extend(dict(store.at[1]) for store in stores)
        self.offsets.extend(store.at[0] for store in stores)
        self.masks = {number: entries[number].axes for number in self.live}
        self.overs: dict[int, list[int]] = {}
        for number in self.live:
            entry = entries[number]
            if entry.op == "reduce":
                self.overs[number] = list(entry.attrs["over"])
            elif entry.op == "contract":
                self.overs[number] = [*entry.attrs["outer"], entry.attrs["over"]]
            elif entry.op == "scan":
                self.overs[number] = [entry.attrs["axis"]]
            elif entry.op in IN_ORDER:
                self.overs[number] = [axis for name in IN_ORDER[entry.op] if (axis := entry.attrs[name]) >= 0]
        self.store_masks = [store.axes for store in stores]
        used = 0
        for mask in [*self.masks.values(), *self.store_masks]:
            used |= mask
        self.used = used

    def drop_units(self) -> None:
        """Drops axes of extent 1 and axes along which nothing varies, but keeps the m, n and k of a
        contraction."""
        self._promote_batch()
        self._promote_depth()
        kept = {axis for roles in self.roles.values() for axis in roles}
        for axis in list(self.extents):
            if not self.used >> axis & 1 or (is_one(self.extents[axis]) and axis not in kept):
                self._forget(axis)

    def _promote_batch(self) -> None:
        """Replaces a unit m (or n) by a batch axis along which only one operand varies: (b, 1, k) @ (k, n) is
        a matmul."""
        taken = {axis for roles in self.roles.values() for axis in roles}
        for roles in self.roles.values():
            for position in (0, 1):
                axis = roles[position]
                if not is_one(self.extents[axis]) or len(self.roles) > 1:
                    continue
                signature = self._signature(axis)
                for other in reversed(list(self.extents)):
                    if other not in taken and self.used >> other & 1 and self._signature(other) == signature:
                        roles[position] = other
                        break

    def _promote_depth(self) -> None:
        """Makes the last contracted axis that is no unit the k of a contraction over several."""
        for key, depth in self.depth.items():
            longer = [axis for axis in depth if not is_one(self.extents[axis])]
            if longer and longer[-1] != self.roles[key][2]:
                self.roles[key][2] = longer[-1]

    def _forget(self, axis: int) -> None:
        del self.extents[axis]
        keep = ~(1 << axis)
        self.masks = {number: mask & keep for number, mask in self.masks.items()}
        self.store_masks = [mask & keep for mask in self.store_masks]
        for terms in self.coefficients:
            terms.pop(axis, None)
        for over in self.overs.values():
            if axis in over:
                over.remove(axis)

    def _signature(self, axis: int) -> int:
        """Returns the values, stores and reductions in which the axis appears, as a bit mask."""
        bits = 0
        for mask in self.masks.values():
            bits = bits << 1 | (mask >> axis & 1)
        for mask in self.store_masks:
            bits = bits << 1 | (mask >> axis & 1)
        for over in self.overs.values():
            bits = bits << 1 | (axis in over)
        return bits

    def merge(self) -> None:
        fixed = {
            axis
            for number, over in self.overs.items()
            if self.entries[number].op in ("scan", *IN_ORDER)
            for axis in over
        }
        candidates: dict[int, list[int]] = {}
        for axis in self.extents:
            if axis not in fixed:
                candidates.setdefault(self._signature(axis), []).append(axis)
        for axes in candidates.values():
            while (pair := self._mergeable(axes)) is not None:
                outer, inner = pair
                extent = self.extents[outer] * self.extents[inner]
                self._forget(outer)
                self.extents[inner] = extent
                axes.remove(outer)

    def _mergeable(self, axes: list[int]) -> tuple[int, int] | None:
        for outer in axes:
            for inner in axes:
                if outer != inner and self._contiguous(outer, inner):
                    return outer, inner
        return None

    def _contiguous(self, outer: int, inner: int) -> bool:
        extent = self.extents[inner]
        roles = {axis for role in self.roles.values() for axis in role}
        if outer in roles:
            return False
        for terms in self.coefficients:
            step, stride = terms.get(outer), terms.get(inner)
            if step is None or stride is None:
                if step is not stride:
                    return False
            elif step != stride * extent:
                return False
        for number, over in self.overs.items():
            if self.entries[number].attrs.get("kind") in ("argmax", "argmin") and outer in over:
                position = over.index(outer)
                if over[position + 1 : position + 2] != [inner]:
                    return False
        return True

    def reverse(self) -> None:
        """Reverses axes along which something is read backwards, element by element, and stored further apart: it is read
        forwards then, and transposed like anything else. A copy has kernels of its own for this."""
        loads = [self.position[number] for number in self.live if self.entries[number].op == "load"]
        if self.overs or self.roles or len(self.live) == 1:
            return
        for axis, extent in self.extents.items():
            steps = {step for position in loads if (step := self.coefficients[position].get(axis)) is not None}
            stored = [terms.get(axis, 0) for terms in self.coefficients[self.store_position :]]
            if -1 in steps and 1 not in steps and all(type(step) is int and abs(step) > 1 for step in stored):
                for position, terms in enumerate(self.coefficients):
                    if axis in terms:
                        self.offsets[position] = self.offsets[position] + terms[axis] * (extent - 1)
                        terms[axis] = -terms[axis]

    def order(self) -> tuple[list[int], set[int]]:
        """Returns all axes in their final order (parallel before reduction axes) and the set of the parallel
        ones."""
        stored = 0
        for mask in self.store_masks:
            stored |= mask
        parallel = [axis for axis in self.extents if stored >> axis & 1]
        reductions = [axis for axis in self.extents if not stored >> axis & 1]
        roles = list(self.roles.values())
        if roles:
            last = [roles[0][0], roles[-1][1]]  # rows of the first product, columns of the last
            parallel = [axis for axis in parallel if axis not in last] + [
                axis for axis in last if axis in parallel
            ]
        elif parallel and self.coefficients[self.store_position :]:
            widest = max(
                range(len(self.store_masks)), key=lambda number: self.store_masks[number].bit_count()
            )
            terms = self.coefficients[self.store_position + widest]
            unit = [axis for axis in parallel if is_one(terms.get(axis, 0))]
            if unit:
                parallel.remove(unit[-1])
                parallel.append(unit[-1])
        return parallel + reductions, set(parallel)


def _live(entries: Sequence[Entry], stores: Sequence[PendingStore]) -> list[int]:
    live = {store.value for store in stores}
    pending = list(live)
    while pending:
        for operand in entries[pending.pop()].operands:
            if operand not in live:
                live.add(operand)
                pending.append(operand)
    return sorted(live)


def _names(table: AxisTable, order: list[int], parallel: set[int], group: Group) -> dict[int, str]:
    names: dict[int, str] = {}
    roles = list(table.roles.values())
    if roles:
        names[roles[0][2]] = "k"
        if len(roles) > 1:
            names[roles[1][2]] = "keys"
        names[roles[0][0]] = "m"
        names[roles[-1][1]] = "n"
    for number, over in table.overs.items():
        if table.entries[number].op == "scan" and over:
            names[over[0]] = "scan"
    letter = "b" if roles else "i"
    counts = {letter: 0, "r": 0}
    for axis in order:
        if axis not in names:
            prefix = letter if axis in parallel else "r"
            names[axis] = f"{prefix}{counts[prefix]}"
            counts[prefix] += 1
    return names


def finish(
    entries: Sequence[Entry],
    stores: Sequence[PendingStore],
    group: Group,
    fused: tuple[str, ...],
    symbols: tuple[int, ...],
    buffer_of: Callable[[Symbol], Buffer],
) -> Nest:
    """Returns the canonical nest of a finished body.

    `buffer_of` is called for the buffers of live loads and stores only. Raises `NoTemplateError` when no
    template runs the nest.
    """
    table = AxisTable(entries, stores, group)
    table.drop_units()
    table.merge()
    table.reverse()
    order, parallel = table.order()
    number_of = {axis: position for position, axis in enumerate(order)}
    names = _names(table, order, parallel, group)
    axes = tuple(
        [
            Axis(names[axis], table.extents[axis], "parallel" if axis in parallel else "reduction")
            for axis in order
        ]
    )

    def affine(offset: Extent, terms: dict[int, Extent]) -> Affine:
        return Affine(
            offset, tuple(sorted([(number_of[axis], value) for axis, value in terms.items()], key=_first))
        )

    body: list[Value] = []
    number_of_value: dict[int, int] = {}
    for number in table.live:
        entry, mask = entries[number], table.masks[number]
        attrs = dict(entry.attrs)
        if entry.at is not None:
            if entry.op == "load":
                attrs["buffer"] = buffer_of(attrs["buffer"])
            attrs["at"] = affine(table.offsets[table.position[number]], table.coefficients[table.position[number]])
        over = table.overs.get(number)
        if over is not None:
            if entry.op == "reduce":
                numbers = [number_of[axis] for axis in over]
                attrs["over"] = (
                    tuple(numbers) if attrs["kind"] in ("argmax", "argmin") else tuple(sorted(numbers))
                )
            elif entry.op == "contract":
                attrs["over"], attrs["outer"] = number_of[over[-1]], tuple([number_of[axis] for axis in over[:-1]])
            elif entry.op in IN_ORDER:
                attrs |= {name: number_of.get(attrs[name], -1) for name in IN_ORDER[entry.op]}
            else:
                attrs["axis"] = number_of[over[0]]
        number_of_value[number] = len(body)
        operands = tuple([number_of_value[operand] for operand in entry.operands])
        body.append(
            Value(
                entry.op,
                entry.dtype,
                tuple([p for p, axis in enumerate(order) if mask >> axis & 1]),
                operands,
                attrs,
                entry.lines,
            )
        )
    final_stores = tuple(
        [
            Store(
                number_of_value[store.value],
                store.target if isinstance(store.target, Buffer) else buffer_of(store.target),
                affine(table.offsets[table.store_position + position], table.coefficients[table.store_position + position]),
                (store.line,),
            )
            for position, store in enumerate(stores)
        ]
    )
    if len(body) == 1 and body[0].op == "load" and body[0].dtype.is_bool and not body[0].attrs["guarded"]:
        body[0] = replace(body[0], dtype=uint8)  # copied as they are
    return Nest(axes, tuple(body), final_stores, template_of(axes, body, final_stores), fused, symbols)


def _first(term: tuple[int, Extent]) -> int:
    return term[0]
