"""One rank decides, the others are told: by inheritance, by the process group, from node to node."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from amt.cli.options import OPTIONS
from amt.config import TrainerConfig
from amt.training.handover import VARIABLE, decide_once, handed_on
from amt.training.identity import RunDecision

WARM = RunDecision("warm", Path("/runs/é 1/last.ckpt"), "a reason", 0, True)
LIMIT = 300
ASK = """
import json, os, sys
from amt.config import TrainerConfig
from amt.training.handover import decide_once
from amt.training.identity import RunDecision
def decide():
    if len(sys.argv) > 2:
        raise ValueError(sys.argv[2])
    return RunDecision("resume", None, f"decided by process {os.getpid()}", 7, False)
config = TrainerConfig(strategy="ddp", num_nodes=int(sys.argv[1]), precision="32")
try:
    decision = decide_once(decide, config, os.environ)
    text = "nothing" if decision is None else f"{decision.reason} {decision.step}"
except ValueError as error:
    text = f"error {error}"
sys.stdout.write(json.dumps(text) + "\\n")
"""


def never():
    raise AssertionError("only rank 0 decides")


@pytest.mark.parametrize("decision", [WARM, RunDecision("scratch", None, "é", None, False)])
def test_a_child_inherits_and_does_not_decide(decision):
    with handed_on(decision):
        inherited = {**os.environ, "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    assert VARIABLE not in os.environ
    assert decide_once(never, TrainerConfig(), inherited) == decision


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WORLD_SIZE": "4"},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "4", "SLURM_JOB_NAME": "bash"},
    ],
)
def test_alone_there_is_nobody_to_ask(environ):
    assert decide_once(lambda: WARM, TrainerConfig(), environ) is WARM


def test_nodes_must_know_each_other():
    with pytest.raises(ValueError, match=r"-n 2: .*torchrun.*MASTER_ADDR"):
        decide_once(never, TrainerConfig(num_nodes=2), {})


def environment(**changes):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AMT_", "MASTER_"))}
    return kept | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""} | changes


def free_port():
    """Where this port and the next one are free."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return str(port)


def together(commands):
    """Run (command, environment) pairs at the same time; their results in order."""
    running = [
        subprocess.Popen(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for command, env in commands
    ]
    try:
        ends = [process.communicate(timeout=LIMIT) for process in running]
    except BaseException:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
        raise
    return [(process.returncode, *end) for process, end in zip(running, ends, strict=True)]


def torchrun(*arguments):
    options = ["--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", free_port()]
    return [sys.executable, "-m", "torch.distributed.run", *options, *arguments]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [(), ("no such file",)])
def test_nodes_and_ranks_hear_of_one_decision(tmp_path, mistake):
    program = tmp_path / "ask.py"
    program.write_text(ASK)
    port = free_port()
    nodes = together(
        [
            (
                [sys.executable, str(program), "2", *mistake],
                environment(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, NODE_RANK=str(node)),
            )
            for node in (0, 1)
        ]
    )
    slurm = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NODELIST": "127.0.0.1"}
    slurm |= {"SLURM_NODEID": "0", "SLURM_JOB_NAME": "train", "MASTER_PORT": free_port()}
    tasks = together(
        [
            (
                [sys.executable, str(program), "1", *mistake],
                environment(SLURM_PROCID=str(rank), SLURM_LOCALID=str(rank), **slurm),
            )
            for rank in (0, 1)
        ]
    )
    [(status, out, err)] = together([(torchrun(str(program), "1", *mistake), environment())])
    assert status == 0, err
    ranks = sorted(json.loads(line) for line in out.splitlines())
    for (code, first, why), (other_code, second, other_why) in (nodes, tasks):
        assert (code, other_code) == (0, 0), why + other_why
        answers = [json.loads(first), json.loads(second)]
        if mistake:
            assert answers == ["error no such file", "nothing"]
        else:
            assert answers[0] == answers[1]
            assert answers[0].endswith(" 7")
    assert ranks == ["error no such file", "nothing"] if mistake else len(set(ranks)) == 1


@pytest.mark.parametrize("nodes", [1, 2])
def test_a_port_that_is_taken_is_named(nodes):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port if nodes == 1 else port - 1)}
        place |= {"NODE_RANK": "0"} if nodes == 2 else {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}
        code = ASK.replace("sys.argv[1]", repr(str(nodes)))
        [(status, out, err)] = together([([sys.executable, "-c", code], environment(**place))])
    assert status == 0, err
    assert json.loads(out).startswith(f"error port {port} of this machine is used by another program")
    assert "MASTER_PORT" in out


@pytest.mark.slow
def test_a_process_that_waits_for_others_says_so():
    """sbatch without srun: the batch script is the first of eight tasks that nobody starts."""
    port = free_port()
    code = "import amt.training.handover as h\nfrom datetime import timedelta\nh.PATIENCE_SECONDS = 1\n"
    code += "h.TIMEOUT = timedelta(seconds=20)\n" + ASK.replace("sys.argv[1]", "'1'")
    slurm = {"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0"}
    place = {"SLURM_NODELIST": "127.0.0.1", "MASTER_PORT": port, "MASTER_ADDR": "127.0.0.1"}
    code = code.replace("num_nodes=", "devices='8', num_nodes=")
    [(_, out, err)] = together([([sys.executable, "-c", code], environment(**slurm, **place))])
    assert f"still waiting at 127.0.0.1:{port} for the 8 processes of the launcher" in err
    assert json.loads(out).startswith(
        f"error the 8 processes of the launcher did not meet at 127.0.0.1:{port}"
    )


OTHERWISE = """
import os, sys
if os.environ["RANK"] == "1":
    os.environ["AMT_SAVE_BEFORE_VAL"] = "1"
from amt.cli.train import main
sys.exit(main())
"""


@pytest.mark.slow
def test_a_rank_with_other_variables_is_refused(tiny, sines, tmp_path, flags):
    """It would save where the others train on, and all would wait for each other."""
    program = tmp_path / "train.py"
    program.write_text(OTHERWISE)
    setting = {"AMT_DATA_HOME": str(sines), "AMT_LOG_DIR": str(tmp_path / "logs")}
    command = torchrun(str(program), "tiny", *flags, "--strategy", "ddp")
    [(status, _, err)] = together([(command, environment(**setting))])
    assert status != 0
    assert (
        err.count("rank 1 was started for another run than rank 0: checkpoint.save_before_val is False") == 1
    )


@pytest.fixture
def flags(tiny):
    """The tiny run as a command line."""
    words = []
    for option in OPTIONS:
        values = [tiny.SETTINGS.get(target) for target in option.targets]
        if None in values or not values:
            continue
        if option.count == 1:
            values = values[:1]
        flat = [item for value in values for item in (value if isinstance(value, list) else [value])]
        words += [option.long, *(str(item) for item in flat)]
    return words


@pytest.mark.slow
def test_two_ranks_of_each_launcher_do_what_the_first_decides(tiny, sines, tmp_path, flags):
    """The old files are moved aside by rank 0 while the others start, the warm start's source among them."""
    setting = {"AMT_DATA_HOME": str(sines), "AMT_LOG_DIR": str(tmp_path / "logs"), "AMT_WARMUP_STEPS": "1"}
    run = tmp_path / "logs" / "ymt3" / "tiny"
    train = ["tiny", *flags, "--max-steps", "2"]

    def go(command, **changes):
        [(status, out, err)] = together([(command, environment(**setting, **changes))])
        said = [line for line in (out + err).splitlines() if line.startswith(("run: ", "error: "))]
        return status, [line.split(" at ")[0][:23] for line in said], out + err

    status, said, text = go([sys.executable, "-m", "amt.train", *train])
    assert status == 0, text
    last = run / "checkpoints" / "last.ckpt"
    status, said, text = go(
        torchrun("-m", "amt.train", *train, "--strategy", "ddp", "--init-ckpt", str(last)),
        AMT_FORCE_SCRATCH="1",
    )
    assert status == 0, text
    named = "run: its configuration is in "[:23]
    assert said == ["run: WARM START", "run: old files moved to", named, "run: stopped"]
    assert text.count("configuration:") == text.count("tensors loaded") == 1
    assert (run / "previous-1" / "checkpoints" / "last.ckpt").is_file()
    status, said, text = go(
        [sys.executable, "-m", "amt.train", *train, "--strategy", "ddp", "--num-gpus", "2"],
        AMT_FORCE_SCRATCH="1",
    )
    assert status == 0, text
    assert said == ["run: SCRATCH", "run: old files moved to", named, "run: stopped"]
    assert text.count("configuration:") == 1
    assert (run / "previous-2" / "checkpoints" / "last.ckpt").is_file()
    assert last.is_file()
    status, said, text = go(torchrun("-m", "amt.train", "tiny@nothing", *train[1:], "--strategy", "ddp"))
    assert status != 0
    assert said == ["error: no checkpoint 'n"], text
