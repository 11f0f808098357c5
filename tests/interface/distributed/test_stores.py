"""Copies of models on a host: whole or not there, removed when they are old or too many, but never while somebody uses them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.interface.distributed import references, stores
from joinery.interface.distributed.stores import ModelStore

from .conftest import rows, scorer, scores

needs_locks = pytest.mark.skipif(stores.fcntl is None, reason="this system has no locks of files")
DAY = 86400.0


@pytest.fixture(scope="module")
def models() -> list[jn.Model]:
    return [jn.compile(scorer(name), device="cpu") for name in "abcd"]


def put(store: ModelStore, model: jn.Model, days: float = 0.0) -> Path:
    """Write a model, which was last opened that many days ago."""
    with store.writing(model.digest) as path:
        model.save(path)
    age(store.path(model.digest), days)
    return store.path(model.digest)


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def limit(monkeypatch: pytest.MonkeyPatch, copies: float, size: int) -> None:
    """Let the store have that many files of a size."""
    usage = namedtuple("usage", "total used free")(int(copies * size * stores.KEPT_SHARE), 0, 0)
    monkeypatch.setattr(stores.shutil, "disk_usage", lambda folder: usage)


def held_elsewhere(store: ModelStore, digest: str) -> subprocess.Popen[str]:
    """A process that has a file open until its input ends."""
    text = (
        "import sys; from pathlib import Path; from joinery.interface.distributed.stores import ModelStore\n"
        f"file = ModelStore(Path({str(store.folder)!r})).get({digest!r}); print(file is not None, flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    return process


def test_what_is_not_whole_is_not_there(tmp_path: Path, models: list[jn.Model]) -> None:
    store = ModelStore(tmp_path)
    assert store.get(models[0].digest) is None
    path = put(store, models[0])
    changed = path.stat().st_mtime_ns
    with store.get(models[0].digest) as file:  # type: ignore[union-attr]
        assert file.read() == path.read_bytes()
    assert path.stat().st_mtime_ns == changed
    path.write_bytes(path.read_bytes()[:-1])
    assert store.get(models[0].digest) is None
    os.replace(put(store, models[1]), path)
    assert store.get(models[0].digest) is None


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path, models: list[jn.Model]) -> None:
    store = ModelStore(tmp_path)
    with pytest.raises(ZeroDivisionError), store.writing(models[0].digest) as path:
        path.write_bytes(b"%d" % (1 // 0))
    assert list(tmp_path.glob("*joinery")) == []


@needs_locks
def test_old_copies_go(tmp_path: Path, models: list[jn.Model]) -> None:
    store = ModelStore(tmp_path)
    old, recent = put(store, models[0], days=31), put(store, models[1], days=29)
    others = [tmp_path / "mine.joinery", tmp_path / f"{'0' * 64}.txt"]
    left = [tmp_path / ".new-1.joinery", tmp_path / ".new-2.joinery"]
    for path in [*others, *left]:
        path.write_bytes(b"")
    for path in [*others, left[0]]:
        age(path, 40)
    store.trim(models[2].digest)
    assert not old.exists()
    assert recent.exists()
    assert [path.exists() for path in [*others, *left]] == [True, True, False, True]


@needs_locks
def test_the_copies_that_were_opened_least_recently_go_first(
    tmp_path: Path, models: list[jn.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ModelStore(tmp_path)
    paths = [put(store, model, days) for model, days in zip(models, (3, 1, 2, 0.01), strict=True)]
    limit(monkeypatch, 2.5, paths[0].stat().st_size)
    with store.get(models[0].digest):  # type: ignore[union-attr] # now it was opened last
        pass
    store.trim(models[3].digest)
    assert [path.exists() for path in paths] == [True, False, False, True]
    limit(monkeypatch, 0, 1)
    store.trim(models[3].digest)
    assert [path.exists() for path in paths] == [True, False, False, True]  # within an hour, and the one that is kept


@needs_locks
def test_a_copy_stays_while_another_process_uses_it(tmp_path: Path, models: list[jn.Model]) -> None:
    store = ModelStore(tmp_path)
    paths = [put(store, model) for model in models[:2]]
    process = held_elsewhere(store, models[1].digest)
    try:
        for path in paths:
            age(path, 50)
        store.trim(models[2].digest)
        assert [path.exists() for path in paths] == [False, True]
    finally:
        process.communicate("")
    store.trim(models[2].digest)
    assert not paths[1].exists()


@needs_locks
def test_a_model_that_a_reference_was_made_to_stays(
    tmp_path: Path, models: list[jn.Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(references, "default_directory", lambda: tmp_path)
    monkeypatch.setattr(references, "_written_files", {})
    made = jn.distributed.reference(models[0])
    age(Path(made.location), 50)
    store = ModelStore(tmp_path / "models")
    store.trim(models[1].digest)
    assert Path(made.location).exists()
    references._written_files.clear()
    store.trim(models[1].digest)
    assert not Path(made.location).exists()
    assert jn.distributed.reference(models[0]) == made
    assert Path(made.location).exists()


def test_a_file_that_was_brought_is_read_after_it_was_removed(
    tmp_path: Path, models: list[jn.Model], forgotten: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.name != "posix":
        pytest.skip("files that are open cannot be removed here")
    monkeypatch.setattr(references, "_carried", {})
    store = ModelStore(tmp_path)
    put(store, models[0])
    file = store.get(models[0].digest)
    assert file is not None
    references.carry(models[0].digest, file)
    store.path(models[0].digest).unlink()
    reference = jn.distributed.ModelReference("a", models[0].digest, "/nowhere/a.joinery", trusted=True, threads=1)
    np.testing.assert_allclose(reference()(rows(3)), scores(rows(3)), rtol=1e-5)


CROWD = """
import os, random, sys, time
from pathlib import Path
from joinery.interface.distributed import stores
from joinery.runtime.storage import artifact_file

store, seed = stores.ModelStore(Path(sys.argv[1])), int(sys.argv[2])
files = sorted(Path(sys.argv[3]).glob("*.joinery"))
stores._SPARED_SECONDS = 0.0
stores.KEPT_SHARE = 1 << 60  # nothing may stay that nobody uses
chance, held, found, missing, end = random.Random(seed), [], 0, 0, time.monotonic() + float(sys.argv[4])
while time.monotonic() < end:
    source = chance.choice(files)
    digest = source.stem
    file = store.get(digest)
    if file is None:
        missing += 1
        with store.writing(digest) as path:
            path.write_bytes(source.read_bytes())
        file = store.get(digest, check=False)
        if file is None:  # another process has removed it, since nobody had it open
            continue
    found += 1
    assert stores.is_whole(file, digest)
    held.append((file, store.path(digest)))
    if len(held) > 2:
        file, path = held.pop(0)
        assert path.exists() and os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        file.close()
    store.trim("")
print(found, missing)
"""


@pytest.mark.slow
@needs_locks
@pytest.mark.parametrize("seconds", [1, pytest.param(4, marks=pytest.mark.slow)])
def test_processes_that_write_use_and_remove_at_once(tmp_path: Path, models: list[jn.Model], seconds: int) -> None:
    """Whatever one of them gets is whole, and nothing that is in use is removed."""
    for model in models:
        model.save(tmp_path / f"{model.digest}.joinery")
    folder = tmp_path / "store"
    folder.mkdir()
    command = [sys.executable, "-c", CROWD, str(folder)]
    crowd = [
        subprocess.Popen(
            [*command, str(seed), str(tmp_path), str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for seed in range(3)
    ]
    for process in crowd:
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        found, missing = map(int, out.split())
        assert found > missing > 1
    assert list(folder.glob(".new-*")) == []


@pytest.mark.skipif(os.name != "posix", reason="files have no owners here")
@pytest.mark.parametrize("mode", [0o700, 0o777])
def test_a_model_is_brought_to_a_folder_of_the_users_own(
    tmp_path: Path, models: list[jn.Model], mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    monkeypatch.setattr(references, "_carried", {})
    reference = jn.distributed.reference(models[0], directory=tmp_path)
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0", local_directory=tmp_path, silence_logs=50
    ) as cluster, distributed.Client(cluster) as client:  # fmt: skip
        (worker,) = cluster.workers.values()
        folder = Path(worker.local_directory).parent / "joinery-models"
        folder.mkdir()
        folder.chmod(mode)
        if mode == 0o700:
            jn.distributed.bring(client, reference)
            assert Path(references._carried[reference.digest].name) == ModelStore(folder).path(reference.digest)
        else:
            with pytest.raises(jn.distributed.RunError, match=r"others may write to .*joinery-models; fix: chmod 700"):
                jn.distributed.bring(client, reference)
            assert list(folder.iterdir()) == []
