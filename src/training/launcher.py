"""Who has started this process and which one it is, from the launcher's variables. Standard library only.

torchrun may run inside a SLURM job, and so may ``python train.py``: SLURM's variables count for tasks of
``srun`` only.
"""

from __future__ import annotations

from collections.abc import Mapping

SAID = "amt_said"
"""Attribute of an error, true when a process that is not the first of its machine need not tell it (any
more): it has done so, or every rank finds the same."""


def by_torchrun(environ: Mapping[str, str]) -> bool:
    """Whether torchrun has started all ranks."""
    return "TORCHELASTIC_RUN_ID" in environ


def by_srun(environ: Mapping[str, str]) -> bool:
    """Whether ``srun`` has started all ranks, more than one. A job called ``bash`` or ``interactive`` is a
    shell in which somebody else starts them, as Lightning has it."""
    if by_torchrun(environ) or environ.get("RANK") or "SLURM_PROCID" not in environ:
        return False
    interactive = environ.get("SLURM_JOB_NAME") in ("bash", "interactive")
    return not interactive and int(environ.get("SLURM_NTASKS") or "1") > 1


def started_ranks(environ: Mapping[str, str]) -> int:
    """Ranks that a launcher has started; 1 when none did."""
    if by_srun(environ):
        return int(environ["SLURM_NTASKS"])
    if environ.get("RANK") or environ.get("LOCAL_RANK"):
        return int(environ.get("WORLD_SIZE") or "1")
    return 1


def local_rank(environ: Mapping[str, str]) -> int:
    """Number of this process on its machine."""
    return int(environ.get("LOCAL_RANK") or (environ.get("SLURM_LOCALID") if by_srun(environ) else "") or "0")


def node_rank(environ: Mapping[str, str]) -> int:
    """Number of this machine, where no launcher knows the rank."""
    return int(environ.get("NODE_RANK") or environ.get("GROUP_RANK") or "0")


def global_rank(environ: Mapping[str, str], devices: int) -> int:
    """Number of this process over all machines, each with ``devices`` processes."""
    if environ.get("RANK"):
        return int(environ["RANK"])
    if by_srun(environ):
        return int(environ["SLURM_PROCID"])
    return node_rank(environ) * devices + local_rank(environ)
