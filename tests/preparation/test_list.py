"""``prepare.py list``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from amt.cli.prepare import main
from amt.config.presets import MULTI_PRESETS, get_single_preset, list_presets
from amt.data.store import StoreWriter
from amt.notes import notes_to_array

NO_NOTES = notes_to_array([])


def make_store(folder: Path, **songs: int) -> None:
    folder.mkdir(parents=True)
    splits = {split: {"songs": count} for split, count in songs.items()}
    (folder / "store.json").write_text(json.dumps({"splits": splits}), encoding="utf-8")


def listed(capsys: pytest.CaptureFixture[str]) -> tuple[list[str], set[str], set[str]]:
    """The lines about stores, the presets that are ready, and the others."""
    assert main(["list"]) == 0
    short = capsys.readouterr().out
    assert main(["list", "--all"]) == 0
    stores, _, rest = capsys.readouterr().out.partition("presets whose data is prepared:\n")
    ready, _, others = rest.partition("presets whose data is not")
    names = set(others.partition(":\n")[2].split())
    assert short.endswith(f"{len(names)} presets more whose data is not prepared: --all names them\n")
    assert "presets whose data is not (" not in short
    return stores.splitlines()[1:], set(ready.split()), names


def test_stores_and_presets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    assert listed(capsys) == (["  nothing"], {"none"}, set(list_presets()))
    make_store(tmp_path / "mine", train=3, test=1)
    make_store(tmp_path / "quickstart", train=100)
    (tmp_path / "spoilt").mkdir()
    (tmp_path / "spoilt" / "store.json").write_text("{", encoding="utf-8")
    stores, ready, others = listed(capsys)
    assert stores == [
        "  mine        train 3 songs, test 1 song",
        "  quickstart  train 100 songs",
        "  spoilt      store.json cannot be read; amt-prepare check says more",
    ]
    assert ready == {"quickstart"}
    assert ready | others == set(list_presets())


def test_a_mixture_is_ready_when_all_its_stores_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    members = [get_single_preset(name).store for name in MULTI_PRESETS["all_urmp"].presets]
    first, *rest = dict.fromkeys(members)
    make_store(tmp_path / first, train=1)
    assert rest
    assert "all_urmp" in listed(capsys)[2]
    for store in rest:
        make_store(tmp_path / store, train=1)
    assert "all_urmp" in listed(capsys)[1]


def test_usage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    make_store(tmp_path / "mine", train=1)
    make_store(tmp_path / "other", train=2)
    assert main(["list", "--help"]) == 0
    assert "prepare.py list" in capsys.readouterr().out
    assert main(["list", "mime"]) == 2
    assert "unknown data set in" in (said := capsys.readouterr().err)
    assert "'mime'; did you mean 'mine'?" in said
    assert main(["list", "mine", "--all"]) == 2
    assert "--all is about presets" in capsys.readouterr().err
    assert main(["list", "mine"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["  mine  train 1 song"]


def test_the_songs_of_each_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    with StoreWriter(tmp_path / "mine", "mine") as writer:
        for split, songs in (("train", ("tune 1", "tune 3")), ("validation", ()), ("test", ("tune 2",))):
            writer.add_split(split)
            for song in songs:
                writer.add_song(split, song, np.zeros((1, 16000), np.int16), [[100]], ["mix"], NO_NOTES, {})
    make_store(tmp_path / "spoilt", train=1)
    assert main(["list", "--songs"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[2:6] == ["    test:", "      'tune 2'", "    train:", "      'tune 1'  'tune 3'"]
    assert said[6] == "  spoilt  train 1 song"
