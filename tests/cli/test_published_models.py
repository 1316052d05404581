"""``--model NAME``: published configurations as presets of train.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from amt.cli.assemble import Resolved, resolve
from amt.cli.options import OPTIONS
from amt.cli.parser import parse
from amt.config.environment import read_environment
from amt.config.leaves import leaves
from amt.config.published_models import PUBLISHED_MODELS, get_published_model

DOCUMENTED = (
    "--audio-codec",
    "--pre-encoder-type",
    "--encoder-type",
    "--encoder-position-encoding-type",
    "--ff-layer-type",
    "--layer-norm-type",
    "--pre-decoder-type",
    "--decoder-type",
    "--decoder-ff-layer-type",
    "--decoder-position-encoding-type",
)
"""Options whose choices docs/models.md explains."""


def built(line: str, **environ: str) -> Resolved:
    return resolve("exp", parse(line.split(), OPTIONS), read_environment(environ))


@pytest.mark.parametrize("name", PUBLISHED_MODELS)
def test_each_makes_an_experiment_with_its_values(name: str) -> None:
    resolved = built(f"--model {name}")
    values = dict(leaves(resolved.experiment))
    row = get_published_model(name)
    assert {leaf: values[leaf] for leaf in row} == dict(row)
    assert {resolved.origin(leaf) for leaf in row} == {f"--model {name}"}


# The command lines that the published models were trained with, as far as they say something of the model.
PUBLISHED_LINES = {
    "yptf_single": "-tk mt3_full_plus -enc perceiver-tf -nl 24 -ac spec -hop 300 -if 32767 -atc 1",
    "yptf_multi": (
        "-tk mc13_full_plus_256 -dec multi-t5 -nl 26 -enc perceiver-tf -ac spec -hop 300 -if 32767 -atc 1"
    ),
    "yptf_moe_multi": (
        "-tk mc13_full_plus_256 -dec multi-t5 -nl 26 -enc perceiver-tf -sqr 1 -ff moe -wf 4 -nmoe 8 -kmoe 2 "
        "-act silu -epe rope -rp 1 --rope-width 8 -ac spec -hop 300 -if 32767 -atc 1"
    ),
    "ymt3plus": "-tk mt3_full_plus -enc t5 -ac melspec -hop 128 -nmel 512 -if 32767",
    "conformer_t5": "-tk mt3_full_plus -enc conformer -ac melspec -hop 128 -nmel 512 -if 32767",
    "ptf_t5": (
        "-tk mt3_full_plus -dec t5 -enc perceiver-tf -nl 26 -dl 128 -dpm 128 -npb 3 -npl 2 -npt 2 -sqr 1 "
        "-ff mlp -wf 1 -act gelu -epe trainable -ac spec -hop 300 -if 65534 -el 2048 -atc 1"
    ),
}


@pytest.mark.parametrize("name", PUBLISHED_MODELS)
def test_each_equals_its_command_line(name: str) -> None:
    line = built(f"{PUBLISHED_LINES[name]} --logit-scale {1 / 512!r}").experiment
    assert built(f"--model {name}").experiment == line


def test_flags_and_variables_win_over_it() -> None:
    resolved = built("--model yptf_moe_multi -nmoe 4 -el 512 -lr 1e-5")
    assert resolved.experiment.model.encoder.moe_num_experts == 4
    assert resolved.experiment.event_length == 512
    assert resolved.origin("event_length") == "-el"
    assert resolved.experiment.model.encoder.hidden_act == "silu"


def test_a_recipes_network_makes_room() -> None:
    flags = "--frame-weight 0 --pitch-check 0"
    both = built(f"--recipe quickstart --model yptf_single {flags}").experiment
    assert both.model == built("--model yptf_single").experiment.model
    assert both.audio == built("--model yptf_single").experiment.audio
    assert both.optimizer == built("--recipe quickstart").experiment.optimizer


def test_the_documentation_names_each() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    for name in PUBLISHED_MODELS:
        assert sum(line.startswith(f"| `{name}` |") for line in rows) == 1, name
    choices = {name for option in OPTIONS if option.long in DOCUMENTED for name in option.choices}
    for name in choices - {"default", "conv4", "conv16", "conv32"}:
        assert f"`{name}`" in text, name


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(ValueError, match=r"--model expects one of .*did you mean 'yptf_moe_multi'"):
        built("--model yptf_moe_mult")
    with pytest.raises(ValueError, match="unknown published model"):
        get_published_model("yptf_moe_mult")
