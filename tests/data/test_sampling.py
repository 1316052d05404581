"""Draws are functions of seed, stream and sample number; weights are shares."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from amt.data.sampling import KeyedGenerators, SongDraw, batch_numbers, batches_of_worker, keyed_rng, start_of


def test_a_generator_is_its_key() -> None:
    first = keyed_rng(1, "gain", 5).random(4)
    np.testing.assert_array_equal(first, keyed_rng(1, "gain", 5).random(4))
    for other in (
        keyed_rng(2, "gain", 5),
        keyed_rng(1, "stems", 5),
        keyed_rng(1, "gain", 6),
        keyed_rng(-1, "gain", 5),
    ):
        assert not np.isin(other.random(4), first).any()


def test_generators_that_are_used_again_are_those_of_the_key() -> None:
    generators = KeyedGenerators(-5)
    for number in (3, 0, 3, 1 << 40):
        for stream in ("gain", "pool"):
            rng, fresh = generators.get(stream, number), keyed_rng(-5, stream, number)
            assert rng.integers(7) == fresh.integers(7)
            np.testing.assert_array_equal(rng.random(3, np.float32), fresh.random(3, np.float32))
            np.testing.assert_array_equal(rng.permutation(9), fresh.permutation(9))
    one, other = generators.get("gain", 1), generators.get("pool", 1)
    one.random()
    assert other.random() == keyed_rng(-5, "pool", 1).random()


def test_neighbouring_numbers_are_independent() -> None:
    draws = np.array([keyed_rng(3, "source", g).random(2) for g in range(4000)])
    assert abs(np.corrcoef(draws[:-1, 0], draws[1:, 0])[0, 1]) < 0.05
    counts = np.histogram(draws, bins=10, range=(0, 1))[0]
    assert (np.abs(counts - 800) < 120).all()


def test_weights_are_shares_whatever_the_size() -> None:
    draw = SongDraw([np.full(1000, 50_000), np.full(2, 50_000), np.full(10, 9)], [0.5, 0.3, 0.2])
    rng = np.random.default_rng(0)
    found = np.array([draw.draw(rng)[:2] for _ in range(20_000)])
    shares = np.bincount(found[:, 0]) / len(found)
    assert shares == pytest.approx([0.5, 0.3, 0.2], abs=0.012)
    assert set(found[found[:, 0] == 1, 1]) == {0, 1}


def test_shares_pass_a_chi_square_test() -> None:
    weights = np.array([0.295, 0.19, 0.191, 0.05, 0.01, 0.004, 0.1, 0.1, 0.01, 0.05])
    sizes = (1500, 633, 400, 404, 480, 35217, 35, 962, 1872, 100)
    draw = SongDraw([np.full(size, 48_000) for size in sizes], weights.tolist())
    generators = KeyedGenerators(7)
    number = 40_000
    found = [draw.draw(generators.get("source", i)).dataset for i in range(number)]
    observed = np.bincount(found, minlength=len(weights))
    expected = weights / weights.sum() * number
    assert scipy.stats.chisquare(observed, expected).pvalue > 0.001
    changed = np.array([0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    found = [draw.draw(generators.get("source", i), changed).dataset for i in range(2000)]
    assert np.bincount(found)[2:] / 2000 == pytest.approx([0.5, 0.5], abs=0.04)


def test_songs_are_drawn_by_their_length() -> None:
    lengths = np.array([10_000, 30_000, 0, 60_000])
    draw = SongDraw([lengths], [1.0])
    rng = np.random.default_rng(0)
    songs = np.array([draw.draw(rng).song for _ in range(20_000)])
    assert np.bincount(songs, minlength=4) / 20_000 == pytest.approx([0.1, 0.3, 0.0, 0.6], abs=0.012)


def test_weights_that_cannot_be_are_refused() -> None:
    songs = np.array([5])
    for weights in ([0.0], [-1.0], [float("nan")], [1.0, 2.0]):
        with pytest.raises(ValueError, match="weights"):
            SongDraw([songs], weights)
    with pytest.raises(ValueError, match="no songs"):
        SongDraw([np.zeros(0, np.int64)], [1.0])
    assert SongDraw([np.zeros(0, np.int64), songs], [0.0, 1.0]).draw(np.random.default_rng(0)).dataset == 1


def test_starts_reach_both_ends() -> None:
    assert start_of(0.0, 1000, 400) == 0
    assert start_of(np.nextafter(1.0, 0), 1000, 400) == 600
    assert start_of(0.99, 300, 400) == 0


def test_ranks_and_workers_share_out_the_numbers() -> None:
    local, world, first = 4, 3, 60
    parts = [batch_numbers(b, first, r, world, local) for b in range(5) for r in range(world)]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(60, 60 + 60))
    one_rank = np.concatenate([batch_numbers(b, first, 0, 1, local * world) for b in range(5)])
    np.testing.assert_array_equal(np.concatenate(parts), one_rank)
    workers = [batches_of_worker(w, 3) for w in range(3)]
    assert [next(workers[i % 3]) for i in range(9)] == list(range(9))
