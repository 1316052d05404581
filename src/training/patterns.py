"""Patterns of parameter names (``--freeze``, ``--init-include``, ``--init-exclude``), and freezing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from torch import nn

from ..config import unknown_name


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern fits the name: the name itself, a part it lies in (``encoder``,
    ``decoder.layers.0``), or with ``*``, ``?`` and ``[...]`` the whole name (``*norm*``). A leading
    ``model.`` may be there.
    """
    for pattern in patterns:
        pattern = pattern.removeprefix("model.").removesuffix(".")
        if name == pattern or name.startswith(f"{pattern}.") or fnmatchcase(name, pattern):
            return True
    return False


def check_patterns(flag: str, patterns: Sequence[str], names: Iterable[str]) -> None:
    """Refuse a pattern that fits none of ``names``.

    Raises:
        ValueError: names the flag, the pattern and near parts of the names.
    """
    names = list(names)
    for pattern in patterns:
        if not any(fits(name, (pattern,)) for name in names):
            known = {".".join(name.split(".")[:depth]) for name in names for depth in (1, 2, 3)}
            raise unknown_name(f"part of the model in {flag}", pattern, known)


def freeze(model: nn.Module, patterns: Sequence[str]) -> str:
    """Take parameters out of training; returns a sentence for the user, empty without patterns.

    Normalisation layers whose parameters are all frozen keep their running statistics too. They stay in
    evaluation mode, since Lightning puts back the mode that each layer had.

    Raises:
        ValueError: for a pattern that fits nothing, or when nothing is left to train.
    """
    if not patterns:
        return ""
    named = list(model.named_parameters())
    check_patterns("--freeze", patterns, [name for name, _ in named])
    frozen = [parameter for name, parameter in named if fits(name, patterns)]
    if len(frozen) == len(named):
        raise ValueError(f"--freeze {' '.join(patterns)} leaves no parameter to train; freeze less")
    for parameter in frozen:
        parameter.requires_grad_(False)
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        if (
            isinstance(module, nn.modules.batchnorm._NormBase)
            and own
            and not any(p.requires_grad for p in own)
        ):
            module.eval()
    numbers = sum(parameter.numel() for parameter in frozen)
    total = sum(parameter.numel() for _, parameter in named)
    return (
        f"frozen: {len(frozen)} of {len(named)} parameters, {numbers:,} of {total:,} numbers "
        f"(--freeze {' '.join(patterns)})"
    )
