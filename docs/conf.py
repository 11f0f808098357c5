"""Configures how Sphinx builds the site of the documentation (`make docs-site`).

Pages are the Markdown files of this folder, written so that they also read well in the repository. Some are files
outside it (`OUTSIDE`); the API reference is generated (`api_pages.py`). A broken link fails the build.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util import logging

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

import api_pages  # noqa: E402 (a sibling)
import joinery  # noqa: E402

project = "joinery"
release = version = joinery.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["*.py"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
default_role = "py:obj"
highlight_language = "none"
pygments_dark_style = "github-dark"
nitpicky = False
toc_object_entries_show_parents = "hide"

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]
suppress_warnings = ["myst.header"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
maximum_signature_line_length = 120
python_use_unqualified_type_names = True

html_theme = "furo"
html_title = "joinery"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}

OUTSIDE = {
    "index": "README.md",
    "guides/contributing": "CONTRIBUTING.md",
    "start/changelog": "CHANGELOG.md",
    "start/measurements": "benchmarks/results/README.md",
}
"""Pages whose text is a file outside docs/, with its path from the root."""
BELOW = {"promotion": ("promotion/*",)}
"""Pages that are below another one in the navigation."""
LINK = re.compile(r"\]\((?!https?:)([\w./-]+\.\w+(?:#[\w.-]*)?)\)")
"""Matches a link or picture that names a file."""

STUBS = api_pages.stub_annotations()
SECTIONS = Config(napoleon_use_ivar=True)
WARNINGS = logging.getLogger(__name__)


def mend_links(app: Sphinx, docname: str, source: list[str]) -> None:
    """Puts the text of a file outside docs/ before that of its page, and redirects links to such files to
    their pages."""
    folder = posixpath.dirname(f"docs/{docname}")
    if docname in OUTSIDE:
        file = DOCS.parent / OUTSIDE[docname]
        lies_in = posixpath.dirname(OUTSIDE[docname])
        text = file.read_text(encoding="utf-8")
        source[0] = LINK.sub(lambda link: f"]({led(link.group(1), lies_in, folder)})", text) + source[0]
        app.env.note_dependency(file)
    else:
        source[0] = LINK.sub(lambda link: f"]({led(link.group(1), folder, folder)})", source[0])
    source[0] += "".join(f"\n\n```{{toctree}}\n:hidden:\n:glob:\n\n{docs}\n```\n" for docs in BELOW.get(docname, ()))


def led(target: str, written_in: str, folder: str) -> str:
    """Returns the link from a page in `folder` to what `target` leads to from the folder `written_in`; both
    folders are relative to the root."""
    path, mark, anchor = target.partition("#")
    path = posixpath.normpath(posixpath.join(written_in, path))
    pages = {name: f"docs/{page}.md" for page, name in OUTSIDE.items()}
    return posixpath.relpath(pages.get(path, path), folder) + mark + anchor


def link_names(app: Sphinx, doctree: nodes.document) -> None:
    """Turns code in prose that names a part of the API (`jn.compile`) into a link to its entry."""
    for literal in list(doctree.findall(nodes.literal)):
        name = re.fullmatch(r"(?:jn|joinery)\.([A-Za-z_][\w.]*)(?:\(.*\))?", literal.astext())
        if name and not isinstance(literal.parent, (addnodes.pending_xref, nodes.reference)):
            link = addnodes.pending_xref(
                "", refdomain="py", reftype="obj", reftarget=f"joinery.{name.group(1)}", refwarn=False, refexplicit=True
            )
            link["refdoc"] = app.env.current_document.docname
            literal.replace_self(link)
            link += literal


def docstring(app: Sphinx, what: str, name: str, value: Any, _options: Any, lines: list[str]) -> None:
    """Converts a docstring to reStructuredText, and its sections to fields.

    Napoleon is called here, not loaded as an extension: of a property it would take what stands before the first
    colon for a type. It is told that properties are methods.
    """
    text = api_pages.without_repetition("\n".join(lines))
    restructured = [api_pages.restructured(api_pages.joint_names(line)) for line in text.splitlines()]
    kind = "method" if what in ("property", "attribute", "data") else what
    lines[:] = GoogleDocstring(restructured, SECTIONS, app, kind, name, value).lines()


def space_joint_names(app: Sphinx, doctree: nodes.document) -> None:
    """Puts back the spaces that `api_pages.joint_names` took out, and warns of a field whose name or type is a
    torn sentence."""
    for field in doctree.findall(nodes.field):
        shown = [field[0].astext()]
        for name in field.findall(lambda node: isinstance(node, (addnodes.literal_strong, addnodes.literal_emphasis))):
            shown.append(name.astext())
            if isinstance(name, addnodes.literal_strong) and "," in name.astext():
                name.children = [nodes.Text(", ".join(name.astext().split(",")))]
        torn = [text for text in shown if text == "Type" or re.fullmatch(r"\w+,", text)]
        if torn:
            WARNINGS.warning("%r is read as a type, in: %s", torn[-1], field.astext()[:80], location=field)


def signature(
    _app: Sphinx, what: str, name: str, value: Any, _options: Any, _arguments: str | None, _returned: str | None
) -> tuple[str, str | None] | None:
    if what in ("class", "exception"):
        parameters = api_pages.constructor(value)
        return None if parameters is None else (parameters, None)
    return api_pages.signature(name.removeprefix("joinery."), value, STUBS)


def setup(app: Sphinx) -> None:
    api_pages.write(DOCS / "api")
    app.connect("source-read", mend_links)
    app.connect("doctree-read", link_names)
    app.connect("doctree-read", space_joint_names)
    app.connect("autodoc-process-docstring", docstring)
    app.connect("autodoc-process-signature", signature)
