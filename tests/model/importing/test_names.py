"""Names of published checkpoints and ours, in both directions."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from amt.config.published_models import PUBLISHED_MODELS
from amt.model.importing.computed import is_computed
from amt.model.importing.convert import blank_network
from amt.model.importing.names import NameTable


@pytest.mark.parametrize("layout", PUBLISHED_MODELS)
def test_every_published_name_has_a_place_and_comes_back(samples: ModuleType, layout: str) -> None:
    table = NameTable.of(samples.published(layout).model)
    learnt = [name for name, _, _ in samples.STATE_KEYS[layout] if not is_computed(name)]
    for name in learnt:
        found = table.our_name(name)
        assert found is not None, name
        ours, expert = found
        assert table.published_name(ours) == (
            name if expert is None else name.replace(f"experts.{expert}.", "experts.{e}.")
        )
    assert {table.our_name(name)[0] for name in learnt if table.our_name(name)} == set(
        blank_network(samples.small(layout, **depth(layout))).state_dict()
    )


def depth(layout: str) -> dict[str, int]:
    """Leaves that give the small model as many layers as the published one."""
    return {
        "model__decoder__num_layers": 8,
        "model__t5_encoder__num_layers": 8,
        "model__conformer__num_layers": 8,
        "model__encoder__num_blocks": 3,
        "model__encoder__num_local_layers": 2,
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"model__encoder__ff_type": "gmlp"},
        {"model__encoder__position_encoding": "kdt"},
        {"model__encoder__position_encoding": "td"},
        {"model__encoder__position_encoding": "tk"},
        {"model__encoder__position_encoding": "alibit"},
        {"model__encoder__position_encoding": "none"},
        {"model__encoder__norm_type": "rms_norm"},
        {"model__decoder__position_encoding": "trainable"},
        {"model__pre_encoder__type": "conv1d_t"},
        {"model__pre_encoder__type": "conv1d_f"},
        {"model__pre_encoder__type": "hftt", "audio__codec": "melspec", "audio__n_mels": 128},
        {"model__pre_decoder_type": "mlp_gelu"},
        {"model__pre_decoder_type": "conv4"},
        {"model__pre_decoder_type": "group_linear", "model__encoder__num_latents": 8},
    ],
)
def test_parts_beyond_the_published_files_have_names_too(
    samples: ModuleType, changes: dict[str, object]
) -> None:
    experiment = samples.small("yptf_single", **changes)
    ours = blank_network(experiment).state_dict()
    published, unknown = NameTable.of(experiment.model).to_published(ours)
    assert unknown == []
    back, lost = NameTable.of(experiment.model).to_ours(published)
    assert lost == []
    assert set(back) == set(ours)
    assert all(torch.equal(back[name], ours[name]) for name in ours)


def test_experts_are_stacked_in_their_order(samples: ModuleType) -> None:
    table = NameTable.of(samples.published("yptf_moe_multi").model)
    prefix = "encoder.blocks.0.local_transformer.1.mlp.experts"
    parts = {f"{prefix}.{number}.w1.weight": torch.full((2, 3), float(number)) for number in (10, 2, 0, 1)}
    with pytest.raises(ValueError, match=r"experts of encoder\.blocks\.0\.local_layers\.1.*not whole"):
        table.to_ours(parts)
    parts = {
        f"{prefix}.{number}.w1.weight": torch.full((2, 3), float(number)) for number in range(12, -1, -1)
    }
    [stacked] = table.to_ours(parts)[0].values()
    assert stacked[:, 0, 0].tolist() == [float(number) for number in range(13)]


def test_names_that_are_nowhere_are_given_back(samples: ModuleType) -> None:
    table = NameTable.of(samples.published("yptf_single").model)
    assert table.to_ours({"encoder.blocks.0.other": torch.ones(1)})[1] == ["encoder.blocks.0.other"]
    assert table.to_published({"frame_head.weight": torch.ones(1)})[1] == ["frame_head.weight"]


def test_a_network_no_published_code_has(samples: ModuleType) -> None:
    model = samples.small("yptf_single", model__pre_encoder__type="strided").model
    with pytest.raises(ValueError, match="no published checkpoint has a part of the kind 'strided'"):
        NameTable.of(model)
