"""Implements the `joinery` command.

It answers promotion queries, handles saved models and block kernels, and reports on the installation. The
exit status is 0, or 2 for a mistake in what was asked, or 1 for what this version or this machine cannot do.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, TextIO

from ... import __version__
from ...promotion import UserError
from ...promotion.errors import JoineryError
from ...runtime.host.streams import forget, tell
from .batch import add_batch
from .doctor import add_doctor
from .exporting import add_exporting
from .kernel import add_compile, is_number
from .models import add_models
from .promotion import add_commands
from .proving import add_prove
from .text import WIDTH, wrapped


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status.

    Mistakes in the command line itself raise `SystemExit(2)`.
    """
    options = _options(argv)
    with contextlib.ExitStack() as stack:
        for stream, redirected in ((sys.stdout, contextlib.redirect_stdout), (sys.stderr, contextlib.redirect_stderr)):
            if stream is not None and not options.says_what_is_lost:  # a process may have none
                stack.callback((own := _Closable(stream)).flush)
                stack.enter_context(redirected(own))
        return _status(options)


def _status(options: argparse.Namespace) -> int:
    """Run a command and return its exit status."""
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except JoineryError as error:
        text = f"joinery {options.name}: {error}"
        tell(str(error) if error.is_formatted else wrapped(text))
        return 2 if isinstance(error, UserError) else 1


class _Closable:
    """A stream whose reader may have what it wanted before the end (`joinery table | head`), which is no fault.

    What follows is written to nowhere, so that a command comes to its own status all the same.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            forget(self._stream)
            return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except BrokenPipeError:
            forget(self._stream)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line.

    argparse takes positional arguments in one piece, but a kernel's may stand before and after its options.
    """
    parser = _parser()
    options, rest = parser.parse_known_args(argv)
    takes_more = hasattr(options, "arguments")
    unknown = [each for each in rest if not takes_more or (each.startswith("-") and not is_number(each))]
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if rest:
        options.arguments = [*options.arguments, *rest]
    return options


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.format_usage()}{wrapped(f'{self.prog}: error: {message}')}\n")


def _parser() -> argparse.ArgumentParser:
    def formatter(prog: str) -> argparse.HelpFormatter:
        return argparse.HelpFormatter(prog, width=WIDTH)

    parser = _Parser(
        prog="joinery",
        description="Promotion queries, compiled models and block kernels.",
        formatter_class=formatter,
    )
    parser.add_argument("--version", action="version", version=f"joinery {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, dest="name")

    def add(name: str, command: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        added = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}.", formatter_class=formatter
        )
        added.set_defaults(command=command, says_what_is_lost=False)
        return added

    add_commands(add)

    add_models(add)
    add_batch(add)
    add_exporting(add)
    add_compile(add)
    add_prove(add)

    add_doctor(add)
    return parser
