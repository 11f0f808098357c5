"""`joinery prove`: what it prints, and its exit status."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import joinery as jn
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


def test_a_mistyped_name_is_a_mistake_in_what_was_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = written(tmp_path, "vector")
    for options, nearest in (
        (["--extent", "x: n", "--assume", "nn >= 1"], "'n'"), (["--extent", "x: nn"], "'n'"), (["--extent", "xx: n"], "'x'"),
        (["--extent", "x: n", "--assume", "num_warps <= 0"], "leave it out"),
    ):  # fmt: skip
        assert main(["prove", kernel, *options]) == 2
        assert f"fix: {nearest}" in " ".join(capsys.readouterr().err.split())
    options = ["--extent", "x: nn", "--assume", "number(nn)", "--assume", "nn >= n", "--grid", "cdiv(n, 4)"]
    assert main(["prove", kernel, *options, "--property", "bounds"]) == 0
    assert capsys.readouterr().out


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


def kept(folder: Path, name: str = "vector") -> Path:
    """The file of a proof beside its kernel."""
    stored = folder / "proof.json"
    options = ["--extent", "x: n", "--grid", "cdiv(n, 4)", "--property", "bounds", "--output", str(stored)]
    main(["prove", written(folder, name), *options])
    return stored


def test_a_proof_is_kept_beside_its_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = kept(tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["k.ttir", "proof.json"]
    assert json.loads(stored.read_text())["file"] == "k.ttir"
    capsys.readouterr()
    assert main(["prove", "--verify", str(stored)]) == 0
    assert f"verified: {stored}" in capsys.readouterr().out
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    moved = stored.rename(elsewhere / "proof.json")
    assert main(["prove", "--verify", str(moved)]) == 2
    assert main(["prove", "--verify", str(moved), "--kernel", str(tmp_path / "k.ttir"), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdicts"] == {"bounds": "proven"}


def test_a_proof_does_not_replace_its_kernel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kernel = Path(written(tmp_path, "vector"))
    before = kernel.read_text()
    (tmp_path / "same.json").symlink_to(kernel)
    for output in (kernel, tmp_path / "same.json"):
        assert main(["prove", str(kernel), "--extent", "x: n", "--grid", "cdiv(n, 4)", "--output", str(output)]) == 2
        assert "it would replace the kernel" in capsys.readouterr().err
    assert kernel.read_text() == before


def test_a_refutation_is_kept_and_verified_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = kept(tmp_path, "mask_of_too_many")
    assert main(["prove", "--verify", str(stored)]) == 3
    assert "bounds: refuted" in capsys.readouterr().out


_DEEP = "[" * 900 + "]" * 900


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"accesses": "verdict"}, "accesses differ: bounds of tt.store at ttir:19: verdict unknown then, proven now"),
        ({"verdicts": {"bounds": "refuted"}}, "verdicts differ: bounds: refuted then, proven now"),
        ({"assume": ["n >= 1"]}, "trusted differ: new: n >= 1"),
        ({"assume": ["n >= 1", "n < 1"]}, "contradict each other"),
        ({"assume": ["n >= " + "9" * 100_000]}, "prove"),
        ({"extents": {"x": "n * 2"}}, "trusted differ"),
        ({"extents": {"y": "n"}}, "no array 'y'"),
        ({"joinery": "0.0"}, "versions of joinery differ: 0.0 then, 0.1.0 now; all else is proven now as it was then"),
        ({"solver": "z3 1.0"}, "solvers differ: z3 1.0 then"),
        ({"digest": "0" * 64}, "of another text than this @k, by their digests 0000000000000000"),
        ({"kernel": "other"}, "other"),
        ({"limit": 2_000_001}, "may take 2000001 steps, and 2000000 are allowed; fix: limit=2000001 (--limit 2000001)"),
        ({"limit": 10**4000}, "expected a limit of steps"),
        ({"limit": -1}, "expected a limit of steps"),
        ({"steps": -1}, "steps is no number of them"),
        ({"recorded": 0}, "recorded is neither true nor false"),
        ({"trust": "me"}, "trust differ: no proof of this version has that"),
        ({"file": "../k.ttir"}, "expected the name of a file in the folder of the proof"),
        ({"file": ""}, "names no file of its kernel; fix: --kernel FILE"),
        ({"file": "none.ttir"}, "none.ttir"),
        ({"file": "proof.json"}, "proof.json"),
        ({"file": 3}, "expected a text"),
        ({"solver": json.loads(_DEEP)}, "solvers differ"),
        ({"grid": json.loads(_DEEP)}, "expected texts"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_a_changed_proof_is_not_verified(
    change: dict[str, object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = kept(tmp_path)
    data = json.loads(stored.read_text())
    if change.get("accesses") == "verdict":
        change = {"accesses": [{**data["accesses"][0], "verdict": "unknown"}]}
    stored.write_text(json.dumps({**data, **change}))
    capsys.readouterr()
    assert main(["prove", "--verify", str(stored)]) == 2
    shown = capsys.readouterr()
    assert "verified" not in shown.out
    assert message in " ".join(shown.err.split())
    assert len(shown.err) < 2000


def test_a_proof_that_is_cut_anywhere_is_not_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = kept(tmp_path)
    text = stored.read_text().rstrip()
    for end in range(0, len(text), 97):
        stored.write_text(text[:end])
        assert main(["prove", "--verify", str(stored)]) == 2
    for more in ("[" * 100_000, '{"limit": 1' + "0" * 5000 + "}", text + text, '{"limit": NaN}'):
        stored.write_text(more)
        assert main(["prove", "--verify", str(stored)]) == 2
    stored.write_bytes(b"\xff")
    assert main(["prove", "--verify", str(stored)]) == 2
    assert "verified" not in capsys.readouterr().out


def test_more_steps_are_allowed_when_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored = tmp_path / "proof.json"
    options = ["--extent", "x: n", "--grid", "cdiv(n, 4)", "--limit", "3000000", "--output", str(stored)]
    assert main(["prove", written(tmp_path, "vector"), *options]) == 0
    assert main(["prove", "--verify", str(stored)]) == 2
    assert "--limit" in capsys.readouterr().err
    assert main(["prove", "--verify", str(stored), "--limit", "3000000"]) == 0


def test_kernels_of_a_saved_model_are_proven(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = jn.Graph("scaled", [jn.TensorType(jn.float32, ("n",), name="x")])
    graph.output(jn.exp(graph.inputs[0]) * 2, jn.sum(graph.inputs[0]))
    model, stored = tmp_path / "m.joinery", tmp_path / "proof.json"
    compiled = jn.compile(graph, device="cpu", cache=False)
    compiled.save(model)
    options = ["--extent", "input0: n0", "--extent", "output1: n0", "--grid", "cdiv(n0, 1024)", "--output", str(stored)]
    assert main(["prove", str(model), *options]) == 2
    assert "fix: --name of one" in capsys.readouterr().err
    assert main(["prove", str(model), *options, "--name", "none"]) == 2
    assert main(["prove", str(model), *options, "--name", compiled.kernels[0].name]) == 0
    assert main(["prove", "--verify", str(stored)]) == 0
    assert "verified" in capsys.readouterr().out
    other = jn.Graph("scaled", [jn.TensorType(jn.float32, ("n",), name="x")])
    other.output(jn.exp(other.inputs[0]) + 3)
    jn.compile(other, device="cpu", cache=False).save(model)
    assert main(["prove", "--verify", str(stored)]) == 2
    model.write_bytes(model.read_bytes()[:-100])
    assert main(["prove", "--verify", str(stored)]) == 2
    assert "verified" not in capsys.readouterr().out


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
