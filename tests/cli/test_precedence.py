"""What holds when a run is resumed."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path

import pytest

from amt.cli.assemble import Resolved, describe, resolve
from amt.cli.options import OPTIONS
from amt.cli.parser import UsageError, parse
from amt.cli.precedence import contradictions, resume, stored_experiment
from amt.config.environment import read_environment
from amt.config.experiment import Experiment

OLD_LINE = (
    "-tk mc13_fsingle -enc perceiver-tf -nl 26 -ac spec -hop 300 -if 65534 -lr 3e-4 -s constant -bsz 4 8 "
    "-it 100 -vit 10 --seed 5 -d quickstart"
)


def built(line: str, environ: dict[str, str] | None = None) -> Resolved:
    command = parse(["exp", *line.split()], OPTIONS)
    return resolve("exp", command, read_environment(environ or {}))


@pytest.fixture(scope="module")
def old() -> Experiment:
    return built(OLD_LINE).experiment


def test_the_same_line_says_nothing(old: Experiment) -> None:
    resolved, sentences = resume(old, built(OLD_LINE))
    assert resolved.experiment == old
    assert sentences == []


def test_a_bare_line_keeps_everything(old: Experiment) -> None:
    resolved, sentences = resume(old, built(""))
    assert resolved.experiment == old
    assert sentences == []
    assert resolved.origin("bsz.local") == "the checkpoint"
    assert "from the checkpoint:" in describe(resolved)


def test_steps_batches_and_logging_follow_the_command_line(old: Experiment) -> None:
    line = "-it 200 -vit 20 -bsz 2 6 --num-workers 1 -wb offline"
    resolved, sentences = resume(old, built(line, {"AMT_SAVE_EVERY_N_TRAIN_STEPS": "7"}))
    assert resolved.experiment.trainer.max_steps == 200
    assert resolved.experiment.trainer.val_interval == 20
    assert (resolved.experiment.bsz.sub, resolved.experiment.bsz.local) == (2, 6)
    assert resolved.experiment.dataio.num_workers == 1
    assert resolved.experiment.wandb.mode == "offline"
    assert resolved.experiment.checkpoint.save_every_n_train_steps == 7
    assert resolved.experiment.optimizer.learning_rate == 3e-4
    assert "trainer.max_steps: 200 (-it) holds, not the checkpoint's 100" in sentences
    assert len(sentences) == 7
    assert resolved.origin("trainer.max_steps") == "-it"
    assert resolved.origin("checkpoint.save_every_n_train_steps") == "AMT_SAVE_EVERY_N_TRAIN_STEPS"


def test_optimizer_schedule_and_seed_stay(old: Experiment) -> None:
    resolved, sentences = resume(
        old, built("-lr 1e-3 -s cosine -o AdamW --seed 6", {"AMT_WARMUP_STEPS": "3"})
    )
    assert resolved.experiment == old
    rate = "optimizer.learning_rate: the checkpoint's 0.0003 holds, not 0.001 (-lr)"
    assert f"{rate}; --override-optim takes the new one" in sentences
    assert any(sentence.startswith("lr_schedule.warmup_steps") for sentence in sentences)
    assert len(sentences) == 5


@pytest.mark.parametrize(
    ("line", "both"),
    [
        ("-enc perceiver-tf -nl 24", "-nl 24, the checkpoint has 26"),
        ("-enc t5", "-enc t5, the checkpoint has perceiver-tf"),
        ("-tk mc13_fsingle_vocal", "-tk mc13_fsingle_vocal, the checkpoint has mc13_fsingle"),
        ("-if 32767", "-if 32767, the checkpoint has 65534"),
        ("-d other", "-d other, the checkpoint has quickstart"),
        ("-el 512", "-el 512, the checkpoint has 1024"),
        ("--frame-head voice", "--frame-head voice, the checkpoint has "),
    ],
)
def test_contradictions_are_errors_with_both_values(old: Experiment, line: str, both: str) -> None:
    with pytest.raises(UsageError) as caught:
        resume(old, built(line))
    assert both in str(caught.value)


def test_override_optim_takes_optimizer_and_schedule_from_the_command_line(old: Experiment) -> None:
    line = "-lr 1e-3 -s cosine -o AdamW --ema 0.9 --seed 6"
    resolved, sentences = resume(old, built(line), override_optim=True)
    optimizer = resolved.experiment.optimizer
    assert (optimizer.learning_rate, optimizer.name, optimizer.ema_decay) == (1e-3, "AdamW", 0.9)
    assert resolved.experiment.lr_schedule.name == "cosine"
    assert resolved.experiment.seed == 5
    assert "optimizer.learning_rate: 0.001 (-lr) holds, not the checkpoint's 0.0003" in sentences
    assert "seed: the checkpoint's 5 holds, not 6 (--seed)" in sentences


def test_a_published_model_binds_like_its_flags(old: Experiment) -> None:
    with pytest.raises(
        UsageError, match=r"model\.decoder_type multi-t5 of --model yptf_multi, the checkpoint has t5"
    ):
        resume(old, built("--model yptf_multi"))
    published = built("--model yptf_multi -lr 1e-4")
    again, _ = resume(published.experiment, built("--model yptf_multi"))
    assert again.experiment == published.experiment


def test_a_recipe_is_no_contradiction(old: Experiment) -> None:
    resolved, sentences = resume(old, built("--recipe quickstart"))
    assert resolved.experiment == old
    assert any("model.encoder.num_latents: the checkpoint's 26 holds, not 4" in item for item in sentences)


def test_the_run_may_have_moved(old: Experiment) -> None:
    resolved, sentences = resume(old, built("-p elsewhere"))
    assert resolved.experiment.project == "elsewhere"
    assert sentences == []


def test_contradictions_name_the_flag_that_was_typed(old: Experiment) -> None:
    given = built("-enc perceiver-tf --num-latents 9 -it 3").flags.values()
    assert contradictions(old, given) == ["--num-latents 9, the checkpoint has 26"]


def write_checkpoint(path: Path, **extra: object) -> Path:
    """A file with the plain part of a checkpoint, as torch lays it out."""
    content = io.BytesIO()
    pickle.dump(
        {"global_step": 3, "epoch": 0, "optimizer_states": [], "loops": {}, **extra}, content, protocol=2
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", content.getvalue())
    return path


def test_configuration_is_read_from_the_file_itself(tmp_path: Path, old: Experiment) -> None:
    path = write_checkpoint(tmp_path / "last.ckpt", experiment=old.to_json())
    assert stored_experiment(path) == old
    assert stored_experiment(write_checkpoint(tmp_path / "plain.ckpt")) is None
    with pytest.raises(ValueError, match=r"bad\.ckpt cannot be read"):
        stored_experiment(write_checkpoint(tmp_path / "bad.ckpt", experiment="{"))


def test_the_command_resumes_with_the_checkpoints_values(
    tmp_path: Path, old: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from amt.cli.train import main

    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path))
    write_checkpoint(tmp_path / "ymt3" / "exp" / "checkpoints" / "last.ckpt", experiment=old.to_json())
    assert main(["exp", "-it", "7", "--print-config"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("run: RESUME at step 3")
    assert "resume: trainer.max_steps: 7 (-it) holds, not the checkpoint's 100" in shown
    assert "model, tokens, choice of data: the checkpoint's; a flag or file that contradicts" in shown
    assert "model.encoder.num_latents=26" in shown
    assert main(["exp", "-enc", "perceiver-tf", "-nl", "3", "--print-config"]) == 2
    assert "-nl 3, the checkpoint has 26" in capsys.readouterr().err
    again = main(["exp", "-enc", "perceiver-tf", "-nl", "3", "--print-identity"])
    assert again == 2, "what would be an error is one here too"
    capsys.readouterr()
    assert main(["exp", "-lr", "9e-9", "--override-optim", "--print-config"]) == 0
    assert "optimizer.learning_rate=9e-09 (-lr)" in capsys.readouterr().out
    assert main(["exp", "-it", "7", "--print-identity"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
