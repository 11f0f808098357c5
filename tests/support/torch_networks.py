"""Makes small networks of many kinds, written out in PyTorch alone: a function returns a model and its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as f

NETWORKS: dict[str, Callable[[], tuple[nn.Module, tuple[Any, ...]]]] = {}


def network(make: Callable[[], tuple[nn.Module, tuple[Any, ...]]]) -> Callable[[], tuple[nn.Module, tuple[Any, ...]]]:
    """Register a function that makes a network."""
    NETWORKS[make.__name__] = make
    return make


def _image(size: int = 16) -> tuple[Any, ...]:
    return (torch.randn(2, 3, size, size),)


# -- images ------------------------------------------------------------------------------------------------------------


class Squeeze(nn.Module):
    """Scales channels by what their means say (squeeze and excitation)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)

    def forward(self, x: Any) -> Any:
        return x * f.hardsigmoid(self.up(torch.relu(self.down(f.adaptive_avg_pool2d(x, 1)))))


class Inverted(nn.Module):
    """An inverted residual: wide, depthwise, narrow."""

    def __init__(self, width: int, activation: nn.Module) -> None:
        super().__init__()
        wide = 2 * width
        self.layers = nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), activation,
            nn.Conv2d(wide, wide, 5, padding=2, groups=wide, bias=False), nn.BatchNorm2d(wide), activation, Squeeze(wide),
            nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return x + self.layers(x)


@network
def mobilenet_v3() -> Any:
    stem = [nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.Hardswish()]
    tail = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 12), nn.Hardswish(), nn.Linear(12, 5)]
    return nn.Sequential(*stem, Inverted(8, nn.ReLU()), Inverted(8, nn.Hardswish()), *tail), _image()


@network
def densenet() -> Any:
    class Dense(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            layers = [(nn.BatchNorm2d(width + 4 * n), nn.Conv2d(width + 4 * n, 4, 3, padding=1, bias=False)) for n in range(3)]
            self.layers = nn.ModuleList(nn.Sequential(norm, nn.ReLU(), conv) for norm, conv in layers)

        def forward(self, x: Any) -> Any:
            found = [x]
            for layer in self.layers:
                found.append(layer(torch.cat(found, 1)))
            return torch.cat(found, 1)

    between = [nn.BatchNorm2d(20), nn.ReLU(), nn.Conv2d(20, 10, 1, bias=False), nn.AvgPool2d(2)]
    layers = [nn.Conv2d(3, 8, 7, 2, 3), nn.MaxPool2d(3, 2, 1), Dense(8), *between, Dense(10), nn.BatchNorm2d(22), nn.ReLU(),
              nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(22, 5)]
    return nn.Sequential(*layers), _image(32)


class Attention(nn.Module):
    """Self-attention with a learned bias for each pair of positions."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads, self.norm = heads, nn.LayerNorm(width)
        self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.randn(heads, length, length))

    def forward(self, x: Any) -> Any:
        *batch, length, width = x.shape
        parts = self.project(self.norm(x)).reshape(-1, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = f.scaled_dot_product_attention(*parts, attn_mask=self.bias)
        return x + self.out(y.transpose(1, 2).reshape(*batch, length, width))


@network
def maxvit() -> Any:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.block, self.grid = Inverted(8, nn.GELU()), Attention(8, 2, 16), Attention(8, 2, 16)

        def forward(self, x: Any) -> Any:
            x = self.conv(x)
            batch, width, height, _ = x.shape
            n = height // 4
            blocks = x.view(batch, width, n, 4, n, 4).permute(0, 2, 4, 3, 5, 1).reshape(batch, n * n, 16, width)
            x = self.block(blocks).view(batch, n, n, 4, 4, width).permute(0, 5, 1, 3, 2, 4).reshape(x.shape)
            grid = x.view(batch, width, 4, n, 4, n).permute(0, 3, 5, 2, 4, 1).reshape(batch, n * n, 16, width)
            return self.grid(grid).view(batch, n, n, 4, 4, width).permute(0, 5, 3, 1, 4, 2).reshape(x.shape)

    return nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), Block(), Block(), nn.AdaptiveAvgPool2d(1), nn.Flatten()), _image()


@network
def mlp_mixer() -> Any:
    class Mixer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(12), nn.LayerNorm(12)
            self.tokens = nn.Sequential(nn.Linear(16, 20), nn.GELU(), nn.Linear(20, 16))
            self.channels = nn.Sequential(nn.Linear(12, 20), nn.GELU(), nn.Linear(20, 12))

        def forward(self, x: Any) -> Any:
            x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
            return x + self.channels(self.second(x))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches, self.layers = nn.Conv2d(3, 12, 4, 4), nn.Sequential(Mixer(), Mixer())

        def forward(self, x: Any) -> Any:
            return self.layers(self.patches(x).flatten(2).transpose(1, 2)).mean(1)

    return Net(), _image()


@network
def deeplab() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU())
            self.rates = nn.ModuleList(nn.Conv2d(8, 6, 3, padding=rate, dilation=rate) for rate in (1, 2, 3))
            self.pool, self.last = nn.Conv2d(8, 6, 1), nn.Conv2d(24, 4, 1)

        def forward(self, x: Any) -> Any:
            y = self.stem(x)
            wide = f.interpolate(self.pool(f.adaptive_avg_pool2d(y, 1)), y.shape[2:], mode="bilinear", align_corners=False)
            joined = torch.cat([*[torch.relu(rate(y)) for rate in self.rates], wide], 1)
            return f.interpolate(self.last(joined), x.shape[2:], mode="bilinear", align_corners=False)

    return Net(), _image()


@network
def vae() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(), nn.Conv2d(8, 8, 4, 2, 1), nn.Flatten())
            self.mean, self.spread, self.wide = nn.Linear(128, 6), nn.Linear(128, 6), nn.Linear(6, 128)
            self.decode = nn.Sequential(nn.ConvTranspose2d(8, 8, 4, 2, 1), nn.LeakyReLU(), nn.ConvTranspose2d(8, 3, 4, 2, 1))

        def forward(self, x: Any, noise: Any) -> Any:
            y = self.encode(x)
            mean, spread = self.mean(y), self.spread(y)
            z = mean + noise * torch.exp(0.5 * spread)
            kept = -0.5 * (1 + spread - mean.square() - spread.exp()).sum(1).mean()
            return torch.sigmoid(self.decode(self.wide(z).view(-1, 8, 4, 4))), kept

    return Net(), (*_image(), torch.randn(2, 6))


@network
def diffusion_unet() -> Any:
    class Block(nn.Module):
        def __init__(self, before: int, after: int) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.GroupNorm(2, before), nn.GroupNorm(2, after)])
            self.convs = nn.ModuleList([nn.Conv2d(before, after, 3, padding=1), nn.Conv2d(after, after, 3, padding=1)])
            self.time = nn.Linear(16, after)
            self.past = nn.Conv2d(before, after, 1)

        def forward(self, x: Any, time: Any) -> Any:
            y = self.convs[0](f.silu(self.norms[0](x))) + self.time(f.silu(time))[:, :, None, None]
            return self.past(x) + self.convs[1](f.silu(self.norms[1](y)))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, 2, 1)
            self.blocks = nn.ModuleList([Block(8, 8), Block(8, 8), Block(16, 8)])
            self.time = nn.Sequential(nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 16))
            self.attend, self.last = nn.MultiheadAttention(8, 2, batch_first=True), nn.Conv2d(8, 3, 3, padding=1)

        def forward(self, x: Any, step: Any) -> Any:
            angles = step[:, None] * torch.exp(-torch.arange(8) / 8)[None]
            time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
            one = self.blocks[0](self.first(x), time)
            two = self.blocks[1](self.down(one), time)
            tokens = two.flatten(2).transpose(1, 2)
            two = two + self.attend(tokens, tokens, tokens, need_weights=False)[0].transpose(1, 2).reshape(two.shape)
            wide = f.interpolate(two, scale_factor=2.0, mode="nearest")
            return self.last(self.blocks[2](torch.cat([one, wide], 1), time))

    return Net(), (*_image(), torch.tensor([3.0, 7.0]))


# -- sequences ---------------------------------------------------------------------------------------------------------


@network
def tcn() -> Any:
    class Block(nn.Module):
        def __init__(self, before: int, after: int, gap: int) -> None:
            super().__init__()
            self.gap, self.conv, self.past = gap, nn.Conv1d(before, after, 3, dilation=gap), nn.Conv1d(before, after, 1)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.conv(f.pad(x, (2 * self.gap, 0)))) + self.past(x)

    return nn.Sequential(Block(4, 8, 1), Block(8, 8, 2), Block(8, 8, 4), nn.Conv1d(8, 3, 1)), (torch.randn(2, 4, 20),)


@network
def wavenet() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            norm = nn.utils.parametrizations.weight_norm
            self.layers = nn.ModuleList(norm(nn.Conv1d(6, 12, 2, dilation=2**n)) for n in range(3))
            self.first, self.skips = nn.Conv1d(1, 6, 1), nn.ModuleList(nn.Conv1d(6, 6, 1) for _ in range(3))

        def forward(self, x: Any) -> Any:
            x, total = self.first(x), 0
            for number, (layer, skip) in enumerate(zip(self.layers, self.skips, strict=True)):
                value, gate = layer(f.pad(x, (2**number, 0))).chunk(2, 1)
                y = torch.tanh(value) * torch.sigmoid(gate)
                x, total = x + y, total + skip(y)
            return total

    return Net(), (torch.randn(2, 1, 24),)


@network
def torch_transformer() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(20, 16)
            self.model = nn.Transformer(16, 2, 1, 1, 24, dropout=0.0, batch_first=True)

        def forward(self, source: Any, target: Any) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            return self.model(self.table(source), self.table(target), tgt_mask=mask, tgt_is_causal=True)

    return Net(), (torch.randint(0, 20, (2, 6)), torch.randint(0, 20, (2, 5)))


class Recurrent(nn.Module):
    """Tags each token of a sequence."""

    def __init__(self, kind: type[nn.Module]) -> None:
        super().__init__()
        self.table, self.layers = nn.Embedding(20, 6), kind(6, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.layers(self.table(tokens))[0])


@network
def lstm_tagger() -> Any:
    return Recurrent(nn.LSTM), (torch.randint(0, 20, (2, 7)),)


@network
def gru_tagger() -> Any:
    return Recurrent(nn.GRU), (torch.randint(0, 20, (2, 7)),)


@network
def state_space() -> Any:
    from torch._higher_order_ops.scan import scan

    class Net(nn.Module):
        """A linear recurrence with gates, by PyTorch's scan."""

        def __init__(self) -> None:
            super().__init__()
            self.gate, self.value, self.out = nn.Linear(6, 12), nn.Linear(6, 12), nn.Linear(12, 6)

        def forward(self, x: Any) -> Any:
            def step(state: Any, now: Any) -> Any:
                after = now[0] * state + now[1]
                return after, after.clone()

            gates, values = torch.sigmoid(self.gate(x)).transpose(0, 1), self.value(x).transpose(0, 1)
            _, found = scan(step, torch.zeros(x.shape[0], 12), (gates, values))
            return self.out(found.transpose(0, 1))

    return Net(), (torch.randn(2, 9, 6),)


@network
def mixture_of_experts() -> Any:
    class Net(nn.Module):
        """Each token goes to two of four experts; tokens of an expert lie side by side."""

        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(8, 4, bias=False)
            self.wide, self.narrow = nn.Parameter(torch.randn(4, 8, 12) / 3), nn.Parameter(torch.randn(4, 12, 8) / 3)

        def forward(self, x: Any) -> Any:
            tokens = x.reshape(-1, 8)
            shares, experts = torch.topk(torch.softmax(self.gate(tokens), -1), 2)
            shares = shares / shares.sum(-1, keepdim=True)
            order = experts.flatten().sort(stable=True).indices
            owner = order // 2
            chosen = experts.flatten()[order]
            hidden = f.silu(torch.einsum("td,tdh->th", tokens[owner], self.wide[chosen]))
            result = torch.einsum("th,thd->td", hidden, self.narrow[chosen]) * shares.flatten()[order][:, None]
            return torch.zeros_like(tokens).index_add(0, owner, result).view(x.shape)

    return Net(), (torch.randn(2, 5, 8),)


@network
def decoder_with_cache() -> Any:
    class Net(nn.Module):
        """One step of a decoder whose keys and values are kept in buffers, at a position that is data."""

        def __init__(self) -> None:
            super().__init__()
            self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
            self.register_buffer("keys", torch.zeros(2, 2, 10, 8))
            self.register_buffer("values", torch.zeros(2, 2, 10, 8))

        def forward(self, x: Any, position: Any) -> Any:
            q, k, v = self.project(x).view(2, 1, 3, 2, 8).permute(2, 0, 3, 1, 4)
            self.keys.index_copy_(2, position, k)
            self.values.index_copy_(2, position, v)
            seen = (torch.arange(10) <= position)[None, None, None]
            y = f.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen)
            return self.out(y.transpose(1, 2).reshape(2, 1, 16))

    return Net(), (torch.randn(2, 1, 16), torch.tensor([3]))


# -- graphs, tables, points --------------------------------------------------------------------------------------------

_EDGES = torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 4], [1, 2, 3, 4, 5, 0, 3, 5, 1]])


@network
def gcn() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(5, 8), nn.Linear(8, 3)])

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = edges
            degree = torch.ones(x.shape[0]).scatter_add(0, target, torch.ones(edges.shape[1]))
            share = (degree[source] * degree[target]).rsqrt()[:, None]
            for number, layer in enumerate(self.layers):
                y = layer(x)
                x = (y / degree[:, None]).index_add(0, target, y[source] * share)
                x = torch.relu(x) if number == 0 else x
            return x

    return Net(), (torch.randn(6, 5), _EDGES)


@network
def gat() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project = nn.Linear(5, 8, bias=False)
            self.left, self.right = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.randn(2, 4))

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = edges
            h = self.project(x).view(-1, 2, 4)
            score = f.leaky_relu((h * self.left).sum(-1)[source] + (h * self.right).sum(-1)[target], 0.2)
            at = target[:, None].expand(-1, 2)
            most = torch.full((x.shape[0], 2), -torch.inf).scatter_reduce(0, at, score.detach(), "amax")
            weight = torch.exp(score - most[target])
            total = torch.zeros(x.shape[0], 2).scatter_add(0, at, weight)
            share = (weight / total[target])[:, :, None]
            return f.elu(torch.zeros_like(h).index_add(0, target, share * h[source])).flatten(1)

    return Net(), (torch.randn(6, 5), _EDGES)


@network
def dlrm() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bags = nn.ModuleList(nn.EmbeddingBag(10, 6, mode="sum") for _ in range(2))
            self.bottom, self.top = nn.Sequential(nn.Linear(4, 6), nn.ReLU()), nn.Linear(9, 1)
            self.register_buffer("rows", torch.tensor([1, 2, 2]))
            self.register_buffer("columns", torch.tensor([0, 0, 1]))

        def forward(self, dense: Any, indices: Any, offsets: Any) -> Any:
            first = self.bottom(dense)
            values = torch.stack([first, *[bag(row, offsets) for bag, row in zip(self.bags, indices, strict=True)]], 1)
            pairs = torch.bmm(values, values.transpose(1, 2))[:, self.rows, self.columns]
            return torch.sigmoid(self.top(torch.cat([first, pairs], 1)))

    return Net(), (torch.randn(3, 4), torch.randint(0, 10, (2, 7)), torch.tensor([0, 2, 5]))


@network
def two_towers() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = nn.Embedding(10, 8), nn.Embedding(12, 8, padding_idx=0)
            self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, user: Any, history: Any) -> Any:
            mask = (history != 0).float()[:, :, None]
            mean = (self.items(history) * mask).sum(1) / mask.sum(1).clamp(min=1)
            left, right = f.normalize(self.left(self.users(user)), dim=-1), f.normalize(self.right(mean), dim=-1)
            return f.log_softmax(left @ right.t() / 0.1, -1)

    return Net(), (torch.randint(0, 10, (4,)), torch.randint(0, 12, (4, 5)))


@network
def nerf() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.last = nn.Linear(27, 16), nn.Linear(43, 16), nn.Linear(16, 4)

        def forward(self, points: Any, steps: Any) -> Any:
            angles = points[..., None, :] * (2.0 ** torch.arange(4))[:, None]
            code = torch.cat([points, angles.sin().flatten(-2), angles.cos().flatten(-2)], -1)
            hidden = torch.relu(self.second(torch.cat([torch.relu(self.first(code)), code], -1)))
            raw = self.last(hidden)
            opacity = 1 - torch.exp(-f.softplus(raw[..., 3]) * steps)
            passed = torch.cumprod(torch.cat([torch.ones_like(opacity[:, :1]), 1 - opacity + 1e-10], 1), 1)[:, :-1]
            return (opacity * passed)[..., None].mul(torch.sigmoid(raw[..., :3])).sum(1)

    return Net(), (torch.randn(3, 8, 3), torch.rand(3, 8))


@network
def pointnet() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.points = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU(), nn.Conv1d(8, 16, 1))
            self.head = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 4))

        def forward(self, x: Any) -> Any:
            distances = torch.cdist(x, x)
            near = distances.topk(3, largest=False).indices
            mean = torch.gather(x[:, None].expand(-1, x.shape[1], -1, -1), 2, near[..., None].expand(-1, -1, -1, 3)).mean(2)
            return self.head(self.points((x - mean).transpose(1, 2)).max(2).values)

    return Net(), (torch.randn(2, 10, 3),)


def made_network(name: str) -> tuple[nn.Module, tuple[Any, ...]]:
    """Return a network in evaluation mode and its inputs, the same in every run."""
    torch.manual_seed(0)
    module, inputs = NETWORKS[name]()
    return module.eval(), inputs
