"""Faults on order strike at their place; a kill once in a folder."""

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


def test_a_nan_strikes_its_step_and_rank_each_time_the_step_is_taken(tmp_path: Path) -> None:
    memory = tmp_path / "faults.txt"
    fault = armed("nan@3:1", memory)
    assert [fault.spoils(step, rank) for step in (2, 3) for rank in (0, 1)] == [False, False, False, True]
    fault.strike(3, 0, never)
    assert not memory.exists()
    assert armed("nan@3:1", memory).spoils(3, 1), "a run resumed before the step goes the same way"


def test_a_kill_strikes_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path / "faults.txt")]
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (killed.returncode, killed.stdout) == (-9, "all are here\n")
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, "alive\n")
    elsewhere = subprocess.run([*command[:-1], str(tmp_path / "other.txt")], check=False, capture_output=True)
    assert elsewhere.returncode == -9, "another folder knows nothing of it"


@pytest.mark.parametrize("text", ["", "kill@save", "full-disk@save", "nan@x"])
def test_other_texts_do_nothing(text: str) -> None:
    fault = armed(text)
    assert not any(fault.spoils(step, 0) for step in range(-1, 4))
    for step in range(4):
        fault.strike(step, 0, never)
