"""The recipes of the guide: those for MPI, Spark and Ray Serve run; the packages of the others look at theirs."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def recipe(title: str) -> str:
    """The code below a heading of the guide."""
    found = re.search(rf"^### {title}\n.*?^```py\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
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


def test_arguments_for_ssh() -> None:
    from distributed import SSHCluster

    assert {"hosts", "worker_options"} <= set(inspect.signature(SSHCluster).parameters)
