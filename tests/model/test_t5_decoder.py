"""The decoder against transformers' T5 and the published vectors."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from amt.config import T5DecoderConfig
from amt.model.decoder import T5Decoder, greedy_decode

WIDTH, HEADS, D_KV, LAYERS, TOKENS = 48, 3, 8, 2, 60


def pair(seed, sharpen=1.0):
    """Our decoder with relative bias, and transformers' T5 with the same weights."""
    torch.manual_seed(seed)
    config = T5DecoderConfig(
        d_model=WIDTH, num_heads=HEADS, d_kv=D_KV, num_layers=LAYERS, position_encoding="trainable"
    )
    ours = T5Decoder(config, TOKENS, 200).eval()
    ours.lm_head.weight.data.normal_(std=sharpen)
    ours.relative_bias.weight.data.normal_()
    for name, parameter in ours.named_parameters():
        if "norm" in name:
            parameter.data.uniform_(0.5, 1.5)
    judge = T5ForConditionalGeneration(
        T5Config(
            vocab_size=TOKENS,
            d_model=WIDTH,
            d_kv=D_KV,
            d_ff=2 * WIDTH,
            num_layers=LAYERS,
            num_heads=HEADS,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
            decoder_start_token_id=0,
        )
    ).eval()
    # transformers 5 ties output and embedding whatever the configuration says.
    judge.lm_head.weight = torch.nn.Parameter(judge.lm_head.weight.detach().clone())
    copy = {
        "shared.weight": ours.embed.weight,
        "decoder.final_layer_norm.weight": ours.final_norm.weight,
        "lm_head.weight": ours.lm_head.weight,
        "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight": ours.relative_bias.weight,
    }
    for i, layer in enumerate(ours.layers):
        block = f"decoder.block.{i}.layer."
        copy[block + "0.layer_norm.weight"] = layer.self_norm.weight
        copy[block + "1.layer_norm.weight"] = layer.cross_norm.weight
        copy[block + "2.layer_norm.weight"] = layer.ff_norm.weight
        for part in "qkvo":
            copy[f"{block}0.SelfAttention.{part}.weight"] = getattr(layer.self_attention, part).weight
            copy[f"{block}1.EncDecAttention.{part}.weight"] = getattr(layer.cross_attention, part).weight
        for part in ("wi_0", "wi_1", "wo"):
            copy[f"{block}2.DenseReluDense.{part}.weight"] = getattr(layer.feed_forward, part).weight
    state = dict(judge.named_parameters())
    for name, value in copy.items():
        assert state[name].shape == value.shape, name
        state[name].data.copy_(value.data)
    return ours, judge


def test_logits_against_transformers():
    ours, judge = pair(1)
    memory, ids = torch.randn(3, 17, WIDTH), torch.randint(0, TOKENS, (3, 150))
    with torch.no_grad():
        expected = judge(
            encoder_outputs=BaseModelOutput(last_hidden_state=memory), decoder_input_ids=ids
        ).logits
        torch.testing.assert_close(ours(ids, memory), expected, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_greedy_against_transformers(seed):
    ours, judge = pair(seed, sharpen=2.0)
    judge.lm_head.weight.data[1] *= 1.5
    ours.lm_head.weight.data[1] *= 1.5
    memory = torch.randn(9, 6, WIDTH)
    expected = judge.generate(
        encoder_outputs=BaseModelOutput(last_hidden_state=memory),
        do_sample=False,
        num_beams=1,
        max_new_tokens=150,
    )[:, 1:]
    got = greedy_decode(ours, memory, 150, pad_id=0, eos_id=1)
    assert torch.equal(got, expected)
    ends = (got == 1).int().argmax(1)
    assert len(ends.unique()) > 1, "the rows end at different times"


def test_relative_bias_matches_published(golden, load_published):
    vectors = golden("t5dec_rel")
    config = T5DecoderConfig(d_model=16, num_heads=2, d_kv=8, num_layers=2, position_encoding="trainable")
    decoder = T5Decoder(config, 50, 160).eval()
    load_published(decoder, vectors, "decoder.", "decoder.")
    x = vectors["in/x"]
    bias = decoder._causal_bias(x.shape[1])
    for layer in decoder.layers:
        x = layer(x, vectors["in/enc"], bias)
    torch.testing.assert_close(decoder.final_norm(x), vectors["out/y"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("positions", ["sinusoidal", "trainable"])
def test_the_future_is_hidden(positions):
    config = T5DecoderConfig(d_model=24, num_heads=3, d_kv=8, num_layers=2, position_encoding=positions)
    decoder = T5Decoder(config, 30, 20).eval()
    memory, ids = torch.randn(1, 4, 24), torch.randint(0, 30, (1, 20))
    other = ids.clone()
    other[0, 12:] = (ids[0, 12:] + 1) % 30
    a, b = decoder(ids, memory), decoder(other, memory)
    torch.testing.assert_close(a[:, :12], b[:, :12])
    assert not torch.allclose(a[:, 12:], b[:, 12:])


def test_dropout_only_in_training():
    config = T5DecoderConfig(d_model=24, num_heads=3, d_kv=8, num_layers=1, dropout=0.3)
    decoder = T5Decoder(config, 30, 20)
    memory, ids = torch.randn(1, 4, 24), torch.randint(0, 30, (1, 20))
    assert not torch.allclose(decoder(ids, memory), decoder(ids, memory))
    decoder.eval()
    assert torch.equal(decoder(ids, memory), decoder(ids, memory))


def test_logit_scale_and_positions():
    config = T5DecoderConfig(d_model=24, num_heads=3, d_kv=8, num_layers=1, position_scale=0.3)
    decoder = T5Decoder(config, 30, 20, logit_scale=0.25).eval()
    memory, ids = torch.randn(1, 4, 24), torch.randint(0, 30, (1, 20))
    torch.testing.assert_close(decoder(ids, memory), 0.25 * decoder.lm_head(decoder.hidden(ids, memory)))
    assert abs(float(decoder.positions.abs().max()) - 0.3) < 1e-6
    assert "positions" not in decoder.state_dict()
    with pytest.raises(ValueError, match="-el"):
        decoder(torch.zeros(1, 21, dtype=torch.int64), memory)


def test_start_of_weights():
    decoder = T5Decoder(T5DecoderConfig(num_layers=1), 600, 64)
    layer = decoder.layers[0]
    for weight, std in [
        (layer.self_attention.q.weight, (512 * 64) ** -0.5),
        (layer.self_attention.k.weight, 512**-0.5),
        (layer.cross_attention.v.weight, 512**-0.5),
        (layer.cross_attention.o.weight, (6 * 64) ** -0.5),
        (layer.feed_forward.wi_0.weight, 512**-0.5),
        (layer.feed_forward.wo.weight, 1024**-0.5),
        (decoder.embed.weight, 1.0),
        (decoder.lm_head.weight, (3 * 512) ** -0.5),
    ]:
        assert abs(float(weight.std()) / std - 1) < 0.03


def test_scaled_attention_starts_as_the_same_function_and_decodes_alike():
    plain = T5DecoderConfig(d_model=24, num_heads=3, d_kv=8, num_layers=2)
    decoders = []
    for config in (plain, dataclasses.replace(plain, scaled_attention=True)):
        torch.manual_seed(4)
        decoders.append(T5Decoder(config, 30, 20).eval())
    memory, ids = torch.randn(2, 4, 24), torch.randint(0, 30, (2, 20))
    torch.testing.assert_close(decoders[0](ids, memory), decoders[1](ids, memory))
    queries = [decoder.layers[0].self_attention.q.weight for decoder in decoders]
    torch.testing.assert_close(queries[1], queries[0] * 8**0.5)
    assert torch.equal(*(greedy_decode(d, memory, 20, pad_id=0, eos_id=1) for d in decoders))
