"""Runs ONNX's backend suite on the CPU, from the root of a checkout: `python -m tests.conformance.onnx_suite`.

    PATTERN …      cases whose names match one of these regular expressions; without any, all
    --evaluate     with the reference evaluator instead of compiled code
    --simulate     compiled for a simulated GPU instead of the host
    --every N      one case in so many, chosen by digests of their names
    --record       keep the results in docs/onnx.json, and write docs/onnx.md; needs all cases, compiled
    --page         write that page only

The exit status is 1 if a case fails that passed when the record was made.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from importlib.metadata import version

from ...support.root import leave_path

leave_path("tests.conformance.onnx_suite")


def main(arguments: list[str]) -> int:
    from . import report
    from .backend import Evaluated, Joinery, Simulated
    from .cases import Outcome, cases, outcome, share

    options = _options(arguments)
    if options.page:
        report.write(report.kept())
        return 0
    backend = Evaluated if options.evaluate else Simulated if options.simulate else Joinery
    chosen = [case for case in cases(backend) if not options.patterns or any(re.search(p, case.name) for p in options.patterns)]
    if options.every > 1:
        chosen = share(chosen, options.every)
    found: dict[tuple[str, str], Outcome] = {}
    start, failed = time.monotonic(), 0
    for number, case in enumerate(chosen, start=1):
        result = found[(case.group, case.name)] = outcome(case, backend)
        failed += bool(result.reason)
        _progress(number, len(chosen), failed, time.monotonic() - start, case.name)
    print(f"{len(chosen) - failed} of {len(chosen)} cases passed in {time.monotonic() - start:.0f} s", file=sys.stderr)
    if options.record:
        report.write(report.record(found, {name: version(name) for name in ("onnx", "numpy")}))
        return 0
    lines = report.changes(report.kept(), found)
    print("\n".join(lines) or "as recorded")
    return int(any(not line.endswith("passes, and failed before") for line in lines))


def _progress(number: int, count: int, failed: int, seconds: float, name: str) -> None:
    """Draw the bar again, on a terminal at each case, elsewhere at each tenth of them."""
    width = 30
    done = width * number // count
    text = f"[{'#' * done}{'.' * (width - done)}] {number}/{count}, {failed} failed, {seconds:.0f} s"
    if sys.stderr.isatty():
        room = max(shutil.get_terminal_size().columns - len(text) - 3, 0)
        print(f"\r{text} {name[:room]:<{room}}", end="\n" if number == count else "", file=sys.stderr, flush=True)
    elif number == count or number * 10 // count != (number - 1) * 10 // count:
        print(text, file=sys.stderr, flush=True)


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.onnx_suite", description="Runs ONNX's backend suite.")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="regular expressions of cases' names")
    device = parser.add_mutually_exclusive_group()
    device.add_argument("--evaluate", action="store_true", help="with the reference evaluator")
    device.add_argument("--simulate", action="store_true", help="on a simulated GPU")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one case in so many")
    parser.add_argument("--record", action="store_true", help="keep the results and write docs/onnx.md")
    parser.add_argument("--page", action="store_true", help="write docs/onnx.md from the record")
    options = parser.parse_args(arguments)
    if options.record and (options.patterns or options.evaluate or options.simulate or options.every > 1):
        parser.error("--record needs all cases, compiled")
    return options


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
