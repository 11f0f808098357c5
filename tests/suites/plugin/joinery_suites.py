"""A pytest plugin for the suites of other projects, loaded in their environments: takes a sample, stubs modules, writes events.

    pytest -p joinery_suites --suites-events PATH [--suites-sample N] [--suites-seconds N] [--suites-done PATH] …

An event is a line of JSON: what was collected, each test that starts, each that ends with its outcome and its launches.
Whoever reads them knows, where the process ends early, which test ended it.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.abc
import importlib.machinery
import json
import re
import signal
import sys
import time
import types
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 5.0
"""Times a test's limit, which is of processor time, that may go by: a test may wait, and a machine may have other work."""


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("suites")
    group.addoption("--suites-events", metavar="PATH", help="append events to this file")
    group.addoption("--suites-sample", type=int, default=0, metavar="N", help="parameter sets per test function; 0: all")
    group.addoption("--suites-every", type=int, default=1, metavar="N", help="every Nth test function, by digests; 1: all")
    limit = "processor time that a test may take; 0: any"
    group.addoption("--suites-seconds", type=float, default=0.0, metavar="N", help=limit)
    group.addoption("--suites-done", metavar="PATH", help="a file of node ids that are not run again")
    group.addoption("--suites-stub", action="append", default=[], metavar="NAME", help="a module to make up; may be repeated")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any, parser: Any, args: list[str]) -> None:
    """Make modules up before the project's own files import them."""
    stub_modules(early_config.known_args_namespace.suites_stub)


def pytest_configure(config: Any) -> None:
    if config.getoption("--suites-events"):
        config.pluginmanager.register(_Events(config), "joinery-suites-events")


def sampled(nodes: Iterable[str], number: int, every: int = 1) -> set[str]:
    """The node ids of a sample: up to `number` parameter sets of test functions, the same ones wherever it is taken.

    every: about one in so many functions is taken.

    Which ones is decided by the digests of the node ids: neither the order of collection nor other tests change it.
    """
    functions: defaultdict[str, list[str]] = defaultdict(list)
    for node in nodes:
        function = node.partition("[")[0]
        if int.from_bytes(_digest(function)[:8], "big") % every == 0:
            functions[function].append(node)
    if not number:
        return {node for sets in functions.values() for node in sets}
    return {node for sets in functions.values() for node in sorted(sets, key=_digest)[:number]}


def _digest(node: str) -> bytes:
    return hashlib.sha256(node.encode()).digest()


def first_line(text: str) -> str:
    """What a failure says: the first line of its error, without the frames above it, and what follows one that says where."""
    errors = [line[1:].strip() for line in text.splitlines() if line.startswith("E ")]
    lines = errors or [line.strip() for line in text.splitlines() if line.strip()]
    if lines and re.search(r"\bat \d+:\d+:$", lines[0]):  # Triton's: the source follows, then a mark, in the first cause
        every = [line.removeprefix("E ").strip() for line in text.splitlines()]
        lines[0] = " ".join([lines[0], *every[every.index("^") + 1 :][:1]] if "^" in every else lines[:1])
    return lines[0][:400] if lines else ""


class _Events:
    def __init__(self, config: Any) -> None:
        self._path = Path(config.getoption("--suites-events"))
        self._number = config.getoption("--suites-sample")
        self._every = config.getoption("--suites-every")
        done = config.getoption("--suites-done")
        self._done = set(Path(done).read_text(encoding="utf-8").splitlines()) if done else set()
        self._test: dict[str, Any] = {}
        self._began = 0.0
        self._seconds = config.getoption("--suites-seconds")
        for number in (signal.SIGPROF, signal.SIGALRM):
            signal.signal(number, self._stop)

    def _stop(self, number: int, frame: Any) -> None:
        pytest.fail(f"Timeout: more than {self._seconds:g} s", pytrace=False)

    @contextlib.contextmanager
    def _limited(self) -> Iterator[None]:
        signal.setitimer(signal.ITIMER_PROF, self._seconds)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE * self._seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: Any) -> Iterator[None]:
        with self._limited():
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: Any) -> Iterator[None]:
        with self._limited():
            return (yield)

    def _write(self, **event: Any) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event) + "\n")

    def pytest_collectreport(self, report: Any) -> None:
        if report.outcome == "failed":
            self._write(event="uncollected", test=report.nodeid, message=first_line(str(report.longrepr)))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        chosen = sampled((item.nodeid for item in items), self._number, self._every)
        self._write(event="collected", collected=len(items), sampled=len(chosen))
        kept = [item for item in items if item.nodeid in chosen and item.nodeid not in self._done]
        dropped = [item for item in items if item.nodeid not in chosen or item.nodeid in self._done]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            items[:] = kept

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = {"test": nodeid, "outcome": "passed", "seconds": 0.0, "message": "", "launches": {}}
        self._began = time.process_time()
        self._write(event="started", test=nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        test = self._test
        test["seconds"] += report.duration
        if report.outcome == "skipped" and test["outcome"] == "passed":
            test["outcome"] = "skipped"
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            test["message"] = first_line(getattr(report, "wasxfail", "") or text)
        elif report.outcome == "failed" and test["outcome"] != "failed":
            test["outcome"], test["message"] = "failed", first_line(str(report.longrepr))
        for name, content in report.user_properties:
            if name == "joinery":
                test["launches"] = json.loads(content)["launches"]
        if report.when == "teardown":
            self._write(event="ended", **test, processor=round(time.process_time() - self._began, 3))
            if test["outcome"] == "failed":  # its frames hold tensors, and each other
                sys.last_value = sys.last_traceback = None
                gc.collect()


class _Stub(types.ModuleType):
    """A module of which every name is there, and does nothing."""

    __path__: list[str] = []  # noqa: RUF012 - a package, so that modules below it are looked for
    __all__: Sequence[str] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unavailable(f"{self.__name__}.{name}")


class _Unavailable:
    """A name of a stub: a decorator that changes nothing; anything else raises where it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if len(args) == 1 and not keywords and isinstance(args[0], types.FunctionType | type):
            return args[0]
        raise NotImplementedError(f"{self._name} is a stub: the suites run without this package")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Unavailable(f"{self._name}.{name}")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (object,)


class _StubFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if any(name == stub or name.startswith(f"{stub}.") for stub in self._names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Everything is there already."""


def stub_modules(names: Sequence[str]) -> None:
    """Let these modules, and all below them, be imported, whether or not they are installed."""
    if names:
        sys.meta_path.insert(0, _StubFinder(names))
