"""``test.py`` from opened checkpoint or folder to tables and files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..config.experiment import Experiment
from ..config.names import listing
from ..data.sources import open_scored_sets
from ..data.strict_json import read_json_object
from ..inference.progress_bar import ProgressBar
from .plan import TestPlan, conventions_of
from .result import StoredResult, stored_result, write_result, write_songs
from .result_page import flat_facts, write_result_page
from .run import MIDI_FOLDER, run_test
from .systems import System
from .table import make_console, print_result

EXIT_OK, EXIT_SONGS_FAILED = 0, 1
RESULT, SONGS, PAGE = "result.json", "songs.csv", "report.html"
_SHOWN_FACTS = ("file", "experiment", "step")
"""Facts of a system by which a user knows it."""
_SHOWN = 4
"""Most differences that a line names."""


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
        Exit status (0 all songs were scored, 1 some could not be, or a set has no note to score), and what a
        comparison needs.

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
    replaced = replaced_text(out, system.facts, conventions_of(system, plan))
    if replaced:
        print(f"note: {replaced}", file=sys.stderr)
    out.mkdir(parents=True, exist_ok=True)
    with ProgressBar(system.name, "songs") as bar:
        run = run_test(system, sets, plan, out, bar.show)
    write_result(out / RESULT, run.result)
    write_songs(out / SONGS, run.result)
    write_result_page(out / PAGE, run)
    print_result(run.result, make_console())
    writes_midi = any(song.midi.startswith(f"{MIDI_FOLDER}/") for song in run.result.songs)
    print(f"\n{out / RESULT}, {SONGS}, {PAGE}{', midi/' if writes_midi else ''}")
    failed = any(item.failures or run.result.lacks_reference(item.name) for item in run.result.sets)
    return EXIT_SONGS_FAILED if failed else EXIT_OK, stored_result(run.result.to_dict())


def replaced_text(out: Path, facts: Callable[[], Mapping[str, Any]], conventions: Mapping[str, Any]) -> str:
    """Which earlier score a test in a folder replaces, and what of it differs; "" when there is none.

    Args:
        out: folder of the results.
        facts: gives those of the system to be tested.
        conventions: how it is going to be scored.
    """
    file = out / RESULT
    try:
        written = time.strftime("%Y-%m-%d %H:%M", time.localtime(file.stat().st_mtime))
    except OSError:
        return ""
    text = f"replaces the score of {written} in {file}"
    try:
        old = read_json_object(file)
        before, now = _identity(old["system"], old["conventions"]), _identity(facts(), conventions)
    except (ValueError, KeyError, TypeError, AttributeError):
        return text  # of another version, or damaged: nothing is known of it
    other = [
        f"{name} {before.get(name, 'not set')}, now {now.get(name, 'not set')}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]
    if not other:
        return text
    return f"{text}, which has {listing(other, _SHOWN, '; ')} (-o FOLDER keeps both)"


def _identity(facts: Mapping[str, Any], conventions: Mapping[str, Any]) -> dict[str, str]:
    """What makes two scores comparable, as plain text by name."""
    flat = flat_facts({key: value for key, value in facts.items() if key in _SHOWN_FACTS})
    return {name: str(value) for name, value in (flat | flat_facts(conventions)).items()}
