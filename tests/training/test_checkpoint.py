"""The checkpoint callback in real runs of Lightning's Trainer: what is saved when, and what stays."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from amt.config import CheckpointConfig
from amt.model.checkpoint_file import read_checkpoint
from amt.model.checkpoint_header import read_header, read_sidecar
from amt.training.callbacks.ranking import (
    Ranking,
    check_template_names,
    file_name,
    scores_in_names,
    validate_template,
)
from amt.training.checkpoint_io import copy_file
from amt.training.signals import SignalMemory
from script_loading import load_script

HERE = Path(__file__).parent
SCRIPT = HERE / "checkpoint_scenario.py"
scenario = load_script(SCRIPT)
fit, TinyModule, MONITOR = scenario.fit, scenario.TinyModule, scenario.MONITOR

CASES = {
    case["id"]: case
    for case in json.loads((HERE / "data" / "a1_checkpoint_scenarios.json").read_text())["cases"]
}


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def best_files(folder: Path) -> list[str]:
    return [name for name in names(folder) if "macro_onset_f=" in name]


def last(folder: Path) -> Path:
    return folder / "checkpoints" / "last.ckpt"


def value(text: Any) -> float | None:
    return None if text == "missing" else float(text)


@pytest.mark.parametrize("case_id", ["a1", "a2", "a3"])
def test_best_and_last_with_nan_and_missing_scores(case_id: str, tmp_path: Path) -> None:
    case = CASES[case_id]
    scores = {index + 1: value(item) for index, item in enumerate(case["values"])}
    config = CheckpointConfig(save_top_k=case["save_top_k"])
    callback = fit(tmp_path, TinyModule(scores), len(scores), config=config)
    best_step = case["steps"].index(case["expected"]["best_step"]) + 1
    last_step = case["steps"].index(case["expected"]["last_step"]) + 1
    assert callback.ranking[0][2] == best_step
    if "best" in case["expected"]:
        assert callback.best_model_score == pytest.approx(case["expected"]["best"])
    assert best_files(tmp_path) == [Path(callback.best_model_path).name]
    assert read_checkpoint(Path(callback.best_model_path))["global_step"] == best_step
    assert read_checkpoint(last(tmp_path))["global_step"] == last_step
    assert not any("0.0000" in name or "nan" in name for name in names(tmp_path))
    assert not any(path.is_symlink() for path in (tmp_path / "checkpoints").iterdir())


def test_ties_keep_two_whole_files(tmp_path: Path) -> None:
    callback = fit(tmp_path, TinyModule({1: 0.5, 2: 0.5, 3: 0.5}), 3, config=CheckpointConfig(save_top_k=2))
    assert [row[2] for row in callback.ranking] == [1, 2]
    assert len(best_files(tmp_path)) == CASES["a4"]["expected"]["files"]


@pytest.mark.parametrize("moved", [False, True])
def test_resume_remembers_the_best_also_in_a_moved_folder(moved: bool, tmp_path: Path) -> None:
    first, config = tmp_path / "run one", CheckpointConfig(save_top_k=1)
    fit(first, TinyModule({1: 0.6}), 1, config=config)
    second = tmp_path / "moved é"
    if moved:
        first.rename(second)
    else:
        second = first
    seen: list[float | None] = []

    class Watching(TinyModule):  # type: ignore[misc, valid-type]
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            super().on_train_batch_end(outputs, batch, batch_idx)
            seen.append(self.trainer.checkpoint_callback.best_model_score)

    callback = fit(second, Watching({2: 0.4, 3: 0.61}), 3, config=config, resume=last(second))
    assert seen == [pytest.approx(0.6), pytest.approx(0.6)]  # before the validations of steps 2 and 3
    assert callback.ranking[0][1:] == (pytest.approx(0.61), 3)
    assert len(best_files(second)) == 1, "the file that fell out is removed in the moved folder too"
    if moved:
        assert not first.exists()


def test_resume_needs_nothing_but_last_and_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError("no links on this drive")

    monkeypatch.setattr(os, "symlink", refuse)
    monkeypatch.setattr(os, "link", refuse)
    fit(tmp_path / "a", TinyModule({1: 0.3, 2: 0.4}), 2)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for path in (tmp_path / "b" / "checkpoints").glob("epoch=*"):
        path.unlink()
    callback = fit(tmp_path / "b", TinyModule({3: 0.1}), 3, resume=last(tmp_path / "b"))
    ranked = [row[2] for row in callback.ranking]
    assert ranked == [2, 3], "the best of step 2 is in last.ckpt and comes back, that of step 1 is gone"
    assert all((tmp_path / "b" / "checkpoints" / row[0]).is_file() for row in callback.ranking)
    assert not last(tmp_path / "b").is_symlink()


def test_an_old_link_is_replaced_not_followed(tmp_path: Path) -> None:
    fit(tmp_path, TinyModule({1: 0.3}), 1)
    target = tmp_path / "checkpoints" / best_files(tmp_path)[0]
    last(tmp_path).unlink()
    last(tmp_path).symlink_to(target.name)
    before = target.read_bytes()
    fit(tmp_path, TinyModule({2: 0.2}), 2, resume=last(tmp_path))
    assert not last(tmp_path).is_symlink()
    assert target.read_bytes() == before


def test_file_names_are_flat_and_say_the_truth() -> None:
    case = CASES["a6"]
    name = file_name(case["template"], case["epoch"], case["step"], {MONITOR: case["value"]})
    assert name == case["expected"]["basename"]
    assert "0.0000" not in file_name(CASES["a7"]["template"], 0, 1, {})
    assert file_name("best", 0, 3, {}) == "best-step=3.ckpt"
    assert file_name("{validation/loss:.2f}", 0, 3, {"validation/loss": -1.0}).startswith(
        "validation_loss=-1.00"
    )


@pytest.mark.parametrize("template", ["", "{epoch", "{step}", "preval-{step}", "{step}-{a:.4q}"])
def test_bad_templates_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match="AMT_CHECKPOINT_FILENAME"):
        validate_template(template)


def test_a_template_with_a_name_nobody_logs_is_refused_with_the_near_ones() -> None:
    check_template_names("{epoch}-{step}-{validation/macro_onset_f:.4f}", {"validation/macro_onset_f"})
    with pytest.raises(ValueError, match=r"AMT_CHECKPOINT_FILENAME.*validation/macro_onset_f"):
        check_template_names("{step}-{validation/macro_onset}", {"validation/macro_onset_f"})


def test_two_optimizers_count_one_step_per_batch(tmp_path: Path) -> None:
    callback = fit(tmp_path, scenario.TwoOptimizers(), 20, vit=10, batches=50)
    assert callback.ranking[0][2] == CASES["a11"]["expected"]["step_shown_and_in_name"]
    assert "-step=10-" in best_files(tmp_path)[0]


def test_validations_keep_their_steps_over_a_resume(tmp_path: Path) -> None:
    case = CASES["a12"]
    unit = 10
    options = {"vit": case["val_every"] // unit, "batches": case["batches_per_epoch"] // unit}
    first = TinyModule()
    first.signal_at = case["stop_at"] // unit
    fit(tmp_path, first, 40, **options)
    assert read_header(last(tmp_path)).step == case["stop_at"] // unit  # type: ignore[union-attr]
    second = TinyModule()
    fit(tmp_path, second, 40, resume=last(tmp_path), **options)
    expected = [step // unit for step in case["expected"]["validations_at"]]
    assert first.validated_at + second.validated_at == expected


def test_every_save_point_replaces_last_and_further_names_are_its_bytes(tmp_path: Path) -> None:
    config = CheckpointConfig(save_before_val=True, save_every_n_train_steps=2)
    written: list[tuple[int, int]] = []

    class Counting(scenario.AtomicCheckpointIO):  # type: ignore[misc, name-defined]
        def save_checkpoint(self, checkpoint: Any, path: Any, storage_options: Any = None) -> None:
            assert Path(path).name == "last.ckpt"
            state = checkpoint["callbacks"]["CustomModelCheckpoint"]
            written.append((checkpoint["global_step"], state["last_validated_step"]))
            super().save_checkpoint(checkpoint, path, storage_options)

    fit(tmp_path, TinyModule({4: 0.3}), 5, config=config, vit=4, io=Counting())
    assert written == [(2, -1), (4, -1), (4, 4), (5, 4)], "one serialisation per state"
    home = tmp_path / "checkpoints"
    assert (home / "step=4.ckpt").read_bytes() == (home / "preval-step=4.ckpt").read_bytes()
    assert names(tmp_path) == [
        "epoch=0-step=4-validation_macro_onset_f=0.3000.ckpt",
        "last.ckpt",
        "last.json",
        "preval-step=4.ckpt",
        "step=2.ckpt",
        "step=4.ckpt",
    ]
    assert read_checkpoint(last(tmp_path))["global_step"] == 5
    sidecar = read_sidecar(last(tmp_path))
    assert sidecar is not None
    assert (sidecar["step"], sidecar["last_validated_step"]) == (5, 4)
    shutil.copy(home / "step=2.ckpt", home / "last.ckpt")
    assert read_sidecar(last(tmp_path)) is None, "last.json is of another file now"


def test_accumulation_saves_at_steps(tmp_path: Path) -> None:
    config = CheckpointConfig(save_every_n_train_steps=2)
    fit(tmp_path, TinyModule(), 4, config=config, vit=100, accumulate_grad_batches=3)
    assert names(tmp_path) == ["last.ckpt", "last.json", "step=2.ckpt", "step=4.ckpt"]


@pytest.mark.parametrize("declared", [True, False])
def test_a_monitor_nobody_logs_is_an_error_with_the_near_keys(declared: bool, tmp_path: Path) -> None:
    module = TinyModule()
    if declared:
        module.validation_keys = {MONITOR, "val_loss"}
    config = CheckpointConfig(monitor="validation_macro_onset_f")
    with pytest.raises(ValueError, match=r"monitor .* did you mean 'validation/macro_onset_f'"):
        fit(tmp_path, module, 3, config=config)
    assert len(module.losses) == (0 if declared else 1)


def test_stale_scores_are_not_used_again(tmp_path: Path) -> None:
    callback = fit(tmp_path, TinyModule({1: 0.9, 2: None, 3: None}), 3)
    assert [row[2] for row in callback.ranking] == [1]
    assert read_sidecar(last(tmp_path))["score"] is None  # type: ignore[index]


def test_a_validation_that_was_left_out_is_a_save_point_without_a_score(tmp_path: Path) -> None:
    class Gated(TinyModule):  # type: ignore[misc, valid-type]
        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            super().on_train_batch_end(outputs, batch, batch_idx)
            if self.global_step == 3:
                self.trainer.checkpoint_callback.on_validation_end(self.trainer, self)

    callback = fit(tmp_path, Gated({2: 0.9}), 3, vit=2)
    assert [row[2] for row in callback.ranking] == [2]
    sidecar = read_sidecar(last(tmp_path))
    assert sidecar is not None
    assert (sidecar["last_validated_step"], sidecar["score"]) == (3, None)


def test_top_k_is_pruned_and_mode_min_works(tmp_path: Path) -> None:
    scores = {step: 1.0 / step for step in range(1, 7)}
    callback = fit(tmp_path, TinyModule(scores), 6, config=CheckpointConfig(save_top_k=2, mode="min"))
    assert [row[2] for row in callback.ranking] == [6, 5]
    assert len(best_files(tmp_path)) == 2
    none = fit(tmp_path / "none", TinyModule(scores), 2, config=CheckpointConfig(save_top_k=0))
    assert none.ranking == []
    assert best_files(tmp_path / "none") == []


def test_reset_topk_starts_anew_and_deletes_nothing(tmp_path: Path) -> None:
    config = CheckpointConfig(save_top_k=1)
    fit(tmp_path, TinyModule({1: 0.9}), 1, config=config)
    reset = replace(config, reset_topk_on_resume=True)
    callback = fit(tmp_path, TinyModule({2: 0.1}), 2, config=reset, resume=last(tmp_path))
    assert [row[2] for row in callback.ranking] == [2]
    assert len(best_files(tmp_path)) == 2


def test_without_state_the_ranking_comes_from_the_names(tmp_path: Path) -> None:
    fit(tmp_path, TinyModule({1: 0.25, 2: 0.75}), 2)
    foreign = read_checkpoint(last(tmp_path))
    del foreign["callbacks"]["CustomModelCheckpoint"]
    torch.save(foreign, last(tmp_path))
    callback = fit(tmp_path, TinyModule({3: 0.5}), 3, resume=last(tmp_path))
    assert [(row[1], row[2]) for row in callback.ranking] == [(0.75, 2), (0.5, 3), (0.25, 1)]
    assert scores_in_names(tmp_path / "none", MONITOR) == []


def test_a_kill_between_last_and_its_copies_is_mended(tmp_path: Path) -> None:
    config = CheckpointConfig(save_top_k=1)
    fit(tmp_path, TinyModule({1: 0.3, 2: 0.6}), 2, config=config)
    newer = tmp_path / "checkpoints" / best_files(tmp_path)[0]
    older = newer.with_name("epoch=0-step=1-validation_macro_onset_f=0.3000.ckpt")
    content = newer.read_bytes()
    newer.rename(older)  # last.ckpt was renamed into place, then the process died
    callback = fit(tmp_path, TinyModule({}), 3, config=config, vit=100, resume=last(tmp_path))
    assert [row[2] for row in callback.ranking] == [2]
    assert best_files(tmp_path) == [newer.name]
    assert newer.read_bytes() == content


def test_full_disk_keeps_the_good_file_and_the_run_goes_on(tmp_path: Path) -> None:
    fit(tmp_path, TinyModule({1: 0.4}), 1)
    good = last(tmp_path).read_bytes()
    (tmp_path / "checkpoints" / ".last.ckpt.123.tmp").write_bytes(b"half")
    module = TinyModule({2: 0.5, 3: 0.6})
    with pytest.warns(UserWarning, match="step 3 was NOT saved.*No space left"):
        callback = fit(tmp_path, module, 3, resume=last(tmp_path), fault="full-disk@save", quiet=False)
    assert len(module.losses) == 2
    assert last(tmp_path).read_bytes() == good
    assert [row[2] for row in callback.ranking] == [1]
    assert callback.last_error is not None
    assert not list((tmp_path / "checkpoints").glob(".*")), "temporaries are gone, also the stale one"
    again = fit(tmp_path, TinyModule({2: 0.5, 3: 0.6}), 3, resume=last(tmp_path))
    assert [row[2] for row in again.ranking] == [3, 2, 1]
    assert again.last_error is None


def test_a_copy_that_finds_no_room_leaves_last_and_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        if "step=2-" in target.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(target))
        copy_file(source, target)

    monkeypatch.setattr("amt.training.callbacks.checkpoint.copy_file", refuse)
    with pytest.warns(
        UserWarning, match=r"last\.ckpt holds step 2, but epoch=0-step=2-.* could not be written"
    ):
        callback = fit(tmp_path, TinyModule({1: 0.4, 2: 0.5, 3: 0.3}), 3, quiet=False)
    assert [row[2] for row in callback.ranking] == [1, 3]
    assert callback.last_error is None, "the newest state is saved"
    assert read_checkpoint(last(tmp_path))["global_step"] == 3


def test_nothing_is_saved_while_the_module_forbids_it(tmp_path: Path) -> None:
    module = TinyModule({1: 0.4})
    module.saving_allowed = False
    fit(tmp_path, module, 2, config=CheckpointConfig(save_every_n_train_steps=1, save_before_val=True))
    assert names(tmp_path) == []


def test_a_signal_saves_stops_and_validates_no_more(tmp_path: Path) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    module = TinyModule()
    module.signal_at = 3
    callback = fit(tmp_path, module, 50, vit=10)
    assert callback.received_signal == signal.SIGTERM
    assert len(module.losses) == 3
    assert module.validated_at == []
    assert read_checkpoint(last(tmp_path))["global_step"] == 3
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_second_ctrl_c_ends_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    memory = SignalMemory(lambda: "what is kept")
    memory.install()
    try:
        os.kill(os.getpid(), signal.SIGINT)
        assert memory.received == signal.SIGINT
        said = capsys.readouterr().err
        assert said.startswith("\nCtrl-C: "), "on a line of its own, whatever stood there"
        assert said.endswith("does not wait for that, and then what is kept\n")
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        memory.restore()


def test_what_is_kept_is_that_of_the_last_whole_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, said = TinyModule(), []
    step = TinyModule.training_step

    def training_step(self, *args):
        said.append(self.trainer.checkpoint_callback.what_is_kept())
        return step(self, *args)

    monkeypatch.setattr(TinyModule, "training_step", training_step)
    config = CheckpointConfig(save_every_n_train_steps=2)
    fit(tmp_path, module, 3, vit=10, config=config)
    nothing, saved = "nothing has been saved; the same command starts again", "the state of step 2 is saved; "
    assert said[:2] == [nothing, nothing]
    assert said[2].startswith(saved)
    fit(tmp_path, TinyModule(), 4, vit=10, config=config, resume=last(tmp_path))
    assert said[3].startswith("the state of step 3 is saved; "), "the file that was resumed"


def test_a_raised_limit_goes_on_from_the_exact_step(tmp_path: Path) -> None:
    whole = TinyModule()
    fit(tmp_path / "whole", whole, 9, batches=20)
    for first_steps in (3, 4):
        folder = tmp_path / f"parts{first_steps}"
        first, second = TinyModule(), TinyModule()
        fit(folder, first, first_steps, vit=4, batches=20)
        before = last(folder).read_bytes()
        finished = TinyModule()
        fit(folder, finished, first_steps, vit=4, batches=20, resume=last(folder))
        assert finished.losses == []
        assert last(folder).read_bytes() == before, "nothing to do changes no file"
        fit(folder, second, 9, vit=4, batches=20, resume=last(folder))
        assert len(first.losses) + len(second.losses) == 9
        assert first.validated_at + second.validated_at == [4, 8]
        header = read_header(last(folder))
        assert header is not None
        assert header.step == 9
        assert [step for _, step in header.lineage] == [0, first_steps]


def test_files_hold_tensors_and_plain_types_only(tmp_path: Path) -> None:
    fit(tmp_path, TinyModule({1: 0.4}), 1)
    code = (
        "import sys, torch; d = torch.load(sys.argv[1], weights_only=True); "
        "assert 'amt' not in sys.modules; print(d['global_step'], type(d['state_dict']).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(last(tmp_path))],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout.split() == ["1", "dict"]


def test_ranking_never_takes_what_is_not_finite() -> None:
    ranking = Ranking("max", 2)
    for bad in (math.nan, math.inf):
        with pytest.raises(AssertionError):
            ranking.add("x.ckpt", bad, 1)


def run_script(*arguments: str, timeout: float) -> Any:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def test_ten_kills_at_random_instants_lose_nothing(tmp_path: Path) -> None:
    steps = run_script("kills", str(tmp_path), "10", "1", timeout=600)
    assert len(steps) == 10
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_fifty_kills_at_random_instants_lose_nothing(tmp_path: Path) -> None:
    steps = run_script("kills", str(tmp_path), "50", "2", timeout=1800)
    assert len(steps) == 50
    assert steps == sorted(set(steps))


@pytest.mark.slow
def test_two_ranks_save_and_survive_a_full_disk_at_rank_0(tmp_path: Path) -> None:
    result = run_script("ddp", str(tmp_path), timeout=600)
    assert [row[2] for row in result["ranking"]] == [3, 1], "step 2 met the full disk"
    assert result["error"] is None
    assert read_checkpoint(last(tmp_path))["global_step"] == 3
