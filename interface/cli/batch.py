"""Implements `joinery batch`: a model over files, in blocks, on the workers that there are."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ...promotion import UserError
from ...runtime.host.streams import occupy_descriptors, refusal, tell
from .arrays import assignment

Add = Callable[[str, Callable[[argparse.Namespace], int], str], argparse.ArgumentParser]

BLOCK_ROWS = 1024
_FAILED, _NOT_SHOWN = 1, 3
_SHOWN_BLOCKS = 10


def add_batch(add: Add) -> None:
    """Add the command by `add(name, command, help)`."""
    batch = add("batch", _batch, "run a saved model over files, block by block, on one machine or many")
    batch.set_defaults(says_what_is_lost=True)
    batch.epilog = (
        f"The exit status is 0 if all blocks are done, {_NOT_SHOWN} if they are and standard output does not take the summary, "
        f"{_FAILED} if blocks have failed or the run was interrupted, and 2 for a mistake in what was asked."
    )
    option = batch.add_argument
    option("model", metavar="MODEL", help="a file written by Model.save")
    option(
        "--input", action="append", default=[], type=assignment, metavar="NAME=PATH", dest="inputs",
        help="the rows of an input: .npy, .npz:NAME, .zarr/NAME, .parquet:COLUMN or .safetensors:NAME; once per input",
    )  # fmt: skip
    option(
        "--mask", action="append", default=[], type=assignment, metavar="NAME=INPUT", dest="masks",
        help="an input that is 1 where the rows of another one have values, and 0 where they are padded",
    )  # fmt: skip
    option("--output", required=True, metavar="PATH", help=".npy, .zarr, .parquet, or a folder for one .npy file per output")
    option("--workers", type=int, default=0, metavar="N", help="processes on this machine (default: 0, this one)")
    option("--threads", type=int, default=None, metavar="N", help="threads of each worker (default: its share of the cores)")
    option("--scheduler", default="", metavar="ADDRESS", help="of Dask, such as tcp://host:8786, whose workers see all paths")
    option("--bring", action="store_true", help="bring the model's file to workers of the scheduler, which do not see its path")
    option("--ray", action="store_true", help="let Ray run the blocks: its cluster, or N processes of this machine")
    option("--resume", action="store_true", help="go on with a run that was ended: compute what is missing, if anything")
    option("--block", type=int, default=BLOCK_ROWS, metavar="ROWS", help=f"rows of a block (default: {BLOCK_ROWS})")
    option(
        "--batch", type=int, default=None, metavar="ROWS",
        help="rows of a call of the model (default: a block, or 64 where rows have different lengths; fewer if it takes fewer)",
    )  # fmt: skip
    option("--pad-to", type=int, default=None, metavar="N", help="pad rows to N elements, not to the longest of a call")
    option("--retries", type=int, default=3, metavar="N", help="how often a block is tried again (default: 3)")
    option("--in-flight", type=int, default=2, metavar="N", help="blocks that each worker has before it (default: 2)")
    option("--trusted", action="store_true", help="run the code in the file instead of compiling its graph on each worker")
    option("--same-target", action="store_true", help="refuse blocks from workers with another kind of CPU")
    option("--independent", action="store_true", help="believe that the model treats each row alone, where joinery cannot tell")
    option("--quiet", action="store_true", help="show no progress")


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[Callable[[], None]]:
    """Let SIGTERM, by which batch systems end jobs, end a run as an interrupt does: with its notes written.

    Yield a function after whose call neither ends it: nothing but the name of the output and the summary is missing then.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def completing() -> None:
        for number in before:
            signal.signal(number, lambda *_: None)

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield completing
    finally:
        for number, handler in before.items():
            if handler is not None:  # which it is for one that is not Python's
                signal.signal(number, handler)


def _batch(options: argparse.Namespace) -> int:
    occupy_descriptors()
    for name, least in (("block", 1), ("batch", 1), ("pad_to", 1), ("workers", 0), ("retries", 0), ("in_flight", 1)):
        value = getattr(options, name)
        if value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')} {value}; fix: {least} or more")
    for what, pairs in (("input", options.inputs), ("mask", options.masks)):
        if len(dict(pairs)) != len(pairs):
            raise UserError(f"an {what} is given twice; fix: one --{what} for each name")
    if bool(options.scheduler) + options.ray > 1 or (options.scheduler and options.workers):
        raise UserError("--scheduler has its own workers; fix: leave out --workers and --ray")
    if options.bring and not options.scheduler:
        raise UserError("--bring is for workers of a scheduler; fix: --scheduler tcp://host:8786")
    if options.threads is None and not options.scheduler:
        from ...runtime.host.threads import default_threads  # which loads NumPy

        default_threads()  # which raises for a variable that is no number, before a cluster is started
    from ..distributed.batch.jobs import plan_job
    from ..distributed.batch.running import Workers, run_job
    from ..distributed.batch.sources import source
    from ..distributed.references import reference
    from ..distributed.signatures import signature

    made = reference(options.model, threads=options.threads, trusted=options.trusted)
    job = plan_job(
        made, signature(made, "batch"), [source(name, path) for name, path in options.inputs], options.masks, options.output,
        block=options.block, batch=options.batch, width=options.pad_to, independent=options.independent,
    )  # fmt: skip
    workers = Workers(options.workers, options.scheduler, options.ray, options.bring)
    try:
        with _ended_by_signals() as completing:
            summary = run_job(
                job, workers, resume=options.resume, same_target=options.same_target, retries=options.retries,
                in_flight=options.in_flight, quiet=options.quiet, completing=completing,
            )  # fmt: skip
            refused = refusal(json.dumps(summary, indent=2), sys.stdout)
    except KeyboardInterrupt:
        from ..distributed.batch.journal import is_resumable

        found = "no block was noted, nothing is kept"
        if os.path.lexists(job.output.path):
            found = f"{job.output.path} is as it was"
        elif is_resumable(job.output):
            found = f"--resume goes on with {job.output.partial}"
        tell(f"\njoinery batch: interrupted; {found}")
        return _FAILED
    if refused is not None:
        tell(f"joinery batch: the summary cannot be printed: standard output: {refused}; {_outcome(summary)}")
    return _FAILED if summary["failed"] else 0 if refused is None else _NOT_SHOWN


def _outcome(summary: dict[str, Any]) -> str:
    failed = [str(each["block"]) for each in summary["failed"]]
    if not failed:
        return f"all blocks are done, {summary['output']} is complete, digest {summary['digest']}"
    shown = f"{', '.join(failed[:_SHOWN_BLOCKS])}{', …' if len(failed) > _SHOWN_BLOCKS else ''}"
    return f"{len(failed)} of {summary['blocks']} blocks have failed: {shown}"
