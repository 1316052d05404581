"""Finding the checkpoint a user means."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from amt.inference.find import find_checkpoint

TOP = "epoch=4-step=24000-validation_macro_onset_f=0.7864.ckpt"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for project, run, name in (
        ("ymt3", "exp", "last.ckpt"),
        ("ymt3", "exp", TOP),
        ("other", "twin", "last.ckpt"),
        ("ymt3", "twin", "last.ckpt"),
        ("ymt3", "exp@v2", "last.ckpt"),
        ("my proj é", "solo", "step=10.ckpt"),
    ):
        folder = tmp_path / project / run / "checkpoints"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x")
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("exp@last.ckpt", "ymt3/exp/checkpoints/last.ckpt"),
        ("exp@last", "ymt3/exp/checkpoints/last.ckpt"),
        ("exp", "ymt3/exp/checkpoints/last.ckpt"),
        (f"exp@{TOP}", f"ymt3/exp/checkpoints/{TOP}"),
        (f"exp@{TOP.replace('validation_', 'validation/')}", f"ymt3/exp/checkpoints/{TOP}"),
        ("exp@v2@last.ckpt", "ymt3/exp@v2/checkpoints/last.ckpt"),
        ("solo@step=10.ckpt", "my proj é/solo/checkpoints/step=10.ckpt"),
    ],
)
def test_found(runs: Path, spec: str, found: str) -> None:
    assert find_checkpoint(spec, log_dir=runs) == runs / found


def test_path_is_taken_as_it_is(runs: Path) -> None:
    path = runs / "ymt3" / "exp" / "checkpoints" / TOP
    assert find_checkpoint(path, log_dir=runs / "nowhere") == path
    assert find_checkpoint(str(path)) == path


def test_lightning_sub_folder_is_found(runs: Path) -> None:
    folder = runs / "ymt3" / "exp" / "checkpoints" / "epoch=1-validation"
    folder.mkdir()
    (folder / "f=0.5.ckpt").write_bytes(b"x")
    assert find_checkpoint("exp@epoch=1-validation/f=0.5.ckpt", log_dir=runs) == folder / "f=0.5.ckpt"


def test_ambiguous_needs_a_project(runs: Path) -> None:
    with pytest.raises(ValueError, match=r"ambiguous: projects other, ymt3 .* -p other"):
        find_checkpoint("twin@last.ckpt", log_dir=runs)
    assert find_checkpoint("twin@last.ckpt", log_dir=runs, project="ymt3").parts[-4] == "ymt3"


def test_what_is_there_is_listed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match=r"no checkpoint 'no_such\.ckpt'") as caught:
        find_checkpoint("exp@no_such.ckpt", log_dir=runs)
    assert TOP in str(caught.value)
    assert "last.ckpt" in str(caught.value)
    with pytest.raises(ValueError, match=r"no run 'sol' .* did you mean 'solo'"):
        find_checkpoint("sol@last.ckpt", log_dir=runs)
    with pytest.raises(ValueError, match=r"runs there: .*exp"):
        find_checkpoint("zzzzzz", log_dir=runs)
    with pytest.raises(ValueError, match="does not exist"):
        find_checkpoint("folder/gone.ckpt", log_dir=runs)
    (runs / "src").mkdir()
    (runs / "model.ckpt").write_bytes(b"x")
    monkeypatch.chdir(runs / "src")
    with pytest.raises(ValueError, match=r"does not exist \(there is \.\./model\.ckpt\)"):
        find_checkpoint("model.ckpt", log_dir=runs)
    with pytest.raises(ValueError, match="is a folder, not a checkpoint: name a run as"):
        find_checkpoint(f"{runs}/", log_dir=runs)
    for spec, words in (("@last.ckpt", "exp_id must be a name"), ("exp@", "no checkpoint after '@'")):
        with pytest.raises(ValueError, match=words):
            find_checkpoint(spec, log_dir=runs)
    with pytest.raises(ValueError, match="runs there: none"):
        find_checkpoint("exp", log_dir=runs / "nowhere")


def test_a_run_without_a_checkpoint_says_when_it_saves(runs: Path) -> None:
    (runs / "ymt3" / "young" / "checkpoints").mkdir(parents=True)
    with pytest.raises(
        ValueError, match=r"no checkpoint 'last\.ckpt' of young; .*: none: a run saves"
    ) as found:
        find_checkpoint("young@last.ckpt", log_dir=runs)
    for when in ("-vit", "AMT_SAVE_EVERY_N_TRAIN_STEPS", "Ctrl-C", "at its end"):
        assert when in str(found.value)


def test_best_of_a_run(runs: Path) -> None:
    folder = runs / "ymt3" / "exp" / "checkpoints"
    with pytest.raises(ValueError, match=r"exp has no best checkpoint yet: .*-vit.* exp@last .*last\.ckpt"):
        find_checkpoint("exp@best", log_dir=runs)
    rows = [["gone.ckpt", 0.9, 9], [TOP, 0.8, 8]]
    torch.save({"callbacks": {"CustomModelCheckpoint": {"ranking": rows}}}, folder / "last.ckpt")
    assert find_checkpoint("exp@best", log_dir=runs) == folder / TOP


def test_finding_needs_no_torch() -> None:
    code = "import sys; from amt.inference.find import find_checkpoint; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
