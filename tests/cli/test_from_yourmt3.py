"""docs/from_yourmt3.md: what it points to exists, and no name of the old notes is missing."""

from __future__ import annotations

import re
from pathlib import Path

from amt.cli.options import OPTIONS
from amt.cli.published import UNAVAILABLE
from amt.config.experiment import Experiment

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "from_yourmt3.md").read_text(encoding="utf-8")

# Names in the notes of those who come (section 19 of the requirements).
KNOWN_NAMES = """
src/train.py src/predict.py src/train_*.sh src/model/init_train.py src/model/optimizers.py
src/model/lr_scheduler.py src/model/ymt3.py src/config/config.py src/config/data_presets.py src/config/task.py
_raise_on_nonfinite_train_loss _validate_resume_max_steps _apply_excluded_presets _has_wandb_credentials
_link_checkpoint octave_cfg hooktheory_mask data_preset_single_cfg data_preset_multi_cfg CustomModelCheckpoint
GradScalerMinScaleGuard ValidationGateByTrainLoss validate_resume_max_steps apply_excluded_presets
has_wandb_credentials BSZ DATAIO AUGMENTATION CHECKPOINT TRAINER WANDB LR_SCHEDULE RL
DYNAMIC_DATASET_WEIGHTING
""".split()  # noqa: SIM905


def rows(heading: str) -> list[list[str]]:
    part = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_no_known_name_is_missing() -> None:
    for name in (*KNOWN_NAMES, '_raise_on_nonfinite_train_tensor("logits")'):
        assert f"`{name}`" in TEXT, name


def test_files_it_points_to_exist() -> None:
    cells = [row[1] for heading in ("Files", "Functions, classes and tables") for row in rows(heading)]
    files = {name for cell in cells for name in re.findall(r"`((?:src|train_scripts)/[\w./*]+)`", cell)}
    assert len(files) > 20
    for name in files:
        assert list(ROOT.glob(name.rstrip("/"))), name
    for document in re.findall(r"\]\((\w+\.md)\)", TEXT):
        assert (ROOT / "docs" / document).is_file(), document


def test_names_it_points_to_are_in_those_files() -> None:
    pointed = re.findall(r"`(\w+)(?:\.(\w+))?`(?:, `(\w+)`)? in `(src/[\w/]+\.py)`", TEXT)
    assert len(pointed) >= 5
    for *names, file in pointed:
        source = (ROOT / file).read_text(encoding="utf-8")
        for name in filter(None, names):
            assert name in source, (name, file)


def test_flags_it_names_exist() -> None:
    known = {name for option in OPTIONS for name in option.names}
    refused, *others = rows("Flags")
    for name in re.findall(r"-\w+", refused[0]):
        assert name in UNAVAILABLE
    named = {name for row in others for name in re.findall(r"(?<![\w-])--?[a-z][\w-]*", " ".join(row[:2]))}
    assert named - {"-project"} <= known


def test_sections_it_names_are_those_of_the_configuration() -> None:
    [row] = [row for row in rows("Functions, classes and tables") if "`DATAIO`" in row[0]]
    assert set(re.findall(r"`([A-Z_]+)`", row[0])) <= set(Experiment().to_dict())
