"""The whole network and its public face."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from amt.config import AudioConfig, Experiment, ModelConfig, PreEncoderConfig
from amt.model import Encoded, Transcriber, build_from, build_model
from amt.model.decoder import DecoderWeights
from amt.model.layers.positions import FRAME_BASE, sinusoids
from amt.tokenizer import NoteTokenizer


@pytest.fixture
def quick(quick_model, quick_audio):
    return build_model(quick_model, quick_audio, 540, 1, max_length=128)


@pytest.fixture
def small(small_model, small_audio):
    return build_model(small_model, small_audio, 50, 1, max_length=32)


def test_shapes(quick):
    audio, labels = torch.randn(3, 1, 24000), torch.randint(0, 540, (3, 1, 64))
    encoded = quick.encode(audio)
    assert isinstance(quick, Transcriber)
    assert isinstance(encoded, Encoded)
    assert encoded.memory.shape == encoded.frames.shape == (3, 41, 128)
    assert quick.frame_logits(encoded).shape == (3, 41, 90)
    assert quick(audio, labels).shape == (3, 1, 64, 540)
    assert sum(p.numel() for p in quick.parameters()) < 800_000


def test_network_of_a_run(small_model, small_audio):
    experiment = Experiment(task="singing_v1", event_length=20, model=small_model, audio=small_audio)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    model = build_from(experiment, tokenizer)
    assert (model.num_channels, model.pad_id, model.eos_id) == (1, tokenizer.pad_id, tokenizer.eos_id)
    assert model.decoder.embed.num_embeddings == tokenizer.vocab_size
    assert model.decoder.max_length == 20 + tokenizer.prefix_length > 20, "task tokens come on top"


def test_drawn_tokens_and_their_log_probabilities_of_several_channels(small_model, small_audio):
    config = replace(small_model, decoder_type="multi-t5", pre_decoder_type="mc_shared_linear")
    model = build_model(config, small_audio, 50, 3, max_length=32).eval()
    with torch.no_grad():
        encoded = model.encode(torch.randn(2, 1, 4000))
        options = model.decoding_options(12, temperature=1.0, seed=4, with_log_probs=True)
        ids, log_probs = model.decode(encoded, options, weights=DecoderWeights(model.decoder))
        again = model.decode(encoded, options)
        expected = model.decode_logits(encoded, ids).log_softmax(-1).gather(-1, ids[..., None])[..., 0]
    assert ids.shape == log_probs.shape == (2, 3, 12)
    assert torch.equal(again.ids, ids)
    assert len(ids.unique()) > 20, "greedy decoding repeats itself"
    behind_end = (ids == model.eos_id).cumsum(-1).roll(1, -1).bool()
    behind_end[..., 0] = False
    torch.testing.assert_close(log_probs, expected.masked_fill(behind_end, 0.0), atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="max_length must be 1 to 32"):
        model.decoding_options(33)


def test_published_kind_has_no_aids(small):
    audio = torch.randn(2, 1, 4000)
    encoded = small.encode(audio)
    assert encoded.memory is encoded.frames
    assert small.frame_logits(encoded) is None
    assert small(audio, torch.ones(2, 1, 5, dtype=torch.int64)).shape == (2, 1, 5, 50)


def test_memory_positions_and_norm(quick):
    encoded = quick.encode(torch.randn(2, 1, 24000))
    expected = sinusoids(torch.arange(41), 128, FRAME_BASE)
    torch.testing.assert_close(encoded.memory - encoded.frames, expected.expand(2, -1, -1), atol=1e-5, rtol=0)
    torch.testing.assert_close(encoded.frames.square().mean(-1), torch.ones(2, 41), atol=1e-3, rtol=0)
    shorter = quick.encode(torch.randn(2, 1, 6000))
    assert shorter.memory.shape[1] == 11
    with pytest.raises(ValueError, match="cut the audio into segments"):
        quick.encode(torch.randn(1, 1, 48000))


def test_teacher_forcing_reads_labels_shifted_right(small):
    small.eval()
    encoded = small.encode(torch.randn(2, 1, 4000))
    labels = torch.randint(2, 50, (2, 1, 6))
    inputs = torch.cat([torch.zeros(2, 1, dtype=torch.int64), labels[:, 0, :-1]], 1)
    torch.testing.assert_close(
        small.decode_logits(encoded, labels)[:, 0], small.decoder(inputs, encoded.memory)
    )


@pytest.mark.parametrize("which", ["quick", "small"])
def test_generated_tokens_are_the_argmax_of_forward(which, request):
    model = request.getfixturevalue(which)
    samples = 24000 if which == "quick" else 4000
    audio = torch.randn(5, 1, samples) * 0.1
    model.train()
    model.pre_encoder.eval()
    modes = [module.training for module in model.modules()]
    ids = model.generate(audio, 20)
    assert [module.training for module in model.modules()] == modes
    model.eval()
    best = model(audio, ids).argmax(-1)
    for row, expected in zip(ids[:, 0], best[:, 0], strict=True):
        end = int((row == 1).int().argmax()) + 1 if (row == 1).any() else len(row)
        assert torch.equal(row[:end], expected[:end])
        assert not row[end:].any()
    # Generated ids are ordinary tensors: a loss on them has gradients.
    F.cross_entropy(model(audio, ids).flatten(0, 2), ids.flatten()).backward()


def test_generate_defaults_to_the_full_length(small):
    small.decoder.lm_head.weight.data[:2] = 0
    small.decoder.lm_head.weight.data[2:] += 1.0
    assert small.generate(torch.randn(1, 1, 4000)).shape[2] <= 32
    with pytest.raises(ValueError, match="32"):
        small.generate(torch.randn(1, 1, 4000), 33)
    assert small.training, "the mode comes back after an error too"


def test_shift_embeddings_match_the_memory(quick):
    quick.init_shift_embeddings(range(3, 155), 0.01)
    weight = quick.decoder.embed.weight
    # 15 steps of 10 ms are 4 memory frames of 37.5 ms.
    torch.testing.assert_close(weight[3 + 15], 0.7 * quick.memory_positions[4], atol=1e-6, rtol=0)
    torch.testing.assert_close(weight[3], 0.7 * quick.memory_positions[0])
    # Between frames the nearest memory position is the most alike.
    times = torch.arange(152) * 0.01 / 0.0375
    nearest = (weight[3:155] @ quick.memory_positions[:41].T).argmax(-1)
    assert ((nearest - times).abs()[times <= 40] <= 0.51).all()
    assert abs(float(weight[200:].std()) - 1.0) < 0.02, "other rows keep their start"
    assert weight.requires_grad


def test_every_weight_learns(quick, small):
    for model, samples in ((quick, 24000), (small, 4000)):
        audio = torch.randn(2, 1, samples) * 0.1
        encoded = model.encode(audio)
        loss = model.decode_logits(encoded, torch.randint(2, 50, (2, 1, 8))).square().mean()
        frames = model.frame_logits(encoded)
        (loss if frames is None else loss + frames.square().mean()).backward()
        assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


def test_mixed_precision(quick):
    audio, labels = torch.randn(2, 1, 24000) * 0.1, torch.randint(2, 540, (2, 1, 16))
    quick.eval()
    exact = quick(audio, labels)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = quick(audio, labels)
        assert quick.generate(audio, 5).shape[:2] == (2, 1)
    assert float((mixed.float() - exact).norm() / exact.norm()) < 0.03
    quick.train()
    with torch.autocast("cpu", torch.bfloat16):
        quick(audio, labels).float().square().mean().backward()
    assert all(p.grad.isfinite().all() for p in quick.parameters() if p.grad is not None)


def test_memorises_a_batch(quick):
    torch.manual_seed(1)
    audio, labels = torch.randn(2, 1, 24000) * 0.1, torch.randint(2, 540, (2, 1, 12))
    labels[:, :, -1] = 1
    optimizer = torch.optim.AdamW(quick.parameters(), lr=2e-3)
    for _ in range(60):
        loss = F.cross_entropy(quick(audio, labels).flatten(0, 2), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss) < 0.1
    # In evaluation mode batch norm uses running averages, so only most tokens need to agree.
    got = quick.generate(audio, 12)
    assert got.shape == (2, 1, 12)
    assert (got == labels).float().mean() > 0.5


def test_silence_stays_finite(quick, small):
    assert quick.encode(torch.zeros(2, 1, 24000)).memory.isfinite().all()
    assert small.encode(torch.zeros(2, 1, 4000)).memory.isfinite().all()


def test_saved_weights_are_parameters_and_batch_statistics_only(quick):
    names = set(quick.state_dict()) - {name for name, _ in quick.named_parameters()}
    assert all(name.endswith(("running_mean", "running_var", "num_batches_tracked")) for name in names)


def test_refusals(small_model, small_audio):
    with pytest.raises(ValueError, match="13 channels"):
        build_model(small_model, small_audio, 50, 13)
    with pytest.raises(ValueError, match="at least 8 bins"):
        build_model(small_model, replace(small_audio, n_mels=4), 50, 1)


def test_published_size_of_a_perceiver_tf():
    audio = AudioConfig("spec", hop_length=300)
    config = ModelConfig("perceiver-tf", pre_encoder=PreEncoderConfig("conv"), pre_decoder_type="linear")
    model = build_model(config, audio, 801, 1, max_length=1024)
    assert model.encoder.positions.shape == (229, 24, 128)
    assert model.pre_decoder.weight.shape == (512, 24 * 128)


def test_a_frame_head_of_many_rare_outputs_starts_near_silence():
    model = ModelConfig(frame_groups=("pitched", "voice", "drums"))
    head = build_model(model, AudioConfig(), 40, 1, max_length=16).frame_head
    assert (head.bias[:176] == -4).all()
    assert (head.bias[-128:] == -4).all()
    assert head.bias[176:-128].abs().max() < 0.1
