"""Runs `command.py`: `python benchmarks/workloads`."""

import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # in place of this folder, whose files are parts of a package
    from workloads.command import main

    sys.exit(main())
