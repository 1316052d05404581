"""The sound font in a form that symusic plays in tune.

symusic 0.5 passes over the generator ``overridingRootKey`` of a zone (SoundFont 2.04, 8.1.2, number 58) and
takes the root key from the header of the sample. In TimGM6mb, where most samples state 60 and their zones the
true key, a piano's A then sounds as the B above, and a brass section eleven semitones sharp. Here each zone
gets a sample header of its own that states its root key.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

_SAMPLE = struct.Struct("<20sIIIIIBbHH")
_GENERATOR = struct.Struct("<HH")
_BAG = struct.Struct("<HH")
_INSTRUMENT = struct.Struct("<20sH")
_ROOT_KEY, _SAMPLE_ID = 58, 53
_LAST_KEY = 127


@cache
def font_in_tune(path: Path) -> str:
    """Path of a corrected copy of the font ``path``, which is removed when this process ends."""
    folder = _folder()
    copy = Path(folder.name) / path.name
    copy.write_bytes(with_root_keys(path.read_bytes()))
    return str(copy)


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="amt-font-")


def with_root_keys(font: bytes) -> bytes:
    """A SoundFont file in which the header of every sample states the root key of the zones that use it.

    Raises:
        ValueError: when the file is no SoundFont.
    """
    if font[:4] != b"RIFF" or font[8:12] != b"sfbk":
        raise ValueError("this is no SoundFont file: it does not begin with RIFF and sfbk")
    lists = [(start, size) for name, start, size in _chunks(font, 12, len(font)) if name == b"LIST"]
    start, size = next((start, size) for start, size in lists if font[start : start + 4] == b"pdta")
    parts = {name: font[at : at + length] for name, at, length in _chunks(font, start + 4, start + size)}
    parts[b"igen"], parts[b"shdr"] = _own_samples(parts)
    body = b"pdta" + b"".join(
        name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2) for name, data in parts.items()
    )
    whole = (
        font[12 : start - 8] + b"LIST" + struct.pack("<I", len(body)) + body + font[start + size + size % 2 :]
    )
    return b"RIFF" + struct.pack("<I", len(whole) + 4) + b"sfbk" + whole


def _chunks(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Name, first byte and length of the chunks between two places."""
    while start + 8 <= end:
        size = int.from_bytes(data[start + 4 : start + 8], "little")
        yield data[start : start + 4], start + 8, size
        start += 8 + size + size % 2


def _own_samples(parts: dict[bytes, bytes]) -> tuple[bytes, bytes]:
    """Instrument generators and sample headers, with a header for each sample and root key."""
    generators = [list(item) for item in _GENERATOR.iter_unpack(parts[b"igen"])]
    bags = [first for first, _ in _BAG.iter_unpack(parts[b"ibag"])]
    instruments = [first for _, first in _INSTRUMENT.iter_unpack(parts[b"inst"])]
    *samples, end = _SAMPLE.iter_unpack(parts[b"shdr"])
    made: dict[tuple[int, int], int] = {}
    for first_bag, last_bag in pairwise(instruments):
        common = None
        for bag in range(first_bag, last_bag):
            zone = generators[bags[bag] : bags[bag + 1]]
            values = dict(zone)
            root = values.get(_ROOT_KEY, common)
            if _SAMPLE_ID not in values:
                common = root if bag == first_bag else common  # the zone of all others comes first
                continue
            number = values[_SAMPLE_ID]
            if root is None or root > _LAST_KEY or root == samples[number][6]:
                continue
            if (number, root) not in made:
                made[number, root] = len(samples)
                samples.append((*samples[number][:6], root, *samples[number][7:]))
            next(item for item in zone if item[0] == _SAMPLE_ID)[1] = made[number, root]
    packed = b"".join(_SAMPLE.pack(*sample) for sample in [*samples, end])
    return b"".join(_GENERATOR.pack(*item) for item in generators), packed
