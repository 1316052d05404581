"""What the name of a stem's file says about its instruments."""

from __future__ import annotations

import re

from ..config.vocabularies import get_program_vocab, program_name
from ..notes.note import CHORUS_PROGRAM, DRUM_PROGRAM, SINGING_PROGRAM

_VOICE, _CHORUS, _DRUMS = (SINGING_PROGRAM,), (CHORUS_PROGRAM,), (DRUM_PROGRAM,)
_FURTHER: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ("vocals", "vocal", "voice", "vox", "singing", "singer", "lead vocals", "melody"), _VOICE
    ),
    **dict.fromkeys(("backing vocals", "backing", "choir", "chorus", "backing voices"), _CHORUS),
    **dict.fromkeys(("drums", "drum", "drum kit", "percussion"), _DRUMS),
    **dict.fromkeys(("keys", "keyboard"), tuple(range(8))),
    "e piano": (4, 2, 5),
    "e bass": tuple(range(33, 40)),
    "double bass": (32, 43),
    "electric guitar": tuple(range(26, 32)),
    "saxophone": tuple(range(64, 68)),
    "sax": tuple(range(64, 68)),
    "noise": (),
    "room": (),
}


def _words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[a-z]+|\d+", text.lower()))


def _table() -> dict[tuple[str, ...], tuple[int, ...]]:
    table: dict[tuple[str, ...], tuple[int, ...]] = {}
    table.update({_words(program_name(program)): (program,) for program in range(96)})
    for vocabulary in ("gm_ext_plus", "mt3_full_plus", "gm_plus"):
        table.update({_words(name): members for name, members in get_program_vocab(vocabulary).items()})
    table.update({_words(name): members for name, members in _FURTHER.items()})
    return table


_TABLE = _table()
_LONGEST = max(map(len, _TABLE))


def programs_of_name(name: str) -> tuple[int, ...] | None:
    """Programs that a stem of this name may hold, the likeliest first; None when it says nothing.

    ``program33`` or ``p33`` among its words names a program; else the longest run of words that names an
    instrument, a class of instruments, voices or drums decides. ``noise`` and ``room`` hold no notes.
    """
    number = re.search(r"(?:^|[^a-z])p(?:rogram)?[ _-]?(\d{1,3})(?:\D|$)", name.lower())
    if number and int(number[1]) <= DRUM_PROGRAM:
        return (int(number[1]),)
    words = _words(name)
    for length in range(min(_LONGEST, len(words)), 0, -1):
        for begin in range(len(words) - length + 1):
            found = _TABLE.get(words[begin : begin + length])
            if found is not None:
                return found
    return None
