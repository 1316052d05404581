"""The training scripts: their form, and what they would run."""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from amt.cli import quickstart
from amt.cli.assemble import option_targets, resolve
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.config.environment import SCRIPT_VARIABLES, read_environment
from amt.config.experiment import Experiment
from amt.config.leaves import leaves

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "train_scripts").glob("*.sh"))
RUNNABLE = [path for path in SCRIPTS if path.name != "common.sh"]

# Section 18 of the requirements: variables of train_mc13.sh and their defaults.
DEFAULTS = {
    "AMT_EXP_ID": "mc13_fsingle_scratch",
    "AMT_TASK": "mc13_fsingle",
    "AMT_DATA_PRESET": "picogen_reweight",
    "AMT_PRECISION": "bf16-mixed",
    "AMT_OPTIMIZER": "AdamW",
    "AMT_SCHEDULER": "cosine",
    "AMT_STRATEGY": "ddp",
    "AMT_BSZ_LOCAL": "16",
    "AMT_LR": "1.5e-4",
    "AMT_SYNC_BN": "0",
    "AMT_INPUT_FRAMES": "65534",
    "AMT_EVENT_LENGTH": "2048",
    "AMT_VAL_INTERVAL": "1000",
    "AMT_MAX_STEPS": "50000",
    "AMT_RANDOM_AMP_MIN": "0.7",
    "AMT_RANDOM_AMP_MAX": "1.3",
    "AMT_IAUG_PROB": "0.15",
    "AMT_XAUG_MAX_K": "2",
    "AMT_PS_MIN": "-2",
    "AMT_PS_MAX": "2",
    "AMT_INIT_CKPT": "",
    "AMT_WANDB_MODE": "online",
}


def run(script: Path, *args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AMT_")}
    environ.pop("CUDA_VISIBLE_DEVICES", None)
    return subprocess.run(
        ["bash", str(script), *args],
        cwd=cwd or ROOT,
        env={**environ, "AMT_PYTHON": sys.executable, **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def words_of(printed: str) -> list[str]:
    """The arguments of train.py in what a dry run prints, read back by bash itself."""
    command = printed.strip().splitlines()[-1].partition(" && ")[2]
    done = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True
    )
    words = done.stdout.splitlines()
    assert words[1] == "train.py"
    return words[2:]


def dry(script: Path, *args: str, cwd: Path | None = None, **env: str) -> list[str]:
    done = run(script, *args, cwd=cwd, AMT_DRY_RUN="1", **env)
    assert done.returncode == 0, done.stderr
    return words_of(done.stdout)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_understands_it(script: Path) -> None:
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0


NEWER_THAN_BASH_4 = {
    r"\bEPOCH(SECONDS|REALTIME)\b|\bSRANDOM\b|\bBASH_ARGV0\b": "5.0 and 5.1",
    r"\$\{[^}]*@[A-Za-z]\}": "4.4 (@Q @E @P @A @a), 5.1 (@U @u @L @K)",
    r"\bwait\s+-[a-z]*[np]": "4.3 (-n), 5.1 (-p)",
    r"\b(mapfile|readarray)\s+(-\S+\s+)*-d": "4.4",
    r"\b(local|declare)\s+-n\b|\blocal\s+-(\s|$)": "4.3, 4.4",
    r"\$\{\s|\$\{\|": "5.3",
}
"""Forms that the first bash 4 does not know, and the version that brought them."""


@pytest.mark.parametrize("script", [*SCRIPTS, ROOT / "benchmarks" / "gpu.sh"], ids=lambda path: path.name)
def test_bash_4_knows_all_that_is_used(script: Path) -> None:
    """Read, not run: here is only one bash. An empty array under ``set -u``, an error before 4.4, cannot
    occur: each script's array begins with the run's name."""
    text = script.read_text(encoding="utf-8")
    for form, version in NEWER_THAN_BASH_4.items():
        assert not re.search(form, text), f"needs bash {version}"
    for array in re.findall(r'"\$\{(\w+)\[@\]\}"', text):
        assert re.search(rf"^{array}=\(\n    \S", text, re.MULTILINE), f"{array} may be empty"


HEAD = (
    'source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}" 2>/dev/null '
    '|| echo "${BASH_SOURCE[0]}")")/common.sh"'
)
"""The line that finds ``common.sh``, also behind a link."""


@pytest.mark.parametrize("script", RUNNABLE, ids=lambda path: path.name)
def test_form(script: Path) -> None:
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert lines[1].startswith("# 修改：")
    assert lines[2] == "set -euo pipefail"
    assert lines[3] == HEAD
    assert lines[-1] == 'exec "${PYTHON}" train.py "${args[@]}" "$@"'
    assert os.access(script, os.X_OK)
    assert sum(line == "args=(" for line in lines) == 1
    exp_id = next(line for line in lines if line.startswith("AMT_EXP_ID="))
    assert "# 修改：" in exp_id
    for line in lines:
        if match := re.match(r'(AMT_\w+)="\$\{', line):
            assert f'{match[1]}="${{{match[1]}:-' in line
            assert match[1] in SCRIPT_VARIABLES


STANDARD = (
    "-tk mc13_fsingle -d picogen_reweight -dec t5 -enc perceiver-tf -nl 26 -dl 128 "
    "-dpm 128 -pqk 128 -pvc 128 -npb 3 -npl 2 -npt 2 -sqr 1 -ff mlp -wf 1 -act gelu -epe trainable -rp 0 "
    "-ac spec -hop 300 -if 65534 -el 2048 -atc 1 -bsz 16 16 -it 50000 -vit 1000 -lr 1.5e-4 -o AdamW "
    "-s cosine -pr bf16-mixed -st ddp -n 1 -g auto -sb 0 -amp 0.7 1.3 -iaug 0.15 -xk 2 -xtau 0.5 -ps -2 "
    "2 -w true -wb online -edr 0.05 -ddr 0.05"
)
"""The command line of the contract."""
CONTRACT = {
    "train_mc13.sh": "mc13_fsingle_scratch",
    "train_mc13_phase1.sh": "mc13_fsingle_phase1 -vit 500",
    "train_mc13_warmstart.sh": "mc13_fsingle_warmstart -s constant -lr 2e-6",
    "train_mc13_rl.sh": "mc13_fsingle_rl -s constant -lr 1e-5 -it 10000 -vit 500 --rl-enable true "
    "--rl-weight 0.1 --rl-reward-type onset_f --rl-baseline group --rl-samples 4 --rl-start 5000",
    "train_singing_add_12.sh": "singing_add_12_scratch -d singing_add_12",
    "train_hooktheory.sh": "hooktheory_fsingle_scratch -d hooktheory_yourmt3_16k",
    "train_all_cross_final.sh": "all_cross_final_scratch -tk mt3_full_plus_all_cross_final "
    "-d all_cross_final",
}
"""What each full-size script says otherwise than :data:`STANDARD`."""
FULL_SIZE = [ROOT / "train_scripts" / name for name in CONTRACT]


def experiment_of(words: list[str]) -> Experiment:
    line = parse(words, OPTIONS)
    assert len(line.words) == 1
    return resolve(line.words[0], line, read_environment({})).experiment


def test_every_script_has_its_contract() -> None:
    assert {path.name for path in RUNNABLE} == {*CONTRACT, "quickstart.sh"}


MAY_DIFFER = {
    "train_mc13_phase1.sh": {"AMT_VAL_INTERVAL", "-vit"},
    "train_mc13_warmstart.sh": {"AMT_SCHEDULER", "AMT_LR", "AMT_INIT_CKPT", "-it", "-lr", "-s"},
    "train_mc13_rl.sh": {
        *("AMT_SCHEDULER", "AMT_LR", "AMT_VAL_INTERVAL", "AMT_MAX_STEPS", "AMT_INIT_CKPT"),
        *("-it", "-vit", "-lr", "-s"),
        *("AMT_RL_WEIGHT", "AMT_RL_REWARD", "AMT_RL_BASELINE", "AMT_RL_SAMPLES"),
        *("--rl-enable", "--rl-weight", "--rl-reward-type", "--rl-baseline", "--rl-samples"),
        *("else", "args+"),
    },
    "train_singing_add_12.sh": {"AMT_DATA_PRESET", "-d"},
    "train_hooktheory.sh": {"AMT_DATA_PRESET", "-d"},
    "train_all_cross_final.sh": {"AMT_TASK", "AMT_DATA_PRESET", "-tk", "-d"},
}
"""Lines, by their first word, in which a full-size script differs from train_mc13.sh: each stands alone, so
all others are copies that must stay equal."""


@pytest.mark.parametrize("name", MAY_DIFFER)
def test_full_size_scripts_differ_only_where_they_mean_to(name: str) -> None:
    folder = ROOT / "train_scripts"
    ours = (folder / name).read_text(encoding="utf-8").splitlines()
    theirs = (folder / "train_mc13.sh").read_text(encoding="utf-8").splitlines()
    changed = {
        re.split(r"[=\s]", line[2:].strip())[0]
        for line in difflib.ndiff(theirs, ours)
        if line[:2] in ("+ ", "- ") and not line[2:].startswith("# 修改：")
    }
    assert changed == {"AMT_EXP_ID", *MAY_DIFFER[name]}
    assert set(MAY_DIFFER) == set(CONTRACT) - {"train_mc13.sh"}


def test_variables_of_train_mc13_have_the_required_defaults() -> None:
    text = (ROOT / "train_scripts" / "train_mc13.sh").read_text(encoding="utf-8")
    for name, default in DEFAULTS.items():
        assert f'{name}="${{{name}:-{default}}}"' in text
    assert 'AMT_BSZ_SUB="${AMT_BSZ_SUB:-${AMT_BSZ_LOCAL:-16}}"\nAMT_BSZ_LOCAL=' in text
    assert "0,1,2,3,4,5,6,7" in text


@pytest.mark.parametrize("script", FULL_SIZE, ids=lambda path: path.name)
def test_full_size_scripts_run_the_contracts_command_line(script: Path, tmp_path: Path, copy: Path) -> None:
    """From the checkout's root, and from another folder in a checkout with spaces in its path."""
    exp_id, *departures = CONTRACT[script.name].split()
    wanted = experiment_of([exp_id, *STANDARD.split(), *departures])
    assert experiment_of(dry(script, AMT_INIT_CKPT="no such.ckpt")) == wanted
    moved = copy / "train_scripts" / script.name
    assert experiment_of(dry(moved, cwd=tmp_path, AMT_INIT_CKPT="no such.ckpt")) == wanted


def test_the_warm_start_takes_the_weights_of_the_scratch_run(copy: Path) -> None:
    script = copy / "train_scripts" / "train_mc13_warmstart.sh"
    done = run(script, AMT_DRY_RUN="1")
    default = "../logs/ymt3/mc13_fsingle_scratch/checkpoints/last.ckpt"
    assert done.stderr == f"修改：未找到 init ckpt={default}，自动清空并从头训练。\n"
    weights = copy / "logs" / "ymt3" / "mc13_fsingle_scratch" / "checkpoints" / "last.ckpt"
    weights.parent.mkdir(parents=True)
    weights.touch()
    experiment = experiment_of(dry(script))
    assert Path(experiment.init_ckpt).resolve() == weights.resolve()
    assert (experiment.lr_schedule.name, experiment.optimizer.learning_rate) == ("constant", 2e-6)


@pytest.mark.parametrize("script", FULL_SIZE, ids=lambda path: path.name)
def test_departures_from_the_defaults_say_why(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    block = text.partition("args=(\n")[2].partition("\n)\n")[0].splitlines()
    experiment = experiment_of(dry(script))
    chosen, default = dict(leaves(experiment)), dict(leaves(Experiment()))
    departing = 0
    for line in block:
        name = line.split()[0]
        if not name.startswith("-"):
            continue
        option = next(option for option in OPTIONS if name in option.names)
        targets = option_targets(option, experiment.model.encoder_type)
        if any(chosen[leaf] != default[leaf] for leaf in targets):
            departing += 1
            assert "# 修改：" in line, line
    assert departing >= 10


@pytest.mark.parametrize("script", RUNNABLE, ids=lambda path: path.name)
def test_command_lines_resolve(script: Path) -> None:
    line = parse(dry(script), OPTIONS)
    assert len(line.words) == 1
    resolve(line.words[0], line, read_environment({}))


def test_one_line_override_sets_both_batch_sizes() -> None:
    words = dry(ROOT / "train_scripts" / "train_mc13.sh", AMT_BSZ_LOCAL="20")
    start = words.index("-bsz")
    assert words[start + 1 : start + 3] == ["20", "20"]
    words = dry(ROOT / "train_scripts" / "train_mc13.sh", AMT_BSZ_LOCAL="20", AMT_BSZ_SUB="10")
    start = words.index("-bsz")
    assert words[start + 1 : start + 3] == ["10", "20"]


def test_flags_after_the_name_come_last(tmp_path: Path) -> None:
    words = dry(ROOT / "train_scripts" / "train_mc13.sh", "-it", "5", "-p", "my proj é", cwd=tmp_path)
    assert words[-4:] == ["-it", "5", "-p", "my proj é"]
    assert parse(words, OPTIONS).get("--max-steps", 0) == 5


@pytest.mark.parametrize("minutes", ["", "2.5"])
def test_the_quick_start_script_trains_as_make_quickstart_does(
    minutes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what suits the CPU of this machine; the name of the run aside."""
    lines: list[Sequence[str]] = []

    def run_training(line: Sequence[str]) -> int:
        lines.append(line)
        return 0

    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(quickstart, "run_training", run_training)
    monkeypatch.setattr("amt.quickstart.run.run_quickstart", lambda paths, train, **settings: train())
    assert quickstart.main(["--minutes", minutes] if minutes else []) == 0
    chosen = {"QUICKSTART_MINUTES": minutes} if minutes else {}
    words = dry(ROOT / "train_scripts" / "quickstart.sh", CUDA_VISIBLE_DEVICES="", **chosen)
    (theirs,) = (experiment_of(list(line)) for line in lines)
    assert experiment_of(words) == dataclasses.replace(theirs, exp_id="quickstart")


def test_missing_start_weights_fall_back_to_scratch(tmp_path: Path) -> None:
    script = ROOT / "train_scripts" / "train_mc13.sh"
    done = run(script, cwd=tmp_path, AMT_DRY_RUN="1", AMT_INIT_CKPT="no such.ckpt")
    assert done.returncode == 0
    assert done.stderr == "修改：未找到 init ckpt=no such.ckpt，自动清空并从头训练。\n"
    assert "--init-ckpt" not in done.stdout
    (tmp_path / "my weights é.ckpt").touch()
    words = dry(script, cwd=tmp_path, AMT_INIT_CKPT="my weights é.ckpt")
    assert words[words.index("--init-ckpt") + 1] == str(tmp_path / "my weights é.ckpt")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The scripts and entry files in a folder with a space and an accent, as a fresh clone may be."""
    root = tmp_path / "my proj é"
    shutil.copytree(
        ROOT / "train_scripts", root / "train_scripts", ignore=shutil.ignore_patterns("local.env")
    )
    (root / "src").mkdir()
    for name in ("train.py", "prepare.py"):
        shutil.copy(ROOT / "src" / name, root / "src" / name)
    return root


def test_from_another_folder_and_a_path_with_spaces(copy: Path, tmp_path: Path) -> None:
    done = run(copy / "train_scripts" / "train_mc13.sh", cwd=tmp_path, AMT_DRY_RUN="1")
    assert done.returncode == 0, done.stderr
    assert words_of(done.stdout)[0] == "mc13_fsingle_scratch"
    inside = run(Path("train_mc13.sh"), cwd=copy / "train_scripts", AMT_DRY_RUN="1")
    assert inside.stdout == done.stdout
    assert shlex.split(done.stdout)[0] == "cd"


def test_through_links_to_a_script_and_to_its_folder(copy: Path, tmp_path: Path) -> None:
    script = copy / "train_scripts" / "train_mc13.sh"
    wanted = dry(script)
    bin_folder = tmp_path / "my bin"
    bin_folder.mkdir()
    first, second, folder = bin_folder / "first", bin_folder / "train", tmp_path / "scripts"
    first.symlink_to(script)
    second.symlink_to("first")
    folder.symlink_to(copy / "train_scripts")
    for path in (first, second, folder / "train_mc13.sh"):
        assert dry(path, cwd=tmp_path) == wanted
    with_path = {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "AMT_DRY_RUN": "1"}
    done = subprocess.run(
        ["train"],
        env={**os.environ, **with_path, "AMT_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert words_of(done.stdout) == wanted, done.stderr


def test_where_readlink_is_missing_a_plain_path_still_works(copy: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "basename"):
        (tools / name).symlink_to(shutil.which(name) or "")
    script = copy / "train_scripts" / "train_mc13.sh"
    done = run(script, AMT_DRY_RUN="1", PATH=str(tools))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert words_of(done.stdout) == dry(script)


def test_start_weights_of_another_run(copy: Path, tmp_path: Path) -> None:
    """Where there is no such run the word is a file that is missing."""
    script = copy / "train_scripts" / "train_mc13.sh"
    missing = run(script, AMT_DRY_RUN="1", AMT_INIT_CKPT="old run@v2@best")
    assert "--init-ckpt" not in missing.stdout
    assert missing.stderr == "修改：未找到 init ckpt=old run@v2@best，自动清空并从头训练。\n"
    for folder in (copy / "logs", tmp_path / "my logs"):
        (folder / "ymt3" / "old run@v2" / "checkpoints").mkdir(parents=True)
    for env in ({}, {"AMT_LOG_DIR": "my logs"}, {"AMT_LOG_DIR": "~/my logs", "HOME": str(tmp_path)}):
        words = dry(script, cwd=tmp_path, AMT_INIT_CKPT="old run@v2@best", **env)
        assert words[words.index("--init-ckpt") + 1] == "old run@v2@best"


def test_a_search_path_of_cd_changes_nothing(copy: Path) -> None:
    words = dry(Path("train_scripts/train_mc13.sh"), cwd=copy, CDPATH=".")
    assert words == dry(copy / "train_scripts" / "train_mc13.sh")


def test_start_weights_in_the_home_folder(copy: Path, tmp_path: Path) -> None:
    """In quotes the shell does not replace the tilde itself."""
    (tmp_path / "my start.ckpt").touch()
    words = dry(copy / "train_scripts" / "train_mc13.sh", AMT_INIT_CKPT="~/my start.ckpt", HOME=str(tmp_path))
    assert words[words.index("--init-ckpt") + 1] == str(tmp_path / "my start.ckpt")


def test_local_settings_are_read_and_the_caller_wins(copy: Path) -> None:
    (copy / "train_scripts" / "local.env").write_text(
        'AMT_LR=3e-4\nAMT_MAX_STEPS="77"\nWANDB_BASE_URL=https://example.org\n', encoding="utf-8"
    )
    words = dry(copy / "train_scripts" / "train_mc13.sh", AMT_MAX_STEPS="5")
    assert words[words.index("-lr") + 1] == "3e-4"
    assert words[words.index("-it") + 1] == "5"


def test_own_environment_stands_in_for_a_missing_python(copy: Path, tmp_path: Path) -> None:
    own = copy / ".venv" / "bin" / "python"
    own.parent.mkdir(parents=True)
    own.symlink_to(sys.executable)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("bash", "dirname", "basename"):
        (tools / name).symlink_to(shutil.which(name) or "")
    done = run(copy / "train_scripts" / "train_mc13.sh", AMT_DRY_RUN="1", AMT_PYTHON="", PATH=str(tools))
    assert done.returncode == 0, done.stderr
    assert ".venv/bin/python train.py" in done.stdout


def test_it_says_first_what_will_happen_and_hands_over(copy: Path, tmp_path: Path) -> None:
    """The real script with the real train.py, up to the point where the data is missing."""
    done = run(
        copy / "train_scripts" / "train_mc13.sh",
        cwd=tmp_path,
        AMT_LOG_DIR="my logs",
        AMT_DATA_HOME="no data",
        AMT_WANDB_MODE="disabled",
        CUDA_VISIBLE_DEVICES="",
    )
    assert done.stdout.startswith("run: SCRATCH at step 0")
    assert str(tmp_path / "my logs" / "ymt3" / "mc13_fsingle_scratch") in done.stdout
    assert done.returncode == 2
    assert "error: " in done.stderr
    assert "no data" in done.stderr, "what is missing, and where"
    assert "picogen" in done.stderr
    assert "Traceback" not in done.stderr


def test_ci_runs_all_checks() -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    for target in ("test", "lint", "types", "test-slow"):
        assert f"\nmake {target}\n" in text
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_makefile_has_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("quickstart", "test", "test-slow", "lint", "types", "bench", "clean", "help"):
        assert re.search(rf"^  make {target}\s", done.stdout, re.MULTILINE)
    for command in sorted((ROOT / "src").glob("[a-z]*.py")):
        assert re.search(rf"^  python src/{command.name} +[A-Z][^:`\"]+$", done.stdout, re.MULTILINE)
    bare = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert bare.stdout == done.stdout


def test_every_script_stands_in_the_documents() -> None:
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    for script in RUNNABLE:
        assert f"| `{script.name}` |" in text
