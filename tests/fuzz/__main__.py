"""Runs differential tests by random programs, from the root of a checkout: `python -m tests.fuzz --minutes 10 --seed 1`.

    --minutes N --seed S     try cases for N minutes; the seed decides which
    --cases N                try N cases instead
    --first N                begin with case N of the seed
    --kind NAME              only that kind; may be repeated
    --no-ptxsim              leave the simulated GPUs out
    --cuda                   this machine's CUDA device in place of simulated GPUs
    --folder PATH            where failures are written (default: out/fuzz)
    --replay FILE            run the case of such a file again
    --batched N              N children at a time, with hundreds of cases each: for a million cases of one cheap kind

The exit status is 1 if there were faults.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path

from ..support.root import ROOT, leave_path

leave_path("tests.fuzz")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", action="append", default=[])
    parser.add_argument("--no-ptxsim", action="store_true")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--shrink-seconds", type=float, default=120.0)
    parser.add_argument("--folder", type=Path, default=ROOT / "out" / "fuzz")
    parser.add_argument("--replay", type=Path)
    parser.add_argument("--batched", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.batched < 0 or (options.batched and len(options.kind) != 1):
        parser.error("--batched is a number of children, and takes one --kind")
    if options.minutes <= 0 or options.cases < 0 or options.first < 0:
        parser.error("--minutes must be above 0, --cases and --first 0 or more")
    if options.replay and not options.replay.is_file():
        parser.error(f"--replay {options.replay}: no such file")

    import joinery

    from .batches import Batches
    from .cases import Settings
    from .kinds import KINDS, kind_named
    from .session import Session, replay

    if options.cuda:
        from ..support import on_cuda
        from . import child
        from .graph_cases import warm_up

        child.most_memory = 1 << 44  # CUDA reserves addresses for the memory of all devices
        warm_up()  # CUDA is for the children: it does not survive a fork
        on_cuda.install()
    settings = Settings(not options.no_ptxsim, suite=bool(options.batched))
    print(f"testing joinery at {Path(joinery.__file__ or '').parent}", flush=True)
    if options.replay:
        outcome = replay(options.replay, settings)
        for fault in outcome.faults:
            print(f"{fault.where}: {fault.what}\n{fault.text}")
        print(f"{len(outcome.faults)} faults in {outcome.runs} runs")
        return int(bool(outcome.faults))
    kinds = [kind_named(name) for name in options.kind] or KINDS
    session = Session(
        settings, kinds, options.folder, lambda text: print(text, flush=True), options.shrink_seconds
    )
    if options.batched:
        kinds[0].warm(settings)
        gc.freeze()  # children would copy what their collectors look at
        batches = Batches(kinds[0], session, options.seed, options.batched)
        batches.run(options.first, options.cases, 0.0 if options.cases else options.minutes)
        return int(bool(batches.failed))
    try:
        session.run(options.seed, minutes=options.minutes, cases=options.cases, first=options.first)
    finally:
        print(session.totals.report(), flush=True)
    return int(bool(session.totals.faults))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
