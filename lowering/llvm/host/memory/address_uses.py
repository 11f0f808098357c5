"""Finds the values that move pointers: they must be exact, not only modulo 2^32."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

RESHAPED = frozenset({"tt.splat", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "ttg.convert_layout"})
_MOVED = RESHAPED | {
    "arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.index_cast", "arith.trunci",
}  # fmt: skip


class AddressUses:
    """The values of a function that become parts of addresses. Each one is examined once."""

    def __init__(self) -> None:
        self._known: dict[SSAValue, bool] = {}

    def include(self, value: SSAValue) -> bool:
        """Whether a value moves pointers, by itself or as a part of sums and products."""
        known = self._known.get(value)
        if known is not None:
            return known
        pending, seen = [value], {value}
        found = False
        while pending and not found:
            for use in pending.pop().uses:
                user = use.operation
                new: Sequence[SSAValue] = ()
                if user.name == "tt.addptr" and use.index == 1:
                    found = True
                elif user.name in _MOVED:
                    new = user.results
                elif user.name == "scf.for" and use.index >= 3:
                    new = (user.regions[0].block.args[use.index - 2], user.results[use.index - 3])
                elif user.name == "scf.yield" and user.parent_op().name == "scf.for":
                    loop = user.parent_op()
                    new = (loop.regions[0].block.args[use.index + 1], loop.results[use.index])
                elif user.name == "scf.yield" and user.parent_op().name == "scf.if":
                    new = (user.parent_op().results[use.index],)
                for each in new:
                    if each not in seen:
                        seen.add(each)
                        pending.append(each)
        self._known[value] = found
        return found
