"""What a start of train.py says of its configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from amt.cli.assemble import resolve, summarize
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.cli.train import main
from amt.config.environment import read_environment
from amt.config.experiment import Experiment
from amt.config.leaves import leaves

ALL = f"all {len(list(leaves(Experiment())))} values with --print-config"


def summary(line: str, **environ: str) -> list[str]:
    command = parse(["exp", *line.split()], OPTIONS)
    return summarize(resolve("exp", command, read_environment(environ))).splitlines()


def test_nothing_said_is_one_line() -> None:
    assert summary("") == [f"configuration: the defaults; {ALL}"]
    assert summary("--recipe quickstart") == [f"configuration: --recipe quickstart; {ALL}"]


def test_what_differs_is_listed_with_its_origin() -> None:
    head, line = summary("--recipe quickstart -it 5 -ps -5 5 -bsz 8 16", AMT_WARMUP_STEPS="7")
    assert head == f"configuration: --recipe quickstart, 3 values set otherwise; {ALL}"
    assert line.split("  ")[1:] == [
        "bsz.local=16 (-bsz)",
        "lr_schedule.warmup_steps=7 (AMT_WARMUP_STEPS)",
        "trainer.max_steps=5 (-it)",
    ], "-ps and SUB are what the recipe says"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("-pr bf16-mixed", []),
        ("-pr 32", ["trainer.precision=32 (-pr)"]),
        ("--recipe quickstart -pr bf16-mixed", ["trainer.precision=bf16-mixed (-pr)"]),
        ("--recipe quickstart -pr 32", []),
    ],
)
def test_it_is_held_against_the_recipe_where_there_is_one(line: str, shown: list[str]) -> None:
    assert [item for text in summary(line)[1:] for item in text.strip().split("  ")] == shown


def test_a_published_model_has_a_name_too() -> None:
    head, *rest = summary("--model yptf_multi")
    assert head.startswith("configuration: --model yptf_multi; ")
    assert rest == []


def test_a_file_is_named_once(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("TRAINER:\n  max_steps: 3\n  val_interval: 7\n  precision: bf16-mixed\n")
    head, *rest = summary(f"--config {path} -vit 9")
    assert ", 2 values set otherwise" in head
    assert rest == [f"  --config {path}:", "    trainer.max_steps=3", "  trainer.val_interval=9 (-vit)"]


def test_a_start_prints_all_only_when_asked_and_names_no_file_before_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))

    def stops(*_: object, **__: object) -> int:
        return 0

    monkeypatch.setattr("amt.training.fit.run_training", stops)
    assert main(["exp", "--recipe", "quickstart", "-d", "quickstart", "-it", "5"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("run: SCRATCH")
    assert second.endswith(f"; {ALL}")
    assert third == "  trainer.max_steps=5 (-it)"
    assert main(["exp", "--recipe", "quickstart", "--print-config"]) == 0
    whole = capsys.readouterr().out
    assert all(f"{leaf}=" in whole for leaf, _ in leaves(Experiment()))


def test_the_scripts_dry_run_is_not_taken_for_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path))
    monkeypatch.setattr("amt.training.fit.run_training", lambda *_, **__: 0)
    for value, words, warns in (
        ("1", [], True),
        ("0", [], False),
        ("", [], False),
        ("1", ["--dry-run"], False),
    ):
        monkeypatch.setenv("AMT_DRY_RUN", value)
        assert main(["exp", "--recipe", "quickstart", *words]) == 0
        assert ("see --dry-run" in capsys.readouterr().err) is warns


def test_ctrl_c_before_the_first_step_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(*_: object, **__: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path))
    monkeypatch.setattr("amt.training.fit.run_training", stopped)
    assert main(["exp", "--recipe", "quickstart"]) == 130
    assert capsys.readouterr().err == (
        "\ninterrupted: nothing is trained yet and no checkpoint has changed; the same command starts again\n"
    )
