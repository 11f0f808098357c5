"""Runs the suites of other projects, which were written for a GPU, from the root of a checkout: `python -m tests.suites`.

    PROJECT …                those alone, in this order; without names, all
    --cache PATH             clones, environments and compiled kernels (default: out/suites)
    --clone PROJECT=PATH     take the project's files from a clone on this machine; may be repeated
    --python PROJECT=PATH    an interpreter that has the requirements, instead of an environment of its own
    --sample N               parameter sets per test function; 0 for all (default: the table's)
    --every N                one in so many test functions, chosen by digests of their names
    --seconds N              processor time that a test may take (default: the table's)
    --memory N               GiB that a process may use (default: 12)
    --mode MODE              native, interpret, sanitize or ptxsim; triton: Triton's own interpreter, to compare times
    --tests PATH             paths of the suite, instead of the table's; may be repeated
    --failed[=PATTERN]       run again what failed in the last run (and has the pattern), and keep its other results
    --again[=PATTERN]        run again what failed by the record (and has the pattern), and keep its other results
    --last                   show the results of the last run, and run nothing
    --record                 keep the results in docs/triton_suites.json, and write the page that shows them
    --page                   write that page only
    --list                   print the table of projects only

The exit status is 1 if a test failed for a reason that `projects.toml` does not know, or by joinery's fault.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from ..support.root import ROOT, leave_path

leave_path("tests.suites")


def main(arguments: list[str]) -> int:
    from .checkouts import SetupError
    from .projects import TABLE, TableError, read_projects

    options = _options(arguments)
    try:
        projects = read_projects(TABLE.read_text(encoding="utf-8"))
        if unknown := [name for name in options.projects if name not in projects]:
            raise TableError(f"no project {', '.join(unknown)}; there are {', '.join(projects)}")
        clones = _pairs("--clone", options.clone, list(projects))
        pythons = _pairs("--python", options.python, list(projects))
    except TableError as error:
        print(f"python -m tests.suites: {error}", file=sys.stderr)
        return 2
    from .results import after_again, failed_before, print_table, record, recorded, results_of, write_page

    if options.list:
        for project in projects.values():
            print(f"{project.name:24} {project.git or 'tests/suites/cases'}  {project.about}")
        return 0
    if options.page:
        write_page()
        return 0
    from .checkouts import clone, environment
    from .session import Settings, last, run

    given = (options.sample, options.every, options.seconds, options.memory, options.mode)
    settings = Settings(*given, tuple(options.tests), options.failed)
    found = []
    for name in options.projects or projects:
        project = projects[name]
        try:
            source = clone(project, options.cache, clones.get(name))
            python = pythons.get(name) or environment(project, options.cache)
        except SetupError as error:
            print(f"{name}: not run: {error}", file=sys.stderr)
            found.append(None)
            continue
        folder, chosen = options.cache / name / ("again" if options.again is not None else "run"), settings
        if options.again is not None:
            chosen = replace(settings, tests=failed_before(name, options.again), sample=0, every=1)
            if not chosen.tests:
                continue
        print(f"{name}: {folder / 'log.txt'}", flush=True)
        outcome = last(folder) if options.last else run(project, source, python, folder, chosen)
        if options.again is not None:
            outcome.tests = {test: result for test, result in outcome.tests.items() if test in chosen.tests}
        results = results_of(project, outcome, python, chosen)
        if options.again is not None:
            results = after_again(recorded(name), results, list(outcome.tests))
        print_table([results])
        found.append(results)
        if options.record:
            record(results)
            write_page()
    complete = [each for each in found if each is not None]
    if len(found) > 1:
        print_table(complete)
    at_fault = any(failure["cause"] in ("joinery", "unexplained") for each in complete for failure in each["failures"])
    return int(at_fault or len(complete) < len(found))


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.suites", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("projects", nargs="*", metavar="PROJECT")
    parser.add_argument("--cache", type=lambda text: Path(text).resolve(), default=ROOT / "out" / "suites")
    parser.add_argument("--clone", action="append", default=[], metavar="PROJECT=PATH")
    parser.add_argument("--python", action="append", default=[], metavar="PROJECT=PATH")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--every", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--memory", type=float, default=12.0)
    parser.add_argument("--mode", default="native", choices=["native", "interpret", "sanitize", "ptxsim", "triton"])
    parser.add_argument("--tests", action="append", default=[], metavar="PATH")
    parser.add_argument("--failed", nargs="?", const="", metavar="PATTERN")
    parser.add_argument("--again", nargs="?", const="", metavar="PATTERN")
    parser.add_argument("--last", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--page", action="store_true")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args(arguments)
    if options.sample is not None and options.sample < 0:
        parser.error("--sample must be 0 or more")
    if options.every is not None and options.every < 1:
        parser.error("--every must be 1 or more")
    if options.seconds is not None and options.seconds <= 0:
        parser.error("--seconds must be above 0")
    return options


def _pairs(option: str, texts: list[str], projects: list[str]) -> dict[str, Path]:
    from .projects import TableError

    found = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or name not in projects:
            raise TableError(f"{option} {text}: expected PROJECT=PATH with one of {', '.join(projects)}")
        if not Path(path).exists():
            raise TableError(f"{option} {text}: no such file or folder")
        found[name] = Path(path).absolute()
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
