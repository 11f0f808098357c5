"""Replaces calls by the bodies of the functions they name; bodies that branch between blocks become
`scf.execute_region`."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from .....promotion.errors import UnsupportedError, UserError
from ....tt.analysis.control_flow import terminator
from ...dialect.functions import CallOp, FuncOp
from ...source_locations import called_location, naming_line
from ..function_pass import FunctionPass

MAX_INLINED = 100_000
"""Most operations that inlining may add: functions that call twice what calls twice, and so on, grow
exponentially."""


def inline_calls(function: FuncOp) -> None:
    """Replaces every call in the function, and in what it calls, by the callee's body; changed in place.

    Raises `UserError` for recursion, `UnsupportedError` for callees without a body and for programs that would grow beyond
    `MAX_INLINED` operations.
    """
    _Inliner(function).run()


class _Inliner:
    def __init__(self, function: FuncOp) -> None:
        self.function = function
        module = function.parent_op()
        found = [op for op in module.body.block.ops if isinstance(op, FuncOp)] if isinstance(module, ModuleOp) else []
        self.functions = {op.sym_name.data: op for op in found}
        self.added = 0

    def run(self) -> None:
        for block in self.function.body.blocks:
            self._block(block, (self.function.sym_name.data,))

    def _block(self, block: Block, path: tuple[str, ...]) -> None:
        for op in list(block.ops):
            if isinstance(op, CallOp):
                with naming_line(op):
                    self._call(block, op, path)
                continue
            for region in op.regions:
                for inner in region.blocks:
                    self._block(inner, path)

    def _call(self, block: Block, call: CallOp, path: tuple[str, ...]) -> None:
        name = call.callee.root_reference.data
        if name in path:
            raise UserError(f"@{path[0]}: recursion through @{name}; block kernels cannot call themselves")
        callee = self.functions[name]
        # What a front end prints may end with blocks that nothing branches to.
        body = callee.body.blocks[0] if callee.body.blocks else None
        if body is None or body.last_op is None:
            raise UnsupportedError(f"@{path[0]}: the call of @{name}, which has no body")
        if terminator(body).name != "tt.return":
            self._branching_call(block, call, callee, (*path, name))
            return
        values: dict[SSAValue, SSAValue] = dict(zip(body.args, call.operands, strict=True))
        made: list[Operation] = []
        for op in body.ops:
            if op.name == "tt.return":
                break
            made.append(op.clone(values))
            self.added += 1
            _locate([made[-1]], call)
        if self.added > MAX_INLINED:
            raise UnsupportedError(f"@{path[0]}: inlining adds more than {MAX_INLINED} operations")
        for op in made:
            block.insert_op_before(op, call)
        for result, value in zip(call.results, terminator(body).operands, strict=True):
            result.replace_all_uses_with(values.get(value, value))
        block.erase_op(call)
        for op in made:  # the callee's own calls, and those inside its regions
            if isinstance(op, CallOp):
                with naming_line(op):
                    self._call(block, op, (*path, name))
            else:
                for region in op.regions:
                    for inner in region.blocks:
                        self._block(inner, (*path, name))

    def _branching_call(self, block: Block, call: CallOp, callee: FuncOp, path: tuple[str, ...]) -> None:
        region = callee.body.clone()
        _locate([op for inner in region.blocks for op in inner.ops], call)
        entry = region.blocks[0]
        for argument, operand in zip(list(entry.args), call.operands, strict=True):
            argument.replace_all_uses_with(operand)
            entry.erase_arg(argument)
        self.added += sum(1 for inner in region.blocks for _ in inner.walk())
        if self.added > MAX_INLINED:
            raise UnsupportedError(f"@{path[0]}: inlining adds more than {MAX_INLINED} operations")
        for inner in region.blocks:
            end = inner.last_op
            if end is not None and end.name == "tt.return":
                inner.insert_op_before(scf.YieldOp(*end.operands), end)
                inner.erase_op(end)
        made = scf.ExecuteRegionOp.create(result_types=[result.type for result in call.results], regions=[region])
        made.location = call.location
        block.insert_op_before(made, call)
        for result, value in zip(call.results, made.results, strict=True):
            result.replace_all_uses_with(value)
        block.erase_op(call)
        for inner in region.blocks:
            self._block(inner, path)


def _locate(operations: list[Operation], call: Operation) -> None:
    """Adds the line of a call to the locations of what replaces it."""
    for op in operations:
        for inner in op.walk():
            inner.location = called_location(inner.location, call.location)


@dataclass(frozen=True)
class Inline(FunctionPass):
    """Replaces calls by the bodies of the functions they name."""

    name = "inline"

    def run(self, function: FuncOp) -> None:
        inline_calls(function)
