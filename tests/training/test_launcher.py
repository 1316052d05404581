"""Which process this is, whoever has started it."""

import pytest

from amt.cli.command import first_on_machine, first_process
from amt.training.launcher import by_srun, global_rank, local_rank, started_ranks

SRUN = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_NTASKS": "8"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "6", "LOCAL_RANK": "2", "WORLD_SIZE": "8", "GROUP_RANK": "1"}
ONLY_TASK = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "1"}
SHELL = {**SRUN, "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_JOB_NAME": "bash"}
CHILD = {"LOCAL_RANK": "3", "NODE_RANK": "1", "WORLD_SIZE": "8"}


@pytest.mark.parametrize(
    ("environ", "ranks", "rank", "local"),
    [
        ({}, 1, 0, 0),
        (SRUN, 8, 5, 1),
        (TORCHRUN, 8, 6, 2),
        ({**SRUN, **TORCHRUN}, 8, 6, 2),  # srun torchrun ...
        (ONLY_TASK, 1, 0, 0),
        (SHELL, 1, 0, 0),
        (CHILD, 8, 7, 3),
        ({**ONLY_TASK, **CHILD}, 8, 7, 3),  # python train.py in a job, its further processes
        ({**SHELL, **CHILD}, 8, 7, 3),
        ({"NODE_RANK": "1"}, 1, 4, 0),
        ({"RANK": "", "LOCAL_RANK": "", "SLURM_NTASKS": ""}, 1, 0, 0),
    ],
)
def test_place(environ, ranks, rank, local):
    assert started_ranks(environ) == ranks
    assert global_rank(environ, devices=4) == rank
    assert local_rank(environ) == local
    assert first_process(environ) == (rank == 0)
    assert first_on_machine(environ) == (local == 0)


def test_srun_starts_more_than_one_task():
    assert by_srun(SRUN)
    assert not any(by_srun(environ) for environ in (ONLY_TASK, SHELL, TORCHRUN, {**SRUN, **TORCHRUN}, {}))
