"""Makes small networks of further kinds: spectra, attention of other forms, recurrences without loops, flows, splines."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as f

from .torch_networks import network


def _sequence(length: int = 12, width: int = 8) -> tuple[Any, ...]:
    return (torch.randn(2, length, width),)


# -- spectra -----------------------------------------------------------------------------------------------------------


class Spectral(nn.Module):
    """Mixes low frequencies of an image by complex weights."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(width, width, modes, modes, dtype=torch.complex64) / width)

    def forward(self, x: Any) -> Any:
        spectrum = torch.fft.rfft2(x)
        low = torch.einsum("bixy,ioxy->boxy", spectrum[..., : self.modes, : self.modes], self.weight)
        padded = f.pad(low, (0, spectrum.shape[-1] - self.modes, 0, spectrum.shape[-2] - self.modes))
        return torch.fft.irfft2(padded, s=x.shape[-2:])


@network
def fourier_operator() -> Any:
    class Operator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift, self.drop = nn.Conv2d(3, 6, 1), nn.Conv2d(6, 1, 1)
            self.spectral = nn.ModuleList([Spectral(6, 3) for _ in range(2)])
            self.local = nn.ModuleList([nn.Conv2d(6, 6, 1) for _ in range(2)])

        def forward(self, x: Any) -> Any:
            x = self.lift(x)
            for spectral, local in zip(self.spectral, self.local, strict=True):
                x = f.gelu(spectral(x) + local(x))
            return self.drop(x)

    return Operator(), (torch.randn(2, 3, 8, 8),)


@network
def fnet() -> Any:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
            self.feed = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

        def forward(self, x: Any) -> Any:
            x = self.first(x + torch.fft.fft2(x).real)
            return self.second(x + self.feed(x))

    return nn.Sequential(Layer(), Layer()), _sequence()


@network
def hyena() -> Any:
    class Hyena(nn.Module):
        """Long convolutions with filters that a small network makes, gated by elements."""

        def __init__(self, length: int = 12, width: int = 8) -> None:
            super().__init__()
            self.project, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.short = nn.Conv1d(3 * width, 3 * width, 3, padding=2, groups=3 * width)
            self.filter = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, width))
            t = torch.linspace(0, 1, length)[:, None]
            self.register_buffer("position", torch.cat([t, torch.sin(6 * t), torch.cos(6 * t)], 1))
            self.register_buffer("decay", torch.exp(-3 * t))

        def forward(self, x: Any) -> Any:
            length = x.shape[1]
            parts = self.short(self.project(x).transpose(1, 2))[..., :length]
            gate, value, other = parts.chunk(3, 1)
            taps = (self.filter(self.position) * self.decay).T
            spectrum = torch.fft.rfft(value * other, n=2 * length) * torch.fft.rfft(taps, n=2 * length)
            mixed = torch.fft.irfft(spectrum, n=2 * length)[..., :length]
            return self.out((mixed * gate).transpose(1, 2))

    return Hyena(), _sequence()


# -- attention of other forms ------------------------------------------------------------------------------------------


@network
def conformer() -> Any:
    class Feed(nn.Sequential):
        def __init__(self) -> None:
            super().__init__(nn.LayerNorm(8), nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))

    class Conformer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = Feed(), Feed()
            self.norm, self.last = nn.LayerNorm(8), nn.LayerNorm(8)
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
            self.inner, self.outer = nn.Conv1d(8, 16, 1), nn.Conv1d(8, 8, 1)
            self.depthwise, self.batch = nn.Conv1d(8, 8, 5, padding=2, groups=8), nn.BatchNorm1d(8)

        def forward(self, x: Any) -> Any:
            x = x + self.before(x) / 2
            y = self.norm(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            wide = f.glu(self.inner(x.transpose(1, 2)), 1)
            x = x + self.outer(f.silu(self.batch(self.depthwise(wide)))).transpose(1, 2)
            return self.last(x + self.after(x) / 2)

    return Conformer(), _sequence()


@network
def detection_decoder() -> Any:
    class Decoder(nn.Module):
        """Queries look at an image's features, and say classes and boxes."""

        def __init__(self) -> None:
            super().__init__()
            self.features = nn.Conv2d(3, 8, 4, stride=4)
            self.queries = nn.Parameter(torch.randn(5, 8))
            self.own = nn.MultiheadAttention(8, 2, batch_first=True)
            self.cross = nn.MultiheadAttention(8, 2, batch_first=True)
            self.norms = nn.ModuleList([nn.LayerNorm(8) for _ in range(2)])
            self.classes, self.boxes = nn.Linear(8, 4), nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))

        def forward(self, x: Any) -> Any:
            memory = self.features(x).flatten(2).transpose(1, 2)
            query = self.queries.expand(x.shape[0], -1, -1)
            query = self.norms[0](query + self.own(query, query, query)[0])
            query = self.norms[1](query + self.cross(query, memory, memory)[0])
            return self.classes(query), self.boxes(query).sigmoid()

    return Decoder(), (torch.randn(2, 3, 16, 16),)


@network
def deformable_attention() -> Any:
    class Deformable(nn.Module):
        """Samples features between elements, at offsets that it learns."""

        def __init__(self) -> None:
            super().__init__()
            self.value, self.offset, self.weight = nn.Conv2d(3, 6, 1), nn.Linear(4, 8), nn.Linear(4, 4)

        def forward(self, image: Any, query: Any) -> Any:
            batch, count, _ = query.shape
            grid = torch.tanh(self.offset(query)).view(batch, count, 4, 2)
            sampled = f.grid_sample(self.value(image), grid, align_corners=False)
            return (sampled * self.weight(query).softmax(-1)[:, None]).sum(-1).transpose(1, 2)

    return Deformable(), (torch.randn(2, 3, 8, 8), torch.randn(2, 5, 4))


@network
def perceiver() -> Any:
    class Perceiver(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.latents = nn.Parameter(torch.randn(4, 8))
            self.keys, self.queries, self.out = nn.Linear(8, 16), nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x: Any) -> Any:
            keys, values = self.keys(x).chunk(2, -1)
            query = self.queries(self.latents).expand(x.shape[0], -1, -1)
            return self.out(f.scaled_dot_product_attention(query, keys, values)).mean(1)

    return Perceiver(), _sequence()


# -- recurrences -------------------------------------------------------------------------------------------------------


@network
def rwkv() -> Any:
    class TimeMix(nn.Module):
        """Weighted sums of the past that decay, step by step."""

        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.decay, self.first = nn.Parameter(torch.rand(width)), nn.Parameter(torch.rand(width))
            self.share = nn.Parameter(torch.rand(3, width))
            self.key, self.value, self.gate, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))

        def forward(self, x: Any) -> Any:
            before = f.pad(x, (0, 0, 1, -1))
            key, value, gate = (layer(torch.lerp(before, x, share)) for layer, share in
                                zip((self.key, self.value, self.gate), self.share, strict=True))  # fmt: skip
            above, below = torch.zeros_like(x[:, 0]), torch.zeros_like(x[:, 0])
            largest = torch.full_like(x[:, 0], -1e4)
            rows = []
            for step in range(x.shape[1]):
                k, v = key[:, step], value[:, step]
                top = torch.maximum(largest, self.first + k)
                old, new = torch.exp(largest - top), torch.exp(self.first + k - top)
                rows.append((old * above + new * v) / (old * below + new))
                top = torch.maximum(largest - self.decay.exp(), k)
                old, new = torch.exp(largest - self.decay.exp() - top), torch.exp(k - top)
                above, below, largest = old * above + new * v, old * below + new, top
            return self.out(torch.sigmoid(gate) * torch.stack(rows, 1))

    return TimeMix(), _sequence(6)


@network
def xlstm() -> Any:
    class MatrixMemory(nn.Module):
        """A memory that is a matrix, in its parallel form: gates are exponentials, in logarithms."""

        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.project, self.gates, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, 2), nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            query, key, value = self.project(x).chunk(3, -1)
            entry, keep = self.gates(x).unbind(-1)
            kept = f.logsigmoid(keep).cumsum(1)
            weight = kept[:, :, None] - kept[:, None, :] + entry[:, None, :]
            length = x.shape[1]
            weight = weight.masked_fill(torch.ones(length, length, dtype=torch.bool).triu(1), -math.inf)
            top = weight.amax(-1, keepdim=True)
            scores = query @ key.transpose(1, 2) / math.sqrt(x.shape[-1]) * torch.exp(weight - top)
            size = torch.maximum(scores.sum(-1, keepdim=True).abs(), torch.exp(-top))
            return x + self.norm(scores @ value / (size + 1e-6))

    return MatrixMemory(), _sequence()


# -- densities, codes and curves ---------------------------------------------------------------------------------------


@network
def coupling_flow() -> Any:
    class Coupling(nn.Module):
        """A normalizing flow: halves that scale and shift each other, and the logarithm of the determinant."""

        def __init__(self) -> None:
            super().__init__()
            self.nets = nn.ModuleList([nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 6)) for _ in range(3)])

        def forward(self, x: Any) -> Any:
            logarithm = torch.zeros(x.shape[0])
            for net in self.nets:
                one, two = x.chunk(2, 1)
                scale, shift = net(one).chunk(2, 1)
                scale = torch.tanh(scale)
                x = torch.cat([two * torch.exp(scale) + shift, one], 1)
                logarithm = logarithm + scale.sum(1)
            return x, logarithm - 0.5 * x.square().sum(1) - 3 * math.log(2 * math.pi)

    return Coupling(), (torch.randn(5, 6),)


@network
def vector_quantiser() -> Any:
    class Quantiser(nn.Module):
        """Nearest codes of a book, with gradients that go straight through."""

        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = nn.Conv2d(3, 4, 4, stride=4), nn.ConvTranspose2d(4, 3, 4, stride=4)
            self.codes = nn.Embedding(10, 4)

        def forward(self, x: Any) -> Any:
            z = self.encode(x).permute(0, 2, 3, 1)
            at = torch.cdist(z.reshape(1, -1, 4), self.codes.weight[None])[0].argmin(-1)
            code = self.codes(at).view_as(z)
            loss = f.mse_loss(code, z.detach()) + 0.25 * f.mse_loss(z, code.detach())
            return self.decode((z + (code - z).detach()).permute(0, 3, 1, 2)), loss

    return Quantiser(), (torch.randn(2, 3, 8, 8),)


@network
def spline_network() -> Any:
    class Splines(nn.Module):
        """Edges that are splines of first order (KAN): each input is looked up between the knots around it."""

        def __init__(self, inputs: int, outputs: int, knots: int = 7) -> None:
            super().__init__()
            self.register_buffer("knots", torch.linspace(-2, 2, knots))
            self.heights = nn.Parameter(torch.randn(inputs, knots, outputs) / 3)

        def forward(self, x: Any) -> Any:
            at = (torch.bucketize(x, self.knots, right=True) - 1).clamp(0, self.knots.numel() - 2)
            share = (x - self.knots[at]) / (self.knots[at + 1] - self.knots[at])
            rows = torch.arange(x.shape[1])
            low, high = self.heights[rows, at], self.heights[rows, at + 1]
            return torch.lerp(low, high, share[..., None]).sum(1)

    return nn.Sequential(Splines(4, 5), Splines(5, 2)), (torch.randn(6, 4),)


@network
def neural_ode() -> Any:
    class Flow(nn.Module):
        """A state that a network moves, by four steps of Runge and Kutta."""

        def __init__(self) -> None:
            super().__init__()
            self.field = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 4))

        def forward(self, x: Any) -> Any:
            h = 0.25
            for _ in range(4):
                a = self.field(x)
                b = self.field(x + h / 2 * a)
                c = self.field(x + h / 2 * b)
                x = x + h / 6 * (a + 2 * b + 2 * c + self.field(x + h * c))
            return x

    return Flow(), (torch.randn(3, 4),)


@network
def negative_binomial() -> Any:
    class Counts(nn.Module):
        """Counts of genes: an encoder, a decoder, and how likely they are by gamma functions."""

        def __init__(self) -> None:
            super().__init__()
            self.encode, self.decode = nn.Linear(9, 4), nn.Linear(4, 9)
            self.dispersion = nn.Parameter(torch.randn(9))

        def forward(self, x: Any) -> Any:
            mean = f.softplus(self.decode(torch.relu(self.encode(torch.log1p(x))))) + 1e-4
            theta = self.dispersion.exp()
            likely = torch.lgamma(x + theta) - torch.lgamma(theta) - torch.lgamma(x + 1)
            likely = likely + theta * torch.log(theta / (theta + mean)) + x * torch.log(mean / (theta + mean))
            return -likely.sum(-1)

    return Counts(), (torch.randint(0, 30, (4, 9)).float(),)
