"""What a run will use, from flags, launcher and machine; lengths of a run."""

import ast
import os
from pathlib import Path

import pytest
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from lightning_fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from pytorch_lightning.strategies import SingleDeviceStrategy

from amt.config import TrainerConfig
from amt.config.training import STRATEGIES
from amt.training.plan import plan_run
from amt.training.trainer import PlainValidationDDP, build_trainer, current_hardware, resolve_hardware


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
    slurm = {"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NODEID": "1", "SLURM_NTASKS": "8"}
    assert resolve_hardware(config(num_nodes=2), slurm, 4, True).rank == 5
    only_task = {"SLURM_PROCID": "0", "SLURM_NTASKS": "1", "LOCAL_RANK": "3"}
    hardware = resolve_hardware(config(), only_task, 4, True)
    assert (hardware.world_size, hardware.rank) == (4, 3), "train.py has started it, not srun"


def test_auto_is_another_name_of_ddp(tiny):
    """One process goes without data parallel training, several with it, whatever the name."""
    for name in STRATEGIES:
        for devices, strategy in (("1", SingleDeviceStrategy), ("2", PlainValidationDDP)):
            experiment = tiny.experiment(trainer__strategy=name, trainer__devices=devices)
            hardware = resolve_hardware(experiment.trainer, {}, 0, False)
            plan = plan_run(experiment, hardware.world_size)
            trainer = build_trainer(experiment, hardware, plan, callbacks=[], loggers=[], saves=False)
            assert type(trainer.strategy) is strategy


def test_a_process_takes_its_gpu_before_anything_else(monkeypatch):
    """Case B09: otherwise every rank leaves memory on GPU 0."""
    calls = []
    for name, value in (("is_available", True), ("device_count", 4), ("is_bf16_supported", True)):
        monkeypatch.setattr(torch.cuda, name, lambda name=name, value=value: calls.append(name) or value)
    monkeypatch.setattr(torch.cuda, "set_device", lambda number: calls.append(f"set_device {number}"))
    for name in ("RANK", "SLURM_LOCALID", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOCAL_RANK", "2")
    hardware = current_hardware(config())
    assert calls == ["is_available", "device_count", "set_device 2", "is_bf16_supported"]
    assert (hardware.devices, hardware.local_rank, hardware.backend) == (4, 2, "nccl")


def test_every_file_is_loaded_to_the_cpu():
    """Case B09: a checkpoint of cuda:0 must not land there on every rank."""
    found = 0
    for path in (Path(__file__).parents[2] / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "torch.load":
                [place] = [word.value for word in node.keywords if word.arg == "map_location"]
                assert ast.literal_eval(place) == "cpu", path
                found += 1
    assert found >= 2


def test_what_cannot_be():
    with pytest.raises(ValueError, match="only 2 GPU"):
        resolve_hardware(config(devices="4"), {}, 2, True)
    torchrun = {"TORCHELASTIC_RUN_ID": "x", "LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "4"}
    with pytest.raises(ValueError, match="torchrun"):
        resolve_hardware(config(devices="2"), torchrun, 4, True)
    slurm = {"SLURM_PROCID": "0", "SLURM_NTASKS": "8"}
    with pytest.raises(ValueError, match=r"-n 1 -g 4: SLURM has 8 tasks.*--ntasks-per-node"):
        resolve_hardware(config(devices="4"), slurm, 4, True)
    with pytest.raises(ValueError, match=r"-n 3 -g auto: SLURM has 8 tasks"):
        resolve_hardware(config(num_nodes=3), slurm, 4, True)
    assert resolve_hardware(config(num_nodes=2), slurm, 4, True).devices == 4


def test_a_process_without_a_gpu_of_its_own(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(os, "environ", {**os.environ, "LOCAL_RANK": "3"})
    with pytest.raises(ValueError, match=r"process 4 of this machine has no GPU, 1 can be seen.*--gpus-per-"):
        current_hardware(config())


@pytest.mark.parametrize(
    ("environ", "chosen"),
    [
        ({"SLURM_NTASKS": "1"}, LightningEnvironment),
        ({"SLURM_NTASKS": "2", "SLURM_JOB_NAME": "bash"}, LightningEnvironment),
        ({"SLURM_NTASKS": "2"}, SLURMEnvironment),
        (
            {"SLURM_NTASKS": "4", "TORCHELASTIC_RUN_ID": "x", "RANK": "0", "LOCAL_RANK": "0"}
            | {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"},
            TorchElasticEnvironment,
        ),
    ],
)
def test_who_starts_the_processes_inside_a_slurm_job(tiny, monkeypatch, environ, chosen):
    environ = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", **environ}
    monkeypatch.setattr(os, "environ", {**os.environ, **environ})
    experiment = tiny.experiment(trainer__devices="2", trainer__strategy="ddp")
    hardware = resolve_hardware(experiment.trainer, os.environ, 0, False)
    plan = plan_run(experiment, hardware.world_size)
    trainer = build_trainer(experiment, hardware, plan, callbacks=[], loggers=[], saves=False)
    assert type(trainer.strategy.cluster_environment) is chosen
    assert (trainer.world_size, trainer.global_rank) == (2, hardware.rank)


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
    ends = {"trainer__max_steps": 1200, "trainer__max_minutes": 2.5}
    assert plan_run(tiny.experiment(**ends)).end == "1,200 steps or 2.5 minutes"
    assert plan_run(tiny.experiment(trainer__max_steps=-1)).end == ""
