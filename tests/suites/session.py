"""A run of one project's suite: pytest in its environment, started again where a test ends the process."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .projects import HERE, Project

GRACE = 30.0
"""Seconds that a test may take beyond its limit before the process is ended: native code does not see the alarm."""
PATIENCE = 5.0
"""Times a test's limit, which is of processor time, that may go by; as in the plugin."""
SILENCE = 900.0
"""Seconds until the first test starts: collection imports the project."""
MAX_STARTS = 200
TRITON = "triton"
"""The mode in which Triton's own interpreter runs kernels, on the device that stands for a GPU: to compare times."""


@dataclass(slots=True)
class Outcome:
    """What a suite did. tests: node id → outcome, seconds, processor seconds, message, launches by kernel."""

    collected: int = 0
    sampled: int = 0
    uncollected: dict[str, str] = field(default_factory=dict)
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)


def run(project: Project, source: Path, python: Path, folder: Path, settings: Settings) -> Outcome:
    """Run the suite, and write what happens to `folder`: `events.jsonl`, and `log.txt` with what pytest printed."""
    folder.mkdir(parents=True, exist_ok=True)
    events, log, done = folder / "events.jsonl", folder / "log.txt", folder / "done.txt"
    log.unlink(missing_ok=True)
    outcome = Outcome()
    if settings.failed is not None and events.exists():
        forget_failures(events, settings.failed)
        _read(events, outcome)
    else:
        events.unlink(missing_ok=True)
    for _ in range(MAX_STARTS):
        done.write_text("".join(f"{test}\n" for test in outcome.tests), encoding="utf-8")
        command = _command(project, python, source, events, done, settings)
        status = _watch(command, project, source, events, log, settings)
        known = len(outcome.tests) + len(outcome.uncollected)
        if running := _read(events, outcome):
            outcome.tests[running] = ended = _ended(status, settings.seconds or project.seconds)
            with events.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"event": "ended", "test": running, **ended}) + "\n")
            continue
        if status in (0, 1, 2, 5) or known == len(outcome.tests) + len(outcome.uncollected):
            break
    return outcome


def last(folder: Path) -> Outcome:
    """The outcome of the last run."""
    outcome = Outcome()
    if running := _read(folder / "events.jsonl", outcome):
        outcome.tests[running] = _ended(0, 0.0)
    return outcome


@dataclass(frozen=True, slots=True)
class Settings:
    """What a caller may set. sample, every, seconds: None for the project's own. memory: GiB that a process may use."""

    sample: int | None = None
    every: int | None = None
    seconds: float | None = None
    memory: float = 12.0
    mode: str = "native"
    tests: tuple[str, ...] = ()
    failed: str | None = None
    """A pattern of what failed in the last run and is run again, while other results are kept; None: everything is run."""


def forget_failures(events: Path, pattern: str) -> None:
    """Take the tests that failed, or did not end, out of a file of events, where their name or message has the pattern."""
    kept = []
    for line in events.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        said = f"{event.get('test')} {event.get('message')}"
        fails = event["event"] == "uncollected" or event.get("outcome") == "failed"
        if event["event"] != "started" and not (fails and re.search(pattern, said)):
            kept.append(line + "\n")
    events.write_text("".join(kept), encoding="utf-8")


def _command(project: Project, python: Path, source: Path, events: Path, done: Path, settings: Settings) -> list[str]:
    sample = project.sample if settings.sample is None else settings.sample
    seconds = settings.seconds or project.seconds
    tests = settings.tests or project.tests
    paths = [str(HERE / test) if test.startswith("cases/") else test for test in tests]
    mode = "native" if settings.mode == TRITON else settings.mode
    command = [str(python), "-m", "pytest", "-p", "joinery.triton.pytest", f"--joinery={mode}", "-p", "joinery_suites"]
    command += ["--suites-events", str(events), "--suites-done", str(done), "--suites-sample", str(sample)]
    command += ["--suites-every", str(settings.every or project.every)]
    command += [f"--suites-stub={name}" for name in project.stubs]
    command += [f"--suites-seconds={seconds:g}", "-q", "--tb=short", "-p", "no:cacheprovider"]
    command += ["-o", "addopts=", "-o", "log_cli=false", "--continue-on-collection-errors", "--disable-warnings"]
    for left in project.leave:
        if left.path.startswith("-k "):
            command += ["-k", left.path[3:]]
        else:
            command += ["--ignore-glob=" + left.path] if "*" in left.path else ["--ignore=" + left.path]
    if any(test.startswith("cases/") for test in tests):  # without the options and fixtures of joinery's own tests
        command += ["-c", os.devnull, "--rootdir", str(HERE), "--noconftest", "--import-mode=importlib"]
    else:  # node ids, by which samples are taken, are the same wherever the clone lies
        command += ["--rootdir", str(source)]
    return [*command, *project.arguments, *paths]


def _variables(project: Project, source: Path, events: Path, settings: Settings) -> dict[str, str]:
    paths = [str(HERE / "plugin"), *(str(source / each) for each in project.source)]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
        "TRITON_CACHE_DIR": str(events.parents[1] / "triton-cache"),
        "COLUMNS": "200",
        **(project.environment or {}),
        **({"TRITON_INTERPRET": "1"} if settings.mode == TRITON else {}),
    }


def _watch(command: list[str], project: Project, source: Path, events: Path, log: Path, settings: Settings) -> int:
    """The exit status of pytest; it is ended where a test does not end by itself."""
    limit = PATIENCE * (settings.seconds or project.seconds) + GRACE
    bytes_ = int(settings.memory * (1 << 30))

    def bound() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (bytes_, bytes_))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=source, env=_variables(project, source, events, settings), stdout=output, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=bound,
        )  # fmt: skip
        size, changed, first = -1, time.monotonic(), True
        try:
            while process.poll() is None:
                time.sleep(0.2)
                now = events.stat().st_size if events.exists() else 0
                if now != size:
                    first = size < 0
                    size, changed = now, time.monotonic()
                elif time.monotonic() - changed > (SILENCE if first else limit):
                    break
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return process.returncode


def _read(path: Path, outcome: Outcome) -> str:
    """Take in all events; the test that had started and not ended is returned, "" for none."""
    running = ""
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        event = json.loads(line)
        kind = event.pop("event")
        if kind == "collected":
            outcome.collected = max(outcome.collected, event["collected"])
            outcome.sampled = max(outcome.sampled, event["sampled"])
        elif kind == "uncollected":
            outcome.uncollected[event["test"]] = event["message"]
        elif kind == "started":
            running = event["test"]
        else:
            running = ""
            outcome.tests[event.pop("test")] = event
    return "" if running in outcome.tests else running


def _ended(status: int, seconds: float) -> dict[str, Any]:
    """A test that ended its process."""
    if status == -signal.SIGKILL:
        message = f"Timeout: more than {seconds:g} s, and not to be stopped"
    else:
        name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        message = f"ended the process: {name}"
    return {"outcome": "failed", "seconds": seconds if status == -signal.SIGKILL else 0.0, "message": message, "launches": {}}
