"""Window counts, numbers of foreign sources and set weights of the published system.

Where the published behaviour is a fault the product differs:

* ``per_file_weight`` and ``dataset_probability``: the published sampler multiplies the weight of a set by its
  number of songs; here a set is drawn by its weight and then one of its songs, so sizes do not matter.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amt.audio.windows import num_windows
from amt.data.augment.cross import foreign_count_probabilities
from amt.data.sampling import SongDraw

MISC = json.loads((Path(__file__).parents[1] / "golden" / "data_misc.json").read_text())


@pytest.mark.parametrize(("samples", "expected"), MISC["slices"])
def test_number_of_windows(samples: int, expected: int) -> None:
    assert num_windows(samples, 32767) == expected


@pytest.mark.parametrize("case", MISC["stop_prob"])
def test_numbers_of_foreign_sources(case: dict[str, Any]) -> None:
    found = foreign_count_probabilities(case["max_k"], case["tau"], case["alpha"])
    assert found == pytest.approx(case["stop"], abs=1e-12)
    assert np.cumsum(found[::-1])[::-1] == pytest.approx(case["survival"], abs=1e-12)


@pytest.mark.parametrize("case", MISC["sampler"])
def test_sets_are_drawn_by_their_weights_alone(case: dict[str, Any]) -> None:
    weights, sizes = np.array(case["dataset_weights"]), case["sizes"]
    # The published rule, so that it is known what is not followed.
    per_file = weights * (1 - np.array(sizes) / sum(sizes)) if len(sizes) > 1 else np.array([1.0])
    assert per_file == pytest.approx(case["per_file_weight"])
    shares = per_file * sizes / (per_file * sizes).sum()
    assert shares == pytest.approx(case["dataset_probability"], rel=1e-6)
    draw = SongDraw([np.full(size, 48_000) for size in sizes], weights.tolist())
    rng = np.random.default_rng(3)
    number = 4000
    found = np.bincount([draw.draw(rng).dataset for _ in range(number)], minlength=len(sizes)) / number
    assert found == pytest.approx(weights / weights.sum(), abs=0.03)
