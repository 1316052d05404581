"""Where a run runs: processes, devices and precision, and Lightning's Trainer put together for it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import Logger
from pytorch_lightning.profilers import Profiler
from pytorch_lightning.strategies import DDPStrategy

from ..config import Experiment, TrainerConfig
from ..config.names import counted
from .checkpoint_io import AtomicCheckpointIO
from .launcher import by_srun, by_torchrun, global_rank, local_rank, started_ranks
from .plan import TIMEOUT, RunPlan


@dataclass(frozen=True)
class Hardware:
    """Processes and devices of a run, as this process sees them."""

    accelerator: str
    """``cuda`` or ``cpu``."""
    devices: int
    """Processes per node."""
    num_nodes: int
    rank: int
    """Of this process, over all nodes."""
    local_rank: int
    """Of this process, on its node."""
    precision: str
    """What Lightning is given."""
    sync_batchnorm: bool
    notes: tuple[str, ...]
    """What differs from what was asked for, or deserves to be known; one sentence each."""

    @property
    def world_size(self) -> int:
        """Number of processes."""
        return self.devices * self.num_nodes

    @property
    def backend(self) -> str:
        """How the processes talk to each other."""
        return "nccl" if self.accelerator == "cuda" else "gloo"


class PlainValidationDDP(DDPStrategy):
    """DDP that validates the plain module: no collective per song, so ranks never wait for each other."""

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        """The module's own validation step, without DDP's forward around it."""
        assert self.lightning_module is not None
        with self.precision_plugin.val_step_context():
            return self.lightning_module.validation_step(*args, **kwargs)


def resolve_hardware(
    config: TrainerConfig, environ: Mapping[str, str], num_gpus: int, bf16_supported: bool
) -> Hardware:
    """What the run will use.

    Args:
        config: what was asked for.
        environ: variables of the launcher (torchrun, SLURM, Lightning's own).
        num_gpus: visible GPUs; 0 trains on the CPU.
        bf16_supported: whether the GPUs, or without GPUs the CPU, multiply bfloat16 matrices fast.

    Raises:
        ValueError: when more GPUs are asked for than there are, or the launcher and the flags disagree.
    """
    notes: list[str] = []
    accelerator = "cuda" if num_gpus else "cpu"
    wanted = None if config.devices == "auto" else int(config.devices)
    if num_gpus and wanted is not None and wanted > num_gpus:
        raise ValueError(
            f"-g {wanted}: only {num_gpus} GPU(s) are visible; use -g auto or CUDA_VISIBLE_DEVICES"
        )
    devices = wanted if wanted is not None else max(1, num_gpus)
    num_nodes = config.num_nodes
    if by_torchrun(environ):
        local_world = int(environ.get("LOCAL_WORLD_SIZE", "1"))
        world = int(environ.get("WORLD_SIZE", "1"))
        if wanted is not None and wanted != local_world:
            raise ValueError(
                f"-g {wanted} contradicts torchrun, which started "
                f"{counted(local_world, 'process', 'processes')} on this node: leave -g out"
            )
        devices, num_nodes = local_world, world // local_world
    if by_srun(environ):
        tasks = started_ranks(environ)
        devices = tasks // num_nodes if wanted is None else wanted
        if devices * num_nodes != tasks:
            raise ValueError(
                f"-n {num_nodes} -g {config.devices}: SLURM has {tasks} tasks. Give -n the job's --nodes and "
                "-g its --ntasks-per-node, and start with srun; or ask for --ntasks=1, and train.py starts "
                "the processes of its machine itself"
            )
    precision = config.precision
    if precision == "auto":
        precision = "32" if not num_gpus else "bf16-mixed" if bf16_supported else "16-mixed"
    if not num_gpus and precision == "16-mixed":
        notes.append("-pr 16-mixed: fp16 does not train on a CPU; bf16-mixed is used instead")
        precision = "bf16-mixed"
    elif not num_gpus and precision == "bf16-mixed" and not bf16_supported:
        notes.append("-pr bf16-mixed is slower than 32 on a CPU without matrix units; -pr auto takes 32")
    sync = config.sync_batchnorm and devices * num_nodes > 1
    if sync and not num_gpus:
        notes.append("-sb: BatchNorm is synchronised between GPUs only; each CPU process keeps its own")
        sync = False
    if not num_gpus and devices > 1:
        notes.append(f"{devices} processes train on the CPU (gloo)")
    return Hardware(
        accelerator,
        devices,
        num_nodes,
        global_rank(environ, devices),
        local_rank(environ),
        precision,
        sync,
        tuple(notes),
    )


def build_trainer(
    experiment: Experiment,
    hardware: Hardware,
    plan: RunPlan,
    *,
    callbacks: Sequence[Callback],
    loggers: Sequence[Logger],
    fault: str = "",
    detect_anomaly: bool = False,
    saves: bool = True,
    profiler: Profiler | None = None,
) -> pl.Trainer:
    """Lightning's Trainer for a run: one endless epoch, validation counted in steps, our own saving."""
    config = experiment.trainer
    strategy: Any = "auto"
    if hardware.world_size > 1:
        strategy = PlainValidationDDP(
            process_group_backend=hardware.backend,
            timeout=TIMEOUT,
            find_unused_parameters=config.find_unused_parameters,
        )
    plugins: list[Any] = [AtomicCheckpointIO(fault)]
    if by_srun(os.environ):
        plugins.append(slurm_environment(hardware))
    elif "SLURM_PROCID" in os.environ and not by_torchrun(os.environ):
        plugins.append(LightningEnvironment())  # a job's only task: Lightning would take it for one of srun's
    return pl.Trainer(
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.num_nodes,
        strategy=strategy,
        precision=_lightning_precision(hardware.precision),
        plugins=plugins,
        callbacks=list(callbacks),
        logger=list(loggers),
        max_steps=-1 if plan.max_steps is None else plan.max_steps,
        max_epochs=-1,
        val_check_interval=config.val_interval * config.accumulate_grad_batches,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        accumulate_grad_batches=config.accumulate_grad_batches,
        log_every_n_steps=config.log_every_n_steps,
        use_distributed_sampler=False,
        sync_batchnorm=hardware.sync_batchnorm,
        detect_anomaly=detect_anomaly,
        profiler=profiler,
        enable_checkpointing=saves,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


def slurm_environment(hardware: Hardware) -> SLURMEnvironment:
    """Of a task of ``srun``; restarts are the run identity's business, not Lightning's."""
    os.environ.setdefault("SLURM_NTASKS_PER_NODE", str(hardware.devices))  # missing where --ntasks says it
    return SLURMEnvironment(auto_requeue=False)


def current_hardware(config: TrainerConfig) -> Hardware:
    """:func:`resolve_hardware` for this machine; takes this process's GPU before anything allocates."""
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if num_gpus:
        own = local_rank(os.environ)
        if own >= num_gpus:
            raise ValueError(
                f"process {own + 1} of this machine has no GPU, {num_gpus} can be seen: start so many at "
                "most, and let each see all of them (with SLURM no --gpus-per-task)"
            )
        torch.cuda.set_device(own)
    bf16 = torch.cuda.is_bf16_supported() if num_gpus else fast_bf16_on_cpu()
    return resolve_hardware(config, os.environ, num_gpus, bf16)


def fast_bf16_on_cpu() -> bool:
    """Whether this CPU has matrix units for bfloat16 (AMX), four times as fast as its float32 products."""
    return bool(torch.cpu.get_capabilities().get("amx_bf16", False))


def _lightning_precision(name: str) -> Any:
    return "32-true" if name == "32" else name
