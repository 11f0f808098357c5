"""The ledger of implicit casts, and the policies that limit them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ..promotion.casts import LossClass, loss_class, loss_example
from ..promotion.dtype import DType
from ..promotion.errors import UserError
from .dims import Extent
from .errors import compose
from .location import Location

if TYPE_CHECKING:
    from .symbol import Symbol

Policy = Literal["lattice", "exact", "strict"]
POLICIES: tuple[Policy, ...] = ("lattice", "exact", "strict")


@dataclass(frozen=True, slots=True)
class CastEntry:
    """One implicit cast.

    Attributes:
        location: the user's line whose op needed it.
        op: the name of that op.
        source, target: dtypes before and after.
        loss: the worst that can happen to a value: "exact", "rounding", "sign" or "overflow".
        bytes: size of the converted tensor, an int or a `Dim`.
        symbol: the `cast` node.
    """

    location: Location
    op: str
    source: DType
    target: DType
    loss: LossClass
    bytes: Extent
    symbol: Symbol

    def __str__(self) -> str:
        example = loss_example(self.source, self.target)
        loss = f"{self.loss}: {example}" if example else self.loss
        return f"{self.location}: {self.op} casts {self.source} to {self.target} ({loss}), {self.bytes} bytes"


def check_policy(policy: str) -> Policy:
    for known in POLICIES:
        if policy == known:
            return known
    raise UserError(
        f"unknown promotion policy {policy!r}; expected one of {', '.join(map(repr, POLICIES))}; "
        'fix: policy="lattice" allows lossy joins and lists them, "exact" refuses them, "strict" refuses all implicit casts'
    )


def enforce(policy: Policy, op: str, position: int, operands: tuple[Any, ...], target: DType) -> None:
    """Raises `UserError` when the graph's policy forbids casting operand `position` to `target` implicitly."""
    if policy == "lattice":
        return
    source = operands[position].dtype
    loss = loss_class(source, target)
    if policy == "exact" and loss == "exact":
        return
    example = loss_example(source, target)
    damage = f", which can lose values ({loss}: {example})" if example else ""
    limit = "allows casts that keep every value only" if policy == "exact" else "allows no implicit casts"
    raise UserError(
        compose(
            f"{op}: operand {position} would be cast from {source} to {target}{damage}; the graph's policy "
            f"{policy!r} {limit}",
            operands,
            f"operands of equal dtype{'' if policy == 'strict' else ', or casts without loss'}",
            f"write the cast: operand.cast({target})",
        )
    )
