"""``train.py``: from the command line to a running experiment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ..config.environment import EXAMPLES, SCRIPT_VARIABLES, VARIABLES, read_environment
from ..config.experiment import Experiment
from ..config.leaves import leaves
from ..config.presets import apply_excluded_presets, combine_presets
from ..config.values import FALSE
from ..model.checkpoint_names import split_exp_id
from ..training.handover import decide_once
from ..training.identity import decide_run, run_folder
from ..training.identity import describe as describe_run
from ..training.interrupts import BEFORE_TRAINING, interrupts_say
from .assemble import describe, option_targets, resolve, show, summarize
from .command import EXIT_ERROR, EXIT_OK, first_process, run_command, warn
from .config_file import read_config
from .options import GROUPS, OPTIONS
from .parser import CommandLine, UsageError, format_help, parse
from .precedence import RULES, resume, stored_experiment
from .published import UNAVAILABLE

USAGE = "train.py EXP[@CHECKPOINT] [options]"
INTRO = (
    "Train the model EXP. A run lies in logs/PROJECT/EXP; when it has a last.ckpt it is resumed, and "
    "EXP@CHECKPOINT resumes that file. Flags win over AMT_ variables, those over --config, that over "
    "--model, that over --recipe, that over the defaults shown. Booleans take true/false, 1/0, yes/no."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``train.py`` and return its exit code."""
    return run_command(_run, argv)


def option_defaults() -> dict[str, str]:
    """What ``--help`` shows as the default of each option, by long name."""
    values = dict(leaves(Experiment()))
    encoder = Experiment().model.encoder_type
    return {
        option.long: " ".join(show(values[target]) for target in dict.fromkeys(option.targets))
        if option.count > 1
        else show(values[(option_targets(option, encoder) or option.targets)[0]])
        for option in OPTIONS
        if option.targets
    }


def environment_rows() -> list[tuple[str, str, str]]:
    """Name, default and effect of every variable."""
    values = dict(leaves(Experiment()))
    return [
        (
            variable.name,
            variable.default or (show(values[variable.targets[0]]) if variable.targets else ""),
            variable.help
            + (f" (for example {EXAMPLES[variable.name]})" if variable.name in EXAMPLES else ""),
        )
        for variable in VARIABLES
    ]


def environment_help() -> str:
    """The text of ``--help-env``."""
    rows = environment_rows()
    wide = max(len(name) for name, _, _ in rows)
    lines = ["Variables; an empty one is unset. Flags win over them.", ""]
    lines += [f"  {name:<{wide}}  {help} (default: {default or 'none'})" for name, default, help in rows]
    lines += ["", "Known to the training scripts, which turn them into flags:", ""]
    names = list(SCRIPT_VARIABLES)
    lines += ["  " + " ".join(names[start : start + 5]) for start in range(0, len(names), 5)]
    lines += ["", "WANDB_BASE_URL, WANDB_API_KEY and CUDA_VISIBLE_DEVICES mean what they mean elsewhere; an"]
    lines += ["empty CUDA_VISIBLE_DEVICES means no GPU."]
    return "\n".join(lines) + "\n"


def _run(argv: Sequence[str]) -> int:
    command = parse(argv, OPTIONS, UNAVAILABLE)
    if command.has("--help"):
        print(format_help(USAGE, INTRO, OPTIONS, option_defaults(), GROUPS), end="")
        return EXIT_OK
    if command.has("--help-env"):
        print(environment_help(), end="")
        return EXIT_OK
    if not command.words and (named := _name_in_file(command)):
        return _train(named, command, os.environ)
    if not command.words:
        raise UsageError(f"the experiment's name is missing; it comes first, before the options: {USAGE}")
    if len(command.words) > 1:
        raise UsageError(
            f"only the experiment's name stands without an option, not {command.words[1]!r}; "
            "it goes first: train.py EXP [options]"
        )
    return _train(command.words[0], command, os.environ)


def _name_in_file(command: CommandLine) -> str:
    """The experiment's name that the configuration files give, or ""."""
    name = ""
    for path in command.given["--config"].values if command.has("--config") else ():
        found = read_config(Path(str(path))).get("exp_id")
        name = name if found is None else str(found.value)
    return name


def _train(name: str, command: CommandLine, environ: Mapping[str, str]) -> int:
    speaks = first_process(environ)
    only_prints = command.has("--print-identity") or command.has("--print-config")
    dry_run = command.has("--dry-run")
    if only_prints and not speaks:
        return EXIT_OK
    environment = read_environment(environ)
    exp_id, checkpoint_name = split_exp_id(name)
    if exp_id.startswith("-"):
        raise UsageError(f"an experiment's name must not start with '-': {exp_id!r}")
    resolved = resolve(exp_id, command, environment)
    experiment = resolved.experiment
    folder = run_folder(environment.log_dir, experiment.project, exp_id)
    decide = partial(
        decide_run,
        folder,
        exp_id,
        checkpoint_name,
        force_scratch=environment.force_scratch,
        init_ckpt=experiment.init_ckpt,
        allow_rewind=environment.allow_rewind,
        restart_count=environment.restart_count,
    )
    decision = decide() if only_prints else decide_once(decide, experiment.trainer, environ)
    if decision is None:
        return EXIT_ERROR
    if decision.kind != "resume":  # before a scratch run is announced that could not begin
        presets = combine_presets(experiment.data.presets, environment.data_home)
        apply_excluded_presets(presets, environment.excluded_presets)
    if speaks:
        print(describe_run(decision), flush=True)
        for sentence in environment.warnings:
            warn(sentence)
        asks_script = environ.get("AMT_DRY_RUN", "").strip().lower() not in ("", *FALSE)
        if asks_script and not (dry_run or only_prints):
            warn("AMT_DRY_RUN=1 makes a training script print its command; train.py trains: see --dry-run")
    differences: list[str] = []
    if decision.kind == "resume":
        assert decision.checkpoint is not None
        stored = stored_experiment(decision.checkpoint)
        if stored is not None:
            resolved, differences = resume(stored, resolved, override_optim=command.has("--override-optim"))
    if command.has("--print-identity"):
        return EXIT_OK
    if speaks:
        for sentence in (*differences, *RULES) if differences else ():
            print(f"resume: {sentence}")
        print(describe(resolved) if only_prints else summarize(resolved), flush=True)
    if command.has("--print-config"):
        return EXIT_OK
    with interrupts_say(lambda: BEFORE_TRAINING):  # what begins to train has words of its own
        from ..training.fit import run_training
        from ..training.plan import RunPaths
        from ..training.stack_log import start_stack_log

        if environment.stack_log_dir is not None and not dry_run:
            start_stack_log(environment.stack_log_dir, environ)
        return run_training(
            resolved.experiment,
            decision,
            RunPaths(folder, environment.data_home),
            resolved.origins,
            fault=environment.fault,
            excluded=environment.excluded_presets,
            val_start_loss=environment.val_start_loss,
            scan_gradients=environment.scan_gradients,
            detect_anomaly=environment.detect_anomaly,
            lr_monitor=environment.lr_monitor,
            dry_run=dry_run,
        )
