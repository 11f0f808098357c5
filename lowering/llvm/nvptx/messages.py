"""The texts that a kernel contains: formats of its prints, and messages of its assertions."""

from __future__ import annotations

from ....promotion.dataclass import dataclass
from ..module import Module
from ..values import V


@dataclass(frozen=True, slots=True)
class Assertion:
    """An assertion that can fail: the message, its source location, the block's shape, and the element that thread 0 has in it.

    The next thread has the next element.
    """

    message: str
    location: tuple[str, int] | None
    shape: tuple[int, ...]
    first: int


class Messages:
    """The texts of one kernel. `assertions`: the text that a failed assertion reports → the assertion."""

    def __init__(self, module: Module) -> None:
        self.assertions: dict[str, Assertion] = {}
        self._module = module
        self._names: dict[str, str] = {}

    def text(self, value: str) -> V:
        """Returns the generic address of a text that ends in a zero byte."""
        octets = value.encode() + b"\0"
        content = "".join(chr(octet) if 32 <= octet < 127 and octet not in b'"\\' else f"\\{octet:02X}" for octet in octets)
        names = self._names
        name = names.setdefault(content, f"jn_text{len(names)}")
        type_ = f"[{len(octets)} x i8]"
        self._module.globals[name] = f'@{name} = internal unnamed_addr addrspace(1) constant {type_} c"{content}", align 1'
        return V(f"addrspacecast (ptr addrspace(1) @{name} to ptr)", "ptr")
