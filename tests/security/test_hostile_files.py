"""Files that somebody made to do harm, or that broke on the way: each is read or refused in one sentence.

Every reader of files from elsewhere is a target. The law is the same for all: whatever the bytes, the reader
gives its result or a ``ValueError`` that names the file; nothing that the file holds is run. A few examples
are drawn here, always the same; ``FUZZ_EXAMPLES=10000 pytest tests/security`` draws as many new ones.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import shutil
import struct
import sys
import types
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from amt.audio.reading import AudioError, audio_info, read_audio
from amt.data.store import SongStore, StoreWriter
from amt.model.checkpoint_file import read_checkpoint
from amt.model.checkpoint_header import diagnose_file, read_header, read_sidecar
from amt.model.importing.foreign_file import read_foreign
from amt.notes import Note, notes_to_array, read_midi
from amt.preparation.yourmt3_files import read_pickled_array

CASES = Path(__file__).parents[1] / "data"
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))
bounded = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="FUZZ_EXAMPLES" not in os.environ,
    suppress_health_check=list(HealthCheck),
)
Change = tuple[str, float, bytes]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["replace", "insert", "cut", "drop"]),
        st.floats(0, 1),
        st.one_of(st.binary(min_size=1, max_size=8), st.sampled_from([b"\xff" * 4, b"\0" * 4, b"\x7f\xff"])),
    ),
    min_size=1,
    max_size=6,
)


def changed(content: bytes, changes: list[Change]) -> bytes:
    """Bytes replaced, added, taken out, or the rest cut off, at a share of the length."""
    for kind, share, extra in changes:
        place = round(share * len(content))
        if kind == "cut":
            content = content[:place]
        elif kind == "insert":
            content = content[:place] + extra + content[place:]
        elif kind == "drop":
            content = content[:place] + content[place + len(extra) :]
        else:
            content = content[:place] + extra + content[place + len(extra) :]
    return content


def read_or_refuse(read: Callable[[Path], Any], path: Path) -> Any:
    """The result, or None where the file is refused properly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read(path)
        except ValueError as error:
            sentence = str(error)
    assert path.name in sentence, "it names the file"
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


MIDI = [path.read_bytes() for path in sorted((CASES / "midi").glob("*.mid")) if path.stat().st_size < 20_000]


@bounded
@given(seed=st.sampled_from(MIDI), changes=CHANGES)
def test_midi(folder: Path, seed: bytes, changes: list[Change]) -> None:
    path = folder / "hostile.mid"
    path.write_bytes(changed(seed, changes))
    for note in read_or_refuse(read_midi, path) or []:
        assert 0 <= note.onset <= note.offset < math.inf
        assert 0 <= note.pitch <= 127


@bounded
@given(
    content=st.binary(max_size=300), head=st.sampled_from([b"", b"MThd\0\0\0\6\0\1\0\1\1\xe0MTrk\0\0\1\0"])
)
def test_midi_of_any_bytes(folder: Path, content: bytes, head: bytes) -> None:
    path = folder / "any.mid"
    path.write_bytes(head + content)
    read_or_refuse(read_midi, path)


@pytest.fixture(scope="module")
def checkpoint(folder: Path) -> bytes:
    content = {"amt_format": 2, "experiment": "{}", "global_step": 7, "state_dict": {"a": torch.arange(9.0)}}
    torch.save(content, folder / "whole.ckpt")
    return (folder / "whole.ckpt").read_bytes()


@bounded
@given(changes=CHANGES)
def test_checkpoints(folder: Path, checkpoint: bytes, changes: list[Change]) -> None:
    path = folder / "hostile.ckpt"
    path.write_bytes(changed(checkpoint, changes))
    diagnose_file(path)
    header = read_header(path)
    assert header is None or isinstance(header.step, (int, type(None)))
    for read in (read_checkpoint, read_foreign):
        read_or_refuse(read, path)


@bounded
@given(changes=CHANGES)
def test_safetensors(folder: Path, changes: list[Change]) -> None:
    whole, path = folder / "whole.safetensors", folder / "hostile.safetensors"
    if not whole.exists():
        save_file({"model.a": torch.arange(9.0)}, whole, {"experiment": "{}", "global_step": "7"})
    path.write_bytes(changed(whole.read_bytes(), changes))
    read_header(path)
    read_or_refuse(read_checkpoint, path)


@bounded
@given(text=st.one_of(st.text(max_size=60), st.recursive(st.none() | st.integers() | st.text(), st.lists)))
def test_sidecars(folder: Path, text: object) -> None:
    (folder / "side.json").write_text(text if isinstance(text, str) else repr(text), encoding="utf-8")
    found = read_sidecar(folder / "side.ckpt")
    assert found is None or isinstance(found, dict)


@pytest.fixture
def canary(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """A module whose every use is written down."""
    calls: list[object] = []
    module = types.ModuleType("amt_canary")

    class Bird:
        def __init__(self, *given: object) -> None:
            calls.append(given)

        def __setstate__(self, state: object) -> None:
            calls.append(state)

    module.sing = lambda *given: calls.append(given)  # type: ignore[attr-defined]
    module.Bird = Bird  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "amt_canary", module)
    return calls


GLOBALS = [
    ("amt_canary", "sing"),
    ("amt_canary", "Bird"),
    ("os", "system"),
    ("builtins", "eval"),
    ("builtins", "getattr"),
    ("torch", "load"),
    ("torch.serialization", "load"),
    ("numpy", "load"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("collections", "OrderedDict"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("functools", "partial"),
]


def word(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


@st.composite
def programs(draw: Any) -> bytes:
    """A pickle that looks names up in all ways there are, and calls, builds and stores what it found."""
    steps = [b"\x80\x04"]
    for _ in range(draw(st.integers(1, 6))):
        module, name = draw(st.sampled_from(GLOBALS))
        steps.append(
            draw(
                st.sampled_from(
                    [
                        f"c{module}\n{name}\n".encode(),
                        word(module) + word(name) + b"\x93",
                        f"(i{module}\n{name}\n".encode(),
                        b"(" + f"c{module}\n{name}\n".encode() + word("touch x") + b"o",
                    ]
                )
            )
        )
        steps += draw(
            st.lists(
                st.sampled_from(
                    [
                        word("false") + b"\x85",
                        b")",
                        b"R",
                        b"\x81",
                        b"}b",
                        b"N",
                        b"\x94",
                        b"h\0",
                        b"(",
                        b"t",
                        b"0",
                        b"2",
                    ]
                ),
                max_size=6,
            )
        )
    return b"".join(steps) + b"."


def in_checkpoint(path: Path, program: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", b"\0" * 16)
    return path


def in_array(path: Path, program: bytes) -> Path:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|O", "fortran_order": False, "shape": ()})
    path.write_bytes(head.getvalue() + program)
    return path


@bounded
@given(program=programs())
def test_nothing_that_is_pickled_runs(folder: Path, canary: list[object], program: bytes) -> None:
    path = in_checkpoint(folder / "program.ckpt", program)
    read_header(path)
    for read in (read_checkpoint, read_foreign):
        read_or_refuse(read, path)
    read_or_refuse(read_pickled_array, in_array(folder / "program.npy", program))
    assert canary == []


def test_the_canary_sings_in_an_ordinary_unpickler(canary: list[object]) -> None:
    pickle.loads(b"\x80\x04camt_canary\nsing\n" + word("false") + b"\x85R.")
    assert canary == [("false",)]


@pytest.fixture(scope="module")
def store(folder: Path) -> Path:
    with StoreWriter(folder / "good", "good") as writer:
        notes = notes_to_array([Note(0.1, 0.5, 60), Note(0.4, 0.8, 62)])
        writer.add_song("train", "one", np.zeros((1, 16000), np.int16), [[0]], ["piano"], notes, {})
    return folder / "good"


@bounded
@given(number=st.integers(0, 10), changes=CHANGES)
def test_stores(folder: Path, store: Path, number: int, changes: list[Change]) -> None:
    copy = folder / "hostile_store"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(store, copy)
    files = sorted(path for path in copy.rglob("*") if path.is_file() and path.name != "stems.npy")
    victim = files[number % len(files)]
    victim.write_bytes(changed(victim.read_bytes(), changes))

    def use(path: Path) -> None:
        opened = SongStore.open(path)
        song = opened.song("train", 0)
        song.mix()
        assert song.notes["pitch"].min(initial=0) >= 0
        opened.check()

    read_or_refuse(use, copy)


@pytest.fixture(scope="module")
def sounds(folder: Path) -> dict[str, bytes]:
    tone = 0.3 * np.sin(np.arange(4000) / 5)
    for ending in ("wav", "flac", "ogg", "aiff"):
        soundfile.write(folder / f"whole.{ending}", tone, 16000)
    found = {ending: (folder / f"whole.{ending}").read_bytes() for ending in ("wav", "flac", "ogg", "aiff")}
    return found | {"mp3": (CASES / "audio" / "w14_clicks.mp3").read_bytes()}


@bounded
@given(ending=st.sampled_from(["wav", "flac", "ogg", "aiff", "mp3"]), in_head=st.booleans(), changes=CHANGES)
def test_audio(
    folder: Path, sounds: dict[str, bytes], ending: str, in_head: bool, changes: list[Change]
) -> None:
    content = sounds[ending]
    content = changed(content[:64], changes) + content[64:] if in_head else changed(content, changes)
    path = folder / f"hostile.{ending}"
    path.write_bytes(content)
    info = read_or_refuse(audio_info, path)
    if info is None:
        with pytest.raises(AudioError):
            read_audio(path)
        return
    samples = read_or_refuse(lambda name: read_audio(name, stop=1 << 20), path)
    if samples is not None:
        assert samples.dtype == np.float32
        assert np.isfinite(samples).all()
        assert np.abs(samples).max(initial=0) <= 1
