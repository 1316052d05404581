"""Loaders: the same samples for any number of workers and ranks, from any position; missing stores."""

from __future__ import annotations

import errno
import itertools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from amt.config import AudioConfig, Augmentation, BatchSizes, DataConfig, DataIO, Experiment
from amt.config.presets import MULTI_PRESETS, SINGLE_PRESETS, EvaluationSet, MultiPreset, SinglePreset
from amt.data import patience
from amt.data.batch import Batch
from amt.data.collate import label_buckets
from amt.data.module import TranscriptionData
from amt.data.shares import FACT, SPLITS, Shares, filling_way_out
from amt.data.store import StoreWriter
from amt.data.workers import cap_workers, raise_file_limit, shared_memory_problem
from amt.notes import Note
from amt.notes.note import notes_to_array
from amt.tokenizer import NoteTokenizer

SEGMENT = 8000


def experiment(
    workers: int = 0, *, presets: tuple[str, ...] = ("tones",), local: int = 4, **data: int
) -> Experiment:
    return Experiment(
        seed=5,
        audio=AudioConfig(segment_samples=SEGMENT),
        bsz=BatchSizes(sub=2, local=local),
        dataio=DataIO(num_workers=workers, prefetch_factor=2),
        data=DataConfig(presets=presets, **data),
        augmentation=Augmentation(stem_keep_prob=0.5, noise_prob=0.3),
    )


def data(home: Path, run: Experiment, **options: object) -> TranscriptionData:
    tokenizer = NoteTokenizer.from_task(run.task, segment_samples=SEGMENT, max_length=256)
    return TranscriptionData(run, tokenizer, home, **options)  # type: ignore[arg-type]


def take(module: TranscriptionData, count: int) -> list[Batch]:
    return list(itertools.islice(iter(module.train_dataloader()), count))


def same(one: Batch, other: Batch) -> None:
    for name in one.__dataclass_fields__:
        first, second = getattr(one, name), getattr(other, name)
        assert first is second is None or torch.equal(first, second), name


def rows(batches: list[Batch]) -> Iterator[tuple[int, torch.Tensor]]:
    for batch in batches:
        yield from zip(batch.sample_number.tolist(), batch.audio, strict=True)


def test_a_batch_has_the_promised_form(data_home: Path) -> None:
    (batch,) = take(data(data_home, experiment()), 1)
    assert batch.audio.shape == (4, 1, SEGMENT)
    assert batch.audio.dtype == torch.float32
    assert batch.labels.shape[:2] == (4, 1)
    assert batch.labels.shape[2] in label_buckets(256)
    assert batch.labels.dtype == torch.int64
    assert batch.notes.shape[1] == 6
    assert batch.notes.dtype == torch.float32
    assert batch.dataset_index.tolist() == [0] * 4
    assert batch.sample_number.tolist() == [0, 1, 2, 3]
    assert batch.octave_unknown.dtype == batch.channel_annotated.dtype == torch.bool
    assert batch.channel_annotated.shape == (4, 1)


@pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("spawn", 1)])
def test_workers_do_not_change_the_samples(data_home: Path, method: str, workers: int) -> None:
    alone = take(data(data_home, experiment(0)), 5)
    with_workers = take(data(data_home, experiment(workers), context=method), 5)
    for one, other in zip(alone, with_workers, strict=True):
        same(one, other)


def test_ranks_share_out_the_same_samples(data_home: Path) -> None:
    one = dict(rows(take(data(data_home, experiment(local=4)), 3)))
    two: dict[int, torch.Tensor] = {}
    for rank in range(2):
        two |= dict(rows(take(data(data_home, experiment(local=2), rank=rank, world_size=2), 3)))
    assert sorted(one) == sorted(two) == list(range(12))
    for number, audio in one.items():
        assert torch.equal(audio, two[number])


def test_a_run_resumes_in_the_middle(data_home: Path) -> None:
    whole = take(data(data_home, experiment()), 6)
    rest = take(data(data_home, experiment(2), first_sample=12), 3)
    for one, other in zip(whole[3:], rest, strict=True):
        same(one, other)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_file_server_that_is_away_for_a_while_ends_no_run(
    data_home: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = take(data(data_home, experiment()), 3)
    preadv, calls = os.preadv, itertools.count(1)

    def stumble(handle: int, buffers: list[memoryview], position: int) -> int:
        if next(calls) % 5 == 0:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return preadv(handle, buffers, position)

    monkeypatch.setattr(os, "preadv", stumble)
    monkeypatch.setattr(patience, "PAUSES", (0.0,) * 4)
    with pytest.warns(UserWarning, match="tried again") if workers == 0 else nullcontext():
        found = take(data(data_home, experiment(workers), context="fork"), 3)
    for one, other in zip(whole, found, strict=True):
        same(one, other)


def test_notes_and_facts_of_a_song_are_waited_for_too(
    data_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = take(data(data_home, experiment()), 1)
    module = data(data_home, experiment())
    left = {"notes.npy": 1, "song.json": 1}

    def stumbling(read: Callable[..., object]) -> Callable[..., object]:
        def stumble(path: Path, *rest: object, **options: object) -> object:
            if left.get(path.name, 0):
                left[path.name] -= 1
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
            return read(path, *rest, **options)

        return stumble

    monkeypatch.setattr(np, "load", stumbling(np.load))
    monkeypatch.setattr(Path, "read_bytes", stumbling(Path.read_bytes))
    monkeypatch.setattr(patience, "PAUSES", (0.0,) * 4)
    with pytest.warns(UserWarning, match="tried again"):
        same(take(module, 1)[0], whole[0])
    assert set(left.values()) == {0}


def test_a_file_server_that_stays_away_is_named(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = data(data_home, experiment())
    songs = module.val_dataloader().dataset
    tried = itertools.count()

    def fail(handle: int, buffers: list[memoryview], position: int) -> int:
        next(tried)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "preadv", fail)
    monkeypatch.setattr(patience, "PAUSES", (0.0,) * 4)
    with (
        pytest.raises(ValueError, match=r"stems\.npy: cannot be read .*, nor 4 tries earlier"),
        pytest.warns(),
    ):
        take(module, 1)
    assert next(tried) == 5
    with pytest.raises(ValueError, match=r"stems\.npy: cannot be read"), pytest.warns():
        songs[0]


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EACCES])
def test_what_does_not_pass_is_not_waited_for(
    data_home: Path, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = data(data_home, experiment())

    def fail(handle: int, buffers: list[memoryview], position: int) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "preadv", fail)
    monkeypatch.setattr(patience, "PAUSES", (100.0,) * 4)
    with pytest.raises(ValueError, match=rf"stems\.npy: cannot be read \({os.strerror(number)}\)"):
        take(module, 1)


def test_the_training_loader_has_no_length(data_home: Path) -> None:
    with pytest.raises(TypeError):
        len(data(data_home, experiment()).train_dataloader())


def test_no_workers_with_persistent_workers_set(data_home: Path) -> None:
    run = experiment(0)
    assert run.dataio.persistent_workers
    module = data(data_home, run)
    assert take(module, 1)
    assert len(list(module.val_dataloader())) == 3


@pytest.mark.parametrize("world", [1, 2, 3, 5])
def test_every_rank_validates_the_same_number_of_items(data_home: Path, world: int) -> None:
    run = experiment(presets=("tones", "others"))
    items = []
    for rank in range(world):
        module = data(data_home, run, rank=rank, world_size=world)
        items.append(list(module.val_dataloader()))
    assert {len(part) for part in items} == {-(-4 // world)}
    songs = [(item.set_index, item.song_id) for part in items for item in part if item.valid]
    assert sorted(songs) == [(0, "val0"), (0, "val1"), (0, "val2"), (1, "val0")]
    for item in itertools.chain(*items):
        if not item.valid:
            assert item.audio.shape == (0, 1, SEGMENT)
            assert item.labels.shape[:2] == (0, 1)
            assert len(item.notes) == 0


def test_a_validation_item_is_the_whole_song(data_home: Path) -> None:
    module = data(data_home, experiment())
    assert module.set_names == ["tones"]
    assert module.test_set_names == ["tones"]
    assert module.dataset_names == ["tones"]
    item = next(iter(module.val_dataloader()))
    song = module.validation_sets[0].store.song("validation", 0)
    assert item.audio.shape == (6, 1, SEGMENT)
    np.testing.assert_array_equal(item.audio.numpy().reshape(-1), song.mix())
    assert item.audio.reshape(-1).shape == (48_000,)
    tokenizer = module.tokenizer
    expected = tokenizer.encode(tokenizer.target_notes(song.notes), num_windows=6)
    np.testing.assert_array_equal(item.labels.numpy(), expected[..., : item.labels.shape[-1]])
    assert len(item.notes) == song.num_notes
    (test,) = module.test_dataloader()
    assert test.audio.shape[0] == 7
    limited = data(data_home, experiment(validation_files=2))
    assert len(limited.val_dataloader()) == 2


def test_missing_stores_are_listed_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINGLE_PRESETS, "second", SinglePreset("second", "second_store"))
    monkeypatch.setitem(
        MULTI_PRESETS, "both", MultiPreset("both", ("quickstart", "second"), (1.0, 2.0), (None, None))
    )
    with pytest.raises(ValueError, match="not prepared") as error:
        data(tmp_path, experiment(presets=("both",)))
    for expected in (
        str(tmp_path / "quickstart"),
        "amt-prepare quickstart",
        str(tmp_path / "second_store"),
        "--name second_store",
    ):
        assert expected in str(error.value)
    with pytest.raises(ValueError, match="did you mean 'quickstart'"):
        data(tmp_path, experiment(presets=("quikstart",)))


def test_presets_pass_on_what_is_scored(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = (EvaluationSet("tones", "validation"),)
    single = SinglePreset("voice", "tones", validation=sets, eval_drum_vocab="gm", octave_free=("Bass",))
    monkeypatch.setitem(SINGLE_PRESETS, "voice", single)
    mix = MultiPreset("few", ("voice", "others"), (1.0, 1.0), (None, None), ("ksh", None), (1, 0))
    monkeypatch.setitem(MULTI_PRESETS, "few", mix)
    module = data(data_home, experiment(presets=("few",)))
    first, second = module.validation_sets
    assert (first.eval_drum_vocab, first.octave_free, first.max_songs) == ("ksh", ("Bass",), 1)
    assert (second.eval_drum_vocab, second.octave_free, second.max_songs) == (None, (), 0)
    songs = [item.song_id for item in module.val_dataloader()]
    assert songs == ["val0", "val0"]
    with pytest.raises(ValueError, match="amt-prepare import-yourmt3 FOLDER --only slakh"):
        data(data_home, experiment(presets=("all_cross_final",)))


def test_a_multi_preset_mixes_by_weight(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        MULTI_PRESETS, "mixed", MultiPreset("mixed", ("tones", "others"), (3.0, 1.0), ("gm_plus", None))
    )
    run = experiment(presets=("mixed",), local=20)
    module = data(data_home, run)
    assert module.dataset_names == ["tones", "others"]
    assert [item.eval_vocab for item in module.validation_sets] == ["gm_plus", None]
    index = torch.cat([batch.dataset_index for batch in take(module, 30)])
    assert float((index == 0).float().mean()) == pytest.approx(0.75, abs=0.06)
    excluded = data(data_home, run, excluded=("others",))
    assert excluded.dataset_names == excluded.set_names == ["tones"]


def test_a_missing_split_is_named(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SINGLE_PRESETS, "odd", SinglePreset("odd", "tones", train=("train", "extra")))
    with pytest.raises(ValueError, match="no split extra, which preset odd uses"):
        data(data_home, experiment(presets=("odd",)))


def test_another_sample_rate_is_refused(data_home: Path) -> None:
    run = Experiment(
        audio=AudioConfig(sample_rate=22050, segment_samples=SEGMENT), data=DataConfig(("tones",))
    )
    with pytest.raises(ValueError, match="has 16000 Hz, the run uses 22050 Hz"):
        data(data_home, run)


def test_worker_numbers() -> None:
    assert cap_workers(4, 1, explicit=False, cores=8) == (4, None)
    number, warning = cap_workers(32, 2, explicit=False, cores=16)
    assert number == 8
    assert warning is not None
    assert "2 processes x 32 workers" in warning
    number, warning = cap_workers(32, 1, explicit=True, cores=2)
    assert number == 32
    assert warning is not None
    assert cap_workers(0, 8, explicit=False, cores=2) == (0, None)
    assert cap_workers(3, 4, explicit=False, cores=2)[0] == 1


def test_too_little_shared_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_memory_problem(0, 4, 1 << 40) is None
    problem = shared_memory_problem(2, 4, 1 << 50)
    if problem is not None:
        assert "--num-workers" in problem
        assert "--shm-size" in problem


def program(home: Path, limits: str, dataio: str, rest: str) -> str:
    """A program with the training loader of ``home`` as ``module``."""
    return f"""
import itertools, resource
{limits}
from amt.config import *
from amt.data.module import TranscriptionData
from amt.tokenizer import NoteTokenizer
run = Experiment(audio=AudioConfig(segment_samples={SEGMENT}), bsz=BatchSizes(2, 2),
                 dataio=DataIO({dataio}), data=DataConfig(("tones",)))
tokenizer = NoteTokenizer.from_task(run.task, segment_samples={SEGMENT}, max_length=256)
module = TranscriptionData(run, tokenizer, {str(home)!r})
{rest}
"""


def run_program(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", text]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_few_open_files_are_enough(data_home: Path) -> None:
    """Case B11: workers send many batches under a low limit of open files."""
    limits = "resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"
    taken = "print(len(list(itertools.islice(iter(module.train_dataloader()), 60))))"
    done = run_program(program(data_home, limits, "num_workers=4, prefetch_factor=4", taken))
    assert done.stdout.strip() == "60", done.stderr[-2000:]


@pytest.mark.parametrize("loader", ["train_dataloader", "val_dataloader"])
def test_a_process_that_ends_in_the_middle_ends(data_home: Path, loader: str) -> None:
    """Its loader processes ignore the signal by which Python would end them."""
    rest = f"batches = iter(module.{loader}())\nnext(batches)\nprint('read')"
    done = run_program(program(data_home, "", "num_workers=2, prefetch_factor=2", rest))
    assert (done.returncode, done.stdout.strip()) == (0, "read"), done.stderr[-2000:]
    assert "Traceback" not in done.stderr


def test_the_file_limit_is_only_raised() -> None:
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    raise_file_limit(1)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


def test_contexts_exist() -> None:
    assert {"fork", "spawn"} <= set(multiprocessing.get_all_start_methods()) or sys.platform != "linux"


@pytest.mark.parametrize("program", [100, 0])
def test_a_store_without_validation_songs_is_refused(data_home: Path, tmp_path: Path, program: int) -> None:
    data(data_home, experiment()).require_songs()
    with StoreWriter(tmp_path / "mine", "mine") as writer:
        notes = notes_to_array([Note(0.5, 0.9, 60, program=program)])
        writer.add_song("train", "only", np.zeros((1, 32000), np.int16), [[program]], ["mix"], notes, {})
        for split in ("validation", "test"):
            writer.add_split(split)
    module = data(tmp_path, replace(experiment(presets=("mine",)), task="mc13_fsingle_vocal"))
    assert next(iter(module.train_dataloader())) is not None
    with pytest.raises(ValueError, match=r"-d mine: no song to validate with; 1 song cannot fill") as error:
        module.require_songs()
    # What else is wrong is told in the same breath.
    assert ("--program 100 --overwrite" in str(error.value)) == (program == 0)


@pytest.mark.parametrize(
    ("split", "empty"), [("validation", "to train on"), ("test", "to train on and none to")]
)
def test_a_single_song_is_refused_in_the_words_of_prepare(
    data_home: Path, tmp_path: Path, split: str, empty: str
) -> None:
    with StoreWriter(tmp_path / "one", "one", facts={FACT: asdict(Shares(seed=0))}) as writer:
        for other in SPLITS:
            writer.add_split(other)
        notes = notes_to_array([Note(0.5, 0.9, 60, program=100)])
        writer.add_song(split, "only", np.zeros((1, 32000), np.int16), [[100]], ["mix"], notes, {})
    module = data(tmp_path, replace(experiment(presets=("one",)), task="mc13_fsingle_vocal"))
    for refused in (module.require_songs, module.train_dataloader):
        with pytest.raises(ValueError, match=f"^-d one: no song {empty}") as error:
            refused()
        assert str(error.value).endswith(f"; {filling_way_out(['only'], Shares(), 'one')}")
        assert "seed" not in str(error.value)
    if split == "test":  # beside others it adds nothing, which is said
        (tmp_path / "tones").symlink_to(data_home / "tones")
        both = data(tmp_path, experiment(presets=("one", "tones")))
        assert both.training_sets
        assert any("one adds nothing to this run" in text for text in both.remarks)
