"""Makes small models of PyTorch with random weights, each by a function that returns a model and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MODELS: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {}

BOUND = 48 * 30 * 2.0**-24
"""The error of these models in float32, relative to the largest result: sums of at most 48 products through 30 layers."""


def model(make: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Callable[[], tuple[Any, tuple[Any, ...]]]:
    """Register a function that makes a model."""
    MODELS[make.__name__] = make
    return make


def made(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a model and its inputs, the same in every run."""
    import torch

    torch.manual_seed(0)
    module, inputs = MODELS[name]()
    return module.eval(), inputs


@model
def mlp() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    layers = [nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5), nn.Softmax(-1)]
    return nn.Sequential(*layers), (torch.randn(6, 12),)


@model
def cnn() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(width)
            self.second = nn.Conv2d(width, width, 3, padding=1)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.second(torch.relu(self.norm(self.first(x)))) + x)

    layers = [nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
              Block(8), nn.Conv2d(8, 8, 3, groups=8, padding=1), nn.Hardswish(), nn.AdaptiveAvgPool2d(1),
              nn.Flatten(), nn.Linear(8, 4)]
    return nn.Sequential(*layers), (torch.randn(2, 3, 32, 32),)


@model
def unet() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Conv2d(2, 8, 3, stride=2, padding=1)
            self.norm = nn.GroupNorm(2, 8)
            self.middle = nn.Conv2d(8, 8, 3, padding=1)
            self.up = nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
            self.last = nn.Conv2d(6, 1, 1)

        def forward(self, x: Any) -> Any:
            y = nn.functional.silu(self.norm(self.down(x)))
            wide = nn.functional.interpolate(self.middle(y), scale_factor=2.0, mode="bilinear", align_corners=False)
            return self.last(torch.cat([x, self.up(y) + wide[:, :4]], 1))

    return Net(), (torch.randn(1, 2, 16, 16),)


@model
def lstm() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from torch import nn

    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 6)
            self.lstm = nn.LSTM(6, 8, batch_first=True, bidirectional=True)
            self.head = nn.Linear(16, 3)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.lstm(self.table(tokens))[0])

    return Tagger(), (torch.randint(0, 20, (2, 5)),)


@model
def bert() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                        max_position_embeddings=40)
    mask = torch.ones(2, 9, dtype=torch.int64)
    mask[1, 6:] = 0
    return BertModel(config), (torch.randint(0, 50, (2, 9)), mask)


@model
def gpt2() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=50, n_embd=32, n_layer=2, n_head=4, n_positions=40, use_cache=False)
    return GPT2LMHeadModel(config), (torch.randint(0, 50, (2, 9)),)


@model
def llama() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         intermediate_size=48, max_position_embeddings=40, use_cache=False)
    return LlamaForCausalLM(config), (torch.randint(0, 50, (2, 9)),)


@model
def vit() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=16,
                       patch_size=4)
    return ViTModel(config), (torch.randn(2, 3, 16, 16),)


@model
def t5() -> tuple[Any, tuple[Any, ...]]:
    import torch
    from transformers import T5Config, T5Model

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = T5Config(vocab_size=50, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, use_cache=False)
            self.model = T5Model(config)

        def forward(self, tokens: Any, targets: Any) -> Any:
            return self.model(input_ids=tokens, decoder_input_ids=targets).last_hidden_state

    return Net(), (torch.randint(0, 50, (2, 9)), torch.randint(0, 50, (2, 7)))
