"""Keeps the ledger of implicit casts, and enforces the policies that limit them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Literal

from ...promotion.casts import LOSS_CLASSES, LossClass, loss_class, loss_example
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import PromotionWarning, UserError
from ...promotion.literals import Scalar
from ..dims.dim import Extent
from ..errors import compose
from ..location import Location
from ..protocols import SymbolLike

Policy = Literal["lattice", "exact", "strict"]
POLICIES: tuple[Policy, ...] = ("lattice", "exact", "strict")

LossAction = Literal["ignore", "warn", "error"]
LOSS_ACTIONS: tuple[LossAction, ...] = ("ignore", "warn", "error")


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
    symbol: SymbolLike

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


def check_actions(on_loss: Mapping[str, str]) -> dict[LossClass, LossAction]:
    """Return the actions for implicit casts by loss class.

    Raises `UserError` for other classes and actions.
    """
    checked: dict[LossClass, LossAction] = {}
    for loss, action in on_loss.items():
        if loss not in LOSS_CLASSES or action not in LOSS_ACTIONS:
            raise UserError(
                f"on_loss: {loss!r}: {action!r}; expected a loss class ({', '.join(LOSS_CLASSES)}) and one of "
                f"{', '.join(LOSS_ACTIONS)}; fix: on_loss={{'overflow': 'error'}}"
            )
        checked[loss] = action
    return checked


def enforce(
    policy: Policy,
    on_loss: Mapping[LossClass, LossAction],
    op: str,
    position: int,
    operands: tuple[SymbolLike | Scalar, ...],
    source: DType,
    target: DType,
    location: Location,
) -> None:
    """Raise `UserError` when the policy, or the action for the loss class, forbids an implicit cast.

    The cast is that of operand `position` from `source` to `target`. The action "warn" warns at the user's
    line.
    """
    loss = loss_class(source, target)
    action = on_loss.get(loss, "ignore")
    if action != "ignore":
        example = loss_example(source, target)
        text = f"{op}: operand {position} is cast from {source} to {target}{f' ({loss}: {example})' if example else ''}"
        fix = _fix(position, operands, target)
        if action == "error":
            raise UserError(compose(f"{text}; on_loss makes casts that lose by {loss} errors", operands, fix=fix))
        warnings.warn_explicit(f"{text}; fix: {fix}", PromotionWarning, location.file, location.line)
    if policy == "lattice" or (policy == "exact" and loss == "exact"):
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
            _fix(position, operands, target),
        )
    )


def _fix(position: int, operands: tuple[SymbolLike | Scalar, ...], target: DType) -> str:
    """Return one way out.

    A constant of rank 0 that makes a tensor wider was meant as a number, and a Python number is weak.
    """
    write = f"write the cast: operand.cast({target})"
    for other, operand in enumerate(operands):
        if other == position or isinstance(operand, (bool, int, float, complex)):
            continue
        if operand.op.name == "constant" and not operand.shape and operand.dtype is target:
            number = {"bool": "bool", "float": "float", "complex": "complex"}.get(target.kind, "int")
            return f"give operand {other} as a Python number, {number}(value), which takes the tensor's dtype; or {write}"
    return write
