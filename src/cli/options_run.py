"""The options of ``train.py`` that make the run: its data, length, hardware, optimisation, augmentation."""

from __future__ import annotations

from ..config.data import PITCH_METHODS
from ..config.recipes import AUGMENT_PROFILES
from ..config.tasks import list_tasks
from ..config.training import (
    LR_SCALINGS,
    OPTIMIZERS,
    PRECISIONS,
    REFERENCE_BATCH,
    SCHEDULERS,
    STRATEGIES,
    WANDB_MODES,
)
from .parser import Option, Section

_run = Section("run", "trainer")
_data = Section("task and data", "data")
_optimisation = Section("optimisation", "optimizer")
_hardware = Section("hardware", "trainer")
_augmentation = Section("augmentation", "augmentation")

RUN_OPTIONS: tuple[Option, ...] = (
    _run("-p", "--project", "text", "project", "folder of runs below the log folder"),
    _run("", "--seed", "int", "seed", "seed of every random draw"),
    _run(
        "",
        "--init-ckpt",
        "text",
        "init_ckpt",
        "warm start: take the weights, and nothing else, from this file or from a run's EXP@best or EXP@last",
        metavar="PATH",
        may_be_empty=True,
    ),
    _run(
        "",
        "--pretrained-t5",
        "text",
        "pretrained_t5",
        "start the decoder, and the encoder of -enc t5, from the T5 v1.1 in this folder (config.json and "
        "model.safetensors or pytorch_model.bin)",
        metavar="FOLDER",
        may_be_empty=True,
    ),
    _run(
        "",
        "--init-include",
        "text",
        "init_include",
        "warm start: take only weights whose names fit one of these patterns, such as encoder or *norm*",
        count=0,
        metavar="PATTERN ...",
    ),
    _run(
        "",
        "--init-exclude",
        "text",
        "init_exclude",
        "warm start: leave out weights whose names fit one of these patterns",
        count=0,
        metavar="PATTERN ...",
    ),
    _run("-it", "--max-steps", "int", ".max_steps", "training steps; -1 counts epochs"),
    _run("-e", "--max-epochs", "int", ".max_epochs", "epochs when -it is -1"),
    _run(
        "",
        "--max-minutes",
        "float",
        ".max_minutes",
        "budget of training time; the schedule follows it; 0 is none",
    ),
    _run("-vit", "--val-interval", "int", ".val_interval", "steps between validations"),
    _run("-w", "--write-model-output", "bool", ".write_model_output", "write MIDI of validation predictions"),
    _run("-wb", "--wandb-mode", "text", "wandb.mode", "W&B; CSV is always written", choices=WANDB_MODES),
    _run(
        "",
        "--wandb-examples",
        "int",
        "wandb.examples",
        "songs of each validation whose piano roll and sound go to W&B; 0 is none",
    ),
    _run("", "--tensorboard", "bool", "wandb.tensorboard", "write event files for TensorBoard too"),
    _run(
        "",
        "--overlap",
        "float",
        "inference.overlap",
        "share of a window that the next one hears again in transcription; 0.5 doubles its time",
    ),
    _run(
        "",
        "--pitch-check",
        "float",
        "inference.pitch_check",
        "how much likelier (log) the frame head must find another pitch to change a sung note; 0 is off",
        metavar="X",
    ),
    _run("", "--save-top-k", "int", "checkpoint.save_top_k", "best files kept"),
    _data("-tk", "--task", "text", "task", "what is transcribed", choices=tuple(list_tasks())),
    _data("-d", "--data-preset", "text", ".presets", "data presets, or names of prepared stores", count=0),
    _data("-el", "--event-length", "int", "event_length", "longest token sequence"),
    _data(
        "-bsz",
        "--train-batch-size",
        "int",
        "bsz.sub bsz.local",
        "segments of a sub-batch, which share foreign stems, and of a process; LOCAL is a multiple of SUB",
        count=2,
        metavar="SUB LOCAL",
    ),
    _data(
        "",
        "--val-batch-size",
        "int",
        "bsz.validation bsz.test",
        "windows decoded together in validation and test",
    ),
    _data(
        "-se",
        "--train-num-samples-per-epoch",
        "int",
        ".samples_per_epoch",
        "training segments that count as one epoch",
    ),
    _data(
        "",
        "--validation-files",
        "int",
        ".validation_files",
        "validate on the first N songs of each set; 0 takes all",
    ),
    _data("", "--num-workers", "int", "dataio.num_workers", "loader processes per GPU"),
)

TRAINING_OPTIONS: tuple[Option, ...] = (
    _optimisation(
        "-lr", "--base-learning-rate", "float", ".learning_rate", "base rate; unset takes the optimizer's own"
    ),
    _optimisation(
        "",
        "--scale-lr",
        "text",
        ".scale_lr",
        f"multiply the base rate by the global batch over {REFERENCE_BATCH} segments, or by the root of that",
        choices=LR_SCALINGS,
    ),
    _optimisation("-o", "--optimizer", "text", ".name", "optimizer", choices=OPTIMIZERS),
    _optimisation("-s", "--scheduler", "text", "lr_schedule.name", "schedule", choices=SCHEDULERS),
    _optimisation(
        "",
        "--final-cosine",
        "float",
        "lr_schedule.final_cosine",
        "rate at the end of -s cosine and linear",
        metavar="RATE",
    ),
    _optimisation(
        "-wd",
        "--weight-decay",
        "float",
        ".weight_decay",
        "decay on matrices; never on norms, biases and positions",
    ),
    _optimisation("", "--betas", "float", ".betas", "moment decays", count=2, metavar="B1 B2"),
    _optimisation(
        "-gc", "--gradient-clip", "float", "trainer.gradient_clip", "largest gradient norm; 0 is off"
    ),
    _optimisation(
        "-acc", "--accumulate-grad-batches", "int", "trainer.accumulate_grad_batches", "batches of a step"
    ),
    _optimisation(
        "",
        "--lr-decay",
        "float",
        ".lr_decay",
        "factor on the rate for each layer further from the output; 1 is one rate for all",
        metavar="FACTOR",
    ),
    _optimisation(
        "",
        "--freeze",
        "text",
        ".freeze",
        "parameters whose names fit one of these patterns are not trained, such as encoder or *norm*",
        count=0,
        metavar="PATTERN ...",
    ),
    _optimisation(
        "",
        "--ema",
        "float",
        ".ema_decay",
        "moving average of the weights, such as 0.999, that validation and checkpoints use; 0 is off",
        metavar="DECAY",
    ),
    _hardware("-pr", "--precision", "text", ".precision", "number format", choices=PRECISIONS),
    _hardware(
        "-st",
        "--strategy",
        "text",
        ".strategy",
        "ddp, also called auto: several processes (-g, -n) average their gradients; one process goes without",
        choices=STRATEGIES,
    ),
    _hardware("-n", "--num-nodes", "int", ".num_nodes", "machines"),
    _hardware(
        "-g", "--num-gpus", "text", ".devices", "processes on each machine: auto or a number", metavar="N"
    ),
    _hardware("-sb", "--sync-batchnorm", "bool", ".sync_batchnorm", "batch norm over all processes"),
    _hardware(
        "",
        "--activation-checkpointing",
        "bool",
        ".activation_checkpointing",
        "compute layers again on the way back instead of keeping them: less memory, a third more time",
    ),
    _hardware(
        "",
        "--compile",
        "bool",
        ".compile",
        "torch.compile: the first steps take minutes, the others less time, on a GPU above all",
    ),
    _hardware("", "--threads", "int", ".num_threads", "CPU threads of torch; 0 leaves its own choice"),
    _augmentation(
        "",
        "--augment",
        "text",
        "",
        "named settings; the single flags override them",
        metavar="PROFILE",
        choices=tuple(AUGMENT_PROFILES),
    ),
    _augmentation(
        "-amp",
        "--random-amp-range",
        "float",
        ".amp_range",
        "range of the gain of each stem",
        count=2,
        metavar="LO HI",
    ),
    _augmentation(
        "-iaug",
        "--stem-iaug-prob",
        "float",
        ".stem_keep_prob",
        "probability that a stem is kept; 1 keeps all",
        metavar="P",
    ),
    _augmentation("-xk", "--xaug-max-k", "int", ".xaug_max_k", "most foreign sources mixed in; 0 is off"),
    _augmentation("-xtau", "--xaug-tau", "float", ".xaug_tau", "decay of their number"),
    _augmentation(
        "-xalpha", "--xaug-alpha", "float", ".xaug_alpha", "Weibull shape of that decay; 1 is exponential"
    ),
    _augmentation(
        "-xnio",
        "--xaug-no-instr-overlap",
        "bool",
        ".xaug_no_instr_overlap",
        "never two sources of one instrument class",
    ),
    _augmentation("-xndo", "--xaug-no-drum-overlap", "bool", ".xaug_no_drum_overlap", "never two drum stems"),
    _augmentation(
        "-xiaug", "--uhat-intra-stem_augment", "bool", ".xaug_intra_stem", "drop stems of foreign sources too"
    ),
    _augmentation(
        "-ps",
        "--pitch-shift-range",
        "int",
        ".pitch_shift_range",
        "semitones; 0 0 is off; drums are never shifted",
        count=2,
        metavar="LO HI",
    ),
    _augmentation(
        "",
        "--xaug-max-subunit-stems",
        "int",
        ".xaug_max_subunit_stems",
        "most stems of a segment with a gain of their own",
        metavar="N",
    ),
    _augmentation(
        "",
        "--xaug-include-singing",
        "float",
        ".xaug_include_singing",
        "probability that a segment without singing gets a foreign source that sings",
        metavar="P",
    ),
    _augmentation(
        "",
        "--pitch-method",
        "text",
        ".pitch_shift_method",
        "how pitch is shifted: by speed, labels move in time too; with time kept, by stretching in the "
        "loaders or where the model runs",
        choices=PITCH_METHODS,
    ),
    _augmentation(
        "",
        "--pitch-detune",
        "float",
        ".pitch_shift_detune",
        "further detuning of at most this many semitones, labels unchanged",
    ),
    _augmentation("", "--noise-prob", "float", ".noise_prob", "probability of added noise", metavar="P"),
    _augmentation(
        "",
        "--noise-snr",
        "float",
        ".noise_snr_range",
        "its signal-to-noise ratio in dB",
        count=2,
        metavar="LO HI",
    ),
    _augmentation(
        "", "--reverb-prob", "float", ".reverb_prob", "probability of a synthetic room", metavar="P"
    ),
    _augmentation(
        "",
        "--eq-prob",
        "float",
        ".eq_prob",
        "probability that a stem with target notes is equalised at random",
        metavar="P",
    ),
    _augmentation(
        "",
        "--codec-prob",
        "float",
        ".codec_prob",
        "probability of a random codec: narrow band, mu-law or transform coder",
        metavar="P",
    ),
    _augmentation(
        "",
        "--negative-share",
        "float",
        ".negative_share",
        "share of segments without target notes; -1 leaves them as they fall",
        metavar="P",
    ),
)
