"""Clones of the projects, and an environment for each, in a folder that is kept."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from .projects import Project

ROOT = Path(__file__).resolve().parents[2]


class SetupError(RuntimeError):
    """A project could not be cloned or its environment not be made."""


def clone(project: Project, cache: Path, local: Path | None) -> Path:
    """The project's files at its commit. They are copied from `local`, a clone or a bare repository, where one is given."""
    target = cache / project.name / "source"
    if not project.git:
        target.mkdir(parents=True, exist_ok=True)
        return target
    done = cache / project.name / "commit"
    wanted = " ".join([project.commit, *project.folders])
    if done.is_file() and done.read_text() == wanted:
        return target
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    git = ["git", "-C", str(target)]
    _call([*git, "init", "--quiet"])
    if project.folders:
        # As patterns: with cones, files of the folders above would come along, and packages begin there.
        _call([*git, "sparse-checkout", "set", "--no-cone", *(f"/{folder}/" for folder in project.folders)])
    if local is None:
        partial = ["--filter=blob:none"] if project.folders else []
        _call([*git, "remote", "add", "origin", project.git])
        _call([*git, "fetch", "--quiet", "--depth=1", *partial, "origin", project.commit])
    else:
        folder = subprocess.run(
            ["git", "-C", str(local), "rev-parse", "--absolute-git-dir"], capture_output=True, text=True, check=False
        )
        if folder.returncode:
            raise SetupError(f"{project.name}: {local} is no git repository: {folder.stderr.strip()}")
        objects = Path(folder.stdout.strip()) / "objects"
        (target / ".git" / "objects" / "info" / "alternates").write_text(f"{objects}\n")
    _call([*git, "checkout", "--quiet", "--detach", project.commit])
    done.write_text(wanted)
    return target


def environment(project: Project, cache: Path) -> Path:
    """The interpreter of the project's environment: joinery of this checkout, and the project's requirements."""
    folder = cache / project.name / "venv"
    python = folder / "bin" / "python"
    wanted = "\n".join([str(ROOT), *project.requirements])
    done = folder / "requirements"
    if done.is_file() and done.read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    _call([sys.executable, "-m", "venv", str(folder)])
    install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _call([*install, "--editable", str(ROOT), "pytest>=8", *project.requirements])
    done.write_text(wanted)
    return python


def _call(command: Sequence[str]) -> None:
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    if found.returncode:
        raise SetupError(f"{' '.join(command)} ended with {found.returncode}:\n{found.stderr.strip()[-2000:]}")
