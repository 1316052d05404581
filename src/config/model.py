"""Numbers of the network: front convolution, encoder, projection, decoder, heads."""

from __future__ import annotations

from dataclasses import dataclass, field

from .audio import AudioConfig
from .checks import check_experts, check_name, check_positive, check_share
from .perceiver import ACTIVATIONS, PerceiverTFConfig

DEFAULT = "default"
"""Word for the kind that goes with the encoder and the decoder."""
DECODER_TYPES = ("t5", "multi-t5")
ENCODER_RECORDS = {"perceiver-tf": "encoder", "t5": "t5_encoder", "conformer": "conformer"}
"""Field of :class:`ModelConfig` with the numbers of each encoder."""
ENCODER_TYPES = tuple(ENCODER_RECORDS)
RESIDUAL_PRE_ENCODERS = ("conv", "conv1d_t", "conv1d_f", "res3b_hftt")
PRE_ENCODER_TYPES = (*RESIDUAL_PRE_ENCODERS, "hftt", "strided", "none")
CONVOLUTION_KERNELS = {"conv1": 1, "conv4": 4, "conv16": 16, "conv32": 32, "conv64": 64}
"""Pre-decoders that are convolutions along the width of a latent, and how far they see."""
LATENT_PROJECTIONS = ("linear", "mlp", "mlp_gelu", "mlp_relu", *CONVOLUTION_KERNELS, "group_linear")
PRE_DECODER_TYPES = (*LATENT_PROJECTIONS, "mc_shared_linear", "none")
DECODER_FF_TYPES = ("t5_gmlp", "moe")
T5_ENCODER_POSITIONS = ("sinusoidal", "trainable", "none")
CONFORMER_POSITIONS = ("rotary", "relative", "none")
DECODER_POSITIONS = ("sinusoidal", "trainable")
FRAME_MIN_PITCH = 21
FRAME_NUM_PITCHES = 88
FRAME_GROUPS = {
    "voice": FRAME_NUM_PITCHES + 2,
    "pitched": 2 * FRAME_NUM_PITCHES,
    "drums": 128,
}
"""Outputs per frame of each group of the frame head. ``voice``: silence or one of 88 pitches, and
one onset; ``pitched``: 88 sounding pitches and 88 onsets; ``drums``: 128 onsets."""


def _check_positions(encoder: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise ValueError(f"-enc {encoder} knows the positions {', '.join(known)} (-epe), not {name}")


@dataclass(frozen=True)
class PreEncoderConfig:
    """Convolutions between the spectrogram and the encoder."""

    type: str = "none"
    """``conv``: three residual blocks that halve frequency (published), ``conv1d_t`` and ``conv1d_f`` the
    same along one axis; ``hftt``: a window of frames for each frame; ``res3b_hftt``: both; ``strided``: three
    plain strided convolutions, cheap enough for a small machine; ``none``: the spectrogram as it is."""
    out_channels: int = 128
    """Channels C that leave the convolutions (flag ``-cout``)."""
    time_stride: int = 1
    """Frames per output frame; more than 1 only for ``strided``."""
    harmonics: tuple[float, ...] = ()
    """Multiples of a frequency that the first convolution sees beside it (Bittner et al. 2017), for
    ``strided`` on a log-frequency front end; empty: none."""

    def __post_init__(self) -> None:
        check_name("pre-encoder type", self.type, PRE_ENCODER_TYPES)
        check_positive(self, out_channels="-cout", time_stride="--conv-time-stride")
        if self.type != "strided" and self.time_stride != 1:
            raise ValueError(
                f"--conv-time-stride needs -preenc strided; -preenc {self.type} keeps every frame"
            )
        if self.time_stride not in (1, 2):
            raise ValueError(f"--conv-time-stride must be 1 or 2, not {self.time_stride}")
        if self.harmonics and self.type != "strided":
            raise ValueError("--harmonics needs -preenc strided")
        if any(not 0.1 <= factor <= 32 for factor in self.harmonics):
            raise ValueError(f"--harmonics are frequency ratios from 0.1 to 32, not {self.harmonics}")


@dataclass(frozen=True)
class T5DecoderConfig:
    """T5 v1.1 decoder (Raffel et al. 2020): causal self attention, cross attention, gated feed-forward."""

    d_model: int = 512
    num_heads: int = 6
    d_kv: int = 64
    """Width of one attention head."""
    num_layers: int = 8
    ff_type: str = "t5_gmlp"
    """``t5_gmlp``: gated; ``moe``: for each token the best ``moe_topk`` of ``moe_num_experts`` gated ones,
    without a norm before them."""
    moe_num_experts: int = 8
    moe_topk: int = 2
    moe_act: str = "silu"
    """Activation of the experts."""
    ff_widening: int = 2
    d_ff: int = 0
    """Inner width of the feed-forward; 0: ``d_model`` times ``ff_widening``."""
    dropout: float = 0.05
    position_encoding: str = "sinusoidal"
    """``sinusoidal``: fixed table added to the embeddings; ``trainable``: T5 relative bias."""
    position_scale: float = 1.0
    """Factor on the sinusoidal table."""
    scaled_attention: bool = False
    """Divide attention scores by sqrt(d_kv) instead of starting the queries that much smaller as T5 does: the
    same function at the start, but one step of Adam moves it sqrt(d_kv) times less."""

    def __post_init__(self) -> None:
        check_name("decoder feed-forward type", self.ff_type, DECODER_FF_TYPES)
        check_name("decoder position encoding", self.position_encoding, DECODER_POSITIONS)
        check_positive(
            self,
            d_model="--d-model",
            num_heads="--decoder-heads",
            d_kv="--d-kv",
            num_layers="--decoder-layers",
            ff_widening="-dwf",
        )
        check_name("activation", self.moe_act, ACTIVATIONS)
        check_share("-ddr", self.dropout)
        check_experts(
            self.moe_topk, self.moe_num_experts, ("--decoder-moe-topk", "--decoder-moe-num-experts")
        )
        if self.ff_type == "moe" and self.d_ff:
            raise ValueError("--d-ff is a number of -dff t5_gmlp; the experts of -dff moe are sized by -dwf")
        if self.d_ff < 0:
            raise ValueError(f"--d-ff must be positive, or 0 for -dwf times --d-model, not {self.d_ff}")

    @property
    def ff_width(self) -> int:
        """Inner width of the feed-forward."""
        return self.d_ff or self.d_model * self.ff_widening


@dataclass(frozen=True)
class T5EncoderConfig:
    """T5 v1.1 encoder (Raffel et al. 2020) on spectrogram frames, as wide as the decoder (YMT3+)."""

    num_heads: int = 6
    d_kv: int = 64
    """Width of one attention head."""
    num_layers: int = 8
    d_ff: int = 1024
    """Inner width of the feed-forward."""
    dropout: float = 0.05
    position_encoding: str = "sinusoidal"
    """``sinusoidal``: fixed table added to the frames; ``trainable``: T5 relative bias; ``none``."""

    def __post_init__(self) -> None:
        _check_positions("t5", self.position_encoding, T5_ENCODER_POSITIONS)
        check_positive(
            self,
            num_heads="--num-heads",
            d_kv="--encoder-d-kv",
            num_layers="--encoder-layers",
            d_ff="--encoder-d-ff",
        )
        check_share("-edr", self.dropout)


@dataclass(frozen=True)
class ConformerConfig:
    """Conformer encoder (Gulati et al. 2020) on spectrogram frames, as wide as the decoder."""

    num_heads: int = 8
    num_layers: int = 8
    d_ff: int = 512
    """Inner width of both feed-forwards."""
    conv_kernel: int = 31
    """Frames the depthwise convolution sees."""
    dropout: float = 0.1
    layer_drop: float = 0.1
    """Probability that a layer is left out of a training step."""
    position_encoding: str = "rotary"
    """``rotary``; ``relative``: scores for distances (Transformer-XL); ``none``."""

    def __post_init__(self) -> None:
        _check_positions("conformer", self.position_encoding, CONFORMER_POSITIONS)
        check_positive(
            self,
            num_heads="--num-heads",
            num_layers="--encoder-layers",
            d_ff="--encoder-d-ff",
            conv_kernel="--conformer-kernel",
        )
        if self.conv_kernel % 2 == 0:
            raise ValueError(f"--conformer-kernel must be odd, not {self.conv_kernel}")
        check_share("-edr", self.dropout)
        check_share("--layer-drop", self.layer_drop)


@dataclass(frozen=True)
class ModelConfig:
    """The network in numbers and names; together with :class:`AudioConfig` enough to build it."""

    encoder_type: str = "t5"
    decoder_type: str = "t5"
    pre_encoder: PreEncoderConfig = field(default_factory=PreEncoderConfig)
    encoder: PerceiverTFConfig = field(default_factory=PerceiverTFConfig)
    t5_encoder: T5EncoderConfig = field(default_factory=T5EncoderConfig)
    conformer: ConformerConfig = field(default_factory=ConformerConfig)
    pre_decoder_type: str = "none"
    decoder: T5DecoderConfig = field(default_factory=T5DecoderConfig)
    memory_positions: str = "none"
    """``sinusoid`` adds time positions to the states the decoder attends to."""
    memory_norm: bool = False
    """RMS norm on the projected encoder states."""
    shift_embedding_init: str = "normal"
    """``sinusoid`` starts time-shift embeddings from the sinusoids of ``memory_positions``."""
    logit_scale: float = 1.0
    """Factor on the logits, the same in training and decoding. Published models train with 1/width."""
    frame_groups: tuple[str, ...] = ()
    """Groups of the frame head on the encoder states (an aid to learning), see ``FRAME_GROUPS``."""

    def __post_init__(self) -> None:
        check_name("encoder type", self.encoder_type, ENCODER_TYPES)
        check_name("decoder type", self.decoder_type, DECODER_TYPES)
        check_name("pre-decoder type", self.pre_decoder_type, PRE_DECODER_TYPES)
        self._check_parts()
        check_name("memory positions", self.memory_positions, ("none", "sinusoid"))
        check_name("shift embedding start", self.shift_embedding_init, ("normal", "sinusoid"))
        check_positive(self, logit_scale="--logit-scale")
        for group in self.frame_groups:
            check_name("frame head group", group, tuple(FRAME_GROUPS))
        if self.shift_embedding_init == "sinusoid" and self.memory_positions != "sinusoid":
            raise ValueError(
                "--shift-embedding-init sinusoid only helps when the memory has the same sinusoids: "
                "add --memory-positions sinusoid"
            )

    def _check_parts(self) -> None:
        kind, pre, post = self.encoder_type, self.pre_encoder.type, self.pre_decoder_type
        if kind == "perceiver-tf":
            if pre == "none":
                raise ValueError(
                    "-enc perceiver-tf attends to the channels of a convolution: use -preenc "
                    f"{', '.join(PRE_ENCODER_TYPES[:-1])}"
                )
            fitting = ("mc_shared_linear",) if self.decoder_type == "multi-t5" else LATENT_PROJECTIONS
            if post not in fitting:
                raise ValueError(
                    f"-enc perceiver-tf -dec {self.decoder_type} does not go with -predec {post}: use "
                    f"-predec {', '.join(fitting)}"
                )
            return
        if self.decoder_type != "t5":
            raise ValueError(
                f"-dec {self.decoder_type} tells its channels apart by their latents and -enc {kind} has "
                "none: use -enc perceiver-tf, or -dec t5"
            )
        for flag, value in (("-preenc", pre), ("-predec", post)):
            if value != "none":
                raise ValueError(
                    f"-enc {kind} takes the spectrogram's frames as they are and gives them on: use {flag} "
                    f"none, not {flag} {value}"
                )

    def num_memory_frames(self, audio: AudioConfig) -> int:
        """Frames per segment of the states the decoder attends to."""
        return -(-audio.num_frames // self.pre_encoder.time_stride)

    def samples_per_memory_frame(self, audio: AudioConfig) -> int:
        """Samples between those frames."""
        return audio.hop_length * self.pre_encoder.time_stride

    def seconds_per_memory_frame(self, audio: AudioConfig) -> float:
        """Time between those frames in seconds."""
        return audio.seconds_per_frame * self.pre_encoder.time_stride


def default_parts(encoder_type: str, decoder_type: str) -> tuple[str, str]:
    """Pre-encoder and pre-decoder that go with an encoder and a decoder."""
    if encoder_type != "perceiver-tf":
        return "none", "none"
    return "conv", "mc_shared_linear" if decoder_type == "multi-t5" else "linear"
