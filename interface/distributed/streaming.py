"""Runs a model over blocks that come one after the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UserError
from .blocks import BlockResult, require_no_mask, run_block
from .driving import Driver, Task
from .engines import engine_of
from .failures import BlocksFailed, Failure, RunError, note_failures
from .references import ModelReference
from .signatures import Signature, require_flag, signature


def stream(
    reference: ModelReference, blocks: Iterable[Any], client: Any, in_flight: int, retries: int, ordered: bool,
    same_target: bool,
) -> Iterator[tuple[int, Any]]:
    """Implement `joinery.distributed.stream`."""
    for name, value, least in (("in_flight", in_flight, 1), ("retries", retries, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UserError(f"stream: {name} is {value!r}; fix: a number of {least} or more")
    for name, flag in (("ordered", ordered), ("same_target", same_target)):
        require_flag(flag, name, "stream")
    model = signature(reference, "stream")
    try:
        each = iter(blocks)
    except TypeError as error:
        raise UserError(
            f"stream: blocks is {blocks!r:.80}, a {type(blocks).__name__}; fix: an iterable of blocks, such as a list"
        ) from error
    driver = Driver(engine_of(client, reference.threads), in_flight, retries, ordered)
    return _results(driver, reference, model, each, same_target)


def _results(
    driver: Driver, reference: ModelReference, model: Signature, blocks: Iterable[Any], same_target: bool
) -> Iterator[tuple[int, Any]]:
    failures: list[Failure] = []
    try:
        yield from _done(driver, reference, model, blocks, same_target, failures)
    except Exception as error:  # of the caller's blocks, or of the run
        note_failures(error, failures)
        raise
    if failures:
        raise BlocksFailed(failures)


def _done(
    driver: Driver, reference: ModelReference, model: Signature, blocks: Iterable[Any], same_target: bool,
    failures: list[Failure],
) -> Iterator[tuple[int, Any]]:
    """Yield what is done, and append what has failed."""
    target: str | None = None
    tasks = (Task(number, run_block, (reference, _named(model, block, number))) for number, block in enumerate(blocks))
    for done in driver.run(tasks):
        if isinstance(done.value, Failure):
            failures.append(done.value)
            continue
        result: BlockResult = done.value
        target = result.target if target is None else target
        if same_target and result.target != target:
            raise RunError(
                f"stream: block {done.number} was computed with code for {result.target}, others with code for {target}, so "
                "their last bits may differ; fix: workers with one kind of CPU, or same_target=False"
            )
        outputs = tuple(result.outputs.values())
        yield done.number, outputs[0] if len(outputs) == 1 else outputs


def _named(model: Signature, block: Any, number: int) -> dict[str, Array]:
    """Return copies of the arrays of a block by input name: blocks that come later may lie in the same memory."""
    if isinstance(block, Mapping):
        given = dict(block)
    else:
        arrays: Sequence[Any] = block if isinstance(block, tuple | list) else (block,)
        if len(arrays) != len(model.inputs):
            raise UserError(
                f"stream: block {number} has {len(arrays)} arrays, model {model.name!r} takes "
                f"{', '.join(spec.text for spec in model.inputs)}; fix: a tuple of arrays, or a mapping by name"
            )
        given = {spec.name: array for spec, array in zip(model.inputs, arrays, strict=True)}
    model.require_inputs(given, f"stream: block {number}")
    for name, array in given.items():
        require_no_mask(name, array, f"stream: block {number}")
    return {name: np.array(array) for name, array in given.items()}
