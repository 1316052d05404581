"""The options of ``train.py`` that make the model and what it hears."""

from __future__ import annotations

from ..config.audio import CODECS
from ..config.model import (
    CONFORMER_POSITIONS,
    DECODER_FF_TYPES,
    DECODER_POSITIONS,
    DECODER_TYPES,
    DEFAULT,
    ENCODER_TYPES,
    FRAME_GROUPS,
    PRE_DECODER_TYPES,
    PRE_ENCODER_TYPES,
    T5_ENCODER_POSITIONS,
)
from ..config.perceiver import ACTIVATIONS, ENCODER_POSITIONS, FF_TYPES, NORM_TYPES, ROPE_TYPES
from .parser import Option, Section

NO_FRAME_HEAD = "none"
"""Word after ``--frame-head`` that takes a recipe's head away."""

_ANY_POSITIONS = tuple(dict.fromkeys((*ENCODER_POSITIONS, *T5_ENCODER_POSITIONS, *CONFORMER_POSITIONS)))

_audio = Section("audio", "audio")
_any_encoder = Section("encoder", "model")
_encoder = Section("encoder (Perceiver-TF)", "model.encoder")
_frames = Section("encoder (t5, conformer)", "model")
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
    _any_encoder("-enc", "--encoder-type", "text", ".encoder_type", "encoder", choices=ENCODER_TYPES),
    _any_encoder(
        "",
        "--num-heads",
        "int",
        ".encoder.num_heads .t5_encoder.num_heads .conformer.num_heads",
        "attention heads of the encoder",
        by_encoder=True,
    ),
    _any_encoder(
        "-epe",
        "--encoder-position-encoding-type",
        "text",
        ".encoder.position_encoding .t5_encoder.position_encoding .conformer.position_encoding",
        "positions, of which -enc t5 and -enc conformer know fewer",
        choices=(*_ANY_POSITIONS, DEFAULT),
        by_encoder=True,
    ),
    _any_encoder(
        "-edr",
        "--encoder-dropout-rate",
        "float",
        ".encoder.dropout .t5_encoder.dropout .conformer.dropout",
        "dropout of the encoder",
        by_encoder=True,
    ),
    _frames(
        "",
        "--encoder-layers",
        "int",
        ".t5_encoder.num_layers .conformer.num_layers",
        "layers",
        by_encoder=True,
    ),
    _frames(
        "",
        "--encoder-d-ff",
        "int",
        ".t5_encoder.d_ff .conformer.d_ff",
        "inner width of the feed-forwards",
        by_encoder=True,
    ),
    _frames("", "--encoder-d-kv", "int", ".t5_encoder.d_kv", "width of one head of -enc t5"),
    _frames(
        "",
        "--conformer-kernel",
        "int",
        ".conformer.conv_kernel",
        "frames the convolutions of -enc conformer see",
    ),
    _frames(
        "",
        "--layer-drop",
        "float",
        ".conformer.layer_drop",
        "probability that -enc conformer leaves a layer out of a training step",
    ),
    _encoder(
        "-preenc",
        "--pre-encoder-type",
        "text",
        "model.pre_encoder.type",
        "convolutions in front",
        choices=(*PRE_ENCODER_TYPES, DEFAULT),
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
    _encoder("-nmoe", "--moe-num-experts", "int", ".moe_num_experts", "experts of -ff moe"),
    _encoder("-kmoe", "--moe-topk", "int", ".moe_topk", "experts that each token goes to"),
    _encoder(
        "",
        "--moe-balance-weight",
        "float",
        "objective.moe_balance_weight",
        "weight of the term that spreads tokens over experts, usually 0.01; 0 is off",
    ),
    _encoder("-act", "--hidden-act", "text", ".hidden_act", "its activation", choices=ACTIVATIONS),
    _encoder("-ln", "--layer-norm-type", "text", ".norm_type", "norms", choices=NORM_TYPES),
    _encoder("-rp", "--rope-partial-pe", "bool", ".rope_partial", "-epe rope turns half of --rope-width"),
    _encoder("-rk", "--rope-apply-to-keys", "bool", ".rope_apply_to_keys", "-epe rope turns keys too"),
    _encoder(
        "-rt",
        "--rotary-type",
        "text",
        ".rope_types",
        "rotary positions of cross attention, layers over latents and layers over time: p spreads them over "
        "[-1, 1], l counts them",
        choices=ROPE_TYPES,
    ),
    _encoder(
        "",
        "--rope-width",
        "int",
        ".rope_width",
        "components of a head that -epe rope turns; 0 is all, published models take as many as heads",
    ),
    _encoder(
        "",
        "--alibi-scale",
        "float",
        ".alibi_scale",
        "factor on the slopes of -epe alibi and alibit; YourMT3 has 1 / sqrt(width of a head)",
    ),
    _encoder("", "--init-std", "float", ".init_std", "standard deviation of the encoder's starting weights"),
    _decoder("-dec", "--decoder-type", "text", "model.decoder_type", "decoder", choices=DECODER_TYPES),
    _decoder(
        "-predec",
        "--pre-decoder-type",
        "text",
        "model.pre_decoder_type",
        "projection of the encoder's states",
        choices=(*PRE_DECODER_TYPES, DEFAULT),
    ),
    _decoder("", "--d-model", "int", ".d_model", "width, also that of -enc t5 and -enc conformer"),
    _decoder("", "--decoder-layers", "int", ".num_layers", "layers"),
    _decoder("", "--decoder-heads", "int", ".num_heads", "attention heads"),
    _decoder("", "--d-kv", "int", ".d_kv", "width of one head"),
    _decoder("-dff", "--decoder-ff-layer-type", "text", ".ff_type", "feed-forward", choices=DECODER_FF_TYPES),
    _decoder("-dwf", "--decoder-ff-widening-factor", "int", ".ff_widening", "its widening"),
    _decoder("", "--decoder-moe-num-experts", "int", ".moe_num_experts", "experts of -dff moe"),
    _decoder("", "--decoder-moe-topk", "int", ".moe_topk", "experts that each token goes to"),
    _decoder("", "--decoder-moe-act", "text", ".moe_act", "activation of the experts", choices=ACTIVATIONS),
    _decoder("", "--d-ff", "int", ".d_ff", "its inner width; 0 is -dwf times --d-model"),
    _decoder(
        "-dpe",
        "--decoder-position-encoding-type",
        "text",
        ".position_encoding",
        "positions",
        choices=(*DECODER_POSITIONS, DEFAULT),
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
