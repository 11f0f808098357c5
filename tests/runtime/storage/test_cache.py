"""The compile cache: what is stored comes back, damage is a miss, and processes never harm each other."""

from __future__ import annotations

import os
import random
import signal
import stat
import subprocess
import sys
import textwrap
import time

import pytest
from joinery.runtime.storage.cache import CompileCache
from joinery.runtime.storage.serialize import encode_compiled


@pytest.fixture
def cache(tmp_path):
    return CompileCache(tmp_path / "cache")


def entries(cache: CompileCache) -> list[str]:
    return sorted(name for name in os.listdir(cache.directory) if name.endswith(".entry"))


def leftovers(cache: CompileCache) -> list[str]:
    return sorted(name for name in os.listdir(cache.directory) if not name.endswith(".entry"))


def test_what_is_stored_comes_back(cache, symbolic, many):
    assert cache.get("a") is None
    cache.put("a", symbolic)
    cache.put("b", many)
    assert cache.get("a") == symbolic
    assert cache.get("b") == many
    assert CompileCache(cache.directory).get("a") == symbolic
    assert (cache.hits, cache.misses, cache.problem) == (2, 1, None)
    assert (len(entries(cache)), leftovers(cache)) == (2, [])
    assert "2 hits, 1 misses" in repr(cache)


def test_keys_may_be_any_text(cache, symbolic):
    for key in ("", "../../etc/passwd", "a/b", "x" * 10_000, "ключ\n\0"):
        cache.put(key, symbolic)
        assert cache.get(key) == symbolic
    assert len(entries(cache)) == 5


def test_the_last_writer_wins(cache, symbolic, many):
    cache.put("a", symbolic)
    cache.put("a", many)
    assert cache.get("a") == many
    assert len(entries(cache)) == 1


def test_every_damaged_byte_is_noticed(cache, add16):
    cache.put("a", add16)
    path = cache.directory / entries(cache)[0]
    good = path.read_bytes()
    rng = random.Random(1)
    positions = [*range(0, 60), *(rng.randrange(len(good)) for _ in range(150))]
    for position in positions:
        bad = bytearray(good)
        bad[position] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        assert cache.get("a") is None, position
        assert not path.exists(), "a damaged entry is removed"
    path.write_bytes(good)
    assert cache.get("a") == add16


def test_truncated_and_extended_entries_are_misses(cache, add16):
    cache.put("a", add16)
    path = cache.directory / entries(cache)[0]
    good = path.read_bytes()
    for bad in (b"", good[:10], good[:56], good[:-1], good + b"\0", good * 2):
        path.write_bytes(bad)
        assert cache.get("a") is None
        assert not path.exists()
    cache.put("a", add16)
    assert cache.get("a") == add16


def test_an_entry_under_another_key_is_a_miss(cache, add16):
    cache.put("a", add16)
    os.rename(cache.directory / entries(cache)[0], cache._path("b"))
    assert cache.get("b") is None


def test_valid_bytes_that_are_no_graph_are_removed(cache):
    cache.put_bytes("a", b"not a compiled graph")
    assert cache.get_bytes("a") == b"not a compiled graph"
    assert cache.get("a") is None
    assert entries(cache) == []


def test_the_directory_is_private(cache, tmp_path, symbolic):
    assert stat.S_IMODE(cache.directory.stat().st_mode) == 0o700
    cache.put("a", symbolic)
    assert stat.S_IMODE((cache.directory / entries(cache)[0]).stat().st_mode) == 0o600
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    refused = CompileCache(shared)
    assert "others may write to the cache directory" in refused.problem
    refused.put("a", symbolic)
    assert refused.get("a") is None
    assert os.listdir(shared) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_not_used(tmp_path, symbolic):
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o700)
    os.chown(foreign, 12345, 12345)
    cache = CompileCache(foreign)
    assert "belongs to another user" in cache.problem
    cache.put("a", symbolic)
    assert cache.get("a") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_an_entry_of_another_user_is_not_used(cache, symbolic):
    cache.put("a", symbolic)
    os.chown(cache.directory / entries(cache)[0], 12345, 12345)
    assert cache.get("a") is None


def test_links_are_not_followed(cache, symbolic, tmp_path):
    cache.put("a", symbolic)
    path = cache.directory / entries(cache)[0]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.get("a") is None


def test_a_directory_that_cannot_be_made_or_written_only_costs_the_cache(tmp_path, symbolic, monkeypatch):
    (tmp_path / "file").write_text("")
    blocked = CompileCache(tmp_path / "file" / "cache")
    assert "cannot be used" in blocked.problem
    blocked.put("a", symbolic)
    assert blocked.get("a") is None
    full = CompileCache(tmp_path / "full")

    def no_space(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("joinery.runtime.storage.cache.os.replace", no_space)
    full.put("a", symbolic)
    assert "No space left on device" in full.problem
    assert full.get("a") is None
    assert os.listdir(full.directory) == []


def test_the_least_recently_used_go_first(tmp_path, symbolic):
    size = len(encode_compiled(symbolic)) + 200
    cache = CompileCache(tmp_path / "cache", budget_bytes=3 * size)
    for number, key in enumerate("abc"):
        cache.put(key, symbolic)
        os.utime(cache._path(key), (1000 + number, 1000 + number))
    assert cache.get("a") is not None  # now the most recent
    cache.put("d", symbolic)
    assert {key for key in "abcd" if cache.get(key)} == {"a", "c", "d"}


def test_remains_of_dead_writers_are_removed_and_live_ones_left(cache, symbolic):
    old, new = cache.directory / ".writing-old", cache.directory / ".writing-new"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    cache.put("a", symbolic)
    assert leftovers(cache) == [".writing-new"]


def test_clear(cache, symbolic):
    cache.put("a", symbolic)
    cache.clear()
    assert entries(cache) == []


WRITER = textwrap.dedent(
    """
    import sys
    from joinery.runtime.storage.cache import CompileCache
    from joinery.runtime.storage.serialize import decode_compiled
    with open(sys.argv[2], "rb") as file:
        compiled = decode_compiled(file.read())
    cache = CompileCache(sys.argv[1])
    print("ready", flush=True)
    turns = int(sys.argv[3])
    turn = 0
    while turn != turns:
        key = f"key{turn % 5}"
        found = cache.get(key)
        assert found is None or found == compiled, key
        cache.put(key, compiled)
        turn += 1
    assert cache.problem is None, cache.problem
    """
)


def writer(directory, source, turns: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(directory), str(source), str(turns)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.slow
def test_ten_processes_share_one_cache(cache, symbolic, tmp_path):
    source = tmp_path / "compiled"
    source.write_bytes(encode_compiled(symbolic))
    workers = [writer(cache.directory, source, 40) for _ in range(10)]
    for worker in workers:
        _, errors = worker.communicate(timeout=60)
        assert worker.returncode == 0, errors
    assert len(entries(cache)) == 5
    assert leftovers(cache) == []
    assert all(cache.get(f"key{i}") == symbolic for i in range(5))


@pytest.mark.slow
def test_kill_during_writes_leaves_a_usable_cache(cache, symbolic, tmp_path):
    source = tmp_path / "compiled"
    source.write_bytes(encode_compiled(symbolic))
    rng = random.Random(0)
    for _ in range(6):
        worker = writer(cache.directory, source, -1)
        assert worker.stdout.readline() == "ready\n"
        time.sleep(rng.uniform(0.001, 0.05))
        worker.send_signal(signal.SIGKILL)
        worker.communicate(timeout=30)
        fresh = CompileCache(cache.directory)
        for key in range(5):
            assert fresh.get(f"key{key}") in (None, symbolic)
        # whatever is there is whole: nothing had to be removed as damaged
        assert fresh.hits == len(entries(cache))
    for name in leftovers(cache):
        os.utime(cache.directory / name, (0, 0))
    cache.put("after", symbolic)
    assert cache.get("after") == symbolic
    assert leftovers(cache) == []
