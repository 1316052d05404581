"""Notes to tokens, vectorised over all windows at once.

Everything a window's sequence holds is an *item*: a tie, the tie token that closes the tie section, an
event (note on or off), and the end. An item is one integer whose bits are, from the highest:

    row (window x channel) | section | tick | drum flag | program | velocity | pitch

so that sorting the integers puts the items of all windows in the order of the published token format,
and the fields come back by shifting. An item becomes up to four tokens: shift, program, velocity and
pitch, each only when it differs from the state before it.

Axes: E events, I items, R rows (window x channel), W windows, M notes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..config.audio import SHIFT_STEPS_PER_SECOND
from ..notes.cleaning import MINIMUM_SECONDS
from ..notes.note import NoteArray
from .vocabulary import EOS_ID, PAD_ID, EncodingTables

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

VELOCITY_BIT = 7
PROGRAM_BIT = 8
DRUM_BIT = 16
TICK_BIT = 17
SECTION_BIT = 37
ROW_BIT = 39
TIE, TIE_END, BODY, END = (section << SECTION_BIT for section in range(4))
SECTIONS = 3 << SECTION_BIT
TICKS = (1 << (SECTION_BIT - TICK_BIT)) - 1
PROGRAMS = 255 << PROGRAM_BIT


@dataclass(frozen=True)
class PreparedNotes:
    """One song ready to be cut into windows: arrays only, cheap to pickle."""

    event_times: Floats
    """(E,) seconds, rising."""
    event_ticks: Ints
    """(E,) steps of 10 ms since the start of the song."""
    event_items: Ints
    """(E,) item bits without window, section and tick."""
    onsets: Floats
    """(M,) onsets of the pitched notes, rising."""
    offsets: Floats
    """(M,)"""
    latest_offsets: Floats
    """(M,) latest offset of the notes up to and including this one."""
    tie_items: Ints
    """(M,) item bits of each note as a tie."""
    num_notes: int
    """Notes that have a token."""
    num_without_channel: int
    """Notes left out because their program belongs to no channel of the task."""


def check_range(notes: NoteArray) -> None:
    """Raise ``ValueError`` if a pitch or the program of a pitched note is outside 0 to 127."""
    programs = np.where(notes["is_drum"], 0, notes["program"])
    if ((notes["pitch"] | programs) & ~127).any():
        bad = notes[((notes["pitch"] | programs) & ~127) != 0][0]
        raise ValueError(
            f"the note at {bad['onset']:.3f} s has pitch {bad['pitch']} and program {bad['program']}; "
            "both must be 0 to 127 (a drum note needs is_drum)"
        )


def check_times(notes: NoteArray) -> None:
    """Raise ``ValueError`` if a time is not finite."""
    finite = np.isfinite(notes["onset"]) & np.isfinite(notes["offset"])
    if not finite.all():
        bad = notes[~finite][0]
        raise ValueError(
            f"a note of pitch {bad['pitch']} lasts from {bad['onset']} to {bad['offset']} s; times must be "
            "finite (target_notes and clean_notes leave such notes out)"
        )


def note_items(notes: NoteArray, tables: EncodingTables) -> tuple[Ints, Ints]:
    """Item bits (drum flag, program, pitch) and channel of each note, both (M,)."""
    program = np.where(notes["is_drum"], 128, notes["program"])
    items = (tables.program_class[program] << PROGRAM_BIT) | notes["pitch"]
    items |= notes["is_drum"].astype(np.int64) << DRUM_BIT
    return items, tables.channel[program]


def to_ticks(seconds: Floats) -> Ints:
    """Steps of 10 ms, halves to the even step as Python's ``round`` does."""
    ticks: Ints = np.rint(seconds * SHIFT_STEPS_PER_SECOND).astype(np.int64)
    return ticks


def prepare_notes(notes: NoteArray, tables: EncodingTables) -> PreparedNotes:
    """Sort the events of one song. A note without length gets 10 ms; else notes are taken as they are."""
    check_range(notes)
    check_times(notes)
    items, channel = note_items(notes, tables)
    num_without_channel = 0
    if tables.num_channels > 1:
        routed = channel >= 0
        num_without_channel = int(np.count_nonzero(~routed))
        notes, items, channel = notes[routed], items[routed], channel[routed]
        items |= channel << ROW_BIT
    order = np.argsort(notes["onset"])
    items = items[order]
    onset = notes["onset"][order]
    offset = notes["offset"][order]
    offset = np.where(offset > onset, offset, onset + MINIMUM_SECONDS)
    pitched = np.flatnonzero(~notes["is_drum"][order])
    tie_items, on, off = items[pitched], onset[pitched], offset[pitched]
    on_ticks, off_ticks = to_ticks(onset), to_ticks(off)
    # Two ends 10 ms apart can round to one tick by an error in the last bit of a double.
    apart = off - on > 0.99 * MINIMUM_SECONDS
    np.maximum(off_ticks, on_ticks[pitched] + 1, out=off_ticks, where=apart)
    times = np.concatenate([onset, off])
    order = np.argsort(times)
    return PreparedNotes(
        event_times=times[order],
        event_ticks=np.concatenate([on_ticks, off_ticks])[order],
        event_items=np.concatenate([items | (1 << VELOCITY_BIT), tie_items])[order],
        onsets=on,
        offsets=off,
        latest_offsets=np.maximum.accumulate(off),
        tie_items=tie_items,
        num_notes=len(notes),
        num_without_channel=num_without_channel,
    )


def _ranges(first: npt.NDArray[np.intp], last: npt.NDArray[np.intp]) -> tuple[Ints, Ints]:
    """Indices first to last of each window one after another, and the window of each index."""
    if len(first) == 1:
        index = np.arange(first[0], max(first[0], last[0]))
        return index, np.zeros(len(index), dtype=np.int64)
    counts = np.maximum(last - first, 0)
    window = np.repeat(np.arange(len(counts)), counts)
    offset = first - np.cumsum(counts) + counts
    return np.arange(len(window)) + offset[window], window


def window_items(prepared: PreparedNotes, starts: Floats, ends: Floats, tables: EncodingTables) -> Ints:
    """Sorted items (I,) of the windows with those start and end times in seconds (W,)."""
    times = prepared.event_times
    index, window = _ranges(times.searchsorted(starts), times.searchsorted(ends))
    row_step = tables.num_channels << ROW_BIT
    ticks = prepared.event_ticks[index] - to_ticks(starts)[window]
    np.minimum(ticks, tables.layout.num_shifts - 1, out=ticks)
    events = prepared.event_items[index] + (ticks << TICK_BIT) + window * row_step + BODY

    first = prepared.latest_offsets.searchsorted(starts)
    index, window = _ranges(first, prepared.onsets.searchsorted(starts))
    sounding = prepared.offsets[index] >= starts[window]
    index, window = index[sounding], window[sounding]
    ties = prepared.tie_items[index] + window * row_step

    rows = np.arange(len(starts) * tables.num_channels) << ROW_BIT
    items: Ints = np.concatenate([ties, rows + TIE_END, events, rows + END])
    items.sort()
    return items


def single_window_items(notes: NoteArray, start: float, end: float, tables: EncodingTables) -> Ints:
    """Sorted items (I,) of one window straight from the notes near it, overlaps ended on the way.

    Written apart from :func:`prepare_notes` because a training step does this for every segment.
    """
    items, channel = note_items(notes, tables)
    onset, offset = notes["onset"], notes["offset"]
    if tables.num_channels > 1:
        items |= channel << ROW_BIT
        routed = channel >= 0
        if not routed.all():
            items, onset, offset = items[routed], onset[routed], offset[routed]
    order = np.lexsort((onset, items))
    items, onset = items[order], onset[order]
    offset = np.maximum(offset[order], onset + MINIMUM_SECONDS)
    same = items[1:] == items[:-1]
    offset[:-1][same] = np.minimum(offset[:-1], onset[1:])[same]

    drum = (items >> DRUM_BIT) & 1
    sounds = (offset > onset) & (onset < end)
    on = np.flatnonzero(sounds & (onset >= start))
    pitched = sounds & (drum == 0)
    tie = np.flatnonzero(pitched & (onset < start) & (offset >= start))
    off = np.flatnonzero(pitched & (offset >= start) & (offset < end))

    start_tick = round(start * SHIFT_STEPS_PER_SECOND)
    on_ticks = to_ticks(onset) - start_tick
    off_ticks = np.maximum(to_ticks(offset) - start_tick, on_ticks + 1)
    np.minimum(off_ticks, tables.layout.num_shifts - 1, out=off_ticks)
    rows = np.arange(tables.num_channels) << ROW_BIT
    found: Ints = np.concatenate(
        [
            items[tie],
            rows + TIE_END,
            items[on] + ((on_ticks[on] << TICK_BIT) + (BODY + (1 << VELOCITY_BIT))),
            items[off] + ((off_ticks[off] << TICK_BIT) + BODY),
            rows + END,
        ]
    )
    found.sort()
    return found


def items_to_tokens(items: Ints, tables: EncodingTables) -> Ints:
    """Sorted items (I,) to up to four tokens each (I, 4): shift, program, velocity, pitch; 0 for none."""
    tokens = np.zeros((len(items), 4), dtype=np.int64)
    body = (items & SECTIONS)[1:] == BODY

    # A row begins with a tie or the tie end, at tick 0 and of another section than the events, so an
    # event can be compared with whatever is before it.
    ticks = (items >> TICK_BIT) & TICKS
    changed = ticks[1:] != ticks[:-1]
    changed &= body
    np.multiply(ticks[1:] + tables.shift_start, changed, out=tokens[1:, 0])

    state = items & (SECTIONS | (1 << VELOCITY_BIT))
    changed = state[1:] != state[:-1]
    changed &= body
    np.multiply(((items >> VELOCITY_BIT) & 1)[1:] + tables.velocity_start, changed, out=tokens[1:, 2])

    code = ((items >> (SECTION_BIT - 8)) & 768) | ((items >> (DRUM_BIT - 7)) & 128) | (items & 127)
    tokens[:, 3] = tables.last_token[code]

    # Programs carry over from the ties to the events, and past drums.
    pitched = np.flatnonzero(tables.has_program[code])
    if len(pitched):
        state = items[pitched] & (-1 << ROW_BIT | PROGRAMS)
        new = np.empty(len(pitched), dtype=bool)
        new[0] = True
        np.not_equal(state[1:], state[:-1], out=new[1:])
        tokens[pitched[new], 1] = tables.program_token[(state[new] & PROGRAMS) >> PROGRAM_BIT]
    return tokens


def flatten(tokens: Ints) -> tuple[Ints, Ints]:
    """Tokens of all rows one after another, and the number of each row (R,)."""
    flat = tokens.ravel()
    flat = flat[flat != 0]
    ends = np.flatnonzero(flat == EOS_ID)
    ends += 1
    lengths = ends.copy()
    lengths[1:] -= ends[:-1]
    return flat, lengths


def shorten(items: Ints, counts: Ints, max_length: int) -> npt.NDArray[np.bool_]:
    """Which items (I,) of one row, with so many tokens each, to keep for at most ``max_length`` tokens.

    It is cut between events and keeps the tie token and the end.
    """
    section = items & SECTIONS
    is_tie = section == TIE
    closing = (section == TIE_END) | (section == END)
    used = np.cumsum(np.where(closing, 0, counts))
    keep: npt.NDArray[np.bool_] = closing | (used <= max_length - 2)
    if not keep[is_tie].all():
        keep &= closing | is_tie
    return keep


def pad_rows(tokens: Ints, lengths: Ints, width: int) -> Ints:
    """Rows of a flat token array, padded with PAD to (R, width)."""
    padded = np.full((len(lengths), width), PAD_ID, dtype=np.int64)
    if len(lengths) == 1:
        padded[0, : len(tokens)] = tokens
        return padded
    shift = np.arange(len(lengths)) * width - np.cumsum(lengths) + lengths
    padded.reshape(-1)[np.arange(len(tokens)) + np.repeat(shift, lengths)] = tokens
    return padded
