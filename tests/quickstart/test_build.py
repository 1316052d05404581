"""The whole data set, in its small form."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amt.data.store import SongStore
from amt.quickstart import mixes, songs
from amt.quickstart.build import build_quickstart

for _package in ("music21", "symusic", "pretty_midi"):
    if importlib.util.find_spec(_package) is None:
        pytest.skip(f"needs {_package}", allow_module_level=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> SongStore:
    path = tmp_path_factory.mktemp("data") / "quickstart"
    build_quickstart(path, progress=False, small=True, processes=1)
    return SongStore.open(path)


def test_two_processes_make_the_same_bytes(store: SongStore, tmp_path: Path) -> None:
    build_quickstart(tmp_path / "again", progress=False, small=True, processes=2)
    again = SongStore.open(tmp_path / "again")
    assert again.splits == store.splits
    for split in store.splits:
        assert again.content_hash(split) == store.content_hash(split)


def test_splits_and_tunes(store: SongStore) -> None:
    assert store.name == "quickstart"
    assert store.splits == {
        "train": 3,
        "validation": 1,
        "validation_hard": 1,
        "test_standard": 1,
        "test_hard": 1,
    }
    facts = {s: [store.song(s, i).meta for i in range(n)] for s, n in store.splits.items()}
    tunes: dict[str, set[str]] = {s: {m["tune"] for m in metas} for s, metas in facts.items()}
    for first in tunes:
        for second in tunes:
            if first != second:
                assert not tunes[first] & tunes[second]
    engines = {s: {m["engine"] for m in metas} for s, metas in facts.items()}
    held_out = engines.pop("test_hard")
    assert not held_out & set.union(*engines.values())
    singers: Any = {s: {m["singer"] for m in metas} for s, metas in facts.items()}
    assert not singers["test_standard"] & singers["train"]
    assert singers["validation"] <= singers["train"]


def test_songs_hold_sound_and_notes_that_fit(store: SongStore) -> None:
    for split, count in store.splits.items():
        for i in range(count):
            song = store.song(split, i)
            stems = np.asarray(song.stems)
            assert song.stem_names[0] == "voice"
            assert song.stem_programs[0] == [100]
            assert np.abs(stems.astype(np.int64).sum(axis=0)).max() <= 0.951 * 32768
            notes = song.notes
            assert notes["offset"].max() <= song.num_samples / song.sample_rate
            for programs, stem in zip(song.stem_programs, stems, strict=True):
                assert np.abs(stem).max() > 300
                if not programs:
                    continue
                mine = notes[notes["program"] == programs[0]]
                assert len(mine) >= 8
                assert (mine["is_drum"] == (programs[0] == 128)).all()
                assert ((mine["velocity"] >= 1) & (mine["velocity"] <= 127)).all()
                sounding = mixes.active(stem / 32768.0)
                middles = ((mine["onset"] + 0.06) * song.sample_rate).astype(int)
                assert sounding[np.minimum(middles, len(sounding) - 1)].mean() > 0.75
            voice = notes[notes["program"] == 100]
            assert (voice["onset"][1:] >= voice["offset"][:-1] - 1e-9).all()


def test_hard_mixes_have_drums_noise_and_a_loud_band(store: SongStore) -> None:
    for split in ("test_hard", "validation_hard"):
        song = store.song(split, 0)
        assert song.stem_names[-2:] == ["drums", "noise"]
        stems = np.asarray(song.stems) / 32768.0
        where = mixes.active(stems[0])
        ratio = mixes.rms(stems[0], where) / mixes.rms(stems[1:-1].sum(axis=0), where)
        assert abs(20 * np.log10(ratio)) < 0.5
        snr = 20 * np.log10(mixes.rms(stems[0], where) / mixes.rms(stems[-1]))
        assert abs(snr - song.meta["snr_db"]) < 0.5
        assert 15 <= song.meta["snr_db"] <= 25
        assert 0.3 <= song.meta["rt60"] <= 1.0
    lead = store.song("test_standard", 0).meta["voice_lead_db"]
    assert 2 <= lead <= 12


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "symusic" else real(name))
    with pytest.raises(ValueError, match=r'symusic.*pip install "amt\[quickstart\]"'):
        build_quickstart(tmp_path / "x", small=True, progress=False)


def test_progress_prints_plain_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="more than 0 minutes"):
        build_quickstart(tmp_path / "x", minutes=0)
    from amt.quickstart.build import _Reporter

    reporter = _Reporter(True)
    reporter.start(2)
    reporter.advance(2)
    assert "2 of 2 songs" in capsys.readouterr().out


def test_settings_of_one_tune_are_recognised() -> None:
    def tune(pitches: list[int]) -> songs.Tune:
        notes = tuple(songs.ScoreNote(float(i), 1.0, p) for i, p in enumerate(pitches))
        return songs.Tune("x", "chorale", notes, (), 4.0, 0.0)

    rng = np.random.default_rng(0)
    line = (60 + rng.integers(0, 12, 60)).tolist()
    assert songs.same_tune(tune(line), tune([p + 5 for p in line]))
    assert songs.same_tune(tune(line), tune([line[0], *line]))
    assert songs.same_tune(tune(line), tune([50, 53, *line[2:]]))
    assert not songs.same_tune(tune(line), tune((60 + rng.integers(0, 12, 60)).tolist()))


def test_timing_runs_forwards_and_fermatas_stretch() -> None:
    beats = np.linspace(0, 60, 6001)
    plain = songs.Timing(90.0, (0.06, 12.0, 1.0), 0.4, 0.5, ())
    held = songs.Timing(90.0, (0.06, 12.0, 1.0), 0.4, 0.5, (8.0, 16.0))
    assert plain.seconds(0.0) == pytest.approx(0.4)
    assert (np.diff(plain.seconds(beats)) > 0).all()
    assert held.seconds(60.0) - plain.seconds(60.0) == pytest.approx(1.0)
