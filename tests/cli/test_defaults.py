"""What a bare ``train.py EXP`` is: the values that the config holds and ``--help`` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amt.cli.assemble import resolve
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.cli.train import main, option_defaults
from amt.config.environment import read_environment
from amt.config.experiment import Experiment
from amt.config.leaves import leaves
from amt.config.presets import combine_presets

# The published configuration (its audio, network, mixing and logging tables), and where this one departs: the
# segment of 4.096 s, batches, augmentation, loader, warm-up, checkpoints, ddp.
TABLE: dict[str, Any] = {
    "project": "ymt3",
    "task": "mt3_full_plus",
    "event_length": 1024,
    "audio.codec": "melspec",
    "audio.sample_rate": 16000,
    "audio.segment_samples": 65534,
    "audio.hop_length": 128,
    "audio.n_fft": 2048,
    "audio.n_mels": 512,
    "audio.f_min": 50.0,
    "audio.f_max": 8000.0,
    "model.encoder_type": "t5",
    "model.decoder_type": "t5",
    "model.pre_encoder.type": "none",
    "model.pre_encoder.out_channels": 128,
    "model.pre_decoder_type": "none",
    "model.encoder.num_latents": 24,
    "model.encoder.d_latent": 128,
    "model.encoder.d_model": 128,
    "model.encoder.qk_channels": 128,
    "model.encoder.v_channels": 128,
    "model.encoder.num_heads": 8,
    "model.encoder.num_blocks": 3,
    "model.encoder.num_local_layers": 2,
    "model.encoder.num_temporal_layers": 2,
    "model.encoder.sca_query_residual": False,
    "model.encoder.attention_to_channel": True,
    "model.encoder.ff_type": "mlp",
    "model.encoder.ff_widening": 1,
    "model.encoder.moe_num_experts": 4,
    "model.encoder.moe_topk": 2,
    "model.encoder.hidden_act": "gelu",
    "model.encoder.norm_type": "layer_norm",
    "model.encoder.position_encoding": "trainable",
    "model.encoder.rope_types": "ppl",
    "model.encoder.rope_apply_to_keys": False,
    "model.encoder.rope_partial": False,
    "model.encoder.dropout": 0.1,
    "model.encoder.init_std": 0.02,
    "model.t5_encoder.num_heads": 6,
    "model.t5_encoder.d_kv": 64,
    "model.t5_encoder.num_layers": 8,
    "model.t5_encoder.d_ff": 1024,
    "model.t5_encoder.dropout": 0.05,
    "model.t5_encoder.position_encoding": "sinusoidal",
    "model.conformer.num_heads": 8,
    "model.conformer.num_layers": 8,
    "model.conformer.d_ff": 512,
    "model.conformer.conv_kernel": 31,
    "model.conformer.dropout": 0.1,
    "model.conformer.layer_drop": 0.1,
    "model.conformer.position_encoding": "rotary",
    "model.decoder.d_model": 512,
    "model.decoder.num_heads": 6,
    "model.decoder.d_kv": 64,
    "model.decoder.num_layers": 8,
    "model.decoder.ff_type": "t5_gmlp",
    "model.decoder.ff_widening": 2,
    "model.decoder.dropout": 0.05,
    "model.decoder.position_encoding": "sinusoidal",
    "data.presets": ("musicnet_thickstun_ext_em",),
    "data.samples_per_epoch": 90000,
    "bsz.sub": 36,
    "bsz.local": 36,
    "bsz.validation": 36,
    "bsz.test": 36,
    "dataio.num_workers": 32,
    "dataio.prefetch_factor": 4,
    "dataio.persistent_workers": True,
    "dataio.pin_memory": True,
    "augmentation.amp_range": (0.7, 1.3),
    "augmentation.stem_keep_prob": 0.15,
    "augmentation.xaug_max_k": 2,
    "augmentation.xaug_tau": 0.5,
    "augmentation.xaug_alpha": 1.0,
    "augmentation.xaug_no_instr_overlap": True,
    "augmentation.xaug_no_drum_overlap": True,
    "augmentation.xaug_intra_stem": True,
    "augmentation.xaug_max_subunit_stems": 12,
    "augmentation.xaug_include_singing": 0.0,
    "augmentation.pitch_shift_range": (-6.0, 6.0),
    "dynamic_dataset_weighting.enabled": False,
    "optimizer.name": "AdamWScale",
    "optimizer.learning_rate": None,
    "lr_schedule.name": "cosine",
    "lr_schedule.final_cosine": 1e-5,
    "trainer.max_steps": -1,
    "trainer.val_interval": 1000,
    "trainer.gradient_clip": 1.0,
    "trainer.accumulate_grad_batches": 1,
    "trainer.precision": "bf16-mixed",
    "trainer.strategy": "ddp",
    "trainer.num_nodes": 1,
    "trainer.devices": "auto",
    "trainer.sync_batchnorm": False,
    "trainer.write_model_output": False,
    "checkpoint.monitor": "validation/macro_onset_f",
    "checkpoint.mode": "max",
    "checkpoint.save_top_k": 7,
    "wandb.mode": "online",
}

SHOWN = """
-p ymt3 | -tk mt3_full_plus | -d musicnet_thickstun_ext_em | -el 1024 | -bsz 36 36 | -se 90000
-ac melspec | -hop 128 | -nmel 512 | -if 65534 | -enc t5 | -dec t5 | -preenc none | -predec none | -cout 128
-nl 24 | -dl 128 | -dpm 128 | -pqk 128 | -pvc 128 | -npb 3 | -npl 2 | -npt 2 | -sqr false | -atc true
-ff mlp | -wf 1 | -nmoe 4 | -kmoe 2 | -act gelu | -ln layer_norm | -epe sinusoidal | -dpe sinusoidal
-rp false | -rk false | -rt ppl | -edr 0.05 | -ddr 0.05 | -dff t5_gmlp | -dwf 2
-it -1 | -vit 1000 | -lr | -o AdamWScale | -s cosine | -gc 1 | -acc 1
-pr bf16-mixed | -st ddp | -n 1 | -g auto | -sb false | -w false | -wb online
-amp 0.7 1.3 | -iaug 0.15 | -xk 2 | -xtau 0.5 | -xalpha 1 | -xnio true | -xndo true | -xiaug true | -ps -6 6
"""
"""Flags with the default that ``--help`` shows; ``-lr`` has that of the optimizer."""


def test_the_records_hold_the_table() -> None:
    for experiment in (
        Experiment(),
        resolve("exp", parse(["exp"], OPTIONS), read_environment({})).experiment,
    ):
        values = dict(leaves(experiment))
        assert {leaf: values[leaf] for leaf in TABLE} == TABLE
        assert experiment.lr_schedule.num_warmup_steps == 500


def test_help_shows_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    shown = option_defaults()
    by_name = {name: option for option in OPTIONS for name in option.names}
    for item in SHOWN.strip().replace("\n", " | ").split(" | "):
        name, _, default = item.partition(" ")
        option = by_name[name]
        assert shown[option.long] == default, name
        part = text[text.index(f" {', '.join(option.names)} ") :]
        assert not default or f"(default: {default})" in part[:700], name


def test_the_data_are_a_known_preset(tmp_path: Path) -> None:
    assert combine_presets(Experiment().data.presets, tmp_path).presets == ("musicnet_thickstun_ext_em",)
