"""Two hosts that share no disk, with Dask over TLS between them: network and mount namespaces of this machine, and a cable.

The commands are those of the guide. Each host has the folder `host` to itself, under the same path; all else is read-only.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

from ...support.namespaces import ALONE, why_no_hosts
from .conftest import rows

pytest.importorskip("distributed", reason="the extra dask is not installed")

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts())]

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "distributed.md"
CERTIFICATES, COMMANDS, CLIENT = re.findall(
    r"^```(?:sh|py)\n(.*?)^```$",
    GUIDE.read_text(encoding="utf-8").partition("### TLS between hosts\n")[2].partition("\n### ")[0], re.MULTILINE | re.DOTALL,
)  # fmt: skip
HOST = """
mount --bind {folder}/{name} {folder}/host
mount -t tmpfs nothing {folder}/one && mount -t tmpfs nothing {folder}/two
mount --bind {folder}/host/hosts /etc/hosts
{alone}
cd {folder}/host
export HOME=$PWD TMPDIR=$PWD XDG_CACHE_HOME=$PWD/cache
"""
FIRST = """
set -e
unshare -nm sh -c {second} &
until [ "$(readlink /proc/$!/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.05; done
ip link add cable type veth peer name cable netns $!
ip address add 10.77.0.1/24 dev cable && ip link set cable up
{host}
{scheduler} > scheduler.log 2>&1 &
python client.py
"""
SECOND = """
set -e
until ip link show cable > link.log 2>&1; do sleep 0.05; done
ip address add 10.77.0.2/24 dev cable && ip link set cable up
{host}
{worker} --local-directory $PWD/workers > first.log 2>&1 &
until [ -e more ]; do sleep 0.05; done
{worker} --local-directory $PWD/workers > second.log 2>&1
"""
BEFORE = """
import hashlib, json, os, socket, subprocess, sys
from pathlib import Path
import joinery as jn
import numpy as np

x = np.load("x.npy")
reference = jn.distributed.reference("model.joinery", trusted=True, threads=1)
blocks = [x[at : at + 100] for at in range(0, len(x), 100)]
"""
AFTER = """
found = {}
with Client("tls://head:8786", security=security) as client:
    found["second"] = client.run(os.listdir, ".")
    Path("begun").touch()
    client.wait_for_workers(2, timeout=300)
    found["workers"] = sorted(client.scheduler_info(n_workers=-1)["workers"])
    found["copies"] = client.run(lambda: [str(path) for path in Path("workers").rglob("*.joinery")])
    outs = [out for _, out in jn.distributed.stream(reference, blocks, client, in_flight=1)]
    found["digest"] = hashlib.sha256(np.concatenate(outs).tobytes()).hexdigest()
    found["opened"] = client.run(lambda: len(jn.interface.distributed.references._models))
for name, keywords in {
    "plain": dict(address="tcp://head:8786"),
    "stranger": dict(address="tls://head:8786", security=Security(
        require_encryption=True, tls_ca_file="ca.pem", tls_client_cert="strange/client.pem",
        tls_client_key="strange/client-key.pem",
    )),
}.items():
    try:
        Client(timeout=10, **keywords)
        found[name] = "it got in"
    except OSError as error:
        found[name] = type(error).__name__
batch = [
    sys.executable, "-m", "joinery", "batch", "model.joinery", "--input", "x=x.npy", "--output", "y.zarr", "--quiet",
    "--trusted", "--scheduler", "tls://head:8786",
]
tls = "DASK_DISTRIBUTED__COMM__TLS__"
files = {tls + "CA_FILE": "ca.pem", tls + "CLIENT__CERT": "client.pem", tls + "CLIENT__KEY": "client-key.pem"}
for name, more in {"batch": files, "batch without": {}}.items():
    done = subprocess.run([*batch, "--bring"], capture_output=True, text=True, env=os.environ | more)
    found[name] = [done.returncode, " ".join(done.stderr.split())]
Path("found.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory, model_path: Path) -> Path:
    """The folders of both hosts, after all has run."""
    folder = tmp_path_factory.mktemp("hosts")
    for name in ("host", "one", "one/strange", "two"):
        (folder / name).mkdir()
    for name in ("one", "one/strange"):  # an authority of somebody else
        subprocess.run(["sh", "-ec", CERTIFICATES], cwd=folder / name, check=True, capture_output=True)
    for name in ("ca.pem", "worker.pem", "worker-key.pem"):
        shutil.copy(folder / "one" / name, folder / "two" / name)
    for name in ("one", "two"):
        (folder / name / "hosts").write_text("127.0.0.1 localhost\n10.77.0.1 head\n")
    shutil.copy(model_path, folder / "one" / "model.joinery")
    np.save(folder / "one" / "x.npy", rows(1000))
    (folder / "one" / "client.py").write_text(f"{BEFORE}{CLIENT}{AFTER}")
    scheduler, worker = COMMANDS.splitlines()
    second = SECOND.format(host=HOST.format(folder=folder, name="two", alone=ALONE), worker=worker)
    first = FIRST.format(
        host=HOST.format(folder=folder, name="one", alone=ALONE), scheduler=scheduler, second=shlex.quote(second)
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    started = ["unshare", "-Urnm", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", first]
    with subprocess.Popen(started, env=os.environ | {"PATH": path}, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 300
        while not (folder / "one" / "begun").exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        (folder / "two" / "more").touch()
        try:
            _, errors = process.communicate(timeout=600)
        finally:
            process.kill()
    logs = [path.read_text() for path in sorted(folder.glob("*/*.log"))]
    assert process.returncode == 0, "\n".join([errors, *logs])
    return folder


@pytest.fixture(scope="module")
def found(hosts: Path) -> dict[str, object]:
    return dict(json.loads((hosts / "one" / "found.json").read_text()))


def test_the_bits_are_those_of_one_process(hosts: Path, found: dict[str, object]) -> None:
    x = rows(1000)
    whole = jn.distributed.reference(hosts / "one" / "model.joinery", trusted=True, threads=1)()(x)
    brought = np.concatenate([np.load(hosts / "one" / f"{number}.npy") for number in range(10)])
    assert brought.tobytes() == whole.tobytes()
    assert found["digest"] == hashlib.sha256(whole.tobytes()).hexdigest()


def test_the_hosts_share_nothing_but_the_cable(found: dict[str, object]) -> None:
    (listed,) = found["second"].values()  # type: ignore[attr-defined]
    assert "model.joinery" not in listed
    assert {"worker.pem", "workers"} <= set(listed)
    assert all(address.startswith("tls://10.77.0.2:") for address in found["workers"])  # type: ignore[attr-defined]


def test_a_worker_that_comes_later_uses_the_file_of_its_host(hosts: Path, found: dict[str, object]) -> None:
    assert len(found["workers"]) == 2  # type: ignore[arg-type]
    assert [len(copies) for copies in found["copies"].values()] == [1, 1]  # type: ignore[attr-defined]
    assert list(found["opened"].values()) == [1, 1]  # type: ignore[attr-defined] # both have computed blocks
    assert len(list((hosts / "two").rglob("*.joinery"))) == 1


def test_who_has_no_certificate_does_not_get_in(found: dict[str, object]) -> None:
    assert found["plain"] != "it got in"
    assert found["stranger"] != "it got in"


def test_the_command_takes_certificates_from_the_configuration(found: dict[str, object]) -> None:
    """It gets as far as the first block, whose rows the other host does not have."""
    status, errors = found["batch"]  # type: ignore[misc]
    assert status == 2
    assert "x.npy cannot be read: No such file or directory; fix: a path that all workers see" in errors
    status, errors = found["batch without"]  # type: ignore[misc]
    assert status == 2
    assert "--scheduler tls://head:8786: Dask's configuration has no certificate of the client" in errors
    assert "Traceback" not in errors
