"""Whole networks against the published system: every stage, loss, gradients, greedy tokens."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from amt.config import AudioConfig, ModelConfig, PreEncoderConfig, T5DecoderConfig
from amt.model import build_model

TOLERANCE = 1e-4


@pytest.fixture
def check_stages(pin_spectrogram, stored_part):
    """Compare all stored stages; returns the logits with the published double scaling."""

    def check(model, audio, vectors):
        pin_spectrogram(model, audio, vectors)
        pre = model.pre_encoder(model.frontend(audio))
        states = model.encoder(pre)
        encoded = model.encode(audio)
        logits = model.decode_logits(encoded, vectors["labels"])[:, 0]
        for name, full in [("pre_encoder", pre), ("enc_hidden", states), ("proj", encoded.memory)]:
            got = stored_part(full, vectors, name)
            torch.testing.assert_close(got, vectors[name], atol=TOLERANCE, rtol=0, msg=name)
        got = stored_part(logits, vectors, "logits")
        torch.testing.assert_close(got, vectors["logits"], atol=1e-6, rtol=0)
        return logits

    return check


@pytest.fixture
def family(golden, golden_json, fill_published, published_encoder):
    """The small published network with 65534-sample segments."""
    meta = golden_json("ptf_t5_trainable")
    enc, dec = meta["encoder_cfg"], meta["decoder_cfg"]
    config = ModelConfig(
        "perceiver-tf",
        pre_encoder=PreEncoderConfig("conv", out_channels=8),
        pre_decoder_type="linear",
        encoder=published_encoder(enc),
        decoder=T5DecoderConfig(
            d_model=dec["d_model"],
            num_heads=dec["num_heads"],
            d_kv=meta["t5_d_kv"],
            num_layers=dec["num_layers"],
        ),
        logit_scale=1.0 / dec["d_model"],
    )

    def build(**change):
        audio = AudioConfig("spec", hop_length=300)
        model = build_model(replace(config, **change), audio, meta["vocab_size"], 1, max_length=64)
        fill_published(model)
        return model

    return build, meta, golden("ptf_t5_trainable"), config


def test_family_stages_loss_and_greedy(family, golden_audio, check_stages):
    build, meta, vectors, _ = family
    model = build().eval()
    audio = golden_audio(1, 65534, meta["audio_seed"])
    with torch.no_grad():
        logits = check_stages(model, audio, vectors)
        hidden = model.decoder.hidden(vectors["dec_input_ids"], model.encode(audio).memory)
    torch.testing.assert_close(hidden, vectors["dec_hidden"], atol=TOLERANCE, rtol=0)
    loss = F.cross_entropy(logits.flatten(0, 1), vectors["labels"].flatten(), ignore_index=0)
    assert abs(float(loss) - float(vectors["loss"])) < 1e-5
    greedy = model.generate(audio, 40)
    assert float(vectors["greedy_margin"].min()) > 1e-3
    assert torch.equal(greedy, vectors["greedy"])


def test_family_gradients(family, golden_audio, pin_spectrogram, our_name):
    build, meta, vectors, _ = family
    model = build().eval()
    audio = golden_audio(1, 65534, meta["audio_seed"])
    pin_spectrogram(model, audio, vectors)
    logits = model(audio, vectors["labels"])
    F.cross_entropy(logits.flatten(0, 2), vectors["labels"].flatten(), ignore_index=0).backward()
    from_published = {
        name: values for name, values in meta["grad_norm_sum_eval"].items() if "additive_pe" not in name
    }
    names = {our_name(name): value for name, value in from_published.items()}
    ours = dict(model.named_parameters())
    assert set(names) == set(ours)
    for name, (norm, total) in names.items():
        gradient = ours[name].grad
        assert abs(float(gradient.norm()) - norm) < 1e-4 * norm + 1e-6, name
        assert abs(float(gradient.double().sum()) - total) < 1e-3 * norm * gradient.numel() ** 0.5 + 1e-6, (
            name
        )


def test_family_training_mode(family, golden_audio, pin_spectrogram, our_name):
    """Batch statistics, loss and total gradient in training mode without dropout."""
    build, meta, vectors, config = family
    model = build(
        encoder=replace(config.encoder, dropout=0.0), decoder=replace(config.decoder, dropout=0.0)
    ).train()
    expected = meta["train_mode_dropout0"]
    audio = golden_audio(1, 65534, meta["audio_seed"])
    pin_spectrogram(model, audio, vectors)
    logits = model(audio, vectors["labels"])
    loss = F.cross_entropy(logits.flatten(0, 2), vectors["labels"].flatten(), ignore_index=0)
    loss.backward()
    assert abs(float(loss) - expected["loss"]) < 1e-5
    total = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
    assert abs(float(total) / expected["total_grad_norm"] - 1) < 1e-3
    state = model.state_dict()
    for published, values in expected["bn_after_one_forward"].items():
        name = our_name(published)
        if not name.endswith("num_batches_tracked"):
            torch.testing.assert_close(state[name], torch.tensor(values), atol=1e-5, rtol=1e-4, msg=name)


@pytest.mark.slow
def test_full_size_single(golden, fill_published, golden_audio, check_stages):
    """The published YPTF+Single at its real size: 30 M weights derived from their names."""
    vectors = golden("yptf_single")
    config = ModelConfig(
        "perceiver-tf",
        pre_encoder=PreEncoderConfig("conv"),
        pre_decoder_type="linear",
        logit_scale=1.0 / 512,
    )
    audio_config = AudioConfig("spec", segment_samples=32767, hop_length=300)
    model = build_model(config, audio_config, 596, 1, max_length=1024).eval()
    count = {
        name: sum(p.numel() for p in part.parameters())
        for name, part in [
            ("pre_encoder", model.pre_encoder),
            ("encoder", model.encoder),
            ("pre_decoder", model.pre_decoder),
            ("embed", model.decoder.embed),
            ("lm_head", model.decoder.lm_head),
            ("decoder", model.decoder.layers),
        ]
    }
    assert count == {
        "pre_encoder": 740224,
        "encoder": 1766400,
        "pre_decoder": 1572864,
        "embed": 305152,
        "lm_head": 305152,
        "decoder": 25178624 - 512,
    }
    fill_published(model)
    audio = golden_audio(1, 32767, 21)
    assert torch.equal(audio[:, :, :64], vectors["audio_head"])
    with torch.no_grad():
        logits = check_stages(model, audio, vectors)
    loss = F.cross_entropy(logits.flatten(0, 1), vectors["labels"].flatten(), ignore_index=0)
    assert abs(float(loss) - 6.390137195587158) < 1e-5
    assert torch.equal(model.generate(audio, 24), vectors["greedy"])
