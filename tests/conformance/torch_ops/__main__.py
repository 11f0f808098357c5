"""Runs PyTorch's samples of its core operators, from the root of a checkout: `python -m tests.conformance.torch_ops`.

    ENTRY …        entries of OpInfo, such as "scatter_add"; without any, all
    --every N      one sample in so many, chosen by digests of their names
    --resume       go on with the last run, whose results so far are in out/torch_ops.jsonl
    --record       keep the results in docs/torch_ops.json, and write docs/torch_ops.md; needs all entries
    --page         write that page only

Samples run in a child process: one that ends it, or takes longer than two minutes, has failed, and the rest runs in another.
The exit status is 1 if a sample fails that passed when the record was made.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

from ...support.root import ROOT, leave_path

JOURNAL = ROOT / "out" / "torch_ops.jsonl"
leave_path("tests.conformance.torch_ops")


def main(arguments: list[str]) -> int:
    from . import report, session

    options = _options(arguments)
    if options.page:
        report.write(report.kept())
        return 0
    if options.child:
        return _child(Path(options.child), options.every, tuple(options.entries))
    journal = session.Journal(JOURNAL)
    if not options.resume:
        JOURNAL.unlink(missing_ok=True)
    start = time.monotonic()
    found = session.run(journal, session.command(JOURNAL, options.every, options.entries))
    passed = sum(kind == "passed" for _, kind, _ in found.values())
    print(f"{passed} of {len(found)} samples passed in {time.monotonic() - start:.0f} s", file=sys.stderr)
    if options.record:
        from .cases import counted

        report.write(report.record(found, counted(), {name: version(name) for name in ("torch", "numpy")}))
        return 0
    lines = report.changes(report.kept(), found)
    print("\n".join(lines) or "as recorded")
    return int(report.failures(lines))


def _child(path: Path, every: int, entries: tuple[str, ...]) -> int:
    """Run samples that a journal does not know, a share of them."""
    from . import session
    from .cases import cases, outcome

    journal = session.Journal(path)
    known, done, failed, start = set(journal.results()), 0, 0, time.monotonic()
    parent = os.getppid()
    for case in cases(every, entries):
        if case.name in known:
            continue
        journal.begin(case.name, case.op)
        result = outcome(case)
        journal.end(case.name, case.op, result.kind, result.reason)
        done, failed = done + 1, failed + (result.kind != "passed")
        if done % 200 == 0:
            text = f"{len(known) + done} samples, {failed} of the last {done} failed, {time.monotonic() - start:.0f} s"
            print(text, file=sys.stderr, flush=True)
        if done == session.SHARE or os.getppid() != parent:
            break
    return 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.torch_ops", description="Runs OpInfo's samples.")
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help="entries of OpInfo")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one sample in so many")
    parser.add_argument("--resume", action="store_true", help="go on with the last run")
    parser.add_argument("--child", metavar="JOURNAL", help=argparse.SUPPRESS)
    parser.add_argument("--record", action="store_true", help="keep the results and write docs/torch_ops.md")
    parser.add_argument("--page", action="store_true", help="write docs/torch_ops.md from the record")
    options = parser.parse_args(arguments)
    if options.record and options.entries:
        parser.error("--record needs all entries")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
