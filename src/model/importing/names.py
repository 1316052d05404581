"""Names of weights in published YourMT3+ checkpoints and in this network, both ways.

Tables of pairs of templates, chosen by the parts of the network. A field in braces stands for what
``_FIELDS`` says and is the same on both sides; ``{e}``, the number of an expert, is missing on our side,
where the experts of a layer are one tensor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from ...config import ModelConfig
from ...config.model import CONVOLUTION_KERNELS

_FIELDS = {
    "b": r"\d+",
    "e": r"\d+",
    "i": r"\d+",
    "n": "[12]",
    "wb": "weight|bias",
    "leaf": "weight|bias|running_mean|running_var|num_batches_tracked",
    "qkv": "query|key|value",
    "qkvo": "[qkvo]",
    "kind": "local|temporal",
    "conv": r"blocks\.\d+\.(?:conv1|conv2|bn1|bn2|shortcut)",
    "dense": "dense1|dense2",
    "wi": "wi_0|wi_1|wo",
    "gated": "w1|w2|gate",
}
_FIELD = re.compile(r"\{(\w+)\}")

_PERCEIVER = "encoder.blocks.{b}."
_CROSS = (_PERCEIVER + "spectral_cross_attention.", _PERCEIVER + "cross_attention.")
_LAYER = (_PERCEIVER + "{kind}_transformer.{i}.", _PERCEIVER + "{kind}_layers.{i}.")

Pairs = tuple[tuple[str, str], ...]


def t5_stack(theirs: str, ours: str, *, has_cross_attention: bool) -> Pairs:
    """Pairs of a stack of T5 whose names begin with ``theirs`` and ``ours``."""
    block, layer = theirs + "block.{i}.layer.", ours + "layers.{i}."
    cross: Pairs = (
        (block + "1.EncDecAttention.{qkvo}.weight", layer + "cross_attention.{qkvo}.weight"),
        (block + "1.layer_norm.weight", layer + "cross_norm.weight"),
    )
    last = block + ("2." if has_cross_attention else "1.")
    return (
        (block + "0.SelfAttention.{qkvo}.weight", layer + "self_attention.{qkvo}.weight"),
        (block + "0.layer_norm.weight", layer + "self_norm.weight"),
        *(cross if has_cross_attention else ()),
        (last + "DenseReluDense.{wi}.weight", layer + "feed_forward.{wi}.weight"),
        (last + "layer_norm.weight", layer + "ff_norm.weight"),
        (
            theirs + "block.0.layer.0.SelfAttention.relative_attention_bias.weight",
            ours + "relative_bias.weight",
        ),
        (theirs + "final_layer_norm.weight", ours + "final_norm.weight"),
    )


_EVERYWHERE: Pairs = (
    ("lm_head.lm_head.weight", "decoder.lm_head.weight"),
    ("embed_tokens.weight", "decoder.embed.weight"),
    *t5_stack("decoder.decoder.", "decoder.", has_cross_attention=True),
)
_PERCEIVER_TF: Pairs = (
    ("encoder.latent_array.latents", "encoder.latents"),
    ("encoder.pos_emb._pos_emb", "encoder.positions"),
    ("encoder.pos_emb._pos_emb_temporal", "encoder.temporal_positions"),
    (_CROSS[0] + "self.layernorm1.{wb}", _CROSS[1] + "query_norm.{wb}"),
    (_CROSS[0] + "self.layernorm2.{wb}", _CROSS[1] + "key_norm.{wb}"),
    (_CROSS[0] + "self.{qkv}.{wb}", _CROSS[1] + "{qkv}.{wb}"),
    (_CROSS[0] + "self.alibi_bias.slopes", _CROSS[1] + "slopes"),
    (_CROSS[0] + "output.dense.{wb}", _CROSS[1] + "output.{wb}"),
    (_LAYER[0] + "attention.self.layernorm1.{wb}", _LAYER[1] + "attention.norm.{wb}"),
    (_LAYER[0] + "attention.self.{qkv}.{wb}", _LAYER[1] + "attention.{qkv}.{wb}"),
    (_LAYER[0] + "attention.self.alibi_bias.slopes", _LAYER[1] + "attention.slopes"),
    (_LAYER[0] + "attention.output.dense.{wb}", _LAYER[1] + "attention.output.{wb}"),
    (_LAYER[0] + "layernorm.{wb}", _LAYER[1] + "feed_forward.norm.{wb}"),
)
_FEED_FORWARDS: Mapping[str, Pairs] = {
    "mlp": ((_LAYER[0] + "mlp.{dense}.{wb}", _LAYER[1] + "feed_forward.mlp.{dense}.{wb}"),),
    "gmlp": ((_LAYER[0] + "mlp.{gated}.weight", _LAYER[1] + "feed_forward.mlp.{gated}.weight"),),
    "moe": (
        (_LAYER[0] + "mlp.gate.weight", _LAYER[1] + "feed_forward.mlp.gate.weight"),
        (_LAYER[0] + "mlp.experts.{e}.{gated}.weight", _LAYER[1] + "feed_forward.mlp.experts.{gated}"),
    ),
}
_RESIDUAL: Pairs = (("pre_encoder.0.{conv}.{leaf}", "pre_encoder.{conv}.{leaf}"),)
_PRE_ENCODERS: Mapping[str, Pairs] = {
    "conv": _RESIDUAL,
    "conv1d_t": _RESIDUAL,
    "conv1d_f": _RESIDUAL,
    "hftt": (
        ("pre_encoder.0.conv.{wb}", "pre_encoder.conv.{wb}"),
        ("pre_encoder.0.emb_freq.{wb}", "pre_encoder.linear.{wb}"),
    ),
    "none": (),
}
_MLP: Pairs = (
    ("pre_decoder.0.layers.1.{wb}", "pre_decoder.linear1.{wb}"),
    ("pre_decoder.0.layers.2.{wb}", "pre_decoder.norm1.{wb}"),
    ("pre_decoder.0.layers.4.{wb}", "pre_decoder.linear2.{wb}"),
    ("pre_decoder.0.layers.5.{wb}", "pre_decoder.norm2.{wb}"),
    ("pre_decoder.0.layers.7.{wb}", "pre_decoder.linear3.{wb}"),
)
_CONVOLUTION: Pairs = (
    ("pre_decoder.0.conv.{wb}", "pre_decoder.conv.{wb}"),
    ("pre_decoder.0.fc.{wb}", "pre_decoder.output.{wb}"),
)
_PRE_DECODERS: Mapping[str, Pairs] = {
    "linear": (("pre_decoder.0.projection_layer.weight", "pre_decoder.weight"),),
    "mlp": _MLP,
    "mlp_gelu": _MLP,
    "mlp_relu": _MLP,
    **dict.fromkeys(CONVOLUTION_KERNELS, _CONVOLUTION),
    "group_linear": (("pre_decoder.0.weight", "pre_decoder.weight"),),
    "mc_shared_linear": (("pre_decoder.0.linear.weight", "pre_decoder.weight"),),
    "none": (),
}
_T5 = t5_stack("encoder.encoder.", "encoder.", has_cross_attention=False)
_CONFORMER_LAYER: Pairs = (
    ("ffn{n}_layer_norm.{wb}", "feed_forward{n}.norm.{wb}"),
    ("ffn{n}.intermediate_dense.{wb}", "feed_forward{n}.dense1.{wb}"),
    ("ffn{n}.output_dense.{wb}", "feed_forward{n}.dense2.{wb}"),
    ("self_attn_layer_norm.{wb}", "attention.norm.{wb}"),
    ("self_attn.linear_q.{wb}", "attention.query.{wb}"),
    ("self_attn.linear_k.{wb}", "attention.key.{wb}"),
    ("self_attn.linear_v.{wb}", "attention.value.{wb}"),
    ("self_attn.linear_out.{wb}", "attention.output.{wb}"),
    ("self_attn.linear_pos.weight", "attention.distance.weight"),
    ("self_attn.pos_bias_u", "attention.content_bias"),
    ("self_attn.pos_bias_v", "attention.distance_bias"),
    ("conv_module.layer_norm.{wb}", "convolution.norm.{wb}"),
    ("conv_module.pointwise_conv{n}.weight", "convolution.pointwise{n}.weight"),
    ("conv_module.depthwise_conv.weight", "convolution.depthwise.weight"),
    ("conv_module.batch_norm.{leaf}", "convolution.batch_norm.{leaf}"),
    ("final_layer_norm.{wb}", "norm.{wb}"),
)
_CONFORMER: Pairs = (
    *(("encoder.layers.{i}." + theirs, "encoder.layers.{i}." + ours) for theirs, ours in _CONFORMER_LAYER),
    ("encoder.layer_norm.{wb}", "encoder.norm.{wb}"),
)


def _pairs(model: ModelConfig) -> Pairs:
    """The pairs that hold for a network."""
    if model.encoder_type == "t5":
        encoder = _T5
    elif model.encoder_type == "conformer":
        encoder = _CONFORMER
    else:
        encoder = _PERCEIVER_TF + _FEED_FORWARDS[model.encoder.ff_type]
    pre_encoder = _PRE_ENCODERS.get(model.pre_encoder.type)
    pre_decoder = _PRE_DECODERS.get(model.pre_decoder_type)
    if pre_encoder is None or pre_decoder is None:
        part = model.pre_encoder.type if pre_encoder is None else model.pre_decoder_type
        raise ValueError(f"no published checkpoint has a part of the kind {part!r}")
    return _EVERYWHERE + encoder + pre_encoder + pre_decoder


class NameTable:
    """The names of one network's weights, ours and the published ones: pairs of templates."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = [(_compile(published), _compile(ours), published, ours) for published, ours in pairs]

    @classmethod
    def of(cls, model: ModelConfig) -> NameTable:
        """The table of a network.

        Raises:
            ValueError: the network has a part that no published checkpoint has.
        """
        return cls(_pairs(model))

    def our_name(self, published: str) -> tuple[str, int | None] | None:
        """The name in this network, and the expert's number where experts are one tensor; None: it has no
        such weight."""
        for pattern, _, _, ours in self._pairs:
            match = pattern.fullmatch(published)
            if match is not None:
                fields = match.groupdict()
                return ours.format(**fields), int(fields["e"]) if "e" in fields else None
        return None

    def published_name(self, ours: str) -> str | None:
        """The published name of a weight of this network, with ``{e}`` for the number of an expert where the
        first axis counts experts; None: published networks have no such weight."""
        for _, pattern, published, _ in self._pairs:
            match = pattern.fullmatch(ours)
            if match is not None:
                return published.format(**match.groupdict(), e="{e}")
        return None

    def to_ours(self, weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
        """Published weights under our names, and the names that this network has no place for.

        Raises:
            ValueError: when experts are missing or differ in shape.
        """
        ours: dict[str, Tensor] = {}
        experts: dict[str, dict[int, Tensor]] = {}
        unknown: list[str] = []
        for name, value in weights.items():
            found = self.our_name(name)
            if found is None:
                unknown.append(name)
            elif found[1] is None:
                ours[found[0]] = value
            else:
                experts.setdefault(found[0], {})[found[1]] = value
        for name, parts in experts.items():
            numbers = sorted(parts)
            if numbers != list(range(len(parts))) or len({part.shape for part in parts.values()}) > 1:
                raise ValueError(
                    f"the experts of {name} are not whole: there are {numbers}, or their shapes differ"
                )
            ours[name] = torch.stack([parts[number] for number in numbers])
        return ours, unknown

    def to_published(self, weights: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[str]]:
        """Our weights under published names, and the names that published networks do not have."""
        published: dict[str, Tensor] = {}
        unknown: list[str] = []
        for name, value in weights.items():
            template = self.published_name(name)
            if template is None:
                unknown.append(name)
            elif "{e}" in template:
                published.update((template.format(e=number), part) for number, part in enumerate(value))
            else:
                published[template] = value
        return published, unknown


def _compile(template: str) -> re.Pattern[str]:
    parts = _FIELD.split(template)
    texts = [
        f"(?P<{part}>{_FIELDS[part]})" if index % 2 else re.escape(part) for index, part in enumerate(parts)
    ]
    return re.compile("".join(texts))
