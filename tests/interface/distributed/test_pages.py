"""The code of the tutorial about many blocks runs as it stands, on four workers, and prints what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")
zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")

DOCS = Path(__file__).resolve().parents[3] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """The language and the text of each block of a page."""
    return BLOCK.findall((DOCS / page).read_text(encoding="utf-8"))


def printed(folder: Path, *command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_tutorial(tmp_path: Path) -> None:
    """All of it in order, in one folder, as a reader does."""
    folder = tmp_path
    (_, making), (_, first), (_, shown), _, (_, command), (_, second), (_, numbers) = blocks("tutorials/07-many-blocks.md")
    assert len(first.splitlines()) <= 12
    (folder / "making.py").write_text(making)
    printed(folder, sys.executable, "making.py")
    (folder / "first.py").write_text(first)
    assert printed(folder, sys.executable, "first.py") == shown
    expected = jn.load(folder / "scorer.joinery")(zarr.open_group(folder / "input.zarr", mode="r")["x"][:])
    assert np.array_equal(zarr.open_array(folder / "output.zarr" / "y", mode="r")[:], expected)
    name, *arguments = shlex.split(command)
    assert name == "joinery"
    printed(folder, sys.executable, "-m", "joinery", *arguments)
    assert np.array_equal(zarr.open_group(folder / "scores.zarr", mode="r")["y"][:], expected)
    (folder / "second.py").write_text(second)
    assert printed(folder, sys.executable, "second.py") == numbers


def test_the_message_of_the_tutorial() -> None:
    message = blocks("tutorials/07-many-blocks.md")[3][1]
    graph = jn.Graph("centred", [jn.TensorType(jn.float32, ("batch", 4), "x")])
    (x,) = graph.inputs
    graph.output(x - jn.mean(x, axis=0))
    from joinery.interface.distributed.independence import independence

    assert str(independence(jn.from_text(*jn.to_text(graph)), "batch")) in message
