"""Starting from a T5 v1.1 in a local folder, judged by transformers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from transformers import T5Config, T5ForConditionalGeneration

from amt.config import (
    AudioConfig,
    ModelConfig,
    PerceiverTFConfig,
    PreEncoderConfig,
    T5DecoderConfig,
    T5EncoderConfig,
)
from amt.model import build_model
from amt.model.pretrained_t5 import load_pretrained_t5

AUDIO = AudioConfig(codec="melspec", segment_samples=4000, hop_length=300, n_mels=24)
DECODER = T5DecoderConfig(
    d_model=24, num_heads=3, d_kv=8, num_layers=2, d_ff=40, dropout=0.0, position_encoding="trainable"
)
ENCODER = T5EncoderConfig(
    num_heads=3, d_kv=8, num_layers=3, d_ff=40, position_encoding="trainable", dropout=0.0
)
MODEL = ModelConfig(
    encoder_type="t5",
    pre_encoder=PreEncoderConfig(type="none"),
    t5_encoder=ENCODER,
    pre_decoder_type="none",
    decoder=DECODER,
)


def make(model=MODEL):
    return build_model(model, AUDIO, 50, 1, max_length=30).eval()


@pytest.fixture
def t5():
    config = T5Config(
        vocab_size=60,
        d_model=24,
        d_kv=8,
        d_ff=40,
        num_layers=3,
        num_decoder_layers=2,
        num_heads=3,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
    )
    network = T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.normal_(std=0.2)
            if "layer_norm" in name:
                parameter.add_(1.0)
    return network


@pytest.fixture(params=["model.safetensors", "pytorch_model.bin"])
def folder(request, t5, tmp_path):
    if request.param == "model.safetensors":
        t5.save_pretrained(tmp_path)
    else:
        t5.config.save_pretrained(tmp_path)
        torch.save(t5.state_dict(), tmp_path / request.param)
    assert (tmp_path / request.param).is_file()
    return tmp_path


def decoded(t5, ids, memory, embedding):
    return t5.decoder(inputs_embeds=embedding(ids), encoder_hidden_states=memory).last_hidden_state


def test_both_stacks_are_those_of_transformers(t5, folder):
    model = make()
    embedding = model.decoder.embed.weight.clone()
    report = load_pretrained_t5(model, folder)
    assert [line.split(" loaded")[0] for line in report] == [
        "pretrained T5: 30 tensors of the decoder",
        "pretrained T5: 29 tensors of the encoder",
    ]
    frames = torch.randn(2, 14, 24)
    memory = t5.encoder(inputs_embeds=frames).last_hidden_state
    torch.testing.assert_close(model.encoder(frames), memory, atol=1e-4, rtol=1e-4)
    ids = torch.randint(2, 50, (2, 9))
    expected = decoded(t5, ids, memory, model.decoder.embed)
    torch.testing.assert_close(model.decoder.hidden(ids, memory), expected, atol=1e-4, rtol=1e-4)
    assert torch.equal(model.decoder.embed.weight, embedding), "T5's tokens are words"


def test_scaled_attention_gives_the_same_function(t5, folder):
    model = make(replace(MODEL, decoder=replace(DECODER, scaled_attention=True)))
    load_pretrained_t5(model, folder)
    memory = torch.randn(2, 14, 24)
    ids = torch.randint(2, 50, (2, 9))
    expected = decoded(t5, ids, memory, model.decoder.embed)
    torch.testing.assert_close(model.decoder.hidden(ids, memory), expected, atol=1e-4, rtol=1e-4)


def test_decoder_alone_beside_another_encoder(t5, tmp_path):
    t5.save_pretrained(tmp_path)
    model = make(
        ModelConfig(
            "perceiver-tf",
            pre_encoder=PreEncoderConfig("conv", out_channels=4),
            pre_decoder_type="linear",
            encoder=PerceiverTFConfig(
                num_latents=2, d_latent=8, d_model=8, qk_channels=8, v_channels=8, num_heads=2
            ),
            decoder=replace(DECODER, position_encoding="sinusoidal"),
        )
    )
    (line,) = load_pretrained_t5(model, tmp_path)
    assert line.startswith("pretrained T5: 29 tensors of the decoder")
    assert "-dpe trainable" in line
    theirs = t5.decoder.block[1].layer[2].DenseReluDense.wo.weight
    assert torch.equal(model.decoder.layers[1].feed_forward.wo.weight, theirs)


def test_weights_in_parts(t5, tmp_path):
    t5.save_pretrained(tmp_path, max_shard_size="20KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    model = make()
    load_pretrained_t5(model, tmp_path)
    theirs = t5.decoder.block[1].layer[1].EncDecAttention.k.weight
    assert torch.equal(model.decoder.layers[1].cross_attention.k.weight, theirs)
    for text in ("no JSON", "[]", "{}", '{"weight_map": 1}'):
        (tmp_path / "model.safetensors.index.json").write_text(text)
        with pytest.raises(ValueError, match="does not list the parts"):
            load_pretrained_t5(model, tmp_path)


def test_refusals(t5, tmp_path):
    with pytest.raises(ValueError, match=r"has no config\.json"):
        load_pretrained_t5(make(), tmp_path)
    t5.config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"neither model\.safetensors nor pytorch_model\.bin"):
        load_pretrained_t5(make(), tmp_path)
    other = replace(MODEL, decoder=replace(DECODER, num_layers=1, d_ff=0))
    with pytest.raises(ValueError, match=r"add --d-ff 40 --decoder-layers 2$"):
        load_pretrained_t5(make(other), tmp_path)
    other = replace(MODEL, decoder=replace(DECODER, ff_type="moe", d_ff=0))
    with pytest.raises(ValueError, match="use -dff t5_gmlp"):
        load_pretrained_t5(make(other), tmp_path)
    other = replace(MODEL, t5_encoder=replace(ENCODER, num_layers=1))
    with pytest.raises(ValueError, match=r"add --encoder-layers 3$"):
        load_pretrained_t5(make(other), tmp_path)
    torch.save({"decoder.final_layer_norm.weight": torch.ones(24)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"decoder\.relative_bias\.weight is missing"):
        load_pretrained_t5(make(), tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"no weights")
    with pytest.raises(ValueError, match=r"pytorch_model\.bin cannot be read"):
        load_pretrained_t5(make(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    for change, words in [
        ({"feed_forward_proj": "relu"}, "only T5 v1.1"),
        ({"relative_attention_num_buckets": 16}, "16 distance buckets"),
        ({"model_type": "bart"}, "does not describe a T5"),
    ]:
        (tmp_path / "config.json").write_text(json.dumps(config | change))
        with pytest.raises(ValueError, match=words):
            load_pretrained_t5(make(), tmp_path)


def test_a_pickle_that_runs_code_is_not_run(t5, tmp_path):
    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    t5.config.save_pretrained(tmp_path)
    torch.save({"decoder.final_layer_norm.weight": Evil()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot be read"):
        load_pretrained_t5(make(), tmp_path)
    assert not (tmp_path / "ran").exists()
