"""Defines tt.func, tt.return, tt.call and the operations that read the program's position in the grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.ir import Attribute, Operation, Region
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import (
    IsTerminator,
    Pure,
    SymbolOpInterface,
    SymbolTable,
    SymbolUserOpInterface,
)

from .. import types as t
from ..checks import BlockSizes, IsolatedByOrder, expect_types, fail
from ..limits import MAX_NAME
from ..symbols import find_symbol
from .attributes import PROGRAM_AXES, ProgramAxis, enum_name, print_location


@irdl_op_definition
class FuncOp(IRDLOperation):
    """A function: one region, nothing captured from outside. Without a body it is a declaration."""

    name = "tt.func"

    sym_name = prop_def(StringAttr)
    function_type = prop_def(FunctionType)
    sym_visibility = opt_prop_def(StringAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    body = region_def()

    traits = traits_def(IsolatedByOrder(), SymbolOpInterface())

    def verify_(self) -> None:
        name = self.sym_name.data
        if not name or not name.isprintable() or len(name) > MAX_NAME:
            fail(self, f"the name {name[:80]!r} is empty, longer than {MAX_NAME}, or has characters that cannot be printed")
        inputs = self.function_type.inputs.data
        if self.arg_attrs is not None and len(self.arg_attrs.data) != len(inputs):
            fail(self, f"{len(self.arg_attrs.data)} argument attributes for {len(inputs)} arguments")
        outputs = self.function_type.outputs.data
        if self.res_attrs is not None and len(self.res_attrs.data) != len(outputs):
            fail(self, f"{len(self.res_attrs.data)} result attributes for {len(outputs)} results")
        entry = self.body.blocks.first
        if entry is not None:
            expect_types(self, "entry block arguments", [argument.type for argument in entry.args], inputs)
            for block in self.body.blocks:
                last = block.last_op
                if last is None or not last.has_trait(IsTerminator):
                    fail(
                        self,
                        f"a block of @{self.sym_name.data} does not end in a terminator such as tt.return",
                    )

    @classmethod
    def parse(cls, parser: Parser) -> FuncOp:
        visibility = parser.parse_optional_visibility_keyword()
        name = parser.parse_symbol_name()
        arguments: list[Parser.Argument] = []
        argument_types: list[Attribute] = []
        argument_attrs: list[DictionaryAttr] = []

        def parse_parameter() -> None:
            # A definition names its parameters, a declaration lists bare types.
            argument = parser.parse_optional_argument()
            argument_types.append(parser.parse_type() if argument is None else argument.type)
            argument_attrs.append(DictionaryAttr(parser.parse_optional_attr_dict()))
            location = parser.parse_optional_location()
            if argument is not None:
                argument.location = location
                arguments.append(argument)

        parser.parse_comma_separated_list(Parser.Delimiter.PAREN, parse_parameter)
        if arguments and len(arguments) != len(argument_types):
            parser.raise_error("some parameters have a name and some have none")
        outputs, result_attrs = _parse_results(parser)
        extra = parser.parse_optional_attr_dict_with_keyword()
        body = parser.parse_optional_region(arguments)
        properties: dict[str, Attribute] = {
            "sym_name": name,
            "function_type": FunctionType.from_lists(argument_types, outputs),
        }
        if any(attrs.data for attrs in argument_attrs):
            properties["arg_attrs"] = ArrayAttr(argument_attrs)
        if any(attrs.data for attrs in result_attrs):
            properties["res_attrs"] = ArrayAttr(result_attrs)
        if visibility is not None:
            properties["sym_visibility"] = visibility
        attributes = dict(extra.data) if extra is not None else {}
        return cls.create(properties=properties, attributes=attributes, regions=[body or Region()])

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        if self.sym_visibility is not None:
            printer.print_string(f"{self.sym_visibility.data} ")
        printer.print_symbol_name(self.sym_name.data)
        inputs, outputs = self.function_type.inputs.data, self.function_type.outputs.data
        entry = self.body.blocks.first

        def print_parameter(index: int) -> None:
            if entry is not None:
                printer.print_ssa_value(entry.args[index])
                printer.print_string(": ")
            printer.print_attribute(inputs[index])
            _print_attrs(printer, self.arg_attrs, index)
            if entry is not None:
                print_location(printer, entry.args[index].location)

        def print_result(index: int) -> None:
            printer.print_attribute(outputs[index])
            _print_attrs(printer, self.res_attrs, index)

        with printer.in_parens():
            printer.print_list(range(len(inputs)), print_parameter)
        if outputs:
            printer.print_string(" -> ")
            if len(outputs) == 1 and self.res_attrs is None:
                printer.print_attribute(outputs[0])
            else:
                with printer.in_parens():
                    printer.print_list(range(len(outputs)), print_result)
        if self.attributes:
            printer.print_string(" attributes ")
            printer.print_attr_dict(self.attributes)
        if entry is not None:
            printer.print_string(" ")
            printer.print_region(self.body, print_entry_block_args=False, print_empty_block=False)


def _parse_results(parser: Parser) -> tuple[list[Attribute], list[DictionaryAttr]]:
    """Parses `-> T`, `-> (T {attrs}, …)` or nothing."""
    if parser.parse_optional_punctuation("->") is None:
        return [], []

    def parse_result() -> tuple[Attribute, DictionaryAttr]:
        return parser.parse_type(), DictionaryAttr(parser.parse_optional_attr_dict())

    results = parser.parse_optional_comma_separated_list(Parser.Delimiter.PAREN, parse_result)
    if results is None:
        results = [(parser.parse_type(), DictionaryAttr({}))]
    return [type_ for type_, _ in results], [attrs for _, attrs in results]


def _print_attrs(printer: Printer, dictionaries: ArrayAttr[DictionaryAttr] | None, index: int) -> None:
    if dictionaries is not None and dictionaries.data[index].data:
        printer.print_string(" ")
        printer.print_attr_dict(dictionaries.data[index].data)


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Ends a function; its operands are the function's results."""

    name = "tt.return"

    srcs = var_operand_def()

    assembly_format = "attr-dict ($srcs^ `:` type($srcs))?"
    traits = traits_def(IsTerminator())

    def verify_(self) -> None:
        function = self.parent_op()
        if not isinstance(function, FuncOp):
            fail(
                self,
                f"stands in {function.name if function else 'no operation'}, expected to stand in tt.func",
            )
        expect_types(self, "returned values", self.operand_types, function.function_type.outputs.data)


@dataclass(frozen=True)
class CalleeExists(SymbolUserOpInterface):
    def verify(self, op: Operation) -> None:
        assert isinstance(op, CallOp)
        module: Operation = op
        while (outer := module.parent_op()) is not None:
            module = outer
        if not module.has_trait(SymbolTable):
            return  # a function outside any module: nothing to look names up in
        callee = find_symbol(module, op.callee)
        if not isinstance(callee, FuncOp):
            fail(op, f"callee {op.callee} is not a tt.func of this module")
        expect_types(op, "operands of the call", op.operand_types, callee.function_type.inputs.data)
        expect_types(op, "results of the call", op.result_types, callee.function_type.outputs.data)


@irdl_op_definition
class CallOp(IRDLOperation):
    """A direct call of a function of the same module."""

    name = "tt.call"

    callee = prop_def(SymbolRefAttr)
    arg_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    res_attrs = opt_prop_def(ArrayAttr[DictionaryAttr])
    arguments = var_operand_def()
    results_ = var_result_def()

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$callee `(` $arguments `)` attr-dict `:` functional-type($arguments, $results_)"
    traits = traits_def(BlockSizes(), CalleeExists())

    def verify_(self) -> None:
        for what, attrs, values in (("argument", self.arg_attrs, self.operands), ("result", self.res_attrs, self.results)):
            if attrs is not None and len(attrs.data) != len(values):
                fail(self, f"{len(attrs.data)} {what} attributes for {len(values)} {what}s")


def called_functions(function: FuncOp) -> list[FuncOp]:
    """Returns the other functions of its module that a function calls, and those that these call, in the order of the calls."""
    module = function.parent_op()
    if not isinstance(module, ModuleOp) or module.body.block.first_op is module.body.block.last_op:
        return []
    functions = {op.sym_name.data: op for op in module.body.block.ops if isinstance(op, FuncOp)}
    found = {function.sym_name.data: function}
    waiting = [function]
    while waiting:
        for op in waiting.pop(0).walk():
            name = op.callee.root_reference.data if isinstance(op, CallOp) else None
            if name is not None and name not in found and name in functions:
                found[name] = functions[name]
                waiting.append(functions[name])
    return list(found.values())[1:]


class _GridOp(IRDLOperation):
    """An operation that reads the program's position in the grid, or the grid's size."""

    axis = prop_def(IntegerAttr)
    result = result_def(t.I32)

    custom_directives = (ProgramAxis,)
    assembly_format = "custom<ProgramAxis>($axis) attr-dict `:` type($result)"
    traits = traits_def(Pure())

    def verify_(self) -> None:
        if enum_name(PROGRAM_AXES, self.axis) is None:
            fail(self, f"axis is {self.axis.value.data}, expected 0 (x), 1 (y) or 2 (z)")


@irdl_op_definition
class GetProgramIdOp(_GridOp):
    """The index of this program along one axis of the grid."""

    name = "tt.get_program_id"


@irdl_op_definition
class GetNumProgramsOp(_GridOp):
    """The size of the grid along one axis."""

    name = "tt.get_num_programs"


OPERATIONS: Sequence[type[Operation]] = (FuncOp, ReturnOp, CallOp, GetProgramIdOp, GetNumProgramsOp)
