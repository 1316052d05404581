"""The published configurations at their real sizes."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from amt.config import Experiment
from amt.config.leaves import replace_leaves
from amt.config.published_models import PUBLISHED_MODELS
from amt.model import build_from
from amt.model.importing.names import NameTable
from amt.tokenizer import NoteTokenizer

# Trained numbers of the published models: pre-encoder, encoder, projection.
SIZES = {
    "ymt3plus": (0, 19_412_480 - 1034 * 512, 0),
    "yptf_single": (740_224, 1_766_400, 1_572_864),
    "yptf_multi": (740_224, 1_797_376, 131_072),
    "yptf_moe_multi": (740_224, 19_888_384, 131_072),
    "conformer_t5": (0, 23_278_592, 0),
    "ptf_t5": (740_224, 2_160_128, 1_703_936),
}
DECODER = 25_178_624


def build(name):
    experiment = replace_leaves(Experiment(), PUBLISHED_MODELS[name])
    return experiment, build_from(experiment, NoteTokenizer.from_experiment(experiment))


@pytest.mark.parametrize("name", SIZES)
def test_trained_numbers(name, monkeypatch):
    monkeypatch.setattr("amt.model.transcriber.build_frontend", lambda _: torch.nn.Identity())
    with torch.device("meta"):
        experiment, model = build(name)
    counts = tuple(
        sum(p.numel() for p in part.parameters())
        for part in (model.pre_encoder, model.encoder, model.pre_decoder)
    )
    assert counts == SIZES[name]
    own = [
        p.numel() for key, p in model.decoder.named_parameters() if not key.startswith(("embed.", "lm_head."))
    ]
    assert sum(own) == DECODER
    tokens = 596 - 206 + experiment.audio.max_shift_steps
    assert model.decoder.embed.weight.shape == model.decoder.lm_head.weight.shape == (tokens, 512)


def logits_in_double(model, audio, labels):
    double = copy.deepcopy(model).double()
    with torch.no_grad():
        return double(audio, labels)


@pytest.mark.slow
def test_mixture_of_experts_at_full_size(golden, golden_audio, fill_published, pin_spectrogram, stored_part):
    """YPTF.MoE+Multi, 47 M weights: every stage, the loss, and tokens up to where rounding decides."""
    vectors = golden("yptf_moe_multi")
    experiment, model = build("yptf_moe_multi")
    fill_published(model, name_of=NameTable.of(experiment.model).published_name)
    model.eval()
    audio = golden_audio(1, 32767, 21)
    assert torch.equal(audio[:, :, :64], vectors["audio_head"])

    pin_spectrogram(model, audio, vectors)
    with torch.no_grad():
        pre = model.pre_encoder(model.frontend(audio))
        close = {"atol": 1e-4, "rtol": 0}
        torch.testing.assert_close(stored_part(pre, vectors, "pre_encoder"), vectors["pre_encoder"], **close)
        torch.testing.assert_close(
            stored_part(model.encoder(pre), vectors, "enc_hidden"), vectors["enc_hidden"], **close
        )
        encoded = model.encode(audio)
        memory = encoded.memory.view(1, 13, -1, 512)
        torch.testing.assert_close(stored_part(memory, vectors, "proj"), vectors["proj"], **close)
        logits = model.decode_logits(encoded, vectors["labels"])
    # Two float32 runs differ by the rounding of both; a float64 run only by that of the stored one.
    torch.testing.assert_close(stored_part(logits, vectors, "logits"), vectors["logits"], atol=3e-6, rtol=0)
    exact = logits_in_double(model, audio, vectors["labels"]).float()
    torch.testing.assert_close(stored_part(exact, vectors, "logits"), vectors["logits"], atol=1e-6, rtol=0)
    loss = F.cross_entropy(logits.flatten(0, 2), vectors["labels"].flatten(), ignore_index=0)
    assert abs(float(loss) - 6.390598297119141) < 1e-5
    ids, expected = model.generate(audio, 24), vectors["greedy"]
    ids = F.pad(ids, (0, expected.shape[2] - ids.shape[2]))
    unsure = (vectors["greedy_margin"].view_as(expected) < 1e-3) & (expected != model.pad_id)
    sure = ~unsure.cumsum(-1).bool()
    assert float(sure.float().mean()) > 0.3
    assert torch.equal(ids[sure], expected[sure])
