"""Makes small networks of still further kinds: sets, volumes, capsules, tables, forecasts, pairs, adversaries, messages."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as f
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from .torch_networks import network


@network
def unet_3d() -> Any:
    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv3d(2, 6, 3, padding=1), nn.Conv3d(6, 12, 3, padding=1)
            self.norm, self.up = nn.GroupNorm(3, 6), nn.ConvTranspose3d(12, 6, 2, stride=2)
            self.last = nn.Conv3d(12, 2, 3, padding=1)

        def forward(self, x: Any) -> Any:
            near = f.leaky_relu(self.norm(self.first(x)))
            far = f.leaky_relu(self.second(f.max_pool3d(near, 2)))
            return self.last(torch.cat([near, self.up(far)], 1))

    return Network(), (torch.randn(1, 2, 8, 8, 8),)


@network
def capsules() -> Any:
    class Capsules(nn.Module):
        """Routes votes of small capsules to larger ones by agreement."""

        def __init__(self) -> None:
            super().__init__()
            self.image = nn.Conv2d(1, 16, 5, stride=2)
            self.votes = nn.Parameter(torch.randn(3, 144, 4, 8) / 4)

        def forward(self, x: Any) -> Any:
            small = self._squashed(f.relu(self.image(x)).flatten(1).view(x.shape[0], -1, 4))
            votes = torch.einsum("bic,oicd->boid", small, self.votes)
            routes = votes.new_zeros(votes.shape[:3])
            for _ in range(3):
                found = self._squashed((routes.softmax(1)[..., None] * votes).sum(2))
                routes = routes + (votes * found[:, :, None]).sum(-1)
            return found.norm(dim=-1)

        def _squashed(self, x: Any) -> Any:
            square = x.square().sum(-1, keepdim=True)
            return square / (1 + square) * x / (square + 1e-6).sqrt()

    return Capsules(), (torch.randn(2, 1, 16, 16),)


@network
def deep_factorisation() -> Any:
    class Network(nn.Module):
        """DeepFM: pairs of fields by factors, and layers over the same factors."""

        def __init__(self, fields: int = 5, words: int = 20, width: int = 4) -> None:
            super().__init__()
            self.linear, self.factors = nn.Embedding(fields * words, 1), nn.Embedding(fields * words, width)
            self.deep = nn.Sequential(nn.Linear(fields * width, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
            self.register_buffer("offsets", torch.arange(fields) * words)

        def forward(self, fields: Any) -> Any:
            at = fields + self.offsets
            factors = self.factors(at)
            pairs = 0.5 * (factors.sum(1).square() - factors.square().sum(1)).sum(1, keepdim=True)
            return torch.sigmoid(self.linear(at).sum(1) + pairs + self.deep(factors.flatten(1)))

    return Network(), (torch.randint(0, 20, (6, 5)),)


@network
def forecasts_by_residues() -> Any:
    class Block(nn.Module):
        def __init__(self, past: int, future: int, degree: int) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(past, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU())
            self.past, self.future = nn.Linear(16, degree), nn.Linear(16, degree)
            steps = torch.linspace(-1, 1, past + future)
            basis = torch.stack([steps**power for power in range(degree)])
            self.register_buffer("behind", basis[:, :past])
            self.register_buffer("ahead", basis[:, past:])

        def forward(self, x: Any) -> Any:
            seen = self.layers(x)
            return self.past(seen) @ self.behind, self.future(seen) @ self.ahead

    class Network(nn.Module):
        """N-BEATS: each block explains what those before it left."""

        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Block(12, 4, degree) for degree in (2, 3, 4)])

        def forward(self, x: Any) -> Any:
            total: Any = 0
            for block in self.blocks:
                past, future = block(x)
                x, total = x - past, total + future
            return total

    return Network(), (torch.randn(5, 12),)


@network
def hypernetwork() -> Any:
    class Network(nn.Module):
        """A network whose weights another one makes for each sample."""

        def __init__(self) -> None:
            super().__init__()
            self.make = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 6 * 8 + 8))

        def forward(self, x: Any, task: Any) -> Any:
            made = self.make(task)
            weight, bias = made[:, :48].view(-1, 6, 8), made[:, 48:]
            return torch.func.vmap(lambda x, w, b: torch.tanh(x @ w + b))(x, weight, bias)

    return Network(), (torch.randn(4, 5, 6), torch.randn(4, 3))


@network
def siamese() -> Any:
    class Network(nn.Module):
        """Images side by side, with losses by cosines, by distances and of triples."""

        def __init__(self) -> None:
            super().__init__()
            self.one = nn.Sequential(nn.Conv2d(3, 8, 3, 2), nn.InstanceNorm2d(8, affine=True), nn.PReLU(8),
                                     nn.AdaptiveAvgPool2d((2, 3)), nn.Flatten(), nn.Linear(48, 8))  # fmt: skip

        def forward(self, a: Any, b: Any, same: Any) -> Any:
            left, right = self.one(a), self.one(b)
            cosine = f.cosine_embedding_loss(left, right, same.sign(), margin=0.2)
            triple = f.triplet_margin_loss(left, right, right.roll(1, 0))
            return f.cosine_similarity(left, right), f.pairwise_distance(left, right), cosine, triple

    return Network(), (torch.randn(3, 3, 13, 13), torch.randn(3, 3, 13, 13), torch.tensor([1.0, -1.0, 1.0]))


@network
def adversaries() -> Any:
    class Network(nn.Module):
        """A generator and a discriminator whose weights are divided by their largest singular value."""

        def __init__(self) -> None:
            super().__init__()
            self.generator = nn.Sequential(nn.ConvTranspose2d(4, 8, 4), nn.BatchNorm2d(8), nn.ReLU(),
                                           nn.ConvTranspose2d(8, 3, 4, 2, 1), nn.Tanh())  # fmt: skip
            self.discriminator = nn.Sequential(spectral_norm(nn.Conv2d(3, 8, 3, 2, 1)), nn.LeakyReLU(0.2),
                                               nn.Flatten(), weight_norm(nn.Linear(128, 1)))  # fmt: skip

        def forward(self, noise: Any) -> Any:
            image = self.generator(noise[:, :, None, None])
            return image, f.softplus(-self.discriminator(image))

    return Network(), (torch.randn(3, 4),)


@network
def messages() -> Any:
    class Network(nn.Module):
        """Messages along edges, whose sums, means, maxima and counts by target decide what becomes of the nodes."""

        def __init__(self, width: int = 6) -> None:
            super().__init__()
            self.message = nn.Linear(2 * width + 2, width)
            self.gates = nn.GRUCell(4 * width, width)

        def forward(self, nodes: Any, edges: Any, features: Any) -> Any:
            source, target = edges[0], edges[1]
            for _ in range(2):
                sent = f.silu(self.message(torch.cat([nodes[source], nodes[target], features], 1)))
                index = target[:, None].expand_as(sent)
                total = torch.zeros_like(nodes).index_add(0, target, sent)
                mean = torch.zeros_like(nodes).scatter_reduce(0, index, sent, "mean", include_self=False)
                most = torch.zeros_like(nodes).scatter_reduce(0, index, sent, "amax", include_self=False)
                count = torch.zeros_like(nodes).scatter_add(0, index, torch.ones_like(sent))
                nodes = self.gates(torch.cat([total, mean, most, count.log1p()], 1), nodes)
            return nodes

    return Network(), (torch.randn(7, 6), torch.randint(0, 7, (2, 15)), torch.randn(15, 2))


@network
def diagonal_states() -> Any:
    class Layer(nn.Module):
        """S4D: a long convolution with the response of diagonal states, by transforms."""

        def __init__(self, width: int = 4, states: int = 4) -> None:
            super().__init__()
            self.step = nn.Parameter(torch.rand(width) - 3)
            self.decay = nn.Parameter(torch.zeros(width, states))
            self.turn = nn.Parameter(math.pi * torch.arange(states).repeat(width, 1).float())
            self.out = nn.Parameter(torch.randn(width, states, 2))
            self.skip = nn.Parameter(torch.randn(width))

        def forward(self, x: Any) -> Any:
            length = x.shape[-1]
            poles = torch.complex(-self.decay.exp(), self.turn) * self.step.exp()[:, None]
            rates = torch.view_as_complex(self.out) * (poles.exp() - 1) / poles
            response = 2 * (rates[..., None] * (poles[..., None] * torch.arange(length)).exp()).sum(1).real
            spectrum = torch.fft.rfft(response, 2 * length) * torch.fft.rfft(x, 2 * length)
            return f.gelu(torch.fft.irfft(spectrum, 2 * length)[..., :length] + x * self.skip[:, None])

    return nn.Sequential(Layer(), Layer()), (torch.randn(2, 4, 10),)


@network
def induced_sets() -> Any:
    class Attention(nn.Module):
        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.heads, self.feed = nn.MultiheadAttention(width, 2, batch_first=True), nn.Linear(width, width)

        def forward(self, x: Any, y: Any) -> Any:
            x = x + self.heads(x, y, y, need_weights=False)[0]
            return x + f.relu(self.feed(x))

    class Network(nn.Module):
        """A set transformer: attention through a few learnt points, then pooling by one."""

        def __init__(self) -> None:
            super().__init__()
            self.points, self.seed = nn.Parameter(torch.randn(1, 3, 8)), nn.Parameter(torch.randn(1, 1, 8))
            self.down, self.up, self.pool = Attention(), Attention(), Attention()

        def forward(self, x: Any) -> Any:
            x = self.up(x, self.down(self.points.expand(x.shape[0], -1, -1), x))
            return self.pool(self.seed.expand(x.shape[0], -1, -1), x)

    return Network(), (torch.randn(2, 9, 8),)


@network
def masked_pixels() -> Any:
    class Masked(nn.Conv2d):
        """A convolution that sees what comes before a pixel."""

        def __init__(self, kind: str, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            mask = torch.ones_like(self.weight)
            height, width = self.kernel_size
            mask[:, :, height // 2, width // 2 + (kind == "b") :] = 0
            mask[:, :, height // 2 + 1 :] = 0
            self.register_buffer("mask", mask)

        def forward(self, x: Any) -> Any:
            return f.conv2d(x, self.weight * self.mask, self.bias, self.stride, self.padding)

    layers = [Masked("a", 1, 8, 5, padding=2), nn.ReLU(), Masked("b", 8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1)]
    return nn.Sequential(*layers), (torch.randn(2, 1, 9, 9),)


@network
def normal_mixture() -> Any:
    class Network(nn.Module):
        """A density of mixtures with full covariances, by triangular factors."""

        def __init__(self, parts: int = 3, width: int = 2) -> None:
            super().__init__()
            self.parts, self.width = parts, width
            self.layers = nn.Sequential(nn.Linear(4, 16), nn.ELU(), nn.Linear(16, parts * (1 + width + width * width)))

        def forward(self, x: Any, y: Any) -> Any:
            made = self.layers(x).view(-1, self.parts, 1 + self.width + self.width * self.width)
            weights, means, factors = made.split([1, self.width, self.width * self.width], -1)
            factors = factors.unflatten(-1, (self.width, self.width))
            scale = f.softplus(factors.diagonal(dim1=-2, dim2=-1)) + 0.1
            lower = factors.tril(-1) + torch.diag_embed(scale)
            moved = ((y[:, None] - means)[..., None, :] * lower).sum(-1) / scale
            density = -0.5 * moved.square().sum(-1) - scale.log().sum(-1) - math.log(2 * math.pi)
            return -torch.logsumexp(weights[..., 0].log_softmax(-1) + density, -1)

    return Network(), (torch.randn(5, 4), torch.randn(5, 2))
