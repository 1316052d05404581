"""Samples of the real network: their probabilities, their gradient in expectation, what is masked."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from amt.config import (
    Experiment,
    T5DecoderConfig,
)
from amt.config.leaves import replace_leaves
from amt.config.rl import RLConfig
from amt.model import Transcriber, build_from, build_model
from amt.model.decoder import DecoderWeights, DecodingOptions, policy_log_probs
from amt.model.decoder.choice import sample
from amt.model.transcriber import Encoded
from amt.notes import Note, notes_to_array
from amt.rl.reinforce import Reinforce, Segments, reinforce_loss
from amt.rl.rollout import clean_logits, divergence, policy, roll_out
from amt.tokenizer import NoteTokenizer
from small_networks import HALF_SECOND, small_model

PAD, EOS = 0, 1
FRAMES, WIDTH = 4, 32


def network(num_tokens: int, max_length: int, num_channels: int = 1, dropout: float = 0.3) -> Transcriber:
    """A small model whose decoder is sure of some tokens; only its decoder is used here."""
    torch.manual_seed(0)
    decoder = T5DecoderConfig(d_model=WIDTH, num_heads=2, d_kv=16, num_layers=2, dropout=dropout)
    config = small_model(decoder, logit_scale=1.7)
    return build_model(config, HALF_SECOND, num_tokens, num_channels, max_length=max_length).train()


def memory_of(rows: int) -> Tensor:
    return torch.randn(rows, FRAMES, WIDTH, generator=torch.Generator().manual_seed(1))


def draw(model: Transcriber, memory: Tensor, prefix: Tensor | None = None, **options: float) -> tuple[
    DecodingOptions, Tensor, Tensor, Tensor | None
]:  # fmt: skip
    chosen = DecodingOptions(model.decoder.max_length, PAD, EOS, temperature=1.0, with_log_probs=True)
    chosen = replace(chosen, **options)
    found = roll_out(DecoderWeights(model.decoder), memory, chosen, prefix)
    return chosen, found.ids, found.chosen, found.log_probs


def test_what_was_drawn_is_what_is_trained() -> None:
    """Log-probabilities of the fast decoder and of the pass with gradients, the network in training mode."""
    model, memory = network(40, 50), memory_of(64)
    options, ids, chosen, drawn = draw(model, memory, seed=3)
    assert drawn is not None
    logits = clean_logits(model, memory, ids)
    assert all(part.training for part in model.modules())
    found = policy(logits[chosen], ids[chosen], options)
    assert found.log_probs.requires_grad
    torch.testing.assert_close(found.log_probs.detach(), drawn[chosen], atol=1e-5, rtol=0)
    lengths = chosen.sum(1)
    assert lengths.min() < lengths.max(), "some end early"
    assert (drawn[~chosen] == 0).all()


def test_only_tokens_up_to_the_end_count() -> None:
    model, memory = network(4, 12), memory_of(200)
    _, ids, chosen, _ = draw(model, memory, seed=1)
    for row, mask in zip(ids.tolist(), chosen.tolist(), strict=True):
        length = row.index(EOS) + 1 if EOS in row else len(row)
        assert mask == [True] * length + [False] * (len(row) - length)
    assert (ids[chosen] == PAD).any(), "a PAD before the end is a token like any other"


def test_given_tokens_are_not_trained() -> None:
    model, memory = network(10, 12), memory_of(3)
    prefix = torch.tensor([[7, 8], [7, PAD], [PAD, PAD]])
    _, ids, chosen, _ = draw(model, memory, prefix, seed=1)
    assert ids[0, :2].tolist() == [7, 8]
    assert ids[1, 0].item() == 7
    assert chosen[:, :2].tolist() == [[False, False], [False, True], [True, True]]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.6, 1.0), (1.5, 0.8), (1.0, 0.3)])
def test_the_policy_is_the_distribution_that_is_drawn_from(temperature: float, top_p: float) -> None:
    torch.manual_seed(0)
    logits, count = torch.randn(5, 12, dtype=torch.float64) * 2, 20_000
    uniform = (torch.arange(count) + 0.5) / count
    for row in logits:
        tokens = sample(row.float().expand(count, -1), uniform, temperature, top_p)
        share = torch.bincount(tokens, minlength=12) / count
        found = policy_log_probs(row.expand(2, -1), torch.stack([row.argmax()] * 2), temperature, top_p)
        torch.testing.assert_close(found[0].exp(), share, atol=2 / count, rtol=0)


def test_a_drawn_token_at_the_edge_of_the_nucleus_has_a_probability() -> None:
    logits = torch.tensor([[2.0, 1.0, 0.0]])
    found = policy_log_probs(logits, torch.tensor([2]), 1.0, 0.5)
    assert torch.isfinite(found[0, [0, 2]]).all()
    assert found[0, 1] == float("-inf")
    one = policy(
        logits.requires_grad_(), torch.tensor([2]), DecodingOptions(max_length=4, temperature=1.0, top_p=0.5)
    )
    (one.log_probs.sum() + one.entropy.sum()).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_entropy_and_divergence_by_hand() -> None:
    logits, other = torch.tensor([[1.0, 2.0, 0.5]]), torch.tensor([[0.0, 0.3, 1.0]])
    p, q = (torch.softmax(item / 0.7, -1) for item in (logits, other))
    found = policy(logits, torch.tensor([1]), DecodingOptions(max_length=4, temperature=0.7))
    torch.testing.assert_close(found.entropy, -(p * p.log()).sum(-1))
    torch.testing.assert_close(divergence(logits, other, 0.7), (p * (p / q).log()).sum(-1))
    assert divergence(logits, logits, 0.7).item() == pytest.approx(0, abs=1e-7)


def test_the_gradient_is_that_of_the_expected_reward() -> None:
    """Three tokens, up to three of them, the real decoder: many samples against all sequences."""
    model, memory = network(3, 3, dropout=0.0), memory_of(1)
    weights = [model.decoder.lm_head.weight, model.decoder.embed.weight]
    worth = {
        row: 0.5 + 0.5 * torch.sin(torch.tensor(7.0 * number)).item()
        for number, row in enumerate(itertools.product(range(3), repeat=3))
    }
    every = torch.tensor([row for row in worth if EOS not in row[:-1] or row == _ended(row)])
    chosen = (every == EOS).cumsum(1) - (every == EOS).long() == 0
    tokens = clean_logits(model, memory.expand(len(every), -1, -1), every).log_softmax(-1)
    each = (tokens.gather(-1, every[..., None])[..., 0] * chosen).sum(1).exp()
    assert each.sum().item() == pytest.approx(1.0, abs=1e-5), "these are all sequences"
    expected = (each * torch.tensor([worth[tuple(row)] for row in every.tolist()])).sum()
    exact = torch.autograd.grad(expected, weights)

    count = 6000
    options, ids, mask, _ = draw(model, memory.expand(count, -1, -1), seed=5)
    rewards = torch.tensor([worth[tuple(row)] for row in ids.tolist()])
    advantages = rewards - (rewards.sum() - rewards) / (count - 1)
    found = policy(clean_logits(model, memory.expand(count, -1, -1), ids)[mask], ids[mask], options)
    loss = reinforce_loss(found.log_probs, advantages[:, None].expand(ids.shape)[mask], count)
    for one, other in zip(torch.autograd.grad(loss, weights), exact, strict=True):
        assert (one + other).norm() < 0.1 * other.norm()


def _ended(row: tuple[int, ...]) -> tuple[int, ...]:
    """A sequence with PAD behind its end."""
    end = row.index(EOS) + 1 if EOS in row else len(row)
    return (*row[:end], *(PAD for _ in row[end:]))


def test_recomputed_layers_drop_nothing_either() -> None:
    """The way back runs in training mode; a layer computed again there must not drop what it kept."""
    gradients = []
    for recompute in (False, True):
        model, memory = network(20, 16), memory_of(4).requires_grad_()
        model.recompute_activations(recompute)
        _, ids, chosen, _ = draw(model, memory.detach(), seed=2)
        clean_logits(model, memory, ids)[chosen].square().mean().backward()
        gradients.append(memory.grad)
    torch.testing.assert_close(gradients[1], gradients[0])


# --- the stage --------------------------------------------------------------------------------------


def stage(config: RLConfig, task: str = "mc13_fsingle_vocal", **changes: object) -> tuple[
    Reinforce, Encoded, Segments
]:  # fmt: skip
    """A stage over a small network and a batch of two segments with notes."""
    leaves = {
        "task": task,
        "event_length": 24,
        "audio.codec": "logspec",
        "audio.hop_length": 300,
        "audio.segment_samples": 8000,
        "model.encoder_type": "perceiver-tf",
        "model.pre_decoder_type": "linear",
        "model.pre_encoder.type": "strided",
        "model.pre_encoder.time_stride": 2,
        "model.encoder.num_latents": 2,
        "model.encoder.d_latent": 16,
        "model.encoder.d_model": 16,
        "model.encoder.qk_channels": 16,
        "model.encoder.v_channels": 16,
        "model.encoder.num_heads": 2,
        "model.encoder.num_blocks": 1,
        "model.encoder.num_local_layers": 1,
        "model.encoder.num_temporal_layers": 1,
        "model.encoder.attention_to_channel": False,
        "model.encoder.position_encoding": "sinusoidal",
        "model.decoder.d_model": 32,
        "model.decoder.num_layers": 1,
        "model.decoder.num_heads": 2,
        "model.decoder.d_kv": 16,
    }
    experiment = replace_leaves(Experiment(), leaves | changes)
    torch.manual_seed(0)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    model = build_from(experiment, tokenizer).train()
    notes = notes_to_array([Note(0.1, 0.3, 60, 100), Note(0.3, 0.45, 62, 33)])
    label = torch.from_numpy(tokenizer.encode_window(notes))
    labels = torch.stack(
        [label, torch.from_numpy(tokenizer.encode(notes, start_samples=[8000])[0, :, : label.shape[1]])]
    )
    audio = torch.randn(2, 1, 8000)
    known = torch.ones(2, tokenizer.num_channels, dtype=torch.bool)
    segments = Segments(audio, labels, known, torch.zeros(2, dtype=torch.bool))
    return Reinforce(config, model, tokenizer), model.encode(audio), segments


def differing(samples: Sequence[Sequence[int]], labels: object, octave_free: object) -> list[float]:
    """Rewards that an untrained network does not all fail to get."""
    return [(sum(sample) % 7) / 7 for sample in samples]


ON = RLConfig(enabled=True, num_samples=3, baseline="group", max_tokens=16)


@pytest.mark.parametrize("reward", ["token_acc", "onset_f", "note_f"])
@pytest.mark.parametrize("baseline", ["batch", "none", "greedy", "ema", "group"])
def test_every_reward_with_every_baseline(reward: str, baseline: str) -> None:
    made, encoded, segments = stage(replace(ON, reward=reward, baseline=baseline))
    term, values = made(encoded, segments, seed=1)
    assert torch.isfinite(term)
    assert term.requires_grad
    assert values["rl"] is term
    assert 0 <= values["rl_reward"].item() <= 1
    assert 1 <= values["rl_length"].item() <= 16
    assert set(values) == {"rl", "rl_reward", "rl_baseline", "rl_advantage_std", "rl_entropy", "rl_length"}


def test_the_same_seed_draws_the_same() -> None:
    made, encoded, segments = stage(ON)
    made._reward = differing
    first, second, third = (made(encoded, segments, seed=seed)[0].item() for seed in (1, 1, 2))
    assert first == second != third


def test_several_channels_and_what_is_not_annotated() -> None:
    channels = {"model.decoder_type": "multi-t5", "model.pre_decoder_type": "mc_shared_linear",
                "model.encoder.num_latents": 13}  # fmt: skip
    made, encoded, segments = stage(ON, task="mc13_256", **channels)
    made._reward = differing
    assert segments.labels.shape[1] == 13
    segments.known[:] = False
    segments.known[0, 2] = segments.known[1, 12] = True
    encoded.memory.retain_grad()
    term, values = made(encoded, segments, seed=1)
    term.backward()
    assert encoded.memory.grad is not None
    trained = encoded.memory.grad.abs().flatten(1).sum(1) > 0
    assert trained.nonzero()[:, 0].tolist() == [2, 13 + 12]
    assert values["rl_length"].item() >= 1


def test_without_a_known_label_there_is_nothing_to_learn() -> None:
    made, encoded, segments = stage(replace(ON, kl_weight=0.1))
    segments.known[:] = False
    term, values = made(encoded, segments, seed=1)
    assert (term.item(), values["rl_length"].item(), values["rl_kl"].item()) == (0, 0, 0)
    term.backward()


def test_task_tokens_are_given() -> None:
    """The prefix of the sub-task begins every sample; it is neither rewarded nor trained."""
    made, encoded, segments = stage(ON, task="singing_v1", **{"model.encoder.dropout": 0.0})
    seen: list[tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]] = []

    def reward(
        samples: Sequence[Sequence[int]], labels: Sequence[Sequence[int]], free: object
    ) -> list[float]:
        seen.append((samples, labels))
        return [1.0 for _ in samples]

    made._reward = reward
    tokenizer = made._tokenizer
    task_tokens = tokenizer.token_range("extra")
    prefixes = torch.tensor([tokenizer.prefix_ids("default"), tokenizer.prefix_ids("singing-only")])
    plain = segments.labels
    announced = torch.cat([prefixes[:, None], plain], dim=2)
    made(encoded, segments._replace(labels=announced), seed=1)
    [(samples, labels)] = seen
    assert len(samples) == len(labels) == 6
    expected = [row[row != tokenizer.pad_id].tolist() for row in plain[:, 0]]
    assert list(labels) == expected * 3
    rows = made._rows(encoded, segments._replace(labels=announced))
    assert rows.prefix is not None
    assert rows.prefix.tolist() == prefixes.tolist()
    drawn, _ = made._sample(rows, seed=1)
    assert drawn is not None
    assert drawn.ids[:, : prefixes.shape[1]].tolist() == prefixes.tolist() * 3
    assert not drawn.chosen[:, : prefixes.shape[1]].any()
    first = prefixes[0, 0].item()
    assert first in task_tokens


def test_the_options_change_the_term() -> None:
    """Each number of the section, at the same draws where it does not change them."""

    def value(**changes: float) -> float:
        made, encoded, segments = stage(replace(ON, **changes))
        made._reward = differing
        first = made(encoded, segments, seed=1)[0]
        with torch.no_grad():
            for parameter in made._model.parameters():
                parameter.add_(0.01 * torch.ones_like(parameter))
            encoded = made._model.encode(segments.audio)
        return first.item() + made(encoded, segments, seed=2)[0].item()

    plain = value()
    assert value() == plain
    for changes in (
        {"temperature": 0.5},
        {"top_p": 0.5},
        {"max_tokens": 4},
        {"entropy_weight": 0.5},
        {"kl_weight": 0.5},
        {"clip": 0.001},
        {"num_samples": 2},
    ):
        assert value(**changes) != plain, changes


def test_the_start_policy_is_kept() -> None:
    made, encoded, segments = stage(replace(ON, kl_weight=1.0), **{"model.encoder.dropout": 0.0})
    assert made.start_weights() == {}
    # Not 0: the training pass normalises by the batch and drops out, the start policy does not.
    assert made(encoded, segments, seed=1)[1]["rl_kl"].item() == pytest.approx(0, abs=1e-4)
    kept = {name: value.clone() for name, value in made.start_weights().items()}
    with torch.no_grad():
        made._model.decoder.lm_head.weight.mul_(1.5)
    moved = made(encoded, segments, seed=1)[1]["rl_kl"].item()
    assert moved > 1e-3
    torch.testing.assert_close(dict(made.start_weights()), kept)
    again = Reinforce(made.config, made._model, made._tokenizer)
    again.load(made.state(), kept)
    torch.testing.assert_close(dict(again.start_weights()), kept)
    assert again(encoded, segments, seed=1)[1]["rl_kl"].item() == pytest.approx(moved, rel=1e-5)


def test_refusals_name_the_way_out() -> None:
    for changes, message in (
        ({"baseline": "group", "enabled": True, "num_samples": 1}, "--rl-samples 4"),
        ({"baseline": "mean"}, "RL baseline"),
        ({"reward": "f1"}, "RL reward"),
        ({"temperature": 0.0}, "--rl-temperature"),
        ({"top_p": 0.0}, "--rl-top-p"),
        ({"num_samples": 0}, "--rl-samples"),
        ({"clip": -1.0}, "--rl-clip"),
        ({"max_tokens": 1}, "--rl-max-tokens"),
        ({"ema_decay": 1.0}, "--rl-ema"),
    ):
        with pytest.raises(ValueError, match=message):
            RLConfig(**changes)
