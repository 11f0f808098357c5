"""Fuses symbols into kernels: decides which symbols are stored, and which kernel computes each.

The pass visits the symbols once, in creation order. Sources and everything computed from memory by
elementwise ops, views and gathers are left *floating*: they belong to no kernel and are evaluated wherever
they are read. A reduction, scan or matmul opens a group; what is computed elementwise from a group's members
joins the group when it has the same axes, and two reductions over equal axes become one group when an op
reads both, or both reduce what is computed of one symbol. A member read from outside is stored. Legality is
the absence of a cycle between groups, checked by reachability before every join (convexity: no path leaves a
group and comes back) and once more on the finished plan.

`storage.py` then decides which floating symbols are stored after all.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ....graph.symbol import Symbol
from ....promotion.errors import InternalError
from ...nest import Extent
from ...target import MAX_SORTED_BYTES
from ..attention import Attention, find_attention
from ..costs import NUMBER_LIMIT, RECOMPUTE_LIMIT, STEP_LIMIT, op_cost, stored_operand
from ..extents import is_one
from ..groups import (
    Group,
    computed_of,
    joined_map,
    merge_correspondence,
    operand_batch,
    own_axes,
    reduces_group,
    unless_one,
    viewed_map,
)
from ..indexing import AxisMap
from ..views import is_counting, storage_point, storage_root
from .group_order import GroupOrder, PartStore
from .interleaving import adds_outer_products, interleaves
from .repeated import MAX_TOGETHER, MIN_WORK

MAX_DEPTH = 96
"""Longest chain of symbols evaluated inline; longer ones are cut by a store, which bounds kernel size and
recursion."""
MAX_REDUCED_TOGETHER = 8
"""Most reductions of what is computed of one symbol that are one kernel."""
MAX_PARTS = 64
"""Most parts of a concatenation that is evaluated where it is read, by one choice after the other; others are stored."""


class Grouping(GroupOrder):
    """The fusion pass and its state. Symbols are identified by their ids, which index `symbols`.

    Args:
        symbols: all symbols of a graph of primitive ops, in topological order, ids dense.
        outputs: ids of the graph's outputs, with repetitions.
        forced: ids of symbols that must be stored (an earlier attempt could not evaluate them inline).
        repeated: ids of symbols that an earlier attempt would compute again and again.
        refused: ids of matmuls that must not start an attention.
        in_pass, cut: ids of symbols that the pass that reduces them should store, and of reductions whose group has no other
            pass (`passes.py`).
        shares_parts: whether computed parts of a concatenation that one kernel stores are evaluated for all its lanes, and not
            for those that choose them: what they have in common is computed once.
    """

    def __init__(
        self,
        symbols: Sequence[Symbol],
        outputs: Sequence[int],
        forced: Collection[int] = (),
        refused: Collection[int] = (),
        repeated: Collection[int] = (),
        in_pass: Collection[int] = (),
        cut: Collection[int] = (),
        shares_parts: bool = False,
    ) -> None:
        super().__init__()
        self.symbols = symbols
        self.outputs = outputs
        self.forced, self.repeated, self.in_pass, self.cut = forced, repeated, in_pass, cut
        self.shares_parts = shares_parts
        self.consumers: list[list[int]] = [[] for _ in symbols]
        for symbol in symbols:
            for operand in symbol.inputs:
                self.consumers[operand.id].append(symbol.id)
        self.output_set = frozenset(outputs)
        self.attention: dict[int, Attention] = find_attention(
            symbols, self.consumers, self.output_set, refused
        )
        self.attention_values = {match.values: match.scores for match in self.attention.values()}
        self.group_of: dict[int, Group] = {}
        self.sealed: set[int] = set()  # members nothing may join
        self.interleaved: set[int] = set()  # floating concatenations that one kernel stores, and what is computed of them
        self.sums: set[int] = set()  # of these, sums of outer products, each element of which takes many steps
        self.stored: dict[int, int] = {}  # storage root -> mask of the groups that write it
        self.must_store: set[int] = set()  # floating symbols that must be stored; storage.py chooses where
        self.found_repeated: set[int] = set()  # what a nest computes again and again
        self.together: list[Group] = []  # groups that store repeated symbols
        self.evaluators: dict[int, int] = {}  # floating symbol -> mask of the map groups made for it
        self.direct = [0] * len(symbols)  # mask of the groups whose stores a floating symbol reads
        self.cost = [0] * len(symbols)
        self.depth = [0] * len(symbols)
        self._reducing: dict[tuple[int, tuple[str, ...], tuple[int, ...]], Symbol] = {}

    # -- groups and dependencies --------------------------------------------------------------------------------------

    def map_group(self, symbol: Symbol) -> Group:
        """Makes a group that evaluates the floating `symbol` over its own dimensions."""
        group = self.new_group("map", self.direct[symbol.id])
        group.members[symbol.id] = own_axes(group, symbol.shape)
        return group

    def in_memory(self, symbol: Symbol) -> bool:
        root = storage_root(symbol)
        return root.id in self.stored or root.op.kind == "source"

    def joinable(self, symbol: Symbol) -> Group | None:
        if symbol.id in self.sealed:
            return None
        return self.group_of.get(symbol.id)

    def base_group(self, symbol: Symbol) -> Group | None:
        """Returns the group that has `symbol`, or what it is a view of, as a member; None for floating symbols."""
        while True:
            if storage_root(symbol).id in self.stored and symbol.id not in self.group_of:
                return None
            group = self.group_of.get(symbol.id)
            if group is not None or symbol.op.kind != "view":
                return group
            symbol = symbol.inputs[0]

    def dependency(self, symbol: Symbol) -> int:
        """Returns the mask of the groups that must have run before `symbol` can be read from outside its
        group."""
        group = self.base_group(symbol)
        return group.bit if group is not None else self.direct[symbol.id]

    def require(self, symbol: Symbol) -> int:
        """Makes `symbol` readable from outside: if it comes from a group, that group stores it. Returns its
        dependency."""
        group = self.base_group(symbol)
        if group is None:
            return self.direct[symbol.id]
        point = storage_point(symbol, group)
        self.store_member(storage_root(point), group)
        return group.bit

    def require_stored(self, symbol: Symbol) -> bool:
        """Has what is computed of a concatenation that one kernel stores stored, for a reader whose lanes would each choose
        among all parts. Returns whether it is such a symbol."""
        if symbol.id not in self.interleaved:
            return False
        self.must_store.add(storage_root(symbol).id)
        return True

    def store_member(self, root: Symbol, group: Group) -> None:
        if root.id not in group.members or storage_root(root) is not root:
            raise InternalError(
                f"schedule: %{root.id} ({root.op.name}) is not a member of the group that should store it"
            )
        group.stores[root.id] = None
        self.stored[root.id] = group.bit

    # -- the pass -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        for symbol in self.symbols:
            kind = symbol.op.kind
            if kind == "map":
                self._group_map(symbol)
            elif kind == "view":
                self._group_view(symbol)
            elif kind == "reduce":
                self._group_reduce(symbol)
            elif kind == "contract":
                self._group_contract(symbol)
            elif kind == "scan" and not is_counting(symbol):
                self._group_scan(symbol)
            elif kind == "ordered":
                self._group_ordered(symbol)
            elif kind in ("index", "join", "scan"):
                if symbol.op.name != "concat" or not self._group_concat(symbol):
                    self._float(symbol)
            elif kind != "source":
                raise InternalError(
                    f"schedule: {symbol.op.name} is no primitive op (kind {kind!r}); expand the graph first"
                )
            if symbol.id in self.forced:
                self._force(symbol)
            elif symbol.id in self.repeated:
                self._store_repeated(symbol)
            elif symbol.id in self.in_pass and symbol.id not in self.group_of:
                self.must_store.add(storage_root(symbol).id)
        self.forget_absorbed((self.stored, self.evaluators), self.direct)

    def _float(self, symbol: Symbol) -> None:
        """Leaves `symbol` floating; operands that come from groups are stored there."""
        before = cost = depth = 0
        for operand in symbol.inputs:
            if symbol.op.kind != "map":
                self.require_stored(operand)
            before |= self.require(operand)
            if self.in_memory(operand):
                cost += 0 if operand.op.kind == "source" and not operand.shape else 1
            else:
                cost += 1 if operand.id in self.in_pass else self.cost[operand.id]
                if self.depth[operand.id] >= depth:
                    depth = self.depth[operand.id] + 1
        if symbol.op.kind == "map":
            if adds_outer_products(symbol) or any(operand.id in self.sums for operand in symbol.inputs):
                self.sums.add(symbol.id)
            if symbol.id in self.sums or any(operand.id in self.interleaved for operand in symbol.inputs):
                self.interleaved.add(symbol.id)
        self.direct[symbol.id] = before
        self.cost[symbol.id] = min(cost + op_cost(symbol), 1 << 20)
        if symbol.op.name == "concat":  # the choice of its first part is that of the last one to be made
            depth += len(symbol.inputs) - 1
        self.depth[symbol.id] = depth
        if depth >= MAX_DEPTH:
            self._store_alone(symbol)

    def _store_alone(self, symbol: Symbol) -> None:
        """Makes a kernel of its own that stores a floating symbol; of a reshape, that which has the memory."""
        if self.in_memory(symbol):
            return
        root = storage_root(symbol)
        group = self.map_group(root)
        self._store_floating(root, group)
        while symbol is not root:
            self.direct[symbol.id] = group.bit
            self.depth[symbol.id] = 0
            symbol = symbol.inputs[0]

    def _store_floating(self, symbol: Symbol, group: Group) -> None:
        """Has a group of `symbol`'s shape, which has it as a member, store it."""
        group.stores[symbol.id] = None
        self.stored[symbol.id] = self.evaluators[symbol.id] = self.direct[symbol.id] = group.bit
        self.depth[symbol.id] = 0

    def _force(self, symbol: Symbol) -> None:
        """Stores `symbol`, a storage root that an earlier attempt could not evaluate where it was read, and
        lets nothing join it."""
        group = self.group_of.get(symbol.id)
        if group is not None and group.is_storable(symbol):
            self.sealed.add(symbol.id)
            self.store_member(symbol, group)
            return
        self.require(symbol)
        if group is not None:
            del group.members[symbol.id], self.group_of[symbol.id]
            self.direct[symbol.id] = group.bit
        if symbol.op.name == "concat" and symbol.id not in self.interleaved and not self.in_memory(symbol):
            self.store_parts(symbol)
        else:
            self._store_alone(symbol)

    def _store_repeated(self, symbol: Symbol) -> None:
        """Stores `symbol`, which an earlier plan would compute again and again, if it is more work than to read what is stored.
        A kernel that stores others of its shape stores it too, unless it depends on what reads one of them: a value of a chain
        is computed there of the one before it.
        """
        if symbol.id in self.group_of:
            self._force(symbol)
        elif not self.in_memory(symbol) and self.cost[symbol.id] >= MIN_WORK:
            for group in reversed(self.together):
                first = self.symbols[next(iter(group.members))]
                before = self.direct[symbol.id] & ~group.bit
                if first.shape == symbol.shape and len(group.stores) < MAX_TOGETHER and not self.reaches(before, group.bit):
                    group.members[symbol.id] = group.members[first.id]
                    self.before[group.bit] |= before
                    self._store_floating(symbol, group)
                    return
            self._store_alone(symbol)
            self.together.append(self.groups[self.stored[symbol.id]])

    def _group_map(self, symbol: Symbol) -> None:
        inside: dict[int, list[Symbol]] = {}
        for operand in symbol.inputs:
            group = self.joinable(operand)
            if group is not None:
                inside.setdefault(group.bit, []).append(operand)
        if not inside:
            self._float(symbol)
            return
        candidates = sorted(inside, reverse=True)
        if len(candidates) > 1:
            candidates = self._merge_rows(symbol, candidates, inside)
        for bit in candidates:
            if self._join(symbol, self.groups[bit], inside[bit]):
                return
        self._float(symbol)

    def _join(self, symbol: Symbol, group: Group, operands: list[Symbol]) -> bool:
        joined = joined_map(group, symbol.shape, [group.members[operand.id] for operand in operands])
        if joined is None or self._needs_a_pass(group, joined):
            return False
        inside = {operand.id for operand in operands}
        depth = 0
        before = 0
        for operand in symbol.inputs:
            outside = operand.id not in inside
            if outside:
                before |= self.dependency(operand)
            if not outside or not (self.in_memory(operand) or operand.id in self.group_of):
                depth = max(depth, self.depth[operand.id] + 1)  # members of other groups are stored: chains end there
        if depth >= MAX_DEPTH or self.reaches(before, group.bit):
            return False
        for operand in symbol.inputs:
            if operand.id not in inside:
                self.require(operand)
        self._add_member(symbol, group, joined)
        self.before[group.bit] |= before
        self.depth[symbol.id] = depth
        return True

    def _needs_a_pass(self, group: Group, axis_map: AxisMap) -> bool:
        """Returns whether a value of a group without passes after its reductions lies along what these reduce."""
        if not self.cut or not any(key in self.cut for key in group.reads):
            return False
        return not group.reduced_axes.isdisjoint([axis for axes in axis_map for axis in axes])

    def _add_member(self, symbol: Symbol, group: Group, axis_map: AxisMap) -> None:
        group.members[symbol.id] = axis_map
        self.group_of[symbol.id] = group

    def _merge_rows(
        self, symbol: Symbol, candidates: list[int], inside: dict[int, list[Symbol]]
    ) -> list[int]:
        """Merges the row groups among `candidates` that can be one nest. Returns the groups left to try."""
        rows = [bit for bit in candidates if self.groups[bit].kind == "row"]
        if len(rows) < 2:
            return candidates
        rows.sort(key=lambda bit: -len(self.groups[bit].axes))
        target = self.groups[rows[0]]
        for bit in rows[1:]:
            source = self.groups[bit]
            if self.reaches(self.before[target.bit], bit) or self.reaches(self.before[bit], target.bit):
                continue
            pairs = merge_correspondence(
                target,
                source,
                symbol.shape,
                [target.members[operand.id] for operand in inside[target.bit]],
                [source.members[operand.id] for operand in inside[bit]],
            )
            if pairs is None:
                continue
            for member in source.members:
                self.group_of[member] = target
            target.absorb(source, pairs)
            self.replace(bit, target.bit)
            inside[target.bit].extend(inside.pop(bit))
        remaining = [bit for bit in candidates if bit in inside and bit != target.bit]
        return [target.bit, *remaining]

    def _group_view(self, symbol: Symbol) -> None:
        operand = symbol.inputs[0]
        group = self.joinable(operand)
        if group is not None:
            axis_map = viewed_map(symbol, group, group.members[operand.id])
            if axis_map is not None:
                self._add_member(symbol, group, axis_map)
                self.depth[symbol.id] = self.depth[operand.id] + 1
                if self.depth[symbol.id] >= MAX_DEPTH:
                    self.sealed.add(symbol.id)
                return
        if self.base_group(operand) is not None:
            self.direct[symbol.id] = self.dependency(operand)
            self.cost[symbol.id] = 1
            return
        if symbol.op.name not in ("slice", "flip") or operand.id in self.sums:  # lanes would each compute all that they read
            self.require_stored(operand)
        elif operand.id in self.interleaved and not is_one(symbol.shape[-1]):  # one column is one part
            self.interleaved.add(symbol.id)
        self.direct[symbol.id] = self.direct[operand.id]
        self.cost[symbol.id] = 1 if self.in_memory(operand) else self.cost[operand.id]
        self.depth[symbol.id] = 0 if self.in_memory(operand) else self.depth[operand.id] + 1
        if self.depth[symbol.id] >= MAX_DEPTH:
            self._store_alone(symbol)

    def _group_reduce(self, symbol: Symbol) -> None:
        operand = symbol.inputs[0]
        over = tuple(symbol.attrs["axes"])
        group = self.joinable(operand)
        if group is not None and group.kind in ("row", "attention"):
            operand_map = group.members[operand.id]
            if reduces_group(group, operand, operand_map, over):
                self._add_reduction(symbol, group, operand_map, over)
                self.depth[symbol.id] = self.depth[operand.id] + 1
                if self.depth[symbol.id] >= MAX_DEPTH:
                    self.sealed.add(symbol.id)
                return
        self.require_stored(operand)
        before = self.require(operand)
        key = (*computed_of(operand, lambda each: self.in_memory(each) or each.id in self.group_of), over)
        first = self._reducing.get(key)
        group = None if first is None else self.groups[self.living(self.group_of[first.id].bit)]
        if first is None or group is None or len(group.reads) >= MAX_REDUCED_TOGETHER or self.reaches(before, group.bit):
            self._reducing[key] = symbol
            group = self.new_group("row", before)
            operand_map = own_axes(group, operand.shape)
            group.reduced = tuple([operand_map[d] for d in over if operand_map[d]])
        else:
            self.before[group.bit] |= before
            operand_map = group.reads[first.id][0]
        self._add_reduction(symbol, group, operand_map, over)
        self.depth[symbol.id] = 0 if self.in_memory(operand) else self.depth[operand.id] + 1

    def _add_reduction(
        self, symbol: Symbol, group: Group, operand_map: AxisMap, over: tuple[int, ...]
    ) -> None:
        if symbol.attrs["keepdims"]:
            result = tuple([() if d in over else axes for d, axes in enumerate(operand_map)])
        else:
            result = tuple([axes for d, axes in enumerate(operand_map) if d not in over])
        group.reads[symbol.id] = (operand_map,)
        self._add_member(symbol, group, result)

    def _group_scan(self, symbol: Symbol) -> None:
        self.require_stored(symbol.inputs[0])
        group = self.new_group("scan", self.require(symbol.inputs[0]))
        axis_map = own_axes(group, symbol.shape)
        group.splittable.difference_update(axis_map[symbol.attrs["axis"]])
        group.reads[symbol.id] = (axis_map,)
        self._add_member(symbol, group, axis_map)
        extent = symbol.shape[symbol.attrs["axis"]]
        if symbol.op.name == "sort_block" and type(extent) is int and extent * symbol.dtype.itemsize > MAX_SORTED_BYTES:
            self.sealed.add(symbol.id)  # it is sorted in the memory of a store

    def _group_ordered(self, symbol: Symbol) -> None:
        """Opens a group for an operation in the memory of its result; nothing joins it."""
        before = 0
        limit = NUMBER_LIMIT if symbol.attrs.get("axis") == len(symbol.shape) - 1 else STEP_LIMIT
        for number, operand in enumerate(symbol.inputs):
            before |= self.require(operand)
            if number and not self.in_memory(operand) and self.cost[operand.id] > limit:
                self.must_store.add(storage_root(operand).id)
        group = self.new_group("ordered", before)
        axis_map = own_axes(group, symbol.shape)
        if symbol.op.name == "scatter":
            axis = symbol.attrs["axis"]
            steps = symbol.inputs[1].shape[axis]
            over = () if is_one(steps) else (group.new_axis(steps),)
            along = (*axis_map[:axis], over, *axis_map[axis + 1 :])
            group.reads[symbol.id] = (axis_map, along, along)
            fixed = axis_map[axis]
        elif symbol.op.name == "sort_lines":
            group.reads[symbol.id] = (axis_map,)
            fixed = axis_map[-1]
        else:
            group.reads[symbol.id] = ((*axis_map[:-2], axis_map[-1]),)
            fixed = (*axis_map[-2], *axis_map[-1])
        group.splittable.difference_update(fixed)
        self._add_member(symbol, group, axis_map)
        self.sealed.add(symbol.id)

    def _group_contract(self, symbol: Symbol) -> None:
        lhs, rhs = symbol.inputs
        scores = self.attention_values.get(symbol.id)
        if scores is not None:
            group = self.group_of[scores]
            if group is self.group_of.get(lhs.id) and self._add_values(symbol, group):
                return
        before = self._operand(lhs, is_left=True) | self._operand(rhs)
        rank = len(symbol.shape)
        group = self.new_group("attention" if symbol.id in self.attention else "contract", before)
        batch = tuple([() if is_one(e) else (group.new_axis(e, splittable=True),) for e in symbol.shape[:-2]])
        m = group.new_axis(symbol.shape[-2])
        n = group.new_axis(symbol.shape[-1])
        k = group.new_axis(lhs.shape[-1])
        rows, columns, depth = (unless_one(group, axis) for axis in (m, n, k))
        group.members[symbol.id] = (*batch, rows, columns)
        group.reads[symbol.id] = (
            (*operand_batch(batch, lhs, rank), rows, depth),
            (*operand_batch(batch, rhs, rank), depth, columns),
        )
        group.roles[symbol.id], group.depth[symbol.id] = (m, n, k), (k,)
        if group.kind == "attention":
            group.reduced = ((n,),)
        self.group_of[symbol.id] = group

    def _add_values(self, symbol: Symbol, group: Group) -> bool:
        """Adds the second matmul of an attention: probabilities (…, m, keys) times values (…, keys, n)."""
        lhs, rhs = symbol.inputs
        lhs_map = group.members[lhs.id]
        before = self.dependency(rhs)
        if lhs_map[-1] != group.reduced[0] or self.reaches(before, group.bit):
            return False
        self._operand(rhs)
        n = group.new_axis(symbol.shape[-1])
        columns = unless_one(group, n)
        rank = len(symbol.shape)
        first = next(iter(group.roles.values()))
        group.members[symbol.id] = (*lhs_map[:-1], columns)
        group.reads[symbol.id] = (lhs_map, (*operand_batch(lhs_map[:-2], rhs, rank), lhs_map[-1], columns))
        group.roles[symbol.id], group.depth[symbol.id] = (first[0], n, first[1]), (first[1],)
        group.reduced = ()
        self.group_of[symbol.id] = group
        self.before[group.bit] |= before
        return True

    def _operand(self, operand: Symbol, is_left: bool = False) -> int:
        """Makes `operand` readable by a matmul: affine loads and cheap elementwise work, anything else is
        stored first. A left operand of windows, or of windows of unsigned codes, is read from what the windows are of."""
        before = self.require(operand)
        stored = stored_operand(operand, is_left, self.in_memory)
        if stored is not None:
            self.must_store.add(stored.id)
        return before

    def _group_concat(self, symbol: Symbol) -> bool:
        """Stores a concatenation part by part if a group computes one, or there are many; others float as guarded loads."""
        if len(symbol.inputs) <= MAX_PARTS and all(self.base_group(operand) is None for operand in symbol.inputs):
            if interleaves(symbol, lambda part: self.in_memory(part) or self.require_stored(part)):
                self.interleaved.add(symbol.id)
            return False
        self.store_parts(symbol)
        return True

    def store_parts(self, symbol: Symbol) -> None:
        """Writes every operand of a concat to its place in the result, from its own group where nothing else
        reads it."""
        axis = symbol.attrs["axis"]
        offset: Extent = 0
        writers = 0
        for operand in symbol.inputs:
            group = self.joinable(operand)
            sole = self.consumers[operand.id] == [symbol.id] and operand.id not in self.output_set
            if group is None or not sole or not group.is_storable(operand):
                self.require(operand)
                group = self.map_group(operand)
                self.before[group.bit] = self.dependency(operand)
                self.evaluators[operand.id] = self.evaluators.get(operand.id, 0) | group.bit
            self.parts.setdefault(group.bit, []).append(PartStore(operand.id, symbol.id, axis, offset))
            writers |= group.bit
            offset = offset + operand.shape[axis]
        self.stored[symbol.id] = writers
        self.direct[symbol.id] = writers
        self.depth[symbol.id] = 0

    def expensive(self, symbol: Symbol) -> bool:
        return self.cost[symbol.id] >= RECOMPUTE_LIMIT
