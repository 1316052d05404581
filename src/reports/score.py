"""``test.py`` from opened checkpoint or folder to tables and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..config.experiment import Experiment
from ..data.sources import open_scored_sets
from ..inference.progress_bar import ProgressBar
from .plan import TestPlan
from .result import StoredResult, stored_result, write_result, write_songs
from .result_page import write_result_page
from .run import MIDI_FOLDER, run_test
from .systems import System
from .table import make_console, print_result

EXIT_OK, EXIT_SONGS_FAILED = 0, 1
RESULT, SONGS, PAGE = "result.json", "songs.csv", "report.html"


def score_system(
    system: System,
    experiment: Experiment,
    plan: TestPlan,
    data_home: Path,
    out: Path,
    excluded: Sequence[str] = (),
) -> tuple[int, StoredResult]:
    """Test a system, print its tables and write its files.

    Args:
        system: a checkpoint, or a folder of estimates.
        experiment: gives the presets, when the plan names none, and the sample rate.
        plan: what is scored.
        data_home: folder of the stores.
        out: folder for what is written.
        excluded: presets left out.

    Returns:
        Exit status (0 all songs were scored, 1 some could not be), and what a comparison needs.

    Raises:
        ValueError: data sets that are unknown or not prepared; not one song could be scored.
    """
    presets = plan.presets or tuple(experiment.data.presets)
    if not presets:
        raise ValueError(f"{system.name} names no data presets; say with -d what to score")
    plan = plan.with_presets(presets)
    sets = open_scored_sets(
        presets, data_home, plan.split, sample_rate=experiment.audio.sample_rate, excluded=excluded
    )
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; the results need a folder (-o FOLDER)")
    out.mkdir(parents=True, exist_ok=True)
    with ProgressBar(system.name, "songs") as bar:
        run = run_test(system, sets, plan, out, bar.show)
    write_result(out / RESULT, run.result)
    write_songs(out / SONGS, run.result)
    write_result_page(out / PAGE, run)
    print_result(run.result, make_console())
    writes_midi = any(song.midi.startswith(f"{MIDI_FOLDER}/") for song in run.result.songs)
    print(f"\n{out / RESULT}, {SONGS}, {PAGE}{', midi/' if writes_midi else ''}")
    failed = any(item.failures for item in run.result.sets)
    return EXIT_SONGS_FAILED if failed else EXIT_OK, stored_result(run.result.to_dict())
