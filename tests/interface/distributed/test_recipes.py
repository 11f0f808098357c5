"""The recipes of the guide: those for MPI, Spark, Ray Serve and SSH run; the packages of the others look at theirs."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

from ...support.namespaces import ALONE, why_no_hosts

pytest.importorskip("distributed", reason="the extra dask is not installed")
pytestmark = pytest.mark.slow

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "distributed.md"
PRELUDE = """
import joinery as jn
import numpy as np

reference = jn.distributed.reference({model!r}, trusted=True, threads=1)
x = np.random.default_rng(4).standard_normal((600, 16)).astype(np.float32)
blocks = [x[at : at + 100] for at in range(0, 600, 100)]
"""


def recipe(title: str, language: str = "py") -> str:
    """The code below a heading of the guide."""
    code = rf"^### {title}\n.*?^```{language}\n(.*?)^```$"
    found = re.search(code, GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found.group(1)


def run(tmp_path: Path, model: Path, text: str, *before: str) -> str:
    path = tmp_path / "run.py"
    path.write_text(PRELUDE.format(model=str(model)) + text)
    command = [*before, str(path)] if before else [sys.executable, str(path)]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "RAY_raylet_start_wait_time_s": "300"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mpi(tmp_path: Path, model_path: Path) -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    launcher = Path(sys.executable).with_name("mpiexec")
    if not launcher.exists():
        pytest.skip("there is no mpiexec beside Python")
    run(tmp_path, model_path, recipe("MPI"), str(launcher), "-n", "3", sys.executable, "-m", "mpi4py.futures")
    check = "\nfound = np.concatenate([np.load(f'{n}.npy') for n in range(6)])\nprint(np.array_equal(found, reference()(x)))\n"
    assert run(tmp_path, model_path, check) == "True\n"


def test_spark(tmp_path: Path, model_path: Path) -> None:
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    before = """
import pandas as pd
from pyspark.sql import SparkSession
session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = session.createDataFrame([(number, row.tolist()) for number, row in enumerate(x)], "id long, x array<float>")
"""
    after = """
import pyarrow.parquet
found = pyarrow.parquet.read_table("scores.parquet").sort_by("id").column("y").to_pylist()
print(np.allclose(np.array(found, np.float32), reference()(x), rtol=1e-6))
"""
    assert run(tmp_path, model_path, before + recipe("Spark") + after).endswith("True\n")


def test_ray_serve(tmp_path: Path, model_path: Path) -> None:
    pytest.importorskip("ray.serve", reason="Ray Serve is not installed")
    before = "\nimport ray\nray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)\n"
    after = """
answers = [handle.remote(row) for row in x[:50]]
found = np.stack([answer.result() for answer in answers])
print(np.allclose(found, reference()(x[:50]), rtol=1e-6))
serve.shutdown()
"""
    assert "True\n" in run(tmp_path, model_path, before + recipe("Ray Serve") + after)  # Ray prints there, too


def test_ray_data(tmp_path: Path, model_path: Path) -> None:
    """Rows are lists in a Parquet file, beside a key, which goes through."""
    pytest.importorskip("ray.data", reason="Ray Data is not installed")
    before = """
import pyarrow as pa
import pyarrow.parquet as pq
import ray
pq.write_table(pa.table({"x": pa.array(x.tolist(), pa.list_(pa.float32())), "id": np.arange(600)}), "rows.parquet")
ray.init(num_cpus=4, log_to_driver=False, include_dashboard=False)
"""
    after = """
found = pq.read_table("scores").sort_by("id")
print(np.allclose(np.array(found.column("y").to_pylist()), reference()(x), rtol=1e-6), found.num_rows)
"""
    written = recipe("Ray Data").replace("size=4", "size=2").replace("num_cpus=8", "num_cpus=1")
    assert "True 600\n" in run(tmp_path, model_path, before + written + after)


def test_a_script_for_slurm() -> None:
    jobqueue = pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed")
    cluster = jobqueue.SLURMCluster(queue="batch", cores=32, processes=1, memory="64GB", walltime="02:00:00")
    made = "SLURMCluster" + recipe("Slurm").partition("SLURMCluster(")[2].partition(")")[0]
    assert made == 'SLURMClusterqueue="batch", cores=32, processes=1, memory="64GB", walltime="02:00:00"'
    try:
        script = cluster.job_script()
    finally:
        cluster.close()
    assert "#SBATCH --cpus-per-task=32" in script
    assert "--nthreads 32" in script


def test_a_specification_for_kubernetes() -> None:
    operator = pytest.importorskip("dask_kubernetes.operator", reason="dask-kubernetes is not installed")
    names = {"make_cluster_spec": operator.make_cluster_spec}
    lines = recipe("Kubernetes").splitlines()[2:]
    exec("\n".join(line for line in lines if not line.startswith("cluster =")), names)
    worker = names["spec"]["spec"]["worker"]  # type: ignore[index]
    assert worker["replicas"] == 4
    assert worker["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "16", "memory": "32Gi"}}
    assert "custom_cluster_spec" in inspect.signature(operator.KubeCluster.__init__).parameters


def test_a_job_of_kuberay(tmp_path: Path) -> None:
    """Its command runs on a cluster that Ray's variable names; of the rest only the syntax is looked at."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    job = yaml.safe_load(recipe("KubeRay", "yaml"))
    cluster = job["spec"]["rayClusterSpec"]
    assert (job["kind"], cluster["workerGroupSpecs"][0]["template"]) == ("RayJob", cluster["headGroupSpec"]["template"])
    graph = jn.Graph("doubled", inputs=[jn.TensorType(jn.float32, ("n", 16), name="x")])
    graph.output(graph.inputs[0] * 2)
    (tmp_path / "data").mkdir()
    jn.compile(graph).save(tmp_path / "data" / "model.joinery")
    rows = np.arange(1600, dtype=np.float32).reshape(100, 16)
    np.save(tmp_path / "data" / "rows.npy", rows)
    given = job["spec"]["entrypoint"].replace("/data/", f"{tmp_path}/data/").replace("--threads 16", "--threads 1").split()
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        surroundings = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
        command = [sys.executable, "-m", "joinery", *given[1:]]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings, timeout=300)
    finally:
        ray.shutdown()
    assert done.returncode == 0, done.stdout + done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "data" / "scores.npy"), rows * 2)


SERVER = """
import asyncio, os, sys
from pathlib import Path
import asyncssh

async def handle(process):
    print(process.get_extra_info("sockname")[0], process.command.split(" ", 1)[0], file=sys.stderr, flush=True)
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    child = await asyncio.create_subprocess_shell(process.command, stdin=nothing, stdout=pipe, stderr=pipe)
    await asyncio.gather(copied(child.stdout, process.stdout), copied(child.stderr, process.stderr))
    process.exit(await child.wait())

async def copied(source, target):
    while data := await source.read(1 << 16):
        target.write(data)

async def main():
    home = Path(os.environ["HOME"], ".ssh")
    home.mkdir(mode=0o700)
    host, user = asyncssh.generate_private_key("ssh-ed25519"), asyncssh.generate_private_key("ssh-ed25519")
    user.write_private_key(home / "id_ed25519")
    (home / "keys").write_bytes(user.export_public_key())
    public = host.export_public_key().decode()
    (home / "known_hosts").write_text("".join(f"{name} {public}" for name in ("head", "node1", "node2")))
    options = dict(server_host_keys=[host], authorized_client_keys=str(home / "keys"), process_factory=handle, encoding=None)
    async with await asyncssh.listen("", 22, **options):
        Path("ready").touch()
        await asyncio.Event().wait()

asyncio.run(main())
"""
NODES = """
set -e
mount --bind {folder}/hosts /etc/hosts
mount --bind {folder} {folder}
{alone}
cd {folder} && export HOME=$PWD TMPDIR=$PWD
{python} server.py 2> server.log &
until [ -e ready ]; do sleep 0.05; done
{python} run.py
"""


@pytest.mark.skipif(bool(why_no_hosts()), reason=why_no_hosts())
def test_ssh(tmp_path: Path, model_path: Path) -> None:
    """Three addresses of a network namespace, and a server of asyncssh for all of them, which starts what it is told to."""
    pytest.importorskip("asyncssh", reason="asyncssh, which SSHCluster needs, is not installed")
    names = "127.0.1.1 head\n127.0.1.2 node1\n127.0.1.3 node2\n"
    (tmp_path / "hosts").write_text(f"127.0.0.1 localhost {socket.gethostname()}\n{names}")
    (tmp_path / "server.py").write_text(SERVER)
    body = f"""{recipe("SSH")}
with cluster, Client(cluster) as client:
    client.wait_for_workers(2, timeout=300)
    found = np.concatenate([out for _, out in jn.distributed.stream(reference, blocks, client)])
    print(np.array_equal(found, reference()(x)))
"""
    before = PRELUDE.format(model=str(model_path)) + "from distributed import Client\n"
    (tmp_path / "run.py").write_text(before + "if __name__ == '__main__':\n" + textwrap.indent(body, "    "))
    script = NODES.format(folder=tmp_path, alone=ALONE, python=shlex.quote(sys.executable))
    command = ["unshare", "-Urnm", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    log = (tmp_path / "server.log").read_text()
    assert done.returncode == 0, done.stderr + log
    assert done.stdout.endswith("True\n")
    started = {line.split()[0] for line in log.splitlines() if line.endswith(" env")}
    assert started == {"127.0.1.1", "127.0.1.2", "127.0.1.3"}
