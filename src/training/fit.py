"""A training run from its record to its exit status."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback, LearningRateMonitor

from ..config import Experiment
from ..config.names import counted, named_path
from ..data.module import TranscriptionData
from ..data.scored import scoring_of
from ..data.workers import cap_workers
from ..model.checkpoint_file import read_checkpoint
from ..model.pretrained_t5 import load_pretrained_t5
from ..notes import Note, write_midi
from ..tokenizer import NoteTokenizer
from .agreement import Agreement, describe_run
from .callbacks.average import WeightAverage
from .callbacks.checkpoint import CustomModelCheckpoint
from .callbacks.gate import ValidationGateByTrainLoss
from .dry_run import OneStep
from .dynamic_weights import DynamicWeights
from .handover import handed_on
from .identity import RunDecision, limit_texts, validate_resume_max_steps
from .interrupts import interrupts_say
from .logger import build_loggers
from .media import example_writer
from .memory import MemoryAdvisor, MemoryWatch
from .module import TranscriptionModule
from .nonfinite import GradScalerMinScaleGuard
from .plan import RunPaths, RunPlan, plan_run
from .progress import ProgressLine
from .rank_errors import errors_end_all
from .run_folder import RunFolder, move_aside, write_config
from .signals import requeue
from .speech import Speaker, quiet_libraries
from .state import validation_is_missing
from .throughput import DataWaitProfiler
from .trainer import Hardware, build_trainer, current_hardware
from .warm_start import load_warm_start

EXIT_OK = 0
EXIT_NOT_SAVED = 1
"""Exit status when the last state could not be written."""
EXIT_SIGNAL = 143
"""Exit status after a signal at another rank (128 + SIGTERM)."""


def run_training(
    experiment: Experiment,
    decision: RunDecision,
    paths: RunPaths,
    origins: Mapping[str, str] | None = None,
    *,
    fault: str = "",
    excluded: tuple[str, ...] = (),
    val_start_loss: float | None = None,
    scan_gradients: bool = False,
    detect_anomaly: bool = False,
    lr_monitor: bool = False,
    dry_run: bool = False,
) -> int:
    """Train; the whole of ``train.py`` after the command line.

    Everything that can be wrong with the settings is found before a file is touched. Rank 0 alone touches
    files of the run's folder.

    Args:
        experiment: the resolved run.
        decision: scratch, resume or warm start.
        paths: the run's folder and the data folder.
        origins: where each setting came from, for ``config.json``.
        fault: ``AMT_FAULT``.
        excluded: ``AMT_EXCLUDE_PRESETS``.
        val_start_loss: ``AMT_VAL_START_TRAIN_LOSS_THRESHOLD``.
        scan_gradients: ``AMT_DEBUG_GRAD_FINITE``.
        detect_anomaly: ``AMT_DETECT_ANOMALY``.
        lr_monitor: ``AMT_ENABLE_LR_MONITOR``.
        dry_run: take one step, write nothing.

    Returns:
        Exit status: 0 finished, 1 when the last state could not be saved, 2 when the checkpoint is beyond
        ``-it``, 128 + number after a signal.

    Raises:
        ValueError: for settings that do not fit, before anything is written.
        NonFiniteLossError: when the loss was not finite too often in a row.
    """
    if dry_run:
        fault = ""  # a drill notes in the run's folder that it has struck
    if experiment.trainer.num_threads:
        torch.set_num_threads(experiment.trainer.num_threads)
    hardware = current_hardware(experiment.trainer)
    say = Speaker(hardware.rank == 0)
    plan = plan_run(experiment, hardware.world_size)
    consumed = 0
    seconds = 0.0
    only_validates = False
    if decision.kind == "resume":
        assert decision.checkpoint is not None
        checkpoint = _resumed(decision.checkpoint)
        step, state = int(checkpoint["global_step"]), checkpoint["amt_state"]
        seconds = float(state["elapsed_seconds"])
        used_up = plan.budget_seconds > 0 and seconds >= plan.budget_seconds
        if validation_is_missing(checkpoint, experiment.trainer.val_interval):
            only_validates = used_up or step == plan.max_steps
        if not only_validates:
            limit = -1 if plan.max_steps is None else plan.max_steps
            status = validate_resume_max_steps(step, limit, epochs=plan.epochs, speaks=say.speaks)
            if status is None and used_up:
                say(_finished(plan, step, seconds))
                status = EXIT_OK
            if status is not None:
                return status
        if only_validates and dry_run:
            say(f"dry run: only the validation of step {step} is left to do, so no step can be tried")
            return EXIT_OK
        consumed = int(state["consumed_samples"])
        del checkpoint, state
    elif decision.kind == "scratch" and (experiment.init_include or experiment.init_exclude):
        raise ValueError("--init-include and --init-exclude choose weights of --init-ckpt: give that too")
    quiet_libraries(say.speaks)
    torch.set_float32_matmul_precision("high")
    tokenizer = NoteTokenizer.from_experiment(experiment)
    workers, shortage = cap_workers(
        experiment.dataio.num_workers,
        hardware.devices,
        explicit=(origins or {}).get("dataio.num_workers", "").startswith(("-", "AMT_")),
    )
    data = TranscriptionData(
        replace(experiment, dataio=replace(experiment.dataio, num_workers=workers)),
        tokenizer,
        paths.data_home,
        rank=hardware.rank,
        world_size=hardware.world_size,
        first_sample=consumed,
        excluded=excluded,
    )
    data.require_songs()
    folder = RunFolder(paths.folder)
    module = _build_module(
        experiment, tokenizer, data, plan, hardware, folder, fault=fault, scan_gradients=scan_gradients
    )
    module.configure_optimizers()  # refuses what does not fit, before any file is touched
    module.only_validates = only_validates
    if decision.kind == "warm" and hardware.rank == 0:  # DDP gives the others its weights
        assert decision.checkpoint is not None
        for line in load_warm_start(
            module.model,
            decision.checkpoint,
            tokenizer.layout,
            include=experiment.init_include,
            exclude=experiment.init_exclude,
        ):
            say(line)
    if decision.kind == "scratch" and experiment.pretrained_t5 and hardware.rank == 0:
        for line in load_pretrained_t5(module.model, named_path(experiment.pretrained_t5)):
            say(line)
    say(data.describe())
    say(_describe(experiment, plan, module, seconds))
    advisor = MemoryAdvisor(module.model, experiment, hardware, tokenizer.sequence_length)
    say(advisor.describe())
    for remark in (
        *hardware.notes,
        shortage,
        module.rate_remark,
        module.schedule.notice,
        module.frozen,
        *data.remarks,
    ):
        if remark:
            say(remark)
    writes = hardware.rank == 0 and not dry_run
    with folder.held() if writes else contextlib.nullcontext():
        if writes:
            if decision.set_aside and (moved := move_aside(folder.root)):
                say(f"run: old files moved to {moved}")
            folder.create()
            record = {"experiment": experiment.to_dict(), "origins": dict(origins or {})}
            try:
                write_config(folder.root, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
            except OSError as error:  # a full disk: each checkpoint holds the configuration too
                say(f"run: {folder.config} cannot be written ({error.strerror or error}); the run goes on")
            else:
                say(f"run: its configuration is in {folder.config}")
        loggers = (
            []
            if dry_run
            else build_loggers(
                experiment.wandb,
                experiment.project,
                experiment.exp_id,
                folder.root,
                decision.kind,
                os.environ,
                resume_step=decision.step if decision.kind == "resume" else None,
            )
        )
        if experiment.wandb.examples and (show := example_writer(loggers, experiment.audio.sample_rate)):
            module.validator.show_examples(experiment.wandb.examples, show)
        saver = CustomModelCheckpoint(experiment.checkpoint, folder.checkpoints)
        memory = MemoryWatch(advisor, hardware.rank)
        settings = {
            "AMT_FAULT": fault,
            "AMT_EXCLUDE_PRESETS": excluded,
            "AMT_VAL_START_TRAIN_LOSS_THRESHOLD": val_start_loss,
            "AMT_DEBUG_GRAD_FINITE": scan_gradients,
            "AMT_DETECT_ANOMALY": detect_anomaly,
            "--dry-run": dry_run,
        }
        same = Agreement(describe_run(experiment, data, settings), hardware.world_size)
        callbacks: list[Callback] = [same, ProgressLine(), saver, memory]
        if experiment.optimizer.ema_decay:
            callbacks.insert(0, WeightAverage(experiment.optimizer.ema_decay))
        if val_start_loss is not None and not dry_run:
            callbacks.append(ValidationGateByTrainLoss(val_start_loss))
        if hardware.precision == "16-mixed":
            callbacks.append(GradScalerMinScaleGuard(experiment.trainer.min_grad_scale))
        one_step = OneStep()
        if dry_run:
            callbacks = [one_step, *(callback for callback in callbacks if callback is not saver)]
        elif lr_monitor:
            callbacks.append(LearningRateMonitor("step"))
        trainer = build_trainer(
            experiment,
            hardware,
            replace(plan, max_steps=None) if only_validates else plan,
            callbacks=callbacks,
            loggers=loggers,
            fault=fault,
            detect_anomaly=detect_anomaly,
            saves=not dry_run,
            profiler=DataWaitProfiler(module.clock),
        )
        assert (trainer.global_rank, trainer.world_size) == (hardware.rank, hardware.world_size)
        resume_from = str(decision.checkpoint) if decision.kind == "resume" else None
        with interrupts_say(lambda: "nothing was written" if dry_run else saver.what_is_kept()):
            with errors_end_all(trainer, hardware), memory.explained(), handed_on(decision):
                trainer.fit(module, datamodule=data, ckpt_path=resume_from, weights_only=True)
            module.validator.close()  # only now, when no rank waits for another any more
            if dry_run:
                say(one_step.describe(module))
                return EXIT_OK
            status = _finish(trainer, module, saver, say)
            if only_validates and status == EXIT_OK:
                say(_finished(plan, module.global_step, module.clock.elapsed))
            return status


def _build_module(
    experiment: Experiment,
    tokenizer: NoteTokenizer,
    data: TranscriptionData,
    plan: RunPlan,
    hardware: Hardware,
    folder: RunFolder,
    *,
    fault: str,
    scan_gradients: bool,
) -> TranscriptionModule:
    torch.manual_seed(experiment.seed)
    weighting = experiment.dynamic_dataset_weighting
    return TranscriptionModule(
        experiment,
        tokenizer,
        plan=plan,
        set_names=data.set_names,
        scoring=[scoring_of(item, tokenizer.task) for item in data.validation_sets],
        has_scaler=hardware.precision == "16-mixed",
        fault=fault,
        fault_memory=folder.faults,
        scan_gradients=scan_gradients,
        resume_file=str(folder.last),
        write_output=_midi_writer(folder.outputs) if experiment.trainer.write_model_output else None,
        data_weights=DynamicWeights(weighting, data) if weighting.enabled else None,
        data_contents=data.contents(),
    )


def _midi_writer(outputs: Path) -> Callable[[str, str, int, list[Note]], None]:
    """Writes ``outputs/step=N/SET/SONG.mid``."""

    def write(song_id: str, set_name: str, step: int, notes: list[Note]) -> None:
        target = outputs / f"step={step}" / set_name
        target.mkdir(parents=True, exist_ok=True)
        write_midi(notes, target / f"{song_id.replace('/', '_')}.mid")

    return write


def _resumed(path: Path) -> dict[str, Any]:
    checkpoint = read_checkpoint(path, mmap=True)
    if not isinstance(checkpoint.get("amt_state"), dict) or "global_step" not in checkpoint:
        raise ValueError(f"{path} has no training state; use it with --init-ckpt instead")
    return checkpoint


def _describe(experiment: Experiment, plan: RunPlan, module: TranscriptionModule, seconds: float) -> str:
    """Size, batch and length of a run that has trained for so many seconds."""
    used = f", {seconds / 60:.1f} of them used" if plan.budget_seconds and seconds else ""
    trained = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
    trainer = experiment.trainer
    return (
        f"model: {trained / 1e6:.2f} M trained parameters; global batch "
        f"{counted(plan.samples_per_step, 'segment')} = {counted(plan.world_size, 'rank')} x "
        f"{experiment.bsz.local} x {counted(trainer.accumulate_grad_batches, 'batch', 'batches')}; "
        f"until {plan.end or 'stopped'}{used}; validation every {counted(trainer.val_interval, 'step')}"
    )


def _finished(plan: RunPlan, step: int, seconds: float) -> str:
    """That a run is at its end after so many seconds of training, and which flag takes it further."""
    if plan.max_steps == step:
        limit, further = limit_texts(step, plan.max_steps, plan.epochs)
        return f"run: finished at step {step} of {limit}; {further}"
    used = max(plan.budget_seconds / 60, round(seconds / 60, 1))
    return (
        f"run: finished at step {step} after {used:g} minutes of training (--max-minutes "
        f"{plan.budget_seconds / 60:g}); to go on give --max-minutes more than {used:g}"
    )


def _finish(
    trainer: pl.Trainer, module: TranscriptionModule, saver: CustomModelCheckpoint, say: Speaker
) -> int:
    why = f" ({module.stop_reason})" if module.stop_reason else ""
    best = "" if saver.best_model_score is None else f"; best onset F1 {saver.best_model_score:.4f}"
    kept = f"; state in {saver.last_path}"
    if module.global_step == 0:
        kept = f"; {saver.what_is_kept()}"
    elif module.stopped_by_signal:
        kept += "; the same command goes on from there"
    if saver.last_error is not None:
        kept = f"; its state was NOT saved, {saver.last_path} is older ({saver.last_error})"
    say(f"run: stopped at step {module.global_step}{why}{best}{kept}")
    if saver.received_signal is not None:
        if saver.received_signal == signal.SIGUSR1 and trainer.is_global_zero and saver.last_error is None:
            requeue(os.environ, say)
        return 128 + int(saver.received_signal)
    if module.stopped_by_signal:
        return EXIT_SIGNAL
    return EXIT_OK if saver.last_error is None else EXIT_NOT_SAVED
