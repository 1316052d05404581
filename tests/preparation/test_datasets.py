"""Every data set from a made-up folder in its own layout to a store that its presets open."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from amt.cli.prepare import main
from amt.config.presets import SINGLE_PRESETS
from amt.data.sources import open_presets
from amt.data.store import Song, SongStore
from amt.notes import Note
from amt.preparation.corpora import CORPORA

Row = tuple[float, float, int, int]
"""Onset, offset, pitch, program (128 drums)."""
A: Row = (0.25, 0.75, 60, 0)
B: Row = (0.5, 1.0, 64, 0)
UNKNOWN = [129]


@dataclass
class Layout:
    """What a made-up folder must become."""

    splits: dict[str, list[str]]
    """Some splits and all their songs."""
    notes: dict[str, list[Row]]
    """Notes of some songs."""
    damage: Path
    """A file of a song; when it is damaged the message names it."""
    stems: dict[str, list[list[int]]] = field(default_factory=dict)
    """Programs of the stems of some songs."""
    unannotated: dict[str, list[int]] = field(default_factory=dict)
    octave_unknown: bool = False
    named: str = ""
    """What the message says instead of the file's name."""


def note(row: Row, **other: Any) -> Note:
    onset, offset, pitch, program = row
    return Note(onset, offset, pitch, program, program == 128, **other)


def with_program(row: Row, program: int) -> Row:
    return (*row[:3], program)


def slakh(files: Any) -> Layout:
    stems = [
        {"inst_class": "Bass", "is_drum": False, "plugin_name": "upright.nkm", "program_num": 32},
        {"inst_class": "Drums", "is_drum": True, "plugin_name": "kit.nkm", "program_num": 0},
        {"is_drum": False, "plugin_name": "scarbee_jay_bass_slap_both.nkm", "program_num": 36},
        {"is_drum": False, "plugin_name": "None", "program_num": 0},
    ]
    told = {
        f"S{n:02d}": {**stem, "audio_rendered": n < 3, "midi_saved": True} for n, stem in enumerate(stems)
    }
    metadata = yaml.safe_dump({"UUID": "abc", "audio_dir": "stems", "stems": told})
    for split, number in (("train", 1), ("train", 2), ("validation", 1501), ("test", 1876), ("omitted", 9)):
        track = f"slakh2100_flac_redux/{split}/Track{number:05d}"
        files.text(f"{track}/metadata.yaml", metadata)
        for stem, rows in (
            ("S00", [(0.25, 0.75, 40, 32)]),
            ("S01", [(0.5, 0.51, 36, 128)]),
            ("S02", [(0.5, 1.0, 45, 36)]),
        ):
            files.sound(f"{track}/stems/{stem}.flac", seconds=1.5 if stem != "S02" else 1.2)
            # The drums of the data set are not on channel 10.
            written = [note(row)._replace(is_drum=False, program=min(row[3], 127)) for row in rows]
            files.midi(f"{track}/MIDI/{stem}.mid", written)
    return Layout(
        {"train": ["Track00001", "Track00002"], "validation": ["Track01501"], "test": ["Track01876"]},
        {"Track00001": [(0.25, 0.75, 28, 32), (0.5, 1.0, 45, 36), (0.5, 0.51, 36, 128)]},
        files.root / "slakh2100_flac_redux/train/Track00002/stems/S01.flac",
        stems={"Track00001": [[32], [128], [36]]},
    )


def maestro(files: Any) -> Layout:
    header = "canonical_composer,canonical_title,split,year,midi_filename,audio_filename,duration\n"
    lines = []
    for split, year, name in (("train", 2004, "a"), ("validation", 2006, "b"), ("test", 2006, "c")):
        files.sound(f"maestro-v3.0.0/{year}/{name}.wav")
        files.midi(f"maestro-v3.0.0/{year}/{name}.midi", [note(A), note(B)])
        lines.append(f'"Bach, J.",Fugue,{split},{year},{year}/{name}.midi,{year}/{name}.wav,1.5\n')
    files.text("maestro-v3.0.0/maestro-v3.0.0.csv", header + "".join(lines))
    return Layout(
        {"train": ["2004__a"], "validation": ["2006__b"], "test": ["2006__c"]},
        {"2006__c": [A, B]},
        files.root / "maestro-v3.0.0/2006/b.midi",
        stems={"2006__c": [[0]]},
    )


def maps(files: Any) -> Layout:
    for instrument, piece in (("AkPnBcht", "alb_se3"), ("AkPnBcht", "bk_xmas1"), ("ENSTDkCl", "alb_se3")):
        name = f"MAPS/{instrument}/MUS/MAPS_MUS-{piece}_{instrument}"
        files.sound(f"{name}.wav")
        files.text(f"{name}.txt", "OnsetTime\tOffsetTime\tMidiPitch\n0.25\t0.75\t60\n0.5\t1.0\t64\n")
    files.sound("MAPS/ENSTDkCl/ISOL/NO/MAPS_ISOL_NO_F_S0_M21_ENSTDkCl.wav")
    (files.root / "MAPS/AkPnBcht/MUS/MAPS_MUS-bk_xmas1_AkPnBcht.txt").unlink()
    files.midi("MAPS/AkPnBcht/MUS/MAPS_MUS-bk_xmas1_AkPnBcht.mid", [note(A)])
    names = [f"MAPS_MUS-{n}" for n in ("alb_se3_AkPnBcht", "bk_xmas1_AkPnBcht", "alb_se3_ENSTDkCl")]
    return Layout(
        {"all": sorted(names), "train": [names[1]], "test": [names[2]]},
        {names[0]: [A, B], names[1]: [A], names[2]: [A, B]},
        files.root / f"MAPS/ENSTDkCl/MUS/{names[2]}.txt",
    )


def musicnet(files: Any) -> Layout:
    header = "start_time,end_time,instrument,note,start_beat,end_beat,note_value\n"
    # One of validation and of the test of MT3, of the test of its authors (also extended), and of none.
    for song, part in (("1733", "train"), ("1729", "train"), ("2303", "test"), ("1727", "train")):
        files.sound(f"musicnet/{part}_data/{song}.wav", rate=44100)
        files.text(
            f"musicnet/{part}_labels/{song}.csv",
            f"{header}11025,33075,41,60,0.0,1.0,Quarter\n22050,44100,1,64,1.0,1.0,Half\n",
        )
        files.midi(f"musicnet/musicnet_em/{song}_a_b.mid", [note(with_program(A, 40)), note(B)])
        if song != "1729":
            files.sound(f"musicnet/synth/{song}_prelude.wav")
            files.midi(f"musicnet/musicnet_midis/Bach/{song}_prelude.mid", [note(B)])
    return Layout(
        {
            "train_mt3": ["1727", "1727_synth", "2303", "2303_synth"],
            "validation_mt3_acoustic": ["1733"],
            "test_mt3_acoustic": ["1729"],
            "train_mt3_synth": ["1727_synth", "2303_synth"],
            "validation_mt3_synth": ["1733_synth"],
            "train_mt3_em": ["1727_em", "1727_synth", "2303_em", "2303_synth"],
            "validation_mt3_em": ["1733_em"],
            "test_mt3_em": ["1729_em"],
            "train_thickstun": ["1727", "1727_synth", "1729", "1733", "1733_synth"],
            "test_thickstun": ["2303"],
            "test_thickstun_ext": ["2303"],
            "train_thickstun_em": ["1727_em", "1727_synth", "1729_em", "1733_em", "1733_synth"],
            "test_thickstun_em": ["2303_em"],
            "test_thickstun_ext_em": ["2303_em"],
        },
        {
            "1727": [with_program(A, 40), B],
            "1727_em": [with_program(A, 40), B],
            "1727_synth": [B],
        },
        files.root / "musicnet/test_labels/2303.csv",
        stems={"1727": [[0, 40]]},
    )


def guitarset(files: Any) -> Layout:
    string = [{"time": 0.25, "duration": 0.5, "value": 60.2, "confidence": None}]
    other = {"time": [0.5], "duration": [0.5], "value": [63.8], "confidence": [None]}
    told = {
        "annotations": [
            {"namespace": "pitch_contour", "data": []},
            {"namespace": "note_midi", "data": string},
            {"namespace": "note_midi", "data": other},
        ]
    }
    styles = [f"{style}{n}" for style in ("BN", "Funk", "Jazz", "Rock", "SS") for n in (1, 2, 3)]
    pieces = [f"{player}_{style}-100-C_comp" for style in styles[:3] for player in ("00", "01", "02")]
    pieces += [f"00_{style}-100-C_solo" for style in styles[3:]]
    for piece in pieces:
        files.text(f"annotation/{piece}.jams", json.dumps(told))
        files.sound(f"audio_mono-mic/{piece}_mic.wav", seconds=1.2, rate=16000)
    files.sound("audio_mono-pickup_mix/00_BN1-100-C_comp_mix.wav", seconds=1.2, rate=16000)
    for piece in pieces[1:]:
        files.sound(f"audio_mono-pickup_mix/{piece}_mix.wav", seconds=0.8, rate=16000)
    bn1 = [f"0{p}_BN1-100-C_comp_{kind}" for kind in ("mic", "mix") for p in (0, 1, 2)]
    return Layout(
        {"all": [f"{piece}_{kind}" for kind in ("mic", "mix") for piece in sorted(pieces)]},
        {
            bn1[0]: [with_program(A, 24), with_program(B, 24)],
            f"{bn1[0]}_pshift-5": [(0.25, 0.75, 55, 24), (0.5, 1.0, 59, 24)],
            bn1[4]: [with_program(A, 24), (0.5, 0.8, 64, 24)],
        },
        files.root / f"annotation/{pieces[0]}.jams",
    )


def enstdrums(files: Any) -> Layout:
    one = "001_hits_snare-drum_sticks_x6 107_minus-one_salsa_sticks 108_minus-one_rock-60s_sticks"
    two = "002_phrase_disco_slow_sticks 110_minus-one_funk_rods 115_MIDI-minus-one_fusion_sticks"
    last = "126_minus-one_salsa_sticks 127_minus-one_charleston_sticks 128_minus-one_celtic-rock_brushes"
    takes = {number: names.split() for number, names in enumerate((one, two, last), 1)}
    for drummer, names in takes.items():
        for name in names:
            folder = f"ENST-drums-public/drummer_{drummer}"
            files.text(f"{folder}/annotation/{name}.txt", "0.25 bd\n0.5 chh\n0.75 rc2\n")
            files.sound(f"{folder}/audio/wet_mix/{name}.wav", level=0.3)
            if "minus-one" in name:
                files.sound(f"{folder}/audio/accompaniment/{name}.wav", level=0.9)
    hits: list[Row] = [(0.25, 0.26, 36, 128), (0.5, 0.51, 42, 128), (0.75, 0.76, 51, 128)]
    three = [f"drummer_3__{name}" for name in takes[3]]
    dtd = [f"drummer_{n}__{takes[n][0]}_dtd" for n in (1, 2)]
    return Layout(
        {
            "all_dtd": dtd,
            "drummer_1_dtp": [f"drummer_1__{name}_dtp" for name in takes[1][1:]],
            "drummer_3_dtp": [f"{name}_dtp" for name in three],
            "drummer_3_dtm": [f"{name}_dtm_r1" for name in three],
            "drummer_3_dtm_r1": [f"{name}_dtm_r1" for name in three],
            "drummer_3_dtm_r2": [f"{name}_dtm_r2" for name in three],
        },
        {dtd[0]: hits, f"{three[0]}_dtm_r2": hits},
        files.root / f"ENST-drums-public/drummer_2/annotation/{takes[2][1]}.txt",
        stems={dtd[0]: [[128]], f"{three[0]}_dtm_r2": [[128], []]},
        unannotated={dtd[0]: [], f"{three[0]}_dtm_r2": UNKNOWN},
    )


def egmd(files: Any) -> Layout:
    header = "drummer,session,id,style,bpm,beat_type,time_signature,duration,split,"
    header += "midi_filename,audio_filename,kit_name\n"
    lines = []
    for split, number, kit in (("train", 1, 1), ("validation", 2, 2), ("test", 3, 5), ("test", 3, 15)):
        name = f"drummer1/session1/{number}_funk_80_beat_4-4_{kit}"
        files.sound(f"e-gmd-v1.0.0/{name}.wav")
        files.midi(f"e-gmd-v1.0.0/{name}.midi", [note((0.25, 0.26, 38, 128))])
        lines.append(f"drummer1,s,i,funk,80,beat,4-4,1.5,{split},{name}.midi,{name}.wav,Kit\n")
    files.text("e-gmd-v1.0.0/e-gmd-v1.0.0.csv", header + "".join(lines))
    start = "drummer1__session1__"
    return Layout(
        {
            "train": [f"{start}1_funk_80_beat_4-4_1"],
            "validation": [f"{start}2_funk_80_beat_4-4_2"],
            "test": [f"{start}3_funk_80_beat_4-4_5", f"{start}3_funk_80_beat_4-4_15"],
            "test_reduced": [f"{start}3_funk_80_beat_4-4_5"],
        },
        {f"{start}1_funk_80_beat_4-4_1": [(0.25, 0.26, 38, 128)]},
        files.root / "e-gmd-v1.0.0/drummer1/session1/2_funk_80_beat_4-4_2.wav",
    )


def mir_st500(files: Any) -> Layout:
    told = {"1": [[0.25, 0.75, 60]], "2": [[0.25, 0.75, 60.0], [0.5, 1.0, 64]], "401": [[0.25, 0.75, 60]]}
    files.text("MIR-ST500.json", json.dumps({"1": [[9, 10, 1]]}))
    files.text("MIR-ST500_corrected.json", json.dumps(told))
    files.sound("train/1/Mixture.mp3", rate=44100)
    files.sound("train/2/Mixture.wav", level=0.4)
    files.sound("train/2/Vocal.wav", level=0.3)
    files.sound("test/401/vocals.wav")
    files.sound("test/401/accompaniment.wav", level=0.1)
    voice = with_program(A, 100)
    return Layout(
        {
            "train": ["001", "002"],
            "train_stem": ["001", "002"],
            "train_vocal": ["002_vocal"],
            "test": ["401"],
            "test_vocal": ["401_vocal"],
        },
        {"001": [voice], "002": [voice, with_program(B, 100)], "401_vocal": [voice]},
        files.root / "train/2/Vocal.wav",
        stems={"001": [[100]], "002": [[100], []], "401": [[100], []], "401_vocal": [[100]]},
        unannotated={"001": UNKNOWN, "002": UNKNOWN, "401": UNKNOWN, "401_vocal": []},
    )


def cmedia(files: Any) -> Layout:
    files.text("cmedia.json", json.dumps({"7": [[0.25, 0.251, 60], [0.5, 1.0, 64]]}))
    for number in (7, 8):
        files.sound(f"{number}/{number}.wav")
        files.sound(f"{number}/vocals.wav", level=0.2)
    files.text("8/8_groundtruth.txt", "0.25 0.75 60\n")
    return Layout(
        {"train": ["007", "008"], "train_stem": ["007", "008"], "train_vocal": ["007_vocal", "008_vocal"]},
        {"007": [(0.25, 0.5, 60, 100), with_program(B, 100)], "008_vocal": [with_program(A, 100)]},
        files.root / "8/8_groundtruth.txt",
        stems={"007": [[100], []]},
        unannotated={"007": UNKNOWN, "007_vocal": []},
    )


def mir1k(files: Any) -> Layout:
    line = np.zeros(75)
    line[12:37] = 60.2
    line[37:60] = 63.7
    line[65:67] = 70  # too short to be a note
    for singer in ("amy", "heycat", "davidson"):
        name = f"{singer}_1_01"
        time = np.arange(24000) / 16000
        left, right = (0.2 * np.sin(2 * np.pi * f * time) for f in (220, 440))
        files.samples(f"MIR-1K/Wavfile/{name}.wav", np.stack([left, right], axis=1), 16000)
        files.text(f"MIR-1K/PitchLabel/{name}.pv", "\n".join(f"{value:g}" for value in line) + "\n")
    return Layout(
        {"train": ["amy_1_01"], "validation": ["heycat_1_01"], "test": ["davidson_1_01"]},
        {"amy_1_01": [(0.25, 0.75, 60, 100), (0.75, 1.21, 64, 100)]},
        files.root / "MIR-1K/PitchLabel/amy_1_01.pv",
        stems={"amy_1_01": [[100], []]},
        unannotated={"amy_1_01": UNKNOWN},
    )


def urmp(files: Any) -> Layout:
    for number, name in ((1, "01_Jupiter_vn_vc"), (3, "03_Dance_fl_cl")):
        instruments = name.split("_")[2:]
        for player, (instrument, frequency) in enumerate(zip(instruments, (262.0, 329.0), strict=True), 1):
            rest = "_".join([f"{number:02d}", name.split("_")[1]])
            files.sound(f"Dataset/{name}/AuSep_{player}_{instrument}_{rest}.wav")
            files.text(
                f"Dataset/{name}/Notes_{player}_{instrument}_{rest}.txt", f"0.25\t\t{frequency}\t\t0.5\n"
            )
        files.sound(f"Dataset/{name}/AuMix_{name}.wav")
    return Layout(
        {"train": ["03_Dance_fl_cl"], "test": ["01_Jupiter_vn_vc"]},
        {"01_Jupiter_vn_vc": [(0.25, 0.75, 60, 40), (0.25, 0.75, 64, 42)]},
        files.root / "Dataset/03_Dance_fl_cl/Notes_2_cl_03_Dance.txt",
        stems={"01_Jupiter_vn_vc": [[40], [42]], "03_Dance_fl_cl": [[73], [71]]},
    )


def rwc_pop(files: Any) -> Layout:
    rows: list[Row] = [(0.25, 0.75, 72, 65), (0.5, 1.0, 48, 25), (0.25, 0.75, 28, 33), (0.5, 0.51, 36, 0)]
    names = {65: "MELODY", 25: "A.GUITAR", 33: "E.BASS", 0: "DRUMS"}
    for number in (1, 2):
        files.midi(f"AIST.RWC-MDB-P-2001.SMF_SYNC/RM-P{number:03d}.SMF_SYNC.MID", map(note, rows), names)
    files.midi("bass_fixed/RM-P001.mid", [note((0.25, 0.75, 40, 38))])
    files.sound("audio/RM-P001.wav")
    files.sound("audio/rwc-p-m01/2.wav")
    files.text("rwc-p.csv", "Piece No.;Cat. Suffix;Track No.;Title\nNo. 2;M01;Tr. 02;Song, 1\n")
    full = [with_program(rows[0], 100), rows[1], rows[2], (0.5, 0.51, 36, 128)]
    return Layout(
        {"full": ["RM-P001", "RM-P002"], "bass": ["RM-P001_bass"]},
        {"RM-P002": full, "RM-P001_bass": [(0.25, 0.75, 40, 33)]},
        files.root / "AIST.RWC-MDB-P-2001.SMF_SYNC/RM-P002.SMF_SYNC.MID",
        unannotated={"RM-P001": [], "RM-P001_bass": UNKNOWN},
    )


def idmt_smt_bass(files: Any) -> Layout:
    for style, string, fret in (("FS", 1, 0), ("PK", 2, 3), ("SP", 4, 12), ("ST", 3, 5), ("MU", 1, 7)):
        audio = np.zeros(16000)
        time = np.arange(256 * 20) / 16000
        audio[256 * 8 : 256 * 28] = 0.3 * np.sin(2 * np.pi * 110 * time)
        files.samples(f"IDMT-SMT-BASS/BS_1_EQ_1_{style}_NO_{string}_{fret}.wav", audio, 16000)
    files.samples("IDMT-SMT-BASS/BS_1_EQ_1_FS_HA_1_5.wav", audio, 16000)
    files.samples("IDMT-SMT-BASS/noise.wav", audio, 16000)
    start, end = 1.8 + 0.016 * 8, 1.8 + 0.016 * 28
    name = "IDMT-SMT-BASS__BS_1_EQ_1"
    return Layout(
        {},
        {
            f"{name}_FS_NO_1_0": [(start, end, 28, 33)],
            f"{name}_PK_NO_2_3": [(start, end, 36, 34)],
            f"{name}_SP_NO_4_12": [(start, end, 55, 36)],
            f"{name}_ST_NO_3_5": [(start, end, 43, 37)],
        },
        files.root / "IDMT-SMT-BASS/BS_1_EQ_1_MU_NO_1_7.wav",
    )


def geerdes(files: Any) -> Layout:
    rows: list[Row] = [(0.25, 0.75, 72, 65), (0.5, 1.0, 48, 53), (0.5, 0.51, 36, 128), (0.25, 0.75, 28, 33)]
    names = {65: "Vocalist", 53: "Backvocals"}
    for name in ("one", "two", "three", "four"):
        files.midi(f"songs/{name}.mid", map(note, rows), names)
        files.sound(f"songs/{name}.wav")
        files.sound(f"songs/{name}_vocals.wav", level=0.1)
        files.sound(f"songs/{name}_accompaniment.wav", level=0.1)
    voices = [with_program(rows[0], 100), with_program(rows[1], 101)]
    everything = sorted(f"songs__{name}" for name in ("one", "two", "three", "four"))
    return Layout(
        {
            "all": everything,
            "all_sep": [f"{s}_{part}" for s in everything for part in ("vocals", "accompaniment")],
        },
        {
            "songs__one": [*voices, *rows[2:]],
            "songs__one_vocals": voices,
            "songs__one_accompaniment": rows[2:],
        },
        files.root / "songs/three.mid",
    )


def pairs(files: Any) -> Layout:
    for split in ("train", "valid", "test"):
        files.midi(f"{split}/song.mid", [note(with_program(A, 11)), note(B)])
        files.sound(f"{split}/song.flac")
    return Layout(
        {"train": ["train__song"], "validation": ["valid__song"], "test": ["test__song"]},
        {"train__song": [with_program(A, 11), B]},
        files.root / "test/song.mid",
        stems={"train__song": [[0, 11]]},
    )


def sheetsage(files: Any) -> Layout:
    for split in ("train", "validation", "test"):
        files.midi(f"{split}/song.mid", [note(with_program(A, 11)), note(B)], {11: "Melody", 0: "Harmony"})
        files.sound(f"{split}/song.flac")
    files.midi("train/other.mid", [note(A), note((0.5, 0.51, 36, 128))], {0: "Piano"})
    files.sound("train/other.wav")
    return Layout(
        {
            "train": ["train__other", "train__song"],
            "validation": ["validation__song"],
            "test": ["test__song"],
        },
        {"train__song": [with_program(A, 100)], "train__other": [with_program(A, 100)]},
        files.root / "test/song.mid",
        stems={"train__song": [[100]]},
        unannotated={"train__song": UNKNOWN},
        octave_unknown=True,
    )


def vocadito(files: Any) -> Layout:
    singers = {1: "S1", 2: "S2", 3: "S2", 4: "S4", 6: "S12", 7: "S9"}
    table = "".join(f"{number},{singer},60,English\n" for number, singer in singers.items())
    files.text("vocadito_metadata.csv", f"track_id,singer_id,average_pitch,language\n{table}")
    for number in singers:
        files.sound(f"Audio/vocadito_{number}.wav")
        files.text(f"Annotations/Notes/vocadito_{number}_notesA1.csv", "0.25,262.0,0.5\n0.5,329.6,0.5\n")
        files.text(f"Annotations/Notes/vocadito_{number}_notesA2.csv", "0.1,262.0,0.5\n")
    return Layout(
        {},
        {"vocadito_1": [with_program(A, 100), with_program(B, 100)]},
        files.root / "Annotations/Notes/vocadito_2_notesA1.csv",
        stems={"vocadito_1": [[100]]},
    )


def hooktheory(files: Any) -> Layout:
    melody = [
        {"onset": 0.5, "offset": 1.5, "octave": 0, "pitch_class": 0},
        {"onset": 1, "offset": 2, "octave": -1, "pitch_class": 4},
    ]

    def entry(split: str, video: str, **changes: Any) -> dict[str, Any]:
        return {
            "tags": ["MELODY"],
            "split": split,
            "youtube": {"id": video, "duration": 9.0},
            "alignment": {
                "user": {"beats": [0, 4], "times": [0.0, 1.0]},
                "refined": {"beats": [0, 1, 3], "times": [0.5, 1.0, 2.0]},
            },
            "annotations": {"num_beats": 4, "melody": melody, "harmony": []},
            **changes,
        }

    told = {
        "aaa": entry("TRAIN", "video-1"),
        "bbb": entry("VALID", "video_2"),
        "ccc": entry("TEST", "-video3"),
        "ddd": entry("TRAIN", "gone"),
        "eee": entry("TRAIN", "video-1", alignment=None),
    }
    files.text("Hooktheory.json.gz", "")
    (files.root / "Hooktheory.json.gz").write_bytes(gzip.compress(json.dumps(told).encode()))
    for video in ("video-1", "video_2", "-video3"):
        files.sound(f"audio/{video}.wav", seconds=4)
    return Layout(
        {"train": ["aaa"], "validation": ["bbb"], "test": ["ccc"]},
        {"aaa": [(0.25, 0.75, 60, 100), (0.5, 1.0, 52, 100)]},
        files.root / "audio/video_2.wav",
        stems={"aaa": [[100]]},
        unannotated={"aaa": UNKNOWN},
        octave_unknown=True,
    )


LAYOUTS: dict[str, Callable[[Any], Layout]] = {
    **{
        f.__name__: f for f in (slakh, maestro, maps, musicnet, guitarset, enstdrums, egmd, mir_st500, cmedia)
    },
    **{
        f.__name__: f for f in (mir1k, urmp, rwc_pop, idmt_smt_bass, geerdes, sheetsage, vocadito, hooktheory)
    },
    "rnsynth": pairs,
    "picogen": pairs,
}


def songs_of(store: SongStore) -> dict[str, Song]:
    return {
        song.song_id: song
        for split, count in store.splits.items()
        for song in (store.song(split, i) for i in range(count))
    }


def rows_of(song: Song) -> list[Row]:
    return [
        (float(n["onset"]), float(n["offset"]), int(n["pitch"]), 128 if n["is_drum"] else int(n["program"]))
        for n in song.notes
    ]


def test_every_data_set_is_tried() -> None:
    assert set(LAYOUTS) == set(CORPORA)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_a_folder_becomes_a_store_that_the_presets_open(
    name: str, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("AMT_DATA_HOME", str(home))
    layout = LAYOUTS[name](files)
    assert main([name, str(files.root), "--processes", "1"]) == 0, capsys.readouterr().err
    store = SongStore.open(home / name)
    store.check()
    for split, ids in layout.splits.items():
        assert sorted(store.index(split)["song_id"].tolist()) == sorted(ids), split
    songs = songs_of(store)
    for song_id, rows in layout.notes.items():
        found = rows_of(songs[song_id])
        assert len(found) == len(rows), (song_id, found)
        for one, other in zip(sorted(found), sorted(rows), strict=True):
            assert one == pytest.approx(other, abs=0.002), song_id
    for song_id, programs in layout.stems.items():
        assert songs[song_id].stem_programs == programs
    for song_id, unannotated in layout.unannotated.items():
        assert songs[song_id].unannotated == unannotated, song_id
    for song in songs.values():
        assert song.octave_unknown == layout.octave_unknown
        assert song.meta["licence"]
        assert np.abs(song.stems).max() > 1000
    presets = [preset.name for preset in SINGLE_PRESETS.values() if preset.store == name]
    assert presets
    for preset in presets:
        data = open_presets([preset], home)
        assert data.training or data.validation or data.test
    made = (home / name / "store.json").stat().st_mtime_ns
    capsys.readouterr()
    assert main([name, str(files.root)]) == 0
    assert "is there already" in capsys.readouterr().out
    assert (home / name / "store.json").stat().st_mtime_ns == made


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_a_damaged_file_is_named_and_can_be_left_out(
    name: str, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    layout = LAYOUTS[name](files)
    layout.damage.write_bytes(b"no such data\n")
    assert main([name, str(files.root), "--processes", "1"]) == 2
    assert str(layout.damage) in capsys.readouterr().err
    assert not (tmp_path / name).exists()
    assert main([name, str(files.root), "--processes", "1", "--skip-broken"]) == 0
    said = capsys.readouterr().err
    assert "left out" in said
    assert str(layout.damage) in said
    assert SongStore.open(tmp_path / name).splits


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_an_empty_folder_is_no_data_set(
    name: str, files: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AMT_DATA_HOME", str(tmp_path))
    files.text("readme.txt", "nothing here")
    assert main([name, str(files.root)]) == 2
    assert str(files.root) in capsys.readouterr().err
    assert not (tmp_path / name).exists()
