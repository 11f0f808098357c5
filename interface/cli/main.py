"""Implements the `joinery` command.

It answers promotion queries, handles saved models and block kernels, and reports on the installation. The
exit status is 0, or 2 for a mistake in what was asked, or 1 for what this version or this machine cannot do.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from ... import __version__
from ...promotion import UserError
from ...promotion.errors import JoineryError
from ...runtime.host.streams import tell
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
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except BrokenPipeError:  # `joinery table | head`: the reader has what it wanted
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except JoineryError as error:
        text = f"joinery {options.name}: {error}"
        tell(str(error) if error.is_formatted else wrapped(text))
        return 2 if isinstance(error, UserError) else 1


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
        added.set_defaults(command=command)
        return added

    add_commands(add)

    add_models(add)
    add_batch(add)
    add_exporting(add)
    add_compile(add)
    add_prove(add)

    add_doctor(add)
    return parser
