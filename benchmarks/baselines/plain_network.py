"""A published network written out plainly: a loop over experts with index lists, probabilities of attention
kept in float32, norms and activations step by step, convolutions in the usual memory order.

Axes: B batch, C decoding channels, N tokens, T frames, K latents, X keys, D width, H heads.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from amt.config import ModelConfig
from amt.model import Transcriber
from amt.model.layers.experts import Experts


class PlainNetwork:
    """Weights and arithmetic of a :class:`Transcriber` with a Perceiver-TF and a T5 decoder.

    Positions are ``trainable`` or ``rope``, feed-forwards ``mlp`` or ``moe``, as in the published models.
    """

    def __init__(self, model: Transcriber, config: ModelConfig) -> None:
        self.frontend, self.decoder_positions = model.frontend, model.decoder.positions
        self.config, self.training = config, True
        self.num_channels = model.num_channels
        self.weights = {
            name: value.detach().clone().requires_grad_() for name, value in model.named_parameters()
        }
        for name, module in model.named_modules():
            if isinstance(module, Experts):
                for leaf in ("w1", "gate", "w2"):
                    stacked = self.weights.pop(f"{name}.{leaf}").detach()
                    for number, one in enumerate(stacked):
                        self.weights[f"{name}.{number}.{leaf}"] = one.clone().requires_grad_()
        for name, value in self.weights.items():
            if value.ndim == 4:
                self.weights[name] = value.detach().contiguous().requires_grad_()

    def parameters(self) -> Iterator[Tensor]:
        """Leaves that take gradients."""
        yield from self.weights.values()

    def logits(self, audio: Tensor, labels: Tensor) -> Tensor:
        """Audio (B, 1, S), labels (B, C, N) → logits (B, C, N, V)."""
        memory = self._projection(self._encoder(self._convolutions(self.frontend(audio))))
        inputs = F.pad(labels[..., :-1], (1, 0)).flatten(0, 1)
        return self._decoder(inputs, memory).unflatten(0, labels.shape[:2])

    def _linear(self, name: str, x: Tensor) -> Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights.get(f"{name}.bias"))

    def _dropout(self, x: Tensor, rate: float) -> Tensor:
        return F.dropout(x, rate, self.training)

    # --- convolutions -------------------------------------------------------------------------------

    def _convolutions(self, spectrogram: Tensor) -> Tensor:
        """(B, T, F) → (B, T, F / 8, C)."""
        y = spectrogram[:, None]
        for number in range(3):
            at = f"pre_encoder.blocks.{number}"
            x = y
            y = F.relu(
                self._batch_norm(f"{at}.bn1", F.conv2d(x, self.weights[f"{at}.conv1.weight"], padding=1))
            )
            y = self._batch_norm(f"{at}.bn2", F.conv2d(y, self.weights[f"{at}.conv2.weight"], padding=1))
            if f"{at}.shortcut.weight" in self.weights:
                x = F.conv2d(x, self.weights[f"{at}.shortcut.weight"], self.weights[f"{at}.shortcut.bias"])
            y = F.avg_pool2d(F.relu(y + x), (1, 2))
        return y.permute(0, 2, 3, 1)

    def _batch_norm(self, name: str, x: Tensor) -> Tensor:
        return F.batch_norm(x, None, None, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], True)

    # --- Perceiver-TF -------------------------------------------------------------------------------

    def _encoder(self, x: Tensor) -> Tensor:
        """(B, T, F, C) → (B, T, K, D)."""
        config = self.config.encoder
        if config.attention_to_channel:
            x = x.transpose(2, 3)
        b, t = x.shape[:2]
        z = self.weights["encoder.latents"].expand(b, t, -1, -1)
        if config.position_encoding == "trainable":
            z = z + self.weights["encoder.positions"][:t]
        for block in range(config.num_blocks):
            at = f"encoder.blocks.{block}"
            queries = z.flatten(0, 1)
            keys = self._layer_norm(f"{at}.cross_attention.key_norm", x.flatten(0, 1))
            y = self._layer_norm(f"{at}.cross_attention.query_norm", queries)
            y = self._attention(f"{at}.cross_attention", y, keys, config.rope_types[0])
            z = (queries + y if config.sca_query_residual else y).view(b, t, *y.shape[1:])
            for layer in range(config.num_local_layers):
                z = self._layer(f"{at}.local_layers.{layer}", z.flatten(0, 1), config.rope_types[1]).view_as(
                    z
                )
            z = z.transpose(1, 2)
            for layer in range(config.num_temporal_layers):
                name = f"{at}.temporal_layers.{layer}"
                z = self._layer(name, z.flatten(0, 1), config.rope_types[2]).view(z.shape)
            z = z.transpose(1, 2)
        return z

    def _layer(self, at: str, z: Tensor, kind: str) -> Tensor:
        """(…, K or T, D) → the same."""
        y = self._layer_norm(f"{at}.attention.norm", z)
        z = z + self._attention(f"{at}.attention", y, y, kind)
        y = self._layer_norm(f"{at}.feed_forward.norm", z)
        name = f"{at}.feed_forward.mlp"
        if self.config.encoder.ff_type == "moe":
            return z + self._experts(name, y)
        return z + self._linear(f"{name}.dense2", F.gelu(self._linear(f"{name}.dense1", y)))

    def _layer_norm(self, name: str, x: Tensor) -> Tensor:
        return F.layer_norm(
            x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"], 1e-5
        )

    def _attention(self, at: str, x: Tensor, keys: Tensor, kind: str) -> Tensor:
        config = self.config.encoder
        q, k, v = (
            self._linear(f"{at}.{part}", y).unflatten(-1, (config.num_heads, -1)).transpose(1, 2)
            for part, y in (("query", x), ("key", keys), ("value", keys))
        )
        if config.position_encoding == "rope":
            q = _rotate(q, kind, config.num_rotated)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        probs = self._dropout(scores.softmax(-1), config.dropout)
        return self._linear(f"{at}.output", (probs @ v).transpose(1, 2).flatten(2))

    def _experts(self, at: str, x: Tensor) -> Tensor:
        config = self.config.encoder
        tokens = x.flatten(0, 1)
        probs = self._linear(f"{at}.gate", tokens).softmax(-1)
        weights, chosen = probs.topk(config.moe_topk, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        mask = F.one_hot(chosen, config.moe_num_experts).permute(2, 1, 0)
        out = torch.zeros_like(tokens)
        for number in range(config.moe_num_experts):
            choice, token = torch.where(mask[number])
            rows, ranks = token.tolist(), choice.tolist()
            if rows:
                y = tokens[None, rows].reshape(-1, tokens.shape[1])
                w1, gate, w2 = (
                    self.weights[f"{at}.experts.{number}.{leaf}"] for leaf in ("w1", "gate", "w2")
                )
                y = F.linear(F.silu(F.linear(y, w1)) * F.linear(y, gate), w2) * weights[rows, ranks, None]
                out.index_add_(0, token, y)
        return out.view_as(x)

    def _projection(self, states: Tensor) -> Tensor:
        """(B, T, K, D) → (B·C, T, width of the decoder)."""
        parts = states.reshape(*states.shape[:2], self.num_channels, -1).transpose(1, 2)
        return self._linear("pre_decoder", parts.flatten(0, 1))

    # --- T5 decoder ---------------------------------------------------------------------------------

    def _decoder(self, ids: Tensor, memory: Tensor) -> Tensor:
        """ids (B·C, N) → logits (B·C, N, V)."""
        config = self.config.decoder
        x = self.weights["decoder.embed.weight"][ids] + self.decoder_positions[: ids.shape[1]]
        x = self._dropout(x, config.dropout)
        future = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        mask = torch.zeros(future.shape).masked_fill(future, torch.finfo(x.dtype).min)
        for number in range(config.num_layers):
            at = f"decoder.layers.{number}"
            y = self._rms_norm(f"{at}.self_norm", x)
            x = x + self._dropout(self._t5_attention(f"{at}.self_attention", y, y, mask), config.dropout)
            y = self._rms_norm(f"{at}.cross_norm", x)
            x = x + self._dropout(
                self._t5_attention(f"{at}.cross_attention", y, memory, None), config.dropout
            )
            y = self._rms_norm(f"{at}.ff_norm", x)
            hidden = _gelu_new(self._linear(f"{at}.feed_forward.wi_0", y)) * self._linear(
                f"{at}.feed_forward.wi_1", y
            )
            y = self._linear(f"{at}.feed_forward.wo", self._dropout(hidden, config.dropout))
            x = x + self._dropout(y, config.dropout)
        x = self._dropout(self._rms_norm("decoder.final_norm", x), config.dropout)
        return self._linear("decoder.lm_head", x) * self.config.logit_scale

    def _rms_norm(self, name: str, x: Tensor) -> Tensor:
        variance = x.float().pow(2).mean(-1, keepdim=True)
        return self.weights[f"{name}.weight"] * (x * torch.rsqrt(variance + 1e-6))

    def _t5_attention(self, at: str, x: Tensor, states: Tensor, mask: Tensor | None) -> Tensor:
        heads = self.config.decoder.num_heads
        q, k, v = (
            self._linear(f"{at}.{part}", y).unflatten(-1, (heads, -1)).transpose(1, 2)
            for part, y in (("q", x), ("k", states), ("v", states))
        )
        scores = q @ k.transpose(-1, -2)
        if mask is not None:
            scores = scores + mask
        probs = self._dropout(scores.float().softmax(-1), self.config.decoder.dropout)
        return self._linear(f"{at}.o", (probs @ v).transpose(1, 2).flatten(2))


def _gelu_new(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def _rotate(q: Tensor, kind: str, width: int) -> Tensor:
    """(…, Q, d): pairs of neighbours turned, the rest joined on again."""
    length, half = q.shape[-2], width // 2
    if kind == "p":
        frequencies = torch.linspace(1.0, 5.0, half) * math.pi
        positions = torch.linspace(-1.0, 1.0, length)
    else:
        frequencies = 10000.0 ** (-2.0 * torch.arange(half) / width)
        positions = torch.arange(float(length))
    angles = (positions[:, None] * frequencies).repeat_interleave(2, dim=-1)
    turned, rest = q[..., :width], q[..., width:]
    swapped = torch.stack([-turned[..., 1::2], turned[..., ::2]], dim=-1).flatten(-2)
    return torch.cat([turned * angles.cos() + swapped * angles.sin(), rest], dim=-1)
