"""Certificates that are not there, do not fit or are of another authority are named, with the setting that they come from."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import joinery as jn
import pytest
from joinery.interface.distributed.batch.connecting import connected

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
dask = pytest.importorskip("dask")

KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /CN={0} -keyout {0}-key.pem"
AUTHORITY = f"openssl req -x509 {KEY} -days 9 -out {{0}}.pem"
SIDE = (
    f"openssl req {KEY} -out {{0}}.csr && "
    "openssl x509 -req -in {0}.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 9 -out {0}.pem"
)
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl, which makes certificates")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    commands = [*map(AUTHORITY.format, ("ca", "other")), *map(SIDE.format, ("scheduler", "client"))]
    subprocess.run(["sh", "-ec", "\n".join(commands)], cwd=folder, check=True, capture_output=True)
    (folder / "words.pem").write_text("no certificate")
    return folder


@pytest.fixture(scope="module")
def address(files: Path) -> Iterator[str]:
    """The address of a scheduler without workers, whose certificate is of the first authority."""
    security = distributed.Security(
        require_encryption=True, tls_ca_file=str(files / "ca.pem"), tls_scheduler_cert=str(files / "scheduler.pem"),
        tls_scheduler_key=str(files / "scheduler-key.pem"), tls_client_cert=str(files / "client.pem"),
        tls_client_key=str(files / "client-key.pem"),
    )  # fmt: skip
    with distributed.LocalCluster(
        n_workers=0, protocol="tls://", security=security, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.parametrize(
    ("ca", "cert", "key", "message"),
    [
        ("ca", "client", "gone", r"gone\.pem, which Dask's configuration has for the client's key, cannot be read: No"),
        ("gone", "client", "client-key", r"gone\.pem, .* for the client's ca_file, .*fix: DASK_.*__TLS__CA_FILE"),
        ("ca", "gone", "client-key", r"gone\.pem, .* for the client's cert, .*fix: DASK_.*__CLIENT__CERT"),
        ("ca", "client", "other-key", "the client's certificates .* cannot be used: .*KEY_VALUES_MISMATCH"),
        ("words", "client", "client-key", r"the client's certificates .*words\.pem.* cannot be used"),
        ("other", "client", "client-key", r"TLS fails: .*certificate verify failed.*here .*other\.pem"),
        ("ca", "other", "other-key", r"TLS fails: .*fix: certificates of one authority"),
        ("", "", "", "Dask's configuration has no certificate of the client: ca_file is missing"),
    ],
)
def test_what_is_wrong_with_certificates(
    files: Path, address: str, ca: str, cert: str, key: str, message: str
) -> None:
    paths = [str(files / f"{name}.pem") if name else None for name in (ca, cert, key)]
    names = ("ca-file", "client.cert", "client.key")
    settings = {f"distributed.comm.tls.{name}": path for name, path in zip(names, paths, strict=True)}
    with dask.config.set(settings), pytest.raises(jn.UserError, match=f"--scheduler {address}: .*{message}") as caught:
        connected(distributed, address)
    assert "does not answer" not in str(caught.value)


def test_certificates_that_fit(files: Path, address: str) -> None:
    settings = {"ca-file": "ca.pem", "client.cert": "client.pem", "client.key": "client-key.pem"}
    with dask.config.set({f"distributed.comm.tls.{name}": str(files / file) for name, file in settings.items()}):
        with connected(distributed, address) as client:
            assert client.scheduler_info()["address"] == address
        texts = {f"distributed.comm.tls.{name}": (files / file).read_text() for name, file in settings.items()}
    with dask.config.set(texts), connected(distributed, address) as client:
        assert client.scheduler_info()["address"] == address
