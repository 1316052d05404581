"""No dead option: each value that an option or a variable sets changes what a run builds from it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from amt.cli.options import OPTIONS
from amt.config import Experiment
from amt.config.environment import VARIABLES
from amt.data.module import TranscriptionData
from amt.tokenizer import NoteTokenizer
from amt.training import fit
from amt.training.module import TranscriptionModule

Changes = dict[str, Any]

_MEL: Changes = {
    "audio.codec": "melspec",
    "audio.n_mels": 32,
    "model.pre_encoder.type": "none",
    "model.pre_encoder.time_stride": 1,
}
_T5: Changes = {
    **_MEL,
    "model.encoder_type": "t5",
    "model.pre_decoder_type": "none",
    "model.t5_encoder.num_layers": 1,
    "model.t5_encoder.d_ff": 16,
}
_CONFORMER: Changes = {
    **_MEL,
    "model.encoder_type": "conformer",
    "model.pre_decoder_type": "none",
    "model.conformer.num_layers": 1,
    "model.conformer.num_heads": 2,
}
_MOE: Changes = {"model.encoder.ff_type": "moe"}
_OCTAVE: Changes = {"objective.octave_weight": 0.5}
_ROPE: Changes = {"model.encoder.position_encoding": "rope"}

# What the network computes from the same songs: leaf, another value, and what both need to fit together.
NETWORK: list[tuple[str, Any, Changes]] = [
    ("task", "singing_v1", {}),
    ("event_length", 32, {}),
    ("seed", 6, {}),
    ("audio.codec", "spec", {}),
    ("audio.hop_length", 200, {}),
    ("audio.n_mels", 64, {"audio.codec": "melspec"}),
    ("audio.segment_samples", 12000, {}),
    ("model.encoder_type", "t5", _CONFORMER),
    ("model.encoder.num_heads", 4, {}),
    ("model.encoder.position_encoding", "none", {}),
    ("model.encoder.dropout", 0.5, {}),
    ("model.encoder.num_latents", 3, {}),
    ("model.encoder.d_model", 8, {"model.encoder.sca_query_residual": False}),
    ("model.encoder.qk_channels", 8, {}),
    ("model.encoder.v_channels", 8, {}),
    ("model.encoder.num_blocks", 2, {}),
    ("model.encoder.num_local_layers", 2, {}),
    ("model.encoder.num_temporal_layers", 2, {}),
    ("model.encoder.sca_query_residual", True, {}),
    ("model.encoder.sca_feed_forward", True, {}),
    ("model.encoder.attention_to_channel", True, {}),
    ("model.encoder.ff_type", "gmlp", {}),
    ("model.encoder.ff_widening", 3, {}),
    ("model.encoder.moe_num_experts", 3, _MOE),
    ("model.encoder.moe_topk", 1, _MOE),
    ("model.encoder.hidden_act", "relu", {}),
    ("model.encoder.norm_type", "rms_norm", {}),
    ("model.encoder.rope_partial", True, {**_ROPE, "model.encoder.num_heads": 1}),
    ("model.encoder.rope_apply_to_keys", True, _ROPE),
    ("model.encoder.rope_types", "lll", _ROPE),
    ("model.encoder.rope_width", 4, {**_ROPE, "model.encoder.num_heads": 1}),
    ("model.encoder.alibi_scale", 3.0, {"model.encoder.position_encoding": "alibi"}),
    ("model.encoder.init_std", 0.5, {}),
    ("model.t5_encoder.num_heads", 4, _T5),
    ("model.t5_encoder.position_encoding", "none", _T5),
    ("model.t5_encoder.dropout", 0.5, _T5),
    ("model.t5_encoder.num_layers", 2, _T5),
    ("model.t5_encoder.d_ff", 24, _T5),
    ("model.t5_encoder.d_kv", 8, _T5),
    ("model.conformer.num_heads", 4, _CONFORMER),
    ("model.conformer.position_encoding", "none", _CONFORMER),
    ("model.conformer.dropout", 0.5, _CONFORMER),
    ("model.conformer.num_layers", 2, _CONFORMER),
    ("model.conformer.d_ff", 24, _CONFORMER),
    ("model.conformer.conv_kernel", 5, _CONFORMER),
    ("model.conformer.layer_drop", 0.99, _CONFORMER),
    ("model.pre_encoder.type", "conv", {"model.pre_encoder.time_stride": 1}),
    ("model.pre_encoder.out_channels", 4, {}),
    ("model.pre_encoder.time_stride", 1, {}),
    ("model.pre_encoder.harmonics", [0.5, 1.0, 2.0], {}),
    ("model.decoder_type", "multi-t5", {}),
    ("model.pre_decoder_type", "mlp", {}),
    ("model.decoder.d_model", 48, {}),
    ("model.decoder.num_layers", 2, {}),
    ("model.decoder.num_heads", 1, {}),
    ("model.decoder.d_kv", 8, {}),
    ("model.decoder.ff_type", "moe", {}),
    ("model.decoder.ff_widening", 3, {"model.decoder.d_ff": 0}),
    ("model.decoder.moe_num_experts", 3, {"model.decoder.ff_type": "moe"}),
    ("model.decoder.moe_topk", 1, {"model.decoder.ff_type": "moe"}),
    ("model.decoder.moe_act", "relu", {"model.decoder.ff_type": "moe"}),
    ("model.decoder.d_ff", 24, {}),
    ("model.decoder.position_encoding", "trainable", {}),
    ("model.decoder.position_scale", 0.5, {}),
    ("model.decoder.scaled_attention", True, {}),
    ("model.decoder.dropout", 0.5, {}),
    ("model.logit_scale", 0.5, {}),
    ("model.frame_groups", ["voice", "drums"], {}),
    ("model.memory_positions", "none", {}),
    ("model.memory_norm", True, {}),
    ("model.shift_embedding_init", "sinusoid", {}),
    ("objective.frame_weight", 0.5, {}),
    ("objective.frame_until", 1, {}),
    ("objective.soft_shift_ms", 40.0, {}),
    ("objective.moe_balance_weight", 0.5, _MOE),
    ("objective.octave_weight", 0.5, {}),
    ("objective.octave_samples", "unknown", _OCTAVE),
    ("objective.chroma_weight", 0.5, {}),
    ("objective.blank_weight", 0.5, {}),
    ("objective.onset_weight", 0.5, {}),
    ("objective.boundary_weight", 0.5, {}),
    ("objective.boundary_width", 4, {"objective.boundary_weight": 0.5}),
    ("objective.label_smoothing", 0.1, {}),
    ("objective.class_weights", ["pitch=2"], {}),
    ("objective.term_weights", ["token_ce=0.5"], {}),
    ("objective.term_start", ["octave=3"], _OCTAVE),
    ("objective.term_ramp", ["octave=100"], _OCTAVE),
]  # fmt: skip
TOGETHER: dict[str, Changes] = {
    "model.decoder_type": {
        "task": "mc13_256",
        "model.pre_decoder_type": "mc_shared_linear",
        "model.encoder.num_latents": 13,
        "event_length": 256,
    },
}
"""What a value brings with it."""

_WEIGHTED: Changes = {"data.presets": ["sines", "more"], "dynamic_dataset_weighting.enabled": True}
_FOREIGN: Changes = {"augmentation.xaug_tau": 0.01, "augmentation.xaug_no_instr_overlap": False}

# What the loaders give.
DATA: list[tuple[str, Any, Changes]] = [
    ("data.presets", ["sines", "more"], {}),
    ("bsz.sub", 1, {}),
    ("bsz.local", 4, {}),
    ("data.validation_files", 1, {}),
    ("dataio.num_workers", 2, {}),
    ("dataio.prefetch_factor", 3, {"dataio.num_workers": 2}),
    ("dataio.persistent_workers", False, {"dataio.num_workers": 2}),
    ("augmentation.amp_range", [0.1, 0.2], {}),
    ("augmentation.stem_keep_prob", 1.0, {}),
    ("augmentation.xaug_max_k", 4, {}),
    ("augmentation.xaug_tau", 0.01, {}),
    ("augmentation.xaug_alpha", 3.0, {}),
    ("augmentation.xaug_no_instr_overlap", False, {"augmentation.xaug_tau": 0.01}),
    ("augmentation.xaug_intra_stem", False, _FOREIGN),
    ("augmentation.xaug_max_subunit_stems", 1, {}),
    ("augmentation.pitch_shift_range", [0.0, 0.0], {}),
    ("augmentation.pitch_shift_method", "stretch", {}),
    ("augmentation.pitch_shift_detune", 0.5, {}),
    ("augmentation.noise_prob", 1.0, {}),
    ("augmentation.noise_snr_range", [1.0, 2.0], {"augmentation.noise_prob": 1.0}),
    ("augmentation.reverb_prob", 1.0, {}),
    ("augmentation.eq_prob", 1.0, {}),
    ("augmentation.codec_prob", 1.0, {}),
    ("augmentation.negative_share", 1.0, {}),
]  # fmt: skip

# What is built around the network when a run starts.
RUN: list[tuple[str, Any, Changes]] = [
    ("project", "other", {}),
    ("optimizer.name", "AdamWScale", {}),
    ("optimizer.learning_rate", 1e-3, {}),
    ("optimizer.scale_lr", "sqrt", {}),
    ("optimizer.weight_decay", 0.1, {}),
    ("optimizer.betas", [0.8, 0.9], {}),
    ("optimizer.freeze", ["encoder"], {}),
    ("optimizer.lr_decay", 0.5, {}),
    ("optimizer.ema_decay", 0.9, {}),
    ("lr_schedule.name", "constant", {}),
    ("lr_schedule.warmup_steps", 3, {}),
    ("lr_schedule.final_cosine", 1e-4, {}),
    ("trainer.max_steps", 5, {}),
    ("trainer.max_epochs", 7, {"trainer.max_steps": -1, "trainer.max_epochs": 3}),
    ("trainer.max_minutes", 3.0, {}),
    ("data.samples_per_epoch", 4, {}),
    ("trainer.val_interval", 2, {}),
    ("trainer.accumulate_grad_batches", 2, {}),
    ("trainer.gradient_clip", 0.5, {}),
    ("trainer.find_unused_parameters", True, {"trainer.devices": "2"}),
    ("trainer.precision", "bf16-mixed", {}),
    ("trainer.num_threads", 2, {}),
    ("trainer.write_model_output", True, {}),
    ("trainer.max_consecutive_nonfinite", 9, {}),
    ("trainer.nan_lr_shrink_factor", 0.25, {}),
    ("checkpoint.save_top_k", 2, {}),
    ("checkpoint.filename", "{step}-{validation/macro_onset_f:.2f}", {}),
    ("checkpoint.save_before_val", True, {}),
    ("checkpoint.save_every_n_train_steps", 2, {}),
    ("checkpoint.reset_topk_on_resume", True, {}),
    ("wandb.mode", "offline", {}),
    ("wandb.minimal", False, {"wandb.mode": "offline"}),
    ("wandb.tensorboard", True, {}),
    ("bsz.validation", 2, {}),
    ("dynamic_dataset_weighting.enabled", True, {"data.presets": ["sines", "more"]}),
    ("dynamic_dataset_weighting.metric", "onset_f", _WEIGHTED),
    ("dynamic_dataset_weighting.ema", 0.5, _WEIGHTED),
    ("dynamic_dataset_weighting.momentum", 0.9, _WEIGHTED),
    ("dynamic_dataset_weighting.min_factor", 0.9, _WEIGHTED),
    ("dynamic_dataset_weighting.max_factor", 1.1, _WEIGHTED),
]  # fmt: skip

# Effects that other tests see, and where.
ELSEWHERE = {
    "init_ckpt": ("training/test_identity.py", "init_ckpt"),
    "init_include": ("training/test_warm_start.py", "include"),
    "init_exclude": ("training/test_warm_start.py", "exclude"),
    "pretrained_t5": ("model/test_pretrained_t5.py", "load_pretrained_t5"),
    "objective.hide_octaves": ("training/test_terms_in_runs.py", "hide_octaves"),
    "inference.overlap": ("inference/test_transcriber.py", "overlap"),
    "inference.pitch_check": ("inference/test_pitch_check.py", "pitch_check"),
    "bsz.test": ("inference/conftest.py", "test="),
    "augmentation.xaug_include_singing": ("data/test_segments.py", "xaug_include_singing"),
    "augmentation.xaug_no_drum_overlap": ("data/test_augment.py", "no_drum_overlap"),
    "model.encoder.d_latent": ("model/test_perceiver_tf.py", "d_latent"),
    "rl.enabled": ("rl/test_runs.py", "rl__enabled"),
    "rl.weight": ("rl/test_runs.py", "rl__weight"),
    "rl.start": ("rl/test_runs.py", "rl__start"),
    "rl.reward": ("rl/test_reward.py", "note_f"),
    "rl.baseline": ("rl/test_baselines.py", "greedy"),
    "rl.num_samples": ("rl/test_rollout.py", "num_samples"),
    "rl.temperature": ("rl/test_rollout.py", "temperature"),
    "rl.top_p": ("rl/test_rollout.py", "top_p"),
    "rl.max_tokens": ("rl/test_rollout.py", "max_tokens"),
    "rl.entropy_weight": ("rl/test_rollout.py", "entropy_weight"),
    "rl.kl_weight": ("rl/test_rollout.py", "kl_weight"),
    "rl.clip": ("rl/test_rollout.py", "clip"),
    "rl.ema_decay": ("rl/test_baselines.py", "ema_decay"),
    "trainer.activation_checkpointing": ("training/test_model_switches.py", "activation_checkpointing"),
    "trainer.compile": ("training/test_compiling.py", "compile"),
    "trainer.validate_before_fit": ("training/test_runs.py", "validate_before_fit"),
    "trainer.num_nodes": ("training/test_trainer.py", "num_nodes"),
    "trainer.devices": ("training/test_trainer.py", "devices"),
    "trainer.sync_batchnorm": ("training/test_trainer.py", "sync_batchnorm"),
    "wandb.examples": ("training/test_media.py", "wandb__examples"),
    "trainer.min_grad_scale": ("training/test_nonfinite.py", "GradScalerMinScaleGuard"),
}
"""Leaf to the test file and a word of the test."""

ONLY_CHECKED = {"trainer.strategy"}
"""``-st``: both names mean the same, ``test_trainer.py``; how many processes there are is said by ``-g`` and
the launcher."""


def test_every_value_that_can_be_set_stands_in_a_table() -> None:
    settable = {leaf for option in OPTIONS for leaf in option.targets}
    settable |= {leaf for variable in VARIABLES for leaf in variable.targets}
    here = {leaf for leaf, _, _ in (*NETWORK, *DATA, *RUN)}
    assert settable - here - set(ELSEWHERE) == ONLY_CHECKED, "say which test sees the effect of a new option"
    assert not here & set(ELSEWHERE)
    for leaf, (file, word) in ELSEWHERE.items():
        assert word in (Path(__file__).parents[1] / file).read_text(encoding="utf-8"), leaf


def pair(tiny: Any, leaf: str, value: Any, needs: Changes) -> tuple[Experiment, Experiment]:
    """The tiny run before and after the change."""
    before = tiny.experiment(**needs)
    after = tiny.experiment(**{**needs, **TOGETHER.get(leaf, {}), leaf: value})
    assert before != after, "another value than the tiny run's"
    return before, after


def numbers(value: Any) -> Any:
    """Something comparable of a value with tensors in it."""
    if isinstance(value, Tensor):
        return (tuple(value.shape), value.double().abs().sum().item(), value.double().cumsum(-1).sum().item())
    if dataclasses.is_dataclass(value):
        return tuple(numbers(getattr(value, item.name)) for item in dataclasses.fields(value))
    return value


def first_batch(experiment: Experiment, home: Path) -> Any:
    loader = TranscriptionData(experiment, NoteTokenizer.from_experiment(experiment), home).train_dataloader()
    return next(iter(loader))


def network(experiment: Experiment, home: Path) -> Any:
    """The weights at the start, the logits and the losses of a training step, at step 0 and later.

    The logits too: a small change of them can be lost in the last digit of a loss."""
    batch = first_batch(experiment, home)
    torch.manual_seed(experiment.seed)
    module = TranscriptionModule(experiment, NoteTokenizer.from_experiment(experiment))
    weights = [numbers(parameter.detach()) for parameter in module.model.parameters()]
    torch.manual_seed(0)
    outputs = module.train()._forward(batch)
    losses = [module.objective(outputs, step)[0].item() for step in (0, 5)]
    return weights, numbers(outputs.logits.detach()), losses, module.tokenizer.sequence_length


@pytest.mark.parametrize(("leaf", "value", "needs"), NETWORK, ids=[leaf for leaf, _, _ in NETWORK])
def test_network(tiny: Any, sines: Path, leaf: str, value: Any, needs: Changes) -> None:
    before, after = pair(tiny, leaf, value, needs)
    assert network(before, sines) != network(after, sines)


def test_the_same_network_is_the_same(tiny: Any, sines: Path) -> None:
    assert network(tiny.experiment(), sines) == network(tiny.experiment(), sines)


def loaders(experiment: Experiment, home: Path) -> Any:
    """What the loaders are, and what the first batches hold when this process makes them."""
    data = TranscriptionData(experiment, NoteTokenizer.from_experiment(experiment), home)
    built = [
        (
            loader.num_workers,
            loader.prefetch_factor,
            loader.persistent_workers,
            len(loader.dataset) if number else 0,
        )
        for number, loader in enumerate((data.train_dataloader(), data.val_dataloader()))
    ]
    if experiment.dataio.num_workers:
        return built
    batches = iter(data.train_dataloader())
    return built, [numbers(next(batches)) for _ in range(6)]


@pytest.mark.parametrize(("leaf", "value", "needs"), DATA, ids=[leaf for leaf, _, _ in DATA])
def test_data(tiny: Any, sines: Path, tmp_path: Path, leaf: str, value: Any, needs: Changes) -> None:
    home = sines
    if leaf == "data.presets":
        home = tiny.make_store(tmp_path)
        (tmp_path / "more").symlink_to(tmp_path / "sines")
    before, after = pair(tiny, leaf, value, {"bsz.local": 2, "augmentation.xaug_max_k": 2, **needs})
    assert loaders(before, home) != loaders(after, home)


def _factors(weights: Any) -> Any:
    """The factors that two validations give the data sets."""
    if weights is None:
        return None
    for samples, worse in ((0, 0.0), (100, 0.6)):
        weights.observe(
            {
                "validation/(sines)frame_f": 0.9,
                "validation/(more)frame_f": worse,
                "validation/(sines)onset_f": 0.1,
                "validation/(more)onset_f": 0.2,
            },
            samples,
        )
    return dict(weights.factors)


class Built(Exception):
    """Everything is there; nothing is trained."""


def start(
    tiny: Any, experiment: Experiment, home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """What a run of ``experiment`` has built when it would begin to train."""
    seen: dict[str, Any] = {}
    build_module, build_trainer = fit._build_module, fit.build_trainer

    def record_module(*args: Any, **options: Any) -> TranscriptionModule:
        seen["module"] = build_module(*args, **options)
        return seen["module"]

    def record_trainer(*args: Any, **options: Any) -> Any:
        trainer = build_trainer(*args, **options)
        module = seen["module"]
        [group, *more] = module.configure_optimizers()["optimizer"].param_groups
        settings = {key: value for key, value in group.items() if key not in ("params", "lr")}
        rates = [module.schedule.rate(step) for step in range(12)]
        savers = [
            vars(item)["config"]
            for item in options["callbacks"]
            if type(item).__name__ == "CustomModelCheckpoint"
        ]
        clips: list[float] = []
        module.trainer = trainer
        monkeypatch.setattr(module.guard, "decide", lambda _, **options: clips.append(options["clip"]))
        module.configure_gradient_clipping(module.schedule.optimizer)
        seen["built"] = (
            type(module.schedule.optimizer).__name__,
            len(group["params"]),
            settings,
            len(more),
            rates,
            module.plan,
            type(module.schedule).__name__,
            [type(item).__name__ for item in options["callbacks"]],
            [(type(item).__name__, str(item.name)) for item in options["loggers"]],
            savers,
            (
                trainer.max_steps,
                trainer.val_check_interval,
                trainer.accumulate_grad_batches,
                trainer.precision,
            ),
            (module.guard.shrink_factor, module.guard.max_consecutive),
            _factors(module.data_weights),
            (module.validator._batch_size, module.validator._write_output is None),
            torch.get_num_threads(),
            clips,
            getattr(trainer.strategy, "_ddp_kwargs", {}).get("find_unused_parameters"),
        )
        raise Built

    def record_wandb(config: Any, *args: Any) -> Any:
        from amt.training.tensorboard import TensorBoardLogger

        return TensorBoardLogger(folder, f"W&B {config.mode} {config.minimal}", "e")

    monkeypatch.setattr(fit, "_build_module", record_module)
    monkeypatch.setattr(fit, "build_trainer", record_trainer)
    monkeypatch.setattr("amt.training.logger._start_wandb", record_wandb)
    decision = fit.RunDecision("scratch", None, "a test", 0, False)
    with pytest.raises(Built):
        fit.run_training(experiment, decision, fit.RunPaths(folder, home))
    monkeypatch.undo()
    torch.set_num_threads(1)
    return seen["built"]


@pytest.mark.parametrize(("leaf", "value", "needs"), RUN, ids=[leaf for leaf, _, _ in RUN])
def test_run(
    tiny: Any,
    sines: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    leaf: str,
    value: Any,
    needs: Changes,
) -> None:
    before, after = pair(tiny, leaf, value, needs)
    if not (sines / "more").exists():
        (sines / "more").symlink_to(sines / "sines")
    first = start(tiny, before, sines, tmp_path / "p" / "one", monkeypatch)
    assert first != start(tiny, after, sines, tmp_path / "p" / "two", monkeypatch)
