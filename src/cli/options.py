"""The options of ``train.py``: one declaration each."""

from __future__ import annotations

from dataclasses import dataclass

from ..config.audio import CODECS
from ..config.model import (
    ACTIVATIONS,
    DECODER_FF_TYPES,
    DECODER_POSITIONS,
    DECODER_TYPES,
    ENCODER_POSITIONS,
    ENCODER_TYPES,
    FF_TYPES,
    FRAME_GROUPS,
    NORM_TYPES,
    PRE_DECODER_TYPES,
    PRE_ENCODER_TYPES,
)
from ..config.recipes import AUGMENT_PROFILES, RECIPES
from ..config.tasks import list_tasks
from ..config.training import OPTIMIZERS, PRECISIONS, SCHEDULERS, STRATEGIES, WANDB_MODES
from .parser import Option

NO_FRAME_HEAD = "none"
"""Word after ``--frame-head`` that takes a recipe's head away."""

_NO_ROPE = (
    "this version has no rotary positions in the encoder; pass 0, or use -epe trainable, sinusoidal or none"
)


@dataclass(frozen=True)
class _Section:
    """Makes the options of one group of the help."""

    title: str
    prefix: str
    """Stands before targets that begin with a dot."""

    def __call__(
        self,
        short: str,
        long: str,
        kind: str,
        targets: str,
        help: str,
        *,
        count: int = 1,
        metavar: str = "",
        choices: tuple[str, ...] = (),
        may_be_empty: bool = False,
        only: bool | None = None,
        refusal: str = "",
    ) -> Option:
        """One option; ``targets`` are leaves of the experiment, parted by spaces."""
        leaves = tuple(self.prefix + leaf if leaf.startswith(".") else leaf for leaf in targets.split())
        return Option(
            long, help, short, kind, leaves, count, metavar, choices, self.title, may_be_empty, only, refusal
        )


_run = _Section("run", "trainer")
_command = _Section("command", "")
_data = _Section("task and data", "data")
_audio = _Section("audio", "audio")
_encoder = _Section("encoder (Perceiver-TF)", "model.encoder")
_decoder = _Section("decoder", "model.decoder")
_aids = _Section("aids to fast learning", "model")
_optimisation = _Section("optimisation", "optimizer")
_hardware = _Section("hardware", "trainer")
_augmentation = _Section("augmentation", "augmentation")

OPTIONS: tuple[Option, ...] = (
    _command("-h", "--help", "switch", "", "show this text and exit"),
    _command("", "--help-env", "switch", "", "list the environment variables and exit"),
    _command(
        "",
        "--print-identity",
        "switch",
        "",
        "say whether the run would start from scratch, resume or warm-start, and exit",
    ),
    _command(
        "", "--print-config", "switch", "", "print every value of the run and where it comes from, and exit"
    ),
    _command(
        "",
        "--recipe",
        "text",
        "",
        "named bundle of defaults under the flags and variables",
        choices=tuple(RECIPES),
    ),
    _run("-p", "--project", "text", "project", "folder of runs below the log folder"),
    _run("", "--seed", "int", "seed", "seed of every random draw"),
    _run(
        "",
        "--init-ckpt",
        "text",
        "init_ckpt",
        "warm start: take the weights, and nothing else, from this file",
        metavar="PATH",
        may_be_empty=True,
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
    _audio("-ac", "--audio-codec", "text", ".codec", "front end", choices=CODECS),
    _audio("-hop", "--hop-length", "int", ".hop_length", "STFT hop in samples"),
    _audio("-nmel", "--n-mels", "int", ".n_mels", "bands of -ac melspec"),
    _audio(
        "-if",
        "--input-frames",
        "int",
        ".segment_samples",
        "samples of a segment: 65534 are 4.096 s, 98301 are 6.144 s",
    ),
    _encoder("-enc", "--encoder-type", "text", "model.encoder_type", "encoder", choices=ENCODER_TYPES),
    _encoder(
        "-preenc",
        "--pre-encoder-type",
        "text",
        "model.pre_encoder.type",
        "convolutions in front",
        choices=PRE_ENCODER_TYPES,
    ),
    _encoder("-cout", "--conv-out-channels", "int", "model.pre_encoder.out_channels", "their channels"),
    _encoder(
        "",
        "--conv-time-stride",
        "int",
        "model.pre_encoder.time_stride",
        "frames per frame that leaves -preenc strided: 1 or 2",
    ),
    _encoder(
        "",
        "--harmonics",
        "float",
        "model.pre_encoder.harmonics",
        "multiples of a frequency that -preenc strided sees beside it; needs -ac logspec",
        count=0,
    ),
    _encoder("-nl", "--num-latents", "int", ".num_latents", "latents"),
    _encoder("-dl", "--d-latent", "int", ".d_latent", "width of the latents"),
    _encoder(
        "-dpm", "--perceiver-tf-d-model", "int", ".d_model", "width of the local and temporal transformers"
    ),
    _encoder(
        "-pqk",
        "--perceiver-tf-qk-channels",
        "int",
        ".qk_channels",
        "width of queries and keys, all heads together",
    ),
    _encoder(
        "-pvc", "--perceiver-tf-v-channels", "int", ".v_channels", "width of values, all heads together"
    ),
    _encoder("", "--num-heads", "int", ".num_heads", "attention heads of the encoder"),
    _encoder("-npb", "--num-perceiver-tf-blocks", "int", ".num_blocks", "blocks"),
    _encoder(
        "-npl",
        "--num-perceiver-tf-local-transformers-per-block",
        "int",
        ".num_local_layers",
        "layers over the latents of a frame in each block",
    ),
    _encoder(
        "-npt",
        "--num-perceiver-tf-temporal-transformers-per-block",
        "int",
        ".num_temporal_layers",
        "layers over time in each block",
    ),
    _encoder(
        "-sqr",
        "--sca-use-query-residual",
        "bool",
        ".sca_query_residual",
        "residual around the spectral cross attention",
    ),
    _encoder(
        "",
        "--sca-feed-forward",
        "bool",
        ".sca_feed_forward",
        "feed-forward after the spectral cross attention",
    ),
    _encoder(
        "-atc",
        "--attention-to-channel",
        "bool",
        ".attention_to_channel",
        "keys of that attention are the channels instead of the frequency bins",
    ),
    _encoder("-ff", "--ff-layer-type", "text", ".ff_type", "feed-forward", choices=FF_TYPES),
    _encoder("-wf", "--ff-widening-factor", "int", ".ff_widening", "its widening"),
    _encoder("-act", "--hidden-act", "text", ".hidden_act", "its activation", choices=ACTIVATIONS),
    _encoder("-ln", "--layer-norm-type", "text", ".norm_type", "norms", choices=NORM_TYPES),
    _encoder(
        "-epe",
        "--encoder-position-encoding-type",
        "text",
        ".position_encoding",
        "positions",
        choices=ENCODER_POSITIONS,
    ),
    _encoder(
        "-rp",
        "--rope-partial-pe",
        "bool",
        "",
        "rotary positions on part of a head: only 0 in this version",
        only=False,
        refusal=_NO_ROPE,
    ),
    _encoder(
        "-rk",
        "--rope-apply-to-keys",
        "bool",
        "",
        "rotary positions on keys too: only 0 in this version",
        only=False,
        refusal=_NO_ROPE,
    ),
    _encoder("-edr", "--encoder-dropout-rate", "float", ".dropout", "dropout"),
    _encoder("", "--init-std", "float", ".init_std", "standard deviation of the encoder's starting weights"),
    _decoder("-dec", "--decoder-type", "text", "model.decoder_type", "decoder", choices=DECODER_TYPES),
    _decoder(
        "-predec",
        "--pre-decoder-type",
        "text",
        "model.pre_decoder_type",
        "projection of the encoder's states",
        choices=PRE_DECODER_TYPES,
    ),
    _decoder("", "--d-model", "int", ".d_model", "width"),
    _decoder("", "--decoder-layers", "int", ".num_layers", "layers"),
    _decoder("", "--decoder-heads", "int", ".num_heads", "attention heads"),
    _decoder("", "--d-kv", "int", ".d_kv", "width of one head"),
    _decoder("-dff", "--decoder-ff-layer-type", "text", ".ff_type", "feed-forward", choices=DECODER_FF_TYPES),
    _decoder("-dwf", "--decoder-ff-widening-factor", "int", ".ff_widening", "its widening"),
    _decoder(
        "-dpe",
        "--decoder-position-encoding-type",
        "text",
        ".position_encoding",
        "positions",
        choices=DECODER_POSITIONS,
    ),
    _decoder("", "--decoder-position-scale", "float", ".position_scale", "factor on -dpe sinusoidal"),
    _decoder("-ddr", "--decoder-dropout-rate", "float", ".dropout", "dropout"),
    _decoder(
        "", "--logit-scale", "float", "model.logit_scale", "factor on the logits in training and decoding"
    ),
    _aids(
        "",
        "--frame-head",
        "text",
        ".frame_groups",
        "groups of the frame head on the encoder's states",
        count=0,
        metavar="GROUP ...",
        choices=(*FRAME_GROUPS, NO_FRAME_HEAD),
    ),
    _aids("", "--frame-weight", "float", "objective.frame_weight", "weight of its terms in the loss"),
    _aids(
        "",
        "--frame-until",
        "int",
        "objective.frame_until",
        "step after which they are dropped; 0 keeps them",
        metavar="STEP",
    ),
    _aids(
        "",
        "--memory-positions",
        "text",
        ".memory_positions",
        "time positions on what the decoder attends to",
        choices=("none", "sinusoid"),
    ),
    _aids("", "--memory-norm", "bool", ".memory_norm", "RMS norm on the projected states"),
    _aids(
        "",
        "--shift-embedding-init",
        "text",
        ".shift_embedding_init",
        "start of the embeddings of time tokens",
        choices=("normal", "sinusoid"),
    ),
    _aids(
        "",
        "--soft-shift",
        "float",
        "objective.soft_shift_ms",
        "spread the targets of time tokens by a Gaussian of this width; 0 is hard targets",
        metavar="MS",
    ),
    _optimisation(
        "-lr", "--base-learning-rate", "float", ".learning_rate", "base rate; unset takes the optimizer's own"
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
    _hardware("-pr", "--precision", "text", ".precision", "number format", choices=PRECISIONS),
    _hardware("-st", "--strategy", "text", ".strategy", "one or several processes", choices=STRATEGIES),
    _hardware("-n", "--num-nodes", "int", ".num_nodes", "machines"),
    _hardware(
        "-g", "--num-gpus", "text", ".devices", "processes on each machine: auto or a number", metavar="N"
    ),
    _hardware("-sb", "--sync-batchnorm", "bool", ".sync_batchnorm", "batch norm over all processes"),
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
        "", "--eq-prob", "float", ".eq_prob", "probability that a stem is equalised at random", metavar="P"
    ),
)

GROUPS: tuple[str, ...] = tuple(dict.fromkeys(option.group for option in OPTIONS))
