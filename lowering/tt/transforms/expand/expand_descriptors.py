"""Rewrites descriptors and block pointers into scalars and plain pointers.

A descriptor becomes (base, an i64 extent per axis, an i64 stride per axis, i1: pads with NaN), a block pointer (base, extents,
strides, i64 offsets). Loops, branches and the function's parameters carry the parts in their place; what a loop does not change
is not carried. Accesses become masked `tt.load`, `tt.store` and `tt.atomic_rmw`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, cf, scf
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, DictionaryAttr, FunctionType, i32
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue

from .....promotion.errors import UnsupportedError
from ....artifact import TensorSource
from ... import types as t
from ...analysis.control_flow import parent_block, terminator
from ...analysis.dominance import postorder
from ...analysis.hoistable_descriptors import (
    SOURCE,
    argument_offsets,
    hoistable_descriptors,
    source_attribute,
)
from ...analysis.integer_facts import MANY, carried, chosen, trailing_zeros
from ...builder.block_builder import BlockBuilder
from ...dialect.functions import FuncOp
from ...dialect.memory.block_pointers import MakeTensorPtrOp
from ...dialect.memory.descriptor_types import TensorDescType, block_of, is_composite, part_types
from ...dialect.memory.descriptors import MakeTensorDescriptorOp
from ...source_locations import naming_line
from ..descriptor_accesses import ACCESSES, Parts, build_before
from ..function_pass import Allowed, FunctionPass

_LONGEST_CHAIN = 64


def expand_descriptors(function: FuncOp, keep: Collection[int] = (), along: Collection[int] = ()) -> None:
    """Rewrites a function without calls in place; does nothing if there are no descriptors and no block
    pointers.

    keep: numbers of descriptors whose loads, or stores, stay as they are: parameters that have no other uses, then, numbered
        on, the `hoistable_descriptors`, in order. Each gets a parameter of the descriptor's type after the others; its
        attribute SOURCE says what it describes.
    along: numbers of parameters whose tensor has stride 1 along its last axis, and is padded with zeros.

    Raises `UnsupportedError` for descriptors that reach operations other than accesses, selects and
    structured control flow.
    """
    arguments = function.body.blocks[0].args
    kept = [each for number, each in enumerate(arguments) if number in keep and _is_plain(each)]
    if not any(is_composite(each.type) for each in arguments) and not any(map(_is_concerned, function.walk())):
        return
    hoisted: list[tuple[TensorSource, list[MakeTensorDescriptorOp]]] = []
    if any(number >= len(arguments) for number in keep):
        found = enumerate(hoistable_descriptors(function).items(), len(arguments))
        hoisted = [(each.source, makers) for number, (each, makers) in found if number in keep]
    _Expansion(function, kept, hoisted, along).run()


def _is_concerned(op: Operation) -> bool:
    return op.name.startswith("ttng.") or any(is_composite(result.type) for result in op.results)


def _is_plain(argument: BlockArgument) -> bool:
    """Returns whether only loads, or only stores, use a descriptor."""
    names = {use.operation.name for use in argument.uses}
    return len(names) == 1 and names <= {"tt.descriptor_load", "tt.descriptor_store"}


class _Expansion:
    def __init__(
        self,
        function: FuncOp,
        kept: Sequence[BlockArgument],
        hoisted: Sequence[tuple[TensorSource, Sequence[MakeTensorDescriptorOp]]],
        along: Collection[int],
    ) -> None:
        self.function = function
        self._kept: set[SSAValue] = set(kept)
        self._hoisted = hoisted
        self._along = along
        self.parts: dict[SSAValue, Parts] = {}
        self._zeros: dict[tuple[SSAValue, int], int] = {}
        self._replaced: dict[SSAValue, SSAValue] = {}
        self._builder = BlockBuilder.function("expansion", [])

    def run(self) -> None:
        entry = self.function.body.blocks[0]
        replaced = self._parameters(entry)
        self._blocks(self.function.body)
        for argument in replaced:
            entry.erase_arg(argument)

    def _parameters(self, entry: Block) -> list[BlockArgument]:
        arguments = list(entry.args)
        composite = [argument for argument in arguments if is_composite(argument.type)]
        if not composite and not self._hoisted:
            return []
        offsets = argument_offsets([argument.type for argument in arguments])
        types, attrs = [], []
        given = self.function.arg_attrs.data if self.function.arg_attrs is not None else ()
        for index, argument in enumerate(arguments):
            own = part_types(argument.type) if argument in composite else [argument.type]
            types += own
            attrs += [DictionaryAttr({}) if argument in composite or not given else given[index]] * len(own)
            if argument in composite:
                parts: list[SSAValue] = [entry.insert_arg(type_, argument.index) for type_ in own]
                if index in self._along:
                    parts[-2:] = [self._constant(entry, 1, 64), self._constant(entry, 0, 1)]
                self.parts[argument] = tuple(parts)
        maps: list[tuple[TensorSource, Sequence[SSAValue]]] = []
        for number, argument in enumerate(arguments):
            if argument in self._kept:
                rank = len(block_of(argument.type)[0])
                maps.append((TensorSource.of_parts(offsets[number], rank), [argument]))
        maps += [(source, [maker.result for maker in makers]) for source, makers in self._hoisted]
        for source, descriptors in maps:
            last = entry.insert_arg(descriptors[0].type, len(entry.args))
            for each in descriptors:
                each.replace_all_uses_with(last)
            self._kept.add(last)
            types.append(last.type)
            attrs.append(DictionaryAttr({SOURCE: source_attribute(source)}))
        for maker in [maker for _, makers in self._hoisted for maker in makers]:
            parent_block(maker).erase_op(maker)
        self.function.properties["function_type"] = FunctionType.from_lists(
            types, self.function.function_type.outputs.data
        )
        if given or self._kept:
            self.function.properties["arg_attrs"] = ArrayAttr(attrs)
        return composite

    @staticmethod
    def _constant(entry: Block, value: int, width: int) -> SSAValue:
        op = arith.ConstantOp.from_int_and_width(value, width)
        entry.insert_op_before(op, entry.first_op or terminator(entry))
        return op.result

    # Blocks of operations

    def _blocks(self, region: Region) -> None:
        """Rewrites the blocks of a region, each after those that it is reached through. Blocks that branches
        lead to take the parts as arguments."""
        first, *others = region.blocks
        taken = {block: [argument for argument in block.args if is_composite(argument.type)] for block in others}
        for block, arguments in taken.items():
            self._carry(block, arguments)
        order = dict.fromkeys(reversed(list(postorder(first))))
        dead = []
        for block in (*order, *[block for block in others if block not in order]):
            dead += self._rewritten(block)
        _erase(dead)
        for block, arguments in taken.items():
            for argument in arguments:
                block.erase_arg(argument)

    def _branch(self, op: Operation) -> None:
        """Makes a branch pass the parts of composite values, behind the other values."""
        flat = self._flat
        if isinstance(op, cf.ConditionalBranchOp):
            found = [[op.cond], flat(op.then_arguments), flat(op.else_arguments)]
        elif isinstance(op, cf.SwitchOp):
            cases = [flat(passed) for passed in op.case_operand]
            found = [[op.flag], flat(op.default_operands), [value for passed in cases for value in passed]]
            op.properties["case_operand_segments"] = DenseArrayBase.from_list(i32, [len(passed) for passed in cases])
        else:
            op.operands = flat(op.operands)
            return
        op.operands = [value for values in found for value in values]
        op.properties["operandSegmentSizes"] = DenseArrayBase.from_list(i32, [len(values) for values in found])

    def _block(self, block: Block) -> None:
        _erase(self._rewritten(block))

    def _rewritten(self, block: Block) -> list[Operation]:
        """Rewrites the operations of a block, and returns those that were replaced."""
        return [op for op in list(block.ops) if self._operation(op)]

    def _operation(self, op: Operation) -> bool:
        """Rewrites the operation, and returns whether it was replaced."""
        with naming_line(op):
            return self._rewrite(op)

    def _rewrite(self, op: Operation) -> bool:
        if op.operands and op.operands[0] in self._kept:
            return False
        access = ACCESSES.get(op.name)
        composite = any(is_composite(value.type) for value in (*op.operands, *op.results))
        structured = _STRUCTURED.get(op.name)
        if structured is not None:
            return structured(self, op)
        if op.name in ("scf.yield", "scf.condition"):
            if composite:
                op.operands = self._flat(op.operands)
            return False
        if op.successors:
            if composite:
                self._branch(op)
            return False
        if op.name == "arith.select" and composite:
            self._select(op)
            return True
        if access is not None and (composite or op.name.startswith("ttng.")):
            with build_before(self._builder, op) as b:
                parts = [self._parts(value) if is_composite(value.type) else () for value in op.operands]
                made = access(b, op, parts, self._known_zeros(op))
            for result, values in zip(op.results, made, strict=True):
                if is_composite(result.type):
                    self.parts[result] = values
                else:
                    result.replace_all_uses_with(values[0])
            return True
        if composite:
            types = ", ".join(str(value.type) for value in (*op.operands, *op.results) if is_composite(value.type))
            raise UnsupportedError(f"host lowering: {op.name} of {types}")
        for region in op.regions:
            if region.blocks:
                self._blocks(region)
        return False

    def _parts(self, value: SSAValue) -> Parts:
        found = self.parts.get(value)
        if found is None:
            raise UnsupportedError(f"host lowering: a value of type {value.type} that reaches its use by a branch")
        return tuple(map(self._current, found))

    def _current(self, value: SSAValue) -> SSAValue:
        """Returns the value that stands for a part by now."""
        while value in self._replaced:
            value = self._replaced[value]
        return value

    def _flat(self, values: Sequence[SSAValue]) -> list[SSAValue]:
        """Returns the plain values, then the parts of the others, which is the order in which structured
        operations carry them."""
        found = [value for value in values if not is_composite(value.type)]
        for value in values:
            if is_composite(value.type):
                found += self._parts(value)
        return found

    def _select(self, op: Operation) -> None:
        condition, yes, no = op.operands
        with build_before(self._builder, op) as b:
            pairs = zip(self._parts(yes), self._parts(no), strict=True)
            self.parts[op.results[0]] = tuple(x if x is y else b.select(condition, x, y) for x, y in pairs)

    # What is known about the offsets of block pointers

    def _known_zeros(self, op: Operation) -> tuple[int, ...]:
        """Returns the trailing zeros of the offset, by axis of the block pointer that the operation
        accesses."""
        if op.name not in ("tt.load", "tt.store"):
            return ()
        pointer = op.operands[0]
        return tuple(self._offset_zeros(pointer, axis, set()) for axis in range(len(block_of(pointer.type)[0])))

    def _offset_zeros(self, value: SSAValue, axis: int, seen: set[SSAValue]) -> int:
        known = self._zeros.get((value, axis))
        if known is not None:
            return known
        if value in seen:
            return MANY
        if len(seen) >= _LONGEST_CHAIN:
            return 0
        seen.add(value)
        pair = carried(value) or chosen(value)
        if pair is not None:
            return min(self._offset_zeros(each, axis, seen) for each in pair)
        op = value.op if isinstance(value, OpResult) else None
        if isinstance(op, MakeTensorPtrOp):
            return trailing_zeros(op.offsets[axis])
        if op is not None and op.name == "tt.advance":
            step = trailing_zeros(op.operands[1 + axis])
            return min(self._offset_zeros(op.operands[0], axis, seen), step)
        return 0

    def _remember(self, op: Operation) -> None:
        """Records what is known about results while the regions that show it are still in place."""
        for result in op.results:
            if t.is_block_pointer(result.type):
                for axis in range(len(block_of(result.type)[0])):
                    self._zeros[result, axis] = self._offset_zeros(result, axis, set())

    # Loops and branches

    def _carry(self, block: Block, arguments: Sequence[BlockArgument]) -> list[BlockArgument]:
        """Gives a block arguments for the parts of the composite ones, behind its others."""
        made: list[BlockArgument] = []
        for argument in arguments:
            if is_composite(argument.type):
                own = [block.insert_arg(type_, len(block.args)) for type_ in part_types(argument.type)]
                self.parts[argument] = tuple(own)
                made += own
        return made

    def _results(self, old: Operation, new: Operation) -> None:
        """Replaces the results of the old operation by those of the new one."""
        values = iter(new.results)
        for result in old.results:
            if not is_composite(result.type):
                made = next(values)
                made.name_hint = result.name_hint
                result.replace_all_uses_with(made)
        for result in old.results:
            if is_composite(result.type):
                self.parts[result] = tuple(next(values) for _ in part_types(result.type))

    def _if(self, op: Operation) -> bool:
        self._remember(op)
        for region in op.regions:
            for block in region.blocks:
                self._block(block)
        if not any(is_composite(result.type) for result in op.results):
            return False
        types = [value.type for value in _end(op.regions[0]).operands]
        regions = [op.detach_region(region) for region in list(op.regions)]
        new = scf.IfOp.create(
            operands=op.operands, result_types=types, regions=regions, attributes=op.attributes, location=op.location
        )
        _insert(new, op)
        self._results(op, new)
        for result, (yes, no) in _pairs(new):
            if yes is no:  # the same before both branches
                self._substitute(result, yes)
        return True

    def _for(self, op: Operation) -> bool:
        body = op.regions[0].block
        composite = [argument for argument in body.args if is_composite(argument.type)]
        parts = self._carry(body, composite)
        self._remember(op)
        self._block(body)
        if not composite:
            return False
        for argument in composite:
            body.erase_arg(argument)
        inits = self._flat(op.operands[3:])
        last = _end(op.regions[0])
        constant = [part for part in parts if last.operands[part.index - 1] is part]
        positions = {part.index - 1 for part in constant}
        kept = [position for position in range(len(inits)) if position not in positions]
        stands_for = {part.index - 1: inits[part.index - 1] for part in constant}
        for part in constant:
            self._substitute(part, inits[part.index - 1])
        last.operands = [last.operands[position] for position in kept]
        for part in constant:
            body.erase_arg(part)
        new = scf.ForOp.create(
            operands=[*op.operands[:3], *[inits[position] for position in kept]],
            result_types=[inits[position].type for position in kept],
            regions=[op.detach_region(op.regions[0])],
            attributes=op.attributes,
            location=op.location,
        )
        _insert(new, op)
        made = iter(new.results)
        values = [stands_for[position] if position in stands_for else next(made) for position in range(len(inits))]
        self._hand_out(op, values)
        return True

    def _while(self, op: Operation) -> bool:
        before, after = (region.block for region in op.regions)
        composite = [[argument for argument in block.args if is_composite(argument.type)] for block in (before, after)]
        for block, arguments in zip((before, after), composite, strict=True):
            self._carry(block, arguments)
            self._block(block)
        if not any(composite):
            return False
        for block, arguments in zip((before, after), composite, strict=True):
            for argument in arguments:
                block.erase_arg(argument)
        inits = self._flat(op.operands)
        condition, yielded = _end(op.regions[0]), _end(op.regions[1])
        # What every iteration yields unchanged is not carried.
        for argument in before.args:
            again = yielded.operands[argument.index]
            if isinstance(again, BlockArgument) and again.block is after and condition.operands[1 + again.index] is argument:
                self._substitute(again, inits[argument.index])
                self._substitute(argument, inits[argument.index])
        types = [value.type for value in condition.operands[1:]]
        new = scf.WhileOp.create(
            operands=inits,
            result_types=types,
            regions=[op.detach_region(region) for region in list(op.regions)],
            attributes=op.attributes,
            location=op.location,
        )
        _insert(new, op)
        self._results(op, new)
        for made, value in zip(new.results, condition.operands[1:], strict=True):
            if value in inits:
                self._substitute(made, value)
        return True

    def _hand_out(self, op: Operation, values: Sequence[SSAValue]) -> None:
        """Replaces the results of a loop by `values`: the plain ones first, then the parts."""
        given = iter(values)
        for result in op.results:
            if not is_composite(result.type):
                result.replace_all_uses_with(next(given))
        for result in op.results:
            if is_composite(result.type):
                self.parts[result] = tuple(next(given) for _ in part_types(result.type))

    def _substitute(self, old: SSAValue, new: SSAValue) -> None:
        old.replace_all_uses_with(new)
        self._replaced[old] = new


def _erase(dead: Sequence[Operation]) -> None:
    for op in reversed(dead):
        parent_block(op).erase_op(op)


def _end(region: Region) -> Operation:
    return terminator(region.block)


def _insert(new: Operation, old: Operation) -> None:
    parent_block(old).insert_op_before(new, old)


def _pairs(branch: Operation) -> list[tuple[SSAValue, tuple[SSAValue, SSAValue]]]:
    yes, no = (_end(region).operands for region in branch.regions)
    return [(result, (yes[result.index], no[result.index])) for result in branch.results]


_STRUCTURED: dict[str, Callable[[_Expansion, Operation], bool]] = {
    "scf.for": _Expansion._for,
    "scf.if": _Expansion._if,
    "scf.while": _Expansion._while,
}


@dataclass(frozen=True)
class ExpandDescriptors(FunctionPass):
    """Writes descriptors and block pointers as pointers, sizes and masks.

    keep: descriptors that stay what they are: positions of parameters, from 0, and on from there those of the descriptors that
        the function makes and a launch could make.
    along: positions of parameters that are descriptors of tensors whose last stride is 1, padded with zeros.
    """

    name = "expand-descriptors"
    keep: tuple[int, ...] = ()
    along: tuple[int, ...] = ()

    def allowed_in(self, function: FuncOp) -> Mapping[str, Allowed]:
        if not self.keep and not self.along:
            return {}
        arguments = function.body.blocks[0].args
        known = [number for number, each in enumerate(arguments) if isinstance(each.type, TensorDescType)]
        if any(number >= len(arguments) for number in (*self.keep, *self.along)):
            known += range(len(arguments), len(arguments) + len(hoistable_descriptors(function)))
        numbers = Allowed.numbers(f"descriptors of @{function.sym_name.data} that a launch has or could make", known)
        return {"keep": numbers, "along": numbers}

    def run(self, function: FuncOp) -> None:
        expand_descriptors(function, self.keep, self.along)
