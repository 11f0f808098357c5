"""Kernels in several configurations: which are tried, which is chosen and for what, what is kept and what is said."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.tuning.progress import Progress
from joinery.runtime.cuda.device import cuda_device

from ...support.cuda.fake_driver import FakeDriver

ADD = """
__global__ void add(int *y, int n __retune, int m) {
  int i[BS] = get_program_id(0) * BS + 0 ... BS;
  for (int j = 0; j < WORK; j++) *?(i < n)(y + i) += 1;
  *?(i < n)(y + i) += m - WORK;
}
"""
SLOW, QUICK = 2000, 1


def blocks(n: int) -> Callable[[dict[str, Any]], tuple[int]]:
    return lambda macros: (-(-n // macros["BS"]),)


def tuned(defines: dict[str, object] | None = None, **options: Any) -> Any:
    return jn.kernel.tune(ADD, {"BS": 32, "WORK": [SLOW, QUICK], **(defines or {})}, **{"cache": False, **options})


def test_the_fastest_is_chosen_and_arrays_are_as_after_one_launch() -> None:
    kernel = tuned()
    y = np.arange(40, dtype=np.int32)
    kernel.launch(blocks(40), y, 40, 7)
    assert y.tolist() == list(range(7, 47))
    best = kernel.best(blocks(40), y, 40, 7)
    assert (best.defines, best.grid) == ({"BS": 32, "WORK": QUICK}, (2,))
    assert y.tolist() == list(range(7, 47))


def test_all_combinations_are_tried_and_illegal_ones_are_dropped_with_their_reason() -> None:
    kernel = tuned({"BS": [16, 24, 32], "WORK": [1, 2]}, warps=[2, 4])
    assert len(kernel.configurations) == 12
    assert [str(each) for each in kernel.configurations[:3]] == [
        "BS=16, WORK=1, 2 warps", "BS=16, WORK=1, 4 warps", "BS=16, WORK=2, 2 warps",
    ]  # fmt: skip
    kernel.launch(blocks(40), np.zeros(40, np.int32), 40, 0)
    assert {each.defines["BS"] for each in kernel.dropped} == {24}
    assert all("the extent 24 of a block is no power of two" in reason for reason in kernel.dropped.values())


def test_what_fails_at_a_launch_is_dropped() -> None:
    text = "__global__ void f(int *y, int n) { assert(n < LIMIT); *y = n; }"
    kernel = jn.kernel.tune(text, {"LIMIT": [3, 30]}, cache=False)
    y = np.zeros(1, np.int32)
    kernel.launch((1,), y, 5)
    assert y[0] == 5
    assert [each.defines["LIMIT"] for each in kernel.dropped] == [3]
    with pytest.raises(jn.KernelAssertionError, match="the kernel's assertion at <text>:1 fails"):
        kernel.launch((1,), y, 50)
    assert y[0] == 5
    kernel.launch((1,), y, 2)  # nothing is dropped for good that other arguments may suit
    assert (y[0], kernel.dropped) == (2, {})


def test_errors_of_all_configurations_are_told() -> None:
    text = '__global__ void f(int *y, int n) { assert(n < LIMIT, NAME); *y = n; }'
    names = [({"LIMIT": 3, "NAME": '"small"'}, 4), ({"LIMIT": 30, "NAME": '"large"'}, 4)]
    kernel = jn.kernel.tune(text, configurations=names, cache=False)
    told = r"none of 2 configurations can be run\n.*LIMIT=3.*: .*small\n.*LIMIT=30.*: .*large"
    with pytest.raises(jn.UserError, match=told):
        kernel.launch((1,), np.zeros(1, np.int32), 50)


def test_other_parameters_are_no_configuration_of_the_same_kernel() -> None:
    text = "__global__ void f(int *y\n#if N > 1\n, int n\n#endif\n) { *y = N; }"
    kernel = jn.kernel.tune(text, {"N": [1, 2]}, cache=False)
    y = np.zeros(1, np.int32)
    kernel.launch((1,), y)
    assert y[0] == 1
    assert [*kernel.dropped.values()] == ["its parameters are y, n, and others have other ones"]


def test_nothing_that_can_be_read() -> None:
    with pytest.raises(jn.UserError, match="none of 2 configurations can be run\nBS=3, 4 warps: <text>:3"):
        jn.kernel.tune(ADD, {"BS": [3, 5], "WORK": 1}, cache=False)


@pytest.mark.parametrize(
    ("text", "key", "names"),
    [(ADD, None, ("n",)), (ADD, ["m"], ("m",)), (ADD, [], ()), (ADD.replace("__retune", ""), None, ("n", "m"))],
)
def test_a_choice_holds_for_the_values_of_the_key(text: str, key: list[str] | None, names: tuple[str, ...]) -> None:
    kernel = jn.kernel.tune(text, {"BS": [8, 16], "WORK": 1}, key=key, cache=False)
    assert kernel.key == names


def test_other_values_of_the_key_are_timed_anew(capsys: pytest.CaptureFixture[str]) -> None:
    kernel = tuned({"WORK": [1, 2]}, progress=True)
    for n, m, is_timed in ((8, 1, True), (8, 2, False), (9, 1, True), (8, 3, False)):
        y = np.zeros(n, np.int32)
        kernel.launch((1,), y, n, m)
        assert y.tolist() == [m] * n
        assert ("tuning add on cpu" in capsys.readouterr().err) is is_timed


def test_a_lock_file_keeps_choices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "kernels.lock.json"
    y = np.zeros(8, np.int32)
    tuned(lock=path).launch((1,), y, 8, 1)
    content = json.loads(path.read_text())
    (choice,) = content["kernels"]["add BS=32"]["choices"]
    assert (choice["key"], choice["defines"], choice["warps"]) == ({"n": 8}, {"WORK": "1"}, 4)
    assert choice["device"].startswith("cpu ")
    again = tuned(lock=path, progress=True)
    again.launch((1,), y, 8, 1)
    assert capsys.readouterr().err == ""
    assert again.best((1,), y, 8, 1).defines["WORK"] == QUICK
    assert y.tolist() == [2] * 8
    # What the file says is believed: a person may know better.
    choice["defines"]["WORK"] = str(SLOW)
    path.write_text(json.dumps(content))
    assert tuned(lock=path).best((1,), y, 8, 1).defines["WORK"] == SLOW
    # Not so for another text, or a configuration that there is no more.
    assert tuned({"BS": 16}, lock=path).best((1,), y, 8, 1).defines["WORK"] == QUICK
    path.write_text(json.dumps(content))
    assert tuned({"WORK": [QUICK, 2]}, lock=path).best((1,), y, 8, 1).defines["WORK"] != SLOW


def test_a_lock_file_is_the_same_whoever_writes_it_and_has_room_for_several_kernels(tmp_path: Path) -> None:
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    other = jn.kernel.tune("__global__ void f(int *y) { *y = T; }", {"T": [1]}, lock=second, cache=False)
    other.launch((1,), np.zeros(1, np.int32))
    for path, sizes in ((first, (8, 9)), (second, (9, 8))):
        for n in sizes:
            tuned(lock=path).launch((1,), np.zeros(n, np.int32), n, 1)
    one, two = json.loads(first.read_text()), json.loads(second.read_text())
    assert list(two["kernels"]) == ["add BS=32", "f"]
    assert one["kernels"]["add BS=32"] == two["kernels"]["add BS=32"]


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", '{"format": 2, "kernels": {}}', '{"format": 1, "kernels": {"add": 1}}', "[" * 100000,
        '{"format": 1, "kernels": {"add": {"text": "", "choices": [{"device": "cpu"}]}}}',
        '{"format": 1, "kernels": {"f": {"text": "", "choices": [{"device": "", "key": {"": ""}, "warps": 1}]}}}',
    ],
)  # fmt: skip
def test_a_file_that_is_no_lock_file(tmp_path: Path, content: str) -> None:
    path = tmp_path / "add.lock.json"
    path.write_text(content)
    with pytest.raises(jn.UserError, match=r"lock file .*add\.lock\.json is not valid: .*fix: delete it"):
        tuned(lock=path).launch((1,), np.zeros(8, np.int32), 8, 1)
    assert path.read_text() == content


def test_a_lock_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(jn.UserError, match=r"lock file .* cannot be written"):
        tuned(lock=tmp_path / "none" / "add.json").launch((1,), np.zeros(8, np.int32), 8, 1)


def test_listed_configurations() -> None:
    listed = [({"BS": 8, "WORK": SLOW}, 4), ({"BS": 16, "WORK": QUICK}, 2)]
    kernel = jn.kernel.tune(ADD, {"BS": 4}, configurations=listed, cache=False)
    y = np.zeros(20, np.int32)
    kernel.launch(blocks(20), y, 20, 3)
    assert y.tolist() == [3] * 20
    best = kernel.best(blocks(20), y, 20, 3)
    assert (best.defines, best.warps, best.grid) == ({"BS": 16, "WORK": QUICK}, 2, (2,))


@pytest.mark.parametrize(
    ("defines", "options", "message"),
    [
        ({"BS": []}, {}, "BS is an empty list"),
        ({}, {"warps": []}, "warps is an empty list"),
        ({}, {"warps": [3]}, "3 warps; expected a power of two up to 32"),
        ({}, {"warps": ["4"]}, "'4' warps; expected a power of two up to 32"),
        ({"BS": list(range(5000))}, {}, "10000 configurations; at most 4096"),
        ({"BS": [[1]]}, {}, "is a list"),
        ({"B S": [1]}, {}, "expected the name of a macro"),
        ({}, {"key": ["y"]}, "key has 'y', which is no integer parameter of add; it has n, m"),
        ({}, {"configurations": [({}, 4)]}, "configurations are listed, and WORK have lists too"),
        ({"WORK": 1}, {"configurations": []}, "configurations is empty"),
        ({"WORK": 1}, {"configurations": [4]}, "expected a pair of macros and a number of warps"),
        ({}, {"numerics": "sloppy"}, "tune"),
    ],
)
def test_arguments_that_are_refused(defines: dict[str, object], options: dict[str, Any], message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        tuned(defines, **options)


def test_a_single_kernel_takes_no_list() -> None:
    with pytest.raises(jn.UserError, match=r"defines\['BS'\] is a list, .*fix: jn\.kernel\.tune"):
        jn.kernel.from_triton_c(ADD, {"BS": [8, 16], "WORK": 1})


def test_wrong_arguments_of_a_launch_are_told_as_those_of_any_kernel() -> None:
    kernel = tuned({"WORK": 1})
    with pytest.raises(jn.UserError, match="@add takes 3 arguments, got 1"):
        kernel.launch((1,), np.zeros(8, np.int32))
    with pytest.raises(jn.UserError, match=r"parameter n of type int .*: expected a number, got str"):
        kernel.launch((1,), np.zeros(8, np.int32), "8", 1)
    with pytest.raises(jn.UnsupportedError, match="device 'ptxsim' has no time to compare"):
        kernel.launch((1,), np.zeros(8, np.int32), 8, 1, device="ptxsim")


def test_the_chosen_kernel_is_a_kernel() -> None:
    kernel = tuned({"WORK": 1})
    y = np.zeros(8, np.int32)
    best = kernel.best((1,), y, 8, 2)
    assert best.kernel.sanitize((1,), y, 8, 2).findings == ()
    best.kernel.launch((1,), y, 8, 2, device="ptxsim", warps=best.warps)
    assert y.tolist() == [4] * 8


def test_warnings_of_the_text_are_given_once() -> None:
    text = "__global__ void f(float *y) { int i[BS] = 0 ... BS; float v[BS] = i; *(y + i) = v * 0.5; }"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = jn.kernel.tune(text, {"BS": [8, 16]}, cache=False)
        kernel.launch((1,), np.zeros(16, np.float32))
    assert [each.filename for each in caught if each.category is jn.TritonCWarning] == [__file__]


@pytest.mark.slow
def test_on_a_gpu_the_number_of_warps_is_chosen_too(install: Callable[..., FakeDriver]) -> None:
    install()
    kernel = tuned({"WORK": [1, 3]}, warps=[1, 2])
    y = np.arange(8, dtype=np.int32)
    kernel.launch((1,), y, 8, 5, device="cuda")
    assert y.tolist() == list(range(5, 13))
    assert kernel.dropped == {}
    buffer = jn.Buffer(np.arange(8, dtype=np.int32))
    kernel.launch((1,), buffer, 8, 5, device="cuda")
    tuned({"WORK": [1, 3]}, warps=[1, 2]).launch((1,), buffer, 8, 5, device="cuda")
    assert buffer.numpy().tolist() == list(range(10, 18))
    cuda_device().synchronize()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_alone() -> None:
    shown, hidden = Terminal(), io.StringIO()
    for stream in (shown, hidden):
        with Progress("tuning f", 2, None, stream) as progress:
            progress.step("TM=32: 1 ms")
            progress.step("TM=64: 2 ms")
    lines = shown.getvalue().split("\r\x1b[K")
    assert lines[1].startswith(f"tuning f [{'#' * 12}{' ' * 12}] 1/2  TM=32: 1 ms")
    assert (lines[2][:36], lines[-1], hidden.getvalue()) == (f"tuning f [{'#' * 24}] ", "", "")


@pytest.mark.slow
def test_threads_and_processes_that_share_a_lock_file_keep_all_choices(tmp_path: Path) -> None:
    path = tmp_path / "k.lock.json"
    program = """
import sys, threading, pathlib
from joinery.interface.tuning.lock_file import LockFile
def keep(name):
    for n in range(20):
        LockFile(pathlib.Path(sys.argv[1]), name, "d").keep("cpu", (("n", n),), ((("T", "4"),), 4))
threads = [threading.Thread(target=keep, args=(f"{sys.argv[2]} {k}",)) for k in range(2)]
[each.start() for each in threads]
[each.join() for each in threads]
"""
    others = [subprocess.Popen([sys.executable, "-c", program, str(path), name]) for name in ("a", "b")]
    assert [each.wait() for each in others] == [0, 0]
    found = json.loads(path.read_text())["kernels"]
    assert {name: len(entry["choices"]) for name, entry in found.items()} == dict.fromkeys(["a 0", "a 1", "b 0", "b 1"], 20)
    assert [each.name for each in tmp_path.iterdir()] == ["k.lock.json"]


def test_a_lock_file_has_room_for_one_text_with_several_macros(tmp_path: Path) -> None:
    path = tmp_path / "k.lock.json"
    text = "__global__ void f(TYPE *y, int n) { *y = n + B + T; }"
    for defines in ({"TYPE": "float", "B": 1}, {"TYPE": "half", "B": 1}, {"B": 1, "TYPE": "float"}):
        kernel = jn.kernel.tune(text, {**defines, "T": [1, 2]}, lock=path, cache=False, progress=False)
        kernel.launch(1, np.zeros(1, np.float16 if defines["TYPE"] == "half" else np.float32), 3)
    found = json.loads(path.read_text())["kernels"]
    assert {name: len(entry["choices"]) for name, entry in found.items()} == {"f B=1, TYPE=float": 1, "f B=1, TYPE=half": 1}
    changed = jn.kernel.tune(text + "\n", {"TYPE": "half", "B": 1, "T": [1, 2]}, lock=path, cache=False, progress=False)
    changed.launch(1, np.zeros(1, np.float16), 3)
    assert json.loads(path.read_text())["kernels"].keys() == found.keys()


def test_a_lock_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "committed").mkdir()
    link = tmp_path / "add.lock.json"
    link.symlink_to(tmp_path / "committed" / "add.lock.json")
    tuned(lock=link).launch((1,), np.zeros(8, np.int32), 8, 1)
    assert link.is_symlink()
    assert "add" in (tmp_path / "committed" / "add.lock.json").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": 3}, "key is 3, expected names of integer parameters of add; fix: key=['n']"),
        ({"configurations": 3}, "configurations is a int; fix: a list of pairs"),
        ({"include": 3}, "include is a int, expected paths"),
        ({"lock": 3}, "lock file: expected a path, got int"),
        ({"lock": b"l.json"}, "lock file: expected a path, got bytes"),
        ({"lock": "a\0.json"}, "lock file 'a\\x00.json' has a NUL character; fix: the name of a file"),
        ({"lock": "a\ud800.json"}, "lock file 'a\\ud800.json' has a lone surrogate"),
        ({"defines": [("BS", [1])]}, "defines is a list, expected a mapping of macros"),
        ({"defines": {"BS": ["1", "\ud800"], "WORK": 1}}, "defines['BS'] has a lone surrogate"),
    ],
)
def test_options_that_can_be_none_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(jn.UserError) as caught:
        jn.kernel.tune(ADD, **{"defines": {"BS": [32], "WORK": 1}, "cache": False, **options})
    assert message in str(caught.value)
    str(caught.value).encode("utf-8")


def test_configurations_may_come_from_a_generator() -> None:
    kernel = jn.kernel.tune(ADD, {"WORK": 1}, configurations=(({"BS": size}, 4) for size in (16, 32)), cache=False)
    assert [each.defines["BS"] for each in kernel.configurations] == [16, 32]


@pytest.mark.parametrize("where", ["name", "text", "device"])
def test_a_lock_file_with_half_a_character_is_refused_and_kept(tmp_path: Path, where: str) -> None:
    path = tmp_path / "k.json"
    half = {each: "\ud800" if each == where else "x" for each in ("name", "text", "device")}
    choice = {"device": half["device"], "key": {}, "defines": {}, "warps": 4}
    content = json.dumps({"format": 1, "kernels": {half["name"]: {"text": half["text"], "choices": [choice]}}})
    path.write_text(content)
    with pytest.raises(jn.UserError, match=r"k\.json is not valid: it has a lone surrogate; fix: delete it, and tune again"):
        tuned(lock=path).launch((1,), np.zeros(8, np.int32), 8, 1)
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("k.json", content)]
