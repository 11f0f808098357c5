"""Results of suites: as JSON, as a table on the terminal, and as a page of the documentation."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .projects import APART, HERE, TABLE, Project, TableError, read_projects, reason_of
from .session import Outcome, Settings

DOCS = HERE.parents[1] / "docs"
DATA = DOCS / "triton_suites.json"
PAGE = DOCS / "guides" / "triton_suites.md"
_FOLDERS = re.compile(r"(?<![\w/])/(?:[^\s/'\"]+/)+(?:source|site-packages|tmp\w+)/|(?<![\w/])/tmp/")
NOTE = "<!-- Written by `python -m tests.suites --page` from docs/triton_suites.json. Do not edit. -->"
COLUMNS = ("project", "collected", "run", "launched", "passed", "failed", "skipped", "no launch", "kernels", "minutes")


def results_of(project: Project, outcome: Outcome, python: Path, settings: Settings) -> dict[str, Any]:
    """The results of a run. A test counts as passed if it launched a kernel, and as "no launch" if it passed without."""
    counts: Counter[str] = Counter()
    kernels: set[str] = set()
    failures: list[dict[str, Any]] = []
    skipped: Counter[str] = Counter()
    for test, result in outcome.tests.items():
        kernels.update(result["launches"])
        counts["launched"] += bool(result["launches"])
        if result["outcome"] == "skipped":
            counts["skipped"] += 1
            skipped[result["message"].removeprefix("Skipped: ")] += 1
        elif result["outcome"] == "failed":
            counts["failed"] += 1
            failures.append(_failure(project, test, result["message"], bool(result["launches"])))
        else:
            counts["passed" if result["launches"] else "no launch"] += 1
    for test, message in outcome.uncollected.items():
        counts["failed"] += 1
        failures.append(_failure(project, test, message, False))
    return {
        "project": project.name,
        "commit": project.commit,
        "date": datetime.date.today().isoformat(),
        "versions": _versions(python),
        "machine": f"{os.cpu_count()} processors, {platform.machine()}",
        "mode": settings.mode,
        "sample": project.sample if settings.sample is None else settings.sample,
        "every": settings.every or project.every,
        "seconds per test": settings.seconds or project.seconds,
        "clock": "processor",
        "tests": list(settings.tests or project.tests),
        "collected": outcome.collected,
        "run": len(outcome.tests),
        **{name: counts[name] for name in ("launched", "passed", "failed", "skipped", "no launch")},
        "kernels": len(kernels),
        "minutes": round(sum(result["seconds"] for result in outcome.tests.values()) / 60, 1),
        "failures": sorted(failures, key=lambda each: each["test"]),
        "skips": dict(sorted(skipped.items(), key=lambda each: (-each[1], each[0]))),
    }


def _failure(project: Project, test: str, message: str, launched: bool) -> dict[str, Any]:
    reason = reason_of(project, test, message)
    message = without_folders(message)
    return {"test": test, "message": message, "launched": launched, "cause": reason.cause, "why": reason.why}


def without_folders(message: str) -> str:
    """Return a message whose paths begin in the project's source, a package or a temporary folder, wherever these lie."""
    return _FOLDERS.sub("", message)


def _versions(python: Path) -> dict[str, str]:
    code = (
        "import importlib.metadata as m, json, platform; "
        "print(json.dumps({'Python': platform.python_version()} | "
        "{n: m.version(n) for n in ('triton', 'torch', 'transformers') if any(d.name == n for d in m.distributions())}))"
    )
    found: dict[str, str] = json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout)
    return found


def print_table(results: Sequence[dict[str, Any]]) -> None:
    """Print the results, each failure with the first line that it says."""
    rows = [COLUMNS, *(tuple(str(result[name]) for name in COLUMNS) for result in results)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
    for first, *rest in rows:
        print("  ".join([first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]))
    if len(results) == 1:
        for failure in results[0]["failures"]:
            print(f"{failure['cause']}: {failure['test']}\n    {failure['message']}")


def record(results: dict[str, Any]) -> None:
    """Keep the results of a project, in place of those that it had."""
    data = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}
    data[results["project"]] = results
    order = list(read_projects(TABLE.read_text(encoding="utf-8")))
    data = {name: data[name] for name in order if name in data}
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def recorded(name: str) -> dict[str, Any]:
    """The results of a project that were kept. Raises `TableError` where there are none."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    if name not in data:
        raise TableError(f"{name}: nothing is recorded")
    found: dict[str, Any] = data[name]
    return found


def failed_before(name: str, pattern: str) -> tuple[str, ...]:
    """The tests that failed by the record, where their name, message or cause has the pattern; without files as a whole."""
    said = ((each["test"], f"{each['test']} {each['message']} {each['cause']}") for each in recorded(name)["failures"])
    return tuple(test for test, text in said if "::" in test and re.search(pattern, text))


def after_again(before: dict[str, Any], again: dict[str, Any], tests: Sequence[str]) -> dict[str, Any]:
    """What was recorded, after some of the tests that failed were run again.

    Raises `TableError` for tests of another commit.
    """
    if before["commit"] != again["commit"]:
        raise TableError(f"{before['project']}: recorded at {before['commit']}, run again at {again['commit']}")
    replaced = [each for each in before["failures"] if each["test"] in tests]
    kept = [each for each in before["failures"] if each["test"] not in tests]
    counts = {name: before[name] + again[name] for name in ("launched", "passed", "failed", "skipped", "no launch")}
    counts["failed"] -= len(replaced)
    counts["launched"] -= sum(each["launched"] for each in replaced)
    earlier = before.get("again", {}).get("tests", 0)
    skips = Counter(before["skips"]) + Counter(again["skips"])
    return {
        **before,
        **counts,
        "kernels": max(before["kernels"], again["kernels"]),
        "failures": sorted([*kept, *again["failures"]], key=lambda each: each["test"]),
        "skips": dict(sorted(skips.items(), key=lambda each: (-each[1], each[0]))),
        "again": {"date": again["date"], "tests": earlier + len(tests), "seconds per test": again["seconds per test"]},
    }


def write_page() -> None:
    """Write the page from what was kept, with the reasons that the table has now."""
    data = json.loads(DATA.read_text(encoding="utf-8"))
    projects = read_projects(TABLE.read_text(encoding="utf-8"))
    for name, results in data.items():
        given = [(each["test"], each["message"], each["launched"]) for each in results["failures"]]
        results["failures"] = [_failure(projects[name], *each) for each in given]
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(data), encoding="utf-8")


def page(data: dict[str, dict[str, Any]]) -> str:
    """The text of the page."""
    projects = read_projects(TABLE.read_text(encoding="utf-8"))
    rows = [[*(result[name] for name in COLUMNS), share([result])] for result in data.values()]
    sums = ["all", *(round(sum(result[name] for result in data.values()), 1) for name in COLUMNS[1:]), share(data.values())]
    parts = [NOTE, INTRO, _table((*COLUMNS, "share"), [*rows, sums])]
    causes = Counter(failure["cause"] for result in data.values() for failure in result["failures"])
    apart = [(cause, count, "apart" if cause in APART else "in the share") for cause, count in causes.most_common()]
    parts += ["Failures by cause:", _table(("cause", "tests", "counted"), apart)]
    for name, result in data.items():
        parts.append(_section(projects[name], result))
    return "\n\n".join(parts) + "\n"


def share(results: Iterable[dict[str, Any]]) -> str:
    """The tests that passed among those that could have, in percent: neither those that launch nothing nor failures `APART`."""
    passed, failed = 0, 0
    for result in results:
        passed += result["passed"]
        failed += sum(failure["cause"] not in APART for failure in result["failures"])
    return f"{100 * passed / (passed + failed):.1f} %" if passed + failed else "–"


def _section(project: Project, result: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    number = result["sample"]
    sample = f"{number} parameter set{'s' * (number > 1)} of each test function" if number else "all parameter sets"
    if (every := result.get("every", 1)) > 1:
        sample += f", of one in {every} functions"
    where = f"[Repository]({project.git}) at `{result['commit'][:12]}`" if project.git else "Tests of joinery's own"
    parts = [
        f"## {project.name}",
        f"{project.about} {where}; {result['date']}, {versions}, {result['machine']}; {sample}, "
        f"{result['seconds per test']:g} s{' of processor time' if 'clock' in result else ''} a test.",
    ]
    if again := result.get("again"):
        parts.append(
            f"On {again['date']} {'1 test' if again['tests'] == 1 else str(again['tests']) + ' tests'} that had failed "
            f"{'was' if again['tests'] == 1 else 'were'} run again, "
            f"{again['seconds per test']:g} s of processor time a test; the numbers are those after it."
        )
    if project.leave:
        parts.append("Left out:\n\n" + "\n".join(f"- `{each.path.removeprefix('-k ')}`: {each.why}" for each in project.leave))
    grouped: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for failure in result["failures"]:
        grouped[failure["cause"], failure["why"], failure["message"]].append(failure["test"])
    rows: list[tuple[object, ...]] = []
    for (cause, why, message), tests in sorted(grouped.items()):
        names = sorted({_short(test) for test in tests})
        said = f"{cause}: {_cell(why)}" if why else cause
        rows.append((len(tests), ", ".join(f"`{each}`" for each in names), f"`{_cell(message)[:160]}`", said))
    parts.append(_table(("tests", "of", "says", "cause"), rows) if rows else "No test failed.")
    return "\n\n".join(parts)


def _short(test: str) -> str:
    """`test_file.py::test_name` of a node id."""
    path, _, rest = test.partition("::")
    return _cell(f"{path.rpartition('/')[2]}::{rest.partition('[')[0]}" if rest else path)


def _cell(text: object) -> str:
    return str(text).replace("|", "\\|").replace("`", "'").replace("\n", " ")


def _table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    return "\n".join([*lines, *(f"| {' | '.join(str(cell) for cell in row)} |" for row in rows)])


INTRO = """# Suites of other projects

The test-suites of projects that write kernels for GPUs, run on a machine without one: `make triton-suites`, natively, with
[the pytest plugin](triton.md). They are pinned, and cloned when they are run; nothing of them stands in joinery's repository.

- **collected**: the tests that pytest finds. **run**: the sample of them. It has a number of parameter sets of every test
  function, which are chosen by digests of their names, so that every run takes the same ones.
- **launched**: the tests that launched a kernel, whatever came of it. **passed** counts those alone; a test that passed without
  a launch has shown nothing, and counts as **no launch**.
- **share**: the tests that passed, of these and those that failed. Three causes are counted apart, since nothing that runs
  kernels on a CPU could change them: *GPU only*; *removed API*, where a test calls what the pinned torch or Triton has no
  more, and fails on every machine; and *time*, more than the seconds given.
- **failed**: each stands below, with the first line that it says, and who causes it. Tests that take longer than the time given
  fail as well. Where it is not processor time, the machine was busy with other work meanwhile.

`make triton-suites SUITES_ARGS="liger --sample 0"` runs one of them, with all parameter sets. `--clone liger=PATH` takes its
files from a clone on the machine; `python -m tests.suites --help` tells the rest."""
