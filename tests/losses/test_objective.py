"""The weighted sum of terms."""

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
