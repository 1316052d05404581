"""Where a run's numbers go: always to CSV, and to Weights & Biases when that is wanted and possible."""

from __future__ import annotations

import argparse
import configparser
import contextlib
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

import numpy as np
import numpy.typing as npt
from lightning_utilities.core.rank_zero import rank_zero_only
from pytorch_lightning.loggers import Logger, WandbLogger

from ..config import WandbConfig
from ..config.names import named_path
from ..model.checkpoint_write import write_text
from .file_loggers import CsvLogger
from .run_folder import RunFolder
from .tensorboard import TensorBoardLogger

PUBLIC_HOST = "api.wandb.ai"
PUBLIC_HOSTS = (PUBLIC_HOST, "api.forge.coreweave.com")
"""Names of the public server; versions of wandb differ in the one that `wandb login` keeps the key under."""
_INIT_SECONDS = 15
_FINISH_SECONDS = 60
"""Time for what W&B has not taken yet when a run ends; else a server that is gone would hold it for ever."""
_CONNECT_SECONDS = 5
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
        host = _host(_base_url(environ)) or PUBLIC_HOST
        _notice(f"no credentials for {host} (WANDB_API_KEY, `wandb login` or ~/.netrc)")
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
    file for the public host or the one in ``WANDB_BASE_URL`` or those settings. Empty variables are unset."""
    if _value(environ, "WANDB_API_KEY") or _value(environ, "WANDB_IDENTITY_TOKEN_FILE"):
        return True
    if any(settings.get("api_key", "").strip() for settings in _wandb_settings(environ)):
        return True
    hosts = {*PUBLIC_HOSTS, _host(_base_url(environ))}
    return any(_netrc_has(path, hosts) for path in _netrc_files(environ))


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

    def log_example(
        self,
        key: str,
        step: int,
        picture: Path,
        sounds: Mapping[str, npt.NDArray[np.float32]],
        sample_rate: int,
        caption: str,
    ) -> None:
        """Log a picture as ``key/roll`` and each of ``sounds`` as ``key/NAME``.

        Args:
            key: name of the example.
            step: of the run.
            picture: an image file; it is copied.
            sounds: (samples,) mono.
            sample_rate: of the sounds.
            caption: shown below each.
        """
        with self._steady():
            import wandb

            media: dict[str, Any] = {f"{key}/roll": wandb.Image(str(picture), caption=caption)}
            for name, sound in sounds.items():
                media[f"{key}/{name}"] = wandb.Audio(sound, sample_rate=sample_rate, caption=caption)
            super().log_metrics(media, step)

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
    if "finish_timeout" in wandb.Settings.model_fields and "WANDB_FINISH_TIMEOUT" not in os.environ:
        settings["finish_timeout"] = _FINISH_SECONDS
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
    base_url = _base_url(environ) or _public_url()
    try:
        parts = urlsplit(base_url)
        port = parts.port or (80 if parts.scheme == "http" else 443)
        if not parts.hostname:
            return f"WANDB_BASE_URL {base_url} is no address: write http:// or https:// and the host"
        with socket.create_connection((parts.hostname, port), timeout=_CONNECT_SECONDS):
            return ""
    except (OSError, ValueError) as error:
        return f"{base_url} does not answer: {error}"


def _value(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _host(url: str) -> str:
    return urlsplit(url if "//" in url else f"//{url}").netloc.rpartition("@")[2]


def _base_url(environ: Mapping[str, str]) -> str:
    """The server: that of the environment, else that of W&B's settings; "" is the public one."""
    named = [_value(environ, "WANDB_BASE_URL")]
    named += [settings.get("base_url", "").strip() for settings in reversed(_wandb_settings(environ))]
    return next(filter(None, named), "")


def _public_url() -> str:
    """The public server as the installed wandb has it."""
    try:
        import wandb

        return str(wandb.Settings.model_fields["base_url"].default)
    except Exception:  # no wandb, or another one: to start it says so in its own words
        return f"https://{PUBLIC_HOST}"


def _home(environ: Mapping[str, str]) -> Path:
    home = _value(environ, "HOME") or _value(environ, "USERPROFILE")
    return Path(home) if home else named_path("~")


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
        return [named_path(named)]
    return [_home(environ) / ".netrc", _home(environ) / "_netrc"]


def _netrc_has(path: Path, hosts: set[str]) -> bool:
    try:
        entries = netrc.netrc(path).hosts
    except (OSError, netrc.NetrcParseError, UnicodeDecodeError):
        return False
    return any(host in entries and bool(entries[host][2]) for host in hosts)
