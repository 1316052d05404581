"""docs/data.md, followed to the letter: its folders, its manifest and its commands."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.cli import prepare
from amt.data.store import SongStore
from amt.notes import Note, write_midi
from amt.preparation.check import WAYS_OUT
from amt.preparation.manifest import COLUMNS

PAGE = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")


def part(title: str) -> str:
    """Text of a section up to the next one."""
    return re.split(r"\n##+ ", PAGE.split(f"# {title}\n", 1)[1], maxsplit=1)[0]


def blocks(title: str) -> list[str]:
    return re.findall(r"```\n(.*?)```", part(title), re.S)


def commands(title: str) -> list[list[str]]:
    """The ``amt-prepare`` lines of a section."""
    lines = [line for block in blocks(title) for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("amt-prepare ")]


def make(path: Path, programs: tuple[int, ...] = (100,)) -> None:
    """A file of the right kind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    seed = len(path.as_posix())
    onsets = 0.1 + 0.3 * np.arange(8)
    if path.suffix in (".mid", ".csv"):
        notes = [Note(t, t + 0.2, 60 + i, p, p == 128) for i, t in enumerate(onsets) for p in programs]
        if path.suffix == ".mid":
            write_midi(notes, path)
        else:
            path.write_text("\n".join(f"{note.onset},{note.offset},{note.pitch}" for note in notes))
        return
    rng = np.random.default_rng(seed)
    audio = rng.normal(0, 1e-3, 3 * 16000)
    for onset in onsets:
        audio[int(onset * 16000) :][:3000] += 0.2 * rng.normal(size=3000) * np.exp(-np.arange(3000) / 900)
    soundfile.write(path, audio, 16000, format="MP3" if path.suffix == ".mp3" else None)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def test_a_folder_of_pairs(home: Path) -> None:
    for name in re.findall(r"[\w/ ]+\.\w+", blocks("Your own recordings in one page")[0].partition("\n")[2]):
        make(home / "recordings" / re.sub(r"^.*\n", "", name).strip())
    prepared, checked = commands("Your own recordings in one page")
    assert prepare.main([*prepared, "--validation-share", "0", "--test-share", "0"]) == 0
    assert SongStore.open(home / "data" / "mine").splits["train"] == 2
    assert prepare.main(checked) in (0, 1)


def test_stems(home: Path) -> None:
    layout = blocks("Stems")[0]
    for song, files in re.findall(r"  ([\w ]+)/  (.*)", layout):
        for name in re.split(r"  +", files.strip()):
            make(home / "album" / song / name, (100, 128, 33, 5) if name.startswith("all") else (0,))
    (line,) = commands("Stems")
    assert prepare.main([*line, "--validation-share", "0", "--test-share", "0"]) == 0
    store = SongStore.open(home / "data" / "stemmed")
    found = [
        dict(zip(s.stem_names, s.stem_programs, strict=True))
        for s in (store.song("train", i) for i in (0, 1))
    ]
    assert found == [
        {"bass": [32], "drums": [128], "vocals": [100]},
        {"accompaniment": [5, 33], "drums": [128], "vocals": [100]},
    ]


def test_a_manifest(home: Path) -> None:
    (home / "songs.csv").write_text(blocks("A manifest")[0])
    for name in ("one.wav", "two/voice.wav", "two/bass.wav", "two/noise.wav", "three.mp3", "room.wav"):
        make(home / name)
    for name in ("one.mid", "three.csv"):
        make(home / name)
    make(home / "two" / "all.mid", (100, 33))
    (line,) = commands("A manifest")
    assert prepare.main(line) == 0
    store = SongStore.open(home / "data" / "listed")
    assert store.splits == {"train": 3, "validation": 1, "test": 0}
    assert store.song("train", 1).stem_programs == [[100], [32, 33], []]
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", part("A manifest"), re.M))))
    assert named == set(COLUMNS)


def test_midi_alone(home: Path) -> None:
    for package in ("symusic", "pretty_midi"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"needs {package}")
    make(home / "tunes" / "a.mid", (100, 33))
    (line,) = commands("MIDI alone")
    assert prepare.main([*line, "--validation-share", "0", "--test-share", "0"]) == 0
    assert SongStore.open(home / "data" / "rendered").song("train", 0).stem_programs == [[33], [100]]


def test_the_table_of_the_check_names_every_kind() -> None:
    rows = re.findall(r"^\| (.+?) \|", part("Check"), re.M)
    named = {name for row in rows[1:] for name in row.split(", ")}
    assert named == set(WAYS_OUT)


def test_the_store_written_from_python(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", part("Writing a store from Python"), re.S)
    exec(compile(code, "docs/data.md", "exec"), {})
    assert "{'train': 1} (32000,)" in capsys.readouterr().out
