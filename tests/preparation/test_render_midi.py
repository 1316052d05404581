"""MIDI alone becomes a store; who plays is handed in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from amt.data.store import SongStore
from amt.notes import Note, write_midi
from amt.notes.note import NoteArray, note_programs
from amt.preparation.generic import Shares, StoreSettings
from amt.preparation.render_midi import prepare_midi


def beep(notes: NoteArray, seed: int) -> tuple[list[npt.NDArray[np.float64]], list[int], NoteArray]:
    """Every program a constant of its own; loud enough to need scaling when summed."""
    programs = sorted(set(note_programs(notes).tolist()))
    notes = notes[notes["pitch"] < 127]
    size = round(float(notes["offset"].max(initial=1.0)) * 16000)
    return [np.full(size, 0.4 + seed % 7 / 100) for _ in programs], programs, notes


def test_each_program_is_a_stem(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    (raw / "sub").mkdir(parents=True)
    write_midi(
        [Note(0.1, 0.5, 60, 100), Note(0.2, 0.21, 36, 128, True), Note(0.3, 1.0, 50, 33)], raw / "a.mid"
    )
    write_midi([Note(0.1, 0.5, 60)], raw / "sub" / "b.MIDI")
    write_midi([], raw / "empty.mid")
    write_midi([Note(0.1, 0.5, 127)], raw / "unplayable.mid")
    (raw / "junk.mid").write_bytes(b"junk")
    (raw / "a_transcribed.mid").write_bytes((raw / "a.mid").read_bytes())
    write_midi([Note(1900, 1901, 60)], raw / "long.mid")
    settings = StoreSettings(Shares(0, 0), progress=False)
    report = prepare_midi(raw, tmp_path / "out", "mine", beep, settings, licence="CC0")
    assert set(report.broken) == {"empty", "junk", "long", "unplayable"}
    assert "none of its 1 notes can be played" in report.broken["unplayable"]
    assert "nothing to play" in report.broken["empty"]
    assert "cut it to pieces" in report.broken["long"]
    assert any("a_transcribed.mid: left out" in remark for remark in report.remarks)
    store = SongStore.open(tmp_path / "out")
    store.check()
    song = store.song("train", 0)
    assert song.song_id == "a"
    assert song.stem_programs == [[33], [100], [128]]
    assert song.stem_names[2] == "Drums"
    assert song.meta["licence"] == "CC0"
    assert song.meta["synthetic"] is True
    peak = np.abs(song.stems.astype(np.int64).sum(axis=0)).max()
    assert peak <= 0.95 * 32768 + 3, "the sum does not clip"
    assert store.song("train", 1).song_id == "sub__b"
    prepare_midi(raw, tmp_path / "all one", "mine", beep, settings, program=100)
    assert SongStore.open(tmp_path / "all one").song("train", 0).stem_programs == [[100], [128]]


def test_mistakes_are_said(tmp_path: Path) -> None:
    quiet = StoreSettings(progress=False)
    with pytest.raises(ValueError, match="is no folder"):
        prepare_midi(tmp_path / "none", tmp_path / "out", "mine", beep, quiet)
    with pytest.raises(ValueError, match="no MIDI file found"):
        prepare_midi(tmp_path, tmp_path / "out", "mine", beep, quiet)
    with pytest.raises(ValueError, match="belongs to a data preset"):
        prepare_midi(tmp_path, tmp_path / "out", "quickstart", beep, quiet)
    for program in (-1, 129):
        with pytest.raises(ValueError, match=f"program {program} must lie in 0 to 127"):
            prepare_midi(tmp_path, tmp_path / "out", "mine", beep, quiet, program=program)
    write_midi([Note(0.1, 0.5, 60)], tmp_path / "a.mid")
    with pytest.raises(ValueError, match="instruments play at 16000 Hz, not at 22050 Hz"):
        prepare_midi(tmp_path, tmp_path / "out", "mine", beep, StoreSettings(sample_rate=22050))
