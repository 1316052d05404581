"""A checkpoint asked for what each song can be held against; files of other systems."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from amt.config import Experiment
from amt.data.scored import ScoredSet
from amt.data.store import SongStore, StoreWriter
from amt.inference import DecodingChoices
from amt.notes import Note, notes_to_array
from amt.reports.plan import TestPlan
from amt.reports.result import Failure
from amt.reports.run import run_test
from amt.reports.systems import FolderSystem, ModelSystem
from amt.tokenizer import NoteTokenizer

VOICE = [Note(t, t + 0.4, 60 + int(2 * t), 100) for t in np.arange(0.5, 4.0, 0.5)]
BASS = [Note(t, t + 0.4, 40, 33) for t in np.arange(0.5, 4.0, 0.5)]
SINGING = Experiment(task="singing_v1")


@pytest.fixture
def mixed(tmp_path: Path) -> ScoredSet:
    """Songs 0 and 2 are annotated in full, 1 and 3 in their voice only."""
    with StoreWriter(tmp_path / "mixed", "mixed") as writer:
        for number in range(4):
            partly = number % 2 == 1
            stems = np.full((2, 5 * 16000), number, np.int16)
            notes = notes_to_array(VOICE if partly else sorted(VOICE + BASS))
            meta = {"unannotated": [129]} if partly else {}
            writer.add_song(
                "test", f"s{number}", stems, [[100], [] if partly else [33]], ["voice", "rest"], notes, meta
            )
    return ScoredSet("mixed", SongStore.open(tmp_path / "mixed"), "test", None)


class Obedient:
    """Transcribes what it is asked for, and says what that was."""

    def __init__(self, subtask: str | None = "default") -> None:
        self.tokenizer = NoteTokenizer.from_experiment(SINGING)
        self.subtask = subtask
        self.asked: list[tuple[int, str | None]] = []
        self.experiment, self.source, self.device = SINGING, None, "cpu"
        self.overlap, self.pitch_check, self.batch_size, self.precision = 0.0, 0.0, 4, "32"
        self.model = SimpleNamespace(parameters=lambda: iter([]))

    def transcribe_songs(self, songs: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for number, audio in enumerate(songs):
            self.asked.append((round(float(audio[0]) * 32768 / 2), self.subtask))
            notes = [*VOICE, Note(9.0, 9.5, 30, 77)] if self.subtask == "singing-only" else VOICE + BASS
            yield number, SimpleNamespace(notes=notes, num_windows=3, errors=Counter(), class_names={})


def test_each_song_is_asked_for_what_it_annotates(mixed: ScoredSet, tmp_path: Path) -> None:
    model = Obedient()
    run = run_test(ModelSystem(model, "m", DecodingChoices()), [mixed], TestPlan(), tmp_path)  # type: ignore[arg-type]
    assert model.asked == [(0, "default"), (2, "default"), (1, "singing-only"), (3, "singing-only")]
    assert model.subtask == "default"
    assert [song.song_id for song in run.result.songs] == ["s0", "s1", "s2", "s3"]
    assert [song.num_notes for song in run.result.songs] == [14, 7, 14, 7]
    assert [song.num_estimated for song in run.result.songs] == [14, 7, 14, 7], "nobody knows of program 77"
    assert run.result.metrics["test/macro_multi_f"].value == 1.0
    assert run.result.conventions["subtask"] is None


def test_all_songs_are_asked_for_a_sub_task_that_was_named(mixed: ScoredSet, tmp_path: Path) -> None:
    model = Obedient("singing-only")
    system = ModelSystem(model, "m", DecodingChoices(subtask="singing-only"))  # type: ignore[arg-type]
    result = run_test(system, [mixed], TestPlan(), tmp_path).result
    assert {asked for _, asked in model.asked} == {"singing-only"}
    assert [song.num_notes for song in result.songs] == [7, 7, 7, 7]
    assert result.conventions["subtask"] == "singing-only"
    model = Obedient(None)
    system = ModelSystem(model, "m", DecodingChoices(subtask="none"))  # type: ignore[arg-type]
    result = run_test(system, [mixed], TestPlan(), tmp_path).result
    assert {asked for _, asked in model.asked} == {None}
    assert [song.num_notes for song in result.songs] == [14, 7, 14, 7]


def test_a_checkpoint_is_what_it_was_when_the_test_began(tmp_path: Path) -> None:
    """A run that goes on writes its ``last.ckpt`` anew while a test of it works."""
    model = Obedient()
    model.source = tmp_path / "last.ckpt"  # type: ignore[assignment]
    model.source.write_bytes(b"loaded")
    system = ModelSystem(model, "m", DecodingChoices())  # type: ignore[arg-type]
    before = system.facts()
    model.source.write_bytes(b"trained further")
    assert system.facts() == before
    assert before["sha256"] == hashlib.sha256(b"loaded").hexdigest()


def test_files_are_held_against_the_same_notes(mixed: ScoredSet, tmp_path: Path) -> None:
    from amt.notes import write_midi

    folder = tmp_path / "theirs"
    folder.mkdir()
    for number in range(4):
        write_midi(VOICE + BASS, folder / f"s{number}.MID")
    result = run_test(FolderSystem(folder, SINGING), [mixed], TestPlan(), tmp_path).result
    assert [song.num_estimated for song in result.songs] == [14, 7, 14, 7]
    assert result.metrics["test/macro_multi_f"].value == 1.0
    other = replace(mixed, name="other")
    (folder / "mixed").mkdir()
    for number in range(4):
        (folder / f"s{number}.MID").rename(folder / "mixed" / f"s{number}.mid")
    two = run_test(FolderSystem(folder, SINGING), [mixed, other], TestPlan(), tmp_path).result
    assert [(len(item.failures), item.failures[:1]) for item in two.sets] == [
        (0, ()),
        (4, (Failure("s0", f"no s0.mid in {folder}"),)),
    ], "a set without a file takes the others nothing"
    with pytest.raises(ValueError, match=r"not one of 4 songs could be scored; s0: no s0\.mid in"):
        run_test(FolderSystem(folder, SINGING), [other], TestPlan(), tmp_path)
    with pytest.raises(ValueError, match="sub-task of singing_v1 'singing'"):
        FolderSystem(folder, SINGING, "singing")
