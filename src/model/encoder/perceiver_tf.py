"""Perceiver-TF encoder (Lu et al. 2023, "Multitrack Music Transcription with a Time-Frequency Perceiver").

Axes: B batch, T frames, F bins, C channels, K latents, D width, X keys per frame, W width of a key.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...config import PerceiverTFConfig
from ...config.perceiver import ALIBI_POSITIONS
from ..layers.alibi import distances
from ..layers.experts import Experts, MixtureOfExperts
from ..layers.feed_forward import MLP, GatedMLP
from ..layers.norms import make_norm
from ..layers.positions import FRAME_BASE, sinusoids
from ..layers.recompute import LayerStack
from ..layers.rotary import rotations
from .attention import NO_POSITIONS, AttentionPositions, SelfAttention, SpectralCrossAttention

SPARE_FRAMES = 10
"""Rows that position tables have beyond the frames of a segment, as in published checkpoints."""
SINUSOID_SCALE = 0.5
SINUSOID_LATENT_STD = 0.3
"""Start of the latents beside sinusoids, which would drown latents of the usual size."""


class FeedForward(nn.Module):
    """Pre-norm feed-forward with residual."""

    def __init__(self, config: PerceiverTFConfig) -> None:
        super().__init__()
        self.norm = make_norm(config.norm_type, config.d_model)
        self.mlp = _make_feed_forward(config)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor | None]:
        """(…, D) → (…, D), and the balance of experts where there are any."""
        x = self.norm(z)
        if isinstance(self.mlp, MixtureOfExperts):
            out, balance = self.mlp(x)
            return z + out, balance
        return z + self.mlp(x), None


def _make_feed_forward(config: PerceiverTFConfig) -> nn.Module:
    width, widening, activation = config.d_model, config.ff_widening, config.hidden_act
    if config.ff_type == "gmlp":
        return GatedMLP(width, widening, activation, config.dropout)
    if config.ff_type == "moe":
        return MixtureOfExperts(width, widening, activation, config.moe_num_experts, config.moe_topk)
    assert config.ff_type == "mlp", config.ff_type
    return MLP(width, widening, activation)


class TransformerLayer(nn.Module):
    """Self attention and feed-forward."""

    def __init__(self, config: PerceiverTFConfig, over_time: bool) -> None:
        super().__init__()
        self.attention = SelfAttention(config, over_time)
        self.feed_forward = FeedForward(config)

    def forward(self, z: Tensor, positions: AttentionPositions) -> tuple[Tensor, Tensor | None]:
        """(B, T, K, D) → (B, T, K, D), and the balance of experts where there are any."""
        out: tuple[Tensor, Tensor | None] = self.feed_forward(self.attention(z, positions))
        return out


class EncoderPositions(NamedTuple):
    """Positions for the three kinds of attention."""

    cross: AttentionPositions = NO_POSITIONS
    local: AttentionPositions = NO_POSITIONS
    temporal: AttentionPositions = NO_POSITIONS


class PerceiverTFBlock(LayerStack):
    """Spectral cross attention, then local layers over latents, then temporal layers over frames."""

    def __init__(self, config: PerceiverTFConfig, query_width: int, num_keys: int, key_width: int) -> None:
        super().__init__()
        self.cross_attention = SpectralCrossAttention(
            config, query_width, num_keys, key_width, config.d_model
        )
        self.cross_feed_forward = FeedForward(config) if config.sca_feed_forward else None
        self.local_layers = nn.ModuleList(
            TransformerLayer(config, over_time=False) for _ in range(config.num_local_layers)
        )
        self.temporal_layers = nn.ModuleList(
            TransformerLayer(config, over_time=True) for _ in range(config.num_temporal_layers)
        )

    def forward(
        self, z: Tensor, x: Tensor, positions: EncoderPositions, temporal_table: Tensor | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Latents read the spectrum and exchange.

        Args:
            z: (B or 1, T or 1, K, D).
            x: (B, T, X, W).
            positions: for the attentions.
            temporal_table: (T, D) to add before the temporal layers.

        Returns:
            (B, T, K, D), and the balance of each layer with experts.
        """
        balances: list[Tensor | None] = []
        z = self.run_layer(self.cross_attention, z, x, positions.cross)
        if self.cross_feed_forward is not None:
            z, balance = self.run_layer(self.cross_feed_forward, z)
            balances.append(balance)
        for layer in self.local_layers:
            z, balance = self.run_layer(layer, z, positions.local)
            balances.append(balance)
        if temporal_table is not None:
            z = z + temporal_table[None, :, None]
        for layer in self.temporal_layers:
            z, balance = self.run_layer(layer, z, positions.temporal)
            balances.append(balance)
        return z, [balance for balance in balances if balance is not None]


class PerceiverTF(nn.Module):
    """Latents of each frame read its spectrum, then exchange among themselves and over time."""

    frame_positions: Tensor

    def __init__(self, config: PerceiverTFConfig, num_frames: int, num_bins: int, num_channels: int) -> None:
        """``num_frames``: frames of a full segment; ``num_bins`` × ``num_channels`` reach it per frame."""
        super().__init__()
        self.config = config
        self.max_frames = num_frames + SPARE_FRAMES
        self.num_keys, key_width = num_bins, num_channels
        if config.attention_to_channel:
            self.num_keys, key_width = num_channels, num_bins
        self.latents = nn.Parameter(torch.empty(config.num_latents, config.d_latent))
        self.positions, self.temporal_positions = _position_tables(config, self.max_frames)
        if config.position_encoding == "sinusoidal":
            table = SINUSOID_SCALE * sinusoids(torch.arange(self.max_frames), config.d_latent, FRAME_BASE)
            self.register_buffer("frame_positions", table, persistent=False)
        self.blocks = nn.ModuleList(
            PerceiverTFBlock(config, config.d_model if i else config.d_latent, self.num_keys, key_width)
            for i in range(config.num_blocks)
        )
        self._init_weights()

    @torch.no_grad()
    def _init_weights(self) -> None:
        std = self.config.init_std
        for module in self.modules():
            if isinstance(module, nn.Linear):
                module.weight.normal_(std=std)
                if module.bias is not None:
                    module.bias.zero_()
            elif isinstance(module, Experts):
                for weight in module.parameters():
                    weight.normal_(std=std)
        sinusoidal = self.config.position_encoding == "sinusoidal"
        self.latents.normal_(std=SINUSOID_LATENT_STD if sinusoidal else std)
        for table in (self.positions, self.temporal_positions):
            if table is not None:
                table.normal_(std=std)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, F, C) → (B, T, K, D).

        Raises:
            ValueError: more frames than the positions reach.
        """
        return self.with_balance(x)[0]

    def with_balance(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """:meth:`forward`, and in training the mean over layers of the experts'
        :func:`~amt.model.layers.experts.balance_loss`; None without experts."""
        num_frames = x.shape[1]
        if self.config.position_encoding in _LIMITED and num_frames > self.max_frames:
            raise ValueError(
                f"{num_frames} frames are more than the {self.max_frames} this encoder has positions for; "
                "cut the audio into segments"
            )
        if self.config.attention_to_channel:
            x = x.transpose(2, 3)
        z = self._start(num_frames)
        positions = self._attention_positions(num_frames, x.device)
        balances: list[Tensor] = []
        for i, block in enumerate(self.blocks):
            table = None
            if i == 0 and self.temporal_positions is not None:
                table = self.temporal_positions[:num_frames]
            z, found = block(z, x, positions, table)
            balances += found
        return z, torch.stack(balances).mean() if balances else None

    def _start(self, num_frames: int) -> Tensor:
        """(1, T or 1, K, D): the first queries are the same in all examples and stay unexpanded."""
        z = self.latents[None, None]
        encoding = self.config.position_encoding
        if encoding == "sinusoidal":
            return z + self.frame_positions[None, :num_frames, None]
        if self.positions is None:
            return z
        if encoding == "kdt":
            return z + self.positions
        table = self.positions[:num_frames]
        if encoding == "td":
            table = table[:, None]
        elif encoding == "tk":
            table = table[..., None]
        return z + table[None]

    def _attention_positions(self, num_frames: int, device: torch.device) -> EncoderPositions:
        config = self.config
        sizes = ((config.num_latents, self.num_keys), (config.num_latents,) * 2, (num_frames,) * 2)
        if config.position_encoding in ALIBI_POSITIONS:
            return EncoderPositions(
                *(AttentionPositions(distance=distances(*size, device)) for size in sizes)
            )
        if config.position_encoding != "rope":
            return EncoderPositions()
        made = []
        for kind, (num_queries, num_keys) in zip(config.rope_types, sizes, strict=True):
            query = rotations(kind, num_queries, config.num_rotated, device)
            key = rotations(kind, num_keys, config.num_rotated, device) if config.rope_apply_to_keys else None
            made.append(AttentionPositions(query, key))
        return EncoderPositions(*made)


_LIMITED = ("trainable", "tkd", "td", "tk", "kdt", "sinusoidal")
"""Position encodings that end with the segment."""


def _position_tables(
    config: PerceiverTFConfig, max_frames: int
) -> tuple[nn.Parameter | None, nn.Parameter | None]:
    """The learned table added to the latents, and that added before the first temporal layer."""
    latents, width = config.num_latents, config.d_latent
    shapes: dict[str, tuple[int, ...]] = {
        "trainable": (max_frames, latents, width),
        "tkd": (max_frames, latents, width),
        "td": (max_frames, width),
        "tk": (max_frames, latents),
        "kdt": (latents, width),
    }
    if config.position_encoding not in shapes:
        return None, None
    table = nn.Parameter(torch.empty(shapes[config.position_encoding]))
    temporal = config.position_encoding == "kdt"
    return table, nn.Parameter(torch.empty(max_frames, config.d_model)) if temporal else None
