"""Finds the parameters of a function on which a pointer, or a block of pointers, may be based (alias
analysis).

The analysis follows pointers through address arithmetic, shape operations, selects, loops and branches to a fixed point; and
descriptors and block pointers through their bases. A pointer that was made from an integer, loaded from memory, or moved by a
distance between addresses is `UNKNOWN`: it may alias any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import Block, Operation, SSAValue

from ...tt.analysis.control_flow import terminator
from .. import types as t
from ..dialect.memory.descriptor_types import is_composite
from .alias_sets import UNKNOWN, AliasSet
from .distances import distance_moves

WRITES = frozenset({"tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store", "tt.sort_lines"})
ATOMICS = frozenset({"tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_load", "tt.atomic_store", "tt.atomic_poll"})


class AliasAnalysis:
    """The alias sets of all pointers of a function without calls.

    `groups`: parameter → group, for parameters that are known to share memory.
    """

    def __init__(self, function: Operation, groups: Mapping[int, int] | None = None) -> None:
        self._sets: dict[SSAValue, AliasSet] = {}
        self._flows: list[tuple[SSAValue, SSAValue]] = []  # from, to
        groups = groups or {}
        self._distances = distance_moves(function)
        for region in function.regions:
            if region.blocks:
                for position, argument in enumerate(region.blocks[0].args):
                    self._sets[argument] = frozenset({groups.get(position, position)})
            for block in region.blocks:
                self._block(block)
        self._propagate()
        self.written: AliasSet = frozenset().union(*(self.writes(op) for op in function.walk() if op is not function))

    def of(self, pointer: SSAValue) -> AliasSet:
        return self._sets.get(pointer, frozenset())

    def writes(self, op: Operation) -> AliasSet:
        """Returns the alias set that the operation itself, without its regions, may write."""
        return self.of(op.operands[0]) if op.name in WRITES else frozenset()

    def _propagate(self) -> None:
        changed = True
        while changed:
            changed = False
            for source, target in self._flows:
                before = self._sets.get(target, frozenset())
                after = before | self._sets.get(source, frozenset())
                if after != before:
                    self._sets[target] = after
                    changed = True

    def _block(self, block: Block) -> None:
        for op in block.ops:
            for region in op.regions:
                for inner in region.blocks:
                    self._block(inner)
            if op in self._distances:
                self._sets[op.results[0]] = frozenset({UNKNOWN})
                continue
            flows = list(_flows(op))
            self._flows += [(source, target) for source, target in flows if _points(target)]
            reached = {target for _, target in flows}
            for result in op.results:
                if _points(result) and result not in reached:
                    self._sets[result] = frozenset({UNKNOWN})


def converts_addresses(op: Operation) -> bool:
    """Returns whether an operation makes numbers of addresses or the reverse, by itself or by loading or storing pointers."""
    if op.name in ("tt.ptr_to_int", "tt.int_to_ptr"):
        return True
    if op.name == "tt.elementwise_inline_asm":
        return any(t.is_pointer(each.type) or t.elem(each.type) == t.I64 for each in (*op.operands, *op.results))
    if op.name == "tt.load":
        return t.is_pointer(op.results[0].type)
    return op.name == "tt.store" and t.is_pointer(op.operands[1].type)


def _points(value: SSAValue) -> bool:
    return t.is_pointer(value.type) or is_composite(value.type)


def _flows(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Yields pairs (from, to) of values that the operation forwards with the same base."""
    match op.name:
        case "scf.for":
            body = op.regions[0].block
            yielded = terminator(body).operands if body.last_op is not None else ()
            for init, new, argument, result in zip(op.operands[3:], yielded, body.args[1:], op.results, strict=True):
                yield from ((init, argument), (new, argument), (init, result), (new, result))
        case "scf.if":
            for region in op.regions:
                if region.blocks and region.block.last_op is not None:
                    yield from zip(terminator(region.block).operands, op.results, strict=True)
        case "scf.while":
            before, after = (region.block for region in op.regions)
            yield from zip(op.operands, before.args, strict=True)
            yield from zip(terminator(after).operands, before.args, strict=True)
            for target in (after.args, op.results):
                yield from zip(terminator(before).operands[1:], target, strict=True)
        case "cf.br":
            yield from zip(op.operands, op.successors[0].args, strict=True)
        case "cf.cond_br":
            arguments = [argument for block in op.successors for argument in block.args]
            yield from zip(op.operands[1:], arguments, strict=True)
        case "tt.load" | "tt.atomic_load" | "tt.atomic_rmw" | "tt.atomic_cas" | "tt.int_to_ptr":
            return
        case "ttng.reinterpret_tensor_descriptor":  # its operand points to the map, not to the tensor
            return
        case _:
            for result in op.results:
                if _points(result):
                    for operand in op.operands:
                        if _points(operand):
                            yield operand, result
