"""Configuration files and --set: where values come from, what is refused, and that a run can be repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from amt.cli.assemble import Resolved, describe, resolve
from amt.cli.config_file import kinds
from amt.cli.options import OPTIONS
from amt.cli.parser import UsageError, parse
from amt.cli.precedence import resume
from amt.cli.train import main
from amt.config.environment import read_environment
from amt.config.experiment import Experiment
from amt.config.leaves import leaves
from amt.model.checkpoint_content import weights_only_content, write_with_sidecar


def built(*words: str, environ: dict[str, str] | None = None) -> Resolved:
    command = parse(["exp", *words], OPTIONS)
    return resolve("exp", command, read_environment(environ or {}))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A file that builds on two others, in folders with a space."""
    folder = tmp_path / "my runs é"
    (folder / "shared").mkdir(parents=True)
    (folder / "shared" / "network.yaml").write_text(
        "model: {encoder_type: perceiver-tf, encoder: {num_latents: 12, rope_types: ppl}}\n"
        "TRAINER:\n  max_steps: 10\n  precision: 32\n",
        encoding="utf-8",
    )
    (folder / "rate.yaml").write_text("OPTIMIZER:\n  learning_rate: 1e-4\nTRAINER: {max_steps: 11}\n")
    (folder / "run.yaml").write_text(
        "bases: [shared/network.yaml, rate.yaml]\n"
        "exp_id: named\n"
        "project: other\n"
        "trainer:\n  val_interval: 5   # in small letters too\n"
        "augmentation:\n  amp_range: [0.5, 1]\n"
        "AUGMENTATION:\n"
        "data: {presets: quickstart}\n"
    )
    return folder


def test_a_file_with_bases(files: Path) -> None:
    one = built("--config", str(files / "run.yaml"))
    experiment = one.experiment
    assert experiment.exp_id == "exp", "the command line's name holds"
    assert experiment.project == "other"
    assert experiment.model.encoder.num_latents == 12
    assert experiment.trainer.max_steps == 11, "the later base wins"
    assert experiment.trainer.precision == "32"
    assert experiment.trainer.val_interval == 5
    assert experiment.optimizer.learning_rate == 1e-4, "YAML itself takes 1e-4 for text"
    assert experiment.augmentation.amp_range == (0.5, 1.0)
    assert experiment.data.presets == ("quickstart",)
    assert one.origin("optimizer.learning_rate") == f"--config {files / 'rate.yaml'}"
    assert one.origin("model.encoder.num_latents") == f"--config {files / 'shared' / 'network.yaml'}"
    assert one.origin("trainer.val_interval") == f"--config {files / 'run.yaml'}"
    assert f"from --config {files / 'run.yaml'}:" in describe(one)


def test_order_of_precedence(files: Path) -> None:
    (files / "more.yaml").write_text("TRAINER: {val_interval: 6, max_steps: 12, num_nodes: 1}")
    words = [
        "--recipe",
        "quickstart",
        "--config",
        str(files / "run.yaml"),
        "--config",
        str(files / "more.yaml"),
    ]
    one = built(*words, environ={"AMT_NUM_WORKERS": "5"})
    assert one.experiment.trainer.val_interval == 6
    assert one.experiment.optimizer.learning_rate == 1e-4, "a file stands above a recipe"
    assert one.experiment.bsz.local == 8, "and leaves it what it does not name"
    flagged = built(*words, "-vit", "7", "--set", "trainer.max_steps=13", "BSZ.local=16")
    assert flagged.experiment.trainer.val_interval == 7
    assert flagged.experiment.trainer.max_steps == 13
    assert flagged.experiment.bsz.local == 16
    assert flagged.origin("bsz.local") == "--set"
    assert flagged.origin("trainer.val_interval") == "-vit"
    (files / "more.yaml").write_text("dataio: {num_workers: 3}")
    assert built(*words).experiment.dataio.num_workers == 3
    assert built(*words, environ={"AMT_NUM_WORKERS": "5"}).experiment.dataio.num_workers == 5


def test_a_file_with_a_schedule_leaves_the_recipes_warm_up_behind(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("lr_schedule: {name: constant}")
    words = ["--recipe", "quickstart", "--config", str(tmp_path / "a.yaml")]
    assert built(*words).experiment.lr_schedule.num_warmup_steps == 0
    assert built("--recipe", "quickstart", "-o", "Adafactor").experiment.optimizer.betas == (0.9, 0.999)


def test_set_reads_every_kind() -> None:
    line = (
        "--set augmentation.amp_range=0.5,1.5 lr_schedule.warmup_steps=3 trainer.sync_batchnorm=true "
        "--set data.presets=[one,two] trainer.devices=2 model.encoder_type=perceiver-tf "
        "--set model.encoder.position_encoding=rope "
        "--set model.encoder.rope_types=lll inference.overlap=5e-1 init_ckpt=some=name.ckpt "
        "-vit 3 --set trainer.val_interval=4"
    )
    one = built(*line.split()).experiment
    assert one.augmentation.amp_range == (0.5, 1.5)
    assert one.lr_schedule.warmup_steps == 3
    assert one.trainer.sync_batchnorm is True
    assert one.data.presets == ("one", "two")
    assert one.trainer.devices == "2"
    assert one.model.encoder.rope_types == "lll"
    assert one.inference.overlap == 0.5
    assert one.init_ckpt == "some=name.ckpt"
    assert one.trainer.val_interval == 4, "the last one holds"
    assert built("--set", "trainer.val_interval=4", "-vit", "3").experiment.trainer.val_interval == 3
    assert (
        built("-vit", "1", "--set", "trainer.val_interval=4", "-vit", "3").experiment.trainer.val_interval
        == 3
    )
    chosen = built("--set", "model.encoder_type=t5", "audio.codec=melspec", "--num-heads", "4").experiment
    assert chosen.model.t5_encoder.num_heads == 4


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("trainer.max_steps", ["group.key=value"]),
        ("trainer.max_step=3", ["trainer.max_step", "trainer.max_steps"]),
        ("num_latents=3", ["model.encoder.num_latents"]),
        ("qqqqqq=3", ["--print-config"]),
        ("trainer=3", ["is a group", "trainer.max_steps"]),
        ("trainer.max_steps=many", ["trainer.max_steps", "whole number"]),
        ("bsz.sub=1.5", ["bsz.sub", "whole number"]),
        ("augmentation.amp_range=1", ["2 values"]),
        ("trainer.sync_batchnorm=2", ["true or false"]),
        ("trainer.max_steps=1e400", ["trainer.max_steps", "whole number"]),
        ("trainer.max_steps=true", ["trainer.max_steps", "whole number"]),
        ("optimizer.learning_rate=.inf", ["optimizer.learning_rate", "a number"]),
        ("optimizer.learning_rate=.nan", ["optimizer.learning_rate", "a number"]),
        ("data.presets=[", ["--set data.presets", "YAML"]),
        ("data.presets=", ["-d", "empty"]),
        ("wandb.mode=off", ["'off'", "'offline'"]),
        ("exp_id=b", ["goes first"]),
        ("model.encoder.num_latents=3 -enc t5 -ac melspec", ["-enc t5"]),
    ],
)
def test_set_refuses(text: str, parts: list[str]) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        built("--set", *text.split())
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("trainer: {max_step: 3}", ["trainer.max_step", "'trainer.max_steps'"]),
        ("trane: {a: 1}", ["'trane'", "'trainer'"]),
        ("trainer: 3", ["is a group"]),
        ("a: [", ["line 1", "no YAML"]),
        ("trainer:\n  max_steps: x", ["trainer.max_steps", "whole number", "'x'"]),
        ("trainer:\n  max_steps: 1\n  max_steps: 2", ["line 3", "line 2"]),
        ("bases: [nofile.yaml]", ["nofile.yaml", "bases"]),
        ("bases: {a: 3}", ["bases must be a list"]),
        ("bases: bad.yaml", ["builds on itself"]),
        ("- 1", ["keys and values"]),
        ("wandb: {mode: wrong}", ["wrong"]),
        ("format: 99", ["update amt"]),
        ("a: !!python/object:os.system {}", ["no YAML"]),
        ("? [a, b]\n: c", ["line 1", "a key is a word"]),
        ("trainer: {max_steps: 5}\nTRAINER: {max_steps: 6}", ["trainer.max_steps", "twice"]),
        ("trainer.max_steps: 5\ntrainer: {max_steps: 6}", ["trainer.max_steps", "twice"]),
        ("[" * 3000, ["too many levels"]),
        ("trainer: {max_steps: 1:30}", ["trainer.max_steps", "whole number", "'1:30'"]),
        ("trainer: {max_steps: 1_000}", ["trainer.max_steps", "whole number", "'1_000'"]),
        ("trainer: {max_steps: }", ["trainer.max_steps", "whole number", "nothing"]),
        ("trainer:\n\tmax_steps: 5", ["line 2", "no YAML"]),
        ("trainer: &a {trainer: *a}", ["no YAML", "recursive"]),
    ],
)
def test_bad_files_are_one_sentence_with_the_file(
    text: str, parts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.yaml").write_text(text, encoding="utf-8")
    assert main(["exp", "--config", str(tmp_path / "bad.yaml"), "--print-config"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    if "wrong" not in text:
        assert "bad.yaml" in error
    for part in parts:
        assert part in error


def test_a_missing_file_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"no such\.yaml cannot be read"):
        built("--config", "no such.yaml")


def test_the_resolved_configuration_runs_again(files: Path) -> None:
    first = built("--recipe", "quickstart", "--config", str(files / "run.yaml"), "-vit", "9")
    record = {"experiment": first.experiment.to_dict(), "origins": dict(first.origins)}
    (files / "config.json").write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    assert built("--config", str(files / "config.json")).experiment == first.experiment
    default = built("--config", str(files / "config.json"), "--set", "project=third")
    changed = {
        leaf for leaf, value in leaves(default.experiment) if value != dict(leaves(first.experiment))[leaf]
    }
    assert changed == {"project"}


def test_the_file_beside_a_converted_checkpoint_is_one(files: Path) -> None:
    experiment = built("--config", str(files / "run.yaml")).experiment
    content = weights_only_content(experiment, {}, "mine", {"file": "a.ckpt"}, 3, 1)
    write_with_sidecar(files / "converted.ckpt", content)
    assert built("--config", str(files / "converted.json")).experiment == experiment
    facts = json.loads((files / "converted.json").read_text(encoding="utf-8"))
    (files / "typo.json").write_text(json.dumps(facts | {"sourse": 1}), encoding="utf-8")
    with pytest.raises(ValueError, match="unknown key 'sourse'"):
        built("--config", str(files / "typo.json"))


def test_a_name_in_the_file_is_enough(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_LOG_DIR", str(files / "logs"))
    assert main(["--config", str(files / "run.yaml"), "--print-identity"]) == 0
    assert str(files / "logs" / "other" / "named") in capsys.readouterr().out
    assert main(["--config", str(files / "rate.yaml"), "--print-identity"]) == 2
    assert "name is missing" in capsys.readouterr().err


def test_on_resume_a_file_counts_like_flags(files: Path) -> None:
    stored = built("--config", str(files / "run.yaml"), "-nl", "26").experiment
    with pytest.raises(UsageError, match=r"num_latents 12 of --config .*network\.yaml, .* has 26"):
        resume(stored, built("--config", str(files / "run.yaml")))
    with pytest.raises(UsageError, match=r"--set model\.encoder\.num_latents=24, the checkpoint has 26"):
        resume(stored, built("-enc", "perceiver-tf", "--set", "model.encoder.num_latents=24"))
    (files / "later.yaml").write_text("trainer: {max_steps: 99}\noptimizer: {learning_rate: 1.0}")
    resolved, sentences = resume(stored, built("--config", str(files / "later.yaml")))
    assert resolved.experiment.trainer.max_steps == 99
    assert resolved.experiment.optimizer.learning_rate == 1e-4
    assert len(sentences) == 2


def test_every_leaf_has_a_kind() -> None:
    assert set(kinds()) == set(dict(leaves(Experiment())))


def test_words_are_what_is_written() -> None:
    """YAML alone would make a switch of ``off``, a mapping of ``{epoch}`` and a date of 2026-01-01."""
    words = ["checkpoint.filename={epoch}-{step}", "init_ckpt=", "optimizer.freeze=", "project='1.5'"]
    one = built("--set", *words).experiment
    assert one.checkpoint.filename == "{epoch}-{step}"
    assert (one.init_ckpt, one.optimizer.freeze, one.project) == ("", (), "1.5")


def test_words_in_files_are_what_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "project: 2026-01-01\nseed: 010\ntrainer: {precision: 32, sync_batchnorm: yes, devices: 2}\n"
        "optimizer: {learning_rate: null, betas: [0.9, 5e-1]}\n"
    )
    one = built("--config", str(tmp_path / "a.yaml")).experiment
    assert (one.project, one.seed) == ("2026-01-01", 10)
    assert (one.trainer.precision, one.trainer.sync_batchnorm, one.trainer.devices) == ("32", True, "2")
    assert one.optimizer.learning_rate is None
    assert one.optimizer.betas == (0.9, 0.5)


def test_numbers_in_either_form() -> None:
    words = [
        "trainer.max_steps=1e3",
        "dataio.num_workers=4.0",
        "optimizer.weight_decay=1",
        "trainer.devices=2",
    ]
    one = built("--set", *words).experiment
    assert (one.trainer.max_steps, one.dataio.num_workers) == (1000, 4)
    assert repr(one.optimizer.weight_decay) == "1.0"
    assert one.trainer.devices == "2"


def test_predict_holds_all_that_was_said_of_the_model_against_the_checkpoint(files: Path) -> None:
    from amt.cli.from_checkpoint import _COMPARED, _leaves
    from amt.cli.precedence import contradictions

    config = str(files / "shared" / "network.yaml")
    words = ["e", "--set", "model.encoder.num_latents=3", "trainer.max_steps=4", "data.presets=x", "-nl", "5"]
    line = parse([*words, "--model", "yptf_multi", "--config", config], OPTIONS)
    assert list(_leaves(line.given["--set"])) == [
        *("model.encoder.num_latents", "trainer.max_steps", "data.presets"),
    ]
    assert list(_leaves(line.given["--num-latents"])) == ["model.encoder.num_latents"]
    assert "model.decoder_type" in _leaves(line.given["--model"])
    assert "model.encoder.num_latents" in _leaves(line.given["--config"])
    wrong = contradictions(Experiment(), line.given.values(), _COMPARED)
    assert "--set model.encoder.num_latents=3, the checkpoint has 24" in wrong
    assert "-nl 5, the checkpoint has 24" in wrong
    assert "--model model.decoder_type=multi-t5, the checkpoint has t5" in wrong
    assert "--config model.encoder.num_latents=12, the checkpoint has 24" in wrong
    assert not [phrase for phrase in wrong if "data.presets" in phrase]
