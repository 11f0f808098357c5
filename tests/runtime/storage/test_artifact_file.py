"""The .joinery file: what is saved is what is opened, read and aligned; damage is named; code needs
trust."""

from __future__ import annotations

import hashlib
import json
import os
import random
import stat
import struct

import ml_dtypes
import numpy as np
import pytest
import safetensors
from joinery.promotion.errors import UserError
from joinery.runtime.model.model import Model
from joinery.runtime.storage import artifact_file
from joinery.runtime.storage import weight_packing as layouts
from joinery.runtime.storage.artifact_file import StoredWeight, assemble, load, save


def weights() -> list[StoredWeight]:
    rng = np.random.default_rng(0)
    arrays = {
        "a": rng.standard_normal((3, 5)).astype(np.float32),
        "encoder.0/β": rng.standard_normal(7).astype(ml_dtypes.bfloat16),
        "scalar": np.array(3, np.int64),
        "empty": np.empty((0, 4), np.float16),
        "flags": np.array([True, False, True]),
        "f8": np.arange(5).astype(ml_dtypes.float8_e4m3fn),
        "f8b": np.arange(5).astype(ml_dtypes.float8_e4m3b11fnuz),
        "i4": np.arange(-8, 8).astype(ml_dtypes.int4),
        "fortran": np.asfortranarray(rng.standard_normal((4, 6))),
    }
    matrix = rng.standard_normal((6, 50)).astype(np.float32)
    packed = StoredWeight("packed", "float32", (6, 50), "panels:16", layouts.pack(matrix, "panels:16"))
    return [*(StoredWeight.plain(name, array) for name, array in arrays.items()), packed]


@pytest.fixture
def path(tmp_path, symbolic):
    target = tmp_path / "model.joinery"
    save(target, "net", "graph text é", [symbolic], weights(), {"author": "me"})
    return target


def test_round_trip(path, symbolic):
    artifact = load(path, trusted=True)
    assert artifact.graph_text == "graph text é"
    assert artifact.compiled == symbolic
    assert (artifact.manifest.name, artifact.manifest.metadata) == ("net", {"author": "me"})
    assert artifact.manifest.targets == ("host",)
    assert list(artifact.weights) == [weight.name for weight in weights()]
    for weight in weights():
        loaded = artifact.weights[weight.name]
        assert loaded.dtype == weight.array.dtype
        assert loaded.shape == weight.array.shape
        assert loaded.tobytes() == np.ascontiguousarray(weight.array).tobytes()
        assert not loaded.flags.writeable
        assert loaded.__array_interface__["data"][0] % 64 == 0 or loaded.size == 0


def test_plain_weights_are_unpacked(path):
    artifact = load(path)
    packed = next(weight for weight in weights() if weight.name == "packed")
    matrix = artifact.plain_weight("packed")
    np.testing.assert_array_equal(layouts.pack(matrix, "panels:16"), packed.array)
    assert matrix.shape == (6, 50)
    assert np.may_share_memory(artifact.plain_weight("a"), artifact.weights["a"])
    with pytest.raises(UserError, match="artifact 'net' has no weight 'nope'"):
        artifact.plain_weight("nope")


@pytest.mark.parametrize("what", ["cut", "emptied", "overwritten", "removed"])
def test_what_becomes_of_the_file_later(path, what):
    opened = load(path)
    before = {name: array.tobytes() for name, array in opened.weights.items()}
    if what == "removed":
        path.unlink()
    elif what == "overwritten":
        with open(path, "r+b") as file:
            file.write(b"\xff" * path.stat().st_size)
    else:
        os.truncate(path, 64 if what == "cut" else 0)
    assert {name: array.tobytes() for name, array in opened.weights.items()} == before


def test_a_file_that_is_cut_while_it_is_read(path, monkeypatch):
    def shorter(file):
        found = real(file)
        os.truncate(path, 1000)
        return found

    real = os.fstat
    monkeypatch.setattr(artifact_file.os, "fstat", shorter)
    with pytest.raises(UserError, match=rf"^{path} is not a joinery artifact that .* was cut while it was read"):
        load(path)


def test_the_weights_section_is_a_safetensors_file(path):
    section = next(s for s in load(path).manifest.sections if s.kind == "weights")
    data = path.read_bytes()[section.offset : section.offset + section.length]
    tensors = dict(safetensors.deserialize(data))
    formats = {"a": "F32", "encoder.0/β": "BF16", "scalar": "I64", "empty": "F16", "flags": "BOOL",
               "f8": "F8_E4M3",
               "f8b": "U8", "i4": "U8", "fortran": "F64", "packed": "F32"}  # fmt: skip
    for weight in weights():
        found = tensors[weight.name]
        assert found["dtype"] == formats[weight.name]
        assert tuple(found["shape"]) == weight.array.shape
        assert bytes(found["data"]) == np.ascontiguousarray(weight.array).tobytes()


def test_code_needs_trust_and_the_right_target(path):
    assert load(path).compiled is None
    assert load(path, target="host").compiled is None
    assert load(path, trusted=True, target="sm_90a").compiled is None
    assert load(path, trusted=True, target="host").compiled is not None


def test_damaged_code_is_not_even_decoded_when_trusted(path):
    section = next(s for s in load(path).manifest.sections if s.kind == "compiled")
    flip(path, section.offset + section.length // 2)
    with pytest.raises(UserError, match="section 'compiled' does not match its SHA-256"):
        load(path, trusted=True)


def flip(path, position: int) -> None:
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 0x10]))


def test_damaged_sections_are_named(path):
    good = path.read_bytes()
    for section in load(path).manifest.sections:
        flip(path, section.offset + section.length - 1)
        with pytest.raises(
            UserError, match=f"section '{section.kind}' does not match its SHA-256: it was damaged"
        ):
            load(path)
        path.write_bytes(good)


def test_only_who_knows_the_digest_may_leave_out_the_check(path):
    manifest = load(path).manifest
    section = manifest.sections[-1]
    flip(path, section.offset + section.length - 1)
    artifact = load(path, verify=False, digest=manifest.digest)
    assert list(artifact.weights) == [weight.name for weight in weights()]
    with pytest.raises(UserError, match="section 'weights' does not match its SHA-256"):
        load(path, digest=manifest.digest)
    with pytest.raises(UserError, match="verify=False without a digest; fix: the digest of a file that you have checked"):
        load(path, verify=False)
    flip(path, 60)  # in the manifest, which is always checked
    with pytest.raises(UserError, match="its manifest does not match its SHA-256"):
        load(path, verify=False, digest=manifest.digest)


@pytest.mark.parametrize("wrong", ["", "0" * 63, "G" * 64, "A" * 64, 5, b"0" * 64])
def test_a_digest_is_64_digits(path, wrong):
    with pytest.raises(UserError, match="is no SHA-256; fix: 64 hexadecimal digits"):
        load(path, digest=wrong)


def test_another_digest_is_refused(path):
    with pytest.raises(UserError, match=rf"model.joinery has the digest {load(path).manifest.digest}, not {'0' * 64}"):
        load(path, digest="0" * 64)


def test_the_digest_is_known_before_the_file_is_written(symbolic, tmp_path):
    found = assemble("net", "text", [symbolic], weights())
    found.write(tmp_path / "a")
    assert load(tmp_path / "a").manifest.digest == found.digest
    other = assemble("net", "text ", [symbolic], weights())
    assert other.digest != found.digest
    heavier = weights()
    heavier[0] = StoredWeight.plain(heavier[0].name, heavier[0].array + 1)
    assert assemble("net", "text", [symbolic], heavier).digest != found.digest
    assert assemble("net", "text", [symbolic], weights()).digest == found.digest


def test_truncation_is_named(path):
    good = path.read_bytes()
    for length, message in [
        (0, "0 bytes, less than a header"), (55, "less than a header"),
        (56, "its manifest of .* does not fit"),
        (100, "truncated or damaged"), (len(good) - 1, "section 'weights' ends at byte .* it is truncated"),
        (len(good) // 2, "truncated|does not match"),
    ]:  # fmt: skip
        path.write_bytes(good[:length])
        with pytest.raises(UserError, match=message):
            load(path)


def test_other_files_are_named(path, tmp_path):
    with pytest.raises(UserError, match="cannot be opened: No such file"):
        load(tmp_path / "none.joinery")
    with pytest.raises(UserError, match="cannot be opened: Is a directory"):
        load(tmp_path)
    with pytest.raises(UserError, match="cannot be opened: embedded null byte; fix: another path"):
        load("a\0b.joinery")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is no regular file; fix: check the path"):
        load(tmp_path / "pipe")
    other = tmp_path / "other"
    other.write_bytes(b"PK\x03\x04" * 100)
    with pytest.raises(UserError, match="does not start with"):
        load(other)
    data = bytearray(path.read_bytes())
    data[8] = 9
    path.write_bytes(data)
    with pytest.raises(
        UserError, match="artifact version 9; this joinery reads version 1; fix: save it anew"
    ):
        load(path)


def rewrite(path, edit) -> None:
    """Changes the manifest and fixes its hash: what an attacker would do."""
    data = path.read_bytes()
    magic, version, zero, length, _ = struct.unpack("<8sIIQ32s", data[:56])
    manifest = json.loads(data[56 : 56 + length])
    edit(manifest)
    text = json.dumps(manifest, separators=(",", ":"), ensure_ascii=False).encode()
    assert len(text) <= length
    text = text.ljust(length)
    path.write_bytes(
        struct.pack("<8sIIQ32s", magic, version, zero, length, hashlib.sha256(text).digest())
        + text
        + data[56 + length :]
    )


def test_changing_nothing_keeps_a_good_file_good(path):
    rewrite(path, lambda manifest: None)
    assert load(path).manifest.name == "net"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda m: m.pop("name"), "field 'name' is missing"),
        (lambda m: m.update(metadata=[]), "field 'metadata': expected an object"),
        (lambda m: m["sections"].pop(0), "one graph and one weights section"),
        (lambda m: m["sections"].pop(), "one graph and one weights section"),
        (lambda m: m["sections"][0].__setitem__(0, "code"), "unknown section 'code'"),
        (lambda m: m["sections"][0].__setitem__(2, 0), "overlaps another or is not aligned"),
        (
            lambda m: m["sections"][0].__setitem__(2, m["sections"][0][2] + 1),
            "overlaps another or is not aligned",
        ),
        (lambda m: m["sections"][2].__setitem__(2, m["sections"][1][2]), "overlaps another"),
        (lambda m: m["sections"][0].__setitem__(3, m["sections"][0][3] + 64), "overlaps another or is not aligned"),
        (lambda m: m["sections"][0].__setitem__(3, 2**60), "it is truncated"),
        (lambda m: m["sections"][2].__setitem__(3, 2**60), "it is truncated"),
        (lambda m: m["sections"][0].__setitem__(4, "z" * 64), "not a SHA-256"),
        (lambda m: m["sections"][0].__setitem__(3, m["sections"][0][3] - 1), "there is something before section 'compiled'"),
        (lambda m: m["sections"][0].__setitem__(4, "0" * 64), "does not match its SHA-256"),
        (lambda m: m["sections"][1].__setitem__(2, m["sections"][1][2] + 64), "does not follow what is before it"),
        (lambda m: m["sections"][2].__setitem__(3, m["sections"][2][3] - 8), "its last section ends at byte .*: something was"),
        (lambda m: m["weights"][0].__setitem__(2, [3, 6]), "weight 'a' does not lie where its shape says"),
        (lambda m: m["weights"][0].__setitem__(2, [2**30, 2**30]), "weight 'a' does not lie where"),
        (
            lambda m: m["weights"][0].__setitem__(2, [2**31, 2**31]),
            "weight 'a' has 18446744073709551616 bytes",
        ),
        (lambda m: m["weights"][0].__setitem__(2, [2**40, 2**40]), "too many elements"),
        (lambda m: m["weights"][0].__setitem__(1, "f99"), "unknown dtype"),
        (lambda m: m["weights"][0].__setitem__(0, "q"), "weight 'q' is missing from its weights section"),
        (lambda m: m["weights"][0].__setitem__(0, "flags"), "two weights have the same name"),
        (lambda m: m["weights"][0].__setitem__(3, "panels:99999999"), "unknown constant layout"),
        (lambda m: m["weights"][0].__setitem__(slice(2, 4), [[9, 2], "winograd:1:2"]), "does not follow from the layout"),
    ],
)
def test_hostile_manifests_are_refused(path, edit, message):
    rewrite(path, edit)
    with pytest.raises(UserError, match=message):
        load(path)


def test_random_damage_never_escapes_as_anything_else(path):
    good = path.read_bytes()
    rng = random.Random(5)
    for _ in range(300):
        bad = bytearray(good)
        at = rng.randrange(len(bad))
        bad[at : at + 1] = bytes([bad[at] ^ 1 << rng.randrange(8)]) if rng.random() < 0.8 else b""
        path.write_bytes(bad)
        with pytest.raises(UserError):  # the digests and the zeros between sections stand for every byte
            load(path, trusted=True)


def holes(path) -> list[int]:
    """The bytes that belong neither to the manifest nor to a section, and the reserved ones of the header."""
    data = path.read_bytes()
    sections = load(path).manifest.sections
    used = {*range(12), *range(16, 56 + int.from_bytes(data[16:24], "little"))}
    for section in sections:
        used |= {*range(section.offset, section.offset + section.length)}
    return sorted({*range(len(data))} - used)


@pytest.mark.parametrize("verify", [True, False])
def test_a_digest_stands_for_every_byte(path, verify):
    digest = load(path).manifest.digest
    good, found = path.read_bytes(), holes(path)
    assert len(found) > 4  # there are zeros between sections
    for at in found:
        bad = bytearray(good)
        bad[at] ^= 0x20
        with pytest.raises(UserError, match="damaged or changed"):
            load(bytes(bad), digest=digest, verify=verify)
    for more in (b"\0", b"anything" * 100, bytes(64)):
        ends = f"it has {len(good) + len(more)} bytes, and its last section ends at byte {len(good)}"
        with pytest.raises(UserError, match=ends):
            load(good + more, digest=digest, verify=verify)
    assert load(good, digest=digest, verify=verify).manifest.digest == digest


def test_saving_is_atomic(path, monkeypatch, symbolic):
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifact_file.os, "replace", fail)
    with pytest.raises(UserError, match=r"cannot be written to .*: No space left on device"):
        save(path, "other", "", [], [])
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.skipif(os.name == "nt", reason="paths as a whole may not be long there")
@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127])
def test_names_may_be_as_long_as_the_system_has_them(tmp_path, name):
    save(tmp_path / name, "net", "", [], [])
    assert load(tmp_path / name).manifest.name == "net"
    assert os.listdir(tmp_path) == [name]


def test_saving_over_an_open_artifact_keeps_it_readable(path):
    opened = load(path)
    save(path, "other", "", [], [])
    assert load(path).manifest.name == "other"
    assert opened.weights["a"].tobytes() == weights()[0].array.tobytes()


def test_what_cannot_be_saved(tmp_path):
    array = np.ones(3, np.float32)
    weight = StoredWeight.plain("w", array)
    with pytest.raises(UserError, match="two weights have the same name"):
        save(tmp_path / "x", "net", "", [], [weight, weight])
    with pytest.raises(UserError, match=r"weight 'w' is float32\[3\], expected float32\[4\]"):
        save(tmp_path / "x", "net", "", [], [StoredWeight("w", "float32", (4,), "plain", array)])
    with pytest.raises(UserError, match="cannot be written"):
        save(tmp_path / "missing" / "x", "net", "", [], [weight])
    assert os.listdir(tmp_path) == []


def test_saved_files_are_readable_like_any_other(path):
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_model_runs_from_its_artifact(tmp_path, many, weight):
    target = tmp_path / "many.joinery"
    unused = np.arange(6.0).reshape(2, 3)
    Model(many, [weight], "text", weights={"w": weight, "unused": unused}).save(target)
    manifest, text, compiled, arrays, *_ = load(target, trusted=True)
    assert (manifest.name, text, compiled) == ("many", "text", many)
    model = Model(compiled, [arrays[spec.name] for spec in compiled.constants], text)
    assert np.may_share_memory(model._executable.constants[0], arrays["w"]), (
        "weights are used where they are mapped"
    )
    assert model(np.ones(2, np.float32))[0] == 5.5
    np.testing.assert_array_equal(arrays["unused"], unused)
