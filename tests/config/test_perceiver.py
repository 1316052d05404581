"""Numbers of Perceiver-TF that cannot work are refused with the flags and a way out."""

from __future__ import annotations

import pytest

from amt.config import Experiment, ModelConfig, ObjectiveConfig, PerceiverTFConfig, PreEncoderConfig

REFUSED = [
    ({"ff_type": "moe", "moe_topk": 5}, ["-kmoe 5", "-nmoe 4"]),
    ({"moe_num_experts": 0}, ["-nmoe 0"]),
    ({"position_encoding": "kdt", "num_temporal_layers": 0}, ["-epe kdt", "-npt"]),
    ({"position_encoding": "rope", "qk_channels": 24}, ["-epe rope", "3 of 3", "--num-heads"]),
    ({"position_encoding": "rope", "rope_width": 18}, ["18 of 16"]),
    ({"position_encoding": "rope", "rope_width": 2, "rope_partial": True}, ["1 of 16", "-rp 1"]),
    ({"rope_partial": True}, ["-rp", "-epe trainable", "-epe rope"]),
    ({"rope_apply_to_keys": True}, ["-rk", "-epe rope"]),
    ({"rope_types": "lll"}, ["-rt", "-epe rope"]),
    ({"rope_width": 4}, ["--rope-width", "-epe rope"]),
    ({"position_encoding": "rope", "rope_types": "pxl"}, ["-rt"]),
    ({"alibi_scale": 0.5}, ["--alibi-scale", "-epe alibi"]),
    ({"position_encoding": "alibi", "alibi_scale": -1.0}, ["--alibi-scale"]),
    ({"num_local_layers": -1}, ["-npl"]),
    ({"dropout": 1.0}, ["-edr"]),
    ({"d_latent": 64, "sca_query_residual": True}, ["-sqr 1", "-dl 64", "-dpm 128"]),
    ({"ff_type": "glu"}, ["feed-forward"]),
    ({"position_encoding": "learned"}, ["position"]),
]


@pytest.mark.parametrize(("values", "parts"), REFUSED, ids=lambda item: " ".join(map(str, item)))
def test_refused(values, parts):
    with pytest.raises(ValueError, match=r"\w") as error:
        PerceiverTFConfig(**values)
    for part in parts:
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("values", "turned"),
    [
        ({}, 16),
        ({"rope_partial": True}, 8),
        ({"rope_width": 8}, 8),
        ({"rope_width": 8, "rope_partial": True}, 4),
        ({"qk_channels": 256}, 32),
    ],
)
def test_how_much_of_a_head_is_turned(values, turned):
    assert PerceiverTFConfig(position_encoding="rope", **values).num_rotated == turned


def test_balance_needs_experts():
    objective = ObjectiveConfig(moe_balance_weight=0.01)
    with pytest.raises(ValueError, match="-ff moe"):
        Experiment(objective=objective)
    model = ModelConfig(
        "perceiver-tf",
        pre_encoder=PreEncoderConfig("conv"),
        encoder=PerceiverTFConfig(ff_type="moe"),
        pre_decoder_type="linear",
    )
    assert Experiment(objective=objective, model=model).objective.moe_balance_weight == 0.01
    with pytest.raises(ValueError, match="negative"):
        ObjectiveConfig(moe_balance_weight=-0.1)
