"""Connects to a scheduler of Dask, and says what is wrong with the address or with the certificates."""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ....promotion.errors import UserError

_SECONDS = 30
_VARIABLE = "DASK_DISTRIBUTED__COMM__TLS__"
_SETTINGS = {"ca_file": "CA_FILE", "cert": "CLIENT__CERT", "key": "CLIENT__KEY"}


def connected(distributed: Any, address: str) -> Any:
    """Return a client of the scheduler at an address.

    Raises `UserError` where none answers, and for certificates that are not there, do not fit, or that one side refuses.
    """
    what = f"--scheduler {address}"
    if address.startswith("tls://"):
        _require_certificates(distributed, what)
    try:
        return distributed.Client(address, timeout=_SECONDS)
    except (OSError, ValueError, TimeoutError) as error:
        if _is_of_tls(error):
            raise UserError(
                f"{what}: TLS fails: {_root(error)}; fix: certificates of one authority, whose own certificate both sides "
                f"have, here {_shown(_files(distributed)['ca_file'])}, and a scheduler that was begun with --protocol tls"
            ) from error
        raise UserError(f"{what} does not answer: {error}; fix: its address, such as tcp://host:8786") from error


@contextlib.contextmanager
def quietly(client: Any) -> Iterator[Any]:
    """Yield a client of our own and close it, without its traces of a lost connection, which the error of the run tells.

    Who has configured the log of Dask gets all of it.
    """
    from distributed.config import config

    if any(part.get(key) for part in (config, config.get("distributed", {})) for key in ("logging", "logging-file-config")):
        with client:
            yield client
        return

    def is_shown(record: logging.LogRecord) -> bool:
        return bool(client.status == "running")

    log = logging.getLogger("distributed.client")
    log.addFilter(is_shown)
    try:
        with client:
            yield client
    finally:
        log.removeFilter(is_shown)


def dashboard_line(client: Any) -> str:
    """Return where the scheduler's dashboard is: the client makes an address whether there is one or not."""
    try:
        serves = client.run_on_scheduler(_serves_dashboard)
    except Exception:  # of a scheduler that runs nothing of others, or is gone, as the run tells
        return "the scheduler does not say whether it has one"
    return client.dashboard_link if serves else "none; the scheduler was begun without one, or has no bokeh to show it"


def _serves_dashboard(dask_scheduler: Any = None) -> bool:
    """Tell whether a scheduler serves the pages of Dask: its server of HTTP runs without them too."""
    return any("bokeh" in type(each).__name__.lower() for each in dask_scheduler.http_application.applications)


def _files(distributed: Any) -> dict[str, Any]:
    found = distributed.Security().get_tls_config_for_role("client")
    return {name: found[name] for name in _SETTINGS}


def _require_certificates(distributed: Any, what: str) -> None:
    """Raise `UserError` unless Dask's configuration has what the client needs for TLS."""
    files = _files(distributed)
    for name, value in files.items():
        if not value and name == "key":  # it may be in the certificate's file
            continue
        if not value:
            raise UserError(
                f"{what}: Dask's configuration has no certificate of the client: {name} is missing; fix: distributed.comm.tls "
                f"in it, or {_VARIABLE}CA_FILE, …__CLIENT__CERT and …__CLIENT__KEY"
            )
        if "\n" in value:  # it is the certificate, not its path
            continue
        try:
            Path(value).read_bytes()
        except OSError as error:
            raise UserError(
                f"{what}: {value}, which Dask's configuration has for the client's {name}, cannot be read: "
                f"{error.strerror or error}; fix: {_VARIABLE}{_SETTINGS[name]} or distributed.comm.tls with the file's path"
            ) from error
    try:
        distributed.Security().get_connection_args("client")
    except (OSError, ValueError) as error:
        paths = ", ".join(_shown(value) for value in files.values() if value)
        raise UserError(
            f"{what}: the client's certificates {paths} cannot be used: {error}; fix: files in PEM, and the key that the "
            "certificate was made for"
        ) from error


def _shown(value: object) -> str:
    return "a text" if "\n" in str(value) else str(value)


def _root(error: BaseException) -> BaseException:
    """Return the error of TLS that an error of Dask came from, or the error itself where Dask has kept its text alone."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, ssl.SSLError):
            return found
        found = found.__cause__ or found.__context__
    return error


def _is_of_tls(error: BaseException) -> bool:
    return isinstance(_root(error), ssl.SSLError) or "SSLError" in str(error)
