"""``test.py``: score a model, or the MIDI files of another system, on data sets.

The model's configuration comes from the checkpoint; flags of ``train.py`` are accepted as in ``predict.py``.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..config.environment import Environment, read_environment
from ..config.experiment import Experiment
from ..config.presets import combine_presets
from ..model.checkpoint_names import CHECKPOINTS
from .command import EXIT_OK, run_command, warn
from .from_checkpoint import (
    compare_with_checkpoint,
    decoding_choices,
    given_program,
    output_folder,
    say_ignored,
    train_options,
)
from .options_command import DECODING_DEFAULTS, DECODING_OPTIONS
from .parser import CommandLine, Given, Section, UsageError, format_help, parse
from .precedence import stored_experiment
from .published import UNAVAILABLE

if TYPE_CHECKING:
    from ..reports.plan import TestPlan
    from ..reports.result import StoredResult

COMPARISON_FOLDER = "comparison"
"""Where a comparison is written without ``-o``, in the working directory."""
_test = Section("test", "")

TEST_OPTIONS = (
    _test("-h", "--help", "switch", "", "show this text and exit"),
    _test(
        "-d",
        "--data-preset",
        "text",
        "",
        "data presets, or names of prepared stores; those of the checkpoint if not given",
        count=0,
    ),
    _test(
        "",
        "--split",
        "text",
        "",
        "what the presets call test, validation or train, or the name of a split of the stores",
    ),
    _test(
        "-o",
        "--output",
        "text",
        "",
        "folder for what is written; else test/CHECKPOINT in the folder of the run, or CHECKPOINT_test "
        "beside a file elsewhere, with the names of other data than the checkpoint's",
        metavar="FOLDER",
    ),
    _test("-w", "--write-model-output", "bool", "", "write the MIDI of each song as it is done"),
    _test(
        "-epv",
        "--eval-program-vocab",
        "text",
        "",
        "classes scored one by one, a vocabulary of docs/tokens.md; the preset's if not given",
    ),
    _test(
        "-edv",
        "--eval-drum-vocab",
        "text",
        "",
        "drum pitches that are equal, a vocabulary of docs/tokens.md; the preset's if not given",
    ),
    _test(
        "-t",
        "--onset-tolerance",
        "float",
        "",
        "seconds that two onsets that agree may be apart",
        metavar="SECONDS",
    ),
    _test("", "--pitch-class", "switch", "", "score every class without octaves too"),
    _test("", "--octave-shift", "switch", "", "score with the labels moved by octaves too, class by class"),
    _test("", "--label-shift", "switch", "", "score with the labels moved by -100 to 100 ms too"),
    _test(
        "",
        "--estimates",
        "text",
        "",
        "score the MIDI files in this folder, SONG.mid or SET/SONG.mid, instead of a model's; the checkpoint "
        "may be left out, then -tk says which notes count",
        metavar="FOLDER",
    ),
    _test(
        "",
        "--estimates-program",
        "int",
        "",
        "instrument (0 to 127) of all pitched notes of those files, for systems that do not say it",
    ),
    _test(
        "",
        "--compare",
        "text",
        "",
        "how much better B is than A on the same songs; each is a result.json, or a checkpoint to test; "
        f"written to the folder {COMPARISON_FOLDER} here, or -o",
        count=2,
        metavar="A B",
    ),
    _test("", "--max-songs", "int", "", "score the first N songs of each set only; 0 takes all"),
    _test("", "--report-songs", "int", "", "songs the page shows from each end of a set's ranking"),
    *DECODING_OPTIONS,
)
TEST_DEFAULTS = {
    "--split": "test",
    "--write-model-output": "true",
    "--onset-tolerance": "0.05",
    "--max-songs": "0",
    "--report-songs": "2",
    **DECODING_DEFAULTS,
}
_LONGEST_PART = 60
"""Most bytes by which the presets make the name of a folder longer."""
_OWN_NAMES = {name for option in TEST_OPTIONS for name in option.names}
_TRAIN_OPTIONS = train_options(TEST_OPTIONS)
_UNAVAILABLE = {name: text for name, text in UNAVAILABLE.items() if name not in _OWN_NAMES}
_INTRO = (
    "Score the model of a checkpoint (exp, exp@last, exp@best, or the path of a file) on the test sets of "
    "data presets: tables here, and result.json, songs.csv, report.html and the MIDI files in a folder. With "
    "--estimates, score another system's MIDI files; with --compare, two results. Flags of train.py are "
    "accepted and compared with the checkpoint."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``test.py`` and return its exit code: 0 all songs scored, 1 some could not be, or a set has no note
    to score, 2 nothing done."""
    return run_command(_run, argv)


def _run(argv: Sequence[str]) -> int:
    command = parse(argv, (*TEST_OPTIONS, *_TRAIN_OPTIONS), _UNAVAILABLE)
    if command.has("--help"):
        usage = "test.py EXP[@CHECKPOINT] -d PRESET ... [options]"
        print(format_help(usage, _INTRO, TEST_OPTIONS, TEST_DEFAULTS, ("test", "decoding")), end="")
        return EXIT_OK
    out = output_folder(command)
    environment = read_environment(os.environ)
    for sentence in environment.warnings:
        warn(sentence)
    _check_usage(command)
    if command.has("--compare"):
        return _compare(command, environment, out or Path(COMPARISON_FOLDER))
    spec = command.words[0] if command.words else None
    if command.has("--estimates"):
        return _test_estimates(command, environment, spec, out)[0]
    assert spec is not None
    return _test_model(command, environment, spec, out)[0]


def _check_usage(command: CommandLine) -> None:
    words, compares, estimates = len(command.words), command.has("--compare"), command.has("--estimates")
    if words > 1:
        raise UsageError(
            f"test.py takes one checkpoint, not {' '.join(command.words)}; data sets stand behind -d"
        )
    if compares and (words or estimates):
        raise UsageError("--compare A B stands alone: leave out the checkpoint and --estimates")
    if not words and not compares and not estimates:
        raise UsageError("test.py needs a checkpoint: test.py exp@last.ckpt -d quickstart")
    if estimates and not words and not command.has("--data-preset"):
        raise UsageError("--estimates without a checkpoint needs -d: which songs are these?")
    if given_program(command, "--estimates-program") is not None and not estimates:
        raise UsageError("--estimates-program does nothing without --estimates")


def _plan(command: CommandLine) -> TestPlan:
    from ..reports.plan import TestPlan

    presets = command.given["--data-preset"].values if command.has("--data-preset") else ()
    return TestPlan(
        split=str(command.get("--split", TEST_DEFAULTS["--split"])),
        presets=tuple(str(name) for name in presets),
        eval_vocab=str(command.get("--eval-program-vocab", "")) or None,
        eval_drum_vocab=str(command.get("--eval-drum-vocab", "")) or None,
        onset_tolerance=float(command.get("--onset-tolerance", TEST_DEFAULTS["--onset-tolerance"])),
        pitch_class=command.has("--pitch-class"),
        octave_shift=command.has("--octave-shift"),
        label_shift=command.has("--label-shift"),
        max_songs=int(command.get("--max-songs", TEST_DEFAULTS["--max-songs"])),
        write_midi=bool(command.get("--write-model-output", True)),
        num_shown=int(command.get("--report-songs", TEST_DEFAULTS["--report-songs"])),
    )


def _test_model(
    command: CommandLine, environment: Environment, spec: str, out: Path | None
) -> tuple[int, StoredResult]:
    """Test a checkpoint; the exit status and what a comparison needs."""
    project = str(command.get("--project", "")) or None
    choices, plan = decoding_choices(command), _plan(command)
    compare_with_checkpoint(spec, _train_flags(command), environment.log_dir, project)
    if plan.presets:  # a misspelt name is said before the weights are read
        combine_presets(plan.presets, environment.data_home)
    from ..inference import load_transcriber
    from ..reports.score import score_system
    from ..reports.systems import ModelSystem

    transcriber = load_transcriber(
        spec,
        choices,
        device=str(command.get("--device", TEST_DEFAULTS["--device"])),
        log_dir=environment.log_dir,
        project=project,
    )
    assert transcriber.source is not None
    place = out or _folder_beside(transcriber.source, plan, transcriber.experiment.data.presets)
    system = ModelSystem(transcriber, spec, choices)
    return score_system(
        system, transcriber.experiment, plan, environment.data_home, place, environment.excluded_presets
    )


def _test_estimates(
    command: CommandLine, environment: Environment, spec: str | None, out: Path | None
) -> tuple[int, StoredResult]:
    """Score a folder of MIDI files; the exit status and what a comparison needs."""
    folder = Path(str(command.get("--estimates", "")))
    plan = _plan(command)
    program = given_program(command, "--estimates-program")
    if spec is None:
        experiment = replace(Experiment(), task=str(command.get("--task", Experiment().task)))
        say_ignored([item.name for item in _train_flags(command) if item.option.long != "--task"])
    else:
        project = str(command.get("--project", "")) or None
        compare_with_checkpoint(spec, _train_flags(command), environment.log_dir, project)
        from ..inference.find import find_checkpoint

        checkpoint = find_checkpoint(spec, log_dir=environment.log_dir, project=project)
        stored = stored_experiment(checkpoint)
        if stored is None:
            raise UsageError(f"{checkpoint} does not say its task; leave it out and name the task with -tk")
        experiment = stored
    from ..reports.score import score_system
    from ..reports.systems import FolderSystem

    system = FolderSystem(folder, experiment, str(command.get("--subtask", "")) or None, program)
    place = out or folder.parent / f"{folder.resolve().name}_test"
    return score_system(system, experiment, plan, environment.data_home, place, environment.excluded_presets)


def _compare(command: CommandLine, environment: Environment, out: Path) -> int:
    """Compare two results, testing those that are named as checkpoints first."""
    from ..inference.find import find_checkpoint
    from ..reports.result import COMPARISON_FILE, compare_results, read_result, write_comparison
    from ..reports.table import make_console, print_comparison

    sides = dict(zip("ab", map(str, command.given["--compare"].values), strict=True))
    results = {side: read_result(Path(text)) for side, text in sides.items() if text.endswith(".json")}
    models = {side: text for side, text in sides.items() if side not in results}
    project = str(command.get("--project", "")) or None
    for text in models.values():  # a misspelt name is said before the other side is tested
        find_checkpoint(text, log_dir=environment.log_dir, project=project)
    status = EXIT_OK
    for side, text in models.items():
        failed, results[side] = _test_model(command, environment, text, out / side)
        status = max(status, failed)
    comparison = compare_results(results["a"], results["b"])
    replaced = (out / COMPARISON_FILE).exists()
    write_comparison(out, comparison)
    print_comparison(comparison, make_console())
    tests = "".join(f", {side}/" for side in models)
    print(f"\n{out / COMPARISON_FILE}, .csv{tests}{' (that of before is replaced)' if replaced else ''}")
    return status


def _train_flags(command: CommandLine) -> list[Given]:
    return [item for item in command.given.values() if item.option in _TRAIN_OPTIONS]


def _folder_beside(checkpoint: Path, plan: TestPlan, own: Sequence[str]) -> Path:
    """``test/CHECKPOINT`` in the folder of the run, else ``CHECKPOINT_test`` beside the file.

    Other presets than the checkpoint's ``own`` and another split than test are parts of the name.
    """
    part = f"-{_joined(plan.presets)}" if plan.presets and {*plan.presets} != {*own} else ""
    part += "" if plan.split == TEST_DEFAULTS["--split"] else f"-{plan.split}"
    if checkpoint.parent.name == CHECKPOINTS:
        return checkpoint.parent.parent / "test" / f"{checkpoint.stem}{part}"
    return checkpoint.with_name(f"{checkpoint.stem}_test{part}")


def _joined(presets: Sequence[str]) -> str:
    """Names of presets as a part of a file's name, in any order the same; many are cut short."""
    name = "+".join(sorted(presets))
    if len(os.fsencode(name)) <= _LONGEST_PART:
        return name
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
    return f"{min(presets)[: _LONGEST_PART // 2]}+{len(presets) - 1}-more-{digest}"


if __name__ == "__main__":
    sys.exit(main())
