"""Lists the custom forms of operations with regions, the only operations that the line reader has to know."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region
from xdsl.traits import SingleBlockImplicitTerminator, ensure_terminator

BEHIND = frozenset('%"^}')
"""First characters of a line that do not continue a form after its last brace, as attributes and `else`
would. The end of a text does not either."""


class Form:
    """A custom form with regions.

    Attributes:
        rest: the text that completes the first line to a whole operation.
        finish: does what the strict parser does once the regions are read: `finish(op, number of regions that were written)`.
        gives_block: whether the form gives the first region a block with arguments; otherwise `finish` may add blocks.
    """

    def __init__(self, rest: str, finish: Callable[[Operation, int], None] | None, gives_block: bool = True) -> None:
        self.rest, self.finish, self.gives_block = rest, finish, gives_block


class _Given:
    """Stands for a parser that has just read a region."""

    def __init__(self, region: Region) -> None:
        self.parse_region: Callable[[], Region] = lambda: region


def _end_branches(op: Operation, written: int) -> None:
    for region in op.regions[:written]:
        scf.IfOp.parse_region_with_yield(_Given(region))  # type: ignore[arg-type]


def _end_loop(op: Operation, written: int) -> None:
    if len(op.operands) == 3:
        for trait in op.get_traits_of_type(SingleBlockImplicitTerminator):
            ensure_terminator(op, trait)


def _fill_module(op: Operation, written: int) -> None:
    if not op.regions[0].blocks:
        op.regions[0].add_block(Block())


FORMS = {
    "module": Form("}", _fill_module, False),
    "tt.func": Form("}", None),
    "scf.for": Form("}", _end_loop),
    "scf.if": Form("}", _end_branches, False),
    "scf.while": Form("} do {\n}", None),
}
