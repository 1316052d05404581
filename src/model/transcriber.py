"""The whole network: waveform in, tokens out.

Axes: B batch, S samples, T frames, C decoding channels, N tokens, D width, V vocabulary.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config import AudioConfig, ModelConfig
from ..config.model import FRAME_GROUPS
from .decoder import T5Decoder, greedy_decode
from .encoder import build_encoder, build_pre_encoder
from .encoder.perceiver_tf import SPARE_FRAMES
from .frontend import build_frontend
from .layers.norms import T5_NORM_EPS, RMSNorm
from .layers.positions import FRAME_BASE, sinusoids

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
    """(B, T, D): what the decoder attends to."""
    frames: Tensor
    """(B, T, D): the same states before time positions are added; input of the frame head."""


class Transcriber(nn.Module):
    """Front end, pre-encoder, encoder, projection and decoder. Made by :func:`amt.model.build_model`."""

    memory_positions: Tensor

    def __init__(
        self,
        model: ModelConfig,
        audio: AudioConfig,
        num_tokens: int,
        *,
        pad_id: int = 0,
        eos_id: int = 1,
        max_length: int = 1024,
    ) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.eos_id = eos_id
        self.seconds_per_memory_frame = model.seconds_per_memory_frame(audio)
        self.frontend = build_frontend(audio)
        self.pre_encoder = build_pre_encoder(model, audio)
        num_frames = model.num_memory_frames(audio)
        self.encoder = build_encoder(model, num_frames, self.pre_encoder)
        width = model.decoder.d_model
        self.pre_decoder = nn.Linear(model.encoder.num_latents * model.encoder.d_model, width, bias=False)
        self.memory_norm = RMSNorm(width, T5_NORM_EPS) if model.memory_norm else None
        self.has_memory_positions = model.memory_positions == "sinusoid"
        if self.has_memory_positions:
            positions = torch.arange(num_frames + SPARE_FRAMES)
            self.register_buffer(
                "memory_positions", sinusoids(positions, width, FRAME_BASE), persistent=False
            )
        self.frame_head = _frame_head(width, model.frame_groups)
        self.decoder = T5Decoder(model.decoder, num_tokens, max_length, model.logit_scale)

    def encode(self, audio: Tensor) -> Encoded:
        """(B, 1, S) waveform → states of T frames.

        Raises:
            ValueError: the audio is longer than the segment the model was built for.
        """
        states = self.encoder(self.pre_encoder(self.frontend(audio)))
        frames = self.pre_decoder(states.flatten(2))
        if self.memory_norm is not None:
            frames = self.memory_norm(frames)
        if not self.has_memory_positions:
            return Encoded(frames, frames)
        if frames.shape[1] > len(self.memory_positions):
            raise ValueError(
                f"{frames.shape[1]} frames are more than the {len(self.memory_positions)} the memory has "
                "positions for; cut the audio into segments"
            )
        return Encoded(frames + self.memory_positions[: frames.shape[1]], frames)

    def frame_logits(self, encoded: Encoded) -> Tensor | None:
        """(B, T, outputs of all frame groups in order), or None without a frame head."""
        return None if self.frame_head is None else self.frame_head(encoded.frames)

    def decode_logits(self, encoded: Encoded, labels: Tensor) -> Tensor:
        """Teacher forcing: labels (B, C, N) → logits (B, C, N, V) for those labels.

        The decoder reads the labels shifted right behind a PAD.

        Raises:
            ValueError: labels longer than the decoder's positions.
        """
        assert labels.shape[1] == 1, "this decoder writes one channel"
        inputs = F.pad(labels[:, 0, :-1], (1, 0), value=self.pad_id)
        logits: Tensor = self.decoder(inputs, encoded.memory)
        return logits[:, None]

    def forward(self, audio: Tensor, labels: Tensor) -> Tensor:
        """Audio (B, 1, S) and labels (B, C, N) → logits (B, C, N, V)."""
        return self.decode_logits(self.encode(audio), labels)

    def generate(self, audio: Tensor, max_length: int | None = None) -> Tensor:
        """Greedy transcription: (B, 1, S) → ids (B, C, N), N the longest row, EOS kept and PAD after it.

        ``max_length`` defaults to the length the model was built for and may not exceed it. Runs in
        evaluation mode and puts back the mode of every part.

        Raises:
            ValueError: the audio or ``max_length`` is too long for this model.
        """
        modes = {module: module.training for module in self.modules()}
        self.eval()
        try:
            with torch.inference_mode():
                encoded = self.encode(audio)
            return self.decode_greedily(encoded, max_length)
        finally:
            for module, training in modes.items():
                module.training = training

    def decode_greedily(self, encoded: Encoded, max_length: int | None = None) -> Tensor:
        """:meth:`generate` from what :meth:`encode` gave: ids (B, C, N)."""
        ids = greedy_decode(
            self.decoder,
            encoded.memory,
            self.decoder.max_length if max_length is None else max_length,
            pad_id=self.pad_id,
            eos_id=self.eos_id,
        )
        return ids[:, None]

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
