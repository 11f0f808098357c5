"""The projects whose suites are run, read from `projects.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TABLE = HERE / "projects.toml"


@dataclass(frozen=True, slots=True)
class Left:
    """What is left out of a suite: a path, or an expression as pytest's -k takes it, and why."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Reason:
    """Why tests fail whose failure says something: a pattern of its message or node id, who causes it, and how."""

    pattern: str
    cause: str
    why: str


@dataclass(frozen=True, slots=True)
class Project:
    """A suite, and what it takes to run it without a GPU."""

    name: str
    about: str
    git: str = ""
    """Address of the repository; empty for tests that stand in `cases/`."""
    commit: str = ""
    folders: tuple[str, ...] = ()
    """The folders that are cloned; empty: all."""
    source: tuple[str, ...] = (".",)
    """Folders of the clone that Python imports from."""
    requirements: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    tests: tuple[str, ...] = ("tests",)
    """Paths that pytest is given: in the clone, or in this folder where they begin with `cases/`."""
    arguments: tuple[str, ...] = ()
    leave: tuple[Left, ...] = ()
    stubs: tuple[str, ...] = ()
    sample: int = 2
    """Parameter sets per test function; 0: all."""
    every: int = 1
    """One in so many test functions is run."""
    seconds: float = 60.0
    """Processor time that a test may take."""
    reasons: tuple[Reason, ...] = ()


CAUSES = (
    "joinery", "GPU only", "removed API", "project", "torch on the CPU", "reference", "time", "memory", "environment",
    "unexplained",
)  # fmt: skip
"""Who or what makes a test fail; the reasons name one of them. "removed API": the test calls what the pinned torch or Triton
has no more, and fails on every machine."""
APART = ("GPU only", "removed API", "time")
"""Causes that are counted apart: such tests are none that a machine without a GPU could pass in the time given."""


class TableError(ValueError):
    """`projects.toml` says something that is none of its fields."""


def read_projects(text: str) -> dict[str, Project]:
    """The projects of a table by their names, in its order. Raises `TableError` with the project and the field."""
    table = tomllib.loads(text)
    common = _reasons("reasons", table.pop("reasons", []))
    projects = table.pop("project", [])
    if table:
        raise TableError(f"{', '.join(table)}: expected [[project]] and [[reasons]]")
    found: dict[str, Project] = {}
    for entry in projects:
        project = _project(entry, common)
        if project.name in found:
            raise TableError(f"{project.name}: stands twice")
        found[project.name] = project
    return found


def _project(entry: dict[str, Any], common: tuple[Reason, ...]) -> Project:
    name = entry.get("name")
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9-]+", name):
        raise TableError(f"name = {name!r}: expected lower-case letters, digits and hyphens")
    kinds = {field.name: field.type for field in fields(Project)}
    known: dict[str, Any] = {}
    for key, value in entry.items():
        if key not in kinds:
            raise TableError(f"{name}: unknown field {key!r}; there are {', '.join(kinds)}")
        if key == "leave":
            known[key] = tuple(Left(_text(name, each, "path"), _text(name, each, "why")) for each in value)
        elif key == "reasons":
            known[key] = _reasons(name, value)
        elif isinstance(value, list):
            known[key] = tuple(value)
        else:
            known[key] = value
    if known.get("git") and not re.fullmatch(r"[0-9a-f]{40}", known.get("commit", "")):
        raise TableError(f"{name}: commit = {known.get('commit')!r}: expected 40 hexadecimal digits: suites are pinned")
    if "about" not in known:
        raise TableError(f"{name}: about is missing")
    known["reasons"] = known.get("reasons", ()) + common
    return Project(**known)


def _reasons(where: str, entries: list[dict[str, Any]]) -> tuple[Reason, ...]:
    found = []
    for entry in entries:
        reason = Reason(_text(where, entry, "pattern"), _text(where, entry, "cause"), _text(where, entry, "why"))
        if reason.cause not in CAUSES:
            raise TableError(f"{where}: cause = {reason.cause!r}: expected one of {', '.join(CAUSES)}")
        re.compile(reason.pattern)
        found.append(reason)
    return tuple(found)


def _text(where: str, entry: dict[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise TableError(f"{where}: {key} is missing in {entry}")
    return value


def reason_of(project: Project, test: str, message: str) -> Reason:
    """Why a test fails. The first pattern that is found in its message or its node id says it."""
    for reason in project.reasons:
        if re.search(reason.pattern, message) or re.search(reason.pattern, test):
            return reason
    return Reason("", "unexplained", "")
