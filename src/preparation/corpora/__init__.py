"""Public data sets as they are published, each read by one module of its name."""

from __future__ import annotations

CORPORA: dict[str, str] = {
    "slakh": "Slakh2100: TrackXXXXX folders with metadata.yaml, stems/ and MIDI/",
    "maestro": "MAESTRO: maestro-v*.csv beside the folders of the years",
    "maps": "MAPS: MAPS_MUS-*.wav with *.txt or *.mid",
    "musicnet": "MusicNet: train_data, train_labels, ...; MusicNet-EM in musicnet_em",
    "guitarset": "GuitarSet: annotation/*.jams, audio_mono-mic, audio_mono-pickup_mix",
    "enstdrums": "ENST-Drums: drummer_1 to drummer_3 with annotation/ and audio/",
    "egmd": "E-GMD: e-gmd-v*.csv beside the folders of the drummers",
    "mir_st500": "MIR-ST500: MIR-ST500_corrected.json, and a numbered folder for each song",
    "cmedia": "CMedia: one JSON of notes, and a numbered folder for each song",
    "mir1k": "MIR-1K: Wavfile (accompaniment left, voice right) and PitchLabel",
    "urmp": "URMP: a folder for each piece with AuSep_*.wav and Notes_*.txt",
    "rwc_pop": "RWC Popular Music: RM-P001 to RM-P100 as audio and aligned MIDI",
    "idmt_smt_bass": "IDMT-SMT-BASS: single notes whose file names say string and fret",
    "geerdes": "Geerdes MIDI music: NAME.mid beside NAME.wav, separated voices too",
    "rnsynth": "mixtures of NSynth notes: audio and MIDI pairs in train, validation, test",
    "vocadito": "Vocadito: Audio/*.wav and Annotations/Notes/*.csv",
    "hooktheory": "HookTheory of Sheet Sage: Hooktheory.json(.gz) and audio by YouTube id",
    "sheetsage": "melodies written down by Sheet Sage: audio beside MIDI",
    "picogen": "songs made by PiCoGen: audio beside MIDI",
}
"""Name of the store and of the command ``amt-prepare NAME FOLDER``: what the folder holds."""
