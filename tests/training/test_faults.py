"""Faults on order strike at their place, once in a folder."""

import subprocess
import sys
from pathlib import Path

import pytest

from amt.training.faults import StepFault

KILLED = """
import sys
from pathlib import Path
from amt.training.faults import StepFault
fault = StepFault("kill@2", Path(sys.argv[1]))
fault.arm()
for step in (1, 2, 3):
    fault.strike(step, 0, lambda: print("all are here", flush=True))
print("alive")
"""


def armed(text: str, memory: Path | None = None) -> StepFault:
    fault = StepFault(text, memory)
    fault.arm()
    return fault


def never() -> None:
    raise AssertionError("nobody waits")


def test_a_nan_strikes_its_step_and_rank_once(tmp_path: Path) -> None:
    memory = tmp_path / "faults.txt"
    fault = armed("nan@3:1", memory)
    assert [fault.spoils(step, rank) for step in (2, 3) for rank in (0, 1)] == [False, False, False, True]
    fault.strike(2, 1, never)
    fault.strike(3, 1, never)
    assert not memory.exists(), "rank 0 alone touches files"
    assert not fault.spoils(3, 1)
    first = armed("nan@3:1", memory)
    first.strike(3, 0, never)
    assert memory.read_text() == "nan@3:1\n"
    assert not armed("nan@3:1", memory).spoils(3, 1)
    assert armed("nan@4:1", memory).spoils(4, 1), "another fault may strike"
    assert armed("nan@3:1").spoils(3, 1), "another folder knows nothing of it"


def test_a_kill_strikes_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "faults.txt")]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (killed.returncode, killed.stdout) == (-9, "all are here\n")
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, "alive\n")


@pytest.mark.parametrize("text", ["", "kill@save", "full-disk@save", "nan@x"])
def test_other_texts_do_nothing(text: str) -> None:
    fault = armed(text)
    assert not any(fault.spoils(step, 0) for step in range(-1, 4))
    for step in range(4):
        fault.strike(step, 0, never)
