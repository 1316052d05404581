"""The REINFORCE stage: sampled sequences, their rewards, and the term whose gradient raises the mean reward.

Williams 1992, "Simple Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning".

Axes: B batch, C channels, N tokens, R rows (channels of segments), K samples of a row, M chosen tokens.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..config.rl import RLConfig
from ..model import Transcriber
from ..model.decoder import DecoderWeights
from ..model.transcriber import Encoded
from ..tokenizer import NoteTokenizer
from .baselines import Baseline
from .reward import Reward
from .rollout import Rollout, clean_logits, divergence, policy, roll_out
from .start_policy import StartPolicy


class Segments(NamedTuple):
    """What the stage reads of a batch."""

    audio: Tensor
    """(B, 1, S), for the policy the stage began with."""
    labels: Tensor
    """(B, C, N) as the decoder reads them, task tokens included."""
    known: Tensor
    """(B, C) bool: the label is the whole truth; other channels are not sampled."""
    octave_unknown: Tensor
    """(B,) bool: notes are rewarded for their pitch class."""


class _Rows(NamedTuple):
    """The rows that are sampled."""

    numbers: Tensor
    """(R,) of all channels of all segments."""
    memory: Tensor
    """(R, T, D)."""
    prefix: Tensor | None
    """(R, P) task tokens."""
    labels: list[list[int]]
    """Without task tokens and padding."""
    octave_free: list[bool]


def reinforce_loss(log_probs: Tensor, advantages: Tensor, num_samples: int) -> Tensor:
    """Minus the mean over samples of the advantage times the log-probability of the whole sequence.

    Its gradient is that of minus the expected reward in expectation, when each advantage is a reward minus a
    baseline that does not depend on the sample. Nothing here is divided by the length of what was drawn: that
    would favour short or long sequences.

    Args:
        log_probs: (M,) of the chosen tokens of all samples.
        advantages: (M,) of the sample each token is of.
        num_samples: samples.
    """
    return -(advantages.detach() * log_probs).sum() / num_samples


class Reinforce:
    """The stage of one run.

    Samples and their gradient share the encoder's states of the training pass, dropout of the encoder
    included, so the encoder is trained too; the decoder's dropout is off in both. Thus the probability that
    is trained is the one that was drawn with.

    Args:
        config: section RL.
        model: the network.
        tokenizer: of the run.
        world_size: ranks.
    """

    def __init__(
        self, config: RLConfig, model: Transcriber, tokenizer: NoteTokenizer, world_size: int = 1
    ) -> None:
        self.config = config
        self.baseline = Baseline(config.baseline, config.ema_decay, world_size)
        self._reward = Reward(config.reward, tokenizer)
        self._model = model
        self._tokenizer = tokenizer
        longest = tokenizer.sequence_length
        length = min(longest, config.max_tokens + tokenizer.prefix_length) if config.max_tokens else longest
        self._greedy = model.decoding_options(length)
        self._options = replace(self._greedy, temperature=config.temperature, top_p=config.top_p)
        self._start = StartPolicy(model)
        self._seconds = 0.0
        self._read_at: float | None = None

    def active(self, step: int) -> bool:
        """Whether the stage takes part when so many steps have been taken."""
        return self.config.enabled and self.config.weight > 0 and step >= self.config.start

    def __call__(self, encoded: Encoded, segments: Segments, seed: int) -> tuple[Tensor, dict[str, Tensor]]:
        """The stage's term, not weighted, and what is logged of it. All ranks meet here.

        Args:
            encoded: of the training pass.
            segments: the batch.
            seed: of the draws of this rank and batch.

        Returns:
            Scalar, and ``rl`` (the same), ``rl_reward`` (mean of all ranks), ``rl_baseline``,
            ``rl_advantage_std``, ``rl_entropy`` (of a token of those samples that have a gradient),
            ``rl_length`` (tokens of a sample), with a KL weight ``rl_kl``.
        """
        began = time.perf_counter()
        rows = self._rows(encoded, segments)
        drawn, greedy = self._sample(rows, seed)
        rewards = self._rewards(rows, drawn).view(self.config.num_samples, -1)
        baseline, mean = self.baseline(rewards, self._rewards(rows, greedy))
        advantages = rewards - baseline
        if self.config.clip:
            advantages = advantages.clamp(-self.config.clip, self.config.clip)
        self._seconds += time.perf_counter() - began
        some = advantages.numel() > 0
        values = {
            "rl_reward": torch.tensor(mean),
            "rl_baseline": baseline.mean() if some else torch.zeros(()),
            "rl_advantage_std": advantages.std(correction=0) if some else torch.zeros(()),
        }
        term, more = self._term(rows, drawn, advantages, segments.audio)
        return term, {"rl": term} | {name: value.to(term.device) for name, value in (values | more).items()}

    def settle(self, dropped: bool) -> None:
        """The step is over; a dropped one leaves no trace in the baseline."""
        self.baseline.settle(dropped)

    def read_time_share(self, elapsed: float) -> dict[str, float]:
        """``rl_time_share``: the share of the training time since the last call that went into drawing and
        rewarding (this rank); ``elapsed`` is the training time so far. Empty at the first call."""
        before, self._read_at = self._read_at, elapsed
        seconds, self._seconds = self._seconds, 0.0
        if before is None or elapsed <= before:
            return {}
        return {"rl_time_share": min(1.0, seconds / (elapsed - before))}

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of the stage, beside :meth:`start_weights`."""
        return {"ema": self.baseline.state()}

    def start_weights(self) -> dict[str, Tensor]:
        """Weights of the policy the KL term holds on to; empty without that term."""
        return self._start.state() if self.config.kl_weight else {}

    def load(self, state: Mapping[str, Any] | None, start_weights: Mapping[str, Tensor] | None) -> None:
        """Go on from a checkpoint; None of one that had no such stage."""
        self.baseline.load((state or {}).get("ema", ()))
        self._start.load(start_weights or {})

    # --- drawing ------------------------------------------------------------------------------------

    def _rows(self, encoded: Encoded, segments: Segments) -> _Rows:
        numbers = segments.known.flatten().nonzero()[:, 0]
        labels = segments.labels.flatten(0, 1)[numbers]
        task_tokens = self._tokenizer.token_range("extra")
        prefix = None
        if self._tokenizer.prefix_length:
            prefix = labels[:, : self._tokenizer.prefix_length]
            given = (prefix >= task_tokens.start) & (prefix < task_tokens.stop)
            prefix = prefix.masked_fill(~given, self._tokenizer.pad_id)
        plain = []
        for row in labels.tolist():
            end = row.index(self._tokenizer.eos_id) + 1 if self._tokenizer.eos_id in row else len(row)
            plain.append([token for token in row[:end] if token not in task_tokens])
        free = segments.octave_unknown.repeat_interleave(segments.labels.shape[1])[numbers]
        return _Rows(numbers, encoded.memory[numbers], prefix, plain, free.tolist())

    def _sample(self, rows: _Rows, seed: int) -> tuple[Rollout | None, Rollout | None]:
        """K samples of each row, all rows once before any comes again, and the likeliest tokens where the
        baseline wants them; None without rows."""
        if not len(rows.memory):
            return None, None
        weights = DecoderWeights(self._model.decoder)
        memory, times = rows.memory.detach(), self.config.num_samples
        greedy = None
        if self.config.baseline == "greedy":
            greedy = roll_out(weights, memory, self._greedy, rows.prefix)
        prefix = None if rows.prefix is None else rows.prefix.repeat(times, 1)
        options = replace(self._options, seed=seed)
        return roll_out(weights, memory.repeat(times, 1, 1), options, prefix), greedy

    def _rewards(self, rows: _Rows, drawn: Rollout | None) -> Tensor:
        """Rewards of the rows, float64, as often as they were drawn."""
        rewards: list[float] = []
        if drawn is not None:
            samples = drawn.rows()
            times = len(samples) // len(rows.labels)
            rewards = self._reward(samples, rows.labels * times, rows.octave_free * times)
        return torch.tensor(rewards, dtype=torch.float64, device=rows.memory.device)

    # --- learning -----------------------------------------------------------------------------------

    def _term(
        self, rows: _Rows, drawn: Rollout | None, advantages: Tensor, audio: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        config = self.config
        if drawn is None:
            nothing = rows.memory.sum() * 0.0
            return nothing, dict.fromkeys(self._measured(), nothing)
        used, count = self._used(advantages), advantages.numel()
        ids, chosen = drawn.ids[used], drawn.chosen[used]
        memory = rows.memory.repeat(config.num_samples, 1, 1)[used]
        logits = clean_logits(self._model, memory, ids)[chosen]
        found = policy(logits, ids[chosen], self._options)
        weights = advantages.float().view(-1, 1)[used].expand(ids.shape)[chosen]
        term = reinforce_loss(found.log_probs, weights, count)
        entropy = found.entropy.mean()
        values = [entropy, drawn.chosen.sum() / count]
        if config.entropy_weight:
            term = term - config.entropy_weight * entropy
        if config.kl_weight:
            first = self._start.logits(audio, rows.numbers, config.num_samples, ids)[chosen]
            values.append(divergence(logits, first, config.temperature).mean())
            term = term + config.kl_weight * values[-1]
        return term, dict(zip(self._measured(), values, strict=True))

    def _used(self, advantages: Tensor) -> Tensor:
        """Numbers of the samples that have a gradient: those with an advantage, but at least one, and all
        where entropy or divergence count too."""
        if self.config.entropy_weight or self.config.kl_weight:
            return torch.arange(advantages.numel(), device=advantages.device)
        used = advantages.flatten().nonzero()[:, 0]
        return used if len(used) else used.new_zeros(1)

    def _measured(self) -> tuple[str, ...]:
        kl = ("rl_kl",) if self.config.kl_weight else ()
        return ("rl_entropy", "rl_length", *kl)
