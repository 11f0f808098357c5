"""`joinery prove`: what it prints, and its exit status."""

from __future__ import annotations

import json
from html.parser import HTMLParser
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


def test_a_stored_proof_is_proven_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = written(tmp_path, "vector")
    assert main(["prove", kernel, "--extent", "x: n", "--grid", "cdiv(n, 4)", "--format", "json"]) == 0
    stored = tmp_path / "proof.json"
    stored.write_text(capsys.readouterr().out)
    assert main(["prove", kernel, "--verify", str(stored)]) == 0
    assert "bounds: proven" in capsys.readouterr().out
    assert main(["prove", kernel, "--verify", str(stored), "--assume", "n >= 1"]) == 2
    assert "takes the specification from the proof" in capsys.readouterr().err
    forged = json.loads(stored.read_text()) | {"extents": {"x": "n - 1"}}
    for text, message in (
        (json.dumps(forged), "says other than what is proven now: accesses differ"),
        ("[]", "expected an object"), ("{", "no JSON"),
        (json.dumps(forged | {"digest": "0"}), "of another text"),
        (json.dumps(forged | {"accesses": []}), "accesses differ"),
        (json.dumps(forged | {"grid": 3}), "expected texts"), (json.dumps(forged | {"limit": "1"}), "expected a limit"),
        (json.dumps(forged | {"extents": {"x": 3}}), "expected extents"),
    ):  # fmt: skip
        stored.write_text(text)
        assert main(["prove", kernel, "--verify", str(stored)]) == 2
        assert message in " ".join(capsys.readouterr().err.split())
    assert main(["prove", kernel, "--verify", str(tmp_path / "none.json")]) == 2


@pytest.mark.parametrize("options", [["--extent", "x n"], ["--extent", "x: n", "--extent", "x: m"], ["--assume", "n"]])
def test_mistakes_are_told(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove", written(tmp_path, "vector"), *options]) == 2
    assert "joinery prove" in capsys.readouterr().err


def test_sizes_are_split_outside_of_parentheses() -> None:
    assert split_sizes("cdiv(M, 32), N") == ["cdiv(M, 32)", "N"]


class _Reader(HTMLParser):
    """Keeps the tags and the text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


_HOSTILE = """
tt.func public @"k<script>alert(1)</script>"(%x: !tt.ptr<i32>, %n: i32) {
  %at = tt.addptr %x, %n : !tt.ptr<i32>, i32 loc("<img src=x onerror=alert(2)>.py":3:1)
  tt.store %at, %n : !tt.ptr<i32> loc("<img src=x onerror=alert(3)>.py":4:1)
  tt.return
}
"""


def test_a_page_has_verdicts_and_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    faulty = [written(tmp_path, "mask_of_too_many"), "--extent", "x: n", "--grid", "cdiv(n, 4)", "--format", "html"]
    assert main(["prove", *faulty]) == 3
    page = _Reader()
    page.feed(capsys.readouterr().out)
    assert "bounds: refuted" in page.text
    assert "races: unknown" in page.text
    assert "the sanitizer: out-of-bounds" in page.text
    assert not page.tags & {"script", "img", "link", "iframe", "a", "form"}


def test_texts_of_strangers_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "k.ttir"
    path.write_text(_HOSTILE)
    assert main(["prove", str(path), "--extent", "x: n", "--assume", "n < 5", "--format", "html"]) == 3
    out = capsys.readouterr().out
    page = _Reader()
    page.feed(out)
    assert not page.tags & {"script", "img"}
    assert not {each for each in page.attributes if each.startswith("on")}
    assert "onerror=alert(3)" in page.text
    assert "k<script>alert(1)</script>" in page.text
    assert "default-src 'none'" in out
