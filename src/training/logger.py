"""Where a run's numbers go: always to CSV, and to Weights & Biases when that is wanted and possible."""

from __future__ import annotations

import argparse
import configparser
import contextlib
import csv
import io
import netrc
import os
import re
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lightning_utilities.core.rank_zero import rank_zero_only
from pytorch_lightning.loggers import Logger, WandbLogger

from ..config import WandbConfig
from ..model.checkpoint_write import replaced_file, write_text
from .run_folder import RunFolder
from .tensorboard import TensorBoardLogger

PUBLIC_HOST = "api.wandb.ai"
_INIT_SECONDS = 15
_CONNECT_SECONDS = 5
_FIRST_COLUMNS = ("step", "epoch")
_RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def build_loggers(
    wandb_config: WandbConfig,
    project: str,
    exp_id: str,
    folder: Path,
    run_kind: str,
    environ: Mapping[str, str],
    *,
    resume_step: int | None = None,
) -> list[Logger]:
    """The loggers of a run: CSV, TensorBoard if wanted, W&B if it is not ``disabled`` and can be had.

    Nothing here asks a question or ends the run: without credentials, when the server refuses or does not
    answer, or when wandb cannot be imported, one line says so and CSV goes on alone.

    Args:
        wandb_config: mode and settings of W&B.
        project: W&B project, the run folder's parent.
        exp_id: name of the run in W&B.
        folder: the run's folder; W&B's own files go to the log folder two above.
        run_kind: ``scratch``, ``resume`` or ``warm``; a resumed run goes on in the same file and W&B run.
        environ: the environment variables; an empty one is unset.
        resume_step: step a resumed run goes on from; later rows, of work that was lost, are dropped.
    """
    resumed = run_kind == "resume"
    loggers: list[Logger] = [CsvLogger(folder, project, exp_id, resumed, resume_step)]
    if getattr(rank_zero_only, "rank", 0) not in (None, 0):  # rank 0 alone logs and touches files
        return loggers
    folder.mkdir(parents=True, exist_ok=True)
    if wandb_config.tensorboard:
        since = resume_step if resumed else None
        loggers.append(TensorBoardLogger(RunFolder(folder).tensorboard, project, exp_id, since))
    if wandb_config.mode == "disabled":
        return loggers
    if wandb_config.mode == "online" and not has_wandb_credentials(environ):
        _notice(f"no credentials for {_base_host(environ)} (WANDB_API_KEY, `wandb login` or ~/.netrc)")
        return loggers
    if wandb_config.mode == "online" and (silence := _unreachable(environ)):
        _notice(silence)
        return loggers
    try:
        loggers.append(_start_wandb(wandb_config, project, exp_id, folder, resumed))
    except Exception as error:  # whatever wandb raises, the run goes on
        _notice(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
    return loggers


def has_wandb_credentials(environ: Mapping[str, str]) -> bool:
    """Whether W&B can log in without asking: a key in the environment, in W&B's settings, or in the netrc
    file for the public host or the one in ``WANDB_BASE_URL``. Empty variables are unset."""
    if _value(environ, "WANDB_API_KEY") or _value(environ, "WANDB_IDENTITY_TOKEN_FILE"):
        return True
    hosts = {PUBLIC_HOST, _base_host(environ)}
    for settings in _wandb_settings(environ):
        if settings.get("api_key", "").strip():
            return True
        if base_url := settings.get("base_url", ""):
            hosts.add(_host(base_url))
    return any(_netrc_has(path, hosts) for path in _netrc_files(environ))


class CsvLogger(Logger):
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
        super().__init__()
        self.path = RunFolder(folder).metrics
        self._project = project
        self._exp_id = exp_id
        self._resumed = resumed
        self._resume_step = resume_step
        self._columns: list[str] | None = None
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
        return str(self.path.parent)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Append one row; values that are no numbers are left out. A full disk is said once, not raised."""
        row = {key: float(value) for key, value in metrics.items() if _is_number(value)}
        if step is not None:
            row["step"] = step
        try:
            columns = self._open()
            missing = [key for key in row if key not in columns]
            if missing:
                columns = self._columns = columns + missing
                self._rewrite(columns, _read_rows(self.path))
            with open(self.path, "a", newline="", encoding="utf-8") as file:
                csv.writer(file).writerow([_cell(row.get(key)) for key in columns])
        except OSError as error:
            if not self._broken:
                self._broken = True
                print(f"logging: {self.path} cannot be written ({error.strerror or error}); the run goes on")

    @rank_zero_only
    def log_hyperparams(self, params: dict[str, Any] | argparse.Namespace, *args: Any, **kwargs: Any) -> None:
        """Nothing: ``config.json`` in the same folder holds the configuration."""

    def _open(self) -> list[str]:
        if self._columns is not None:
            return self._columns
        if self.path.exists() and not self._resumed:
            number = 1
            while (kept := self.path.with_name(f"metrics-{number}.csv")).exists():
                number += 1
            os.replace(self.path, kept)
        rows = _read_rows(self.path)
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
        with replaced_file(self.path) as file:
            file.write(text.getvalue().encode("utf-8"))


class SteadyWandbLogger(WandbLogger):
    """W&B's logger that falls silent with one notice when its service fails, and never ends the run."""

    _failed = False

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """See Lightning's."""
        with self._steady():
            super().log_metrics(metrics, step)

    def log_hyperparams(self, params: dict[str, Any] | argparse.Namespace, *args: Any, **kwargs: Any) -> None:
        """See Lightning's."""
        with self._steady():
            super().log_hyperparams(params)

    def finalize(self, status: str) -> None:
        """See Lightning's."""
        with self._steady():
            super().finalize(status)

    @contextlib.contextmanager
    def _steady(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # whatever wandb raises, the run goes on
            if not self._failed:
                self._failed = True
                _notice(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")


def wandb_run_id(folder: Path, resumed: bool) -> str:
    """The id of the run's W&B run: the kept one when resuming, else (or when the file is unusable) a new one,
    which is kept in ``wandb_id.txt``."""
    path = RunFolder(folder).wandb_id
    if resumed and path.is_file():
        kept = path.read_text(encoding="utf-8", errors="replace").strip()
        if _RUN_ID.fullmatch(kept):
            return kept
    new = secrets.token_hex(4)
    write_text(path, new + "\n")
    return new


def _start_wandb(config: WandbConfig, project: str, exp_id: str, folder: Path, resumed: bool) -> WandbLogger:
    """Start the run now, so that a refusal or a silent server is met here and not in the first step."""
    for name in [key for key, value in os.environ.items() if key.startswith("WANDB_") and not value.strip()]:
        del os.environ[name]  # wandb takes an empty variable for a value and fails on it
    import wandb

    settings: dict[str, Any] = {"init_timeout": _INIT_SECONDS, "login_timeout": 1.0}
    if config.minimal:
        settings |= {
            "x_disable_stats": True,
            "x_disable_meta": True,
            "console": "off",
            "disable_git": True,
            "save_code": False,
        }
    logger = SteadyWandbLogger(
        name=exp_id,
        project=project,
        id=wandb_run_id(folder, resumed),
        save_dir=folder.parent.parent,
        mode=config.mode,
        settings=wandb.Settings(**settings),
    )
    logger._wandb_init.pop("anonymous", None)  # Lightning passes what wandb warns about
    with _closed_stdin():
        _ = logger.experiment
    return logger


@contextlib.contextmanager
def _closed_stdin() -> Iterator[None]:
    """Nothing to ask: wandb takes the input for no terminal and gives up instead of waiting for a key."""
    kept = sys.stdin
    with open(os.devnull, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = kept


def _notice(why: str) -> None:
    print(f"logging: W&B is not used ({why}); metrics.csv has everything", flush=True)


def _unreachable(environ: Mapping[str, str]) -> str:
    """Why the server does not answer, or "": wandb itself would try for half a minute."""
    if any(_value(environ, name) for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy")):
        return ""
    base_url = _value(environ, "WANDB_BASE_URL") or f"https://{PUBLIC_HOST}"
    try:
        parts = urlsplit(base_url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
        with socket.create_connection((parts.hostname or "", port), timeout=_CONNECT_SECONDS):
            return ""
    except (OSError, ValueError) as error:
        return f"{base_url} does not answer: {error}"


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _host(url: str) -> str:
    return urlsplit(url if "//" in url else f"//{url}").netloc.rpartition("@")[2]


def _base_host(environ: Mapping[str, str]) -> str:
    base_url = _value(environ, "WANDB_BASE_URL")
    return _host(base_url) if base_url else PUBLIC_HOST


def _home(environ: Mapping[str, str]) -> Path:
    home = _value(environ, "HOME") or _value(environ, "USERPROFILE")
    return Path(home) if home else Path("~").expanduser()


def _wandb_settings(environ: Mapping[str, str]) -> list[dict[str, str]]:
    """W&B's settings files: the user's and the working folder's."""
    config_dir = _value(environ, "WANDB_CONFIG_DIR")
    work_dir = Path(_value(environ, "WANDB_DIR") or ".")
    paths = [
        (Path(config_dir) if config_dir else _home(environ) / ".config" / "wandb") / "settings",
        work_dir / "wandb" / "settings",
    ]
    found: list[dict[str, str]] = []
    for path in paths:
        parser = configparser.ConfigParser(interpolation=None)
        with contextlib.suppress(OSError, configparser.Error, UnicodeDecodeError):
            parser.read(path, encoding="utf-8")
        if parser.has_section("default"):
            found.append(dict(parser.items("default")))
    return found


def _netrc_files(environ: Mapping[str, str]) -> list[Path]:
    if named := _value(environ, "NETRC"):
        return [Path(named).expanduser()]
    return [_home(environ) / ".netrc", _home(environ) / "_netrc"]


def _netrc_has(path: Path, hosts: set[str]) -> bool:
    try:
        entries = netrc.netrc(path).hosts
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return False
    return any(host in entries and bool(entries[host][2]) for host in hosts)


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
