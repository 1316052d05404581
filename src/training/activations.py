"""What autograd keeps of one segment until the gradient is known, from the shapes of a network's layers.

The rules, in numbers kept per position (a frame of a latent, a token, a bin of a frame):

- a norm keeps its input in float32, and each matrix that reads its float32 output keeps a copy of that in the
  number format of the run (one copy for all where the output has that format already);
- attention keeps queries, keys, values and its output, and one number per head; without a fused kernel
  (dropout on a CPU) one number for each pair of positions and head instead;
- a feed-forward keeps what its activation reads and what its last matrix reads, a gated one two more;
- experts do so for each token and chosen expert, and keep what these read and give;
- a residual convolution block keeps four maps of its width, and its input;
- dropout keeps a mask of bytes;
- the loss keeps logits in the format of the run and in float32, its onset term one map more, and two more
  are made on the way back;
- each sample of the REINFORCE stage that has a gradient passes the decoder once more and keeps two maps more
  for its probabilities.

With activation checkpointing each layer keeps its input, and one layer at a time all of the above.

Axes: T frames, F bins, K latents, X keys per frame, W width of a key, C decoding channels, N tokens,
V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..config import Experiment
from ..config.model import FRAME_GROUPS, ConformerConfig, PreEncoderConfig, T5DecoderConfig
from ..config.perceiver import PerceiverTFConfig
from ..model import Transcriber
from ..model.encoder import PerceiverTF, PreEncoder
from ..model.encoder.perceiver_tf import PerceiverTFBlock
from ..model.encoder.pre_context import CONTEXT_CHANNELS, CONTEXT_FRAMES
from ..model.layers.attend import CAUSAL_ROWS
from ..model.projection.flat import FlatMLP
from .kept_bytes import FLOAT, INDEX, Count, Format, Layer

STAGE_MAPS = 2
"""Float32 maps of the vocabulary that the REINFORCE stage keeps of a sample beside its logits."""


def count_activations(model: Transcriber, experiment: Experiment, num_tokens: int, form: Format) -> Count:
    """Bytes per segment of a training step of ``model``.

    Args:
        model: of the experiment.
        experiment: the run.
        num_tokens: length N of the labels.
        form: how numbers are kept.
    """
    config, audio = experiment.model, experiment.audio
    count = Count()
    _pre_encoder(count, config.pre_encoder, model.pre_encoder, audio.num_frames, audio.num_bins, form)
    frames = config.num_memory_frames(audio)
    width = config.decoder.d_model
    if isinstance(model.encoder, PerceiverTF):
        _perceiver(count, model.encoder, model.pre_encoder, frames, form)
        latents = config.encoder.num_latents * config.encoder.d_model
        count.loose += _projection(model, latents, width, form) * frames
    elif config.encoder_type == "t5":
        encoder = config.t5_encoder
        inner = encoder.num_heads * encoder.d_kv
        for _ in range(encoder.num_layers):
            kept = _t5_attention(frames, frames, encoder.num_heads, inner, width, encoder.dropout, form)
            kept += _t5_feed_forward(frames, width, encoder.d_ff, encoder.dropout, form)
            count.layers.append(Layer(kept, FLOAT * width * frames))
        count.loose += FLOAT * width * frames + form.mask(2 * width * frames, encoder.dropout)
    else:
        for _ in range(config.conformer.num_layers):
            count.layers.append(_conformer(config.conformer, width, frames, form))
        count.loose += FLOAT * width * frames + form.mask(width * frames, config.conformer.dropout)
    if config.memory_norm:
        count.loose += FLOAT * width * model.num_channels * frames
    if config.frame_groups:
        outputs = sum(FRAME_GROUPS[group] for group in config.frame_groups)
        count.loose += frames * (form.fed(model.num_channels * width, 1) + 3 * FLOAT * outputs)
    _decoder(count, config.decoder, model, frames, num_tokens, form)
    stage = experiment.rl
    logits = FLOAT * model.decoder.lm_head.out_features * model.num_channels * num_tokens
    if stage.enabled and stage.weight > 0:
        for _ in range(stage.num_samples):  # each sample is read once more, without dropout
            _decoder(count, replace(config.decoder, dropout=0.0), model, frames, num_tokens, form)
            count.loose += STAGE_MAPS * logits
    if experiment.objective.onset_weight > 0:
        count.loose += logits
    return count


# --- in front of the encoder ------------------------------------------------------------------------


def _pre_encoder(
    count: Count, config: PreEncoderConfig, built: PreEncoder, frames: int, bins: int, form: Format
) -> None:
    low, channels = form.low, config.out_channels
    if config.type == "none":
        return
    if config.type == "strided":
        half = max(1, channels // 2)
        copies = max(1, len(config.harmonics))
        later = -(-frames // config.time_stride)
        bins = -(-bins // 2)
        kept = low * frames * (copies * 2 * bins + 3 * half * bins)
        for _ in range(2):
            bins = -(-bins // 2)
            kept += low * later * 3 * channels * bins
        count.loose += kept
        return
    if config.type == "hftt":
        padded = frames + CONTEXT_FRAMES - 1
        count.loose += low * bins * (padded + CONTEXT_CHANNELS * CONTEXT_FRAMES * frames)
        return
    wide = config.type == "res3b_hftt"
    if wide:
        channels, frames = CONTEXT_CHANNELS, frames + CONTEXT_FRAMES - 1
    entering = 1
    for _ in range(3):
        start = low * frames * bins * entering
        count.layers.append(Layer(start + low * frames * bins * 4 * channels, start))
        entering, bins = channels, bins // 2
    if wide:
        frames -= CONTEXT_FRAMES - 1
        count.loose += low * frames * built.out_bins * CONTEXT_CHANNELS * CONTEXT_FRAMES


# --- encoders ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Perceiver:
    """Layers of a Perceiver-TF."""

    config: PerceiverTFConfig
    frames: int
    keys: int
    """X."""
    key_width: int
    """W."""
    form: Format

    @property
    def places(self) -> int:
        """T times K."""
        return self.config.num_latents * self.frames

    @property
    def low(self) -> bool:
        """Whether the states have the run's format: without a query residual they begin as a matrix's
        output."""
        return not self.config.sca_query_residual

    @property
    def start(self) -> float:
        """The states of all places."""
        return self.form.stream(self.low) * self.config.d_model * self.places

    def norm(self, size: float, readers: int, low: bool) -> float:
        """A norm of the kind this encoder has."""
        return self.form.norm(size, readers, rms=self.config.norm_type == "rms_norm", low=low)

    def attention(self, keys: int, pairs: int) -> float:
        """Over all places."""
        config = self.config
        heads, qk, v = config.num_heads, config.qk_channels, config.v_channels
        return self.form.attention(self.places, keys, heads, qk, v, config.dropout, pairs)

    def cross_attention(self, first: bool, fold: bool, spectrum_low: bool) -> Layer:
        """The latents read the spectrum; those of the first block are the same in all segments."""
        config, form, places = self.config, self.form, self.places
        spectrum = self.keys * self.key_width * self.frames
        kept = self.norm(spectrum, 1 if fold else 2, spectrum_low)
        start = 0.0
        if not first:
            start = self.start
            kept += self.norm(config.d_model * places, 1, self.low)
        if fold:
            kept += form.low * places * config.num_heads * 2 * self.key_width
            kept += places * config.num_heads * self.keys * (FLOAT + 2 * form.mixed)
        else:
            kept += self.attention(self.keys * self.frames, places * self.keys)
        return Layer(kept, start)

    def transformer_layer(self, meets: int) -> Layer:
        """Self attention in which each place meets ``meets`` others, and feed-forward."""
        kept = self.norm(self.config.d_model * self.places, 3, self.low)
        kept += self.attention(self.places, self.places * meets)
        return Layer(kept + self.feed_forward().kept, self.start)

    def feed_forward(self) -> Layer:
        """With its norm."""
        config, form = self.config, self.form
        size = config.d_model * self.places
        inner = size * config.ff_widening
        if config.ff_type == "gmlp":
            kept = self.norm(size, 2, self.low) + form.low * 4 * inner
            kept += form.mask(inner + size, config.dropout)
        elif config.ff_type == "moe":
            kept = self.norm(size, 1, self.low)
            kept += _experts(
                self.places, config.d_model, config.ff_widening, config.moe_num_experts, config.moe_topk, form
            )
        else:
            kept = self.norm(size, 1, self.low) + form.low * 2 * inner
        return Layer(kept, self.start)


def _perceiver(count: Count, encoder: PerceiverTF, pre: PreEncoder, frames: int, form: Format) -> None:
    config = encoder.config
    keys, key_width = pre.out_bins, pre.out_channels
    if config.attention_to_channel:
        keys, key_width = key_width, keys
    part = _Perceiver(config, frames, keys, key_width, form)
    spectrum_low = getattr(pre, "bin_positions", None) is None
    once = 0.0
    if not form.mixed or (form.on_cpu and config.norm_type == "layer_norm"):
        # All blocks read the same map; elsewhere each norm casts its own.
        once = form.stream(spectrum_low) * keys * key_width * frames
    count.loose += once
    for number, block in enumerate(encoder.blocks):
        assert isinstance(block, PerceiverTFBlock)
        fold = block.cross_attention.fold and config.dropout == 0
        kept, start = part.cross_attention(number == 0, fold, spectrum_low)
        count.layers.append(Layer(kept - once, start))
        if config.sca_feed_forward:
            count.layers.append(part.feed_forward())
        count.layers += [part.transformer_layer(config.num_latents)] * config.num_local_layers
        count.layers += [part.transformer_layer(frames)] * config.num_temporal_layers


def _experts(places: int, width: int, widening: int, num_experts: int, topk: int, form: Format) -> float:
    """Each chosen expert has its rows in, inside and out; the router has a number for each expert."""
    rows = places * topk
    inside = (2 if form.on_cpu else 4) * widening
    return form.low * rows * width * (2 + inside) + 2 * FLOAT * num_experts * places + 4 * INDEX * rows


def _conformer(config: ConformerConfig, width: int, frames: int, form: Format) -> Layer:
    low, size, inner = form.low, width * frames, config.d_ff * frames
    half = form.norm(size, 1, rms=False) + low * 2 * inner + form.mask(inner + size, config.dropout)
    turned = config.position_encoding == "rotary"  # values are made of the states that are not turned
    attention = form.norm(size, 3, rms=False) + (0.0 if form.mixed else FLOAT * size * turned)
    attention += form.mask(size, config.dropout)
    attention += form.attention(
        frames, frames, config.num_heads, width, width, config.dropout, frames * frames
    )
    if config.position_encoding == "relative":
        attention += low * config.num_heads * frames * frames + low * size
    convolution = form.norm(size, 1, rms=False) + low * 6 * size + form.mask(size, config.dropout)
    return Layer(2 * half + attention + convolution + FLOAT * size, FLOAT * size)


def _projection(model: Transcriber, entering: int, width: int, form: Format) -> float:
    """Per frame: what the matrices from latents to memory read."""
    kept = form.fed(entering, 1)
    if isinstance(model.pre_decoder, FlatMLP):
        inner = max(1, entering // 2)
        kept += 2 * (FLOAT * inner + form.fed(inner, 1) + FLOAT * inner)
    return kept


# --- decoder ----------------------------------------------------------------------------------------


def _t5_attention(
    queries: float, keys: float, heads: int, inner: int, width: int, dropout: float, form: Format
) -> float:
    """Norm, self attention and dropout of T5."""
    kept = form.norm(width * queries, 3) + form.mask(width * queries, dropout)
    return kept + form.attention(queries, keys, heads, inner, inner, dropout, queries * keys)


def _t5_feed_forward(places: float, width: int, inner: int, dropout: float, form: Format) -> float:
    kept = form.norm(width * places, 2) + form.low * 4 * inner * places
    return kept + form.mask((inner + width) * places, dropout)


def _decoder(
    count: Count, config: T5DecoderConfig, model: Transcriber, frames: int, num_tokens: int, form: Format
) -> None:
    width, heads, drop = config.d_model, config.num_heads, config.dropout
    inner = heads * config.d_kv
    channels = model.num_channels
    tokens, memory = channels * num_tokens, channels * frames
    seen = num_tokens * (num_tokens + min(num_tokens, CAUSAL_ROWS)) / 2  # pairs that a causal block makes
    if not form.mixed:
        count.loose += FLOAT * width * memory
    for _ in range(config.num_layers):
        kept = form.norm(width * tokens, 3) + form.mask(2 * width * tokens, drop)
        kept += form.attention(tokens, tokens, heads, inner, inner, drop, channels * seen)
        kept += form.norm(width * tokens, 1)
        kept += form.attention(tokens, memory, heads, inner, inner, drop, tokens * frames)
        if form.mixed and model.has_memory_positions:
            kept += form.fed(width * memory, 2)
        if config.ff_type == "moe":
            kept += FLOAT * width * tokens
            kept += _experts(tokens, width, config.ff_widening, config.moe_num_experts, config.moe_topk, form)
        else:
            kept += _t5_feed_forward(tokens, width, config.ff_width, drop, form)
        count.layers.append(Layer(kept, FLOAT * width * tokens))
    if form.mixed and not model.has_memory_positions:
        count.loose += form.low * width * memory
    count.loose += form.norm(width * tokens, 1) + form.mask(2 * width * tokens, drop)
    logits = model.decoder.lm_head.out_features * tokens
    count.loose += logits * (FLOAT + (form.low if form.mixed else 0)) + INDEX * tokens
    count.backward += logits * 2 * FLOAT
