"""The run's decision is made once, by rank 0, and given to the other ranks: later ones would look at a
folder that rank 0 has changed already. How it reaches them depends on who starts them.

- ``python train.py``: Lightning starts the further ranks of a node when the fit begins. They inherit the
  decision in an environment variable (:func:`handed_on`).
- torchrun, SLURM and other launchers that set ``WORLD_SIZE``: all ranks are there from the beginning. They
  open their process group before anything else and rank 0 broadcasts; Lightning then uses that group.
- ``python train.py -n N`` on each of N nodes (``NODE_RANK``): the first process of node 0 offers the decision
  on ``MASTER_PORT`` + 1, those of the other nodes fetch it, and the rest of each node inherits it.

Nothing heavy is imported unless there are other ranks to talk to.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from ..config import TrainerConfig
from .identity import RunDecision
from .launcher import by_srun, started_ranks
from .plan import TIMEOUT

VARIABLE = "_AMT_DECISION"
"""Passes the decision from a process to those it starts; nobody sets it by hand."""
PATIENCE_SECONDS = 60.0
"""Time that processes may need to meet before one says that it waits."""


def decide_once(
    decide: Callable[[], RunDecision], config: TrainerConfig, environ: Mapping[str, str]
) -> RunDecision | None:
    """``decide()`` of rank 0, on every rank; call it before anything in the run's folder is changed.

    Args:
        decide: called on rank 0 only.
        config: processes and nodes that were asked for.
        environ: the launcher's variables.

    Returns:
        The decision; None on other ranks when ``decide`` raised on rank 0, which says why.

    Raises:
        ValueError: what ``decide`` raises, or nodes that do not know how to reach each other.
    """
    handed = environ.get(VARIABLE)
    if handed:
        return _read(handed)
    if started_ranks(environ) > 1:
        return _from_root(decide, config, environ)
    if config.num_nodes > 1:
        return _from_first_node(decide, config.num_nodes, environ)
    return decide()


@contextlib.contextmanager
def handed_on(decision: RunDecision) -> Iterator[None]:
    """Processes started in the block inherit ``decision``."""
    os.environ[VARIABLE] = _write(decision)
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)


def _from_root(
    decide: Callable[[], RunDecision], config: TrainerConfig, environ: Mapping[str, str]
) -> RunDecision | None:
    import torch.distributed as dist

    from .trainer import current_hardware, slurm_environment

    hardware = current_hardware(config)
    error: Exception | None = None
    text: list[str | None] = [None]
    if hardware.rank == 0:
        try:
            text = [_write(decide())]
        except Exception as caught:  # whatever it is, the others must not wait for an answer
            error = caught
    if by_srun(environ):
        slurm = slurm_environment(hardware)
        os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = slurm.main_address, str(slurm.main_port)
    world_size = started_ranks(environ)
    with _meeting(f"the {world_size} processes of the launcher"):
        dist.init_process_group(hardware.backend, rank=hardware.rank, world_size=world_size, timeout=TIMEOUT)
        atexit.register(_close_group)
        dist.broadcast_object_list(text, src=0)
    if error is not None:
        raise error
    return None if text[0] is None else _read(text[0])


@contextlib.contextmanager
def _meeting(whom: str, port: int = 0) -> Iterator[None]:
    """Around the first meeting of processes: says when it takes long, and why it failed.

    Raises:
        ValueError: names the port that another program holds, or what the library says.
    """
    place = f"{os.environ.get('MASTER_ADDR', '')}:{port or os.environ.get('MASTER_PORT', '')}"
    waiting = threading.Timer(
        PATIENCE_SECONDS,
        lambda: print(
            f"still waiting at {place} for {whom}: see that all were started, and can reach that machine and "
            f"port (after {TIMEOUT.total_seconds() / 60:.0f} minutes this one gives up)",
            file=sys.stderr,
            flush=True,
        ),
    )
    waiting.daemon = True
    waiting.start()
    try:
        yield
    except RuntimeError as error:
        if (problem := port_problem(error)) is not None:
            raise ValueError(problem) from error
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{whom} did not meet at {place}: {said}") from error
    finally:
        waiting.cancel()


def port_problem(error: BaseException) -> str | None:
    """What to do when a meeting failed because its port is another program's; None of other errors."""
    if "EADDRINUSE" not in str(error):
        return None
    found = re.search(r"port: (\d+)", str(error))
    port = found[1] if found else os.environ.get("MASTER_PORT", "")
    return (
        f"port {port} of this machine is used by another program, perhaps a run that has not ended yet: set "
        "MASTER_PORT to a free one on every machine (torchrun: --master-port, or --standalone)"
    )


def _close_group() -> None:
    import torch.distributed as dist

    if dist.is_initialized():
        dist.destroy_process_group()


def _from_first_node(
    decide: Callable[[], RunDecision], num_nodes: int, environ: Mapping[str, str]
) -> RunDecision | None:
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
    node = environ.get("NODE_RANK") or environ.get("GROUP_RANK")
    if not (address and port and node):
        raise ValueError(
            f"-n {num_nodes}: start the run with torchrun or srun, or with MASTER_ADDR, MASTER_PORT and "
            "NODE_RANK set on every node"
        )
    from torch._C._distributed_c10d import TCPStore

    first = int(node) == 0
    decision: RunDecision | None = None
    error: Exception | None = None
    if first:
        try:
            decision = decide()
        except Exception as caught:  # whatever it is, the others must not wait for an answer
            error = caught
    with _meeting(f"the first processes of {num_nodes} machines", int(port) + 1):
        store = TCPStore(address, int(port) + 1, is_master=first, wait_for_workers=False, timeout=TIMEOUT)
        if first:
            text = "" if decision is None else _write(decision)
            store.set("decision", text)
            store.wait([f"read by {other}" for other in range(1, num_nodes)])
        else:
            text = store.get("decision").decode()
            store.set(f"read by {int(node)}", "")
    if error is not None:
        raise error
    return _read(text) if text else None


def _write(decision: RunDecision) -> str:
    path = decision.checkpoint
    return json.dumps({**asdict(decision), "checkpoint": None if path is None else str(path)})


def _read(text: str) -> RunDecision:
    plain = json.loads(text)
    path = plain.pop("checkpoint")
    return RunDecision(**plain, checkpoint=None if path is None else Path(path))
