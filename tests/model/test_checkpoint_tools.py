"""Mean, mixture and weights alone; what a file is said to be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from amt.config import (
    AudioConfig,
    Experiment,
    PreEncoderConfig,
    T5DecoderConfig,
)
from amt.model.checkpoint_content import weights_only_content
from amt.model.checkpoint_file import load_weights, model_weights, read_checkpoint
from amt.model.checkpoint_header import CALLBACK_KEY, read_header, read_sidecar
from amt.model.checkpoint_info import describe_checkpoint
from amt.model.checkpoint_tools import average_checkpoints, mix_checkpoints, strip_checkpoint
from amt.model.checkpoint_write import write_checkpoint
from amt.model.importing.convert import blank_network
from small_networks import small_encoder, small_experiment, small_model

BROKEN = Path(__file__).parent / "data"
EXPERIMENT = small_experiment(
    T5DecoderConfig(),
    event_length=32,
    audio=AudioConfig(codec="melspec", segment_samples=4000, hop_length=300, n_mels=64),
    model=small_model(
        T5DecoderConfig(d_model=16, num_heads=2, d_kv=4, num_layers=1),
        small_encoder(8),
        PreEncoderConfig("conv", out_channels=4),
    ),
)

Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Writes a checkpoint of a tiny model with random weights; with ``training`` also the state of a run."""

    def write(
        name: str,
        seed: int,
        step: int = 100,
        experiment: Experiment = EXPERIMENT,
        *,
        training: bool = False,
        licence: str = "mine",
        **change: Tensor,
    ) -> Path:
        torch.manual_seed(seed)
        state = {f"model.{key}": value for key, value in blank_network(experiment).state_dict().items()}
        for key, value in state.items():
            if value.is_floating_point():
                state[key] = torch.rand_like(value)
            else:
                state[key] = torch.tensor(step)
        state |= {f"model.{key.replace('__', '.')}": value for key, value in change.items()}
        content = weights_only_content(experiment, state, licence, {}, step, 2)
        if training:
            score = {"monitor": "validation/macro_onset_f", "last_score": 0.75, "last_validated_step": 90}
            ranking = [["best.ckpt", 0.8, 50], ["second.ckpt", 0.75, 90]]
            moments = {key: torch.rand_like(value.float()) for key, value in state.items()}
            content |= {
                "loops": {"fit_loop": {}},
                "lr_schedulers": [],
                "optimizer_states": [{"state": moments, "param_groups": [{"lr": 1.0}]}],
                "callbacks": {CALLBACK_KEY: score | {"ranking": ranking}},
            }
        write_checkpoint(content, tmp_path / name)
        return tmp_path / name

    return write


def weights(path: Path) -> dict[str, Tensor]:
    return model_weights(read_checkpoint(path), path)


def test_average_is_the_mean(make: Make, tmp_path: Path) -> None:
    sources = [make(f"{seed}.ckpt", seed, step=seed * 10) for seed in (1, 2, 3)]
    told: list[str] = []
    counts: list[tuple[int, int]] = []
    count = average_checkpoints(
        sources,
        tmp_path / "out.ckpt",
        say=told.append,
        progress=lambda done, total: counts.append((done, total)),
    )
    parts = [weights(path) for path in sources]
    mean = weights(tmp_path / "out.ckpt")
    assert count == len(mean) == len(parts[0])
    for name, value in mean.items():
        if value.is_floating_point():
            expected = torch.stack([part[name].double() for part in parts]).mean(0).float()
            torch.testing.assert_close(value, expected, atol=1e-7, rtol=0)
        else:
            assert int(value) == 30, "counters are not averaged"
    assert counts[-1][0] == counts[-1][1] == sum(value.numel() for value in mean.values())
    assert told[0].startswith("reading 1 of 3: ")
    header = read_header(tmp_path / "out.ckpt")
    assert header is not None
    assert (header.step, header.complete) == (30, False)
    content = read_checkpoint(tmp_path / "out.ckpt")
    assert content["source"]["files"] == ["1.ckpt", "2.ckpt", "3.ckpt"]
    assert content["licence"] == "mine", "equal notes are noted once"
    assert read_sidecar(tmp_path / "out.ckpt") is not None
    load_weights(blank_network(Experiment.from_json(content["experiment"])), mean, "out.ckpt")


def test_mix_lies_between(make: Make, tmp_path: Path) -> None:
    a, b = make("a.ckpt", 1, licence="of a"), make("b.ckpt", 2, licence="of b")
    mix_checkpoints(a, b, 0.25, tmp_path / "out.ckpt")
    first, second, mixed = weights(a), weights(b), weights(tmp_path / "out.ckpt")
    for name, value in mixed.items():
        if value.is_floating_point():
            torch.testing.assert_close(value, 0.75 * first[name] + 0.25 * second[name], atol=1e-6, rtol=0)
    assert read_checkpoint(tmp_path / "out.ckpt")["licence"] == "of a | of b"
    for alpha, same in ((0.0, first), (1.0, second)):
        mix_checkpoints(a, b, alpha, tmp_path / "out.ckpt", overwrite=True)
        ends = weights(tmp_path / "out.ckpt")
        assert all(torch.equal(ends[name], same[name]) for name in same if same[name].is_floating_point())
    with pytest.raises(ValueError, match=r"from 0 to 1, not 1\.5"):
        mix_checkpoints(a, b, 1.5, tmp_path / "more.ckpt")


def test_an_end_of_the_mixture_does_not_see_the_other_file(make: Make, tmp_path: Path) -> None:
    a = make("a.ckpt", 1)
    b = make("b.ckpt", 2, decoder__final_norm__weight=torch.full((16,), float("inf")))
    mix_checkpoints(a, b, 0.0, tmp_path / "out.ckpt")
    assert bool(weights(tmp_path / "out.ckpt")["decoder.final_norm.weight"].isfinite().all())


def test_half_precision_stays(make: Make, tmp_path: Path) -> None:
    half = torch.full((16,), 0.1, dtype=torch.bfloat16)
    a = make("a.ckpt", 1, decoder__final_norm__weight=half)
    b = make("b.ckpt", 2, decoder__final_norm__weight=half)
    average_checkpoints([a, b], tmp_path / "out.ckpt")
    assert torch.equal(weights(tmp_path / "out.ckpt")["decoder.final_norm.weight"], half)


def test_files_of_different_models_are_refused(make: Make, tmp_path: Path) -> None:
    a = make("a.ckpt", 1)
    wider = replace(EXPERIMENT, model=replace(EXPERIMENT.model, logit_scale=0.5))
    other = make("other.ckpt", 2, experiment=wider)
    with pytest.raises(ValueError, match=r"different models.*model\.logit_scale 1\.0 and 0\.5"):
        average_checkpoints([a, other], tmp_path / "out.ckpt")
    other = make("shape.ckpt", 2, decoder__final_norm__weight=torch.ones(3))
    with pytest.raises(ValueError, match=r"decoder\.final_norm\.weight \(16,\) and \(3,\)"):
        mix_checkpoints(a, other, 0.5, tmp_path / "out.ckpt")
    other = make("more.ckpt", 2, another=torch.ones(3))
    with pytest.raises(ValueError, match="only one has another"):
        mix_checkpoints(a, other, 0.5, tmp_path / "out.ckpt")
    with pytest.raises(ValueError, match="at least two checkpoints, not 1"):
        average_checkpoints([a], tmp_path / "out.ckpt")
    with pytest.raises(ValueError, match="Git LFS pointer"):
        average_checkpoints([a, BROKEN / "c2_git_lfs_pointer.ckpt"], tmp_path / "out.ckpt")
    with pytest.raises(ValueError, match="is the source itself"):
        average_checkpoints([a, other], a, overwrite=True)
    assert not (tmp_path / "out.ckpt").exists()


def test_numbers_of_training_alone_do_not_make_another_model(make: Make, tmp_path: Path) -> None:
    encoder = replace(EXPERIMENT.model.encoder, dropout=0.3)
    other = replace(EXPERIMENT, seed=5, model=replace(EXPERIMENT.model, encoder=encoder))
    average_checkpoints([make("a.ckpt", 1), make("b.ckpt", 2, experiment=other)], tmp_path / "out.ckpt")
    assert (tmp_path / "out.ckpt").exists()


def test_strip_keeps_the_weights_and_what_they_are(make: Make, tmp_path: Path) -> None:
    source = make("a.ckpt", 1, training=True)
    before, after = strip_checkpoint(source, tmp_path / "out.ckpt")
    assert (before, after) == (source.stat().st_size, (tmp_path / "out.ckpt").stat().st_size)
    assert after < 0.8 * before
    content = read_checkpoint(tmp_path / "out.ckpt")
    assert not {"optimizer_states", "loops", "callbacks", "lr_schedulers"} & set(content)
    assert content["source"] == {"stripped_from": "a.ckpt", "score": {"validation/macro_onset_f": 0.75}}
    kept, old = weights(tmp_path / "out.ckpt"), weights(source)
    assert all(torch.equal(kept[name], old[name]) for name in old)
    assert set(kept) == set(old)


def told(path: Path) -> dict[str, str]:
    return dict(describe_checkpoint(path))


def test_info_of_a_training_checkpoint(make: Make, tmp_path: Path) -> None:
    lines = told(make("a.ckpt", 1, training=True))
    assert "can be resumed" in lines["kind"]
    assert lines["run"] == "ymt3/tiny"
    assert lines["step"] == "100, epoch 2"
    assert lines["score"] == "validation/macro_onset_f 0.7500 at step 90"
    assert lines["best of the run"] == "best.ckpt (0.8000 at step 50)"
    assert lines["task"].startswith("mc13_fsingle")
    assert "perceiver-tf encoder, t5 decoder; 2 latents of 8" in lines["model"]
    assert lines["licence"] == "mine"
    assert "segments of 4000 samples (0.250 s at 16000 Hz)" in lines["hears"]
    assert "a.ckpt (" in lines["file"]
    strip_checkpoint(tmp_path / "a.ckpt", tmp_path / "b.ckpt")
    lines = told(tmp_path / "b.ckpt")
    assert "not resumed" in lines["kind"]
    assert "stripped_from a.ckpt" in lines["made from"]
    assert "validation/macro_onset_f 0.75" in lines["made from"]


def test_info_of_broken_and_foreign_files(tmp_path: Path) -> None:
    for name, said in (
        ("c1_zero_bytes", "empty"),
        ("c2_git_lfs_pointer", "LFS"),
        ("c3_truncated_zip", "cut off"),
    ):
        with pytest.raises(ValueError, match=said):
            describe_checkpoint(BROKEN / f"{name}.ckpt")
    (tmp_path / "page.ckpt").write_text("<html></html>")
    with pytest.raises(ValueError, match="web page"):
        describe_checkpoint(tmp_path / "page.ckpt")
    torch.save({"state_dict": {"resnet.weight": torch.ones(1)}}, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match=r"no YourMT3 checkpoint: its weights are called resnet\.weight"):
        describe_checkpoint(tmp_path / "other.ckpt")


def test_info_of_a_published_file(samples: ModuleType, tmp_path: Path) -> None:
    experiment = samples.small("yptf_multi")
    kernels = {"pitchshift.pshifters.1.kernel": torch.zeros(2)}
    path = samples.lightning_file(tmp_path / "a.ckpt", samples.random_state(experiment) | kernels, experiment)
    lines = told(path)
    assert lines["kind"] == "published checkpoint, like yptf_multi: amt-convert makes it ours"
    assert lines["step"] == "1234"
    assert lines["task"].startswith("mc13_full_plus_256")
    assert lines["left out"] == "1 kernel of the pitch shifter"
