"""The plugin of pytest that `joinery.triton.pytest` names: options, launches of each test, findings, the summary."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from ....promotion.errors import UserError
from ..settings import MODES, VARIABLE
from .record import Finding, Record

_PROPERTY = "joinery"
_PACKAGE = Path(__file__).resolve().parents[3]


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("joinery", "kernels of Triton without a GPU")
    modes = f"run kernels: {', '.join(MODES)}"
    group.addoption("--joinery", nargs="?", const="native", default=None, metavar="MODE", help=modes)
    group.addoption("--joinery-target", default="sm_90a", help="the GPU whose PTX is simulated and shown (sm_90a)")
    group.addoption("--joinery-device", default="cuda", choices=["cuda", "cpu"], help="what the device is called: cuda, cpu")
    group.addoption("--joinery-autotune", type=int, default=1, metavar="N", help="configurations that autotuning tries (1)")
    group.addoption("--joinery-threads", type=int, default=None, metavar="N", help="threads of native kernels")
    group.addoption("--joinery-no-bounds", action="store_true", help="native kernels check no bounds")
    group.addoption("--joinery-report", default=None, metavar="PATH", help="write a page of HTML with every kernel and finding")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: Any, parser: Any, args: list[str]) -> None:
    """Stand in for the GPU before the project's own files ask for one."""
    options = early_config.known_args_namespace
    mode = options.joinery
    if mode is None:
        return
    if mode not in MODES and "--joinery" in args:  # `--joinery tests`: what follows is no mode
        args[args.index("--joinery")] = "--joinery=native"
        mode = "native"
    _install(mode, options)


def pytest_configure(config: Any) -> None:
    mode = config.getoption("--joinery")
    if mode is None:
        return
    _install(mode, config.option)
    config.pluginmanager.register(_Plugin(config, mode), "joinery-launches")


def _install(mode: str, options: Any) -> None:
    from ..activation import is_active

    if is_active():
        return
    from .suites import prepare

    try:
        prepare(_choices(mode, options))
    except UserError as error:
        raise pytest.UsageError(f"--joinery: {error}") from None
    except ImportError as error:
        raise pytest.UsageError(f"--joinery needs {error.name} to be installed: {error}") from None


def _choices(mode: str, options: Any) -> Any:
    from .suites import Choices

    return Choices(
        mode, options.joinery_device, options.joinery_target, options.joinery_threads, not options.joinery_no_bounds,
        options.joinery_autotune,
    )  # fmt: skip


def _hide_own_frames(call: Any) -> None:
    """Let the traceback of an error that a launch raised end at the launch: what lies below is of no use to the project."""
    raised = call.excinfo
    if raised is None or not _is_below(raised.traceback[-1].path, _PACKAGE):
        return
    import triton

    own = (_PACKAGE, Path(triton.__file__).parent)
    kept: TracebackType | None = None
    for entry in reversed(raised.traceback):
        if not any(_is_below(entry.path, folder) for folder in own):
            raw = entry._rawentry
            kept = TracebackType(kept, raw.tb_frame, raw.tb_lasti, raw.tb_lineno)
    if kept is not None:
        call.excinfo = pytest.ExceptionInfo.from_exception(raised.value.with_traceback(kept))


def _gist(text: str) -> str:
    """What a finding is, in one line: the sanitizer's reports begin with how many there are."""
    first, *rest = text.splitlines()
    return rest[0] if "the sanitizer has" in first and rest else first


def _is_below(path: object, folder: Path) -> bool:
    return isinstance(path, Path) and path.is_relative_to(folder)


class _Plugin:
    """Counts the launches of every test, fails those whose launches found something, and says it all at the end."""

    def __init__(self, config: Any, mode: str) -> None:
        self.config = config
        self.mode = mode
        self.tests: Counter[str] = Counter()
        self.launches: Counter[str] = Counter()
        self.findings: list[tuple[str, str, str]] = []
        self.expected = 0
        self._outcomes: dict[str, str] = {}  # by test: reports of several workers come mixed
        self._last: list[Finding] = []
        self._folder = tempfile.mkdtemp(prefix="joinery-")
        self._records, self._startup = (str(Path(self._folder) / name) for name in ("records", "startup"))
        self._follow_processes()

    def _follow_processes(self) -> None:
        """Give processes that tests start a GPU, and look at what they launch."""
        from . import record
        from .processes.spawned import announce

        for folder in (self._records, self._startup):
            Path(folder).mkdir()
        record.stop_writing()
        announce(_choices(self.mode, self.config.option), self._records, self._startup)
        os.register_at_fork(after_in_child=lambda: record.write_to(self._records))

    def pytest_unconfigure(self) -> None:
        from .processes.spawned import withdraw

        withdraw(self._startup)
        shutil.rmtree(self._folder, ignore_errors=True)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: Any, nextitem: Any) -> Generator[None, Any, Any]:
        from . import record

        record.take_from(self._records, None)
        item.joinery_record = record.start()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
        _hide_own_frames(call)
        report: Any = yield
        record = getattr(item, "joinery_record", None)
        if record is None:
            return report
        if report.when != "setup":
            self._judge(item, call, report, record)
        if report.when == "teardown":
            findings = [(each.kernel, each.text, each.subtest, each.is_expected) for each in record.findings]
            report.user_properties.append((_PROPERTY, json.dumps({"launches": dict(record.launches), "findings": findings})))
        return report

    def _judge(self, item: Any, call: Any, report: Any, record: Record) -> None:
        """Fail what has passed although something was found that it did not wait for: a test, or a part of one."""
        from .expected import is_expected
        from .record import take_from

        take_from(self._records, record)
        self._last = record.findings[record.judged :]
        record.judged = len(record.findings)
        raised = call.excinfo.value if call.excinfo is not None else None
        for each in self._last:
            if each.error is not None:
                each.is_expected, each.error = is_expected(each.error, raised, item.path), None
        failures = [each for each in self._last if not each.is_expected]
        if failures and report.outcome == "passed":
            report.outcome = "failed"
            report.longrepr = "\n\n".join(f"joinery, kernel {each.kernel}: {each.text}" for each in failures)

    def pytest_runtest_logreport(self, report: Any) -> None:
        part = getattr(report, "context", None)  # of a subtest, reported right after it was judged
        if part is not None:
            named = [f"[{part.msg}]"] if part.msg is not None else []
            for each in self._last:
                each.subtest = " ".join([*named, *(f"{name}={value}" for name, value in part.kwargs.items())])
        if report.when != "teardown":
            if self._outcomes.get(report.nodeid) != "failed":  # as the test does of which a part has
                self._outcomes[report.nodeid] = report.outcome
        else:
            for name, content in report.user_properties:
                if name == _PROPERTY:
                    self._note(report.nodeid, json.loads(content))

    def _note(self, test: str, content: dict[str, Any]) -> None:
        launched = "launched" if content["launches"] else "not launched"
        self.tests[f"{self._outcomes.pop(test, 'not run')}, {launched}"] += 1
        self.launches.update(content["launches"])
        for kernel, text, part, is_expected in content["findings"]:
            if is_expected:
                self.expected += 1
            else:
                self.findings.append((f"{test} {part}".rstrip(), kernel, text))

    def pytest_report_header(self, config: Any) -> str:
        from ..memory import device

        devices = ""
        if self.config.getoption("--joinery-device") == "cuda":
            devices = '; "cuda:0" is a device beside "cpu"' if device() == "cuda" else '; "cuda:0" is the CPU, the only device'
        return f"joinery: kernels of Triton run on the CPU, mode {self.mode} ({VARIABLE}){devices}"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("joinery")
        for outcome, count in sorted(self.tests.items()):
            write(f"{count:6d} tests {outcome}")
        total = sum(self.launches.values())
        write(f"{len(self.launches):6d} kernels, {total} launches, {len(self.findings)} findings")
        if self.expected:
            write(f"{self.expected:6d} findings that tests wait for, and catch")
        for test, kernel, text in self.findings[:20]:
            write(f"  {test}: {kernel}: {_gist(text)}")
        path = self.config.getoption("--joinery-report")
        if path:
            from .report import write_report

            write_report(path, self.mode, self.tests, self.launches, self.findings)
            write(f"  {path}")
