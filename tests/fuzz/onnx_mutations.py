"""Mutates messages of protobuf through their fields: numbers, names, bytes, and whole parts that go or come from elsewhere."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from .choices import Choices

EXTREMES = (
    0, 1, -1, 2, 3, 7, 8, 31, 32, 64, 127, 128, 255, 1 << 16, (1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 40, (1 << 63) - 1,
    -(1 << 63),
)  # fmt: skip
TEXTS = (
    "", "x", "y", "ai.onnx", "ai.onnx.ml", "com.microsoft", "n", "-1", "2*n", "n + 1", "\u202e", "a\x00b", "../../etc/passwd",
    "/etc/hostname", "w" * 5000,
)  # fmt: skip
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 3e38, float("inf"), float("nan"))
_INTEGERS = frozenset((
    FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_ENUM,
))  # fmt: skip
_MAX_PLACES = 4000
"""The most fields of one message that mutations choose from."""


def mutated_message(choices: Choices, message: Any) -> None:
    """Mutates a message in place, once to four times."""
    for _ in range(choices.one(1, 1, 1, 2, 2, 3, 4)):
        fields, parts = _places(message)
        if not fields:
            return
        _mutate(choices, *choices.one(*fields), parts)


def _places(message: Any) -> tuple[list[tuple[Any, Any]], dict[str, list[Any]]]:
    """Returns (message, field) of every field that is set, or could be, and all messages by type."""
    fields: list[tuple[Any, Any]] = []
    parts: dict[str, list[Any]] = {}
    pending = [message]
    while pending and len(fields) < _MAX_PLACES:
        current = pending.pop()
        parts.setdefault(current.DESCRIPTOR.name, []).append(current)
        given = {field.name for field, _ in current.ListFields()}
        for field in current.DESCRIPTOR.fields:
            if field.name in given or len(fields) % 7 == 0:
                fields.append((current, field))
        for field, value in current.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                pending += list(value) if field.is_repeated else [value]
    return fields, parts


def _mutate(choices: Choices, message: Any, field: Any, parts: dict[str, list[Any]]) -> None:
    if field.is_repeated:
        _repeated(choices, getattr(message, field.name), field, parts)
    elif choices.flag(6):
        message.ClearField(field.name)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        donors = parts.get(field.message_type.name, [])
        if donors:
            _copy(choices.one(*donors), getattr(message, field.name))
        else:
            getattr(message, field.name).SetInParent()
    else:
        value = _scalar(choices, field, getattr(message, field.name), parts)
        if value is not None:
            setattr(message, field.name, value)


def _copy(donor: Any, target: Any) -> None:
    whole = type(donor)()
    whole.CopyFrom(donor)  # a part may be copied into itself
    target.CopyFrom(whole)


def _repeated(choices: Choices, values: Any, field: Any, parts: dict[str, list[Any]]) -> None:
    how, count = choices.below(7), len(values)
    if how == 0 and count:
        del values[choices.below(count)]
    elif how == 1 and count:
        del values[choices.below(count) :]
    elif how == 2 and count > 1:  # another order
        order = choices.order(count) if count < 50 else list(range(count))[::-1]
        kept = [_kept(values[at], field) for at in order]
        del values[:]
        values.extend(kept)
    elif field.type == FieldDescriptor.TYPE_MESSAGE:
        donors = [*parts.get(field.message_type.name, ())]
        if not donors:
            values.add()
        elif how < 5 or not count:
            _copy(choices.one(*donors), values.add())
        else:
            _copy(choices.one(*donors), values[choices.below(count)])
    elif count and how < 6:
        at = choices.below(count)
        value = _scalar(choices, field, values[at], parts)
        if value is not None:
            values[at] = value
    else:
        value = _scalar(choices, field, values[0] if count else None, parts)
        if value is not None:
            values.extend([value] * choices.one(1, 1, 2, 70))


def _kept(value: Any, field: Any) -> Any:
    if field.type != FieldDescriptor.TYPE_MESSAGE:
        return value
    whole = type(value)()
    whole.CopyFrom(value)
    return whole


def _scalar(choices: Choices, field: Any, current: Any, parts: dict[str, list[Any]]) -> Any:
    """Returns another value of a field; None where there is none."""
    if field.type in _INTEGERS:
        value = int(current or 0)
        value = choices.one(*EXTREMES) if choices.flag() else value + choices.one(1, -1, 2, -2, 16, -64)
        if field.type == FieldDescriptor.TYPE_INT64:
            return max(min(value, (1 << 63) - 1), -(1 << 63))
        if field.type == FieldDescriptor.TYPE_UINT64:
            return abs(value) % (1 << 64)
        if field.type == FieldDescriptor.TYPE_ENUM:
            known = [each.number for each in field.enum_type.values]
            return choices.one(*known) if field.enum_type.is_closed or choices.flag() else value % (1 << 31)
        return max(min(value, (1 << 31) - 1), -(1 << 31))
    if field.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return choices.one(*FLOATS)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return not current
    if field.type == FieldDescriptor.TYPE_STRING:
        return choices.one(*TEXTS) if choices.flag(3) else _name(choices, parts)
    data = bytes(current or b"")
    how = choices.below(4)
    if how == 0:
        return data[: choices.below(len(data) + 1)]
    if how == 1:
        return data + bytes(choices.one(1, 3, 4, 8, 1000))
    if how == 2 and data:
        changed = bytearray(data)
        changed[choices.below(len(data))] = choices.below(256)
        return bytes(changed)
    return choices.one(*TEXTS).encode()


def _name(choices: Choices, parts: dict[str, list[Any]]) -> str:
    """Returns a name that stands somewhere in the model: of a value, a node, an operator, an attribute."""
    found: list[str] = []
    for node in parts.get("NodeProto", [])[:200]:
        found += [*node.input, *node.output, node.op_type, *[attribute.name for attribute in node.attribute]]
    for kind in ("ValueInfoProto", "TensorProto", "FunctionProto", "GraphProto"):
        found += [part.name for part in parts.get(kind, [])[:50]]
    return choices.one(*found) if found else choices.one(*TEXTS)
