"""What a text of a stranger's may not do to a message."""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Callable
from unicodedata import category

import joinery as jn
import pytest
from joinery.promotion.errors import KernelAssertionError, called_from, in_columns, printable, printable_lines

HARMFUL = "\x1b\r\v\f\x1c\x1d\x1e\x85\u2028\u2029\u202a\u202e\u2066\u200f\x9b\x7f\x00\udc80"


def test_every_character_that_ends_a_line_or_drives_a_terminal_is_escaped() -> None:
    """The witness is Python's own notion of lines, and the categories of Unicode."""
    for code in (*range(0x3100), *range(0xD7FF, sys.maxunicode + 1, 97), 0xFEFF, 0xE0001):
        letter = chr(code)
        is_harmful = category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") or len(f"a{letter}b".splitlines()) > 1
        shown = printable(letter)
        assert (shown == letter) is not is_harmful or category(letter) in ("Co", "Cn"), hex(code)
        assert shown == letter or shown.isascii()
        assert printable_lines(letter) == (letter if letter in "\n\t" else shown)
        assert len(in_columns(letter)) == 1
        assert (in_columns(letter) == letter) is (shown == letter)


def test_what_people_write_stays_as_it_is() -> None:
    for text in ("größe_x 名前 a\u00a0b\u3000c 'q' \\n", ""):
        assert printable(text) == printable_lines(text) == in_columns(text) == text


@pytest.mark.parametrize("made", [jn.UserError, jn.UnsupportedError, jn.InternalError, KernelAssertionError])
def test_every_error_shows_its_message_without_them(made: Callable[[str], jn.JoineryError]) -> None:
    error = made(f"first\n  at {HARMFUL}\n\tlast")
    error.add_note(f"note {HARMFUL}\nsecond")
    for each in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert str(each).splitlines()[::2] == ["first", "\tlast"]
        assert len(str(each).splitlines()) == 3
        assert all(line.replace("\t", "").isprintable() for line in str(each).split("\n"))
    error.args = (f"{error}\n{HARMFUL}",)  # as what adds a line to a message does
    assert len(str(error).splitlines()) == 4
    assert [note.splitlines()[1:] for note in error.__notes__] == [["second"]]


def test_an_assertion_is_one_line_and_keeps_its_message() -> None:
    error = KernelAssertionError.of("no\n0 findings", ("a\nb.py", 3), (0, 0, 0), (), [("c\nd.py", 4)])
    assert str(error).split("\n") == [
        r"the kernel's assertion at a\nb.py:3 fails in program (0, 0, 0): no\n0 findings", r"  called from c\nd.py:4",
    ]  # fmt: skip
    assert error.message == "no\n0 findings"
    assert called_from([("c", 4)]) == "\n  called from c:4"
