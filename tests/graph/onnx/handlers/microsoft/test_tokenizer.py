"""Tokenizer, as scikit-learn's converter writes it for text, against onnxruntime."""

from __future__ import annotations

import importlib.util
import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.reference.patterns import Pattern

from .....support.onnx_texts import agrees, model

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
TEXTS = np.array(["the cat, sat_on 2 mats", "", "?!", "Birds aaab ab abab"], object)


def tokenizer(pattern: str, shape: str = "n", **changed: int) -> Any:
    given = {"mark": 0, "mincharnum": 1, **changed}
    numbers = ", ".join(f"{name}={value}" for name, value in given.items())
    call = f'com.microsoft.Tokenizer<pad_value="#", tokenexp="{pattern}", {numbers}>(x)'
    return model(f"(string[{shape}] x) => (string[{shape}, k] y)", f"y = {call}")


@pytest.mark.parametrize("pattern", ["[a-zA-Z0-9_]+", "[a-z]", "a|ab|aaab", "(ab)+|b+", "[^ ]*t"])
@pytest.mark.parametrize("mark", [0, 1])
def test_parts_that_match(pattern: str, mark: int) -> None:
    agrees(tokenizer(pattern, mark=mark), {"x": TEXTS}, {"x": TEXTS[:2]})


def test_rows_of_texts_and_parts_that_are_too_short() -> None:
    agrees(tokenizer("[a-z]+", "n, m", mincharnum=3), {"x": TEXTS.reshape(2, 2)})


def test_texts_become_counts_of_words() -> None:
    body = """f = Reshape(x, s) l = StringNormalizer<case_change_action="LOWER", locale="C">(f)
        t = com.microsoft.Tokenizer<mark=0, mincharnum=1, pad_value="#", tokenexp="[a-z]+">(l) w = Flatten(t)
        y = TfIdfVectorizer<max_gram_length=2, max_skip_count=0, min_gram_length=1, mode="TF", ngram_counts=[0, 2],
            ngram_indexes=[0, 1, 2], pool_strings=["cat", "birds", "the", "cat"]>(w)"""
    agrees(model("(string[n, 1] x) => (float[n, 3] y)", body, s=np.array([-1])), {"x": TEXTS.reshape(4, 1)})


@pytest.mark.parametrize("pattern", ["a+b?", "ab*|b", "[ab]c", "x*"])
def test_the_longest_part_from_the_left(pattern: str) -> None:
    """Where the first way that Python tries is the longest one, both find the same."""
    for text in ("", "aabab", "abcabc", "ccc", "xxaxx", "bbabbb"):
        assert Pattern(pattern).parts(text) == [part for part in re.findall(pattern, text) if part]


def test_what_is_refused() -> None:
    call = 'y = com.microsoft.Tokenizer<mark=0, mincharnum=1, pad_value="#", separators=[" "]>(x)'
    with pytest.raises(jn.UnsupportedError, match="separators, without a tokenexp"):
        jn.from_onnx(model("(string[n] x) => (string[n, k] y)", call))
    with pytest.raises(jn.UserError, match="is no pattern"):
        jn.evaluate(jn.from_onnx(tokenizer("[a")), TEXTS)
    with pytest.raises(jn.UserError, match="mincharnum 0"):
        jn.from_onnx(tokenizer("a", mincharnum=0))
