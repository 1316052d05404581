"""Remarks of the MP3 library do not reach standard error; whatever else is written there does."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
import soundfile

from amt.audio import AudioError, audio_info, read_audio
from amt.audio.quiet import quiet_decoder

THEIRS = (
    b"Note: Illegal Audio-MPEG-Header 0x00000000 at offset 22401.\n",
    b"\nWarning: Big change (MPEG version, layer, rate). Frankenstein stream?\n",
    b"[src/libmpg123/layer3.c:INT123_do_layer3():1782] error: part2_3_length (3264) too large\n",
)


def test_only_remarks_of_the_library_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_decoder():
        for line in THEIRS:
            os.write(2, line)
            os.write(2, b"note: ours, between theirs\n")
        os.write(2, b"ours without an end")
    os.write(2, b", and after\n")
    assert capfd.readouterr().err == "note: ours, between theirs\n" * 3 + "ours without an end, and after\n"


def test_standard_error_is_restored_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    def fails() -> None:
        with quiet_decoder():
            os.write(2, b"said before\n")
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fails()
    os.write(2, b"said after\n")
    assert capfd.readouterr().err == "said before\nsaid after\n"


def test_threads_lose_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    def speak(number: int) -> None:
        for _ in range(50):
            with quiet_decoder():
                os.write(2, THEIRS[0])
                os.write(2, f"ours {number}\n".encode())

    threads = [threading.Thread(target=speak, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.write(2, b"end\n")
    said = capfd.readouterr().err.splitlines()
    assert sorted(said[:-1]) == sorted(f"ours {number}" for number in range(4) for _ in range(50))
    assert said[-1] == "end"


def test_without_standard_error_it_does_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    real = os.dup(2)
    os.close(2)
    try:
        with quiet_decoder():
            reached = True
    finally:
        os.dup2(real, 2)
        os.close(real)
    assert reached


def test_a_damaged_mp3_is_read_in_silence(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "song.mp3"
    rng = np.random.default_rng(0)
    soundfile.write(path, rng.uniform(-0.3, 0.3, 44100), 44100, format="MP3")
    content = bytearray(path.read_bytes())
    content[4000:4600] = bytes(range(256)) * 2 + bytes(88)
    path.write_bytes(content)
    soundfile.read(path)
    assert "Note: " in capfd.readouterr().err  # what the library says when nobody keeps it quiet
    assert len(read_audio(path)) > 8000
    assert audio_info(path).container == "MP3"
    assert capfd.readouterr().err == ""


def test_a_file_that_is_no_mp3_is_not_said_to_be_missing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "junk.mp3"
    path.write_bytes(b"this is no sound at all " * 400)
    with pytest.raises(AudioError) as caught:
        read_audio(path)
    assert str(caught.value) == f"{path}: is no sound file that can be read"
    assert capfd.readouterr().err == ""
