"""docs/extending.md: each example, applied to a copy of the repository, works in as many files as the page says, and all
together pass the checks of the project."""

from __future__ import annotations

import re

import pytest

from ..support.examples import PAGE, ROOT, Copy, applied, examples
from ..support.tiers import halved

EXAMPLES = examples()
FOLDERS = (
    "house", "docs", "graph", "promotion", "interface/cli", "lowering/tt/transforms", "lowering/tile", "lowering/llvm/math",
    "end_to_end/test_ops_maps.py", "end_to_end/test_ops_reductions.py",
)
"""Tests that go through rows, public functions, rule sets, passes or dtypes."""
PAGES = ("generate", "stubs", "tables", "onnx_export", "libdevice", "tt_ops", "triton_versions")
"""The scripts of `make docs`."""


def test_the_table_says_how_many_files_each_example_has() -> None:
    rows = dict(re.findall(r"^\| \[(.+?)\]\(#.+?\) \| (\d+) \|", PAGE, re.M))
    counted = {title[0].lower() + title[1:]: str(example.files) for title, example in EXAMPLES.items()}
    assert rows == counted


def test_the_scripts_are_those_of_make_docs() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile[makefile.index("\ndocs: ") :].split("\n\n")[0]
    assert re.findall(r"docs/(\w+)\.py", recipe) == list(PAGES)


def test_an_example_fits_a_file_that_others_have_added_to() -> None:
    lines = [" A = (", '+    "mine",']
    assert applied('A = (\n    "theirs",\n)\n', lines) == 'A = (\n    "mine",\n    "theirs",\n)\n'
    followed = 'A = (\n    "theirs",\n    "mine",\n)\n'
    assert applied(followed, lines) == followed
    with pytest.raises(AssertionError, match="stands 0 times"):
        applied("B = ()\n", lines)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    return Copy.made_in(tmp_path_factory.mktemp("extended"))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("title", halved(EXAMPLES))
def test_an_example_works_in_a_copy_of_the_package(title: str, copy: Copy) -> None:
    example = EXAMPLES[title]
    try:
        copy.apply(example)
        assert example.programs
        for program in example.programs:
            done = copy.run_program(program)
            assert done.returncode == 0, done.stderr
    finally:
        copy.restore(example)


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """A copy with all examples, and the types that are made from them."""
    copy = Copy.made_in(tmp_path_factory.mktemp("all"))
    for example in EXAMPLES.values():
        copy.apply(example)
    made(copy, "stubs")
    return copy


@pytest.fixture(scope="module")
def extended(typed: Copy) -> Copy:
    """The copy with the pages that are made from the examples, too."""
    for script in PAGES[:4]:  # the others are not about what examples add
        if script != "stubs":
            made(typed, script)
    return typed


def made(copy: Copy, script: str) -> None:
    done = copy.run(f"docs/{script}.py")
    assert done.returncode == 0, done.stdout + done.stderr


CHANGED = sorted({name for example in EXAMPLES.values() for name, _ in example.changes if name.endswith(".py")})


def test_the_linter_accepts_the_examples(typed: Copy) -> None:
    done = typed.run("-m", "ruff", "check", "--no-cache", *CHANGED, "__init__.pyi")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_the_type_checker_accepts_the_examples(extended: Copy) -> None:
    """As `make types`, of which only what it says of changed files counts."""
    names = [f"joinery/{name}" for name in CHANGED if not name.startswith("tests/")]
    cache = ROOT / ".mypy_cache" / "extended"
    settings = ("--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(cache), "--no-error-summary")
    skipped = ("--exclude", "(^|/)joinery/(tests|benchmarks|examples|docs|out|build)/")
    done = Copy(extended.root.parent).run("-m", "mypy", *settings, *skipped, "-p", "joinery", timeout=600)
    assert done.returncode in (0, 1), done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith(tuple(names))] == []


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_other_test_has_to_change(extended: Copy, folder: str) -> None:
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", f"tests/{folder}")
    left_out = ("--deselect", "tests/docs/test_extending.py") if folder == "docs" else ()
    done = extended.run(*command, *left_out, timeout=1800)
    assert done.returncode == 0, done.stdout[-6000:]
