"""Compiles, trains and exports models of PyTorch, from the root of a checkout: `python -m tests.conformance.torch_models`.

    MODEL …        models by name, such as "gcn"; without any, all
    --record       keep the results in docs/torch_models.json, and write docs/torch_models.md; of some models, beside those kept
    --page         write that page only

The exit status is 1 if a model is no longer whole that was when the record was made.
"""

from __future__ import annotations

import argparse
import sys
import time
from importlib.metadata import version

from ...support.root import leave_path

leave_path("tests.conformance.torch_models")


def main(arguments: list[str]) -> int:
    from . import report

    options = _options(arguments)
    if options.page:
        report.write(report.kept())
        return 0
    from .cases import MODES, Outcome, names, outcome

    found: dict[tuple[str, str], Outcome] = {}
    chosen = options.models or names()
    for number, model in enumerate(chosen, start=1):
        for mode in MODES:
            start = time.monotonic()
            result = found[(model, mode)] = outcome(model, mode)
            text = f"{result.compiled}/{result.nodes} {' '.join(result.left)} {result.problem}"
            seconds = f"{time.monotonic() - start:.0f} s"
            print(f"{number}/{len(chosen)} {model} {mode}: {text} {seconds}", file=sys.stderr, flush=True)
    if options.record:
        kept = report.record(found, {each: version(each) for each in ("torch", "transformers", "numpy")})
        if options.models:
            kept["models"] = dict(sorted({**report.kept()["models"], **kept["models"]}.items()))
        report.write(kept)
        return 0
    lines = report.changes(report.kept(), found)
    print("\n".join(lines) or "as recorded")
    return int(bool(lines))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.torch_models", description="Runs models of PyTorch.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names of models")
    parser.add_argument("--record", action="store_true", help="keep the results and write docs/torch_models.md")
    parser.add_argument("--page", action="store_true", help="write docs/torch_models.md from the record")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
