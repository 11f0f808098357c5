"""The program's names of a kernel's parameters, in the texts of Tritons that print numbers in their place (up to 3.4)."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator, Sequence
from typing import Any

_NUMBERED = re.compile(r"%arg(\d+): ")
_compiled = threading.local()
"""The names of the parameters of the kernel that this thread compiles."""


def note_names() -> None:
    """Let Triton's sources of kernels note the names of their parameters when they are compiled."""
    from triton.compiler.compiler import ASTSource

    plain = ASTSource.make_ir
    if getattr(plain, "notes_names", False):
        return

    @functools.wraps(plain)
    def make_ir(self: Any, *args: Any, **keywords: Any) -> Any:
        _compiled.names = [name for key, type_ in self.signature.items() for name in _names(str(key), type_)]
        return plain(self, *args, **keywords)

    make_ir.notes_names = True  # type: ignore[attr-defined]
    ASTSource.make_ir = make_ir


def _names(name: str, type_: Any) -> Iterator[str]:
    """What a parameter of the program is called among the kernel's: its parts, if it is a tuple; nothing for constants."""
    if isinstance(type_, tuple):
        for i, each in enumerate(type_):
            yield from _names(f"{name}.{i}", each)
    elif type_ != "constexpr":
        yield name


def named(text: str, kernel: str) -> str:
    """The text of the kernel that this thread has compiled last, with the program's names of its parameters.

    It stays as it is where it has names, or other parameters than the program.
    """
    names: Sequence[str] = getattr(_compiled, "names", ())
    start = text.find(f"tt.func public @{kernel}(")
    if start < 0 or not text.startswith("%arg0: ", text.find("(", start) + 1):
        return text
    end = text.find("\n", start)
    following = text.find("tt.func ", end)
    body = text[start:] if following < 0 else text[start:following]
    if [int(number) for number in _NUMBERED.findall(text[start:end])] != list(range(len(names))):
        return text
    if any(re.search(rf"%{re.escape(name)}\b", body) for name in names):
        return text
    renamed = re.sub(
        r"%arg(\d+)\b", lambda found: f"%{names[int(found[1])]}" if int(found[1]) < len(names) else found[0], body
    )
    return text[:start] + renamed + text[start + len(body) :]
