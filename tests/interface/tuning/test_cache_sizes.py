"""Sizes of caches by the time of dependent accesses: right for made-up machines, in noise, and kept for later processes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from joinery.interface.cli.main import main
from joinery.interface.tuning import cache_sizes as measuring
from joinery.interface.tuning.cache_sizes import LINE, Latency, cache_sizes
from joinery.lowering import machine

KIB, MIB = 1 << 10, 1 << 20


SECONDS = (1.4e-9, 4.2e-9, 14e-9, 90e-9)


def made_up(sizes: tuple[int, int, int], noise: float = 0.0) -> list[Latency]:
    """Latencies of a machine with caches of these sizes, which fill up between three quarters and all of them."""
    random = np.random.default_rng(3)
    found = []
    for nbytes in measuring._sizes():
        level = sum(nbytes > size for size in sizes)
        value = SECONDS[level]
        if level < 3 and nbytes > 0.75 * sizes[level]:
            value = (value + SECONDS[level + 1]) / 2
        found.append(Latency(nbytes, value * (1 + noise * random.random())))
    return found


@pytest.mark.parametrize("sizes", [(32 * KIB, MIB, 32 * MIB), (48 * KIB, 2 * MIB, 24 * MIB), (64 * KIB, 512 * KIB, 8 * MIB)])
@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_made_up_machines(sizes: tuple[int, int, int], noise: float) -> None:
    assert cache_sizes(made_up(sizes, noise), sizes) == sizes
    lied = (8 * KIB, 4 * MIB, 256 * MIB)
    for found, true in zip(cache_sizes(made_up(sizes, noise), lied), sizes, strict=True):
        assert 0.55 * true <= found <= true


def test_one_slow_measurement_ends_no_level() -> None:
    sizes = (32 * KIB, MIB, 32 * MIB)
    found = made_up(sizes)
    for number in range(4, len(found), 7):
        found[number] = Latency(found[number].nbytes, found[number].seconds * 20)
    assert cache_sizes(found, sizes) == sizes


def test_a_level_without_an_end_is_as_reported() -> None:
    sizes = (32 * KIB, MIB, 512 * MIB)
    assert cache_sizes(made_up(sizes), sizes) == sizes
    assert cache_sizes(made_up(sizes), (32 * KIB, MIB, 16 * MIB))[2] == 16 * MIB


@pytest.mark.parametrize("lines", [1, 2, 128, 1000])
def test_a_chain_visits_every_line_once(lines: int) -> None:
    chain = measuring._chain(lines, np.random.default_rng(1))
    seen, at = [], 0
    for _ in range(lines):
        seen.append(at)
        at = int(chain[at])
    assert at == 0
    assert sorted(seen) == list(range(0, lines * LINE // 8, LINE // 8))


class Kept:
    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def recall(self, key: str) -> bytes | None:
        return self.data.get(key)

    def put_bytes(self, key: str, data: bytes) -> None:
        self.data[key] = data


def test_sizes_are_kept_and_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Kept()
    monkeypatch.setattr(machine, "_stores", [store])
    assert machine.measured_caches() is None
    if not machine.keep_caches((1, 2, 3)):
        pytest.skip("the system does not describe its CPU")
    assert machine.measured_caches() == (1, 2, 3)
    (key,) = store.data
    for data in (b"", b"[]", b"[1, 2]", b"[1, 2, 0]", b'[1, 2, "3"]', b"[1, 2, true]", b"{}", b"\xff"):
        store.data[key] = data
        assert machine.measured_caches() is None


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(machine, "_stores", [Kept()])
    monkeypatch.setattr(measuring, "latencies", lambda: made_up((32 * KIB, MIB, 32 * MIB)))
    assert main(["doctor", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cpu"]["measured_caches"] is None
    assert main(["doctor", "--measure-caches", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["cpu"]
    assert len(found["measured_caches"]) == len(found["reported_caches"]) == 3
    assert main(["doctor"]) == 0
    assert "caches measured: " in capsys.readouterr().out
    monkeypatch.setattr(machine, "_key", lambda what: None)
    assert main(["doctor", "--measure-caches"]) == 1
    assert "not kept" in capsys.readouterr().err


def test_what_two_measurements_do_not_agree_about_is_as_reported() -> None:
    assert measuring.confirmed((32, 700, 11), (32, 800, 32), (32, 1024, 32)) == (32, 700, 32)


@pytest.mark.slow
def test_a_measurement_of_this_machine() -> None:
    found = measuring.latencies()
    assert [each.nbytes for each in found] == measuring._sizes()
    assert found[0].seconds < found[-1].seconds
