"""Defines the attributes in which Triton prints a loop's LLVM hints:
`#llvm.loop_annotation<licm = #llvm.loop_licm<disable = true>>` and its family.

They are read, kept and printed, but have no effect. Nor have `tt.flatten`, `tt.warp_specialize`,
`tt.disallow_acc_multi_buffer` and `tt.loop_unroll_factor`, which are plain attributes. `tt.num_stages` has
one (`nvptx/control/pipelined_loads.py`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer


class _Hints(ParametrizedAttribute):
    """A dictionary of hints: `<key = value, …>`."""

    values: DictionaryAttr

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        parser.parse_punctuation("<")
        return cls.parse_opened(parser)

    @classmethod
    def parse_opened(cls, parser: AttrParser) -> Sequence[Attribute]:
        """Parses what follows the opening bracket."""
        found: dict[str, Attribute] = {}

        def hint() -> None:
            start = parser.pos
            key = parser.parse_identifier()
            if key in found:
                parser.raise_error(f"{cls.name} has {key} twice", start, parser.pos)
            parser.parse_punctuation("=")
            found[key] = cls.value(parser, key)

        if parser.parse_optional_punctuation(">") is None:
            parser.parse_comma_separated_list(parser.Delimiter.NONE, hint)
            parser.parse_punctuation(">")
        return (DictionaryAttr(found),)

    @classmethod
    def value(cls, parser: AttrParser, key: str) -> Attribute:
        return parser.parse_attribute()

    def print_parameters(self, printer: Printer) -> None:
        def hint(pair: tuple[str, Attribute]) -> None:
            printer.print_string(f"{pair[0]} = ")
            printer.print_attribute(pair[1])

        with printer.in_angle_brackets():
            printer.print_list(self.values.data.items(), hint)


@irdl_attr_definition
class LoopLicmAttr(_Hints):
    name = "llvm.loop_licm"


@irdl_attr_definition
class LoopUnrollAttr(_Hints):
    name = "llvm.loop_unroll"


@irdl_attr_definition
class LoopUnrollAndJamAttr(_Hints):
    name = "llvm.loop_unroll_and_jam"


@irdl_attr_definition
class LoopVectorizeAttr(_Hints):
    name = "llvm.loop_vectorize"


@irdl_attr_definition
class LoopInterleaveAttr(_Hints):
    name = "llvm.loop_interleave"


@irdl_attr_definition
class LoopDistributeAttr(_Hints):
    name = "llvm.loop_distribute"


@irdl_attr_definition
class LoopPipelineAttr(_Hints):
    name = "llvm.loop_pipeline"


@irdl_attr_definition
class LoopPeeledAttr(_Hints):
    name = "llvm.loop_peeled"


@irdl_attr_definition
class LoopUnswitchAttr(_Hints):
    name = "llvm.loop_unswitch"


_PARTS: dict[str, type[_Hints]] = {
    "licm": LoopLicmAttr, "unroll": LoopUnrollAttr, "unrollAndJam": LoopUnrollAndJamAttr, "vectorize": LoopVectorizeAttr,
    "interleave": LoopInterleaveAttr, "distribute": LoopDistributeAttr, "pipeline": LoopPipelineAttr, "peeled": LoopPeeledAttr,
    "unswitch": LoopUnswitchAttr,
}  # fmt: skip


@irdl_attr_definition
class LoopAnnotationAttr(_Hints):
    name = "llvm.loop_annotation"

    @classmethod
    def value(cls, parser: AttrParser, key: str) -> Attribute:
        """Parses the value of a key. MLIR leaves the name of a part out: `licm = <disable = true>`."""
        part = _PARTS.get(key)
        if part is None or parser.parse_optional_punctuation("<") is None:
            return parser.parse_attribute()
        return part(*part.parse_opened(parser))


ATTRIBUTES: Sequence[type[ParametrizedAttribute]] = (LoopAnnotationAttr, *_PARTS.values())
