"""Tables of instrument classes and drum classes: which MIDI programs and pitches a class holds.

A vocabulary maps a class name to the programs (or drum pitches) of the class. The first one stands
for the class in tokens. Tables after MT3 (Gardner et al. 2022) and YourMT3+ (Chang et al. 2024).
"""

from __future__ import annotations

from collections.abc import Mapping

from .names import listing, unknown_name

Vocabulary = dict[str, tuple[int, ...]]
"""Class name to its members; the first member represents the class."""

DRUM_CLASS = "Drums"
"""Name of the class of all drum notes where instruments are listed."""

_GM_NAMES = [
    "Acoustic Grand Piano",
    "Bright Acoustic Piano",
    "Electric Grand Piano",
    "Honky-tonk Piano",
    "Electric Piano 1",
    "Electric Piano 2",
    "Harpsichord",
    "Clavinet",
    "Celesta",
    "Glockenspiel",
    "Music Box",
    "Vibraphone",
    "Marimba",
    "Xylophone",
    "Tubular Bells",
    "Dulcimer",
    "Drawbar Organ",
    "Percussive Organ",
    "Rock Organ",
    "Church Organ",
    "Reed Organ",
    "Accordion",
    "Harmonica",
    "Tango Accordion",
    "Acoustic Guitar (nylon)",
    "Acoustic Guitar (steel)",
    "Electric Guitar (jazz)",
    "Electric Guitar (clean)",
    "Electric Guitar (muted)",
    "Overdriven Guitar",
    "Distortion Guitar",
    "Guitar Harmonics",
    "Acoustic Bass",
    "Electric Bass (finger)",
    "Electric Bass (pick)",
    "Fretless Bass",
    "Slap Bass 1",
    "Slap Bass 2",
    "Synth Bass 1",
    "Synth Bass 2",
    "Violin",
    "Viola",
    "Cello",
    "Contrabass",
    "Tremolo Strings",
    "Pizzicato Strings",
    "Orchestral Harp",
    "Timpani",
    "String Ensemble 1",
    "String Ensemble 2",
    "Synth Strings 1",
    "Synth Strings 2",
    "Choir Aahs",
    "Voice Oohs",
    "Synth Choir",
    "Orchestra Hit",
    "Trumpet",
    "Trombone",
    "Tuba",
    "Muted Trumpet",
    "French Horn",
    "Brass Section",
    "Synth Brass 1",
    "Synth Brass 2",
    "Soprano Sax",
    "Alto Sax",
    "Tenor Sax",
    "Baritone Sax",
    "Oboe",
    "English Horn",
    "Bassoon",
    "Clarinet",
    "Piccolo",
    "Flute",
    "Recorder",
    "Pan Flute",
    "Bottle Blow",
    "Shakuhachi",
    "Whistle",
    "Ocarina",
    "Lead 1 (square)",
    "Lead 2 (sawtooth)",
    "Lead 3 (calliope)",
    "Lead 4 (chiff)",
    "Lead 5 (charang)",
    "Lead 6 (voice)",
    "Lead 7 (fifths)",
    "Lead 8 (bass + lead)",
    "Pad 1 (new age)",
    "Pad 2 (warm)",
    "Pad 3 (polysynth)",
    "Pad 4 (choir)",
    "Pad 5 (bowed)",
    "Pad 6 (metallic)",
    "Pad 7 (halo)",
    "Pad 8 (sweep)",
]
_GM_EFFECT_NAMES = [
    "FX 1 (rain)",
    "FX 2 (soundtrack)",
    "FX 3 (crystal)",
    "FX 4 (atmosphere)",
    "Singing Voice",
    "Singing Voice (chorus)",
    "FX 7 (echoes)",
    "FX 8 (sci-fi)",
    "Sitar",
    "Banjo",
    "Shamisen",
    "Koto",
    "Kalimba",
    "Bagpipe",
    "Fiddle",
    "Shanai",
    "Tinkle Bell",
    "Agogo",
    "Steel Drums",
    "Woodblock",
    "Taiko Drum",
    "Melodic Tom",
    "Synth Drum",
    "Reverse Cymbal",
    "Guitar Fret Noise",
    "Breath Noise",
    "Seashore",
    "Bird Tweet",
    "Telephone Ring",
    "Helicopter",
    "Applause",
    "Gunshot",
]
"""Programs 96 to 127, which belong to no class; voices stand in place of the effects 100 and 101."""


def _span(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


_GM: Vocabulary = {
    "Piano": _span(0, 7),
    "Chromatic Percussion": _span(8, 15),
    "Organ": _span(16, 23),
    "Guitar": _span(24, 31),
    "Bass": _span(32, 39),
    "Strings": _span(40, 55),
    "Brass": _span(56, 63),
    "Reed": _span(64, 71),
    "Pipe": _span(72, 79),
    "Synth Lead": _span(80, 87),
    "Synth Pad": _span(88, 95),
}
_GM_PLUS: Vocabulary = {**_GM, "Singing Voice": (100, 101)}
_SEPARATE_VOICES: Vocabulary = {"Singing Voice": (100,), "Singing Voice (chorus)": (101,)}
_GM_EXT_PLUS: Vocabulary = {
    "Acoustic Piano": (0, 1, 3, 6, 7),
    "Electric Piano": (2, 4, 5),
    "Chromatic Percussion": _span(8, 15),
    "Organ": _span(16, 23),
    "Guitar (clean)": _span(24, 27),
    "Guitar (distortion)": (30, 28, 29, 31),
    "Bass": (33, 32, *_span(34, 39)),
    "Strings": (48, *_span(40, 47), *_span(49, 55)),
    "Brass": _span(56, 63),
    "Reed": _span(64, 71),
    "Pipe": _span(72, 79),
    "Synth Lead": _span(80, 87),
    "Synth Pad": _span(88, 95),
    **_SEPARATE_VOICES,
}
_MT3_FULL: Vocabulary = {
    "Acoustic Piano": (0, 1, 3, 6, 7),
    "Electric Piano": (2, 4, 5),
    "Chromatic Percussion": _span(8, 15),
    "Organ": _span(16, 23),
    "Acoustic Guitar": (24, 25),
    "Clean Electric Guitar": _span(26, 28),
    "Distorted Electric Guitar": _span(29, 31),
    "Acoustic Bass": (32, 35),
    "Electric Bass": (33, 34, *_span(36, 39)),
    "Violin": (40,),
    "Viola": (41,),
    "Cello": (42,),
    "Contrabass": (43,),
    "Orchestral Harp": (46,),
    "Timpani": (47,),
    "String Ensemble": (48, 49, 44, 45),
    "Synth Strings": (50, 51),
    "Choir and Voice": _span(52, 54),
    "Orchestra Hit": (55,),
    "Trumpet": (56, 59),
    "Trombone": (57,),
    "Tuba": (58,),
    "French Horn": (60,),
    "Brass Section": _span(61, 63),
    "Soprano/Alto Sax": (64, 65),
    "Tenor Sax": (66,),
    "Baritone Sax": (67,),
    "Oboe": (68,),
    "English Horn": (69,),
    "Bassoon": (70,),
    "Clarinet": (71,),
    "Pipe": (73, 72, *_span(74, 79)),
    "Synth Lead": _span(80, 87),
    "Synth Pad": _span(88, 95),
}

_PROGRAM_VOCABULARIES: dict[str, Vocabulary] = {
    "gm": _GM,
    "gm_plus": _GM_PLUS,
    "gm_ext_plus": _GM_EXT_PLUS,
    "gm_full": {name: (program,) for program, name in enumerate(_GM_NAMES)},
    "mt3_midi": _GM,
    "mt3_midi_plus": _GM_PLUS,
    "mt3_full": _MT3_FULL,
    "mt3_full_plus": {**_MT3_FULL, **_SEPARATE_VOICES},
    # Only for scoring.
    "piano_solo": {"Piano": _span(0, 7)},
    "guitar_solo": {"Guitar": _span(24, 31)},
    "bass_solo": {"Bass": _span(32, 39)},
    "singing_solo": {"Singing Voice": (100, 101)},
    "singing_chorus_sep": _SEPARATE_VOICES,
    "musicnet": {"Piano": _span(0, 7), "Strings": _span(40, 51), "Winds": _span(64, 79)},
}

_EGMD: Vocabulary = {
    "Kick Drum": (36,),
    "Snare X-stick": (37,),
    "Snare Drum": (38,),
    "Closed Hi-Hat": (42, 44, 22),
    "Open Hi-Hat": (46, 26),
    "Cowbell": (56,),
    "High Floor Tom": (43,),
    "Low Floor Tom": (41,),
    "Low Tom": (45,),
    "Low-Mid Tom": (47,),
    "Mid Tom": (48,),
    "Low Tom (Rim)": (50,),
    "Mid Tom (Rim)": (58,),
    "Ride": (51,),
    "Ride (Bell)": (53,),
    "Ride (Edge)": (59,),
    "Chinese Cymbal": (52,),
    "Crash Cymbal": (49, 57),
    "Splash Cymbal": (55,),
}
_DRUM_VOCABULARIES: dict[str, Vocabulary] = {
    "gm": {**_EGMD, "Kick Drum": (36, 35), "Snare X-stick": (37, 2), "Snare Drum": (38, 40)},
    "egmd": _EGMD,
    "enst": {
        "bd": (36,),
        "sd": (38,),
        "sweep": (0,),
        "sticks": (1,),
        "rs": (2,),
        "cs": (37,),
        "chh": (42,),
        "ohh": (46,),
        "cb": (56,),
        "c": (3,),
        "lmt": (47,),
        "mt": (48,),
        "mtr": (58,),
        "lt": (45,),
        "ltr": (50,),
        "lft": (41,),
        "rc": (51,),
        "ch": (52,),
        "cr": (49,),
        "spl": (55,),
    },
    "ksh": {"Kick Drum": (36, 35), "Snare Drum": (38, 40), "Hi-Hat": (42, 44, 46, 22, 26)},
    "kshr": {"Kick Drum": (36, 35), "Snare Drum": (38, 40), "Hi-Hat": (42, 44, 46, 22, 26, 51, 53, 59)},
}


def get_program_vocab(name: str) -> Vocabulary:
    """Instrument classes of that name, class name to programs, as a fresh dict in class order."""
    if name not in _PROGRAM_VOCABULARIES:
        raise unknown_name("program vocabulary", name, _PROGRAM_VOCABULARIES)
    return dict(_PROGRAM_VOCABULARIES[name])


def get_drum_vocab(name: str) -> Vocabulary:
    """Drum classes of that name, class name to drum pitches, as a fresh dict in class order."""
    if name not in _DRUM_VOCABULARIES:
        raise unknown_name("drum vocabulary", name, _DRUM_VOCABULARIES)
    return dict(_DRUM_VOCABULARIES[name])


def list_program_vocabs() -> list[str]:
    """Names :func:`get_program_vocab` knows, sorted."""
    return sorted(_PROGRAM_VOCABULARIES)


def list_drum_vocabs() -> list[str]:
    """Names :func:`get_drum_vocab` knows, sorted."""
    return sorted(_DRUM_VOCABULARIES)


def program_name(program: int) -> str:
    """Name of a program (0 to 127; 100 and 101 are voices), or ``Drums`` (128)."""
    return [*_GM_NAMES, *_GM_EFFECT_NAMES, DRUM_CLASS][program]


def named_programs(counts: Mapping[int, int]) -> str:
    """The commonest programs (128: drums) with their names and how often each occurs, in one line."""
    commonest = sorted(counts.items(), key=lambda item: item[1], reverse=True)
    return listing([f"{program} {program_name(program)}: {count}" for program, count in commonest], 8)


def class_names(vocab_name: str) -> dict[int, str]:
    """Each program of a program vocabulary with the name of its class (MIDI track names)."""
    return {program: name for name, members in get_program_vocab(vocab_name).items() for program in members}


def representatives(vocab: Vocabulary) -> dict[int, int]:
    """Each member of a vocabulary with the first member of its class."""
    return {member: members[0] for members in vocab.values() for member in members}
