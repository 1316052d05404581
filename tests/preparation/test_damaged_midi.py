"""A folder with damaged MIDI files (cases D10 to D13, D17, D27, D29): each is read or named."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import soundfile

from amt.data.store import SongStore
from amt.notes import Note, write_midi
from amt.preparation.generic import Shares, StoreSettings, prepare_folder

CASES = Path(__file__).parents[1] / "data" / "midi"
REFUSED = {"d17_smpte_division": "SMPTE", "d27_division_zero": "0 ticks", "d29_empty_0_bytes": "is empty"}


def test_a_folder_of_damaged_midi(tmp_path: Path) -> None:
    source = tmp_path / "raw"
    source.mkdir()
    write_midi([Note(0.1, 0.5, 60)], source / "good.mid")
    good = (source / "good.mid").read_bytes()
    (source / "d12_unknown_chunk.mid").write_bytes(good[:14] + b"XFIH\0\0\0\2\x09\x09" + good[14:])
    riff = b"RIFF" + (len(good) + 12).to_bytes(4, "little") + b"RMIDdata" + len(good).to_bytes(4, "little")
    (source / "d13_riff.mid").write_bytes(riff + good)
    for name in ("d10_truncated_track", "d11_header_says_more_tracks", *REFUSED):
        shutil.copy(CASES / f"{name}.mid", source / f"{name}.mid")
    for path in list(source.glob("*.mid")):
        soundfile.write(path.with_suffix(".wav"), np.zeros(5 * 16000), 16000)
    report = prepare_folder(source, tmp_path / "out", "mine", StoreSettings(Shares(0, 0), progress=False))
    assert set(report.broken) == set(REFUSED)
    for name, words in REFUSED.items():
        assert words in report.broken[name]
        assert f"{name}.mid" in report.broken[name]
    store = SongStore.open(tmp_path / "out")
    store.check()
    rows = {row["song_id"]: row["num_notes"] for row in store.index("train")}
    assert set(rows) == {path.stem for path in source.glob("*.mid")} - set(REFUSED)
    assert rows["d12_unknown_chunk"] == rows["d13_riff"] == rows["good"] == 1
    assert all(count > 0 for count in rows.values())
    for name in ("d10_truncated_track", "d11_header_says_more_tracks", "d13_riff"):
        assert any(f"{name}.mid" in remark for remark in report.remarks)
