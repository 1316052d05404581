"""What a run will use, from flags, launcher and machine; lengths of a run."""

import pytest

from amt.config import TrainerConfig
from amt.training.plan import plan_run
from amt.training.trainer import resolve_hardware


def config(**changes):
    return TrainerConfig(**{"precision": "auto", "strategy": "ddp", **changes})


@pytest.mark.parametrize(
    ("asked", "gpus", "bf16", "given"),
    [
        ("auto", 0, False, "32"),
        ("auto", 2, True, "bf16-mixed"),
        ("auto", 2, False, "16-mixed"),
        ("16-mixed", 1, True, "16-mixed"),
        ("16-mixed", 0, False, "bf16-mixed"),
        ("bf16-mixed", 0, False, "bf16-mixed"),
        ("32", 8, True, "32"),
    ],
)
def test_precision(asked, gpus, bf16, given):
    hardware = resolve_hardware(config(precision=asked), {}, gpus, bf16)
    assert hardware.precision == given
    told = any(asked in note for note in hardware.notes)
    assert told == (gpus == 0 and asked.endswith("mixed"))


def test_processes():
    assert resolve_hardware(config(), {}, 0, False).world_size == 1
    assert resolve_hardware(config(), {}, 8, True).world_size == 8
    assert resolve_hardware(config(devices="2"), {}, 0, False).world_size == 2
    two_nodes = resolve_hardware(config(num_nodes=2), {"NODE_RANK": "1", "LOCAL_RANK": "3"}, 8, True)
    assert (two_nodes.world_size, two_nodes.rank, two_nodes.local_rank) == (16, 11, 3)
    torchrun = {
        "TORCHELASTIC_RUN_ID": "x",
        "LOCAL_WORLD_SIZE": "4",
        "WORLD_SIZE": "8",
        "RANK": "6",
        "LOCAL_RANK": "2",
        "GROUP_RANK": "1",
    }
    hardware = resolve_hardware(config(), torchrun, 4, True)
    assert (hardware.devices, hardware.num_nodes, hardware.rank) == (4, 2, 6)
    slurm = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1"}
    assert resolve_hardware(config(num_nodes=2), slurm, 4, True).rank == 5


def test_what_cannot_be():
    with pytest.raises(ValueError, match="only 2 GPU"):
        resolve_hardware(config(devices="4"), {}, 2, True)
    torchrun = {"TORCHELASTIC_RUN_ID": "x", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "4"}
    with pytest.raises(ValueError, match="torchrun"):
        resolve_hardware(config(devices="2"), torchrun, 4, True)


def test_batch_norm_is_synchronised_between_gpus_only():
    assert resolve_hardware(config(sync_batchnorm=True), {}, 2, True).sync_batchnorm
    assert not resolve_hardware(config(sync_batchnorm=True), {}, 1, True).sync_batchnorm
    on_cpu = resolve_hardware(config(sync_batchnorm=True, devices="2"), {}, 0, False)
    assert not on_cpu.sync_batchnorm
    assert any("-sb" in note for note in on_cpu.notes)


def test_plan(tiny):
    experiment = tiny.experiment(
        bsz__sub=2,
        bsz__local=4,
        trainer__accumulate_grad_batches=3,
        trainer__max_steps=-1,
        trainer__max_epochs=2,
        data__samples_per_epoch=100,
    )
    plan = plan_run(experiment, world_size=2)
    assert plan.samples_per_step == 24
    assert plan.steps_per_epoch == 4  # whole steps only
    assert plan.max_steps == 8
    assert [plan.epoch(samples) for samples in (0, 95, 96, 192)] == [0, 0, 1, 2]
    assert plan_run(tiny.experiment(trainer__max_steps=5)).max_steps == 5
    assert plan_run(tiny.experiment(trainer__max_steps=-1)).max_steps is None
    assert plan_run(tiny.experiment(trainer__max_minutes=2.0)).budget_seconds == 120.0
