"""Numbers of the Perceiver-TF encoder."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from .checks import check_experts, check_least, check_name, check_positive, check_share

FF_TYPES = ("mlp", "gmlp", "moe")
NORM_TYPES = ("layer_norm", "rms_norm")
ENCODER_POSITIONS = (
    "trainable",
    "tkd",
    "td",
    "tk",
    "kdt",
    "sinusoidal",
    "alibi",
    "alibit",
    "rope",
    "none",
)
ALIBI_POSITIONS = ("alibi", "alibit")
ROPE_TYPES = tuple("".join(letters) for letters in product("pl", repeat=3))
"""Rotary positions of the spectral cross attention, the local and the temporal layers: ``p`` (pixel) spreads
them over [-1, 1], ``l`` (language) counts them."""
ACTIVATIONS = (
    "gelu",
    "gelu_new",
    "quick_gelu",
    "silu",
    "swish",
    "mish",
    "relu",
    "relu2",
    "relu6",
    "leaky_relu",
    "tanh",
    "sigmoid",
)


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
    """``mlp``: two matrices with biases; ``gmlp``: three without, one of them a gate; ``moe``: for each token
    the best ``moe_topk`` of ``moe_num_experts`` gated ones."""
    ff_widening: int = 1
    moe_num_experts: int = 4
    moe_topk: int = 2
    hidden_act: str = "gelu"
    norm_type: str = "layer_norm"
    position_encoding: str = "trainable"
    """``trainable`` or ``tkd``: a table over time, latent and width, added to the latents; ``td``, ``tk``:
    tables over two of these; ``kdt``: latent and width there, time and width before the first temporal layer;
    ``sinusoidal``: fixed in time; ``alibi``: the further apart, the lower the attention score; ``alibit``:
    with learned slopes; ``rope``: queries are rotated."""
    alibi_scale: float = 1.0
    """Factor on the slopes of ``alibi`` and ``alibit``; published code divides by the root of the width of a
    head."""
    rope_types: str = "ppl"
    """One of ``ROPE_TYPES`` (flag ``-rt``)."""
    rope_apply_to_keys: bool = False
    """Rotate keys too, which makes the positions relative (flag ``-rk``); published models rotate queries
    only."""
    rope_width: int = 0
    """Components of each head that ``rope`` turns; 0 is all of them, published models take as many as there
    are heads."""
    rope_partial: bool = False
    """Turn only the first half of these (flag ``-rp``)."""
    dropout: float = 0.1
    init_std: float = 0.02
    """Standard deviation of linear weights, latents and position tables."""

    def __post_init__(self) -> None:
        check_name("feed-forward type", self.ff_type, FF_TYPES)
        check_name("activation", self.hidden_act, ACTIVATIONS)
        check_name("layer norm type", self.norm_type, NORM_TYPES)
        check_name("encoder position encoding", self.position_encoding, ENCODER_POSITIONS)
        check_positive(
            self,
            num_latents="-nl",
            d_latent="-dl",
            d_model="-dpm",
            qk_channels="-pqk",
            v_channels="-pvc",
            num_heads="--num-heads",
            num_blocks="-npb",
            ff_widening="-wf",
            init_std="--init-std",
        )
        for flag, width in (("-pqk", self.qk_channels), ("-pvc", self.v_channels)):
            if width % self.num_heads:
                raise ValueError(f"{flag} {width} does not divide over --num-heads {self.num_heads}")
        check_least("-npl", self.num_local_layers, 0)
        check_least("-npt", self.num_temporal_layers, 0)
        check_share("-edr", self.dropout)
        check_experts(self.moe_topk, self.moe_num_experts, ("-kmoe", "-nmoe"))
        self._check_positions()
        if self.d_latent != self.d_model and self.sca_query_residual:
            raise ValueError(
                f"-sqr 1 adds latents (-dl {self.d_latent}) to attention output (-dpm {self.d_model}): "
                "give both the same width, or use -sqr 0"
            )

    @property
    def head_width(self) -> int:
        """Width of one head's queries and keys."""
        return self.qk_channels // self.num_heads

    @property
    def num_rotated(self) -> int:
        """Components of each head that ``rope`` turns."""
        width = self.rope_width or self.head_width
        return width // 2 if self.rope_partial else width

    def _check_positions(self) -> None:
        check_name("rotary type (-rt)", self.rope_types, ROPE_TYPES)
        check_positive(self, alibi_scale="--alibi-scale")
        if self.position_encoding == "kdt" and self.num_temporal_layers == 0:
            raise ValueError(
                "-epe kdt adds its time table before the first temporal layer and -npt 0 leaves none; give "
                "-npt 1 or more, or -epe tkd, td or tk"
            )
        if self.position_encoding not in ALIBI_POSITIONS and self.alibi_scale != 1.0:
            raise ValueError(
                f"--alibi-scale does nothing with -epe {self.position_encoding}; it goes with -epe alibi or "
                "alibit"
            )
        if self.position_encoding != "rope":
            for flag, is_set in (
                ("-rt", self.rope_types != "ppl"),
                ("-rk", self.rope_apply_to_keys),
                ("-rp", self.rope_partial),
                ("--rope-width", self.rope_width != 0),
            ):
                if is_set:
                    raise ValueError(
                        f"{flag} does nothing with -epe {self.position_encoding}; it goes with -epe rope"
                    )
            return
        turned = self.num_rotated
        if turned < 2 or turned % 2 or turned > self.head_width:
            raise ValueError(
                f"-epe rope turns pairs of a head's components and would turn {turned} of {self.head_width} "
                "(-pqk / --num-heads, --rope-width, half of it with -rp 1); choose an even number from 2 to "
                f"{self.head_width}"
            )
