"""The entry files and commands: quick, light, and one sentence for a mistake."""

from __future__ import annotations

import errno
import inspect
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import amt
from amt.cli import predict, prepare
from amt.cli.command import PATIENCE_SECONDS, first_process, is_users_mistake, run_command
from amt.cli.options import OPTIONS
from amt.cli.parser import UsageError
from amt.cli.train import environment_help
from amt.config.environment import SCRIPT_VARIABLES, VARIABLES
from amt.inference import DecodingChoices
from amt.preparation.generic import PreparationReport, Shares, StoreSettings
from amt.training.launcher import SAID

PACKAGE = Path(amt.__file__).parent
HEAVY = ("torch", "numpy", "pytorch_lightning", "transformers", "scipy", "matplotlib", "wandb")


def python(*args: str, cwd: Path | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *args],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **env},
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("name", ["train", "predict", "predict_batch", "test", "prepare", "serve"])
def test_help_of_the_entry_file_is_light(name: str) -> None:
    done = python("-X", "importtime", str(PACKAGE / f"{name}.py"), "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage:")
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert not imported & set(HEAVY)


def test_help_takes_under_half_a_second_of_cpu() -> None:
    code = (
        "import os, subprocess, sys;"
        f"command = [sys.executable, {str(PACKAGE / 'train.py')!r}, '--help'];"
        "subprocess.run(command, stdout=subprocess.DEVNULL, check=True);"
        "times = os.times(); print(times.children_user + times.children_system)"
    )
    assert min(float(python("-c", code).stdout) for _ in range(3)) < 0.5, "the quietest of three"


@pytest.mark.parametrize("how", ["file", "here", "module"])
def test_ways_to_start(how: str, tmp_path: Path) -> None:
    args, cwd = {
        "file": ([str(PACKAGE / "train.py")], tmp_path),
        "here": (["train.py"], PACKAGE),
        "module": (["-m", "amt.train"], tmp_path),
    }[how]
    done = python(*args, "my exp é", "--print-identity", cwd=cwd, AMT_LOG_DIR=str(tmp_path / "my logs é"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("run: SCRATCH")
    assert done.stdout.count("\n") == 1
    assert "my logs é" in done.stdout


def test_identity_of_a_run_that_could_not_begin_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from amt.cli.train import main

    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path / "logs"))
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    assert main(["exp", "-d", "nosuch", "--print-identity"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "nosuch" in err
    monkeypatch.setenv("AMT_EXCLUDE_PRESETS", "nosuch")
    assert main(["exp", "--print-identity"]) == 2
    assert "AMT_EXCLUDE_PRESETS" in capsys.readouterr().err
    assert not (tmp_path / "logs").exists()


def test_entry_files_differ_in_their_command_only() -> None:
    """Each stands alone: as a script it runs before amt can be imported, and says when it cannot."""
    bodies = set()
    for name in ("train", "predict", "predict_batch", "test", "prepare", "convert", "export", "serve"):
        _, _, code = (PACKAGE / f"{name}.py").read_text(encoding="utf-8").partition("import os\n")
        assert f"from amt.cli.{name} import main as run" in code
        bodies.add(code.replace(f"amt.cli.{name} ", "amt.cli.COMMAND "))
    assert len(bodies) == 1


def test_predicts_help_says_each_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert predict.main(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for option in predict.PREDICT_OPTIONS:
        if option.choices:
            assert text.count(", ".join(option.choices)) == 1
    assert "midi is another word for mid" in text


def test_entry_file_does_not_shadow_other_names() -> None:
    """The package's folder is taken off the path: config, data and test stay free names."""
    code = (
        f"import runpy, sys; sys.argv = ['train.py', '--help']; sys.path.insert(0, {str(PACKAGE)!r})\n"
        f"try:\n    runpy.run_path({str(PACKAGE / 'train.py')!r}, run_name='__main__')\n"
        f"except SystemExit:\n    pass\n"
        f"assert {str(PACKAGE)!r} not in sys.path\n"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr


def test_entry_file_without_the_package_says_how_to_install(tmp_path: Path) -> None:
    lonely = tmp_path / "src"
    lonely.mkdir()
    (lonely / "train.py").write_bytes((PACKAGE / "train.py").read_bytes())
    done = python("-S", "-E", str(lonely / "train.py"), "--help")
    assert done.returncode == 1
    assert done.stderr.startswith("amt is not installed: run")
    assert str(tmp_path) in done.stderr


def test_environment_help_lists_every_variable() -> None:
    text = environment_help()
    for name in (*(variable.name for variable in VARIABLES), *SCRIPT_VARIABLES, "CUDA_VISIBLE_DEVICES"):
        assert name in text


def test_unknown_variable_is_a_warning(tmp_path: Path) -> None:
    done = python(
        "-m", "amt.train", "exp", "--print-identity", AMT_LOG_DIR=str(tmp_path), AMT_WARMUP_STEP="3"
    )
    assert done.returncode == 0
    assert done.stdout.startswith("run: SCRATCH")
    assert "AMT_WARMUP_STEP is no variable" in done.stderr
    assert "AMT_WARMUP_STEPS" in done.stderr


def test_bad_variable_is_an_error_that_names_it(tmp_path: Path) -> None:
    done = python(
        "-m", "amt.train", "exp", "--print-identity", AMT_LOG_DIR=str(tmp_path), AMT_NUM_WORKERS="a"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: AMT_NUM_WORKERS expects a whole number, not 'a'\n"


@pytest.mark.parametrize("said", [False, True])
def test_a_further_process_speaks_when_it_is_not_ended(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: bool
) -> None:
    """A file may be missing for one rank only; where all have the mistake the first one ends the others."""
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("LOCAL_RANK", "1")

    def work(argv: Sequence[str]) -> int:
        error = UsageError("a mistake")
        if said:
            setattr(error, SAID, True)
        raise error

    assert run_command(work, []) == 2
    assert capsys.readouterr().err == ("" if said else "error on rank 5: a mistake\n")
    assert waited == ([] if said else [PATIENCE_SECONDS])


def test_only_the_first_process_speaks(tmp_path: Path) -> None:
    done = python("-m", "amt.train", "exp", "--print-identity", AMT_LOG_DIR=str(tmp_path), LOCAL_RANK="1")
    assert (done.returncode, done.stdout) == (0, "")
    assert first_process({})
    assert first_process({"RANK": "0", "LOCAL_RANK": "0"})
    assert not first_process({"RANK": "8", "LOCAL_RANK": "0"})
    assert not first_process({"RANK": "", "SLURM_PROCID": "2", "SLURM_NTASKS": "4"})
    assert not first_process({"NODE_RANK": "1"})


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        ([], "name is missing"),
        (["-d", "a", "b"], "comes first"),
        (["a", "b"], "'b'"),
        (["exp", "-p", "../x"], "project (-p)"),
    ],
)
def test_train_usage(argv: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    from amt.cli.train import main

    assert main(argv) == 2
    assert part in capsys.readouterr().err


def test_our_own_errors_keep_their_traceback() -> None:
    def ours(_: object) -> int:
        return int("not from this package")

    with pytest.raises(ValueError, match="invalid literal"):
        run_command(ours, [])

    def missing(_: object) -> int:
        return len(Path("/no/such/file").read_bytes())

    assert run_command(missing, []) == 2
    assert not is_users_mistake(KeyError("x"))
    assert is_users_mistake(OSError(errno.ENOSPC, "No space left on device"))
    assert not is_users_mistake(OSError(errno.EIO, "Input/output error"))


@pytest.mark.parametrize(
    ("redirect", "status", "words"),
    [
        (">&-", 0, ""),
        ("-o - >&-", 2, "error: -o -: standard output is closed"),
        ("> /dev/full", 2, "error: [Errno 28] No space left on device"),
        ("| head -c 0", 2, ""),
    ],
)
def test_standard_output_that_takes_nothing(redirect: str, status: int, words: str, tmp_path: Path) -> None:
    if "/dev/full" in redirect and not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    program = tmp_path / "command.py"
    program.write_text(
        "import sys\n"
        "from pathlib import Path\n"
        "from amt.cli.command import run_command\n"
        "from amt.inference.predict import run_predict\n"
        "from amt.inference.progress_bar import ProgressBar\n"
        "def work(words):\n"
        "    if '-o' in words:\n"
        "        return run_predict('none', [Path(__file__)], to_stdout=True, formats=['csv'])\n"
        "    with ProgressBar('song', 'windows') as bar:\n"
        "        bar.show(1, 2, 3.0)\n"
        "    for _ in range(9999):\n"
        "        print('what is done')\n"
        "    return 0\n"
        "sys.exit(run_command(work))\n",
        encoding="utf-8",
    )
    line = f"set -o pipefail; {sys.executable} {program} {redirect}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr.strip()) == (status, words)


def test_interrupt_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    def stopped(_: object) -> int:
        raise KeyboardInterrupt

    assert run_command(stopped, []) == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


# predict


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    seen: list[tuple[Any, ...]] = []

    def run_predict(spec: str, inputs: list[Path], **settings: Any) -> int:
        seen.append((spec, inputs, settings))
        return 0

    monkeypatch.setattr("amt.inference.run_predict", run_predict, raising=False)
    return seen


def test_predict_passes_on_what_was_said(
    calls: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path))
    line = ["exp@last.ckpt", "a b.wav", "c.wav", "-o", "out é", "--format", "midi", "png", "-p", "proj"]
    line += ["--device", "cpu", "--batch-size", "3", "--overlap", "0.25", "--reference", "r.mid"]
    line += ["--subtask", "singing-only", "--constrain", "--instruments", "Bass", "drums"]
    line += ["--start-from-ties", "--min-note-ms", "30", "--reference-program", "100"]
    assert predict.main([*line, "--decode-precision", "INT8"]) == 0
    [(spec, inputs, settings)] = calls
    assert (spec, inputs) == ("exp@last.ckpt", [Path("a b.wav"), Path("c.wav")])
    assert settings == {
        "out": Path("out é"),
        "to_stdout": False,
        "project": "proj",
        "log_dir": tmp_path,
        "device": "cpu",
        "choices": DecodingChoices(
            batch_size=3,
            overlap=0.25,
            subtask="singing-only",
            constrain=True,
            instruments=("Bass", "drums"),
            start_from_ties=True,
            precision="int8",
            min_note_ms=30.0,
        ),
        "formats": ("mid", "png"),
        "reference": Path("r.mid"),
        "reference_program": 100,
    }


def test_predict_refuses_a_program_that_is_none(calls: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    for program in ("128", "-1"):
        assert predict.main(["exp", "a.wav", "--reference-program", program]) == 2
        said = capsys.readouterr().err
        assert said == f"error: --reference-program must be 0 to 127, is {program}\n"
    assert calls == []


def test_predict_fits_the_function_it_calls() -> None:
    from amt.inference.outputs import WRITERS
    from amt.inference.predict import run_predict

    parameters = inspect.signature(run_predict).parameters
    assert set(parameters) == {
        *("spec", "inputs", "out", "to_stdout", "project", "log_dir", "device", "choices", "formats"),
        *("reference", "reference_program"),
    }
    assert parameters["formats"].default == tuple(predict.PREDICT_DEFAULTS["--format"].split())
    assert parameters["device"].default == predict.PREDICT_DEFAULTS["--device"]
    assert parameters["choices"].default == DecodingChoices()
    assert DecodingChoices().precision == predict.PREDICT_DEFAULTS["--decode-precision"]
    assert list(WRITERS) == list(predict.FORMATS)


def test_predict_takes_every_option_of_train() -> None:
    known = {name for option in (*predict.PREDICT_OPTIONS, *predict._TRAIN_OPTIONS) for name in option.names}
    assert {name for option in OPTIONS for name in option.names} <= known


def test_predict_compares_flags_of_the_model(
    calls: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from amt.config.experiment import Experiment
    from amt.config.leaves import replace_leaves
    from amt.config.published_models import PUBLISHED_MODELS

    stored = replace_leaves(Experiment(), {**PUBLISHED_MODELS["yptf_single"], "task": "mc13_fsingle"})
    monkeypatch.setenv("AMT_LOG_DIR", str(tmp_path))
    path = tmp_path / "ymt3" / "exp" / "checkpoints" / "last.ckpt"
    path.parent.mkdir(parents=True)
    path.touch()
    monkeypatch.setattr("amt.cli.from_checkpoint.stored_experiment", lambda _: stored)
    assert predict.main(["exp", "a.wav", "-tk", "mc13_fsingle", "-nl", "24"]) == 0
    assert capsys.readouterr().err == ""
    assert predict.main(["exp", "a.wav", "-lr", "1e-3", "-it", "5"]) == 0
    assert capsys.readouterr().err == "flags of training, ignored here: -lr -it\n"
    assert len(calls) == 2
    assert predict.main(["exp", "a.wav", "--recipe", "quickstart", "--dry-run"]) == 0
    assert capsys.readouterr().err == "flags of training, ignored here: --recipe --dry-run\n"
    assert predict.main(["exp", "a.wav", "--model", "yptf_multi"]) == 2
    assert "--model model.decoder_type=multi-t5, the checkpoint has t5" in capsys.readouterr().err
    calls.pop()
    assert predict.main(["exp", "a.wav", "-nl", "26"]) == 2
    assert "-nl 26, the checkpoint has 24" in capsys.readouterr().err
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        (["exp@last.ckpt"], "audio files"),
        (["song.wav", "exp@last"], "song.wav is no checkpoint, which comes first"),
        (["exp", "a.wav", "--batch-size", "0"], "--batch-size"),
        (["exp", "a.wav", "-o", "adamw"], "folder of the outputs"),
        (["exp", "a.wav", "--format", "pdf"], "mid, parts, png"),
        (["exp", "a.wav", "--min-note-ms", "-5"], "--min-note-ms"),
    ],
)
def test_predict_usage(argv: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert predict.main(argv) == 2
    assert part in capsys.readouterr().err


# prepare


def test_prepare_fits_the_functions_it_calls() -> None:
    from amt.cli.prepare_own import FOLDER_DEFAULTS
    from amt.preparation.generic import prepare_folder
    from amt.quickstart.build import build_quickstart

    parameters = inspect.signature(build_quickstart).parameters
    assert set(parameters) == {"out", "minutes", "seed", "processes", "progress", "small"}
    assert float(prepare.QUICKSTART_DEFAULTS["--minutes"]) == parameters["minutes"].default
    assert int(prepare.QUICKSTART_DEFAULTS["--seed"]) == parameters["seed"].default
    parameters = inspect.signature(prepare_folder).parameters
    assert {"licence", "octave_unknown", "stems", "program", "label_shift_ms"} <= set(parameters)
    shares = parameters["settings"].default.shares
    defaults = {"--validation-share": shares.validation, "--test-share": shares.test}
    assert shares.seed is None
    assert {name: str(value) for name, value in defaults.items()} == FOLDER_DEFAULTS


def test_prepare_quickstart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Any] = []
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "my data é"))
    monkeypatch.setattr("amt.quickstart.build.build_quickstart", lambda out, **rest: seen.append((out, rest)))
    assert prepare.main(["quickstart", "--minutes", "2.5", "--small"]) == 0
    out = tmp_path / "my data é" / "quickstart"
    assert seen == [(out, {"minutes": 2.5, "progress": True, "small": True})]
    out.mkdir(parents=True)
    (out / "store.json").touch()
    capsys.readouterr()
    assert prepare.main(["quickstart"]) == 0
    assert "is there already" in capsys.readouterr().out
    assert len(seen) == 1
    assert prepare.main(["quickstart", "--overwrite"]) == 0
    assert len(seen) == 2


@pytest.mark.parametrize("validation", [0, 1])
def test_prepare_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], validation: int
) -> None:
    seen: list[Any] = []

    def prepared(*args: Any, **rest: Any) -> PreparationReport:
        seen.append((args, rest))
        return PreparationReport(splits={"train": 3, "validation": validation, "test": 0})

    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("amt.preparation.generic.prepare_folder", prepared)
    source = tmp_path / "my songs é"
    source.mkdir()
    line = [
        "folder",
        str(source),
        "--name",
        "songs",
        "--test-share",
        "0.2",
        "--licence",
        "CC0",
        "--octave-unknown",
    ]
    out = tmp_path / "songs"
    for flac, sound in ((False, "16-bit arrays"), (True, "FLAC")):
        assert prepare.main([*line, *["--flac"] * flac]) == 0
        said = capsys.readouterr().out
        assert f"written to {out}, its sound as {sound}" in said
        assert ("train on it with -d songs" in said) == bool(validation)
        assert ("-d songs alone needs songs for validation first" in said) != bool(validation)
        settings = StoreSettings(Shares(0.1, 0.2), flac=flac)
        facts = {"licence": "CC0", "octave_unknown": True}
        assert seen.pop() == ((source, out, "songs", settings), facts)


@pytest.mark.parametrize(
    ("argv", "part"),
    [
        ([], ""),
        (["quikstart"], "quickstart, folder"),
        (["folder", ".", "x", "--program", "129"], "--program"),
        (["folder", ".", "x", "--processes", "0"], "--processes"),
        (["manifest", "none.csv", "x"], "none.csv is no file"),
        (["midi", ".", "x", "y"], "FOLDER NAME"),
        (["quickstart", "there"], "--out PATH"),
        (["quickstart", "--minutes", "0"], "--minutes"),
        (["folder"], "FOLDER NAME"),
        (["folder", "."], "--name"),
        (["folder", "my", "songs", "--name", "x"], "blanks goes into quotes ('my songs')"),
        (["slakh", "my", "songs"], "blanks goes into quotes"),
        (["folder", ".", "--name", "../x"], "plain name"),
        (["folder", ".", "--name", "x", "--test-share", "1"], "--test-share"),
        (["folder", "no such folder", "--name", "x"], "no such folder"),
    ],
)
def test_prepare_usage(
    argv: list[str],
    part: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    assert prepare.main(argv) == 2
    assert part in capsys.readouterr().err
