"""Runs PyTorch's samples of its core operators, from the root of a checkout: `python -m tests.conformance.torch_ops`.

    ENTRY …        entries of OpInfo, such as "scatter_add"; without any, all
    --every N      one sample in so many, chosen by digests of their names
    --record       keep the results in docs/torch_ops.json, and write docs/torch_ops.md; needs all entries
    --page         write that page only

The exit status is 1 if a sample fails that passed when the record was made.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.metadata import version

from ...support.root import leave_path

leave_path("tests.conformance.torch_ops")


def main(arguments: list[str]) -> int:
    from . import report

    options = _options(arguments)
    if options.page:
        report.write(report.kept())
        return 0
    from .cases import PASSED, cases, counted, outcome

    found: dict[str, tuple[str, str, str]] = {}
    start, failed = time.monotonic(), 0
    for case in cases(options.every, tuple(options.entries)):
        result = outcome(case)
        failed += result.kind != PASSED
        found[case.name] = (case.op, result.kind, result.reason)
        if len(found) % 200 == 0:
            print(f"{len(found)} samples, {failed} failed, {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    print(f"{len(found) - failed} of {len(found)} samples passed in {time.monotonic() - start:.0f} s", file=sys.stderr)
    if options.record:
        report.write(report.record(found, counted(), {name: version(name) for name in ("torch", "numpy")}))
        return 0
    lines = report.changes(report.kept(), found)
    print("\n".join(lines) or "as recorded")
    return int(report.failures(lines))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.torch_ops", description="Runs OpInfo's samples.")
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help="entries of OpInfo")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one sample in so many")
    parser.add_argument("--record", action="store_true", help="keep the results and write docs/torch_ops.md")
    parser.add_argument("--page", action="store_true", help="write docs/torch_ops.md from the record")
    options = parser.parse_args(arguments)
    if options.record and options.entries:
        parser.error("--record needs all entries")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
