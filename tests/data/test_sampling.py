"""Draws are functions of seed, stream and sample number; weights are shares."""

from __future__ import annotations

import numpy as np
import pytest

from amt.data.sampling import SongDraw, batch_numbers, batches_of_worker, keyed_rng, start_of


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
