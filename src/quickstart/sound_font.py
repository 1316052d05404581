"""The sound font in a form that symusic plays in tune, and alike every time.

symusic 0.5 passes over the generator ``overridingRootKey`` of a zone (SoundFont 2.04, 8.1.2, number 58) and
takes the root key from the header of the sample. In TimGM6mb, where most samples state 60 and their zones the
true key, a piano's A then sounds as the B above, and a brass section eleven semitones sharp. Here each zone
gets a sample header of its own that states its root key.

It also plays whatever the memory held, in two cases. It moves the end of a loop to the left, and its start to
the right, but neither the other way (generators 2 and 3): a loop that is moved to the left as a whole then
ends before it begins. Here the headers state the places of the zone. And it resamples before it repeats the
loop, to a length that is rounded down: of a loop that ends with its sample it reads a few values too many.
Here each looped sample goes on after its end, as its loop does.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

_SAMPLE = struct.Struct("<20sIIIIIBbHH")
_GENERATOR = struct.Struct("<HH")
_BAG = struct.Struct("<HH")
_INSTRUMENT = struct.Struct("<20sH")
_LOOP_MODE, _ROOT_KEY, _SAMPLE_ID = 54, 58, 53
_LOOPED = (1, 3)
"""Values of the generator ``sampleModes``: looped, and looped until the key is let go."""
_PLACES = ((0, 4), (1, 12), (2, 45), (3, 50))
"""Generators that move the start, the end, the start and end of the loop: by values, by 32,768 values."""
_COARSE = 32768
_LAST_KEY = 127
_MARGIN = 1024
"""Values that a looped sample goes on after its end: a few of a sound five octaves up are some hundred."""
_GAP = 46
"""Zeros after each sample (SoundFont 2.04, 6.1)."""


@cache
def font_for_symusic(path: Path) -> str:
    """Path of a mended copy of the font ``path``, which is removed when this process ends."""
    folder = _folder()
    copy = Path(folder.name) / path.name
    copy.write_bytes(mended(path.read_bytes()))
    return str(copy)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="amt-font-")


def mended(font: bytes) -> bytes:
    """A SoundFont file whose sample headers state root keys and loops, and whose looped samples go on.

    Raises:
        ValueError: when the file is no SoundFont.
    """
    if font[:4] != b"RIFF" or font[8:12] != b"sfbk":
        raise ValueError("this is no SoundFont file: it does not begin with RIFF and sfbk")
    lists = {
        font[start : start + 4]: (start, size)
        for name, start, size in _chunks(font, 12, len(font))
        if name == b"LIST"
    }
    parts = {
        name: {inner: font[at : at + length] for inner, at, length in _chunks(font, start + 4, start + size)}
        for name, (start, size) in lists.items()
    }
    _own_samples(parts[b"pdta"], parts[b"sdta"])
    whole = b"sfbk" + b"".join(
        _chunk(b"LIST", name + b"".join(_chunk(inner, data) for inner, data in chunks.items()))
        for name, chunks in parts.items()
    )
    return _chunk(b"RIFF", whole)


def _chunk(name: bytes, data: bytes) -> bytes:
    return name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def _chunks(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, first byte and length of the chunks between two places."""
    while start + 8 <= end:
        size = int.from_bytes(data[start + 4 : start + 8], "little")
        yield data[start : start + 4], start + 8, size
        start += 8 + size + size % 2


def _own_samples(headers: dict[bytes, bytes], sound: dict[bytes, bytes]) -> None:
    """Gives each sample, root key, place and way of looping its own header, and looped ones longer sound."""
    generators = [list(item) for item in _GENERATOR.iter_unpack(headers[b"igen"])]
    *samples, end = _SAMPLE.iter_unpack(headers[b"shdr"])
    values = np.frombuffer(sound[b"smpl"], dtype="<i2")
    longer = [values]
    size = len(values)
    moved: dict[tuple[int, ...], int] = {}
    """By the places of a looped sample, how far its longer copy lies behind it."""
    made: dict[tuple[int, ...], int] = {}
    for item, settings in _zones(headers, generators):
        name, *stated, rate, key, correction, link, kind = samples[item[1]]
        places = tuple(
            place + _signed(settings.get(fine, 0)) + _COARSE * _signed(settings.get(coarse, 0))
            for place, (fine, coarse) in zip(stated, _PLACES, strict=True)
        )
        start, last, loop_start, loop_end = places
        if 0 <= settings.get(_ROOT_KEY, -1) <= _LAST_KEY:
            key = settings[_ROOT_KEY]
        looped = settings.get(_LOOP_MODE, 0) in _LOOPED and start <= loop_start < loop_end <= last
        if looped and places not in moved:
            moved[places] = size - start
            longer += [_going_on(values, *places), np.zeros(_GAP, dtype="<i2")]
            size += sum(len(part) for part in longer[-2:])
        by = moved[places] if looped else 0
        own = (start + by, last + by + _MARGIN * looped, loop_start + by, loop_end + by)
        if (item[1], *own, key) not in made:
            made[item[1], *own, key] = len(samples)
            samples.append((name, *own, rate, key, correction, link, kind))
        item[1] = made[item[1], *own, key]
    moving = {number for pair in _PLACES for number in pair}
    packed = ((number, 0 if number in moving else amount) for number, amount in generators)
    headers[b"igen"] = b"".join(_GENERATOR.pack(*item) for item in packed)
    headers[b"shdr"] = b"".join(_SAMPLE.pack(*sample) for sample in [*samples, end])
    sound[b"smpl"] = np.concatenate(longer).tobytes()


def _signed(amount: int) -> int:
    return amount - 65536 if amount >= 32768 else amount


def _zones(
    headers: dict[bytes, bytes], generators: list[list[int]]
) -> Iterator[tuple[list[int], dict[int, int]]]:
    """The generator that names a zone's sample, and all generators of the zone."""
    bags = [first for first, _ in _BAG.iter_unpack(headers[b"ibag"])]
    instruments = [first for _, first in _INSTRUMENT.iter_unpack(headers[b"inst"])]
    for first_bag, last_bag in pairwise(instruments):
        common: dict[int, int] = {}
        for bag in range(first_bag, last_bag):
            zone = generators[bags[bag] : bags[bag + 1]]
            settings = common | {item[0]: item[1] for item in zone}
            if _SAMPLE_ID in settings:
                item = next(item for item in zone if item[0] == _SAMPLE_ID)
                yield item, settings
            elif bag == first_bag:
                common = settings  # the zone of all others comes first


def _going_on(values: Any, start: int, last: int, loop_start: int, loop_end: int) -> Any:
    """A sample and what its loop plays after its end, int16."""
    after = loop_start + (np.arange(last, last + _MARGIN) - loop_start) % (loop_end - loop_start)
    return np.concatenate([values[start:last], values[after]])
