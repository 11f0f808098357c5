"""Takes one function out of the text of LLVM modules, with everything that it needs to be a module itself."""

from __future__ import annotations

import re
from collections.abc import Iterator

_NAME = re.compile(r'@(?:"[^"\n]*"|[\w.$-]+)')
_USED = re.compile(r'@(?:"[^"\n]*"|[\w.$-]+)|!\d+\b')
_NAMED = re.compile(r"![A-Za-z][\w.]*(?= = )")
_NODE = re.compile(r"!\d+(?= = )")

_Parts = dict[str, str]
"""The text of a module's functions and globals by `@name`, and of its metadata by `!name`."""


def module_of_function(text: str, name: str) -> str:
    """Returns a module that holds a function, what it calls, and the globals and metadata that these use; "" without one.

    The function comes first. Where the text is that of several modules, one after the other, those of the function's own count:
    other modules have the same names and numbers for other things.
    """
    for parts in _modules(text):
        if parts.get(f"@{name}", "").startswith("define "):
            return "\n".join(_needed(parts, f"@{name}"))
    return ""


def _needed(parts: _Parts, root: str) -> list[str]:
    """Returns the texts of what is needed: functions first, from the root on, then the others in the order of the module."""
    found = {root: None}
    waiting = [root]
    while waiting:
        text = parts[waiting.pop()]
        used = _USED.findall(text)
        if "!dbg" in text:  # the unit and the version, without which LLVM drops all lines
            used += [each for each in parts if _NAMED.match(f"{each} = ")]
        for each in used:
            if each in parts and each not in found:
                found[each] = None
                waiting.append(each)
    defined = [each for each in parts if each in found and each != root and parts[each].startswith("define ")]
    others = [each for each in parts if each in found and each != root and each not in defined]
    return [parts[each] for each in (root, *defined, *others)]


def _modules(text: str) -> Iterator[_Parts]:
    """Yields the parts of each module; metadata ends one."""
    parts: _Parts = {}
    has_metadata = False
    lines = iter(text.split("\n"))
    for line in lines:
        if not line:
            continue
        is_metadata = line[0] == "!"
        if has_metadata and not is_metadata:
            yield parts
            parts = {}
        has_metadata = is_metadata
        if is_metadata:
            name = _NODE.match(line) or _NAMED.match(line)
        else:
            name = _NAME.search(line)
            if line.startswith("define "):
                line = "\n".join([line, *_body(lines)])
        if name is not None:
            parts[name.group()] = line
    yield parts


def _body(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        yield line
        if line == "}":
            return


__all__ = ["module_of_function"]
