"""What every run of the tests has: profiles of random tests, a compile cache of its own, and an eye on tests that take long."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from joinery.runtime.storage import cache

from .support import durations, kept_code, on_cuda
from .support.tiers import one_in

SUPPRESSED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
settings.register_profile("ci", derandomize=True, database=None, deadline=None, suppress_health_check=SUPPRESSED)
settings.register_profile("nightly", derandomize=False, print_blob=True, deadline=None, suppress_health_check=SUPPRESSED)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells begin what runs aside: tests of Ctrl-C would wait for ever
    signal.signal(signal.SIGINT, signal.default_int_handler)

IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
UNIT = "JOINERY_TESTS_UNIT"
STARTED = pytest.StashKey[float]()
FREEZE_AFTER = 250  # tests
YOUNG_OBJECTS = 20_000
tests_since_freeze = 0


ROOT = Path(__file__).resolve().parents[1]


class RootIsNoPackage:
    """The folder above the tests is the package joinery: pytest would import it again, under another name.

    `--confcutdir=tests` in the settings would do, but is an error where a project in a folder of the clone starts pytest.
    """

    @pytest.hookimpl
    def pytest_collect_directory(self, path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        return pytest.Dir.from_parent(parent, path=path) if path == ROOT else None  # type: ignore[no-any-return]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(RootIsNoPackage(), "root-is-no-package")
    if on_cuda.ON_CUDA:
        on_cuda.install()
        config.pluginmanager.register(on_cuda.OnCuda(), "on-cuda")
    if PROFILE == "ci" and hasattr(config, "cache"):
        kept_code.install(config.cache.mkdir("code"))
    if IS_WORKER:
        return
    # Workers and the processes that tests start share compiled Python code, which takes each of them half a second to make.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    kept = config.cache.mkdir("bytecode") if hasattr(config, "cache") else Path(tempfile.gettempdir(), "joinery-bytecode")
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ.setdefault("PYTHONPYCACHEPREFIX", str(kept))
    os.environ[UNIT] = str(durations.unit_of_work())
    config.pluginmanager.register(Durations(), "durations")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as slow what `one_in` leaves out of the fast tier, of what nothing else makes slow."""
    of_function: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("one_in") is not None and item.get_closest_marker("slow") is None:
            of_function.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in of_function.values():
        (n,) = found[0].get_closest_marker("one_in").args
        fast = one_in([item.name for item in found], n)
        for number, item in enumerate(found):
            if number not in fast:
                item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    freeze()


def freeze() -> None:
    """Takes what is there by now out of later collections: looking at modules and caches took a tenth of a run. They come when
    there are more young objects than Python waits for, since most of what a test makes lives as long as the test."""
    global tests_since_freeze
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    tests_since_freeze = 0


@pytest.fixture(scope="session", autouse=True)
def cache_of_the_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled code is kept for the run, in a folder that its workers share, and not in the home of who runs it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if IS_WORKER else base) / "joinery-cache"
    home, usual = Path.home(), cache.default_directory
    cache.default_directory = lambda: folder if Path.home() == home else usual()
    yield
    cache.default_directory = usual


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    global tests_since_freeze
    tests_since_freeze += 1
    if tests_since_freeze >= FREEZE_AFTER:
        freeze()
    kept_code.begin_test()
    item.stash[STARTED] = durations.processor_seconds()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
    if report.when == "teardown" and item.get_closest_marker("slow") is None:
        seconds = (durations.processor_seconds() - item.stash[STARTED]) / durations.scale(float(os.environ[UNIT]))
        report.user_properties.append(("processor seconds", seconds))
    return report


class Durations:
    """Names the tests that take long, and fails a run in which one takes too long."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "processor seconds":
                self.seconds[report.nodeid] = value

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if durations.report(self.seconds)[1] and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        lines, is_failure = durations.report(self.seconds)
        if lines:
            terminalreporter.section("tests that take long and are not marked slow", red=is_failure, yellow=not is_failure)
            for line in lines:
                terminalreporter.line(line)
