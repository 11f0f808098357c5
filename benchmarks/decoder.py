"""Defines a decoder of language in Llama's shape in PyTorch: caches come in and go out as tensors, as runtimes without
state need them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """Widths and counts of a decoder: 110 million parameters by default, a fifth of them in the embedding, which the
    head shares."""

    width: int = 768
    layers: int = 12
    heads: int = 12
    pairs: int = 4
    inner: int = 2048
    words: int = 32000

    @property
    def head(self) -> int:
        return self.width // self.heads


class _Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        rows = shape.heads * shape.head
        columns = shape.pairs * shape.head
        self.before, self.between = nn.RMSNorm(shape.width), nn.RMSNorm(shape.width)
        self.q, self.o = nn.Linear(shape.width, rows, bias=False), nn.Linear(rows, shape.width, bias=False)
        self.k, self.v = (
            nn.Linear(shape.width, columns, bias=False),
            nn.Linear(shape.width, columns, bias=False),
        )
        self.gate, self.up = (nn.Linear(shape.width, shape.inner, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.inner, shape.width, bias=False)

    def forward(
        self,
        x: torch.Tensor,
        turns: tuple[torch.Tensor, torch.Tensor],
        mask: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the layer's result, and its keys and values of all tokens so far, each (1, pairs, tokens, head)."""
        new = x.shape[1]

        def heads(y: torch.Tensor, count: int) -> torch.Tensor:
            return y.view(1, new, count, self.shape.head).transpose(1, 2)

        def turned(y: torch.Tensor) -> torch.Tensor:
            half = self.shape.head // 2
            return y * turns[0] + torch.cat([-y[..., half:], y[..., :half]], -1) * turns[1]

        y = self.before(x)
        q, k = turned(heads(self.q(y), self.shape.heads)), turned(heads(self.k(y), self.shape.pairs))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, heads(self.v(y), self.shape.pairs)], 2)
        group = self.shape.heads // self.shape.pairs
        wide = [each.repeat_interleave(group, 1) for each in (keys, values)]
        mixed = functional.scaled_dot_product_attention(q, *wide, attn_mask=mask)
        x = x + self.o(mixed.transpose(1, 2).reshape(1, new, -1))
        y = self.between(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), keys, values


class Decoder(nn.Module):
    """A decoder: tokens (1, new) and caches of shape (2 · layers, 1, pairs, old, head) to logits of the last token and
    new caches."""

    def __init__(self, shape: Shape = Shape()) -> None:
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.words, shape.width)
        self.layers = nn.ModuleList([_Layer(shape) for _ in range(shape.layers)])
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.words, bias=False)

    def forward(self, tokens: torch.Tensor, *caches: torch.Tensor) -> tuple[torch.Tensor, ...]:
        old, new = caches[0].shape[2], tokens.shape[1]
        places = torch.arange(old, old + new)
        rates = 10000.0 ** (-torch.arange(0, self.shape.head, 2) / self.shape.head)
        angles = torch.outer(places.to(torch.float32), rates).repeat(1, 2)
        turns = angles.cos(), angles.sin()
        mask = torch.arange(old + new)[None, :] <= places[:, None]
        x = self.words(tokens)
        kept: list[torch.Tensor] = []
        for index, layer in enumerate(self.layers):
            x, keys, values = layer(x, turns, mask, caches[2 * index], caches[2 * index + 1])
            kept += [keys, values]
        return self.head(self.norm(x[:, -1:])), *kept

    def inputs(self, new: int, old: int) -> tuple[torch.Tensor, ...]:
        """Returns random tokens and caches."""
        tokens = torch.randint(0, self.shape.words, (1, new))
        return tokens, *(
            torch.randn(1, self.shape.pairs, old, self.shape.head) for _ in range(2 * self.shape.layers)
        )
