"""`limit_threads`, and threadpoolctl through it: models that are there already use fewer threads, with the same results."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.host import threads

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the pool is for Linux")

WIDE = 4


@pytest.fixture
def unlimited() -> Iterator[None]:
    yield
    assert not threads._blocks
    threads._base = None
    threads._write_limits()


def programs_by_thread(count: int = 64, pool_threads: int = WIDE) -> set[int]:
    """The numbers of the workers that programs of a launch have run on, each of which takes a while."""
    kernel = jn.kernel.from_ttir(
        """
module {
  tt.func @who(%out: !tt.ptr<i32>, %quotients: !tt.ptr<f32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %one = arith.constant 1.0 : f32
    %step = arith.constant 1.0000001 : f32
    %pid = tt.get_program_id x : i32
    %id = tt.elementwise_inline_asm "mov.u32 $0, %smid;" {constraints = "=r", packed_element = 1 : i32, pure = false} -> i32
    %x = scf.for %i = %c0 to %n step %c1 iter_args(%v = %one) -> (f32) : i32 {
      %w = arith.divf %v, %step : f32
      scf.yield %w : f32
    }
    %p = tt.addptr %out, %pid : !tt.ptr<i32>, i32
    %q = tt.addptr %quotients, %pid : !tt.ptr<f32>, i32
    tt.store %p, %id : !tt.ptr<i32>
    tt.store %q, %x : !tt.ptr<f32>
    tt.return
  }
}
"""
    )
    out = np.full(count, -1, np.int32)
    kernel.launch(count, out, np.empty(count, np.float32), 100_000, threads=pool_threads)
    assert (out >= 0).all()
    return set(out.tolist())


def test_a_limit_holds_for_pools_that_are_there(unlimited: None) -> None:
    assert any(len(programs_by_thread()) > 1 for _ in range(20))
    with jn.limit_threads(1):
        assert all(programs_by_thread() == {0} for _ in range(3))
        with jn.limit_threads(2):
            assert all(programs_by_thread() <= {0, 1} for _ in range(3))
        assert threads.thread_limit() == 1
        assert programs_by_thread(pool_threads=6) == {0}, "a pool that was not there"
    assert threads.thread_limit() is None
    assert any(programs_by_thread() - {0, 1} for _ in range(40))


def test_results_do_not_depend_on_it(unlimited: None) -> None:
    rng = np.random.default_rng(0)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 256), "x")])
    graph.output(jn.softmax(graph.inputs[0] @ graph.constant(rng.standard_normal((256, 300)).astype(np.float32))))
    model = jn.compile(graph, device="cpu", threads=3)
    x = rng.standard_normal((500, 256)).astype(np.float32)
    expected = model(x)
    for limit in (1, 2, 3, 1024):
        with jn.limit_threads(limit):
            np.testing.assert_array_equal(model(x), expected)
    assert model.threads == 3


def test_a_limit_may_change_while_calls_run(unlimited: None) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    graph.output(jn.exp(graph.inputs[0]))
    model = jn.compile(graph, device="cpu", threads=WIDE)
    x = np.linspace(0, 1, 1 << 20, dtype=np.float32)
    expected, wrong, stop = model(x), [], threading.Event()

    def call() -> None:
        while not stop.is_set():
            if not np.array_equal(model(x), expected):
                wrong.append(1)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for each in callers:
        each.start()
    for number in range(300):
        jn.limit_threads((None, 1, 2, 3)[number % 4])
    stop.set()
    for each in callers:
        each.join(60)
    assert not wrong
    assert not any(each.is_alive() for each in callers)


def test_blocks_that_overlap_in_two_threads_leave_no_limit(unlimited: None) -> None:
    first, second = jn.limit_threads(1), jn.limit_threads(2)  # made by both before either is entered
    with first:
        assert threads.thread_limit() == 1
        second.__enter__()
        assert threads.thread_limit() == 2
    assert threads.thread_limit() == 2
    second.__exit__()
    assert threads.thread_limit() is None
    jn.limit_threads(3)
    with jn.limit_threads(1):
        other = jn.limit_threads(2)
        other.__enter__()
    assert threads.thread_limit() == 2
    other.__exit__()
    assert threads.thread_limit() == 3, "that of a call without a block"
    for number in range(1, 200):
        jn.limit_threads(number)
    assert threads.thread_limit() == 199
    with jn.limit_threads(None):
        assert threads.thread_limit() is None
    assert threads.thread_limit() == 199


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_child_has_the_limits_of_the_thread_that_forked_alone(unlimited: None) -> None:
    """Nobody would leave the blocks of others there, and all calls of the child stayed on one thread."""
    entered, leave = threading.Event(), threading.Event()

    def limit() -> None:
        with jn.limit_threads(1):
            entered.set()
            leave.wait(60)

    other = threading.Thread(target=limit)
    programs_by_thread()  # there is a pool
    with jn.limit_threads(3):
        other.start()
        assert entered.wait(60)
        assert threads.thread_limit() == 1
        child = os.fork()
        if not child:
            held = [threads.thread_limit()] + [ctypes.c_int32.from_address(each + 36).value for each in threads._pools.values()]
            os._exit(0 if set(held) == {3} else 1)
        leave.set()
        other.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert threads.thread_limit() is None


def test_pools_of_python_that_limit_for_a_while(unlimited: None) -> None:
    def block(number: int) -> None:
        for _ in range(200):
            with jn.limit_threads(number % 3 + 1):
                pass

    callers = [threading.Thread(target=block, args=(number,)) for number in range(6)]
    for each in callers:
        each.start()
    for each in callers:
        each.join(60)
    assert threads.thread_limit() is None


@pytest.mark.parametrize("wrong", [0, -1, 1025, 2.0, True, "2"])
def test_limits_that_are_none(wrong: object) -> None:
    with pytest.raises(jn.UserError, match="threads must be an int from 1 to 1024"):
        jn.limit_threads(wrong)  # type: ignore[arg-type]
    assert threads.thread_limit() is None


def assert_prints(program: str, word: str) -> None:
    """Run a program in a process of its own, whose limits are nobody else's."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == f"{word}\n", done.stderr


@pytest.mark.slow
def test_threadpoolctl_finds_and_limits_joinery() -> None:
    pytest.importorskip("threadpoolctl")
    program = """
        import joinery as jn, numpy as np
        before = jn.Graph("g", [jn.TensorType(jn.float32, (4,), "x")])
        before.output(before.inputs[0] + 1)
        first = jn.compile(before, device="cpu", threads=3)
        import threadpoolctl
        from joinery.runtime.host import threads
        second = jn.compile(before, device="cpu", threads=5)
        def found():
            return [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "joinery"]
        (own,) = found()
        assert own["internal_api"] == own["prefix"] == "joinery" and own["num_threads"] >= 5, own
        assert own["version"] == jn.__version__ and own["filepath"] == jn.__path__[0], own
        with threadpoolctl.threadpool_limits(limits=2):
            assert threads.thread_limit() == 2 and found()[0]["num_threads"] == 2
            with threadpoolctl.threadpool_limits(limits={"joinery": 1}):
                assert threads.thread_limit() == 1
            assert threads.thread_limit() == 2
            with threadpoolctl.threadpool_limits(limits=1, user_api="blas"):
                assert threads.thread_limit() == 2
        assert threads.thread_limit() is None
        jn.limit_threads(20)
        with threadpoolctl.threadpool_limits(limits=1):
            assert threads.thread_limit() == 1
            wide = jn.compile(before, device="cpu", threads=19)
        assert threads.thread_limit() == 20, threads.thread_limit()
        with threadpoolctl.threadpool_limits(limits=3):
            assert found()[0]["num_threads"] == 3
        assert threads.thread_limit() == 20
        third = jn.compile(before, device="cpu", threads=5)
        assert len(found()) == 1
        print("found")
    """
    assert_prints(program, "found")


@pytest.mark.slow
def test_limits_of_both_that_overlap_end() -> None:
    """Each holds while it lasts, whichever began first, and none stays."""
    pytest.importorskip("threadpoolctl")
    program = """
        import joinery as jn, numpy as np, threadpoolctl
        from joinery.runtime.host import threads
        graph = jn.Graph("g", [jn.TensorType(jn.float32, (4,), "x")])
        graph.output(graph.inputs[0] + 1)
        model = jn.compile(graph, device="cpu", threads=4)
        model(np.ones(4, np.float32))
        def used():
            return min(threads.thread_limit() or 1024, threads.widest_pool())
        for own, other in ((1, 1), (2, 3), (2, 1), (3, 3), (1, 4)):
            mine = jn.limit_threads(own)
            mine.__enter__()
            theirs = threadpoolctl.threadpool_limits(other, user_api="joinery")
            assert used() == min(own, other), used()
            mine.__exit__(None, None, None)
            assert used() == other, (own, other, used())
            theirs.restore_original_limits()
            assert used() == 4, (own, other, used())
            theirs = threadpoolctl.threadpool_limits(other, user_api="joinery")
            mine = jn.limit_threads(own)
            mine.__enter__()
            theirs.restore_original_limits()
            assert used() == own, used()
            mine.__exit__(None, None, None)
            assert used() == 4, used()
        for wide in range(5, 9):  # of models that are made meanwhile
            limits = {"user_api": "blas", "limits": 1} if wide % 2 else {"user_api": "joinery", "limits": wide - 1}
            with threadpoolctl.threadpool_limits(**limits):
                jn.compile(graph, device="cpu", threads=wide)(np.ones(4, np.float32))
                assert used() == (wide if wide % 2 else wide - 1), used()
            assert used() == wide, used()
        with threadpoolctl.threadpool_limits(2 ** 40, user_api="joinery"):
            assert used() == 8, used()
        print("ended")
    """
    assert_prints(program, "ended")


MODEL = """
        import random, threading
        import joinery as jn, numpy as np, threadpoolctl
        from threadpoolctl import threadpool_info, threadpool_limits
        from joinery.runtime.host import threads
        graph = jn.Graph("g", [jn.TensorType(jn.float32, (4,), "x")])
        graph.output(graph.inputs[0] + 1)
        model = jn.compile(graph, device="cpu", threads=4)
        model(np.ones(4, np.float32))
        def held():
            (number,) = {threads.ctypes.c_int32.from_address(pool + 36).value for pool in threads._pools.values()}
            assert number == (threads.thread_limit() or 0)
            return threads.thread_limit()
"""


@pytest.mark.slow
def test_blocks_of_threadpoolctl_that_overlap_leave_no_limit() -> None:
    """The one that was entered last counts while it is not left, in whatever order they are left, and none stays."""
    pytest.importorskip("threadpoolctl")
    program = MODEL + """
        first = threadpool_limits(1)
        second = threadpool_limits(2)
        first.restore_original_limits()
        assert held() == 2
        second.restore_original_limits()
        assert held() is None
        for seed in range(300):
            choose, entered = random.Random(seed), []
            for _ in range(choose.randrange(1, 14)):
                if entered and choose.random() < 0.5:
                    left = entered.pop(choose.randrange(len(entered)))
                    left[0].restore_original_limits()
                else:
                    limit = choose.randrange(1, 5)
                    only = choose.choice([None, None, "blas"])  # finds and puts back, but does not limit joinery
                    entered.append((threadpool_limits(limit, user_api=only), limit, only))
                    choose.random() < 0.3 and threadpool_info()
                own = [limit for _, limit, only in entered if only is None]
                assert held() == (own[-1] if own else None), (seed, entered, held())
            for limiter, _, _ in choose.sample(entered, len(entered)):
                limiter.restore_original_limits()
            assert held() is None, seed
        wrong = []
        def blocks(number):
            for turn in range(60):
                with threadpool_limits(number + 1, user_api=None if turn % 3 else "blas"):
                    info = threadpool_info()
                    if turn % 2:
                        with threadpool_limits(number + 2):
                            pass
        callers = [threading.Thread(target=blocks, args=(number,)) for number in range(4)]
        [each.start() for each in callers]
        [each.join() for each in callers]
        assert held() is None, held()
        print("none")
    """
    assert_prints(program, "none")


@pytest.mark.slow
def test_limits_of_threadpoolctl_that_stay() -> None:
    """Without a block, a limit stays until what was found before is put back; given as limits, that holds in a block."""
    pytest.importorskip("threadpoolctl")
    program = MODEL + """
        import copy, os, pickle
        saved = threadpool_info()
        for number in range(1, 200):
            threadpool_limits(number)
        assert held() == 199
        from joinery.runtime.host.threadpools import _limits
        assert len(_limits._set) <= 2, "those that it hides are gone"
        with threadpool_limits(2):
            threadpool_limits(3)
            assert held() == 3
            with threadpool_limits(limits=saved):
                assert held() is None
            assert held() == 3
            with threadpool_limits(1):
                assert held() == 1
        assert held() == 199, "what was found"
        threadpool_limits(limits=saved)
        assert held() is None
        for copied in (copy.deepcopy(saved), pickle.loads(pickle.dumps(saved))):
            own = [each for each in copied if each["user_api"] == "joinery"]
            assert all(type(each["num_threads"]) is int for each in own) and len(own) == 1
        if threadpoolctl.__version__ >= "3.7":
            threadpool_info(debugging_info=True)
            assert held() is None, "which sets a limit in another thread to see where it holds"
        entered, leave = threading.Event(), threading.Event()
        def limit():
            with threadpool_limits(1):
                entered.set()
                leave.wait(60)
        other = threading.Thread(target=limit)
        with threadpool_limits(3):
            other.start()
            entered.wait(60)
            assert held() == 1
            child = os.fork()
            if not child:
                os._exit(0 if held() == 3 else 1)
            leave.set()
            other.join(60)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert held() is None
        print("stay")
    """
    assert_prints(program, "stay")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("wrong", ["many", "0", "-1", "99999", "1e3", "٣"])
def test_a_variable_that_is_no_number_does_not_concern_other_libraries(wrong: str) -> None:
    """threadpool_info and limits of others work, what uses the number says what is wrong, and a number in its place helps."""
    pytest.importorskip("threadpoolctl")
    program = f"""
        import os
        import joinery as jn, numpy as np, threadpoolctl
        from joinery.runtime.host import threads
        cores = threads.default_threads()
        os.environ["JOINERY_THREADS"] = {wrong!r}
        graph = jn.Graph("g", [jn.TensorType(jn.float32, (4,), "x")])
        graph.output(graph.inputs[0] + 1)
        assert jn.compile(graph, device="cpu", threads=1)(np.ones(4, np.float32))[0] == 2
        (own,) = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "joinery"]
        assert own["num_threads"] == cores, own
        assert "JOINERY_THREADS is " in own["problem"] and "fix: a number from 1 to 1024" in own["problem"], own
        with threadpoolctl.threadpool_limits(1):
            assert threads.thread_limit() == 1
        assert threads.thread_limit() is None
        for use in (lambda: jn.compile(graph, device="cpu"), threads.default_threads):
            try:
                use()
            except jn.UserError as error:
                assert str(error).splitlines()[0] == own["problem"], error
            else:
                raise SystemExit("no error")
        jn.set_threads(2)
        assert jn.compile(graph, device="cpu").threads == 2
        (own,) = [each for each in threadpoolctl.threadpool_info() if each["user_api"] == "joinery"]
        assert own["num_threads"] == 2, own
        print("told")
    """
    assert_prints(program, "told")
