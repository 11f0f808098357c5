"""Shows texts of strangers: names and lines of a file can neither begin a line of a message nor drive a terminal.

What is escaped are control characters, separators of lines and paragraphs, and what changes the direction of text or has no
glyph of its own, as `\\n`, `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

from unicodedata import category


def printable(name: str) -> str:
    """Show a name, or any other text that is one line: line ends are escaped, too."""
    return name if name.isprintable() else "".join([_shown(each, "") for each in name])


def printable_lines(text: str) -> str:
    """Show a text of several lines, whose own line ends and tabs stay."""
    return text if text.isprintable() else "".join([_shown(each, "\n\t") for each in text])


def in_columns(line: str) -> str:
    """Show a line of a text below which a caret points to one of its columns: one character stands for each."""
    if line.isprintable():
        return line
    shown = [" " if each == "\t" else _shown(each, "") for each in line]
    return "".join([each if len(each) == 1 else "\N{REPLACEMENT CHARACTER}" for each in shown])


def _shown(character: str, kept: str) -> str:
    # Spaces of other widths are not printable to Python; people write them, and they do no harm.
    if character.isprintable() or character in kept or category(character) == "Zs":
        return character
    return repr(character)[1:-1]
