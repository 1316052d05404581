"""What is said when a process of a run is gone, and that nobody waits for it for ever."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from types import SimpleNamespace

import pytest
import torch.distributed as dist

from amt.training import rank_errors
from amt.training.handover import VARIABLE
from amt.training.launcher import SAID
from amt.training.nonfinite import NonFiniteLossError
from amt.training.rank_errors import RankLost, describe_loss, errors_end_all, is_lost_contact

GLOO = RuntimeError(
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:4711"
)


def start(code):
    return subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])


@pytest.fixture
def fit():
    """``fit(rank, *children)`` is :func:`errors_end_all` of a process that has started ``children``."""
    started = []

    def make(rank, *children):
        started.extend(children)
        trainer = SimpleNamespace(strategy=SimpleNamespace(launcher=SimpleNamespace(procs=list(children))))
        return errors_end_all(trainer, SimpleNamespace(rank=rank, local_rank=rank, world_size=1))

    yield make
    for child in started:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        child.wait()


@pytest.mark.parametrize(
    ("fates", "said"),
    [
        ({1: -9, 2: 2}, ["killed from outside: rank 1 (SIGKILL)", "memory runs out", "-bsz"]),
        ({3: -11}, ["rank 3 (SIGSEGV)"]),
        ({1: 2, 2: 1}, ["rank 1 (status 2), rank 2 (status 1)", "stands above"]),
        ({}, ["does not answer", "the library's words"]),
    ],
)
def test_the_rank_and_the_way_out_are_named(fates, said):
    text = describe_loss(0, fates, "the library's words")
    assert text.startswith("rank 0 lost the other ranks")
    assert "Started again, the run goes on from its last checkpoint" in text
    for part in said:
        assert part in text
    assert ("memory runs out" in text) == (-9 in fates.values())


def test_errors_of_collective_calls_are_known():
    assert is_lost_contact(GLOO)
    assert is_lost_contact(dist.DistBackendError("NCCL error"))
    assert not is_lost_contact(RuntimeError("index -1 is out of bounds"))
    assert not is_lost_contact(ValueError("/gloo/"))


def test_a_killed_process_is_named(fit):
    child = start("import time; time.sleep(60)")
    os.kill(child.pid, signal.SIGKILL)
    said = r"rank 0 lost the other ranks.*rank 1 \(SIGKILL\)"
    with pytest.raises(RankLost, match=said) as caught, fit(0, child):
        raise GLOO
    assert caught.value.__cause__ is GLOO


def test_others_than_the_first_say_their_error_once(fit, capfd):
    mistake = ValueError("this one's own")
    with pytest.raises(ValueError, match="own"), fit(1):
        raise mistake
    assert capfd.readouterr().err == "error on rank 1: this one's own\n"
    assert getattr(mistake, SAID)
    with pytest.raises(RankLost), fit(2):
        raise GLOO
    assert "error on rank 2: rank 2 lost the other ranks" in capfd.readouterr().err
    with pytest.raises(NonFiniteLossError), fit(1):  # found by every rank, told by the first
        raise NonFiniteLossError("50 in a row")
    with pytest.raises(ValueError, match="first"), fit(0):  # told by the command
        raise ValueError("of the first")
    assert capfd.readouterr().err == ""


def test_what_hangs_is_ended_by_an_error(fit, monkeypatch):
    monkeypatch.setattr(rank_errors, "GRACE_SECONDS", 0.2)
    child = start("import time; time.sleep(600)")
    with pytest.raises(ValueError, match="mine"), fit(0, child):
        raise ValueError("mine")
    assert child.wait(60) == -signal.SIGKILL


HANGS = """
    import subprocess, sys, time
    from types import SimpleNamespace
    from amt.training import rank_errors
    rank_errors.GRACE_SECONDS = 0.5
    from lightning_fabric.strategies.launchers.subprocess_script import _launch_process_observer
    child = subprocess.Popen([sys.executable, "-c", {child!r}])
    launcher = SimpleNamespace(procs=[])
    trainer = SimpleNamespace(strategy=SimpleNamespace(launcher=launcher))
    with rank_errors.errors_end_all(trainer, SimpleNamespace(rank=0, local_rank=0, world_size=2)):
        launcher.procs = [child]  # Lightning makes a new list when it starts them
        _launch_process_observer(launcher.procs)
        time.sleep({seconds})  # in a collective call that has no end
    print("ended well")
"""


@pytest.mark.parametrize(
    ("child", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "rank 1 (SIGKILL)"),
        pytest.param("raise SystemExit(3)", "rank 1 (status 3)", marks=pytest.mark.slow),
    ],
)
def test_a_process_that_hangs_is_ended_when_another_is_gone(child, said):
    """Lightning's observer would kill it after five seconds without a word."""
    code = textwrap.dedent(HANGS).format(child=child, seconds=600)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: rank 0 lost the other ranks")
    assert said in done.stderr


@pytest.mark.slow
def test_the_end_after_a_signal_may_take_its_time():
    """The others are gone (128 + 15) while the first process still sends its logs."""
    code = textwrap.dedent(HANGS).format(child="raise SystemExit(143)", seconds=12)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout) == (0, "ended well\n"), done.stderr


ORPHAN = """
    import os, subprocess, sys, time
    from types import SimpleNamespace
    from amt.training import rank_errors
    rank_errors.GRACE_SECONDS = 0.5
    trainer = SimpleNamespace(strategy=SimpleNamespace(launcher=None))
    with rank_errors.errors_end_all(trainer, SimpleNamespace(rank=1, local_rank=1, world_size=2)):
        print("in the fit", flush=True)
        time.sleep(600)  # in a collective call with the first process, which is gone
"""
STARTER = """
    import subprocess, sys, time
    subprocess.Popen([sys.executable, "-c", sys.argv[1]])
    time.sleep(600)
"""


@pytest.mark.parametrize("variable", [VARIABLE, pytest.param("TORCHELASTIC_RUN_ID", marks=pytest.mark.slow)])
def test_no_process_outlives_the_one_that_started_it(variable):
    words = [sys.executable, "-c", textwrap.dedent(STARTER), textwrap.dedent(ORPHAN)]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, env={**os.environ, variable: "x"}, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == "in the fit\n"
            process.kill()
            _, said = process.communicate(timeout=300)  # the pipes are open as long as the orphan lives
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert "error: rank 1 lost the other ranks" in said
    assert "the process that started it is gone" in said


LEAVES_SLOWLY = """
    import atexit, time
    from types import SimpleNamespace
    from amt.training import rank_errors
    rank_errors.LEAVE_SECONDS = 0.5
    atexit.register(time.sleep, 600)  # a library that waits for the other ranks
    trainer = SimpleNamespace(strategy=SimpleNamespace(launcher=None))
    with rank_errors.errors_end_all(trainer, SimpleNamespace(rank=0, local_rank=0, world_size=2)):
        raise ValueError("mine")
"""


def test_a_process_that_failed_does_not_hang_on_its_way_out():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LEAVES_SLOWLY)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr


def test_ctrl_c_stays_what_it_is(fit):
    def leave():
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            sys.exit(1)  # as Lightning does

    with pytest.raises(KeyboardInterrupt), fit(0):
        leave()
    with pytest.raises(SystemExit), fit(0):
        sys.exit(1)


def test_the_watch_ends_with_the_fit(fit):
    with fit(0):
        pass
    deadline = time.monotonic() + 60
    while any(thread.name == "rank-watch" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
