"""Programs of torch in processes of their own, on a "cuda:0" that stands in for a GPU: it lasts as long as a process."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

START = """
import torch
from joinery.interface.triton.testing.stand_in import install
install()

def refused(call, error, text):
    try:
        call()
    except error as found:
        assert text in str(found), found
    else:
        raise AssertionError(f"expected {error.__name__}: {text}")
"""


def run(text: str, folder: Path) -> None:
    """Run statements under the stand-in."""
    file = folder / "program.py"
    file.write_text(START + textwrap.dedent(text))
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stderr
