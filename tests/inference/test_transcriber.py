"""Songs in, notes out: loading, cutting, decoding, stitching."""

import math
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch import Tensor, nn

from amt.audio import read_audio
from amt.config import Experiment, T5DecoderConfig
from amt.inference import (
    DecodingChoices,
    SongTranscriber,
    load_transcriber,
    transcriber,
    untrained_transcriber,
)
from amt.inference.song_queue import QueuedSong, SongQueue
from amt.inference.transcriber import choose_device
from amt.inference.windows import Windows, as_mono, iterate_windows
from amt.model import Encoded
from amt.model.decoder import Row, T5Decoder
from amt.notes import Note
from amt.tokenizer import NoteTokenizer

TINY_DECODER = T5DecoderConfig(d_model=8, num_layers=1, num_heads=1, d_kv=8)


class Scripted(nn.Module):
    """Stands for the network: its memory is the audio."""

    def __init__(self) -> None:
        super().__init__()
        self.decoder = T5Decoder(TINY_DECODER, 8, 300)

    def encode(self, audio: Tensor) -> Encoded:
        return Encoded(audio[:, :, :1], audio[:, :, :1])


@pytest.fixture
def scripted(tiny: SongTranscriber, monkeypatch: pytest.MonkeyPatch) -> Callable[..., SongTranscriber]:
    """A transcriber whose decoder gives the windows of a known token array, the last of each batch first."""

    def make(
        notes: list[Note], seconds: float, batch_size: int, lost: Sequence[int] = (), **options: Any
    ) -> SongTranscriber:
        """``lost`` windows say nothing."""
        tokenizer = NoteTokenizer.from_task("mc13_fsingle", segment_samples=8000, max_length=256)
        ids = torch.as_tensor(
            tokenizer.encode(tokenizer.target_notes(notes), num_windows=math.ceil(seconds / 0.5))
        )
        silence = torch.tensor([tokenizer.tie_id, tokenizer.eos_id])
        ids[list(lost)] = torch.nn.functional.pad(silence, (0, ids.shape[2] - 2))

        def decode(weights: object, batches: Iterable[Tensor], *_: object, **__: object) -> Iterator[Row]:
            start = 0
            for batch in batches:
                for number in reversed(range(start, start + len(batch))):
                    row = ids[number % len(ids), 0]
                    yield Row(number, row[: int((row != 0).sum())], None)
                start += len(batch)

        monkeypatch.setattr(transcriber, "decode_stream", decode)
        choices = DecodingChoices(batch_size=batch_size, **options)
        return SongTranscriber(Scripted(), tiny.experiment, tokenizer, choices)  # type: ignore[arg-type]

    return make


def test_windows_are_stitched_into_the_song(scripted: Any) -> None:
    notes = [
        Note(0.2, 1.9, 60, 100),  # over three window edges
        Note(0.5, 1.0, 64, 0),  # from edge to edge
        Note(2.49, 2.74, 62, 100),
        Note(3.1, 3.11, 36, 128, True),
    ]
    model = scripted(notes, 4.0, 3)
    done: list[tuple[int, int]] = []
    song = model.transcribe(np.zeros(64000, np.float32), progress=lambda *at: done.append(at))
    assert [(n.pitch, n.program, n.is_drum) for n in song.notes] == [
        (n.pitch, n.program, n.is_drum) for n in notes
    ]
    for got, want in zip(song.notes, notes, strict=True):
        assert got.onset == pytest.approx(want.onset, abs=0.0051)
        assert got.offset == pytest.approx(want.offset, abs=0.0051)
    assert (song.num_windows, song.duration, sum(song.errors.values())) == (8, 4.0, 0)
    assert song.num_tokens > 8, "each window ends with a token at least"
    assert not song.constrained
    assert done == [(number, 8) for number in range(1, 9)]


def test_notes_in_the_padding_are_dropped(scripted: Any) -> None:
    model = scripted([Note(0.1, 0.9, 60, 100), Note(0.8, 0.95, 62, 100)], 1.0, 4)
    song = model.transcribe(np.zeros(11200, np.float32))
    assert [(n.pitch, n.offset) for n in song.notes] == [(60, pytest.approx(0.7))]


@pytest.fixture
def stereo_44100(tmp_path: Path) -> Path:
    time = np.arange(44100 * 3 + 17) / 44100
    sound = 0.3 * np.stack([np.sin(2 * np.pi * 440 * time), np.sin(2 * np.pi * 660 * time)], axis=1)
    soundfile.write(tmp_path / "song é.wav", sound, 44100)
    return tmp_path / "song é.wav"


def test_file_and_array_give_the_same_windows(stereo_44100: Path) -> None:
    windows = iterate_windows(stereo_44100, 8000, 16000)
    from_file = np.concatenate(list(windows.pieces))
    whole = read_audio(stereo_44100)
    assert abs(windows.length - len(whole)) <= 1
    same = iterate_windows(whole, 8000, 16000)
    assert same.length == len(whole)
    np.testing.assert_allclose(from_file, np.concatenate(list(same.pieces)), atol=1e-6)
    raw, rate = soundfile.read(stereo_44100)
    pieces = iterate_windows(raw, 8000, 16000, rate).pieces
    np.testing.assert_allclose(np.concatenate(list(pieces))[:-1], from_file[:-1], atol=1e-3)


@pytest.mark.parametrize("samples", [0, 1, 100, 8000, 8001, 16000])
def test_any_length(tiny: SongTranscriber, tmp_path: Path, samples: int) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(samples, np.float32), 16000)
    for song in (tmp_path / "a.wav", np.zeros(samples, np.float32)):
        result = tiny.transcribe(song)
        assert result.num_windows == max(1, math.ceil(samples / 8000))
        assert result.duration == samples / 16000


@pytest.mark.parametrize("overlap", [0.0, 0.25, 0.5, 0.7])
@pytest.mark.parametrize("samples", [0, 1, 7999, 8000, 8001, 50000])
def test_overlapping_windows_cover_the_song(samples: int, overlap: float, tmp_path: Path) -> None:
    sound = np.random.default_rng(0).uniform(-0.5, 0.5, samples).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", sound, 16000, subtype="FLOAT")
    for source in (sound, tmp_path / "a.wav"):
        windows = iterate_windows(source, 8000, 16000, overlap=overlap)
        cut = np.concatenate(list(windows.pieces))
        assert cut.shape == (windows.num_windows, 8000)
        padded = np.concatenate([sound, np.zeros(8000, np.float32)])
        for start, window in zip(windows.starts(), cut, strict=True):
            np.testing.assert_allclose(window, padded[start : start + 8000], atol=1e-6)
        seams = windows.seams(8000)
        assert seams[0] == 0
        ends = np.append(seams[1:], samples)
        assert (ends <= windows.starts() + 8000).all(), "a window answers for what it does not hear"
        assert windows.starts()[-1] == 0 or windows.starts()[-1] + 8000 - windows.hop < samples


def test_arrays_of_any_kind() -> None:
    wave = np.sin(np.arange(100)).astype(np.float32) * 0.5
    np.testing.assert_allclose(as_mono((wave * 32768).astype(np.int16)), wave, atol=1e-4)
    np.testing.assert_allclose(as_mono(np.stack([wave, wave])), wave, atol=1e-6)
    np.testing.assert_allclose(as_mono(np.stack([wave, -wave], axis=1)), 0, atol=1e-6)
    assert as_mono(np.array([np.nan, np.inf, 5.0, -5.0])).tolist() == [0.0, 0.0, 1.0, -1.0]
    with pytest.raises(ValueError, match="axes"):
        as_mono(np.zeros((2, 3, 4)))
    with pytest.raises(ValueError, match="float or signed"):
        as_mono(np.array(["a"]))
    with pytest.raises(ValueError, match="sample rate"):
        iterate_windows(wave, 10, 16000, -1)


@pytest.mark.parametrize("asked", [False, True])
def test_a_tied_note_whose_onset_was_lost_starts_when_asked(scripted: Any, asked: bool) -> None:
    notes = [Note(0.2, 0.8, 60, 100), Note(0.6, 0.7, 64, 0)]
    model = scripted(notes, 1.0, 2, lost=[0], start_from_ties=asked)
    found = [(n.onset, round(n.offset, 3), n.pitch) for n in model.transcribe(np.zeros(16000)).notes]
    assert found == [(0.5, 0.8, 60)] * asked + [(0.6, 0.7, 64)]


def test_tokens_of_windows_and_channels_come_together() -> None:
    """Rows end in any order; the stitcher gets whole windows in the order of the song."""
    read: list[list[list[int]]] = []

    class Stitched:
        is_complete = False

        def add(self, rows: list[list[int]]) -> list[Note]:
            read.append(rows)
            self.is_complete = len(read) == 2
            return [Note(len(read), len(read) + 1, 60)]

    windows = Windows(100, 50, 2, iter([np.zeros((2, 50), np.float32)]))
    queue = SongQueue([lambda number: QueuedSong(number, windows, Stitched())], 2, 2)  # type: ignore[arg-type]
    assert [len(batch) for batch in queue.batches()] == [2]
    assert queue.put(3, [5, 1]) is None
    assert queue.put(0, [3, 4, 1]) is None
    late = queue.put(2, [1])
    assert late is not None
    assert (late.new_notes, late.is_complete, read) == ([], False, [])
    done = queue.put(1, [6, 1])
    assert done is not None
    assert done.is_complete
    assert [note.onset for note in done.new_notes] == [1, 2]
    assert read == [[[3, 4, 1], [6, 1]], [[1], [5, 1]]]
    assert (queue.num_done, queue.num_windows) == (2, 2)


def test_a_batch_has_windows() -> None:
    with pytest.raises(ValueError, match="--batch-size must be at least 1"):
        DecodingChoices(batch_size=0)


@pytest.mark.parametrize("seed", range(4))
def test_wild_weights_on_silence_and_noise_are_bounded(tiny: SongTranscriber, seed: int) -> None:
    wild = untrained_transcriber(tiny.experiment, seed=seed, device="cpu")
    with torch.no_grad():
        for parameter in wild.model.parameters():
            parameter.mul_(5.0)
    noise = np.random.default_rng(seed).standard_normal(32000).astype(np.float32)
    for sound in (np.zeros(32000, np.float32), noise):
        song = wild.transcribe(sound)
        assert len(song.notes) <= song.num_windows * tiny.experiment.event_length
        assert all(0 <= n.onset < n.offset and n.onset < 2.0 for n in song.notes)


def test_loaded_equals_saved(tiny: SongTranscriber, log_dir: Path) -> None:
    loaded = load_transcriber("tiny@last.ckpt", log_dir=log_dir, device="auto")
    assert loaded.experiment == tiny.experiment
    assert loaded.num_weights == len(tiny.model.state_dict())
    assert loaded.batch_size == 4
    sound = torch.randn(2, 1, 8000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded.model.generate(sound), tiny.model.generate(sound))
    path = log_dir / "ymt3/tiny/checkpoints/last.ckpt"
    assert load_transcriber(path, DecodingChoices(batch_size=9)).batch_size == 9


@pytest.mark.parametrize("prefix", ["module.", "model.module."])
def test_wrapped_names_load(
    tiny: SongTranscriber, checkpoint: dict[str, Any], tmp_path: Path, prefix: str
) -> None:
    head = "module.model." if prefix == "module." else prefix
    state = {head + name: value for name, value in tiny.model.state_dict().items()}
    torch.save(checkpoint | {"state_dict": state}, tmp_path / "a.ckpt")
    assert load_transcriber(tmp_path / "a.ckpt").num_weights == len(tiny.model.state_dict())


def test_weights_of_other_options_are_refused(
    checkpoint: dict[str, Any], other_size: Experiment, tmp_path: Path
) -> None:
    torch.save(checkpoint | {"experiment": other_size.to_json()}, tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match=r"a.ckpt: .*of another shape \(.*in the file.*other model options"):
        load_transcriber(tmp_path / "a.ckpt")


def test_half_a_checkpoint_is_refused(checkpoint: dict[str, Any], tmp_path: Path) -> None:
    whole = checkpoint
    state = dict(whole["state_dict"])
    del state[next(iter(state))]
    torch.save(whole | {"state_dict": state}, tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match="1 missing"):
        load_transcriber(tmp_path / "a.ckpt")
    torch.save({"state_dict": whole["state_dict"]}, tmp_path / "b.ckpt")
    with pytest.raises(ValueError, match="configuration"):
        load_transcriber(tmp_path / "b.ckpt")
    torch.save(whole | {"experiment": '{"tusk": "x"}'}, tmp_path / "c.ckpt")
    with pytest.raises(ValueError, match=r"c.ckpt: unknown key.*tusk"):
        load_transcriber(tmp_path / "c.ckpt")


def test_devices() -> None:
    assert choose_device("CPU").type == "cpu"
    assert choose_device("auto").type in ("cpu", "cuda")
    with pytest.raises(ValueError, match="unknown device 'gpu'"):
        choose_device("gpu")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="use --device cpu"):
            choose_device("cuda")


def test_untrained_leaves_the_global_generator_alone(tiny: SongTranscriber) -> None:
    torch.manual_seed(5)
    want = torch.rand(1)
    torch.manual_seed(5)
    first, second = (untrained_transcriber(tiny.experiment, seed=3, device="cpu") for _ in range(2))
    assert torch.equal(torch.rand(1), want)
    for a, b in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)


def test_memory_is_flat_in_the_length_of_the_file(tmp_path: Path) -> None:
    """Numpy's share, measured while windows are read and thrown away: 30 minutes need no more than one."""

    def peak(minutes: int) -> int:
        path = tmp_path / f"{minutes}.flac"
        soundfile.write(path, np.zeros(minutes * 60 * 8000, np.int16), 8000)
        tracemalloc.start()
        pieces = iterate_windows(path, 8000, 16000).pieces
        assert sum(len(piece) for piece in pieces) == minutes * 120
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(30) < peak(1) + 2_000_000
