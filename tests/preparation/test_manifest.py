"""A manifest becomes a store, and all that is wrong with it is said at once."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.config.vocabularies import program_name
from amt.data.store import SongStore
from amt.notes import Note, write_midi
from amt.preparation.generic import Shares, StoreSettings
from amt.preparation.manifest import prepare_manifest, read_manifest
from amt.preparation.note_lists import read_note_list


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Sounds of a second and notes, in a folder with a blank and a letter beyond ASCII."""
    folder = tmp_path / "my files é"
    (folder / "sub").mkdir(parents=True)
    for number, name in enumerate(("voice", "bass", "mix", "sub/second"), 1):
        soundfile.write(folder / f"{name}.wav", number / 20 * np.sin(np.arange(22050) / 9), 22050)
    write_midi([Note(0.1, 0.4, 60), Note(0.2, 0.21, 36, 128, True)], folder / "mix.mid")
    write_midi([Note(0.1, 0.4, 62, 100), Note(0.3, 0.5, 40, 33)], folder / "two.mid")
    (folder / "notes.csv").write_text("onset,offset,pitch\n0.1,0.3,60\n0.3,0.4,61.4\n")
    return folder


def prepare(manifest: Path, out: Path, shares: Shares | None = None) -> SongStore:
    prepare_manifest(manifest, out, "mine", StoreSettings(shares or Shares(), progress=False))
    store = SongStore.open(out)
    store.check()
    return store


def test_a_csv_manifest(files: Path, tmp_path: Path) -> None:
    (files / "songs.csv").write_text(
        "\ufeffid,split,audio,stems,midi,notes,program,unannotated,octave_unknown,label_shift_ms,licence\r\n"
        "one,train,mix.wav,,mix.mid,,,,yes,,CC0\r\n"
        "two,validation,,100:voice.wav|33+34:bass.wav|:mix.wav,two.mid,,,5,,,\r\n"
        ",fold_1,sub/second.wav,,,notes.csv,100,129,0,50,\r\n"
        "\r\n"
        "silent,train,voice.wav,,none,,,,,,\r\n",
        encoding="utf-8",
    )
    store = prepare(files / "songs.csv", tmp_path / "out")
    assert store.splits == {"train": 2, "validation": 1, "test": 0, "fold_1": 1}
    one, silent = store.song("train", 0), store.song("train", 1)
    assert (one.song_id, one.octave_unknown, one.meta["licence"]) == ("one", True, "CC0")
    assert one.stem_programs == [[0, 128]]
    assert (silent.num_notes, silent.unannotated, silent.meta["without_notes"]) == (0, [], True)
    two = store.song("validation", 0)
    assert two.stem_names == ["voice", "bass", "mix"]
    assert two.stem_programs == [[100], [33, 34], []]
    assert two.unannotated == [5]
    second = store.song("fold_1", 0)
    assert second.song_id == "sub__second"
    assert second.notes["program"].tolist() == [100, 100]
    assert second.notes["pitch"].tolist() == [60, 61]
    assert second.notes["onset"] == pytest.approx([0.15, 0.35])
    assert second.unannotated == [129]


def test_a_json_manifest_says_the_same(files: Path, tmp_path: Path) -> None:
    rows = [
        {"id": "one", "split": "train", "audio": "mix.wav", "midi": "mix.mid", "octave_unknown": True},
        {
            "id": "two",
            "split": "train",
            "stems": [
                {"audio": "voice.wav", "name": "lead", "programs": [100], "notes": "notes.csv"},
                "33:bass.wav",
            ],
        },
        {"id": 3, "split": "train", "audio": "voice.wav", "notes": [[0.1, 0.2, 60, 40], [0.3, 0.4, 36, 128]]},
    ]
    (files / "songs.json").write_text(json.dumps({"songs": rows}))
    store = prepare(files / "songs.json", tmp_path / "out")
    assert store.index("train")["song_id"].tolist() == ["one", "two", "3"]
    two = store.song("train", 1)
    assert two.stem_names == ["lead", "bass"]
    assert two.stem_programs == [[100], []]
    assert two.unannotated == [33]
    assert two.notes["program"].tolist() == [100, 100]
    assert store.song("train", 2).notes["is_drum"].tolist() == [False, True]


def test_paths_from_other_systems(files: Path, tmp_path: Path) -> None:
    """Case D50, and D48: backslashes, and letters that are composed on one system and not on the other."""
    for form, name in (("NFC", "chanté"), ("NFD", "größe")):
        audio = (files / "mix.wav").read_bytes()
        (files / "sub" / unicodedata.normalize(form, f"{name}.wav")).write_bytes(audio)
    composed = unicodedata.normalize("NFD", "sub/chanté.wav"), unicodedata.normalize("NFC", "sub/größe.wav")
    lines = [f"{name},train,mix.mid" for name in ("sub\\second.wav", *composed)]
    (files / "songs.csv").write_text("\n".join(["audio,split,midi", *lines]), encoding="utf-8")
    store = prepare(files / "songs.csv", tmp_path / "out")
    assert store.splits["train"] == 3
    assert store.index("train")["song_id"][0] == "sub__second"


@pytest.mark.parametrize(
    "text",
    [
        '\ufeff\r\n;;\r\nID;Split;Audio;MIDI;Program\r\n"a;b";train;mix.wav;mix.mid;100.0\r\n;;;;\r\n',
        "id\tsplit\taudio\tmidi\tprogram\ra;b\ttrain\t mix.wav \tmix.mid\t100\r",
    ],
)
def test_tables_as_other_programs_write_them(files: Path, tmp_path: Path, text: str) -> None:
    (files / "songs.csv").write_bytes(text.encode())
    store = prepare(files / "songs.csv", tmp_path / "out")
    assert store.index("train")["song_id"].tolist() == ["a;b"]
    assert set(store.song("train", 0).notes["program"].tolist()) == {100, 128}


def test_notes_in_the_manifest_are_problems_of_the_manifest(files: Path) -> None:
    rows = [
        {"audio": "mix.wav", "notes": [[0.1, 0.2, 60], [1, 2]]},
        {"id": "b", "audio": "mix.wav", "notes": [{"onset": 1}]},
    ]
    (files / "songs.json").write_text(json.dumps(rows))
    with pytest.raises(ValueError, match="2 problem") as caught:
        read_manifest(files / "songs.json")
    assert "song 1: notes: note 2: [1, 2] does not begin with three numbers" in str(caught.value)
    assert "song 2: notes: note 1: " in str(caught.value)


def test_songs_without_a_split_are_dealt_out(files: Path, tmp_path: Path) -> None:
    lines = [f"song{i},mix.wav,mix.mid" for i in range(12)]
    (files / "songs.csv").write_text("\n".join(["id,audio,midi", *lines]))
    store = prepare(files / "songs.csv", tmp_path / "out", Shares(0.5, 0))
    assert store.splits["train"] + store.splits["validation"] == 12
    assert store.splits["validation"] > 1


def test_all_problems_at_once_with_their_rows(files: Path) -> None:
    (files / "bad.csv").write_text(
        "id,splitt,audio,stems,midi,notes,program,octave_unknown,label_shift_ms\n"
        "a,,gone.wav,,mix.mid,,,,\n"
        "a,,mix.wav,,gone.mid,,200,,\n"
        "c,,mix.wav,100:voice.wav,mix.mid,,,,\n"
        "d,,,,,,,perhaps,soon\n"
        "e,,mix.wav,,mix.mid,notes.csv,,,\n"
        "f,,,100:voice.wav|x9:bass.wav|130:mix.wav,two.mid,,,,\n"
        "g,,mix.wav,,,,,,\n"
    )
    with pytest.raises(ValueError, match=r"bad\.csv: \d+ problem") as caught:
        read_manifest(files / "bad.csv")
    text = str(caught.value)
    for part in (
        "line 1: unknown column 'splitt'; did you mean split?",
        "line 2: audio ",
        "gone.wav is missing",
        "line 3: midi ",
        "line 3: program holds '200'; programs are whole numbers from 0 to 128",
        "line 3: id 'a' stands in line 2 already",
        "line 4: needs either audio or stems",
        "line 5: needs either audio or stems",
        "line 5: octave_unknown is 'perhaps', not true or false",
        "line 5: label_shift_ms is 'soon', not a number",
        "line 6: has both midi and notes",
        "line 7: stem ",
        "line 7: programs of a stem holds '130'",
        "line 8: has neither midi nor notes; a song without notes says midi none",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("id,audio,midi\n", "holds no song"),
        ("id,audio,audio,midi\n", "names audio twice"),
        ("id,audio,midi\na,b,c,d\n", "line 2 has 4 cells"),
        ('id,audio,midi\na,"b,c\nd,e,f\n', "quote without its partner"),
        ('id,audio,midi\na,"' + 20000 * "b,c\nd,e,f\n", "quote without its partner"),
        ('[{"id": "a", "odio": "mix.wav", "midi": "mix.mid"}]', "song 1: unknown column 'odio'; did you"),
        ('[{"id": "a", "id": "b"}]', "occurs twice"),
        ('[{"label_shift_ms": NaN}]', "NaN"),
        ("[3]", "song 1 is a int"),
        ('{"a": 1}', "must hold a list of songs"),
        ('[{"stems": [{"audio": "voice.wav", "progs": [1]}], "midi": "two.mid"}]', "did you mean programs"),
        ('[{"audio": 3, "midi": "two.mid"}]', "audio is 3, not a path"),
        ('[{"audio": "mix.wav", "midi": "two.mid", "split": "a/b"}]', "split 'a/b'"),
    ],
)
def test_files_that_are_no_manifest(files: Path, content: str, message: str) -> None:
    path = files / ("bad.json" if content[:1] in ("[", "{") else "bad.csv")
    path.write_text(content)
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as caught:
        read_manifest(path)
    assert path.name in str(caught.value)


def test_songs_that_cannot_be_read_are_named_and_left_out(files: Path, tmp_path: Path) -> None:
    (files / "mix.wav").write_bytes(b"RIFF")
    (files / "songs.csv").write_text(
        "id;split;audio;midi;notes\nbad;train;mix.wav;mix.mid;\ngood;train;voice.wav;;notes.csv\n"
    )
    report = prepare_manifest(files / "songs.csv", tmp_path / "out", "mine", StoreSettings(progress=False))
    assert list(report.broken) == ["bad"]
    assert "mix.wav" in report.broken["bad"]
    assert SongStore.open(tmp_path / "out").splits["train"] == 1


@pytest.mark.parametrize(
    "text",
    ["0.5\t1\t60\t40\n", "# a comment\n0.5 1.0 60.2 40\n", "start;end;pitch;program\n0.5;1;60;40\n"],
)
def test_note_lists_of_any_shape(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text)
    (note,) = read_note_list(path).tolist()
    assert note == (0.5, 1.0, 60, 40, 100, False)
    assert program_name(40) == "Violin"
    (drum,) = read_note_list(path, 128).tolist()
    assert drum[3:] == (128, 100, True)


@pytest.mark.parametrize("line", ["0.5,x,60", "0.5,1", "-1,1,60", "0,1,200", "0,nan,60"])
def test_a_note_that_is_none_names_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "notes.csv"
    path.write_text(f"onset,offset,pitch\n0,1,60\n{line}\n")
    with pytest.raises(ValueError, match=r"notes\.csv, line 3"):
        read_note_list(path)
    (tmp_path / "notes.json").write_text('{"a": 1}')
    with pytest.raises(ValueError, match="must hold a list of notes"):
        read_note_list(tmp_path / "notes.json")
