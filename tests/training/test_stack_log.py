"""AMT_FAULTHANDLER_LOG_DIR: a file of stacks for each process."""

import os
import signal
import subprocess
import sys

import pytest

from amt.config.environment import read_environment
from amt.training.stack_log import start_stack_log

PROGRAM = """
import os, signal, sys
from pathlib import Path
from amt.training.stack_log import start_stack_log
start_stack_log(Path(sys.argv[1]), os.environ)
def here_it_hangs():
    os.kill(os.getpid(), signal.SIGUSR2)
here_it_hangs()
def here_it_dies():
    os.kill(os.getpid(), signal.SIGSEGV)
here_it_dies()
"""


def test_stacks_of_a_hang_and_of_a_crash(tmp_path):
    folder = tmp_path / "my logs é"
    environ = {**os.environ, "RANK": "3", "AMT_FAULTHANDLER_LOG_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", PROGRAM, str(folder)], env=environ, check=False)
    assert done.returncode == -signal.SIGSEGV
    [path] = folder.iterdir()
    assert path.name.startswith("faulthandler_rank3_pid")
    text = path.read_text()
    assert "here_it_hangs" in text
    assert "here_it_dies" in text


def test_the_variable_and_a_folder_that_cannot_be(tmp_path):
    assert read_environment({"AMT_FAULTHANDLER_LOG_DIR": str(tmp_path)}).stack_log_dir == tmp_path
    assert read_environment({"AMT_FAULTHANDLER_LOG_DIR": ""}).stack_log_dir is None
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="AMT_FAULTHANDLER_LOG_DIR"):
        start_stack_log(tmp_path / "file" / "x", {})
