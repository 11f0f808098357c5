"""`joinery prove`: what it prints, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("z3")

from joinery.interface.cli.main import main
from joinery.interface.cli.proving import split_sizes

from ...support.proving.kernels import SUBJECTS


def written(folder: Path, name: str) -> str:
    path = folder / "k.ttir"
    path.write_text(SUBJECTS[name].text)
    return str(path)


def test_the_exit_status_says_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    right = [written(tmp_path, "vector"), "--extent", "x: n", "--grid", "cdiv(n, BLOCK)", "--assume", "BLOCK == 4"]
    assert main(["prove", *right]) == 0
    assert "bounds: proven (1 proven)" in capsys.readouterr().out
    assert main(["prove", right[0], "--extent", "x: n", "--property", "bounds"]) == 4
    assert "proven under" in capsys.readouterr().out
    faulty = [written(tmp_path, "mask_of_too_many"), "--extent", "x: n", "--grid", "cdiv(n, 4)", "--format", "json"]
    assert main(["prove", *faulty]) == 3
    assert json.loads(capsys.readouterr().out)["verdicts"]["bounds"] == "refuted"


@pytest.mark.parametrize("options", [["--extent", "x n"], ["--extent", "x: n", "--extent", "x: m"], ["--assume", "n"]])
def test_mistakes_are_told(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", written(tmp_path, "vector"), *options]) == 2
    assert "joinery prove" in capsys.readouterr().err


def test_sizes_are_split_outside_of_parentheses() -> None:
    assert split_sizes("cdiv(M, 32), N") == ["cdiv(M, 32)", "N"]
