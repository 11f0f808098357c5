"""Examples in the docstrings of public functions print what they say."""

from __future__ import annotations

import doctest
import inspect

import joinery as jn
import numpy as np
import pytest
from joinery.graph.functions.names.exports import EXPORTS

TEXTS = {name: inspect.getdoc(getattr(jn, name)) or "" for name in EXPORTS}
WITH_EXAMPLES = sorted(name for name, text in TEXTS.items() if ">>> " in text)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples(name: str) -> None:
    example = doctest.DocTestParser().get_doctest(TEXTS[name], {"jn": jn, "np": np}, name, None, 0)
    said: list[str] = []
    outcome = doctest.DocTestRunner().run(example, out=said.append)
    assert outcome.attempted >= 2
    assert outcome.failed == 0, "".join(said)
