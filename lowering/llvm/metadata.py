"""Numbered metadata of LLVM modules, and the debug information that maps instructions to source lines.

It holds lines only: a compile unit per module, a subprogram per function that has lines, a `DILocation` per line. The code
is the same with it and without.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, NamedTuple

from ...promotion.dataclass import dataclass

MAX_FILE = 1024
"""The most bytes of a file's name; longer ones are cut at the front."""
MAX_LINE = (1 << 32) - 1
MAX_COLUMN = (1 << 16) - 1

Emission = Literal["LineTablesOnly", "DebugDirectivesOnly"]
"""How lines are emitted: as line tables in DWARF sections, for object code, or as `.file` and `.loc` alone, for PTX."""


class SourceLine(NamedTuple):
    """A position in a source; lines count from 1, columns too (0: not known)."""

    file: str
    line: int
    column: int = 0


@dataclass(slots=True)
class Metadata:
    """The metadata of one module, besides !0. emission: the form of lines; None: there are none."""

    emission: Emission | None = None
    nodes: list[str] = field(default_factory=list)
    _known: dict[str, int] = field(default_factory=dict)
    _unit: int = 0

    def add(self, text: str) -> int:
        """Adds a node that is like no other, and returns its number."""
        self.nodes.append(text)
        return len(self.nodes)

    def node(self, text: str) -> int:
        """Returns the number of a node; equal nodes share one."""
        if text not in self._known:
            self._known[text] = self.add(text)
        return self._known[text]

    def no_unrolling(self) -> int:
        """Adds metadata that keeps one loop from being unrolled, and returns its number."""
        number = self.add("")
        self.nodes[-1] = f"distinct !{{!{number}, !{number + 1}}}"
        self.add('!{!"llvm.loop.unroll.disable"}')
        return number

    def text(self) -> list[str]:
        named: list[str] = []
        if self._unit:
            version, dwarf = self.node('!{i32 2, !"Debug Info Version", i32 3}'), self.node('!{i32 7, !"Dwarf Version", i32 4}')
            named = [f"!llvm.dbg.cu = !{{!{self._unit}}}", f"!llvm.module.flags = !{{!{version}, !{dwarf}}}"]
        return [*[f"!{number} = {text}" for number, text in enumerate(self.nodes, 1)], *named]

    # -- debug information ------------------------------------------------------------------------------

    def _file(self, name: str) -> int:
        if self.emission == "DebugDirectivesOnly":  # PTX strings have no escapes
            name = name.replace('"', "'").replace("\\", "/")
        return self.node(f'!DIFile(filename: "{_escaped(name)}", directory: "")')

    def subprogram(self, name: str, at: SourceLine) -> Subprogram:
        """Adds a function that begins at a line."""
        at = _clipped(at)
        file = self._file(at.file)
        if not self._unit:
            self._unit = self.add(
                f'distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, producer: "joinery", isOptimized: true, '
                f"runtimeVersion: 0, emissionKind: {self.emission})"
            )
        type_ = self.node(f"!DISubroutineType(types: !{self.node('!{}')})")
        number = self.add(
            f'distinct !DISubprogram(name: "{_escaped(name)}", scope: !{file}, file: !{file}, line: {at.line}, type: !{type_}, '
            f"scopeLine: {at.line}, spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !{self._unit})"
        )
        return Subprogram(self, number, at.file)


@dataclass(frozen=True, slots=True)
class Subprogram:
    """The function that instructions with lines belong to; `file` is the file of its own lines."""

    metadata: Metadata
    number: int
    file: str

    def location(self, at: SourceLine) -> str:
        """Returns the debug location that follows the text of an instruction from this line."""
        at = _clipped(at)
        scope = self.number
        if at.file != self.file:
            file = self.metadata._file(at.file)
            scope = self.metadata.node(f"!DILexicalBlockFile(scope: !{scope}, file: !{file}, discriminator: 0)")
        return f", !dbg !{self.metadata.node(f'!DILocation(line: {at.line}, column: {at.column}, scope: !{scope})')}"


def _clipped(at: SourceLine) -> SourceLine:
    """Limits a line to what line tables hold: texts may have any numbers and any names."""
    name = at.file.encode("utf-8", "surrogatepass")
    if len(name) > MAX_FILE:
        name = b"..." + name[3 - MAX_FILE :].decode("utf-8", "ignore").encode("utf-8")
    file = "".join([c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name.decode("utf-8", "replace")])
    line = at.line if 0 < at.line <= MAX_LINE else 0
    return SourceLine(file or "<unknown>", line, at.column if line and 0 < at.column <= MAX_COLUMN else 0)


def _escaped(text: str) -> str:
    """Escapes the contents of a string of LLVM IR."""
    return "".join([chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:02X}" for b in text.encode("utf-8")])


__all__ = ["Emission", "Metadata", "SourceLine", "Subprogram"]
