"""Segments: sound and labels agree, whatever was done to them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from amt.config import AudioConfig, Augmentation
from amt.config.tasks import get_task
from amt.data.augment.cross import foreign_count_probabilities
from amt.data.collate import label_buckets, notes_tensor, trim_to_bucket
from amt.data.segments import SegmentMaker, TrainingSet
from amt.data.songs import SongEntry, TaskView
from amt.data.store import SongStore, StoreError, StoreWriter
from amt.notes.note import NOTE_DTYPE
from amt.tokenizer import NoteTokenizer

RATE = 16000
AUDIO = AudioConfig(segment_samples=24_000)
OFF = Augmentation(amp_range=(1.0, 1.0), stem_keep_prob=1.0, xaug_max_k=0, pitch_shift_range=(0.0, 0.0))


def tokenizer(task: str = "mc13_fsingle") -> NoteTokenizer:
    return NoteTokenizer.from_task(task, segment_samples=AUDIO.segment_samples, max_length=512)


def maker(
    *stores: SongStore,
    task: str = "mc13_fsingle",
    augmentation: Augmentation = OFF,
    seed: int = 1,
    sub: int = 4,
) -> SegmentMaker:
    sets = [TrainingSet(store.name, store, ("train",)) for store in stores]
    return SegmentMaker(sets, tokenizer(task), AUDIO, augmentation, seed=seed, sub_batch=sub)


def note_keys(notes: np.ndarray) -> set[tuple[float, int, int]]:
    """Onset, pitch and program (128: drums) of each note."""
    return {(float(n["onset"]), int(n["pitch"]), 128 if n["is_drum"] else int(n["program"])) for n in notes}


def energy_at(audio: np.ndarray, onset: float, offset: float, pitch: float) -> float:
    """Amplitude of a sine of that pitch between two times."""
    part = audio[round(onset * RATE) : round(offset * RATE)]
    wave = np.exp(-2j * np.pi * 440 * 2 ** ((pitch - 69) / 12) * np.arange(len(part)) / RATE)
    return float(2 * abs((part * wave).mean()))


def test_without_augmentation_a_segment_is_a_cut_of_the_song(tones: SongStore) -> None:
    make = maker(tones)
    mixes = {}
    for i in range(6):
        song = tones.song("train", i)
        mixes[song.song_id] = (song.mix(), song)
    for number in range(12):
        sample = make.make(number)
        found = [
            (song, start)
            for mix, song in mixes.values()
            for start in [_find(mix, sample.audio)]
            if start is not None
        ]
        assert found
        song, start = found[0]
        tok = tokenizer()
        notes = tok.target_notes(song.notes)
        notes["onset"] -= start / RATE
        notes["offset"] -= start / RATE
        expected = tok.encode(notes, start_samples=[0])[0]
        np.testing.assert_array_equal(sample.labels, expected[:, : sample.labels.shape[1]])
        assert (expected[:, sample.labels.shape[1] :] == tok.pad_id).all()


def _find(mix: np.ndarray, audio: np.ndarray) -> int | None:
    padded = np.concatenate((mix, np.zeros(max(0, len(audio) - len(mix)), np.float32)))
    probe = int(np.abs(audio).argmax())
    for start in np.flatnonzero(padded[probe : len(padded) - len(audio) + probe + 1] == audio[probe]):
        if np.array_equal(padded[start : start + len(audio)], audio):
            return int(start)
    return None


@pytest.mark.parametrize("k", [-5, -2, 3, 6])
def test_shifted_sound_holds_the_shifted_labels(tones: SongStore, k: int) -> None:
    augmentation = replace(OFF, pitch_shift_range=(float(k), float(k)))
    make = maker(tones, augmentation=augmentation)
    checked = 0
    drums = []
    for number in range(8):
        sample = make.make(number)
        for note in sample.notes:
            onset, offset, pitch = float(note["onset"]), float(note["offset"]), int(note["pitch"])
            if note["is_drum"]:
                if 0 <= onset < 1.49:
                    drums.append(float(sample.audio[round(onset * RATE) + 20]))
            elif onset > 0.01 and offset < 1.49 and offset - onset > 0.1:
                inside = energy_at(sample.audio, onset + 0.002, offset - 0.002, pitch)
                assert inside > 0.1
                checked += 1
    assert checked > 15
    assert len(drums) > 10
    assert np.mean(drums) > 0.3


def test_the_same_number_is_the_same_sample_in_any_order_and_process(
    tones: SongStore, data_home: object
) -> None:
    everything = Augmentation(
        pitch_shift_detune=0.1, noise_prob=0.5, reverb_prob=0.5, eq_prob=0.5, stem_keep_prob=0.4
    )
    first = maker(tones, augmentation=everything)
    second = pickle.loads(pickle.dumps(maker(tones, augmentation=everything)))
    forward = [first.make(number) for number in range(8)]
    backward = [second.make(number) for number in reversed(range(8))][::-1]
    for one, other in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(one.audio, other.audio)
        np.testing.assert_array_equal(one.labels, other.labels)
    other_seed = maker(tones, augmentation=everything, seed=2)
    assert not np.array_equal(other_seed.make(0).audio, forward[0].audio)


def test_a_new_augmentation_leaves_the_other_draws_alone(tones: SongStore) -> None:
    plain = maker(tones, augmentation=replace(OFF, stem_keep_prob=0.5))
    noisy = maker(
        tones, augmentation=replace(OFF, stem_keep_prob=0.5, noise_prob=1.0, noise_snr_range=(60, 60))
    )
    for number in range(6):
        one, other = plain.make(number), noisy.make(number)
        np.testing.assert_array_equal(one.labels, other.labels)
        assert np.abs(one.audio - other.audio).max() < 0.02


def test_dropped_stems_are_silent_and_unlabelled(tones: SongStore) -> None:
    make = maker(tones, augmentation=replace(OFF, stem_keep_prob=0.3))
    dropped = 0
    full = maker(tones)
    for number in range(40):
        sample, whole = make.make(number), full.make(number)
        kept = set(sample.notes["program"].tolist())
        for note in whole.notes:
            onset, offset = float(note["onset"]), float(note["offset"])
            if note["is_drum"] or onset < 0 or offset > 1.5 or offset - onset < 0.1:
                continue
            same = whole.notes[
                (whole.notes["pitch"] == note["pitch"]) & (whole.notes["program"] != note["program"])
            ]
            if len(same) or int(note["program"]) in kept:
                continue
            if 128 in sample.notes["program"]:
                continue
            assert energy_at(sample.audio, onset, offset, int(note["pitch"])) < 0.12
            dropped += 1
        assert len(sample.notes) or not np.isin(whole.notes["program"], sorted(kept)).any()
    assert dropped > 10


def test_a_voice_task_never_drops_the_voice(tones: SongStore) -> None:
    make = maker(tones, task="mc13_fsingle_vocal", augmentation=replace(OFF, stem_keep_prob=0.1))
    plain = maker(tones, task="mc13_fsingle_vocal")
    for number in range(30):
        sample = make.make(number)
        assert set(sample.notes["program"].tolist()) <= {100}
        np.testing.assert_array_equal(sample.labels, plain.make(number).labels)


def test_foreign_stems_bring_their_labels_and_no_class_twice(tones: SongStore, make_store: object) -> None:
    augmentation = replace(OFF, xaug_max_k=3, xaug_tau=0.05, stem_keep_prob=0.5)
    make = maker(tones, augmentation=augmentation)
    plain = maker(tones, augmentation=replace(OFF, stem_keep_prob=0.5))
    view = TaskView(get_task("mc13_fsingle"))
    richer = 0
    for number in range(40):
        sample, own = make.make(number), plain.make(number)
        added = note_keys(sample.notes) - note_keys(own.notes)
        if added:
            richer += 1
        for onset, pitch, program in added:
            note = sample.notes[(sample.notes["onset"] == onset) & (sample.notes["pitch"] == pitch)][0]
            if program < 128 and onset > 0.01 and note["offset"] < 1.49 and note["offset"] - onset > 0.1:
                assert energy_at(sample.audio, onset, float(note["offset"]), int(pitch)) > 0.06
            assert view.class_of(program) not in {view.class_of(p) for _, _, p in note_keys(own.notes)}
    assert richer > 10


def test_songs_with_unknown_instruments_are_not_mixed(make_store: object) -> None:
    store = make_store([100, -1], songs=3, seconds=4.0, unannotated=[129])  # type: ignore[operator]
    augmentation = replace(OFF, xaug_max_k=2, xaug_tau=0.01)
    with_cross, without = maker(store, augmentation=augmentation), maker(store)
    for number in range(6):
        np.testing.assert_array_equal(with_cross.make(number).audio, without.make(number).audio)


def test_flags_for_unknown_octaves_and_instruments(make_store: object) -> None:
    store = make_store([100, -1], seconds=4.0, unannotated=[129], octave_unknown=True)  # type: ignore[operator]
    sample = maker(store, task="mc13_256").make(0)
    assert sample.octave_unknown
    channels = get_task("mc13_256").channels
    known = {channels[i] for i in np.flatnonzero(sample.channel_annotated)}
    assert len(sample.channel_annotated) == 13
    assert known == {channels[get_task("mc13_256").program_channels()[100]]}
    assert maker(store).make(0).channel_annotated.tolist() == [True]
    dropping = maker(store, task="mc13_256", augmentation=replace(OFF, stem_keep_prob=0.5))
    seen = {tuple(dropping.make(number).channel_annotated.tolist()) for number in range(30)}
    assert len(seen) == 2
    assert (True,) * 13 in seen
    plain = make_store([0], name="plain")  # type: ignore[operator]
    sample = maker(plain, task="mc13_256").make(0)
    assert sample.channel_annotated.all()
    assert not sample.octave_unknown


def test_a_stem_of_drums_and_others_is_not_shifted(make_store: object) -> None:
    view = TaskView(get_task("mc13_fsingle"))
    store = make_store([0, 128])  # type: ignore[operator]
    song = store.song("train", 0)
    song.meta["stems"] = [{"name": "mix", "programs": [0, 128]}, {"name": "noise", "programs": []}]
    entry = SongEntry(song, tokenizer(), view)
    assert not entry.can_shift
    assert entry.stem_groups == [(0,), (1,)]


def test_stems_of_one_program_stand_or_fall_together(make_store: object) -> None:
    store = make_store([0, 40, 0, 128, -1, 40])  # type: ignore[operator]
    entry = SongEntry(store.song("train", 0), tokenizer(), TaskView(get_task("mc13_fsingle")))
    assert entry.stem_groups == [(0, 2), (1, 5), (3,), (4,)]
    assert [sorted(group) for group in entry.group_programs] == [[0], [40], [128], []]


def test_notes_near_finds_long_notes(make_store: object) -> None:
    store = make_store([0])  # type: ignore[operator]
    song = store.song("train", 0)
    rows = [(0.0, 9.0, 40, 0, 1, False)] + [(0.1 * i, 0.1 * i + 0.05, 60, 0, 1, False) for i in range(1, 60)]
    entry = SongEntry(song, tokenizer(), TaskView(get_task("mc13_fsingle")))
    entry.notes = np.array(rows, dtype=NOTE_DTYPE)
    entry.latest_offsets = np.maximum.accumulate(entry.notes["offset"])
    near = entry.notes_near(3.0, 3.5)
    expected = [row for row in rows if row[0] < 3.5 and row[1] >= 3.0]
    assert near.tolist() == expected


def test_every_augmentation_together_gives_legal_samples(tones: SongStore, data_home: object) -> None:
    others = SongStore.open(tones.path.parent / "others")
    augmentation = Augmentation(
        amp_range=(0.5, 3.0),
        noise_prob=0.7,
        reverb_prob=0.7,
        eq_prob=0.7,
        pitch_shift_detune=0.2,
        xaug_max_k=4,
    )
    for task in ("mc13_fsingle", "mc13_256", "mc13_fsingle_vocal"):
        tok = tokenizer(task)
        make = maker(tones, others, task=task, augmentation=augmentation)
        for number in range(30):
            sample = make.make(number)
            assert sample.audio.shape == (24_000,)
            assert sample.audio.dtype == np.float32
            assert np.isfinite(sample.audio).all()
            assert np.abs(sample.audio).max() <= 1.0 + 1e-6
            assert sample.labels.shape[0] == tok.num_channels
            assert sample.labels.shape[1] <= tok.max_length
            assert not tok.decode(sample.labels[None], start_from_ties=True).errors


def test_silent_songs_and_short_songs_work(make_store: object) -> None:
    store = make_store([-1], seconds=0.2)  # type: ignore[operator]
    everything = Augmentation(noise_prob=1.0, reverb_prob=1.0, eq_prob=1.0)
    sample = maker(store, augmentation=everything).make(3)
    assert np.isfinite(sample.audio).all()
    assert len(sample.notes) == 0


@pytest.mark.parametrize("method", ["speed", "stretch"])
def test_silence_stays_silence_whatever_is_done_to_it(tmp_path: Path, method: str) -> None:
    """Case D43: nothing is divided by its maximum, and a probability of 0 keeps no stem by chance."""
    with StoreWriter(tmp_path / "still", "still") as writer:
        for name, size in (("long", 40_000), ("short", 1), ("empty", 0)):
            stems = np.zeros((3, size), np.int16)
            notes = np.zeros(0, NOTE_DTYPE)
            writer.add_song("train", name, stems, [[0], [100], [128]], ["a", "b", "c"], notes)
    everything = Augmentation(
        stem_keep_prob=0.0,
        xaug_max_k=3,
        pitch_shift_method=method,
        noise_prob=1.0,
        reverb_prob=1.0,
        eq_prob=1.0,
        codec_prob=1.0,
    )
    make = maker(SongStore.open(tmp_path / "still"), augmentation=everything)
    for number in range(20):
        sample = make.make(number)
        np.testing.assert_array_equal(sample.audio, np.zeros(24_000, np.float32))
        assert len(sample.notes) == 0


def test_label_buckets() -> None:
    assert label_buckets(1024) == (32, 48, 64, 128, 256, 512, 1024)
    assert label_buckets(300) == (32, 48, 64, 128, 256, 300)
    assert label_buckets(50) == (32, 48, 50)
    labels = np.zeros((2, 3, 256), np.int64)
    assert trim_to_bucket(labels, 0).shape == (2, 3, 32)
    labels[1, 2, 63] = 1
    assert trim_to_bucket(labels, 0).shape == (2, 3, 64)
    labels[0, 0, 64] = 1
    assert trim_to_bucket(labels, 0).shape == (2, 3, 128)
    labels[0, 0, 255] = 1
    assert trim_to_bucket(labels, 0).shape == (2, 3, 256)


def test_the_notes_tensor_holds_what_sounds() -> None:
    rows = [
        (-1.0, -0.5, 60, 0, 1, False),
        (-1.0, 0.5, 61, 5, 1, False),
        (1.0, 9.0, 62, 0, 1, False),
        (1.5, 2.0, 63, 0, 1, False),
        (-0.001, 0.009, 36, 0, 1, True),
        (0.5, 0.51, 38, 0, 1, True),
    ]
    tensor = notes_tensor([np.zeros(0, NOTE_DTYPE), np.array(rows, dtype=NOTE_DTYPE)], 1.5)
    assert tensor[:, 0].tolist() == [1.0] * 3
    assert tensor[:, 3].tolist() == [61, 62, 38]
    assert tensor[:, 4].tolist() == [5, 0, 128]
    assert tensor[:, 5].tolist() == [0, 0, 1]
    assert notes_tensor([], 1.0).shape == (0, 6)


@pytest.fixture(scope="module")
def drones(tmp_path_factory: pytest.TempPathFactory) -> SongStore:
    """90 songs of one stem and one long note each, every one of another program."""
    path = tmp_path_factory.mktemp("drones") / "drones"
    with StoreWriter(path, "drones") as writer:
        for program in range(90):
            notes = np.array([(0.0, 4.0, 40 + program % 40, program, 1, False)], dtype=NOTE_DTYPE)
            stems = np.full((1, 64_000), 300, np.int16)
            writer.add_song("train", f"s{program}", stems, [[program]], ["a"], notes)
    return SongStore.open(path)


@pytest.mark.parametrize(("max_k", "tau", "alpha"), [(3, 0.3, 1.0), (2, 0.5, 1.0), (4, 0.4, 2.0)])
def test_the_number_of_foreign_sources_has_its_distribution(
    drones: SongStore, max_k: int, tau: float, alpha: float
) -> None:
    """Also with -iaug 1, which must not switch the mixing off."""
    augmentation = replace(OFF, xaug_max_k=max_k, xaug_tau=tau, xaug_alpha=alpha, xaug_no_instr_overlap=False)
    make = maker(drones, augmentation=augmentation, sub=60)
    found = np.zeros(max_k + 1)
    for number in range(600):
        found[len(set(make.make(number).notes["program"].tolist())) - 1] += 1
    expected = foreign_count_probabilities(max_k, tau, alpha)
    # Two of the sources can be the same song, one time in 90.
    assert found / 600 == pytest.approx(expected, abs=0.065)


def test_singing_joins_where_it_is_asked_for(make_store: object) -> None:
    band = make_store([0, 33], songs=3, name="band")  # type: ignore[operator]
    singers = make_store([100, 48], songs=3, name="singers")  # type: ignore[operator]
    sets = [TrainingSet("band", band, ("train",), 0.7), TrainingSet("singers", singers, ("train",), 0.3)]

    def singing(share: float) -> float:
        augmentation = replace(
            OFF, xaug_max_k=1, xaug_tau=3.0, stem_keep_prob=0.5, xaug_include_singing=share
        )
        make = SegmentMaker(sets, tokenizer(), AUDIO, augmentation, seed=3, sub_batch=16)
        samples = [make.make(number) for number in range(80)]
        return float(np.mean([(sample.notes["program"] == 100).any() for sample in samples]))

    assert singing(0.0) < 0.4
    assert singing(1.0) > 0.85


def test_stems_beyond_the_limit_share_gains(make_store: object) -> None:
    store = make_store([0, 33, 40])  # type: ignore[operator]
    plain = maker(store)
    varied = replace(OFF, amp_range=(0.3, 0.9))

    def ratio(most: int) -> float:
        make = maker(store, augmentation=replace(varied, xaug_max_subunit_stems=most))
        sound, dry = make.make(0).audio, plain.make(0).audio
        heard = np.abs(dry) > 0.02
        return float(np.std(sound[heard] / dry[heard]))

    assert ratio(1) < 1e-4
    assert ratio(12) > 0.01


def test_the_share_of_segments_without_notes(make_store: object) -> None:
    with_gaps = make_store([0], songs=3, seconds=8.0)  # type: ignore[operator]
    rows = np.array([(0.2, 2.2, 60, 0, 1, False)], dtype=NOTE_DTYPE)
    for i in range(3):
        np.save(with_gaps.path / "songs" / f"s{i}" / "notes.npy", rows)
        with_gaps.index("train")["num_notes"][i] = 1
    for share in (0.0, 0.4, 1.0):
        make = maker(with_gaps, augmentation=replace(OFF, negative_share=share))
        empty = np.mean([len(make.make(number).notes) == 0 for number in range(200)])
        assert empty == pytest.approx(share, abs=0.09 if share == 0.4 else 0.06)
    as_they_fall = np.mean([len(maker(with_gaps).make(number).notes) == 0 for number in range(60)])
    assert as_they_fall > 0.5


def test_segments_without_notes_stay_so_when_sources_join(make_store: object) -> None:
    store = make_store([0], songs=3, seconds=8.0)  # type: ignore[operator]
    rows = np.array([(0.2, 4.0, 60, 0, 1, False)], dtype=NOTE_DTYPE)
    for i in range(3):
        np.save(store.path / "songs" / f"s{i}" / "notes.npy", rows)
        store.index("train")["num_notes"][i] = 1
    mixed = replace(
        OFF, xaug_max_k=2, xaug_tau=0.1, xaug_no_instr_overlap=False, pitch_shift_range=(-6.0, 6.0)
    )
    for share in (0.0, 0.5, 1.0):
        make = maker(store, augmentation=replace(mixed, negative_share=share))
        samples = [make.make(number) for number in range(120)]
        empty = np.mean([not (sample.notes["onset"] < 1.5).any() for sample in samples])
        assert empty == pytest.approx(share, abs=0.1 if share == 0.5 else 0.0)
        assert share == 1.0 or any(len(sample.notes) > 1 for sample in samples)


def test_a_singer_that_is_asked_for_joins_once(make_store: object) -> None:
    band = make_store([0], name="band")  # type: ignore[operator]
    singer = make_store([100], name="singer")  # type: ignore[operator]
    sets = [TrainingSet("band", band, ("train",), 0.5), TrainingSet("singer", singer, ("train",), 0.5)]
    augmentation = replace(
        OFF, xaug_max_k=2, xaug_tau=0.05, xaug_no_instr_overlap=False, xaug_include_singing=1.0
    )
    make = SegmentMaker(sets, tokenizer(), AUDIO, augmentation, seed=3, sub_batch=2)
    sung = 0
    for number in range(40):
        notes = make.make(number).notes
        voice = notes[notes["program"] == 100]
        if (notes["program"] == 0).any():
            sung += len(voice) > 0
            assert len(np.unique(voice)) == len(voice)
    assert sung > 10


@pytest.mark.parametrize("method", ["speed", "stretch"])
def test_labels_hold_the_pitch_of_the_sound_under_every_augmentation(tones: SongStore, method: str) -> None:
    """Pitches are measured on the sound, with all that can be done to it."""
    augmentation = Augmentation(
        amp_range=(0.8, 1.2),
        stem_keep_prob=0.3,
        xaug_max_k=1,
        pitch_shift_range=(-6.0, 6.0),
        pitch_shift_method=method,
        noise_prob=0.5,
        noise_snr_range=(20.0, 40.0),
        reverb_prob=0.5,
        eq_prob=0.5,
        codec_prob=0.5,
    )
    make = maker(tones, augmentation=augmentation)
    right = checked = 0
    for number in range(60):
        sample = make.make(number)
        for note in sample.notes:
            onset, offset, pitch = float(note["onset"]), float(note["offset"]), int(note["pitch"])
            if note["is_drum"] or onset < 0.01 or offset > 1.49 or offset - onset < 0.15:
                continue
            inside = [
                energy_at(sample.audio, onset + 0.02, offset - 0.02, pitch + d) for d in (0.0, -1.0, 1.0)
            ]
            checked += 1
            right += inside[0] > 1.5 * max(inside[1:])
    assert checked > 40
    assert right / checked > 0.9


def test_flac_stems_give_the_same_samples(make_store: object, tmp_path: Path) -> None:
    store = make_store([0, 100, 128])  # type: ignore[operator]
    song = store.song("train", 0)
    with StoreWriter(tmp_path / "flac", "flac", flac=True) as writer:
        writer.add_song("train", "s0", np.array(song.stems), song.stem_programs, song.stem_names, song.notes)
    flac = SongStore.open(tmp_path / "flac")
    assert flac.content_hash("train") == store.content_hash("train") == flac.recorded_hash("train")
    flac.check()
    for augmentation in (OFF, Augmentation(pitch_shift_range=(-3.0, 3.0))):
        one, other = maker(store, augmentation=augmentation), maker(flac, augmentation=augmentation)
        for number in range(6):
            np.testing.assert_array_equal(one.make(number).audio, other.make(number).audio)
    np.testing.assert_array_equal(flac.song("train", 0).read_stems(-5, 7, [1]), song.read_stems(-5, 7, [1]))
    (tmp_path / "flac" / "songs" / "s0" / "stem01.flac").unlink()
    with pytest.raises(StoreError, match=r"stem01\.flac: the file is missing"):
        flac.song("train", 0).mix()
