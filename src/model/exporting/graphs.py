"""The network as two graphs that any runtime can follow: encoder, and one decoder step with its caches.

The graphs compute what :class:`~amt.model.Transcriber` computes, without what graphs cannot say: decisions
that depend on the data. All rows of a batch start together.

Axes: B batch, S samples, C decoding channels, R rows (B·C), T frames, N cached tokens, A decoder layers,
H heads, d width of a head, V vocabulary.
"""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..decoder.t5 import T5Decoder, T5DecoderLayer
from ..frontend.log_frequency import LogFrequencySpectrogram
from ..frontend.stft import Spectrogram
from ..layers.experts import MixtureOfExperts
from ..layers.t5_attention import T5Attention
from ..transcriber import Transcriber


class EncoderGraph(nn.Module):
    """Audio → memory, and the keys and values that every decoder step reads of it."""

    def __init__(self, model: Transcriber) -> None:
        super().__init__()
        self.network = exportable(model)

    def forward(self, audio: Tensor) -> tuple[Tensor, Tensor]:
        """audio (B, 1, S) → memory (R, T, D) and cross cache (A, 2, R, H, T, d)."""
        memory = self.network.encode(audio).memory
        caches = []
        for layer in _layers(self.network.decoder):
            cross = layer.cross_attention
            caches.append(torch.stack([_heads(cross, cross.k(memory)), _heads(cross, cross.v(memory))]))
        return memory, torch.stack(caches)


class DecoderStepGraph(nn.Module):
    """One more token for every row."""

    distance_bias: Tensor

    def __init__(self, model: Transcriber) -> None:
        super().__init__()
        self.decoder = exportable(model).decoder
        if self.decoder.relative_bias is not None:
            with torch.no_grad():
                bias = self.decoder.distance_bias(self.decoder.max_length)
            self.register_buffer("distance_bias", bias.contiguous(), persistent=False)

    def forward(self, ids: Tensor, own: Tensor, cross: Tensor) -> tuple[Tensor, Tensor]:
        """The logits of the token behind ``ids``.

        Args:
            ids: (R,) int64, the tokens written last; PAD at first.
            own: (A, 2, R, H, N, d) keys and values of the tokens before; N is 0 at first.
            cross: (A, 2, R, H, T, d), from the encoder.

        Returns:
            Logits (R, V), and ``own`` with one more token, (A, 2, R, H, N + 1, d).
        """
        decoder, age = self.decoder, own.shape[4]
        x = decoder.embed(ids)[:, None]
        bias = None
        if decoder.relative_bias is None:
            x = x + decoder.positions[age : age + 1]
        else:
            distance = age - torch.arange(age + 1)
            bias = self.distance_bias[:, distance][None, :, None]
        grown = []
        for number, layer in enumerate(_layers(decoder)):
            attention = layer.self_attention
            y = layer.self_norm(x)
            new = torch.stack([_heads(attention, attention.k(y)), _heads(attention, attention.v(y))])
            cache = torch.cat([own[number], new], dim=3)
            grown.append(cache)
            x = x + _attend(attention, y, cache, bias)
            x = x + _attend(layer.cross_attention, layer.cross_norm(x), cross[number], None)
            if isinstance(layer.feed_forward, MixtureOfExperts):
                x = x + layer.feed_forward(x)[0]
            else:
                assert layer.ff_norm is not None
                x = x + layer.feed_forward(layer.ff_norm(x))
        logits = decoder.lm_head(decoder.final_norm(x))[:, 0]
        return logits * decoder.logit_scale, torch.stack(grown)


class DenseExperts(MixtureOfExperts):
    """A mixture of experts in which every expert computes every token and the router's weights choose."""

    def __init__(self, mixture: MixtureOfExperts) -> None:
        nn.Module.__init__(self)  # the parts are those of the mixture
        self.gate, self.experts, self.topk = mixture.gate, mixture.experts, mixture.topk

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        """(…, D) → (…, D), and no balance."""
        probs = self.gate(x).softmax(-1)
        best, chosen = probs.topk(self.topk, dim=-1)
        share = torch.zeros_like(probs).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
        experts = self.experts
        out = torch.zeros_like(x)
        for number in range(len(experts.w1)):
            hidden = experts.activation(F.linear(x, experts.w1[number])) * F.linear(x, experts.gate[number])
            out = out + share[..., number, None] * F.linear(hidden, experts.w2[number])
        return out, None


class ConvolvedSpectrum(nn.Module):
    """:meth:`Spectrogram.power` as one convolution with windowed cosines and sines: no complex numbers."""

    basis: Tensor

    def __init__(self, frontend: Spectrogram) -> None:
        super().__init__()
        self.n_fft, self.hop_length = frontend.n_fft, frontend.hop_length
        time = torch.arange(self.n_fft)
        self.low, high = 0, self.n_fft // 2 + 1
        if isinstance(frontend, LogFrequencySpectrogram):
            self.low, high = frontend.low, frontend.high
        bins = torch.arange(self.low, high)[:, None]
        angles = (bins * time % self.n_fft).double() * (2 * torch.pi / self.n_fft)
        window = frontend.window.double()
        basis = torch.stack([angles.cos() * window, angles.sin() * window])
        self.register_buffer("basis", basis.float(), persistent=False)

    def forward(self, audio: Tensor, low: int = 0, high: int | None = None) -> Tensor:
        """(B, S) → (B, T, high - low)."""
        half = self.n_fft // 2
        padded = F.pad(audio[:, None], (half, half), mode="reflect")
        basis = self.basis[:, low - self.low : None if high is None else high - self.low]
        both = F.conv1d(padded, basis.flatten(0, 1)[:, None], stride=self.hop_length)
        real, imaginary = torch.split(both, basis.shape[1], dim=1)
        power: Tensor = (real.square() + imaginary.square()).transpose(1, 2)
        return power


def exportable(model: Transcriber) -> Transcriber:
    """A copy in evaluation mode on the CPU in float32, with the parts replaced that graphs cannot say."""
    twin = copy.deepcopy(model).cpu().float().eval().requires_grad_(False)
    for module in list(twin.modules()):
        for name, child in list(module.named_children()):
            if isinstance(child, MixtureOfExperts):
                setattr(module, name, DenseExperts(child))
    assert isinstance(twin.frontend, Spectrogram)
    # A method gives way to a module, so it is set past the module's own list of parts.
    object.__setattr__(twin.frontend, "power", ConvolvedSpectrum(twin.frontend))
    return twin


def _layers(decoder: T5Decoder) -> list[T5DecoderLayer]:
    return [layer for layer in decoder.layers if isinstance(layer, T5DecoderLayer)]


def _heads(attention: T5Attention, x: Tensor) -> Tensor:
    """(R, N, H·d) → (R, H, N, d)."""
    return x.view(*x.shape[:2], attention.num_heads, -1).transpose(1, 2)


def _attend(attention: T5Attention, x: Tensor, cache: Tensor, bias: Tensor | None) -> Tensor:
    """One query of each row (R, 1, D) over keys and values (2, R, H, N, d) → (R, 1, D)."""
    scores = _heads(attention, attention.q(x)) @ cache[0].transpose(2, 3) * attention.scale
    if bias is not None:
        scores = scores + bias
    out: Tensor = attention.o((scores.softmax(-1) @ cache[1]).transpose(1, 2).flatten(2))
    return out
