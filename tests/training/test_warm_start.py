"""What a warm start loads, matches, leaves out, refuses and reports; what freezing takes out of training."""

import dataclasses
import json

import pytest
import torch

from amt.model.checkpoint_file import read_checkpoint
from amt.tokenizer import NoteTokenizer
from amt.training.module import TranscriptionModule
from amt.training.patterns import check_patterns, fits, freeze
from amt.training.warm_start import load_warm_start, stored_layout

TABLES = ("decoder.embed.weight", "decoder.lm_head.weight")


def network(tiny, **changes):
    """An untrained network and its tokenizer."""
    experiment = tiny.experiment(**changes)
    tokenizer = NoteTokenizer.from_experiment(experiment)
    torch.manual_seed(int(changes.get("seed", 1)))
    return TranscriptionModule(experiment, tokenizer), tokenizer


def save(path, module, prefix="model.", **changes):
    """What a run leaves behind, as far as a warm start reads it."""
    content = {
        "experiment": module.experiment.to_json(),
        "task": json.dumps(dataclasses.asdict(module.tokenizer.task)),
        "state_dict": {prefix + name: value for name, value in module.model.state_dict().items()},
    }
    torch.save(content | changes, path)
    return path


def test_everything_is_loaded_and_counted_by_part(tiny, tmp_path):
    source, tokenizer = network(tiny)
    path = save(tmp_path / "a.ckpt", source, prefix="module.model.")
    target, _ = network(tiny, seed=2)
    report = load_warm_start(target.model, path, tokenizer.layout)
    for name, value in source.model.state_dict().items():
        assert torch.equal(target.model.state_dict()[name], value), name
    count = len(target.model.state_dict())
    assert report[0] == f"warm start from {path}: {count} of {count} tensors loaded"
    parts = {line.split()[0]: line.split()[1:4] for line in report[1:]}
    assert set(parts) == {"pre_encoder", "encoder", "pre_decoder", "frame_head", "decoder"}
    assert all(loaded == total for loaded, _, total in parts.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"audio__segment_samples": 12000},
        {"audio__segment_samples": 4000},
        {"task": "mc13_fsingle"},
        {"task": "singing_v1"},
    ],
)
def test_token_rows_are_matched_by_meaning(tiny, tmp_path, changes):
    source, old = network(tiny)
    path = save(tmp_path / "a.ckpt", source)
    target, new = network(tiny, seed=2, **changes)
    before = {name: target.model.state_dict()[name].clone() for name in TABLES}
    report = "\n".join(load_warm_start(target.model, path, new.layout))
    where = {old.layout.describe(token): token for token in range(old.vocab_size)}
    shared = 0
    for token in range(new.vocab_size):
        row = where.get(new.layout.describe(token))
        shared += row is not None
        for name in TABLES:
            wanted = before[name][token] if row is None else source.model.state_dict()[name][row]
            assert torch.equal(target.model.state_dict()[name][token], wanted), new.layout.describe(token)
    if old.layout == new.layout:
        assert "tokens:" not in report
        return
    assert shared >= 128 * 3, "pitches, programs and drums are always shared"
    assert f"{shared} of {new.vocab_size} rows of {', '.join(TABLES)} matched by meaning" in report
    if new.vocab_size > shared:
        assert f"{new.vocab_size - shared} new ones keep their own start: " in report
    if old.vocab_size > shared:
        assert f"{old.vocab_size - shared} of the file are not used: " in report


def test_the_task_inside_the_file_says_what_its_tokens_mean(tiny, tmp_path):
    source, tokenizer = network(tiny, task="singing_v1")
    path = save(tmp_path / "a.ckpt", source)
    assert stored_layout(read_checkpoint(path)) == tokenizer.layout
    assert stored_layout({"experiment": "{}", "task": "{}"}) is None
    assert stored_layout({}) is None


def test_patterns_choose_what_is_loaded(tiny, tmp_path):
    source, tokenizer = network(tiny)
    path = save(tmp_path / "a.ckpt", source)

    def loaded(**patterns):
        target, _ = network(tiny, seed=2)
        report = load_warm_start(target.model, path, tokenizer.layout, **patterns)
        old, new = source.model.state_dict(), target.model.state_dict()
        same = {name for name in old if torch.equal(old[name], new[name])}
        return same, "\n".join(report)

    same, report = loaded(include=("encoder", "model.pre_encoder"))
    assert "encoder.latents" in same
    assert "pre_encoder.conv1.weight" in same
    assert not same & set(TABLES)
    assert "left out by --init-include or --init-exclude" in report
    same, _ = loaded(exclude=("*lm_head*", "frame_head"))
    assert "decoder.embed.weight" in same
    assert not same & {"decoder.lm_head.weight", "frame_head.weight"}
    with pytest.raises(ValueError, match=r"--init-include.*'encodr'.*encoder"):
        loaded(include=("encodr",))
    with pytest.raises(ValueError, match="--init-exclude"):
        loaded(exclude=("nothing.of.this",))


def test_a_load_that_leaves_encoder_or_decoder_untouched_is_refused(tiny, tmp_path):
    source, tokenizer = network(tiny)
    path = save(tmp_path / "a.ckpt", source)
    other = {"model__decoder__d_model": 48, "model__decoder__d_kv": 8, "model__decoder__num_heads": 3}
    target, _ = network(tiny, **other)
    before = {name: value.clone() for name, value in target.model.state_dict().items()}
    with pytest.raises(ValueError, match=r"no weight of the decoder fits.*of another shape"):
        load_warm_start(target.model, path, tokenizer.layout)
    assert all(torch.equal(before[name], value) for name, value in target.model.state_dict().items())
    report = load_warm_start(target.model, path, tokenizer.layout, exclude=("decoder",))
    assert torch.equal(target.model.encoder.latents, source.model.encoder.latents)
    assert any("of another shape" in line for line in report)
    foreign = {"state_dict": {"model.other.weight": torch.zeros(3)}}
    torch.save(foreign, tmp_path / "foreign.ckpt")
    with pytest.raises(ValueError, match=r"the encoder and the decoder fits.*missing in the file"):
        load_warm_start(target.model, tmp_path / "foreign.ckpt", tokenizer.layout)


def test_patterns_fit_names_parts_and_wildcards():
    name = "decoder.layers.1.ff_norm.weight"
    for pattern in (name, "decoder", "decoder.layers.1", "model.decoder", "*norm*", "decoder.layers.[12].*"):
        assert fits(name, (pattern,)), pattern
    for pattern in ("decoder.layer", "norm", "decoder.layers.11", "ff_norm"):
        assert not fits(name, (pattern,)), pattern
    check_patterns("--freeze", ("*norm*",), [name])
    with pytest.raises(ValueError, match=r"--freeze.*decoder\.layers"):
        check_patterns("--freeze", ("decoder.layer",), [name])


def test_frozen_parts_are_not_trained_and_keep_their_statistics(tiny):
    module, _ = network(tiny, optimizer__freeze=["pre_encoder", "encoder"])
    frozen = {name for name, p in module.model.named_parameters() if not p.requires_grad}
    assert frozen == {
        name for name, _ in module.model.named_parameters() if name.startswith(("pre_encoder.", "encoder."))
    }
    assert f"frozen: {len(frozen)} of " in module.frozen
    optimizer = module.configure_optimizers()["optimizer"]
    trained = sum(p.numel() for group in optimizer.param_groups for p in group["params"])
    assert trained == sum(p.numel() for p in module.model.parameters() if p.requires_grad)
    before = module.model.pre_encoder.bn1.running_mean.clone()
    assert module.model.training
    module.model.encode(torch.randn(2, 1, 8000))
    assert torch.equal(module.model.pre_encoder.bn1.running_mean, before)
    with pytest.raises(ValueError, match=r"--freeze \* leaves no parameter"):
        freeze(module.model, ("*",))
    assert freeze(module.model, ()) == ""
