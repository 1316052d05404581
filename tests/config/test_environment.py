"""Every AMT_ variable: typed, validated, and with an effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from amt.cli.train import environment_rows
from amt.config.environment import EXAMPLES, SCRIPT_VARIABLES, VARIABLES, default_root, read_environment
from amt.config.experiment import Experiment
from amt.config.leaves import replace_leaves

CHECKOUT = Path(__file__).parents[2]
GOOD = {"bool": "yes", "int": "3", "float": "0.5", "text": "a b"}
GOOD_BY_NAME = {"AMT_FAULT": "nan@3:1"}


def test_nothing_set_is_all_defaults() -> None:
    environment = read_environment({})
    assert dict(environment.settings) == {}
    assert environment.warnings == ()
    assert not environment.force_scratch
    assert not environment.allow_rewind
    assert environment.data_home == CHECKOUT / "data"
    assert environment.log_dir == CHECKOUT / "logs"


def test_folders_do_not_depend_on_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_environment({}).log_dir == CHECKOUT / "logs"


def test_a_wheel_uses_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site-packages" / "amt" / "config"
    package.mkdir(parents=True)
    monkeypatch.setattr("amt.config.environment.__file__", str(package / "environment.py"))
    monkeypatch.chdir(tmp_path)
    assert default_root() == tmp_path
    assert read_environment({}).data_home == tmp_path / "data"


def test_given_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environment = read_environment({"AMT_DATA_HOME": "./my data/é", "AMT_LOG_DIR": "/abs/logs"})
    assert environment.data_home == tmp_path / "my data" / "é"
    assert environment.log_dir == Path("/abs/logs")


@pytest.mark.parametrize("variable", VARIABLES, ids=[variable.name for variable in VARIABLES])
def test_each_variable_is_read(variable: object) -> None:
    from amt.config.environment import Variable

    assert isinstance(variable, Variable)
    good = GOOD_BY_NAME.get(variable.name, GOOD[variable.kind])
    before, after = read_environment({}), read_environment({variable.name: good})
    assert after != before
    assert after.warnings == ()
    if variable.targets:
        assert set(after.settings) == set(variable.targets)
        assert set(after.origins.values()) == {variable.name}
    assert read_environment({variable.name: ""}) == before


@pytest.mark.parametrize(
    "variable",
    [variable for variable in VARIABLES if variable.kind != "text"],
    ids=[variable.name for variable in VARIABLES if variable.kind != "text"],
)
def test_bad_values_name_the_variable(variable: object) -> None:
    name = getattr(variable, "name")  # noqa: B009
    with pytest.raises(ValueError, match=f"^{name} expects .* not 'x'$"):
        read_environment({name: "x"})


def test_unknown_names_are_warned_about_with_the_nearest() -> None:
    [warning] = read_environment({"AMT_NUM_WORKER": "3", "OTHER": "x", "AMTX": "y"}).warnings
    assert warning == (
        "AMT_NUM_WORKER is no variable of this version and has no effect; the nearest is AMT_NUM_WORKERS"
    )


def test_variables_of_the_scripts_are_known_and_ignored() -> None:
    environment = read_environment(dict.fromkeys(SCRIPT_VARIABLES, "7"))
    assert environment == read_environment({})


# Section 4 of the requirements.
REQUIRED = """
AMT_EXCLUDE_PRESETS AMT_VAL_BATCH_SIZE AMT_NUM_WORKERS AMT_PREFETCH_FACTOR AMT_PERSISTENT_WORKERS
AMT_WARMUP_STEPS AMT_FORCE_SCRATCH AMT_MAX_CONSECUTIVE_NONFINITE_TRAIN_LOSS AMT_NAN_LR_SHRINK_FACTOR
AMT_MIN_GRAD_SCALE AMT_DEBUG_GRAD_FINITE AMT_DETECT_ANOMALY AMT_WANDB_MINIMAL AMT_ENABLE_LR_MONITOR
AMT_CHECKPOINT_FILENAME AMT_SAVE_BEFORE_VAL AMT_SAVE_EVERY_N_TRAIN_STEPS AMT_RESET_TOPK_ON_RESUME
AMT_VALIDATE_BEFORE_FIT AMT_VAL_START_TRAIN_LOSS_THRESHOLD AMT_DDP_FIND_UNUSED_PARAMETERS AMT_ALLOW_REWIND
AMT_FAULT AMT_FAULTHANDLER_LOG_DIR AMT_DATA_HOME AMT_LOG_DIR AMT_DYNAMIC_DATASET_WEIGHTING
AMT_DYNAMIC_DATASET_WEIGHTING_METRIC AMT_DYNAMIC_DATASET_WEIGHTING_EMA AMT_DYNAMIC_DATASET_WEIGHTING_MOMENTUM
AMT_DYNAMIC_DATASET_WEIGHTING_MIN AMT_DYNAMIC_DATASET_WEIGHTING_MAX
""".split()  # noqa: SIM905


def test_every_required_variable_is_there() -> None:
    assert set(REQUIRED) <= {variable.name for variable in VARIABLES}


DEFAULTS = {
    "AMT_NUM_WORKERS": "32",
    "AMT_PREFETCH_FACTOR": "4",
    "AMT_PERSISTENT_WORKERS": "true",
    "AMT_WARMUP_STEPS": "500 with -s cosine",
    "AMT_FORCE_SCRATCH": "0",
    "AMT_MAX_CONSECUTIVE_NONFINITE_TRAIN_LOSS": "50",
    "AMT_NAN_LR_SHRINK_FACTOR": "0.5",
    "AMT_MIN_GRAD_SCALE": "16",
    "AMT_DEBUG_GRAD_FINITE": "0",
    "AMT_DETECT_ANOMALY": "0",
    "AMT_WANDB_MINIMAL": "true",
    "AMT_ENABLE_LR_MONITOR": "0",
    "AMT_CHECKPOINT_FILENAME": "{epoch}-{step}-{validation/macro_onset_f:.4f}",
    "AMT_SAVE_BEFORE_VAL": "false",
    "AMT_SAVE_EVERY_N_TRAIN_STEPS": "0",
    "AMT_RESET_TOPK_ON_RESUME": "false",
    "AMT_VALIDATE_BEFORE_FIT": "false",
    "AMT_DDP_FIND_UNUSED_PARAMETERS": "false",
    "AMT_ALLOW_REWIND": "0",
    "AMT_DYNAMIC_DATASET_WEIGHTING": "false",
    "AMT_DYNAMIC_DATASET_WEIGHTING_METRIC": "frame_f",
    "AMT_DYNAMIC_DATASET_WEIGHTING_EMA": "0.9",
    "AMT_DYNAMIC_DATASET_WEIGHTING_MOMENTUM": "0.5",
    "AMT_DYNAMIC_DATASET_WEIGHTING_MIN": "0.5",
    "AMT_DYNAMIC_DATASET_WEIGHTING_MAX": "2",
    "AMT_DATA_HOME": "../data",
    "AMT_LOG_DIR": "../logs",
}
"""What the same section says of their defaults."""


def test_shown_defaults_are_the_required_ones() -> None:
    shown = {name: default for name, default, _ in environment_rows()}
    assert {name: shown[name] for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("AMT_MAX_CONSECUTIVE_NONFINITE_TRAIN_LOSS", "0"),
        ("AMT_NAN_LR_SHRINK_FACTOR", "0"),
        ("AMT_NAN_LR_SHRINK_FACTOR", "1.5"),
        ("AMT_MIN_GRAD_SCALE", "0"),
        ("AMT_WARMUP_STEPS", "-1"),
        ("AMT_NUM_WORKERS", "-1"),
        ("AMT_PREFETCH_FACTOR", "0"),
        ("AMT_SAVE_EVERY_N_TRAIN_STEPS", "-1"),
        ("AMT_DYNAMIC_DATASET_WEIGHTING_EMA", "1.5"),
        ("AMT_DYNAMIC_DATASET_WEIGHTING_METRIC", "f1"),
    ],
)
def test_values_out_of_range_name_the_variable(name: str, text: str) -> None:
    environment = read_environment({name: text})
    with pytest.raises(ValueError, match=name if name[-1] != "C" else "frame_f"):
        replace_leaves(Experiment(), environment.settings)


def test_a_home_that_is_not_known_stays_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container the user may have no name and no HOME."""
    environment = read_environment({"AMT_LOG_DIR": "~no-such-user/logs"})
    assert environment.log_dir.name == "logs"
    assert environment.log_dir.parent.name == "~no-such-user"


def test_names_are_unique() -> None:
    names = [variable.name for variable in VARIABLES] + list(SCRIPT_VARIABLES)
    assert len(names) == len(set(names))
    assert set(EXAMPLES) <= set(names)


@pytest.mark.parametrize("text", ["nan@3", "nan@a:0", "kill@", "kill@load", "full-disk@3", "x"])
def test_faults_are_checked(text: str) -> None:
    with pytest.raises(ValueError, match=r"AMT_FAULT .*nan@STEP:RANK"):
        read_environment({"AMT_FAULT": text})


@pytest.mark.parametrize("text", ["nan@3:1", "kill@12", "kill@save", "full-disk@save"])
def test_known_faults(text: str) -> None:
    assert read_environment({"AMT_FAULT": text}).fault == text


def test_list_of_presets() -> None:
    assert read_environment({"AMT_EXCLUDE_PRESETS": "a, b,,c "}).excluded_presets == ("a", "b", "c")


@pytest.mark.parametrize(
    ("environ", "count"),
    [
        ({}, 0),
        ({"SLURM_RESTART_COUNT": "2"}, 2),
        ({"TORCHELASTIC_RESTART_COUNT": "1", "SLURM_RESTART_COUNT": ""}, 1),
        ({"SLURM_RESTART_COUNT": "x"}, 0),
    ],
)
def test_restarts_of_a_launcher(environ: dict[str, str], count: int) -> None:
    assert read_environment(environ).restart_count == count
