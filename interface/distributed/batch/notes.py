"""Writes what is known of a block that is done as a line with a checksum, and reads it again."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from typing import Any

from .jobs import BlockRecord


def target_name(target: str) -> str:
    """Return a short name of a target, which is a processor with all its features: each of a million lines has one."""
    return hashlib.sha256(target.encode()).hexdigest()[:16] if target else ""


def known_targets(before: Mapping[str, Any]) -> dict[str, str]:
    """Return the targets that a description of a run has, by their names. What has the name of another one is left out."""
    found = before.get("targets")
    named = found.items() if isinstance(found, dict) else ()
    return {name: target for name, target in named if isinstance(target, str) and target_name(target) == name}


def line_of(record: BlockRecord) -> bytes:
    """Return the line that notes a block."""
    fields = {
        "number": record.number, "digest": record.digest, "target": target_name(record.target),
        "seconds": round(record.seconds, 6), "worker": record.worker,
    }  # fmt: skip
    return json.dumps({**fields, "check": _checksum(fields)}, separators=(",", ":")).encode() + b"\n"


def parsed(line: bytes, blocks: int, targets: Mapping[str, str]) -> BlockRecord | None:
    """Return what a line says; None for one that was cut or changed, or whose target is not known any more."""
    try:
        fields = json.loads(line)
        check = fields.pop("check")
        if not line.endswith(b"\n") or check != _checksum(fields):
            return None
        record = BlockRecord(**{**fields, "target": targets[fields["target"]] if fields["target"] else ""})
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        return None
    return record if isinstance(record.number, int) and 0 <= record.number < blocks else None


def _checksum(fields: dict[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(fields, sort_keys=True).encode()):08x}"
