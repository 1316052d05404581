"""The options of ``train.py`` for the REINFORCE stage."""

from __future__ import annotations

from ..config.rl import RL_BASELINES, RL_REWARDS
from .parser import Option, Section

_rl = Section("REINFORCE", "rl")

RL_OPTIONS: tuple[Option, ...] = (
    _rl("", "--rl-enable", "bool", ".enabled", "also train on sampled sequences and their rewards"),
    _rl("", "--rl-weight", "float", ".weight", "weight of that term; the cross-entropy stays", metavar="W"),
    _rl("", "--rl-start", "int", ".start", "steps before it sets in", metavar="STEP"),
    _rl("", "--rl-reward-type", "text", ".reward", "what a sample is worth", choices=RL_REWARDS),
    _rl(
        "",
        "--rl-baseline",
        "text",
        ".baseline",
        "what is subtracted: mean of the other samples, nothing, reward of the likeliest tokens, moving "
        "average, or mean of the other samples of the segment",
        choices=RL_BASELINES,
    ),
    _rl("", "--rl-samples", "int", ".num_samples", "samples of each label", metavar="N"),
    _rl("", "--rl-temperature", "float", ".temperature", "of the policy that is drawn from and trained"),
    _rl(
        "",
        "--rl-top-p",
        "float",
        ".top_p",
        "draw from the smallest set of tokens with this probability; 1 is all",
        metavar="P",
    ),
    _rl(
        "",
        "--rl-max-tokens",
        "int",
        ".max_tokens",
        "longest sample; 0 is the longest label",
        metavar="N",
    ),
    _rl(
        "",
        "--rl-entropy-weight",
        "float",
        ".entropy_weight",
        "weight of the entropy of the policy, which keeps it from narrowing",
        metavar="W",
    ),
    _rl(
        "",
        "--rl-kl-weight",
        "float",
        ".kl_weight",
        "weight of the divergence from the policy at the start; takes a copy of the weights",
        metavar="W",
    ),
    _rl("", "--rl-clip", "float", ".clip", "largest reward minus baseline; 0 is off", metavar="X"),
    _rl(
        "",
        "--rl-ema",
        "float",
        ".ema_decay",
        "share of the old mean that a step keeps in --rl-baseline ema",
        metavar="DECAY",
    ),
)
