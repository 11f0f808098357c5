"""Runs every feature with the Triton that is installed, and prints what came out of each as JSON.

python run.py               {"triton": "3.9.0", "with": "torch …", "features": {"launch: …": "works", …}}
python run.py launches      those of one file; `python run.py scan` those with this word in their name; both with tracebacks

An outcome is "works"; "works: …", where this version differs from the newest; "absent: …", what Triton does not have; or
"fails: …".
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import traceback

import joinery.triton
import numpy as np
import torch
from features import FEATURES, VERSION, Absent, Feature

joinery.triton.enable()  # Triton 3.3 asks for the driver where an autotuned kernel is defined
for file in ("launches", "language", "processes"):
    importlib.import_module(file)
joinery.triton.disable()


def outcome(feature: Feature, talkative: bool) -> str:
    """What came out of a feature in all its modes."""
    note = None
    for mode in feature.modes:
        joinery.triton.enable(mode)
        torch.manual_seed(0)
        try:
            note = feature.run() or note
        except Absent as what:
            return f"absent: {what}"
        except Exception as error:
            if talkative:
                traceback.print_exc()
            lines = str(error).strip().splitlines() or [""]
            return f"fails: {mode}: {type(error).__name__}: {lines[0]} … {lines[-1]}"
        finally:
            joinery.triton.disable()
    return f"works: {note}" if note else "works"


def main(words: list[str]) -> None:
    chosen = [
        each for each in FEATURES if not words or any(word in each.name or word == each.run.__module__ for word in words)
    ]
    outcomes = {each.name: outcome(each, bool(words)) for each in chosen}
    python = ".".join(platform.python_version_tuple()[:2])
    beside = f"torch {torch.__version__.split('+')[0]}, NumPy {np.__version__} and Python {python}"
    modes = {each.name: each.modes for each in chosen}
    found = {"triton": VERSION, "with": beside, "modes": modes, "features": outcomes}
    print(json.dumps(found, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main(sys.argv[1:])
