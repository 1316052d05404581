"""Loggers that write files of their own into the run's folder: what they share, and the CSV file."""

from __future__ import annotations

import argparse
import csv
import io
import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lightning_utilities.core.rank_zero import rank_zero_only
from pytorch_lightning.loggers import Logger

from ..model.checkpoint_write import replaced_file
from .run_folder import RunFolder

_FIRST_COLUMNS = ("step", "epoch")


class FileLogger(Logger):
    """Rank 0 writes the logged numbers to ``target``; a subclass says how in :meth:`write`.

    Args:
        target: the file or folder that is written.
        project: shown as the logger's name.
        exp_id: shown as its version.
    """

    def __init__(self, target: Path, project: str, exp_id: str) -> None:
        super().__init__()
        self.target = target
        self._project = project
        self._exp_id = exp_id
        self._broken = False

    @property
    def name(self) -> str:
        """The project."""
        return self._project

    @property
    def version(self) -> str:
        """The experiment's name."""
        return self._exp_id

    @property
    def save_dir(self) -> str:
        """The run's folder."""
        return str(self.target.parent)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write one row; values that are no numbers are left out. A full disk is said once, not raised."""
        row = {key: float(value) for key, value in metrics.items() if _is_number(value)}
        if step is not None:
            row["step"] = step
        try:
            self.write(row)
        except OSError as error:
            if not self._broken:
                self._broken = True
                reason = error.strerror or error
                print(f"logging: {self.target} cannot be written ({reason}); the run goes on")

    @abstractmethod
    def write(self, row: dict[str, float]) -> None:
        """Put a row on the disk at once; ``step`` is in it when the step is known.

        Raises:
            OSError: when the file system refuses.
        """

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | argparse.Namespace, *args: Any, **kwargs: Any) -> None:
        """Nothing: ``config.json`` in the run's folder holds the configuration."""


class CsvLogger(FileLogger):
    """Appends every logged row to ``metrics.csv`` in the run folder.

    Columns are ``step``, ``epoch``, then the other keys in the order they came; a new key widens the file.
    Rows are on the disk as soon as they are logged. A run that is not resumed starts a new file and keeps
    an old one as ``metrics-N.csv``.

    Args:
        folder: the run's folder.
        project: shown as the logger's name.
        exp_id: shown as its version.
        resumed: go on in the file that is there.
        resume_step: when resuming, rows of later steps are dropped (None keeps them).
    """

    def __init__(
        self, folder: Path, project: str, exp_id: str, resumed: bool, resume_step: int | None = None
    ) -> None:
        super().__init__(RunFolder(folder).metrics, project, exp_id)
        self._resumed = resumed
        self._resume_step = resume_step
        self._columns: list[str] | None = None

    def write(self, row: dict[str, float]) -> None:
        """See :meth:`FileLogger.write`."""
        columns = self._open()
        missing = [key for key in row if key not in columns]
        if missing:
            columns = self._columns = columns + missing
            self._rewrite(columns, _read_rows(self.target))
        with open(self.target, "a", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow([_cell(row.get(key)) for key in columns])

    def _open(self) -> list[str]:
        if self._columns is not None:
            return self._columns
        if self.target.exists() and not self._resumed:
            number = 1
            while (kept := self.target.with_name(f"metrics-{number}.csv")).exists():
                number += 1
            os.replace(self.target, kept)
        rows = _read_rows(self.target)
        if self._resume_step is not None:
            rows = [row for row in rows if not _is_later(row.get("step", ""), self._resume_step)]
        columns = list(_FIRST_COLUMNS)
        columns += [key for key in (rows[0] if rows else {}) if key not in columns]
        self._rewrite(columns, rows)
        self._columns = columns
        return columns

    def _rewrite(self, columns: list[str], rows: list[dict[str, str]]) -> None:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
        with replaced_file(self.target) as file:
            file.write(text.getvalue().encode("utf-8"))


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, RuntimeError):
        return False
    return True


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return str(int(value)) if value == value and abs(value) < 1e15 and value == int(value) else repr(value)


def _is_later(text: str, step: int) -> bool:
    try:
        return float(text) > step
    except ValueError:
        return False


def _read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none when there is no file. A last row that was cut off is left out."""
    if not path.is_file():
        return []
    with open(path, newline="", encoding="utf-8", errors="replace") as file:
        rows = list(csv.reader(file))
    if not rows:
        return []
    header = rows[0]
    return [dict(zip(header, row, strict=True)) for row in rows[1:] if len(row) == len(header)]
