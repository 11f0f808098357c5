"""The promotion commands of `joinery`: what they print, and how they answer mistakes."""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import joinery as jn
import pytest
from joinery.__main__ import main
from joinery.promotion import presets

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def only_presets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests registered in this process is none of these tests' business."""
    monkeypatch.setattr(presets, "_registered", {})


def run(capsys: Capture, *argv: object) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of one command in this process."""
    capsys.readouterr()
    try:
        status = main([str(argument) for argument in argv])
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else -1
    captured = capsys.readouterr()
    return status, captured.out, captured.err


# --- promote


def flat(text: str) -> str:
    return " ".join(text.split())


def test_promote_answers_and_tells_the_casts(capsys: Capture) -> None:
    assert run(capsys, "promote", "uint16", "bfloat16") == (
        0,
        "uint16 ∨ bfloat16 = bfloat16   (rule set max)\n"
        "  uint16: cast to bfloat16, rounding: 257 becomes 256\n"
        "  bfloat16: unchanged\n",
        "",
    )


def test_promote_explains(capsys: Capture) -> None:
    status, out, err = run(capsys, "promote", "uint16", "bfloat16", "--explain")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "uint16 ∨ bfloat16 = bfloat16   (rule set max)"
    assert lines[1] == "  uint16: cast to bfloat16, rounding: 257 becomes 256"
    assert "  bfloat16: unchanged" in lines
    assert "elsewhere: bfloat16 in max-published, jax, torch, triton" in flat(out)
    assert "path: uint16 → int32 → int64 → float16 (overflow) → bfloat16 (rounding)" in flat(out)
    assert max(map(len, lines)) <= 80


def test_promote_explains_many_operands(capsys: Capture) -> None:
    argv = ("promote", "int8", "uint8", "float16", "0.1", "--explain", "--rules")
    status, out, _ = run(capsys, *argv, "max")
    assert status == 0
    assert out.startswith("int8 ∨ uint8 ∨ float16 ∨ 0.1 = float16   (rule set max)\n")
    assert "int8: cast to float16, exact path: int8 → int16 → int32 → int64 → float16 (overflow); the cast" in flat(out)
    assert "0.1: written as float16, rounded" in flat(out)
    assert "exact" in flat(out).split("elsewhere: float16 in ")[1]
    assert "from the left" not in out
    status, out, _ = run(capsys, *argv, "torch")
    assert status == 0
    assert "from the left: int8 ∨ uint8 = int16 ∨ float16 = float16" in flat(out)


def test_promote_explains_a_missing_join_with_what_others_say(capsys: Capture) -> None:
    status, out, err = run(capsys, "promote", "int8", "uint64", "--rules", "torch", "--explain")
    assert (status, out) == (2, "")
    assert "no join for int8 and uint64 in rule set torch; fix:" in flat(err)
    assert "elsewhere: float16 in max, max-published; weak_float in jax; float64 in numpy; uint64 in" in flat(err)
    assert re.search(r"no join in [^;]*triton-3\.9-division, exact", flat(err))
    assert max(map(len, err.splitlines())) <= 80
    assert "elsewhere" not in run(capsys, "promote", "int8", "uint64", "--rules", "torch")[2]


@pytest.mark.parametrize(
    ("operands", "result", "casts"),
    [
        (("int8", "1"), "int8", ["int8: unchanged", "1: written as int8"]),
        (("int8", "1.5"), "float32", ["int8: cast to float32, exact", "1.5: written as float32"]),
        (("float16", "0.1"), "float16", ["float16: unchanged", "0.1: written as float16, rounded"]),
        (("bool", "True"), "bool", ["bool: unchanged", "True: written as bool"]),
        (("1", "2.5"), "float32", ["1: written as float32", "2.5: written as float32"]),
        (("2", "3"), "int64", ["2: written as int64", "3: written as int64"]),
        (("int8", "int8"), "int8", ["int8: unchanged"]),
        (("uint8", "-1.5"), "float32", ["uint8: cast to float32, exact", "-1.5: written as float32"]),
        (
            ("bool", "uint64", "bfloat16"),
            "bfloat16",
            [
                "bool: cast to bfloat16, exact",
                "uint64: cast to bfloat16, rounding: 257 becomes 256",
                "bfloat16: unchanged",
            ],
        ),
    ],
)
def test_promote_takes_dtypes_and_numbers(
    capsys: Capture, operands: tuple[str, ...], result: str, casts: list[str]
) -> None:
    expected = [f"{' ∨ '.join(operands)} = {result}   (rule set max)", *(f"  {cast}" for cast in casts)]
    assert run(capsys, "promote", *operands) == (0, "\n".join(expected) + "\n", "")


def test_promote_with_weak_elements(capsys: Capture) -> None:
    status, out, _ = run(capsys, "promote", "uint64", "int8", "--rules", "jax")
    assert (status, out.splitlines()[0]) == (0, "uint64 ∨ int8 = weak_float   (rule set jax)")
    assert "weak_float gives way to any float dtype; a value that ends in it is float64" in flat(out)
    assert "uint64: cast to float64, rounding: 9007199254740993 becomes 9007199254740992" in flat(out)
    assert run(capsys, "promote", "weak_int", "int8", "--rules", "jax")[1].endswith(
        "  weak_int: becomes int8\n  int8: unchanged\n"
    )


def own_rules(folder: Path, suffix: str) -> Path:
    path = folder / f"own{suffix}"
    edges = [["bool", "int8"], ["int8", "float64"], ["float32", "float64"]]
    data = {"name": "own", "elements": ["bool", "int8", "float32", "float64"], "edges": edges}
    if suffix == ".json":
        path.write_text(json.dumps(data))
    else:
        path.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in data.items()))
    return path


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_rules_from_a_file(capsys: Capture, tmp_path: Path, suffix: str) -> None:
    path = own_rules(tmp_path, suffix)
    status, out, _ = run(capsys, "promote", "int8", "float32", "--rules", path)
    assert (status, out.splitlines()[0]) == (0, "int8 ∨ float32 = float64   (rule set own)")
    status, out, _ = run(capsys, "promote", "int8", "float32", "--rules", path, "--all")
    assert out.splitlines()[1].split() == ["own", "float64", "exact", "exact"]
    assert out.splitlines()[2].split() == ["max", "float32", "exact", "unchanged"]
    assert "own" not in run(capsys, "rules")[1], "a file that is read is not registered"


def test_every_preset_side_by_side(capsys: Capture) -> None:
    status, out, err = run(capsys, "promote", "int8", "uint64", "--all")
    assert (status, err) == (0, "")
    header, *lines = out.splitlines()
    assert header.split() == ["rules", "result", "int8", "uint64"]
    assert {line[header.index("result") - 1] for line in lines} == {" "}
    assert max(map(len, lines)) <= 80
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines}
    assert tuple(rows) == jn.promotion.PRESETS
    for name, row in rows.items():
        rule_set = jn.promotion.rules(name)
        try:
            element = rule_set.join("int8", "uint64")
        except jn.UserError:
            assert row == "no join – –"
            continue
        target = rule_set.concrete(element)
        losses = [
            "unchanged" if name == target.name else jn.promotion.loss_class(jn.DType(name), target)
            for name in ("int8", "uint64")
        ]
        assert row == " ".join([element.name, *losses])


def test_side_by_side_with_numbers(capsys: Capture) -> None:
    rows = run(capsys, "promote", "int8", "300", "--all")[1].splitlines()[1:]
    assert rows
    assert all(row.split()[1:] == ["does", "not", "fit", "int8", "–", "–"] for row in rows)
    row = run(capsys, "promote", "float32", "0.1", "--all")[1].splitlines()[1]
    assert row.split() == ["max", "float32", "unchanged", "rounding"]


def test_side_by_side_with_many_operands_names_the_lossy_ones(capsys: Capture) -> None:
    operands = ("tensor_float32", "int64", "int8", "uint16", "bfloat16", "bool")
    status, out, _ = run(capsys, "promote", *operands, "--all")
    header, *lines = out.splitlines()
    assert (status, header.split()) == (0, ["rules", "result", "casts", "that", "lose"])
    assert lines[0].split() == ["max", "tensor_float32", "int64", "rounding,", "uint16", "rounding"]
    assert max(map(len, out.splitlines())) <= 80
    operands = ("float8_e4m3fn", "bool", "int8", "0.25", "complex128", "float64", "complex64")
    out = run(capsys, "promote", *operands, "--rules", "exact", "--all")[1]
    assert "exact complex128 none" in flat(out)
    assert "torch no join –" in flat(out)


def test_negative_numbers_follow_two_dashes(capsys: Capture) -> None:
    status, _, err = run(capsys, "promote", "--", "uint8", "-1")
    assert status == 2
    assert "literal -1 does not fit uint8" in err


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            ("promote", "int8", "flaot32"),
            ["unknown dtype 'flaot32'; did you mean float32", "valid names: bool, int8,"],
        ),
        (("promote", "int8", "300"), ["literal 300 does not fit int8, whose range is [-128, 127]; fix:"]),
        (("promote", "int8", "float8_e5m2"), ["no join for int8 and float8_e5m2", "fix: cast explicitly"]),
        (
            ("promote", "int8", "int16", "--rules", "mx"),
            ["unknown rule set 'mx'; did you mean 'max'; known: max"],
        ),
        (("table", "--rules", "jaks"), ["unknown rule set 'jaks'; did you mean 'jax'", "known: max, max-published, jax"]),
        (
            ("table", "--format", "xml"),
            ["argument --format: invalid choice: 'xml' (choose from", "md", "csv", "html", "text", "svg", "dot"],
        ),
        (("promote", "int8"), ["the following arguments are required: B"]),
        (("promote",), ["the following arguments are required: A, B"]),
        (("promote", "int8", "int16", "flaot32"), ["unknown dtype 'flaot32'; did you mean float32"]),
        (("promote", "int8", "int8|uint8"), ["unknown dtype 'int8|uint8'", "valid names: bool, int8,"]),
        (("promote", "int8", "flaot32", "--all"), ["unknown dtype 'flaot32'; did you mean float32"]),
        (("promote", "int8", "-1", "300"), ["literal 300 does not fit int8, whose range is [-128, 127]; fix:"]),
        (("promote", "int8", "1j"), ["complex scalars take part in no arithmetic; fix:"]),
        (
            ("promote", "int8", "int8", "--all", "--explain"),
            ["argument --explain: not allowed with argument --all"],
        ),
        (("promote", "int8", "int8", "--rules", "missing.toml"), ["rule set file missing.toml: No such file"]),
        (("table", "--rules", "missing.json"), ["rule set file missing.json: No such file"]),
        (("table", "--rules", "numpy", "--format", "svg"), ["rule set numpy is no lattice", "fix: --format md, csv, html or"]),
        (("table", "--rules", "torch", "--format", "dot"), ["rule set torch is no lattice", "--laws says why"]),
        (("promote", "1e400", "float16"), ["1e400 is beyond what a Python float holds; fix: write inf"]),
        (("promote", "float32", "1e400j"), ["1e400j is beyond what a Python float holds"]),
        (("table", "--laws", "--format", "csv"), ["argument --format: not allowed with argument --laws"]),
        (("diff", "max", "jaks"), ["unknown rule set 'jaks'; did you mean 'jax'", "known: max, max-published, jax"]),
        (("diff", "max"), ["the following arguments are required: B"]),
        (("rules", "max"), ["unrecognized arguments: max"]),
    ],
)
def test_mistakes_exit_with_2_and_the_valid_names(
    capsys: Capture, argv: tuple[str, ...], expected: list[str]
) -> None:
    status, out, err = run(capsys, *argv)
    assert (status, out) == (2, "")
    for text in expected:
        assert text in flat(err)
    assert max(map(len, err.splitlines())) <= 80
    assert "Traceback" not in err


def test_table_as_markdown(capsys: Capture) -> None:
    status, out, _ = run(capsys, "table")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in out.splitlines()]
    assert status == 0
    assert rows[0] == ["max", *(dtype.name for dtype in jn.promotion.rules("max").dtypes)]
    assert set(rows[1]) == {"---"}
    check_table(rows[0], rows[2:])


def test_table_as_csv(capsys: Capture) -> None:
    status, out, _ = run(capsys, "table", "--rules", "max", "--format", "csv")
    rows = list(csv.reader(io.StringIO(out)))
    assert status == 0
    check_table(rows[0], rows[1:])


def test_table_as_html_and_text(capsys: Capture) -> None:
    table = jn.promotion.rules("jax").table()
    assert run(capsys, "table", "--rules", "jax", "--format", "html") == (0, table.to_html() + "\n", "")
    status, out, _ = run(capsys, "table", "--rules", "jax", "--format", "text")
    assert (status, out) == (0, table.to_text(80) + "\n")
    assert max(map(len, out.splitlines())) <= 80


def test_table_as_pictures(capsys: Capture, tmp_path: Path) -> None:
    for name in (str(own_rules(tmp_path, ".toml")), "jax"):
        status, out, _ = run(capsys, "table", "--rules", name, "--format", "svg")
        assert (status, ElementTree.fromstring(out).tag) == (0, "{http://www.w3.org/2000/svg}svg")
        status, out, _ = run(capsys, "table", "--rules", name, "--format", "dot")
        assert (status, out.count("digraph")) == (0, 1)
        assert out.rstrip().endswith("}")


def test_table_laws(capsys: Capture) -> None:
    status, out, _ = run(capsys, "table", "--laws")
    assert status == 0
    assert out == f"rule set max: a lattice\n{jn.promotion.rules('max').laws()}\n"
    status, out, _ = run(capsys, "table", "--laws", "--rules", "torch")
    assert out.startswith("rule set torch: no lattice\nidempotent: holds of 17 cases\n")
    assert "associative: FAILS for" in out
    assert max(map(len, out.splitlines())) <= 80


def check_table(header: list[str], rows: list[list[str]]) -> None:
    assert len(rows) == 16
    join = jn.promotion.implicit_cast_type
    for row in rows:
        assert [join(row[0], column).name for column in header[1:]] == row[1:]


# --- diff and rules


def pairs_in(text: str) -> set[tuple[str, str, str, str]]:
    """(left, right, one answer, the other answer), read back from what `diff` prints; both orders where both are meant."""
    found: set[tuple[str, str, str, str]] = set()
    answers = ("", "")
    for line in re.sub(r"\n    ", " ", text).splitlines():
        if heading := re.fullmatch(r"(.+) in \S+, (.+) in \S+:", line):
            answers = (heading[1], heading[2])
        elif ordered := re.fullmatch(r"  (.+) on the left, (.+) on the right", line):
            found |= {(a, b, *answers) for a in ordered[1].split(", ") for b in ordered[2].split(", ")}
        elif both := re.fullmatch(r"  (.+) with (.+)", line):
            for a, b in itertools.product(both[1].split(", "), both[2].split(", ")):
                found |= {(a, b, *answers), (b, a, *answers)}
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("names", list(itertools.combinations(jn.promotion.PRESETS, 2)), ids="-".join)
def test_diff_tells_every_difference(capsys: Capture, names: tuple[str, str]) -> None:
    ours, theirs = map(jn.promotion.rules, names)
    status, out, err = run(capsys, "diff", *names)
    assert (status, err) == (0, "")
    expected = {
        (d.lhs.name, d.rhs.name, *(e.name if e is not None else "no join" for e in (d.ours, d.theirs)))
        for d in ours.diff(theirs)
    }
    shared = set(ours.dtypes) & set(theirs.dtypes)
    if not expected:  # tables of few dtypes may agree about them
        assert "none of the" in flat(out) or "no dtype in common" in flat(out)
        return
    assert pairs_in(out) == expected
    unordered = {frozenset(pair[:2]) for pair in expected}
    count = f"{len(unordered)} of the {len(shared) * (len(shared) + 1) // 2} pairs of the {len(shared)} dtypes"
    assert flat(out).startswith(f"{names[0]} and {names[1]}: {count} that both have differ")
    for one, other in ((ours, theirs), (theirs, ours)):
        only = [dtype.name for dtype in one.dtypes if dtype not in other.dtypes]
        assert (f"only in {one.name}: {', '.join(only)}" in flat(out)) is bool(only)
    assert max(map(len, out.splitlines())) <= 80


def test_diff_is_compact(capsys: Capture) -> None:
    _, out, _ = run(capsys, "diff", "max", "jax")
    assert "float16 in max, weak_float in jax:\n  uint64 with int8, int16, int32, int64\n" in out


def test_diff_of_identical_tables(capsys: Capture, tmp_path: Path) -> None:
    out = "max and max are identical: all 136 pairs of 16 dtypes agree\n"
    assert run(capsys, "diff", "max", "max") == (0, out, "")
    path = own_rules(tmp_path, ".json")
    data = json.loads(path.read_text()) | {"name": "truncating", "division": "truncate"}
    (tmp_path / "truncating.json").write_text(json.dumps(data))
    status, out, _ = run(capsys, "diff", path, tmp_path / "truncating.json")
    assert status == 0
    assert flat(out) == (
        "own and truncating are identical: all 10 pairs of 4 dtypes agree what numbers, division or operations like "
        "sums and means give differs"
    )


def test_diff_of_tables_that_share_little(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "high.json").write_text('{"name": "high", "edges": [["complex64", "complex128"]]}')
    (tmp_path / "wide.json").write_text('{"name": "wide", "edges": [["bool", "int8"], ["float32", "float64"]]}')
    status, out, _ = run(capsys, "diff", "max", tmp_path / "high.json")
    assert status == 0
    assert out.startswith("max and high have no dtype in common\nonly in max: bool, int8,")
    assert out.endswith("only in high: complex64, complex128\n")
    out = run(capsys, "diff", own_rules(tmp_path, ".json"), tmp_path / "wide.json")[1]
    assert "float64 in own, no join in wide:\n" in out
    subset = run(capsys, "diff", "max", "max-published")[1]
    assert "only in" not in subset


def test_rules_lists_the_presets(capsys: Capture) -> None:
    status, out, err = run(capsys, "rules")
    assert (status, err) == (0, "")
    header, *lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    starts = [line for line in lines if not line.startswith(" ")]
    assert tuple(line.split()[0] for line in starts) == jn.promotion.PRESETS
    for line in starts:
        rule_set = jn.promotion.rules(line.split()[0])
        kind = "no" if rule_set.lattice is None else "completed" if rule_set.name == "exact" else "yes"
        assert line.split()[1:3] == [str(len(rule_set.dtypes)), kind]
        assert rule_set.description in flat("\n".join(row[header.index("what") :] for row in lines))


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("bad.json", "{", "rule set file {path}: Expecting property name"),
        ("bad.toml", "name = ", "rule set file {path}: Invalid value"),
        ("cycle.json", '{"name": "c", "edges": [["int8", "int16"], ["int16", "int8"]]}', "cycle int8 → int16 → int8"),
        ("keys.json", '{"name": "k", "egdes": []}', "unknown keys: egdes; known:"),
        ("name.json", '{"name": "n", "edges": [["int8", "flaot32"]]}', "unknown dtype 'flaot32'; did you mean float32"),
        ("list.json", "[]", "expected a mapping with 'name'"),
    ],
)
@pytest.mark.parametrize("argv", [("promote", "int8", "int8", "--rules"), ("table", "--rules"), ("diff", "max")])
def test_bad_rule_files(
    capsys: Capture, tmp_path: Path, argv: tuple[str, ...], name: str, content: str, expected: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    status, out, err = run(capsys, *argv, path)
    assert (status, out) == (2, "")
    assert flat(expected.format(path=path)) in flat(err)
    assert "Traceback" not in err
