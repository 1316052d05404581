"""Small published networks of every family against the published system: all stages, gradients, tokens."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from amt.config import (
    AudioConfig,
    ConformerConfig,
    ModelConfig,
    PerceiverTFConfig,
    PreEncoderConfig,
    T5DecoderConfig,
    T5EncoderConfig,
)
from amt.model import Encoded, build_model

GOLDEN = Path(__file__).parents[1] / "golden" / "model"
TOLERANCE = 1e-4
COMPUTED = ("spectrogram.", "additive_pe", "rotary_emb", "inv_freq")

NAMES = [
    (r"^pre_encoder\.0\.", "pre_encoder."),
    (r"^pre_decoder\.0\.(projection_layer|linear)\.", "pre_decoder."),
    (r"^lm_head\.lm_head\.", "decoder.lm_head."),
    (r"^embed_tokens\.", "decoder.embed."),
    (r"latent_array\.latents$", "latents"),
    (r"pos_emb\._pos_emb$", "positions"),
    (r"spectral_cross_attention\.self\.layernorm1\.", "cross_attention.query_norm."),
    (r"spectral_cross_attention\.self\.layernorm2\.", "cross_attention.key_norm."),
    (r"spectral_cross_attention\.(self\.|output\.(?=dense))", "cross_attention."),
    (r"(local|temporal)_transformer\.", r"\1_layers."),
    (r"\.attention\.self\.layernorm1\.", ".attention.norm."),
    (r"\.attention\.(self|output)\.", ".attention."),
    (r"attention\.dense\.", "attention.output."),
    (r"_layers\.(\d+)\.layernorm\.", r"_layers.\1.feed_forward.norm."),
    (r"_layers\.(\d+)\.mlp\.", r"_layers.\1.feed_forward.mlp."),
    (r"^(en|de)coder\.\1coder\.final_layer_norm\.", r"\1coder.final_norm."),
    (r"^(en|de)coder\.\1coder\.block\.(\d+)\.layer\.0\.layer_norm\.", r"\1coder.layers.\2.self_norm."),
    (
        r"^(en|de)coder\.\1coder\.block\.(\d+)\.layer\.0\.SelfAttention\.",
        r"\1coder.layers.\2.self_attention.",
    ),
    (r"^decoder\.decoder\.block\.(\d+)\.layer\.1\.layer_norm\.", r"decoder.layers.\1.cross_norm."),
    (r"^decoder\.decoder\.block\.(\d+)\.layer\.1\.EncDecAttention\.", r"decoder.layers.\1.cross_attention."),
    (r"^(en|de)coder\.\1coder\.block\.(\d+)\.layer\.[12]\.layer_norm\.", r"\1coder.layers.\2.ff_norm."),
    (
        r"^(en|de)coder\.\1coder\.block\.(\d+)\.layer\.[12]\.DenseReluDense\.",
        r"\1coder.layers.\2.feed_forward.",
    ),
    (r"^encoder\.layer_norm\.", "encoder.norm."),
    (r"\.ffn(\d)_layer_norm\.", r".feed_forward\1.norm."),
    (r"\.ffn(\d)\.intermediate_dense\.", r".feed_forward\1.dense1."),
    (r"\.ffn(\d)\.output_dense\.", r".feed_forward\1.dense2."),
    (r"\.self_attn_layer_norm\.", ".attention.norm."),
    (r"\.self_attn\.linear_q\.", ".attention.query."),
    (r"\.self_attn\.linear_k\.", ".attention.key."),
    (r"\.self_attn\.linear_v\.", ".attention.value."),
    (r"\.self_attn\.linear_out\.", ".attention.output."),
    (r"\.conv_module\.layer_norm\.", ".convolution.norm."),
    (r"\.conv_module\.(pointwise|depthwise)_conv(\d?)\.", r".convolution.\1\2."),
    (r"\.conv_module\.batch_norm\.", ".convolution.batch_norm."),
    (r"(layers\.\d+)\.final_layer_norm\.", r"\1.norm."),
]


EXPERT = re.compile(r"(.*)\.experts\.(\d+)\.(w1|w2|gate)\.weight")


def our_name(published):
    for pattern, replacement in NAMES:
        published = re.sub(pattern, replacement, published)
    return published


def rule():
    spec = importlib.util.spec_from_file_location("fill_rule", GOLDEN / "fill_rule.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def published_state(meta, vectors):
    """The weights that the fill rule derives from the published names, under our names. The experts of a
    layer are one tensor here; the row of EOS is scaled or replaced as the golden run did."""
    state, experts = {}, {}
    for name, shape in meta["keys"]:
        if any(part in name for part in COMPUTED):
            continue
        filled = rule().filled(name, tuple(shape))
        if found := EXPERT.fullmatch(our_name(name)):
            experts.setdefault(f"{found[1]}.experts.{found[3]}", []).append(torch.from_numpy(filled))
            continue
        state[our_name(name)] = torch.tensor(0) if filled is None else torch.from_numpy(filled)
    state |= {name: torch.stack(parts) for name, parts in experts.items()}
    row = state["decoder.lm_head.weight"][1]
    if "eos_row" in vectors:
        row.copy_(vectors["eos_row"])
    else:
        row.mul_(meta["eos_row_factor"])
    return state


def config_of(family, meta, *, dropout=True):
    """Our configuration of a golden network; without ``dropout`` nothing is random in training mode."""
    enc, dec = meta["encoder_cfg"], meta["decoder_cfg"]
    rate = {} if dropout else {"dropout": 0.0}
    decoder = T5DecoderConfig(
        d_model=dec["d_model"],
        num_heads=dec["num_heads"],
        d_kv=meta["t5_d_kv"],
        num_layers=dec["num_layers"],
        **rate,
    )
    scale = 1.0 / dec["d_model"]
    frames = {
        "pre_encoder": PreEncoderConfig(type="none"),
        "pre_decoder_type": "none",
        "decoder": decoder,
        "logit_scale": scale,
    }
    if family == "t5":
        t5 = T5EncoderConfig(
            num_heads=enc["num_heads"],
            d_kv=meta["t5_d_kv"],
            num_layers=enc["num_layers"],
            d_ff=enc["d_model"] * enc["ff_widening_factor"],
            **rate,
        )
        return ModelConfig("t5", t5_encoder=t5, **frames)
    if family == "conformer":
        conformer = ConformerConfig(
            num_heads=enc["num_heads"],
            num_layers=enc["num_layers"],
            d_ff=enc["intermediate_size"],
            layer_drop=0.1 if dropout else 0.0,
            **rate,
        )
        return ModelConfig("conformer", conformer=conformer, **frames)
    perceiver = PerceiverTFConfig(
        num_latents=enc["num_latents"],
        d_latent=enc["d_latents"],
        d_model=enc["d_model"],
        qk_channels=enc["qk_channels"],
        v_channels=enc["v_channels"],
        num_heads=enc["num_self_attention_heads"],
        num_blocks=enc["num_blocks"],
        num_local_layers=enc["num_local_transformers_per_block"],
        num_temporal_layers=enc["num_temporal_transformers_per_block"],
        sca_query_residual=enc["sca_use_query_residual"],
        ff_type=enc["ff_layer_type"],
        ff_widening=enc["ff_widening_factor"],
        moe_num_experts=enc["moe_num_experts"],
        moe_topk=enc["moe_topk"],
        hidden_act=enc["hidden_act"],
        position_encoding=enc["position_encoding_type"],
        **({"rope_width": enc["num_self_attention_heads"], "rope_partial": True} if family == "rope" else {}),
        **rate,
    )
    return ModelConfig(
        decoder_type="multi-t5",
        pre_encoder=PreEncoderConfig(out_channels=8),
        encoder=perceiver,
        pre_decoder_type="mc_shared_linear",
        decoder=decoder,
        logit_scale=scale,
    )


NETWORKS = {
    "t5_t5": ("t5", 1),
    "conformer_t5": ("conformer", 1),
    "ptf_multi_t5_mlp_trainable": ("perceiver", 13),
    "ptf_multi_t5_moe_rope": ("rope", 13),
    "decode_eos_first": ("t5", 1),
}


TRAINED = [name for name in NETWORKS if name != "decode_eos_first"]


@pytest.fixture
def network(golden, golden_json):
    def build(name, *, dropout=True):
        meta, vectors = golden_json(name), golden(name)
        cfg = meta["audio_cfg"]
        audio = AudioConfig(
            codec=cfg["codec"],
            hop_length=cfg["hop_length"],
            segment_samples=cfg["input_frames"],
            n_mels=cfg["n_mels"],
        )
        family, channels = NETWORKS[name]
        config = config_of(family, meta, dropout=dropout)
        model = build_model(config, audio, meta["vocab_size"], channels, max_length=64)
        model.load_state_dict(published_state(meta, vectors))
        return model.eval(), meta, vectors

    return build


def part(full, vectors, name):
    assert list(full.shape) == vectors[f"{name}_shape"].tolist(), name
    return full[tuple(slice(None, None, int(step)) for step in vectors[f"{name}_stride"])]


class Stored(torch.nn.Module):
    """Stands for the front end and gives one spectrogram."""

    def __init__(self, spec):
        super().__init__()
        self.spec = spec

    def forward(self, audio):
        return self.spec


def pin_spectrogram(model, audio, vectors):
    """Give the network the spectrogram of the published run, whose extremes another FFT rounded: they are in
    the scaling of every bin. Scale and offset are fitted per example."""
    spec = model.frontend(audio).double()
    ours, stored = part(spec, vectors, "spec"), vectors["spec"].double()
    torch.testing.assert_close(ours, stored, atol=TOLERANCE, rtol=0)
    mean, stored_mean = ours.mean((1, 2), keepdim=True), stored.mean((1, 2), keepdim=True)
    scale = ((ours - mean) * (stored - stored_mean)).sum((1, 2), keepdim=True)
    scale = scale / (ours - mean).square().sum((1, 2), keepdim=True)
    model.frontend = Stored((scale * (spec - mean) + stored_mean).float())
    torch.testing.assert_close(part(model.frontend.spec, vectors, "spec"), vectors["spec"], atol=3e-6, rtol=0)


@pytest.fixture
def sound(golden_audio):
    return lambda meta: golden_audio(meta["B"], meta["audio_cfg"]["input_frames"], meta["audio_seed"])


@pytest.mark.parametrize("name", NETWORKS)
def test_stages_logits_and_loss(network, sound, name):
    model, meta, vectors = network(name)
    labels = vectors["labels"]
    with torch.no_grad():
        audio = sound(meta)
        pin_spectrogram(model, audio, vectors)
        pre = model.pre_encoder(model.frontend(audio))
        encoded = model.encode(audio)
        hidden = model.decoder.hidden(vectors["dec_input_ids"].flatten(0, -2), encoded.memory)
        logits = model.decode_logits(encoded, labels)
    close = {"atol": TOLERANCE, "rtol": 0}
    torch.testing.assert_close(
        part(model.encoder(pre), vectors, "enc_hidden"), vectors["enc_hidden"], **close
    )
    if "proj" in vectors:
        torch.testing.assert_close(part(pre, vectors, "pre_encoder"), vectors["pre_encoder"], **close)
        memory = encoded.memory.unflatten(0, labels.shape[:2])
        torch.testing.assert_close(part(memory, vectors, "proj"), vectors["proj"], **close)
    torch.testing.assert_close(
        hidden.view_as(vectors["dec_hidden"]), vectors["dec_hidden"], atol=TOLERANCE, rtol=0
    )
    flat = logits[:, 0] if labels.shape[1] == 1 else logits
    torch.testing.assert_close(part(flat, vectors, "logits"), vectors["logits"], atol=1e-6, rtol=0)
    loss = F.cross_entropy(logits.flatten(0, 2), labels.flatten(), ignore_index=0)
    assert abs(float(loss) - float(vectors["loss"])) < 1e-5


@pytest.mark.parametrize("name", TRAINED)
def test_greedy_tokens(network, sound, name):
    model, meta, vectors = network(name)
    audio = sound(meta)
    pin_spectrogram(model, audio, vectors)
    ids = model.generate(audio, meta["gen_len"])
    expected = vectors["greedy"].clone()
    # One row of the mixture of experts says its end first, which the published decoder overlooks.
    expected[..., 1:].masked_fill_((expected[..., :1] == model.eos_id), model.pad_id)
    ids = F.pad(ids, (0, expected.shape[2] - ids.shape[2]))
    unsure = (vectors["greedy_margin"].view_as(expected) < 1e-4) & (expected != model.pad_id)
    sure = ~unsure.cumsum(-1).bool()
    assert float(sure.float().mean()) > 0.9, "behind a token that rounding may change, anything may follow"
    assert torch.equal(ids[sure], expected[sure])
    ends = (ids == model.eos_id).any(-1)
    assert bool(ends.any()), "some rows must end early, or the end is not tested"


def test_end_in_first_place_is_obeyed(network, sound):
    """The published decoder overlooks it: there row 0 goes on behind its first token."""
    model, meta, vectors = network("decode_eos_first")
    published = vectors["greedy"]
    assert published[0, 0].tolist() == [model.eos_id, model.eos_id]
    ids = model.generate(sound(meta), meta["gen_len"])
    assert ids[0, 0, 0] == model.eos_id
    assert not ids[0, 0, 1:].any(), "nothing follows the end"
    other = published[1, 0]
    end = (other == model.eos_id).nonzero()
    length = int(end[0]) + 1 if len(end) else len(other)
    assert torch.equal(ids[1, 0, :length], other[:length])


@pytest.mark.parametrize("name", TRAINED)
def test_gradients(network, sound, name):
    model, meta, vectors = network(name)
    audio = sound(meta)
    pin_spectrogram(model, audio, vectors)
    logits = model(audio, vectors["labels"])
    F.cross_entropy(logits.flatten(0, 2), vectors["labels"].flatten(), ignore_index=0).backward()
    ours = {name: parameter.grad for name, parameter in model.named_parameters()}
    for name in [name for name in ours if ".experts." in name]:
        stem, _, matrix = name.rpartition(".")
        ours |= {f"{stem}.{number}.{matrix}.weight": part for number, part in enumerate(ours.pop(name))}
    published = {
        our_name(key): value
        for key, value in meta["grad_norm_sum_eval"].items()
        if not any(word in key for word in COMPUTED)
    }
    assert set(published) == set(ours)
    for key, (norm, total) in published.items():
        gradient = ours[key]
        assert abs(float(gradient.norm()) - norm) < 1e-3 * norm + 1e-6, key
        assert abs(float(gradient.double().sum()) - total) < 1e-3 * norm * gradient.numel() ** 0.5 + 1e-6, key


@pytest.mark.parametrize("name", TRAINED)
def test_training_mode(network, sound, name):
    """Loss, total gradient and batch statistics of one training forward without dropout."""
    model, meta, vectors = network(name, dropout=False)
    model.train()
    expected = meta["train_mode_dropout0"]
    audio = sound(meta)
    pin_spectrogram(model, audio, vectors)
    logits = model(audio, vectors["labels"])
    loss = F.cross_entropy(logits.flatten(0, 2), vectors["labels"].flatten(), ignore_index=0)
    loss.backward()
    assert abs(float(loss) - expected["loss"]) < 2e-5
    total = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    assert abs(float(total) / expected["total_grad_norm"] - 1) < 2e-3
    state = model.state_dict()
    for key, values in expected["bn_after_one_forward"].items():
        if not key.endswith("num_batches_tracked"):
            torch.testing.assert_close(
                state[our_name(key)], torch.tensor(values), atol=1e-4, rtol=1e-3, msg=key
            )


def test_channels_know_nothing_of_each_other(network, sound):
    model, meta, vectors = network("ptf_multi_t5_mlp_trainable")
    labels = vectors["labels"].clone()
    with torch.no_grad():
        encoded = model.encode(sound(meta))
        before = model.decode_logits(encoded, labels)
        labels[:, 4] = labels[:, 4].flip(-1)
        after = model.decode_logits(encoded, labels)
    changed = (before != after).flatten(2).any(-1)[0].nonzero()[:, 0].tolist()
    assert changed == [4]


def test_channels_keep_their_place_in_a_batch(network, sound, golden_audio):
    model, meta, _ = network("ptf_multi_t5_mlp_trainable")
    audio = golden_audio(3, meta["audio_cfg"]["input_frames"], 7)
    together = model.generate(audio, 12)
    apart = [model.generate(one[None], 12) for one in audio]
    for row, alone in zip(together, apart, strict=True):
        alone = F.pad(alone[0], (0, together.shape[2] - alone.shape[2]))
        assert torch.equal(row, alone)
    encoded = model.encode(audio)
    nothing = Encoded(encoded.memory[:0], encoded.frames[:0])
    assert model.decode_greedily(nothing, 12).shape == (0, 13, 1)
