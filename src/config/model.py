"""Numbers of the network: front convolution, encoder, projection, decoder, heads."""

from __future__ import annotations

from dataclasses import dataclass, field

from .audio import AudioConfig
from .names import unknown_name

ENCODER_TYPES = ("perceiver-tf",)
DECODER_TYPES = ("t5",)
PRE_ENCODER_TYPES = ("conv", "strided")
PRE_DECODER_TYPES = ("linear",)
FF_TYPES = ("mlp",)
DECODER_FF_TYPES = ("t5_gmlp",)
NORM_TYPES = ("layer_norm", "rms_norm")
ENCODER_POSITIONS = ("trainable", "sinusoidal", "none")
DECODER_POSITIONS = ("sinusoidal", "trainable")
ACTIVATIONS = ("gelu", "gelu_new", "silu", "relu")

FRAME_MIN_PITCH = 21
FRAME_NUM_PITCHES = 88
FRAME_GROUPS = {
    "voice": FRAME_NUM_PITCHES + 2,
    "pitched": 2 * FRAME_NUM_PITCHES,
    "drums": 128,
}
"""Outputs per frame of each group of the frame head. ``voice``: silence or one of 88 pitches, and
one onset; ``pitched``: 88 sounding pitches and 88 onsets; ``drums``: 128 onsets."""


def _check(kind: str, name: str, known: tuple[str, ...]) -> None:
    if name not in known:
        raise unknown_name(kind, name, known)


def _positive(owner: object, *names: str) -> None:
    for name in names:
        if getattr(owner, name) <= 0:
            raise ValueError(f"{type(owner).__name__}.{name} must be positive, not {getattr(owner, name)}")


@dataclass(frozen=True)
class PreEncoderConfig:
    """Convolutions between the spectrogram and the encoder."""

    type: str = "conv"
    """``conv``: three residual blocks that halve frequency (published); ``strided``: three plain
    strided convolutions, cheap enough for a small machine."""
    out_channels: int = 128
    """Channels C that leave the convolutions (flag ``-cout``)."""
    time_stride: int = 1
    """Frames per output frame; more than 1 only for ``strided``."""
    harmonics: tuple[float, ...] = ()
    """Multiples of a frequency that the first convolution sees beside it (Bittner et al. 2017), for
    ``strided`` on a log-frequency front end; empty: none."""

    def __post_init__(self) -> None:
        _check("pre-encoder type", self.type, PRE_ENCODER_TYPES)
        _positive(self, "out_channels", "time_stride")
        if self.type == "conv" and self.time_stride != 1:
            raise ValueError("--conv-time-stride needs -preenc strided; -preenc conv keeps every frame")
        if self.time_stride not in (1, 2):
            raise ValueError(f"--conv-time-stride must be 1 or 2, not {self.time_stride}")
        if self.harmonics and self.type != "strided":
            raise ValueError("--harmonics needs -preenc strided")
        if any(not 0.1 <= factor <= 32 for factor in self.harmonics):
            raise ValueError(f"--harmonics are frequency ratios from 0.1 to 32, not {self.harmonics}")


@dataclass(frozen=True)
class PerceiverTFConfig:
    """Perceiver-TF encoder (Lu et al. 2023): latents attend to frequency, then to each other and to time."""

    num_latents: int = 24
    d_latent: int = 128
    """Width of the latent array."""
    d_model: int = 128
    """Width of the local and temporal transformers."""
    qk_channels: int = 128
    """Total width of queries and keys over all heads."""
    v_channels: int = 128
    """Total width of values over all heads."""
    num_heads: int = 8
    num_blocks: int = 3
    num_local_layers: int = 2
    num_temporal_layers: int = 2
    sca_query_residual: bool = False
    """Residual around the spectral cross attention (flag ``-sqr``)."""
    sca_feed_forward: bool = False
    """A feed-forward after the spectral cross attention; off in the published models."""
    attention_to_channel: bool = True
    """Keys of the cross attention are the C channels instead of the F bins (flag ``-atc``)."""
    ff_type: str = "mlp"
    ff_widening: int = 1
    hidden_act: str = "gelu"
    norm_type: str = "layer_norm"
    position_encoding: str = "trainable"
    dropout: float = 0.1
    init_std: float = 0.02
    """Standard deviation of linear weights, latents and position tables."""

    def __post_init__(self) -> None:
        _check("feed-forward type", self.ff_type, FF_TYPES)
        _check("activation", self.hidden_act, ACTIVATIONS)
        _check("layer norm type", self.norm_type, NORM_TYPES)
        _check("encoder position encoding", self.position_encoding, ENCODER_POSITIONS)
        _positive(
            self,
            "num_latents",
            "d_latent",
            "d_model",
            "qk_channels",
            "v_channels",
            "num_heads",
            "num_blocks",
            "ff_widening",
        )
        for name in ("qk_channels", "v_channels"):
            if getattr(self, name) % self.num_heads:
                raise ValueError(
                    f"{name} {getattr(self, name)} does not divide over {self.num_heads} heads "
                    f"(flags -pqk, -pvc, --num-heads)"
                )
        if self.d_latent != self.d_model and self.sca_query_residual:
            raise ValueError(
                f"-sqr 1 adds latents (-dl {self.d_latent}) to attention output (-dpm {self.d_model}): "
                "give both the same width, or use -sqr 0"
            )


@dataclass(frozen=True)
class T5DecoderConfig:
    """T5 v1.1 decoder (Raffel et al. 2020): causal self attention, cross attention, gated feed-forward."""

    d_model: int = 512
    num_heads: int = 6
    d_kv: int = 64
    """Width of one attention head."""
    num_layers: int = 8
    ff_type: str = "t5_gmlp"
    ff_widening: int = 2
    dropout: float = 0.05
    position_encoding: str = "sinusoidal"
    """``sinusoidal``: fixed table added to the embeddings; ``trainable``: T5 relative bias."""
    position_scale: float = 1.0
    """Factor on the sinusoidal table."""
    scaled_attention: bool = False
    """Divide attention scores by sqrt(d_kv) instead of starting the queries that much smaller as T5 does: the
    same function at the start, but one step of Adam moves it sqrt(d_kv) times less."""

    def __post_init__(self) -> None:
        _check("decoder feed-forward type", self.ff_type, DECODER_FF_TYPES)
        _check("decoder position encoding", self.position_encoding, DECODER_POSITIONS)
        _positive(self, "d_model", "num_heads", "d_kv", "num_layers", "ff_widening")


@dataclass(frozen=True)
class ModelConfig:
    """The network in numbers and names; together with :class:`AudioConfig` enough to build it."""

    encoder_type: str = "perceiver-tf"
    decoder_type: str = "t5"
    pre_encoder: PreEncoderConfig = field(default_factory=PreEncoderConfig)
    encoder: PerceiverTFConfig = field(default_factory=PerceiverTFConfig)
    pre_decoder_type: str = "linear"
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
        _check("encoder type", self.encoder_type, ENCODER_TYPES)
        _check("decoder type", self.decoder_type, DECODER_TYPES)
        _check("pre-decoder type", self.pre_decoder_type, PRE_DECODER_TYPES)
        _check("memory positions", self.memory_positions, ("none", "sinusoid"))
        _check("shift embedding start", self.shift_embedding_init, ("normal", "sinusoid"))
        for group in self.frame_groups:
            _check("frame head group", group, tuple(FRAME_GROUPS))
        if self.shift_embedding_init == "sinusoid" and self.memory_positions != "sinusoid":
            raise ValueError(
                "--shift-embedding-init sinusoid only helps when the memory has the same sinusoids: "
                "add --memory-positions sinusoid"
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
