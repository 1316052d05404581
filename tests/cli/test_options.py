"""Every option of train.py does what its declaration says."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from amt.cli.assemble import Resolved, option_targets, resolve, show
from amt.cli.options import OPTIONS
from amt.cli.parser import Option, UsageError, parse
from amt.cli.published import UNAVAILABLE
from amt.cli.train import option_defaults
from amt.config.environment import VARIABLES, read_environment
from amt.config.experiment import Experiment
from amt.config.leaves import leaves, replace_leaves
from amt.config.model import ModelConfig
from amt.config.recipes import AUGMENT_PROFILES, RECIPES

STANDARD = (
    "-tk mc13_fsingle -dec t5 -enc perceiver-tf -nl 26 -dl 128 -dpm 128 -pqk 128 -pvc 128 -npb 3 -npl 2 "
    "-npt 2 -sqr 1 -ff mlp -wf 1 -act gelu -epe trainable -rp 0 -ac spec -hop 300 -if 65534 -el 2048 -atc 1 "
    "-bsz 16 16 -it 50000 -vit 1000 -lr 1.5e-4 -o AdamW -s cosine -pr bf16-mixed -st ddp -n 1 -g auto -sb 0 "
    "-amp 0.7 1.3 -iaug 0.15 -xk 2 -xtau 0.5 -ps -2 2 -w true -wb online"
)

# Values that differ from the defaults and fit them; options with one choice only have no other value.
SAMPLES: dict[str, str] = {
    "--project": "other",
    "--init-include": "encoder *norm*",
    "--init-exclude": "decoder",
    "--freeze": "encoder *norm*",
    "--lr-decay": "0.9",
    "--init-ckpt": "some.ckpt",
    "--pretrained-t5": "some/folder",
    "--data-preset": "one two",
    "--train-batch-size": "4 12",
    "--num-gpus": "2",
    "--num-latents": "12",
    "--perceiver-tf-qk-channels": "64",
    "--perceiver-tf-v-channels": "64",
    "--num-heads": "4",
    "--random-amp-range": "0.5 1.5",
    "--pitch-shift-range": "-2 3",
    "--noise-snr": "1 2",
    "--betas": "0.8 0.95",
    "--frame-head": "voice drums",
    "--class-weight": "pitch=2 eos=0.5",
    "--term-weight": "token_ce=0.5",
    "--term-start": "octave=10",
    "--term-ramp": "octave=10",
    "--rl-top-p": "0.5",
    "--rl-ema": "0.5",
    "--harmonics": "0.5 1 2",
    "--n-mels": "256",
    "--input-frames": "98301",
    "--hop-length": "160",
    "--task": "mc13_fsingle_vocal",
    "--encoder-type": "conformer",
    "--decoder-type": "multi-t5 -tk mc13_256 -nl 26",
    "--audio-codec": "spec",
    "--pre-decoder-type": "mlp",
    "--pre-encoder-type": "hftt",
    "--encoder-position-encoding-type": "trainable",
}
NEEDS: dict[str, str] = {
    "--decoder-type": "-enc perceiver-tf",
    "--conv-time-stride": "-enc perceiver-tf -preenc strided",
    "--harmonics": "-enc perceiver-tf -preenc strided -ac logspec",
    "--shift-embedding-init": "--memory-positions sinusoid",
    "--frame-weight": "--frame-head voice",
    "--hide-octaves": "--chroma-weight 1",
    "--pitch-check": "--frame-head voice",
    "--moe-balance-weight": "-enc perceiver-tf -ff moe",
    "--rope-partial-pe": "-enc perceiver-tf -epe rope",
    "--rope-apply-to-keys": "-enc perceiver-tf -epe rope",
    "--rotary-type": "-enc perceiver-tf -epe rope",
    "--rope-width": "-enc perceiver-tf -epe rope",
    "--alibi-scale": "-enc perceiver-tf -epe alibi",
    "--conformer-kernel": "-enc conformer",
    "--layer-drop": "-enc conformer",
}
ALSO: dict[str, set[str]] = {
    "--decoder-type": {"model.pre_decoder_type", "task", "model.encoder.num_latents"},
}
"""Leaves that follow, by default or because the sample must fit together."""


def built(line: str, environ: Mapping[str, str] | None = None) -> Resolved:
    command = parse(["exp", *line.split()], OPTIONS, UNAVAILABLE)
    return resolve(command.words[0], command, read_environment(environ or {}))


def sample(option: Option) -> str:
    if option.long in SAMPLES:
        return SAMPLES[option.long]
    default = dict(leaves(Experiment()))[option.targets[0]]
    if option.choices:
        return next((value for value in option.choices if value != default), option.choices[0])
    if option.kind == "bool":
        return show(not default)
    if option.kind == "int":
        return str(max(int(default or 0), 0) + 2 if option.long != "--conv-time-stride" else 2)
    return str((default or 0) + 0.25)


def _of_perceiver(option: Option) -> bool:
    """Whether the option is about a Perceiver-TF alone, or the convolution and projection around it."""
    if option.long in ("--pre-encoder-type", "--pre-decoder-type", "--audio-codec", "--n-mels", "--d-model"):
        return True
    return all(target.startswith("model.encoder.") for target in option.targets)


SETTING = [option for option in OPTIONS if option.targets]


@pytest.mark.parametrize("option", SETTING, ids=[option.long for option in SETTING])
def test_each_option_changes_what_it_says_and_nothing_else(option: Option) -> None:
    needs = NEEDS.get(option.long, "-enc perceiver-tf" if _of_perceiver(option) else "")
    before = dict(leaves(built(needs).experiment))
    for name in option.names:
        after = built(f"{needs} {name} {sample(option)}")
        values = dict(leaves(after.experiment))
        targets = set(option_targets(option, after.experiment.model.encoder_type))
        changed = {leaf for leaf in values if values[leaf] != before[leaf]}
        if len(option.choices) == 1:
            assert changed == set()
        else:
            assert changed == targets | ALSO.get(option.long, set())
        assert {leaf for leaf, origin in after.origins.items() if origin == name} == targets


def test_every_option_sets_something_or_is_handled() -> None:
    without = {option.long for option in OPTIONS if not option.targets}
    commands = {"--help", "--help-env", "--print-identity", "--print-config", "--recipe", "--augment"}
    commands |= {"--model", "--override-optim", "--config", "--set", "--dry-run"}
    assert without == commands


def test_names_are_unique_and_disjoint_from_the_unavailable() -> None:
    names = [name for option in OPTIONS for name in option.names]
    assert len(names) == len(set(names))
    assert not set(names) & set(UNAVAILABLE)


def test_every_leaf_can_be_set() -> None:
    """A value that nobody can set has no business in the record, but for those fixed by their meaning."""
    fixed = {
        "exp_id",
        "audio.sample_rate",
        "audio.n_fft",
        "audio.f_min",
        "audio.f_max",
        "audio.log_bins",
        "audio.log_bins_per_semitone",
        "audio.log_min_pitch",
        "dataio.pin_memory",
        "checkpoint.monitor",
        "checkpoint.mode",
        "trainer.log_every_n_steps",
    }
    settable = {leaf for option in OPTIONS for leaf in option.targets}
    settable |= {leaf for variable in VARIABLES for leaf in variable.targets}
    assert {leaf for leaf, _ in leaves(Experiment())} == settable | fixed


def test_targets_exist() -> None:
    known = dict(leaves(Experiment()))
    for option in OPTIONS:
        assert set(option.targets) <= set(known), option.long
    for variable in VARIABLES:
        assert set(variable.targets) <= set(known), variable.name
    for recipe in RECIPES.values():
        assert set(recipe) <= set(known)
    for profile in AUGMENT_PROFILES.values():
        assert {f"augmentation.{name}" for name in profile} <= set(known)


def test_standard_command_line() -> None:
    experiment = built(STANDARD).experiment
    assert experiment.event_length == 2048
    assert experiment.audio.num_frames == 219
    assert experiment.model.encoder.num_latents == 26
    assert experiment.model.encoder.sca_query_residual is True
    assert experiment.bsz.local == 16
    assert experiment.optimizer.learning_rate == 1.5e-4
    assert experiment.augmentation.pitch_shift_range == (-2.0, 2.0)
    assert experiment.trainer.write_model_output is True


def test_shown_defaults_are_the_records() -> None:
    defaults = option_defaults()
    assert defaults["--train-batch-size"] == "36 36"
    assert defaults["--pitch-shift-range"] == "-6 6"
    assert defaults["--val-batch-size"] == "36"
    assert defaults["--base-learning-rate"] == ""
    assert defaults["--final-cosine"] == "1e-05"


def test_order_of_precedence() -> None:
    environ = {"AMT_WARMUP_STEPS": "7", "AMT_NUM_WORKERS": "5", "AMT_VAL_BATCH_SIZE": "3"}
    one = built("--recipe quickstart --num-workers 1 --augment light -iaug 0.5", environ)
    assert one.experiment.lr_schedule.warmup_steps == 7
    assert one.experiment.dataio.num_workers == 1
    assert one.experiment.bsz.test == 3
    assert one.experiment.augmentation.stem_keep_prob == 0.5
    assert one.experiment.augmentation.amp_range == (0.9, 1.1)
    assert one.experiment.model.encoder.num_latents == RECIPES["quickstart"]["model.encoder.num_latents"]
    assert one.origin("lr_schedule.warmup_steps") == "AMT_WARMUP_STEPS"
    assert one.origin("dataio.num_workers") == "--num-workers"
    assert one.origin("augmentation.amp_range") == "--augment light"
    assert one.origin("augmentation.stem_keep_prob") == "-iaug"
    assert one.origin("model.encoder.num_latents") == "--recipe quickstart"
    assert one.origin("trainer.num_nodes") == "default"


@pytest.mark.parametrize(
    ("line", "variable", "steps"),
    [
        ("-s cosine", "", 500),
        ("-s constant", "", 0),
        ("-s constant", "7", 7),
        ("-s cosine", "0", 0),
        ("-s linear", "", 0),
        ("--recipe quickstart", "", RECIPES["quickstart"]["lr_schedule.warmup_steps"]),
        ("--recipe quickstart -s constant", "", 0),
        ("--recipe quickstart -s constant", "7", 7),
    ],
)
def test_warmup_belongs_to_the_schedule(line: str, variable: str, steps: int) -> None:
    schedule = built(line, {"AMT_WARMUP_STEPS": variable}).experiment.lr_schedule
    assert schedule.num_warmup_steps == steps


def test_augment_before_or_after_a_flag_is_the_same() -> None:
    assert built("--augment off -xk 3").experiment == built("-xk 3 --augment off").experiment
    assert built("--augment off -xk 3").experiment.augmentation.xaug_max_k == 3


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_recipes_make_an_experiment(name: str) -> None:
    values = dict(leaves(built(f"--recipe {name}").experiment))
    assert {leaf: values[leaf] for leaf in RECIPES[name]} == dict(RECIPES[name])


def test_recipes_frame_head_can_be_taken_away() -> None:
    experiment = built("--recipe quickstart --frame-head none --frame-weight 0 --pitch-check 0").experiment
    assert experiment.model.frame_groups == ()


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("-bsz 5 12", ["-bsz 5 12", "-bsz 4 12", "-bsz 6 12"]),
        ("-enc perceiver-tf -rp 1", ["-rp", "-epe rope"]),
        ("-enc perceiver-tf -rk true", ["-rk", "-epe rope"]),
        ("-enc perceiver-tf -rt lll", ["-rt", "-epe rope"]),
        ("-enc perceiver-tf -epe rope -rt pq", ["-rt", "ppl"]),
        ("-b google/t5-v1_1-small", ["-b", "means nothing here"]),
        ("-df 128", ["-df"]),
        ("-tenc 1", ["-tenc"]),
        ("-tdec 1", ["-tdec"]),
        ("-twe 1", ["-twe"]),
        ("-debug 1", ["-debug"]),
        ("--tie-word-embedding 1", ["-twe"]),
        ("-tk mc13", ["13 channels", "mc13_fsingle"]),
        ("-tk mc13_fsingel", ["mc13_fsingle"]),
        ("-nl 8", ["-nl", "leave it out, or add -enc perceiver-tf"]),
        ("-enc t5 -ac spec", ["-ac melspec -nmel 512", "--d-model 1024"]),
        ("-enc t5 -ac melspec -nmel 128", ["128 bins", "-nmel 512", "--d-model 128"]),
        ("-enc t5 -ac melspec -preenc conv", ["-enc t5", "-preenc none"]),
        ("-enc t5 -ac melspec -predec linear", ["-enc t5", "-predec none"]),
        ("-enc t5 -ac melspec -epe rope", ["-enc t5", "sinusoidal"]),
        ("-enc t5 -ac melspec -nl 8", ["-nl", "-enc perceiver-tf", "leave it out"]),
        ("-enc t5 -ac melspec -tk mc13 -dec multi-t5", ["-enc t5", "-enc perceiver-tf"]),
        ("-enc conformer -ac melspec --num-heads 7", ["--num-heads", "--d-model 512"]),
        ("-enc conformer -ac melspec --conformer-kernel 4", ["--conformer-kernel", "odd"]),
        ("-enc conformer -ac melspec --layer-drop 1", ["--layer-drop"]),
        ("-enc conformer -ac melspec --encoder-d-kv 8", ["--encoder-d-kv", "-enc t5"]),
        ("-enc perceiver-tf --encoder-layers 3", ["--encoder-layers", "t5 and conformer"]),
        ("-enc perceiver-tf -preenc none", ["-enc perceiver-tf", "-preenc conv"]),
        ("-enc perceiver-tf -predec none", ["-predec none", "linear"]),
        (
            "-enc perceiver-tf -predec mc_shared_linear",
            ["-dec t5", "-predec mc_shared_linear", "group_linear"],
        ),
        ("-enc perceiver-tf -predec group_linear -nl 26", ["--d-model 512", "26 latents"]),
        (
            "-enc perceiver-tf -predec conv64 -dpm 32 -dl 32 -pqk 32 -pvc 32",
            ["-predec conv64", "-dpm"],
        ),
        ("-enc perceiver-tf -dec multi-t5", ["-tk mt3_full_plus", "-dec t5", "mc13_full_plus_256"]),
        ("-enc perceiver-tf -dec multi-t5 -tk mc13", ["24 latents", "13 channels", "-nl 26"]),
        (
            "-enc perceiver-tf -dec multi-t5 -tk mc13 -nl 26 -predec linear",
            ["-dec multi-t5", "-predec mc_shared_linear"],
        ),
        ("-enc perceiver-tf -nmel 4", ["-preenc conv", "8 bins"]),
        ("--d-ff -1", ["--d-ff"]),
        ("-ddr 1.5", ["-ddr"]),
        ("-edr -0.1", ["-edr"]),
        ("-enc t5 -ac melspec -edr 1.5", ["-edr"]),
        ("-enc conformer -ac melspec -edr 1.5", ["-edr"]),
        ("-dff moe --d-ff 64", ["--d-ff", "-dff moe", "-dwf"]),
        ("--decoder-moe-topk 9", ["--decoder-moe-topk 9", "--decoder-moe-num-experts 8"]),
        ("--init-ckpt a --pretrained-t5 b", ["--init-ckpt", "--pretrained-t5"]),
        ("-pt 1", ["-pt", "--pretrained-t5"]),
        ("-enc perceiver-tf -dl 64 -sqr 1", ["-dl 64", "-dpm 128"]),
        ("-g 0", ["-g"]),
        ("-o Adam", ["AdamW"]),
        ("-lr 0", ["-lr"]),
        ("-g ²", ["-g", "auto"]),
        ("-n 0", ["-n must be 1 or more"]),
        ("-e 0", ["-e", "epochs or -1"]),
        ("-e -7", ["-e", "epochs or -1"]),
        ("--max-minutes -1", ["--max-minutes"]),
        ("-vit 0", ["-vit"]),
        ("-acc 0", ["-acc"]),
        ("-gc -1", ["-gc must be 0 or more"]),
        ("-wd -0.1", ["-wd"]),
        ("--betas 0.9 1", ["--betas"]),
        ("--betas -1 0.9", ["--betas"]),
        ("--final-cosine -1e-6", ["--final-cosine"]),
        ("--threads -1", ["--threads"]),
        ("--save-top-k -1", ["--save-top-k"]),
        ("--wandb-examples -1", ["--wandb-examples"]),
        ("--num-workers -1", ["--num-workers", "AMT_NUM_WORKERS"]),
        ("-se 0", ["-se"]),
        ("--validation-files -1", ["--validation-files"]),
        ("--seed -1", ["--seed"]),
        (f"--seed {2**32}", ["--seed"]),
        ("-ps -49 2", ["-ps -49 2", "48 semitones"]),
        (f"-ps -1 {'9' * 400}", ["pitch_shift_range", "too large"]),
        ("-xk -1", ["-xk"]),
        ("--pitch-detune -1", ["--pitch-detune"]),
        ("--noise-snr 9 8", ["--noise-snr 9 8", "LO is above HI"]),
        ("-enc perceiver-tf --init-std 0", ["--init-std"]),
        ("--logit-scale 0", ["--logit-scale"]),
        ("--frame-weight 1", ["--frame-head"]),
        ("--frame-head none voice", ["stands alone"]),
        ("--conv-time-stride 2", ["-preenc strided"]),
        ("--recipe quickstat", ["quickstart"]),
    ],
)
def test_refusals_name_the_flag_and_a_way_out(line: str, parts: list[str]) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        built(line)
    for part in parts:
        assert part in str(caught.value)


def test_kinds_follow_encoder_and_decoder() -> None:
    """What is not given, or is given as ``default``, is the kind that goes with the others."""
    for line, kinds in {
        "": ("none", "none"),
        "-enc perceiver-tf": ("conv", "linear"),
        "-enc perceiver-tf -preenc default -predec default -epe default": ("conv", "linear"),
        "-enc perceiver-tf -dec multi-t5 -tk mc13_full_plus_256 -nl 26": ("conv", "mc_shared_linear"),
        "-enc t5 -ac melspec": ("none", "none"),
        "-enc conformer -ac melspec -preenc default": ("none", "none"),
        "-enc perceiver-tf -preenc hftt -predec mlp_gelu": ("hftt", "mlp_gelu"),
        "--recipe quickstart": ("strided", "linear"),
        "--recipe quickstart -dec multi-t5 -tk mc13 -nl 26": ("strided", "mc_shared_linear"),
    }.items():
        model = built(line).experiment.model
        assert (model.pre_encoder.type, model.pre_decoder_type) == kinds, line


def test_shared_flags_set_the_chosen_encoder() -> None:
    line = "--num-heads 4 -edr 0.2 -epe none"
    for kind, record in {"perceiver-tf": "encoder", "t5": "t5_encoder", "conformer": "conformer"}.items():
        model = built(f"-enc {kind} -ac melspec {line}").experiment.model
        chosen = getattr(model, record)
        assert (chosen.num_heads, chosen.dropout, chosen.position_encoding) == (4, 0.2, "none")
        for other in {"encoder", "t5_encoder", "conformer"} - {record}:
            assert getattr(model, other) == getattr(ModelConfig(), other)


def test_replace_leaves_checks_types() -> None:
    with pytest.raises(ValueError, match=r"trainer\.max_steps"):
        replace_leaves(Experiment(), {"trainer.max_steps": "many"})
    with pytest.raises(ValueError, match="unknown key"):
        replace_leaves(Experiment(), {"trainer.max_step": 3})


def test_usage_errors_are_value_errors() -> None:
    assert issubclass(UsageError, ValueError)


NUMBERS = [option for option in OPTIONS if option.kind in ("int", "float")]
ENCODERS = ("perceiver-tf", "t5", "conformer")


@pytest.mark.parametrize("option", NUMBERS, ids=lambda option: option.long)
def test_a_number_that_is_refused_is_named_by_its_flag(option: Option) -> None:
    """Not by the field of a record, which no user has seen."""
    name = re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, option.names))})(?![\w-])")
    large = "1e9" if option.kind == "float" else "1000000001"
    for value in ("-7", "0", "3", large):
        for encoder in ENCODERS:
            words = ["exp", "-enc", encoder, option.long, *[value] * max(1, option.count)]
            said = ""
            try:
                resolve("exp", parse(words, OPTIONS), read_environment({}))
            except ValueError as error:
                said = str(error)
            assert not said or name.search(said), f"{' '.join(words)}: {said}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-nl 0", "-nl must be positive, not 0"),
        ("--d-model -1", "--d-model must be positive, not -1"),
        ("-hop 0", "-hop must be positive, not 0"),
        ("-npl -1", "-npl must be 0 or more, not -1"),
        ("-bsz 0 4", "-bsz SUB must be 1 or more, not 0"),
        ("--val-batch-size 0", r"--val-batch-size \(AMT_VAL_BATCH_SIZE\) must be 1 or more, not 0"),
        ("-iaug 1.5", "-iaug is a probability from 0 to 1, not 1.5"),
        ("-pqk 100", "-pqk 100 does not divide over --num-heads 8"),
    ],
)
def test_what_is_said_of_such_a_number(words: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}$"):
        resolve("exp", parse(["exp", "-enc", "perceiver-tf", *words.split()], OPTIONS), read_environment({}))
