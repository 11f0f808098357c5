"""The table of projects, samples, runs in which tests end their process, and the page."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from .checkouts import SetupError, clone
from .projects import APART, CAUSES, TABLE, Project, Reason, TableError, read_projects, reason_of
from .results import DATA, PAGE, after_again, page, results_of, share, without_folders
from .session import Outcome, Settings, _command, _variables, forget_failures, last, run

PLUGIN = Path(__file__).resolve().parent / "plugin"


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, PLUGIN / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table() -> None:
    projects = read_projects(TABLE.read_text(encoding="utf-8"))
    assert list(projects)[:3] == ["liger", "fla", "flaggems"]
    for project in projects.values():
        assert project.about.endswith(".")
        assert all(reason.cause in CAUSES for reason in project.reasons)
        assert not project.git or (len(project.commit) == 40 and project.git.startswith("https://"))
        assert any(each.startswith("triton==") for each in project.requirements)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[project]]\nname = "A"', "name = 'A'"),
        ('[[project]]\nname = "a"', "a: about is missing"),
        ('[[project]]\nname = "a"\nabout = "."\nfolder = 1', "a: unknown field 'folder'"),
        ('[[project]]\nname = "a"\nabout = "."\ngit = "https://x"\ncommit = "main"', "a: commit = 'main'"),
        ('[[project]]\nname = "a"\nabout = "."\n[[project]]\nname = "a"\nabout = "."', "a: stands twice"),
        ('[[project]]\nname = "a"\nabout = "."\nleave = [{ path = "tests" }]', "a: why is missing"),
        ('[[reasons]]\npattern = "x"\ncause = "nobody"\nwhy = "y"', "cause = 'nobody'"),
        ("projects = []", "projects: expected"),
    ],
)
def test_a_table_that_says_something_else(text: str, message: str) -> None:
    with pytest.raises(TableError, match=message.replace("[", r"\[")):
        read_projects(text)


def test_a_project_s_reasons_go_before_those_of_all() -> None:
    entry = '[[project]]\nname = "a"\nabout = "."\nreasons = [{ pattern = "test_x", cause = "reference", why = "r" }]\n'
    project = read_projects(entry + '[[reasons]]\npattern = "Timeout"\ncause = "time"\nwhy = "t"')["a"]
    assert reason_of(project, "f.py::test_x[1]", "Timeout: more than 1 s").cause == "reference"
    assert reason_of(project, "f.py::test_y", "Timeout: more than 1 s") == Reason("Timeout", "time", "t")
    assert reason_of(project, "f.py::test_y", "assert False").cause == "unexplained"


def test_samples_have_some_sets_of_each_function_and_are_the_same_in_any_order() -> None:
    sampled = loaded("joinery_suites").sampled
    nodes = [f"test_a.py::test_{name}[{i}]" for name in "xyz" for i in range(50)] + ["test_a.py::test_alone"]
    found = sampled(nodes, 2)
    assert len(found) == 7
    assert "test_a.py::test_alone" in found
    assert all(sum(node.startswith(f"test_a.py::test_{name}[") for node in found) == 2 for name in "xyz")
    assert sampled(random.Random(1).sample(nodes, len(nodes)), 2) == found
    assert sampled([*nodes[:100], "test_b.py::test_new[3]"], 2) - {"test_b.py::test_new[3]"} == {
        node for node in found if "_z[" not in node and "alone" not in node
    }
    assert sampled(nodes, 1) < found
    assert sampled(nodes, 0) == set(nodes)
    many = [f"test_a.py::test_{name}[{i}]" for name in range(90) for i in range(3)]
    assert 15 < len(sampled(many, 1, 3)) < 45
    assert sampled(many, 1, 3) < sampled(many, 1)


SUITE = """
import ctypes
import time
import pytest
from absent.kernels import fast
from absent import decorator

@decorator
def one():
    return 1

@pytest.mark.parametrize("n", range(9))
def test_many(n):
    assert one() == 1

def test_that_fails():
    assert [1] == [2], "no"

def test_that_calls_a_stub():
    fast(1, 2)

def test_that_sleeps():
    time.sleep(30)

def test_that_ends_the_process():
    ctypes.string_at(16)

def test_that_is_skipped():
    pytest.skip("for a reason")

@pytest.fixture
def broken():
    raise OSError("no such thing")

def test_with_a_fixture(broken):
    pass
"""


@pytest.mark.slow
def test_events_of_a_suite(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "test_broken.py").write_text("import nowhere\n")
    options = ["--suites-events", "events", "--suites-sample=3", "--suites-seconds=0.25", "--suites-stub=absent", "-q"]
    command = [sys.executable, "-m", "pytest", "-p", "joinery_suites", *options, "--continue-on-collection-errors"]
    command += ["-p", "no:cacheprovider"]
    surroundings = {**os.environ, "PYTHONPATH": str(PLUGIN)}
    subprocess.run([*command, "-p", "no:faulthandler"], cwd=tmp_path, env=surroundings, capture_output=True, check=False)
    events = [json.loads(line) for line in (tmp_path / "events").read_text().splitlines()]
    assert [each["event"] for each in events].count("ended") == 6  # the seventh ended the process
    assert all(0 <= each["processor"] < 5 for each in events if each["event"] == "ended")
    assert events[0] == {
        "event": "uncollected", "test": "test_broken.py", "message": "ModuleNotFoundError: No module named 'nowhere'",
    }  # fmt: skip
    assert events[1] == {"event": "collected", "collected": 15, "sampled": 9}
    assert events[-1] == {"event": "started", "test": "test_suite.py::test_that_ends_the_process"}
    said = {each["test"].partition("::")[2]: each["message"] for each in events if each["event"] == "ended" if each["message"]}
    assert said == {
        "test_that_fails": "AssertionError: no",
        "test_that_calls_a_stub": "NotImplementedError: absent.kernels.fast is a stub: the suites run without this package",
        "test_that_sleeps": "Timeout: more than 0.25 s",
    }


@pytest.mark.slow
def test_a_run_goes_on_after_a_test_that_ended_the_process(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "test_suite.py").write_text(SUITE)
    project = Project("own", "Ours.", tests=("test_suite.py",), stubs=("absent",), sample=2, seconds=1.0)
    outcome = run(project, tmp_path / "source", Path(sys.executable), tmp_path / "run", Settings())
    found = results_of(project, outcome, Path(sys.executable), Settings())
    assert (found["collected"], found["run"], found["failed"], found["skipped"]) == (15, 8, 5, 1)
    assert (found["passed"], found["no launch"]) == (0, 2)  # nothing launched a kernel
    said = {failure["test"].partition("::")[2]: failure["message"] for failure in found["failures"]}
    assert said["test_that_ends_the_process"] == "ended the process: SIGSEGV"
    assert said["test_with_a_fixture"] == "OSError: no such thing"
    assert last(tmp_path / "run").tests == outcome.tests
    (tmp_path / "source" / "test_suite.py").write_text(SUITE.replace("[2]", "[1]"))
    again = run(project, tmp_path / "source", Path(sys.executable), tmp_path / "run", Settings(failed=""))
    assert {name.partition("::")[2]: each["outcome"] for name, each in again.tests.items()}["test_that_fails"] == "passed"
    assert len(again.tests) == 8


def test_only_tests_that_failed_are_forgotten(tmp_path: Path) -> None:
    events = [
        {"event": "collected", "collected": 3, "sampled": 3},
        {"event": "uncollected", "test": "b.py", "message": "no"},
        *({"event": "ended", "test": name, "outcome": name} for name in ("passed", "failed", "skipped")),
        {"event": "started", "test": "x"},
    ]
    path = tmp_path / "events"
    path.write_text("".join(json.dumps(each) + "\n" for each in events))
    forget_failures(path, "an error")
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert kept == events[:5]
    forget_failures(path, "")
    kept = [json.loads(line) for line in path.read_text().splitlines()]
    assert kept == [events[0], events[2], events[4]]


def test_a_test_without_a_launch_is_no_pass() -> None:
    result = {"seconds": 0.1, "message": "", "launches": {}}
    tests = {
        "t.py::a": result | {"outcome": "passed", "launches": {"k": 2}},
        "t.py::b": result | {"outcome": "passed"},
        "t.py::c": result | {"outcome": "failed", "message": "assert 1", "launches": {"k": 1, "l": 1}},
        "t.py::d": result | {"outcome": "skipped", "message": "Skipped: why"},
    }
    outcome = Outcome(collected=9, sampled=4, uncollected={"u.py": "ImportError: x"}, tests=tests)
    found = results_of(Project("own", "Ours."), outcome, Path(sys.executable), Settings())
    counts = {
        "collected": 9, "run": 4, "launched": 2, "passed": 1, "failed": 2, "skipped": 1, "no launch": 1, "kernels": 2,
    }  # fmt: skip
    assert {name: found[name] for name in counts} == counts
    assert [failure["cause"] for failure in found["failures"]] == ["unexplained", "unexplained"]
    assert found["skips"] == {"why": 1}


def test_shares_are_of_the_tests_that_could_have_passed() -> None:
    def result(passed: int, causes: tuple[str, ...]) -> dict[str, object]:
        return {"passed": passed, "no launch": 50, "failures": [{"cause": cause} for cause in causes]}

    assert set(APART) < set(CAUSES)
    assert not {"joinery", "unexplained", "project", "reference", "memory", "environment"} & set(APART)
    one, other = result(3, (*APART, "joinery")), result(7, ("memory",))
    assert [share([one]), share([other]), share([one, other])] == ["75.0 %", "87.5 %", "83.3 %"]
    assert share([result(0, APART)]) == "–"


def test_triton_s_own_interpreter_runs_on_the_device_that_stands_for_a_gpu(tmp_path: Path) -> None:
    project = Project("own", "Ours.", environment={"A": "b"})
    for mode, joinery, interprets in (("native", "native", None), ("sanitize", "sanitize", None), ("triton", "native", "1")):
        settings = Settings(mode=mode)
        assert f"--joinery={joinery}" in _command(project, Path("python"), tmp_path, tmp_path, tmp_path, settings)
        found = _variables(project, tmp_path, tmp_path / "run" / "events", settings)
        assert (found.get("TRITON_INTERPRET"), found["A"]) == (interprets, "b")


def test_what_failed_is_run_again_and_counted_once() -> None:
    def failure(test: str, launched: bool, message: str = "assert") -> dict[str, object]:
        return {"test": test, "message": message, "launched": launched, "cause": "time", "why": ""}

    names = ("launched", "passed", "failed", "skipped", "no launch")
    before = {"project": "a", "commit": "c", "date": "1", "kernels": 9, "skips": {"x": 1}, "failures": [
        failure("f.py::a", True), failure("f.py::b", False), failure("f.py::c", True), failure("g.py", False),
    ]} | dict(zip(names, (7, 5, 4, 1, 2), strict=True))  # fmt: skip
    again = {"commit": "c", "date": "2", "kernels": 3, "skips": {"x": 1}, "seconds per test": 60.0, "failures": [
        failure("f.py::c", False, "other"),
    ]} | dict(zip(names, (2, 1, 1, 1, 0), strict=True))  # fmt: skip
    found = after_again(before, again, ["f.py::a", "f.py::b", "f.py::c"])
    assert [found[name] for name in names] == [7, 6, 2, 2, 2]
    assert [(each["test"], each["message"]) for each in found["failures"]] == [("f.py::c", "other"), ("g.py", "assert")]
    assert found["again"] == {"date": "2", "tests": 3, "seconds per test": 60.0}
    assert found["kernels"] == 9
    assert found["skips"] == {"x": 2}
    with pytest.raises(TableError, match="recorded at c, run again at d"):
        after_again(before, again | {"commit": "d"}, [])


def test_clones_come_from_a_repository_on_this_machine_and_are_pinned(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "a.py").write_text("x = 1\n")
    (theirs / "kept").mkdir()
    (theirs / "kept" / "b.py").write_text("y = 1\n")
    git = ["git", "-C", str(theirs), "-c", "user.name=n", "-c", "user.email=e"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    (theirs / "a.py").write_text("x = 2\n")
    subprocess.run([*git, "commit", "-qam", "two"], check=True)
    project = Project("own", "Ours.", git="https://nowhere.invalid/own", commit=commit)
    assert (clone(project, tmp_path / "cache", theirs) / "a.py").read_text() == "x = 1\n"
    assert (clone(project, tmp_path / "cache", None) / "a.py").exists()  # it is there
    part = Project("part", "Ours.", git="https://nowhere.invalid/own", commit=commit, folders=("kept",))
    assert (clone(part, tmp_path / "cache", theirs) / "kept" / "b.py").exists()
    with pytest.raises(SetupError, match="is no git repository"):
        clone(Project("other", "Ours.", git="https://x", commit=commit), tmp_path / "cache", tmp_path)
    with pytest.raises(SetupError, match=r"git .* ended with"):
        clone(Project("gone", "Ours.", git="https://x", commit="0" * 40), tmp_path / "cache", theirs)


def test_messages_do_not_say_where_suites_lie() -> None:
    message = "E: /home/me/out/suites/own/source/src/a.py:3: ['/opt/python/site-packages/triton/FileCheck', '/dev/null']"
    assert without_folders("'/tmp/tmp_uh9/expected', '/tmp/x.py', /tmp/tmpab/c/d") == "'expected', 'x.py', c/d"
    assert without_folders(message) == "E: src/a.py:3: ['triton/FileCheck', '/dev/null']"
    assert without_folders("see https://x.org/a/source/b and 1/2") == "see https://x.org/a/source/b and 1/2"
    for result in json.loads(DATA.read_text(encoding="utf-8")).values():
        for failure in result["failures"]:
            assert without_folders(failure["message"]) == failure["message"], failure["test"]


@pytest.mark.skipif(not DATA.exists(), reason="nothing was recorded")
def test_the_page_shows_what_was_recorded() -> None:
    data = json.loads(DATA.read_text(encoding="utf-8"))
    assert PAGE.read_text(encoding="utf-8") == page(data)
    for result in data.values():
        assert result["run"] + sum("::" not in each["test"] for each in result["failures"]) == sum(
            result[name] for name in ("passed", "failed", "skipped", "no launch")
        )
