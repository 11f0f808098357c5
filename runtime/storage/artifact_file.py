"""Reads and writes the .joinery file: a graph, its compiled forms and its weights in one file, whose weights
need no decoding.

    0   8 bytes   magic
    8   u32       version        12  u32  zero
    16  u64       length of the manifest
    24  32 bytes  SHA-256 of the manifest
    56            manifest: UTF-8 JSON
    then the sections, each on a 64-byte boundary, at the offsets the manifest gives:
        graph      the graph as text
        compiled   a compiled graph for one target (`serialize.py`); any number of them
        weights    a complete safetensors file: 8 bytes header length, JSON header, data

Every weight starts on a 64-byte boundary of the file, so that kernels read it in place; safetensors allows no
holes, so small tensors named `__padding_<n>` fill them. Weights in a stored layout (see `weight_packing.py`) keep
it.

A file is untrusted: its code is not returned unless the caller says that it is trusted, every length is checked
against the file before use, and every section against its SHA-256.

Files are read, not mapped. The pages of a mapping follow the file: whoever truncates it later ends the process
with a bus error, and whoever writes to it changes results, after every check. Private mappings follow it too,
until a page is written. Once a file is read, later changes to it have no effect. The price is a copy of the weights
per process, where mappings would share one, and the time to read them, a fraction of the time that their SHA-256
takes. Who keeps a file from being changed maps it, and gives the memory: read-only memory is used in place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from ...lowering.artifact import CompiledGraph
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import UserError
from .artifact_source import Location, Source, bad, opened
from .header import Json, checked_fields, dtype_name, extents, items, non_negative, parse_json, row, text
from .serialize import decode_compiled, encode_compiled, is_current
from .weight_packing import is_reversible, stored_shape, unpack

VERSION = 1
_MAGIC = b"\x93JOINERY"
_HEAD = struct.Struct("<8sIIQ32s")
_ALIGNMENT = 64
_MAX_MANIFEST_BYTES = 64 << 20
_ZERO_HASH = "0" * 64
_PADDING = "__padding_"


@dataclass(frozen=True, slots=True)
class StoredWeight:
    """A weight as a file holds it: its logical dtype and shape, and the array in its stored layout."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str
    array: Array

    @staticmethod
    def plain(name: str, array: Array) -> StoredWeight:
        """Makes a weight in the plain layout from an array of a NumPy or ml_dtypes dtype."""
        return StoredWeight(name, DType.from_numpy(array.dtype).name, array.shape, "plain", array)


@dataclass(frozen=True, slots=True)
class StoredCode:
    """A compiled graph as a file holds it, for whatever target."""

    target: str
    data: Array


Code = CompiledGraph | StoredCode
"""What a file holds for a target: what was compiled, or what another file holds."""


@dataclass(frozen=True, slots=True)
class WeightEntry:
    """The manifest's entry for a weight."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return stored_shape(self.shape, self.layout)

    @property
    def nbytes(self) -> int:
        return math.prod(self.stored_shape) * DType(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the file. `target` is that of a compiled section and empty for the others."""

    kind: str
    target: str
    offset: int
    length: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """The checked manifest of a file. `digest` is its SHA-256, in hexadecimal: it has those of all sections, and so stands for
    the whole file."""

    name: str
    metadata: Mapping[str, str]
    sections: tuple[Section, ...]
    weights: tuple[WeightEntry, ...]
    digest: str

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets for which the file holds compiled code."""
        return tuple(section.target for section in self.sections if section.kind == "compiled")


class Artifact(NamedTuple):
    """An opened file. `source` is what messages call it. `weights` are read-only and in their stored layout; `compiled` is None
    unless the file is trusted, and has code for the target in the format of this version. `code` is all that a trusted file
    has, in its order. `unverified` are the sections, with their bytes, that nobody has compared with the manifest."""

    manifest: Manifest
    graph_text: str
    compiled: CompiledGraph | None
    weights: dict[str, Array]
    source: str
    code: tuple[StoredCode, ...]
    unverified: tuple[tuple[Section, Array], ...] = ()

    def require_verified(self) -> None:
        """Compares with the manifest what `load` was told not to. Raises `UserError` for bytes that are not those that the
        digest stands for: written anew, they would get a digest that fits."""
        for section, body in self.unverified:
            _require_sha256(self.source, section, body)

    def plain_weight(self, name: str) -> Array:
        """Returns a weight in the plain layout: the array itself, or an unpacked copy. Raises `UserError` for
        an unknown name."""
        entry = next((entry for entry in self.manifest.weights if entry.name == name), None)
        if entry is None:
            raise UserError(f"artifact {self.manifest.name!r} has no weight {name!r}")
        return unpack(self.weights[name], entry.shape, entry.layout)


# --- writing


@dataclass(frozen=True, slots=True)
class Assembled:
    """The content of a file that is not written yet. `digest` is that of its manifest, in hexadecimal."""

    name: str
    digest: str
    head: bytes
    sections: tuple[tuple[int, Sequence[bytes | Array]], ...]

    def content(self) -> bytes:
        """Returns what `write` writes."""
        pieces: list[bytes | memoryview] = [self.head]
        end = len(self.head)
        for offset, parts in self.sections:
            pieces += [bytes(offset - end), *map(_bytes_of, parts)]
            end = offset + sum(map(_nbytes, parts))
        return b"".join(pieces)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Writes the file. An existing one is replaced atomically, once the new one is complete. Raises `UserError` when the
        path cannot be written."""
        with _replacing(Path(path), self.name) as file:
            file.write(self.head)
            for offset, parts in self.sections:
                file.write(bytes(offset - file.tell()))
                for part in parts:
                    file.write(_bytes_of(part))


def assemble(
    name: str,
    graph_text: str,
    compiled: Sequence[Code],
    weights: Sequence[StoredWeight],
    metadata: Mapping[str, str] | None = None,
) -> Assembled:
    """Returns the content of an artifact; equal arguments give equal bytes.

    Raises `UserError` when two weights share a name, or a weight's bytes do not match its dtype and shape.
    """
    entries = [WeightEntry(weight.name, weight.dtype, weight.shape, weight.layout) for weight in weights]
    if len({entry.name for entry in entries}) != len(entries):
        raise UserError(f"artifact {name!r}: two weights have the same name; fix: rename one in the graph")
    for entry, weight in zip(entries, weights, strict=True):
        if entry.nbytes != weight.array.nbytes or entry.name.startswith(_PADDING):
            raise UserError(
                f"artifact {name!r}: weight {entry.name!r} is "
                f"{weight.array.dtype}{list(weight.array.shape)}, "
                f"expected {entry.dtype}{list(entry.stored_shape)}; fix: a weight of that dtype and shape"
            )
    bodies: list[tuple[str, str, list[bytes | Array]]] = [("graph", "", [graph_text.encode()])]
    for item in compiled:
        bodies.append(("compiled", item.target, [item.data if isinstance(item, StoredCode) else encode_compiled(item)]))
    bodies.append(("weights", "", _weight_parts(weights)))
    # the manifest comes first but is known last: space for its longest form is reserved, filled in and padded
    sections: list[list[int | str]] = [
        [kind, target, 2**62, sum(map(_nbytes, parts)), _ZERO_HASH] for kind, target, parts in bodies
    ]
    manifest = {
        "name": name,
        "metadata": dict(metadata or {}),
        "sections": sections,
        "weights": [[entry.name, entry.dtype, list(entry.shape), entry.layout] for entry in entries],
    }
    reserved = len(_json(manifest))
    at, written = _HEAD.size + reserved, []
    for section, (_, _, parts) in zip(sections, bodies, strict=True):
        at += -at % _ALIGNMENT
        written.append((at, parts))
        digest = hashlib.sha256()
        for part in parts:
            digest.update(_bytes_of(part))
        section[2], section[4] = at, digest.hexdigest()
        at += sum(map(_nbytes, parts))
    encoded = _json(manifest).ljust(reserved)
    whole = hashlib.sha256(encoded)
    head = _HEAD.pack(_MAGIC, VERSION, 0, len(encoded), whole.digest()) + encoded
    return Assembled(name, whole.hexdigest(), head, tuple(written))


def save(
    path: str | os.PathLike[str],
    name: str,
    graph_text: str,
    compiled: Sequence[Code],
    weights: Sequence[StoredWeight],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes what `assemble` makes of the same arguments. Raises what it and `Assembled.write` raise."""
    assemble(name, graph_text, compiled, weights, metadata).write(path)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _nbytes(part: bytes | Array) -> int:
    return len(part) if isinstance(part, bytes) else part.nbytes


def _bytes_of(part: bytes | Array) -> bytes | memoryview:
    """Returns the memory of a part, without a copy where the array is contiguous."""
    if isinstance(part, bytes):
        return part
    return np.ascontiguousarray(part).reshape(-1).view(np.uint8).data if part.size else b""


def _weight_parts(weights: Sequence[StoredWeight]) -> list[bytes | Array]:
    """Returns the pieces of the safetensors section. It starts on a 64-byte boundary, and so does every
    tensor in it."""
    header: dict[str, Json] = {}
    parts: list[bytes | Array] = []
    at = 0

    def add(name: str, dtype: str, shape: list[int], part: bytes | Array) -> None:
        nonlocal at
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + _nbytes(part)]}
        parts.append(part)
        at += _nbytes(part)

    for number, weight in enumerate(weights):
        known = DType(weight.dtype).names.safetensors
        shape = stored_shape(weight.shape, weight.layout) if known else (weight.array.nbytes,)
        add(weight.name, known or "U8", list(shape), weight.array)
        if gap := -at % _ALIGNMENT:
            add(f"{_PADDING}{number}", "U8", [gap], bytes(gap))
    encoded = _json(header)
    encoded = encoded.ljust(len(encoded) + -(8 + len(encoded)) % _ALIGNMENT)
    return [len(encoded).to_bytes(8, "little") + encoded, *parts]


@contextlib.contextmanager
def _replacing(path: Path, name: str) -> Iterator[BinaryIO]:
    """Yields a temporary file next to `path`, which replaces `path` when the block ends without an error."""
    try:
        import tempfile  # which takes as long as a tenth of opening a file

        # A part of the name says what is left when the process dies; all of it might be too long with what is added.
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    except OSError as error:
        raise UserError(
            f"artifact {name!r} cannot be written to {path}: {error.strerror or error}"
        ) from error
    except ValueError as error:  # of a NUL, or of what has no form in bytes
        raise UserError(f"artifact {name!r} cannot be written to {str(path)!r}: {error}; fix: another path") from error
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's 0600 is for secrets
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise UserError(
            f"artifact {name!r} cannot be written to {path}: {error.strerror or error}"
        ) from error
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# --- reading


def load(
    location: Location,
    *,
    trusted: bool = False,
    target: str | Callable[[str], bool] | None = None,
    verify: bool = True,
    digest: str | None = None,
) -> Artifact:
    """Opens an artifact and reads it as a whole, so that later changes to a file have no effect.

    Args:
        location: a path, bytes or a stream (see `artifact_source.opened`). Memory that is read-only and aligned is used in
            place.
        trusted: whether compiled code in the file may be returned. Only for files whose origin you trust: the code
            runs with your permissions.
        target: the target whose code is returned, or what tells whether a target fits; the first that the file holds when None.
        verify: whether to check the sections against their SHA-256, which the manifest has; only with a `digest` may this be
            left out.
        digest: the SHA-256 that the manifest must have, in hexadecimal.

    Raises `UserError`, which says what is wrong with the file.
    """
    if digest is not None and not (isinstance(digest, str) and _is_sha256(digest)):
        raise UserError(f"load: digest {digest!r:.80} is no SHA-256; fix: 64 hexadecimal digits, as `Model.digest` has them")
    if not verify and digest is None:
        raise UserError("load: verify=False without a digest; fix: the digest of a file that you have checked, or no verify")
    source = opened(location)
    try:
        manifest = _read_manifest(source)
        if digest is not None and manifest.digest != digest:
            raise UserError(
                f"{source.name} has the digest {manifest.digest}, not {digest}: it is another model, or another version of it"
            )
        bodies, codes, unverified = _read_sections(source, manifest, trusted, verify)
    except OSError as error:
        raise UserError(f"artifact {source.name} cannot be read: {error.strerror or error}") from error
    finally:
        source.close()
    try:
        graph_text = bytes(bodies["graph"]).decode()
    except UnicodeDecodeError as error:
        raise bad(source.name, "its graph is not UTF-8 text") from error
    code = next((each.data.data for each in codes if _fits(target, each.target)), None)
    compiled = decode_compiled(code) if code is not None and is_current(code) else None
    weights = _weights(source, bodies["weights"], manifest.weights)
    return Artifact(manifest, graph_text, compiled, weights, source.name, codes, unverified)


def _fits(wanted: str | Callable[[str], bool] | None, target: str) -> bool:
    return wanted(target) if callable(wanted) else wanted in (None, target)


def _read_sections(
    source: Source,
    manifest: Manifest,
    trusted: bool,
    verify: bool,
) -> tuple[dict[str, Array], tuple[StoredCode, ...], tuple[tuple[Section, Array], ...]]:
    """Reads and checks all sections; returns the bytes of the graph, of the weights and, if trusted, of all code, and which of
    them were not checked."""
    bodies: dict[str, Array] = {}
    codes, unverified = [], []
    for section in manifest.sections:
        is_wanted = section.kind != "compiled" or trusted
        if not is_wanted and not verify:
            continue
        body = source.section(section.offset, section.length)  # on a 64-byte boundary, as the section is in the file
        if verify:
            _require_sha256(source.name, section, body)
        else:
            unverified.append((section, body))
        if is_wanted and section.kind == "compiled":
            codes.append(StoredCode(section.target, body))
        elif is_wanted:
            bodies[section.kind] = body
    return bodies, tuple(codes), tuple(unverified)


def _require_sha256(source: str, section: Section, body: Array) -> None:
    if hashlib.sha256(body.data).hexdigest() != section.sha256:
        raise bad(source, f"section {section.kind!r} does not match its SHA-256: it was damaged or changed")


def _read_manifest(source: Source) -> Manifest:
    if source.size < _HEAD.size:
        raise bad(source.name, f"it has {source.size} bytes, less than a header")
    head = bytes(source.section(0, _HEAD.size))
    magic, version, reserved, length, digest = _HEAD.unpack(head)
    if magic != _MAGIC:
        raise bad(source.name, f"it does not start with {_MAGIC!r}")
    if version != VERSION:
        raise UserError(
            f"{source.name} has artifact version {version}; this joinery reads version {VERSION}; fix: save it anew"
        )
    if length > _MAX_MANIFEST_BYTES or length > source.size - _HEAD.size:
        raise bad(source.name, f"its manifest of {length} bytes does not fit: it is truncated or damaged")
    encoded = bytes(source.section(_HEAD.size, length))
    if hashlib.sha256(encoded).digest() != digest:
        raise bad(source.name, "its manifest does not match its SHA-256: it was damaged or changed")
    fields = checked_fields(parse_json(encoded, "artifact"), _MANIFEST_FIELDS, "artifact")
    manifest = Manifest(**fields, digest=digest.hex())
    kinds = [section.kind for section in manifest.sections]
    if kinds.count("graph") != 1 or kinds.count("weights") != 1:
        raise bad(source.name, "it must have one graph and one weights section")
    if reserved:
        raise bad(source.name, "its header was damaged or changed")
    _require_nothing_else(source, manifest, _HEAD.size + length)
    if len({entry.name for entry in manifest.weights}) != len(manifest.weights):
        raise bad(source.name, "two weights have the same name")
    return manifest


def _require_nothing_else(source: Source, manifest: Manifest, end: int) -> None:
    """Require that sections follow each other, with zeros up to the next boundary between them, and nothing behind the last.

    So the digest of the manifest, which has those of the sections, stands for every byte of the file. end: of the manifest.
    """
    for section in manifest.sections:
        if section.offset < end or section.offset % _ALIGNMENT:
            raise bad(source.name, f"section {section.kind!r} overlaps another or is not aligned")
        if section.offset - end >= _ALIGNMENT:
            raise bad(source.name, f"section {section.kind!r} does not follow what is before it: there is a gap")
        begin, end = end, section.offset + section.length
        if end > source.size:
            problem = f"section {section.kind!r} ends at byte {end}, but the file has {source.size}: it is truncated"
            raise bad(source.name, problem)
        if source.section(begin, section.offset - begin).any():
            raise bad(source.name, f"there is something before section {section.kind!r}: it was damaged or changed")
    if end != source.size:
        raise bad(source.name, f"it has {source.size} bytes, and its last section ends at byte {end}: something was added")


def _weights(source: Source, section: Array, entries: Sequence[WeightEntry]) -> dict[str, Array]:
    """Returns read-only arrays over a section. The manifest and the safetensors header must agree on every weight."""
    view = section.data
    length = int.from_bytes(view[:8], "little") if len(view) >= 8 else len(view)
    if length > min(_MAX_MANIFEST_BYTES, len(view) - 8):
        raise bad(source.name, "the header of its weights does not fit")
    header = parse_json(bytes(view[8 : 8 + length]).rstrip(b" "), "weights section")
    start = 8 + length
    available = len(view) - 8 - length
    arrays: dict[str, Array] = {}
    for entry in entries:
        tensor = header.get(entry.name) if isinstance(header, dict) else None
        offsets = tensor.get("data_offsets") if isinstance(tensor, dict) else None
        if not isinstance(offsets, list):
            raise bad(source.name, f"weight {entry.name!r} is missing from its weights section")
        try:
            low, high = row(offsets, non_negative, non_negative)
        except (TypeError, ValueError) as error:
            raise bad(source.name, f"weight {entry.name!r} has no valid offsets") from error
        if high > available or high - low != entry.nbytes or (start + low) % _ALIGNMENT:
            raise bad(source.name, f"weight {entry.name!r} does not lie where its shape says")
        dtype = DType(entry.dtype).numpy
        count = entry.nbytes // dtype.itemsize
        flat = np.frombuffer(section, dtype, count, start + low) if count else np.empty(0, dtype)
        flat.flags.writeable = False
        arrays[entry.name] = flat.reshape(entry.stored_shape)
    return arrays


def _is_sha256(value: str) -> bool:
    return len(value) == 64 and set(value) <= set("0123456789abcdef")


def _sha256(value: object) -> str:
    digest = text(value)
    if not _is_sha256(digest):
        raise ValueError("not a SHA-256")
    return digest


def _section(value: object) -> Section:
    section = Section(*row(value, text, text, non_negative, non_negative, _sha256))
    if section.kind not in ("graph", "compiled", "weights"):
        raise ValueError(f"unknown section {section.kind[:100]!r}")
    return section


def _weight(value: object) -> WeightEntry:
    entry = WeightEntry(*row(value, text, dtype_name, extents, text))
    if entry.nbytes > 2**63 - 1:
        raise ValueError(f"weight {entry.name!r} has {entry.nbytes} bytes")
    if not is_reversible(entry.layout):
        raise ValueError(f"weight {entry.name!r} does not follow from the layout {entry.layout!r}")
    return entry


def _metadata(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise TypeError("expected an object")
    return {text(key): text(item) for key, item in value.items()}


_MANIFEST_FIELDS = {
    "name": text,
    "metadata": _metadata,
    "sections": items(_section),
    "weights": items(_weight),
}
