"""Activation checkpointing: the same numbers for less memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from amt.config import ConformerConfig, ModelConfig, PreEncoderConfig, T5DecoderConfig, T5EncoderConfig
from amt.model import build_model


def step(model, audio, labels):
    """Gradients and buffers after one step, and the elements kept for the way back."""
    kept = 0

    def count(tensor):
        nonlocal kept
        kept += tensor.numel()
        return tensor

    torch.manual_seed(3)
    with torch.autograd.graph.saved_tensors_hooks(count, lambda tensor: tensor):
        encoded = model.encode(audio)
        loss = model.decode_logits(encoded, labels).square().mean()
        if encoded.balance is not None:
            loss = loss + 0.1 * encoded.balance
    loss.backward()
    gradients = {name: value.grad for name, value in model.named_parameters()}
    return gradients, dict(model.named_buffers()), kept


@pytest.mark.parametrize("kind", ["perceiver", "experts", "t5", "conformer"])
def test_same_gradients_and_statistics_from_less(small_model, small_audio, kind):
    frames = {"pre_encoder": PreEncoderConfig(type="none"), "pre_decoder_type": "none"}
    decoder = T5DecoderConfig(d_model=64, num_heads=3, d_kv=8, num_layers=2)
    config = {
        "perceiver": small_model,
        "experts": replace(
            small_model, encoder=replace(small_model.encoder, ff_type="moe", position_encoding="kdt")
        ),
        "t5": ModelConfig("t5", t5_encoder=T5EncoderConfig(3, 8, 2, 32), decoder=decoder, **frames),
        "conformer": ModelConfig("conformer", conformer=ConformerConfig(4, 2, 32), decoder=decoder, **frames),
    }[kind]
    audio, labels = torch.randn(2, 1, 4000), torch.randint(3, 20, (2, 1, 6))
    runs = []
    for on in (False, True):
        torch.manual_seed(0)
        model = build_model(config, small_audio, 20, 1, max_length=16).train()
        model.recompute_activations(on)
        runs.append(step(model, audio, labels))
    (plain, plain_buffers, plain_kept), (saved, saved_buffers, saved_kept) = runs
    torch.testing.assert_close(saved, plain, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(saved_buffers, plain_buffers)
    assert saved_kept < 0.5 * plain_kept


def test_nothing_changes_without_gradients(small_model, small_audio):
    model = build_model(small_model, small_audio, 20, 1, max_length=16).eval()
    audio = torch.randn(1, 1, 4000)
    with torch.no_grad():
        expected = model.encode(audio).memory
        model.recompute_activations(True)
        assert torch.equal(model.encode(audio).memory, expected)
