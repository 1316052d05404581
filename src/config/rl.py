"""REINFORCE after cross-entropy: what is sampled, how it is rewarded, what is subtracted."""

from __future__ import annotations

from dataclasses import dataclass

from .checks import check_name

RL_REWARDS = ("token_acc", "onset_f", "note_f")
RL_BASELINES = ("batch", "none", "greedy", "ema", "group")


@dataclass(frozen=True)
class RLConfig:
    """The REINFORCE stage (section RL)."""

    enabled: bool = False
    weight: float = 0.1
    """Of the stage's term in the loss; the cross-entropy stays."""
    start: int = 0
    """Steps of cross-entropy alone before the stage begins."""
    reward: str = "token_acc"
    """What a sampled sequence is worth, 0 to 1: share of right tokens, onset F1 or note F1."""
    baseline: str = "batch"
    """What is subtracted from the reward: see :mod:`amt.rl.baselines`."""
    num_samples: int = 1
    """Sequences drawn for each label."""
    temperature: float = 1.0
    """Of the policy: logits are divided by it for drawing and for the gradient."""
    top_p: float = 1.0
    """The policy draws from the smallest set of tokens that holds this much probability; 1 is all."""
    max_tokens: int = 0
    """Longest sampled sequence; 0 is the longest label (``-el``)."""
    entropy_weight: float = 0.0
    """Of the entropy bonus, within the stage's term."""
    kl_weight: float = 0.0
    """Of the divergence from the policy the stage began with, within the stage's term; above 0 a second copy
    of the weights is kept."""
    clip: float = 0.0
    """Largest size of an advantage; 0 is off."""
    ema_decay: float = 0.9
    """Share of the old mean reward that a step keeps in the baseline ``ema``."""

    def __post_init__(self) -> None:
        check_name("RL reward", self.reward, RL_REWARDS)
        check_name("RL baseline", self.baseline, RL_BASELINES)
        for name in ("weight", "start", "max_tokens", "entropy_weight", "kl_weight", "clip"):
            if getattr(self, name) < 0:
                flag = name.replace("_", "-")
                raise ValueError(f"--rl-{flag} must not be negative, is {getattr(self, name)}")
        if self.num_samples < 1:
            raise ValueError(f"--rl-samples must be at least 1, not {self.num_samples}")
        if self.enabled and self.baseline == "group" and self.num_samples < 2:
            raise ValueError(
                "--rl-baseline group compares the samples of one segment: add --rl-samples 4 (2 at least), "
                "or take --rl-baseline batch"
            )
        if self.max_tokens == 1:
            raise ValueError("--rl-max-tokens 1 leaves no room for a note: use 0 for the longest label")
        if self.temperature <= 0:
            raise ValueError(f"--rl-temperature must be positive, not {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"--rl-top-p must lie above 0 and at most at 1, not {self.top_p}")
        if not 0 <= self.ema_decay < 1:
            raise ValueError(f"--rl-ema must lie from 0 to below 1, not {self.ema_decay}")
