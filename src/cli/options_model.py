"""The options of ``train.py`` that make the model and what it hears."""

from __future__ import annotations

from ..config.audio import CODECS
from ..config.model import (
    ACTIVATIONS,
    DECODER_FF_TYPES,
    DECODER_POSITIONS,
    DECODER_TYPES,
    ENCODER_POSITIONS,
    ENCODER_TYPES,
    FF_TYPES,
    FRAME_GROUPS,
    NORM_TYPES,
    PRE_DECODER_TYPES,
    PRE_ENCODER_TYPES,
)
from .parser import Option, Section

NO_FRAME_HEAD = "none"
"""Word after ``--frame-head`` that takes a recipe's head away."""

_NO_ROPE = (
    "this version has no rotary positions in the encoder; pass 0, or use -epe trainable, sinusoidal or none"
)

_audio = Section("audio", "audio")
_encoder = Section("encoder (Perceiver-TF)", "model.encoder")
_decoder = Section("decoder", "model.decoder")
_aids = Section("aids to fast learning", "model")

MODEL_OPTIONS: tuple[Option, ...] = (
    _audio("-ac", "--audio-codec", "text", ".codec", "front end", choices=CODECS),
    _audio("-hop", "--hop-length", "int", ".hop_length", "STFT hop in samples"),
    _audio("-nmel", "--n-mels", "int", ".n_mels", "bands of -ac melspec"),
    _audio(
        "-if",
        "--input-frames",
        "int",
        ".segment_samples",
        "samples of a segment: 65534 are 4.096 s, 98301 are 6.144 s",
    ),
    _encoder("-enc", "--encoder-type", "text", "model.encoder_type", "encoder", choices=ENCODER_TYPES),
    _encoder(
        "-preenc",
        "--pre-encoder-type",
        "text",
        "model.pre_encoder.type",
        "convolutions in front",
        choices=PRE_ENCODER_TYPES,
    ),
    _encoder("-cout", "--conv-out-channels", "int", "model.pre_encoder.out_channels", "their channels"),
    _encoder(
        "",
        "--conv-time-stride",
        "int",
        "model.pre_encoder.time_stride",
        "frames per frame that leaves -preenc strided: 1 or 2",
    ),
    _encoder(
        "",
        "--harmonics",
        "float",
        "model.pre_encoder.harmonics",
        "multiples of a frequency that -preenc strided sees beside it; needs -ac logspec",
        count=0,
    ),
    _encoder("-nl", "--num-latents", "int", ".num_latents", "latents"),
    _encoder("-dl", "--d-latent", "int", ".d_latent", "width of the latents"),
    _encoder(
        "-dpm", "--perceiver-tf-d-model", "int", ".d_model", "width of the local and temporal transformers"
    ),
    _encoder(
        "-pqk",
        "--perceiver-tf-qk-channels",
        "int",
        ".qk_channels",
        "width of queries and keys, all heads together",
    ),
    _encoder(
        "-pvc", "--perceiver-tf-v-channels", "int", ".v_channels", "width of values, all heads together"
    ),
    _encoder("", "--num-heads", "int", ".num_heads", "attention heads of the encoder"),
    _encoder("-npb", "--num-perceiver-tf-blocks", "int", ".num_blocks", "blocks"),
    _encoder(
        "-npl",
        "--num-perceiver-tf-local-transformers-per-block",
        "int",
        ".num_local_layers",
        "layers over the latents of a frame in each block",
    ),
    _encoder(
        "-npt",
        "--num-perceiver-tf-temporal-transformers-per-block",
        "int",
        ".num_temporal_layers",
        "layers over time in each block",
    ),
    _encoder(
        "-sqr",
        "--sca-use-query-residual",
        "bool",
        ".sca_query_residual",
        "residual around the spectral cross attention",
    ),
    _encoder(
        "",
        "--sca-feed-forward",
        "bool",
        ".sca_feed_forward",
        "feed-forward after the spectral cross attention",
    ),
    _encoder(
        "-atc",
        "--attention-to-channel",
        "bool",
        ".attention_to_channel",
        "keys of that attention are the channels instead of the frequency bins",
    ),
    _encoder("-ff", "--ff-layer-type", "text", ".ff_type", "feed-forward", choices=FF_TYPES),
    _encoder("-wf", "--ff-widening-factor", "int", ".ff_widening", "its widening"),
    _encoder("-act", "--hidden-act", "text", ".hidden_act", "its activation", choices=ACTIVATIONS),
    _encoder("-ln", "--layer-norm-type", "text", ".norm_type", "norms", choices=NORM_TYPES),
    _encoder(
        "-epe",
        "--encoder-position-encoding-type",
        "text",
        ".position_encoding",
        "positions",
        choices=ENCODER_POSITIONS,
    ),
    _encoder(
        "-rp",
        "--rope-partial-pe",
        "bool",
        "",
        "rotary positions on part of a head: only 0 in this version",
        only=False,
        refusal=_NO_ROPE,
    ),
    _encoder(
        "-rk",
        "--rope-apply-to-keys",
        "bool",
        "",
        "rotary positions on keys too: only 0 in this version",
        only=False,
        refusal=_NO_ROPE,
    ),
    _encoder("-edr", "--encoder-dropout-rate", "float", ".dropout", "dropout"),
    _encoder("", "--init-std", "float", ".init_std", "standard deviation of the encoder's starting weights"),
    _decoder("-dec", "--decoder-type", "text", "model.decoder_type", "decoder", choices=DECODER_TYPES),
    _decoder(
        "-predec",
        "--pre-decoder-type",
        "text",
        "model.pre_decoder_type",
        "projection of the encoder's states",
        choices=PRE_DECODER_TYPES,
    ),
    _decoder("", "--d-model", "int", ".d_model", "width"),
    _decoder("", "--decoder-layers", "int", ".num_layers", "layers"),
    _decoder("", "--decoder-heads", "int", ".num_heads", "attention heads"),
    _decoder("", "--d-kv", "int", ".d_kv", "width of one head"),
    _decoder("-dff", "--decoder-ff-layer-type", "text", ".ff_type", "feed-forward", choices=DECODER_FF_TYPES),
    _decoder("-dwf", "--decoder-ff-widening-factor", "int", ".ff_widening", "its widening"),
    _decoder(
        "-dpe",
        "--decoder-position-encoding-type",
        "text",
        ".position_encoding",
        "positions",
        choices=DECODER_POSITIONS,
    ),
    _decoder("", "--decoder-position-scale", "float", ".position_scale", "factor on -dpe sinusoidal"),
    _decoder(
        "",
        "--decoder-scaled-attention",
        "bool",
        ".scaled_attention",
        "divide attention scores by sqrt(d_kv) instead of T5's small start: steadier for small models",
    ),
    _decoder("-ddr", "--decoder-dropout-rate", "float", ".dropout", "dropout"),
    _decoder(
        "", "--logit-scale", "float", "model.logit_scale", "factor on the logits in training and decoding"
    ),
    _aids(
        "",
        "--frame-head",
        "text",
        ".frame_groups",
        "groups of the frame head on the encoder's states",
        count=0,
        metavar="GROUP ...",
        choices=(*FRAME_GROUPS, NO_FRAME_HEAD),
    ),
    _aids("", "--frame-weight", "float", "objective.frame_weight", "weight of its terms in the loss"),
    _aids(
        "",
        "--frame-until",
        "int",
        "objective.frame_until",
        "step after which they are dropped; 0 keeps them",
        metavar="STEP",
    ),
    _aids(
        "",
        "--memory-positions",
        "text",
        ".memory_positions",
        "time positions on what the decoder attends to",
        choices=("none", "sinusoid"),
    ),
    _aids("", "--memory-norm", "bool", ".memory_norm", "RMS norm on the projected states"),
    _aids(
        "",
        "--shift-embedding-init",
        "text",
        ".shift_embedding_init",
        "start of the embeddings of time tokens",
        choices=("normal", "sinusoid"),
    ),
    _aids(
        "",
        "--soft-shift",
        "float",
        "objective.soft_shift_ms",
        "spread the targets of time tokens by a Gaussian of this width; 0 is hard targets",
        metavar="MS",
    ),
)
