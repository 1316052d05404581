"""The whole network: waveform in, tokens out.

Axes: B batch, S samples, T frames, C decoding channels, N tokens, D width, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import AudioConfig, ModelConfig
from ..config.model import FRAME_GROUPS
from .decoder import Constraint, DecoderWeights, DecodingOptions, Generated, T5Decoder, generate
from .decoder.choice import short_length
from .encoder import PerceiverTF, build_encoder, build_pre_encoder
from .encoder.perceiver_tf import SPARE_FRAMES
from .frontend import build_frontend
from .layers.modes import evaluating
from .layers.norms import T5_NORM_EPS, RMSNorm
from .layers.positions import FRAME_BASE, sinusoids
from .layers.recompute import LayerStack
from .projection import build_projection

SHIFT_EMBEDDING_SCALE = 0.7
RARE_LOGIT = -4.0
"""Start of the frame head's bias where many outputs are mostly off: 2 %."""


def _frame_head(width: int, groups: tuple[str, ...]) -> nn.Linear | None:
    """One layer for all groups. Of many pitches few sound: their biases start at that, or the sum over all
    would drown every other term in the first steps (Lin et al. 2017, "Focal Loss", section 4.1)."""
    if not groups:
        return None
    sizes = [FRAME_GROUPS[group] for group in groups]
    head = nn.Linear(width, sum(sizes))
    for group, bias in zip(groups, torch.split(head.bias.data, sizes), strict=True):
        if group != "voice":
            bias.fill_(RARE_LOGIT)
    return head


class Encoded(NamedTuple):
    """What the encoder knows of each segment."""

    memory: Tensor
    """(B·C, T, D): what the decoder attends to, the channels of each segment one after the other."""
    frames: Tensor
    """(B, T, D), or (B, T, C, D) with several channels: the same states before time positions are added;
    input of the frame head, which reads all channels."""
    balance: Tensor | None = None
    """In training, how evenly experts were used: a term of the loss, 1 at best. None without experts."""


class Transcriber(nn.Module):
    """Front end, pre-encoder, encoder, projection and decoder. Made by :func:`amt.model.build_model`."""

    memory_positions: Tensor

    def __init__(
        self,
        model: ModelConfig,
        audio: AudioConfig,
        num_tokens: int,
        num_channels: int = 1,
        *,
        pad_id: int = 0,
        eos_id: int = 1,
        max_length: int = 1024,
    ) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.eos_id = eos_id
        self.num_channels = num_channels
        self.seconds_per_memory_frame = model.seconds_per_memory_frame(audio)
        self.frontend = build_frontend(audio)
        self.pre_encoder = build_pre_encoder(model, audio)
        num_frames = model.num_memory_frames(audio)
        self.encoder = build_encoder(model, num_frames, self.pre_encoder)
        width = model.decoder.d_model
        self.pre_decoder = build_projection(model, num_channels)
        self.memory_norm = RMSNorm(width, T5_NORM_EPS) if model.memory_norm else None
        self.has_memory_positions = model.memory_positions == "sinusoid"
        if self.has_memory_positions:
            positions = torch.arange(num_frames + SPARE_FRAMES)
            self.register_buffer(
                "memory_positions", sinusoids(positions, width, FRAME_BASE), persistent=False
            )
        self.frame_head = _frame_head(num_channels * width, model.frame_groups)
        self.decoder = T5Decoder(model.decoder, num_tokens, max_length, model.logit_scale)

    def recompute_activations(self, on: bool) -> None:
        """Activation checkpointing of all layers: less memory in training, about a third more time."""
        for module in self.modules():
            if isinstance(module, LayerStack):
                module.recompute = on

    def encode(self, audio: Tensor) -> Encoded:
        """(B, 1, S) waveform → states of T frames.

        Raises:
            ValueError: the audio is longer than the segment the model was built for.
        """
        x = self.pre_encoder(self.frontend(audio))
        if isinstance(self.encoder, PerceiverTF):
            states, balance = self.encoder.with_balance(x)
        else:
            states, balance = self.encoder(x), None
        memory = self.pre_decoder(states)
        if self.memory_norm is not None:
            memory = self.memory_norm(memory)
        frames = memory
        if self.num_channels > 1:
            frames = memory.transpose(1, 2)
            memory = memory.flatten(0, 1)
        if not self.has_memory_positions:
            return Encoded(memory, frames, balance)
        if memory.shape[1] > len(self.memory_positions):
            raise ValueError(
                f"{memory.shape[1]} frames are more than the {len(self.memory_positions)} the memory has "
                "positions for; cut the audio into segments"
            )
        return Encoded(memory + self.memory_positions[: memory.shape[1]], frames, balance)

    def frame_logits(self, encoded: Encoded) -> Tensor | None:
        """(B, T, outputs of all frame groups in order), or None without a frame head."""
        return None if self.frame_head is None else self.frame_head(encoded.frames.flatten(2))

    def decode_logits(self, encoded: Encoded, labels: Tensor) -> Tensor:
        """Teacher forcing: labels (B, C, N) → logits (B, C, N, V) for those labels.

        The decoder reads the labels shifted right behind a PAD. Channels are rows of its batch and know
        nothing of each other.

        Raises:
            ValueError: labels longer than the decoder's positions.
        """
        assert labels.shape[1] == self.num_channels, f"this decoder writes {self.num_channels} channels"
        return self.row_logits(encoded.memory, labels.flatten(0, 1)).view(*labels.shape, -1)

    def row_logits(self, memory: Tensor, ids: Tensor) -> Tensor:
        """Teacher forcing of rows, whichever segment and channel they are of: memory (R, T, D) and ids (R, N)
        → logits (R, N, V) for those ids."""
        logits: Tensor = self.decoder(F.pad(ids[:, :-1], (1, 0), value=self.pad_id), memory)
        return logits

    def forward(self, audio: Tensor, labels: Tensor) -> Tensor:
        """Audio (B, 1, S) and labels (B, C, N) → logits (B, C, N, V)."""
        return self.decode_logits(self.encode(audio), labels)

    def generate(self, audio: Tensor, max_length: int | None = None, prefix: Tensor | None = None) -> Tensor:
        """Greedy transcription: (B, 1, S) → ids (B, C, N), N the longest row, EOS kept and PAD after it.

        ``max_length`` defaults to the length the model was built for and may not exceed it. ``prefix``
        (B, P), the task tokens of a sub-task, begins every row. Runs in evaluation mode and puts back the
        mode of every part.

        Raises:
            ValueError: the audio or ``max_length`` is too long for this model.
        """
        with evaluating(self):
            with torch.inference_mode():
                encoded = self.encode(audio)
            return self.decode_greedily(encoded, max_length, prefix)

    def decode_greedily(
        self, encoded: Encoded, max_length: int | None = None, prefix: Tensor | None = None
    ) -> Tensor:
        """:meth:`generate` from what :meth:`encode` gave: ids (B, C, N)."""
        return self.decode(encoded, self.decoding_options(max_length), prefix=prefix).ids

    def decoding_options(self, max_length: int | None = None, **changes: Any) -> DecodingOptions:
        """Greedy decoding with this network's special tokens; ``changes`` are fields of the options.

        With several channels most rows are short: in a song most instruments rest.

        Raises:
            ValueError: ``max_length`` is too long for this model.
        """
        length = self.decoder.max_length if max_length is None else max_length
        if not 1 <= length <= self.decoder.max_length:
            raise ValueError(f"max_length must be 1 to {self.decoder.max_length} (-el), not {length}")
        if self.num_channels > 1:
            changes.setdefault("expected_length", short_length(length))
        return DecodingOptions(length, self.pad_id, self.eos_id, **changes)

    def decode(
        self,
        encoded: Encoded,
        options: DecodingOptions,
        *,
        constraint: Constraint | None = None,
        prefix: Tensor | None = None,
        weights: DecoderWeights | None = None,
    ) -> Generated:
        """Tokens, greedy or drawn, from what :meth:`encode` gave.

        Args:
            encoded: the segments.
            options: see :meth:`decoding_options`.
            constraint: limits the tokens; its rows are segment times C plus channel.
            prefix: (B, P) first tokens of every channel of a segment, PAD where free.
            weights: the decoder made ready; ``None`` makes it so from the parameters of this moment.

        Returns:
            ids (B, C, N), PAD behind the end, and when asked for log-probabilities (B, C, N).
        """
        rows = generate(
            self.decoder if weights is None else weights,
            encoded.memory,
            options,
            constraint=constraint,
            prefix=None if prefix is None else prefix.repeat_interleave(self.num_channels, dim=0),
        )
        shape = (len(encoded.frames), self.num_channels, rows.ids.shape[1])
        return Generated(rows.ids.view(shape), None if rows.log_probs is None else rows.log_probs.view(shape))

    @torch.no_grad()
    def init_shift_embeddings(self, token_ids: range, seconds_per_step: float) -> None:
        """Start the embeddings of time-shift tokens from the sinusoids of the memory positions.

        The i-th of ``token_ids`` says ``i * seconds_per_step`` seconds from the start of the window. Its row
        becomes 0.7 × the memory's sinusoid at that time, so that the cross attention finds the place from
        the first step on.
        """
        weight = self.decoder.embed.weight
        steps = torch.arange(len(token_ids), device=weight.device)
        rows = sinusoids(
            steps * (seconds_per_step / self.seconds_per_memory_frame), weight.shape[1], FRAME_BASE
        )
        weight[torch.tensor(list(token_ids), device=weight.device)] = SHIFT_EMBEDDING_SCALE * rows.to(weight)
