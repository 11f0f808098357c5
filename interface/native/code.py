"""Native code of a kernel as bytes: for caches, from which a process launches without reading the kernel's text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from ...lowering.llvm.host.control.sites import Access, Printed, PrintSite, Site
from ...lowering.llvm.host.launch_specialization import LaunchSpecialization
from ...promotion.errors import UserError
from ...runtime.storage.cache import CompileCache
from ...runtime.storage.header import parse_json
from .host_program import HostObject, shared_text
from .kernel import LaunchFacts, NativeKernel

_MAGIC = b"JNNATIVE"
_DIGEST = 32


def encode_object(compiled: HostObject) -> bytes:
    """The code for one specialization, with what its launches need."""
    header = {
        "sites": [_site_fields(site) for site in compiled.sites],
        "shared": {name: shared_text(function) for name, function in compiled.shared.items()},
    }
    return _packed(header, compiled.code)


def decode_object(data: bytes) -> HostObject:
    """Inverts `encode_object`. Raises `UserError` for bytes that are not as they were written."""
    header, code = _unpacked(data)
    return HostObject(code, tuple([_site(fields) for fields in header["sites"]]), header["shared"])


def encode_native(facts: LaunchFacts, compiled: HostObject) -> bytes:
    """What launches of a kernel need to know, with its code for launches of the simplest specialization."""
    header = {
        "name": facts.name,
        "written": sorted(facts.written),
        "may_stream": facts.may_stream,
        "large": facts.large,
        "checked": facts.checked,
        "follows": facts.follows,
        "work": facts.work,
        "tables": facts.tables,
        "follows_again": facts.follows_again,
    }
    return _packed(header, encode_object(compiled))


def decode_native(
    data: bytes, compiled: Callable[[LaunchSpecialization], HostObject], store: CompileCache | None = None
) -> NativeKernel:
    """Inverts `encode_native`.

    compiled: makes code for specializations that are not in the bytes. store: where functions that kernels share, and the
    runtime's own, are kept.

    Raises `UserError` for bytes that are not as they were written. The code in them will run: they come from a store that is
    the user's own.
    """
    header, rest = _unpacked(data)
    named = ("name", "may_stream", "large", "checked", "follows", "work", "follows_again")
    given = {name: header[name] for name in named}
    tables = tuple([(parameter, size) for parameter, size in header["tables"]])
    facts = LaunchFacts(written=frozenset(header["written"]), tables=tables, **given)
    simplest = decode_object(rest)
    return NativeKernel(facts, lambda each: simplest if each == facts.simplest else compiled(each), store)


def _packed(header: object, rest: bytes) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    body = len(text).to_bytes(8, "little") + text + rest
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpacked(data: bytes) -> tuple[Any, bytes]:
    body = memoryview(data)[len(_MAGIC) + _DIGEST :]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(body).digest() != data[len(_MAGIC) : len(_MAGIC) + _DIGEST]:
        raise UserError("the native code of a kernel is damaged; fix: clear the cache that holds it")
    length = int.from_bytes(body[:8], "little")
    return parse_json(bytes(body[8 : 8 + length]), "kernel"), bytes(body[8 + length :])


def _site_fields(site: Site | PrintSite) -> list[Any]:
    if isinstance(site, Site):
        access = None if site.access is None else [site.access.verb, site.access.size, site.access.parameters]
        return ["site", site.kind, site.message, site.location, site.shape, access, site.callers]
    operands = [[operand.elem, operand.shape, operand.strides] for operand in site.operands]
    return ["print", site.prefix, site.hexadecimal, site.signed, operands]


def _site(fields: list[Any]) -> Site | PrintSite:
    if fields[0] == "site":
        _, kind, message, location, shape, given, callers = fields
        access = None
        if given is not None:
            access = Access(given[0], given[1], tuple((position, name) for position, name in given[2]))
        at = None if location is None else (location[0], location[1])
        return Site(kind, message, at, tuple(shape), access, tuple((file, line) for file, line in callers))
    _, prefix, hexadecimal, signed, operands = fields
    printed = [Printed(elem, tuple(shape), tuple(strides)) for elem, shape, strides in operands]
    return PrintSite(prefix, hexadecimal, tuple(signed), tuple(printed))
