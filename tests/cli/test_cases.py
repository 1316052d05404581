"""The recorded command lines that other programs get wrong (golden/g1_cli_cases.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from amt.cli.train import main
from amt.model.checkpoint_names import split_exp_id

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "golden" / "g1_cli_cases.json").read_text(encoding="utf-8")
)["cases"]
BY_ID = {case["id"]: case for case in CASES}

# What print-config shows, or what the one sentence on the error stream holds.
SHOWN = {
    "g1": "trainer.write_model_output=false",
    "g2": "augmentation.pitch_shift_range=-2 2",
    "g5": "trainer.max_steps=-1",
    "g6": "exp_id=exp",
    "g7": "exp_id=exp",
}
REFUSED = {
    "g1b": "true or false",
    "g1c": "empty value",
    "g2b": "LO is above HI",
    "g2c": "-amp -0.001 1.2",
    "g3": "--project",
    "g3b": "--data-preset",
    "g3c": "--max-steps",
    "g4": "no checkpoint",
    "g4b": "no checkpoint",
    "g4c": "no checkpoint 'last.ckpt' of exp@v2",
    "g4d": "names no checkpoint",
    "g4e": "no checkpoint 'no_such.ckpt'",
    "g4f": "must not contain '/'",
    "g5b": "-it must be",
    "g8": "--no-such-key",
    "g9": "must not start with '-'",
    "g10": "empty value",
}


def test_no_case_is_forgotten() -> None:
    assert set(BY_ID) == set(SHOWN) | set(REFUSED)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path / "my logs é"))

    def call(case: dict[str, Any]) -> tuple[int, str, str]:
        for name, value in case.get("env", {}).items():
            monkeypatch.setenv(name.replace("DATA_HOME", "AMT_DATA_HOME"), value)
        code = main(["--print-config", *case["argv"]])
        out, err = capfd.readouterr()
        assert not (tmp_path / "my logs é").exists(), "nothing is written before training"
        return code, out, err

    return call


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_accepted(run: Any, name: str) -> None:
    code, out, err = run(BY_ID[name])
    assert (code, err) == (0, "")
    assert out.startswith("run: SCRATCH")
    assert SHOWN[name] in out


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused(run: Any, name: str) -> None:
    code, out, err = run(BY_ID[name])
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1, "one sentence, no traceback"
    assert REFUSED[name] in err


@pytest.mark.parametrize("name", ["g4", "g4c"])
def test_names_with_signs_are_split(name: str) -> None:
    case = BY_ID[name]
    expected = case["expected"]
    assert split_exp_id(case["argv"][0]) == (expected["exp_id"], expected["checkpoint"])


def test_a_wrong_checkpoint_leaves_the_old_run_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Case g4e where the run exists: nothing starts from scratch over it."""
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path))
    last = tmp_path / "ymt3" / "exp" / "checkpoints" / "last.ckpt"
    last.parent.mkdir(parents=True)
    last.write_bytes(b"of hours of training")
    assert main([*BY_ID["g4e"]["argv"], "-d", "quickstart", "-it", "1"]) == 2
    err = capfd.readouterr().err
    assert "no checkpoint 'no_such.ckpt'" in err
    assert "last.ckpt" in err, "what is there is named"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [last]
    assert last.read_bytes() == b"of hours of training"
