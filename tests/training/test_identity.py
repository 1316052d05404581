"""Which run a start is: every rule, every refusal, every form of ``exp@checkpoint``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from amt.model.checkpoint_names import split_exp_id
from amt.training.identity import (
    RunDecision,
    decide_run,
    describe,
    run_folder,
    validate_resume_max_steps,
)

DATA = Path(__file__).parent / "data"
BEST = "epoch=4-step=24000-validation_macro_onset_f=0.7864.ckpt"


def save(path: Path, step: int, lineage: list[list[Any]] | None = None, **changes: Any) -> Path:
    """A file with the parts of a checkpoint that identity reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    callbacks = {} if lineage is None else {"CustomModelCheckpoint": {"lineage": lineage, "ranking": []}}
    content = {"global_step": step, "epoch": 0, "loops": {}, "optimizer_states": [], "callbacks": callbacks}
    torch.save(content | {"state_dict": {"w": torch.ones(2)}} | changes, path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "ymt3" / "exp"


def ckpt(folder: Path, name: str) -> Path:
    return folder / "checkpoints" / name


def test_scratch_in_an_empty_place(folder: Path) -> None:
    decision = decide_run(folder, "exp", None)
    assert (decision.kind, decision.checkpoint, decision.step, decision.set_aside) == (
        "scratch",
        None,
        0,
        False,
    )
    assert describe(decision).startswith("run: SCRATCH")
    assert not folder.exists(), "a decision changes nothing"


def test_last_is_resumed_also_with_init_ckpt(folder: Path, tmp_path: Path) -> None:
    last = save(ckpt(folder, "last.ckpt"), 4321)
    assert decide_run(folder, "exp", None) == RunDecision("resume", last, "last.ckpt exists", 4321, False)
    decision = decide_run(folder, "exp", None, init_ckpt=str(tmp_path / "gone.ckpt"))
    assert decision.kind == "resume"
    line = describe(decision)
    assert line.startswith("run: RESUME at step 4321")
    assert "--init-ckpt is not read again" in line
    assert "\n" not in line


def test_init_ckpt_is_a_warm_start(folder: Path, tmp_path: Path) -> None:
    init = save(tmp_path / "other run" / "a@b=c.ckpt", 9)
    decision = decide_run(folder, "exp", None, init_ckpt=str(init))
    assert (decision.kind, decision.checkpoint, decision.step) == ("warm", init, 0)
    assert describe(decision).startswith("run: WARM START")
    for bad, words in [
        (str(tmp_path / "none.ckpt"), "does not exist"),
        (str(tmp_path), "folder"),
        (str(DATA / "c2_git_lfs_pointer.ckpt"), "Git LFS pointer"),
    ]:
        with pytest.raises(ValueError, match=words):
            decide_run(folder, "exp", None, init_ckpt=bad)


def test_init_ckpt_may_be_a_checkpoint_of_another_run(folder: Path, tmp_path: Path) -> None:
    logs = folder.parent.parent
    teacher = ckpt(folder.parent / "teacher", "last.ckpt")
    top = save(teacher.with_name(BEST), 9)
    with pytest.raises(ValueError, match="--init-ckpt teacher@best: teacher has no best checkpoint yet"):
        decide_run(folder, "exp", None, init_ckpt="teacher@best")
    callbacks = {"CustomModelCheckpoint": {"ranking": [[BEST, 0.7864, 9]]}}
    save(teacher, 10, callbacks=callbacks)
    save(ckpt(logs / "another" / "teacher", "last.ckpt"), 3)  # the run's own project comes first
    for name, path in (("best", top), ("last", teacher), ("last.ckpt", teacher)):
        decision = decide_run(folder, "exp", None, init_ckpt=f"teacher@{name}")
        assert (decision.kind, decision.checkpoint) == ("warm", path)
    stranger = save(ckpt(logs / "another" / "stranger", "last.ckpt"), 3)
    assert decide_run(folder, "exp", None, init_ckpt="stranger@last").checkpoint == stranger
    with pytest.raises(ValueError, match="--init-ckpt nobody@best: no run 'nobody'"):
        decide_run(folder, "exp", None, init_ckpt="nobody@best")
    with pytest.raises(ValueError, match="does not exist"):
        decide_run(folder, "exp", None, init_ckpt=str(tmp_path / "me@home" / "gone.ckpt"))
    at = save(tmp_path / "a@b.ckpt", 3)
    assert decide_run(folder, "exp", None, init_ckpt=str(at)).checkpoint == at


def test_best_can_be_resumed_where_nothing_goes_on_from_it(folder: Path) -> None:
    top = save(ckpt(folder, BEST), 9)
    callbacks = {"CustomModelCheckpoint": {"ranking": [[BEST, 0.7864, 9]]}}
    save(ckpt(folder, "last.ckpt"), 9, callbacks=callbacks)
    assert decide_run(folder, "exp", "best").checkpoint == top
    save(ckpt(folder, "last.ckpt"), 12, callbacks=callbacks)
    with pytest.raises(ValueError, match=r"exp@best is at step 9, and last\.ckpt .* AMT_ALLOW_REWIND=1"):
        decide_run(folder, "exp", "best")


def test_force_scratch_acts_once(folder: Path, tmp_path: Path) -> None:
    save(ckpt(folder, "last.ckpt"), 10)
    forced = decide_run(folder, "exp", None, force_scratch=True)
    assert (forced.kind, forced.set_aside) == ("scratch", True)
    assert "moved aside" in describe(forced)
    restarted = decide_run(folder, "exp", None, force_scratch=True, restart_count=2)
    assert (restarted.kind, restarted.step, restarted.set_aside) == ("resume", 10, False)
    assert "restart 2" in restarted.reason
    init = save(tmp_path / "init.ckpt", 5)
    warm = decide_run(folder, "exp", None, force_scratch=True, init_ckpt=str(init))
    assert (warm.kind, warm.set_aside) == ("warm", True)
    assert decide_run(folder.parent / "new", "new", None, force_scratch=True).set_aside is False


def test_conflicting_flags_are_refused(folder: Path) -> None:
    save(ckpt(folder, "last.ckpt"), 10)
    with pytest.raises(ValueError, match="AMT_FORCE_SCRATCH"):
        decide_run(folder, "exp", "last", force_scratch=True)
    with pytest.raises(ValueError, match="--init-ckpt"):
        decide_run(folder, "exp", "last", init_ckpt="x.ckpt")


@pytest.mark.parametrize(
    "name",
    [
        BEST,
        BEST.removesuffix(".ckpt"),
        BEST.replace("validation_", "validation/"),
        BEST.replace("validation_", "validation/").removesuffix(".ckpt"),
        "{home}/" + BEST,
        "{home}/" + BEST.removesuffix(".ckpt"),
        "checkpoints/" + BEST,
        "ymt3/exp/checkpoints/" + BEST,
        "./ymt3/exp/checkpoints/" + BEST.removesuffix(".ckpt"),
    ],
)
def test_a_named_checkpoint_in_every_form(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    best = save(ckpt(folder, BEST), 24000)
    monkeypatch.chdir(folder.parents[1])
    name = name.replace("{home}", str(best.parent))
    exp_id, checkpoint = split_exp_id(f"exp@{name}")
    decision = decide_run(folder, exp_id, checkpoint)
    assert decision.checkpoint is not None
    assert decision.checkpoint.samefile(best)
    assert (decision.kind, decision.step) == ("resume", 24000)


@pytest.mark.parametrize("name", ["last", "last.ckpt", "checkpoints/last"])
@pytest.mark.parametrize("exp_id", ["exp", "a=b", "exp@v2", "my proj é"])
def test_last_in_every_form_of_every_run(exp_id: str, name: str, folder: Path) -> None:
    run = folder.parent / exp_id
    last = save(ckpt(run, "last.ckpt"), 7)
    found_id, checkpoint = split_exp_id(f"{exp_id}@{name}")
    assert found_id == exp_id
    decision = decide_run(run, found_id, checkpoint)
    assert (decision.kind, decision.checkpoint, decision.step) == ("resume", last, 7)


def test_an_at_sign_in_a_files_name_is_found_by_its_path(folder: Path) -> None:
    path = save(ckpt(folder, "best@home.ckpt"), 7)
    exp_id, checkpoint = split_exp_id("exp@best@home.ckpt")
    with pytest.raises(ValueError, match=rf"Did you mean exp@{path}\?"):
        decide_run(folder.parent / exp_id, exp_id, checkpoint)
    exp_id, checkpoint = split_exp_id(f"exp@{path}")
    assert decide_run(folder, exp_id, checkpoint).checkpoint == path


def test_the_sub_folder_that_lightning_writes_is_found(folder: Path) -> None:
    name = "epoch=4-step=5-validation/macro_onset_f=0.7864.ckpt"
    path = save(ckpt(folder, name), 5)
    assert decide_run(folder, "exp", name).checkpoint == path


def test_a_missing_checkpoint_lists_what_is_there(folder: Path) -> None:
    save(ckpt(folder, "last.ckpt"), 10)
    save(ckpt(folder, BEST), 9)
    for name in ("no_such.ckpt", "step=24000", "."):
        with pytest.raises(ValueError, match=rf"no checkpoint .*last\.ckpt, {BEST}"):
            decide_run(folder, "exp", name)
    with pytest.raises(ValueError, match=r"Did you mean exp@last\.ckpt\?"):
        decide_run(folder, "exp", "lats.ckpt")
    with pytest.raises(ValueError, match="there are no checkpoints"):
        decide_run(folder.parent / "other", "other", "last")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("c1_zero_bytes.ckpt", "empty"),
        ("c2_git_lfs_pointer.ckpt", "Git LFS pointer"),
        ("c3_truncated_zip.ckpt", "cut off"),
        ("<!doctype html>", "web page"),
    ],
)
def test_a_broken_last_is_never_scratch_and_the_newest_good_file_is_named(
    source: str, words: str, folder: Path
) -> None:
    content = (DATA / source).read_bytes() if source.endswith(".ckpt") else source.encode()
    ckpt(folder, "last.ckpt").parent.mkdir(parents=True)
    ckpt(folder, "last.ckpt").write_bytes(content)
    with pytest.raises(ValueError, match=f"{words}.*no other good checkpoint"):
        decide_run(folder, "exp", None)
    save(ckpt(folder, "epoch=0-step=9-f=0.9.ckpt"), 9)
    save(ckpt(folder, "epoch=1-step=11-f=0.8.ckpt"), 11)
    with pytest.raises(ValueError, match=rf"{words}.*exp@epoch=1-step=11-f=0\.8\.ckpt"):
        decide_run(folder, "exp", None)
    assert decide_run(folder, "exp", "epoch=1-step=11-f=0.8").step == 11, "the advice works"


def test_a_last_with_spoilt_bytes_is_damaged_and_weights_alone_are_no_way_out(folder: Path) -> None:
    last = save(ckpt(folder, "last.ckpt"), 9)
    content = bytearray(last.read_bytes())
    place = content.index(b"global_step")
    content[place : place + 11] = b"GLOBAL_step"
    last.write_bytes(bytes(content))
    torch.save({"state_dict": {"w": torch.ones(2)}}, ckpt(folder, "weights.ckpt"))
    with pytest.raises(ValueError, match=r"last\.ckpt is damaged.*no other good checkpoint"):
        decide_run(folder, "exp", None)
    save(ckpt(folder, "step=7.ckpt"), 7)
    with pytest.raises(ValueError, match=r"last\.ckpt is damaged.*exp@step=7\.ckpt"):
        decide_run(folder, "exp", None)


def test_a_dangling_last_and_checkpoints_without_last_are_refused(folder: Path) -> None:
    save(ckpt(folder, BEST), 24000)
    with pytest.raises(ValueError, match=rf"no last\.ckpt.*exp@{BEST}"):
        decide_run(folder, "exp", None)
    ckpt(folder, "last.ckpt").symlink_to("/nowhere/x.ckpt")
    with pytest.raises(ValueError, match="link to a file that is gone"):
        decide_run(folder, "exp", None)


def test_weights_only_files_are_not_resumed(folder: Path) -> None:
    path = ckpt(folder, "last.ckpt")
    path.parent.mkdir(parents=True)
    torch.save({"state_dict": {"w": torch.ones(2)}}, path)
    with pytest.raises(ValueError, match=r"no training state.*--init-ckpt"):
        decide_run(folder, "exp", None)


def test_going_back_behind_a_newer_last_is_refused(folder: Path) -> None:
    a, b = ["a", 0], ["b", 100]
    save(ckpt(folder, "old.ckpt"), 80, [a])
    last = save(ckpt(folder, "last.ckpt"), 150, [a, b])
    with pytest.raises(ValueError, match=r"AMT_ALLOW_REWIND=1"):
        decide_run(folder, "exp", "old")
    assert decide_run(folder, "exp", "old", allow_rewind=True).step == 80
    assert decide_run(folder, "exp", "last").checkpoint == last
    restarted = decide_run(folder, "exp", "old", allow_rewind=True, restart_count=1)
    assert restarted.checkpoint == last, "a restart goes on, it does not rewind again"
    # a file of a branch that was given up is no ancestor of last.ckpt
    save(ckpt(folder, "branch.ckpt"), 120, [a])
    assert decide_run(folder, "exp", "branch").step == 120
    # nor is a newer file, and files that do not say are compared by step
    save(ckpt(folder, "newer.ckpt"), 151, [a, b])
    assert decide_run(folder, "exp", "newer").step == 151
    save(ckpt(folder, "unknown.ckpt"), 3)
    with pytest.raises(ValueError, match="AMT_ALLOW_REWIND"):
        decide_run(folder, "exp", "unknown")


def test_the_file_of_another_run_does_not_replace_this_one(folder: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "other.ckpt", 50, [["z", 0]])
    assert decide_run(folder, "exp", str(other)).checkpoint == other, "an empty folder has nothing to lose"
    save(ckpt(folder, "last.ckpt"), 10, [["a", 0]])
    with pytest.raises(ValueError, match=r"another run than the last\.ckpt of exp.*NEW@.*AMT_ALLOW_REWIND=1"):
        decide_run(folder, "exp", str(other))
    assert decide_run(folder, "exp", str(other), allow_rewind=True).step == 50


def test_an_old_last_that_was_put_back_is_not_guessed_about(folder: Path) -> None:
    a, b = ["a", 0], ["b", 100]
    last = save(ckpt(folder, "last.ckpt"), 100, [a])
    newer = save(ckpt(folder, "epoch=1-step=150-validation_macro_onset_f=0.5000.ckpt"), 150, [a, b])
    with pytest.raises(ValueError, match=rf"at step 100.*to step 150.*exp@{newer.name} or exp@last\.ckpt"):
        decide_run(folder, "exp", None)
    assert decide_run(folder, "exp", "last").checkpoint == last
    assert decide_run(folder, "exp", newer.name).checkpoint == newer
    save(newer, 150, [a, ["c", 50]])
    assert decide_run(folder, "exp", None).checkpoint == last, "that branch was given up"
    save(newer, 150)
    assert decide_run(folder, "exp", None).checkpoint == last, "the file does not say where it comes from"


def test_a_moved_and_renamed_run_is_resumed_and_says_its_old_name(folder: Path) -> None:
    save(ckpt(folder, "last.ckpt"), 12, experiment='{"exp_id": "exp", "project": "ymt3"}')
    assert decide_run(folder, "exp", None).reason == "last.ckpt exists"
    moved = folder.parents[1] / "other project" / "new name"
    moved.parent.mkdir()
    folder.rename(moved)
    decision = decide_run(moved, "new name", None)
    assert (decision.kind, decision.step) == ("resume", 12)
    assert decision.reason == "last.ckpt exists; it was written as exp"


@pytest.mark.parametrize(
    ("name", "reason"), [("x" * 256, "255 bytes"), ("é" * 128, "255 bytes"), ("exp\udcff", "UTF-8")]
)
def test_a_name_that_no_folder_can_have_is_refused(name: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        run_folder(tmp_path, "p", name)
    with pytest.raises(ValueError, match=r"project \(-p\)"):
        run_folder(tmp_path, name, "e")
    assert run_folder(tmp_path, "p", "x" * 255).name == "x" * 255


def test_run_folder_stays_inside_the_log_folder(tmp_path: Path) -> None:
    assert run_folder(tmp_path, "my proj é", "exp@v2") == tmp_path / "my proj é" / "exp@v2"
    for project, exp_id in (("..", "exp"), ("p", "../exp"), ("", "exp")):
        with pytest.raises(ValueError, match="must"):
            run_folder(tmp_path, project, exp_id)


def test_nothing_to_do_has_its_exit_status(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_resume_max_steps(5000, 6000) is None
    assert validate_resume_max_steps(5000, -1) is None
    assert capsys.readouterr().out == ""
    assert validate_resume_max_steps(5000, 5000) == 0
    assert capsys.readouterr().out == (
        "run: finished, already at step 5000 of -it 5000: nothing is trained and no file changed; to go on "
        "give -it more than 5000\n"
    )
    assert validate_resume_max_steps(5000, 4000) == 2
    assert "more than 5000" in capsys.readouterr().err
    assert validate_resume_max_steps(5000, 5000, epochs=2) == 0
    said = capsys.readouterr().out
    assert "of -e 2 (5000 steps)" in said
    assert said.endswith("to go on give more epochs with -e, or -it more than 5000\n")


def test_identity_needs_no_torch() -> None:
    code = "import sys, amt.training.identity; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
