"""The weighted sum of terms."""

import pytest
import torch

from amt.losses import Objective, Term


def test_sum_weights_and_names():
    objective = Objective(
        [
            Term("token_ce", lambda x: x * 2),
            Term("frame", lambda x: {"frame_a": x, "frame_b": x * 3}, weight=0.5, until=10),
            Term("off", lambda x: x * 100, weight=0.0),
        ]
    )
    total, terms = objective(torch.tensor(1.0), step=9)
    assert float(total) == 2 + 0.5 * 4
    assert {name: float(value) for name, value in terms.items()} == {
        "token_ce": 2.0,
        "frame_a": 1.0,
        "frame_b": 3.0,
    }


def test_a_term_ends_at_its_step():
    objective = Objective([Term("a", lambda x: x), Term("b", lambda x: x, until=10)])
    assert objective.active(9) == {"a", "b"}
    assert objective.active(10) == {"a"}
    total, terms = objective(torch.tensor(1.0), step=10)
    assert float(total) == 1.0
    assert list(terms) == ["a"]


def test_a_term_sets_in_and_grows():
    term = Term("b", lambda x: x, weight=0.8, start=10, ramp=4, until=20)
    weights = [round(term.weight_at(step), 6) for step in (0, 9, 10, 11, 12, 13, 14, 19, 20)]
    assert weights == [0, 0, 0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0]
    assert Term("b", lambda x: x, weight=0.8, start=3).weight_at(3) == 0.8
    objective = Objective([Term("a", lambda x: x), term])
    assert objective.active(9) == {"a"}
    total, terms = objective(torch.tensor(1.0), step=11)
    assert float(total) == pytest.approx(1.4)
    assert float(terms["b"]) == 1.0, "terms are logged without their weight"
