"""Transcribe a WAV file (16 bit, at the model's sample rate) with onnxruntime and numpy alone.

    amt-export CHECKPOINT FOLDER --format onnx
    python examples/transcribe_onnx.py FOLDER song.wav > notes.csv

Windows lie back to back; amt-predict can also let them overlap and drops damaged sequences more carefully.
"""

import json
import sys
import wave
from pathlib import Path

import numpy as np
import onnxruntime

if len(sys.argv) != 3:
    sys.exit(__doc__)
folder, song = Path(sys.argv[1]), Path(sys.argv[2])
if not (folder / "model.json").is_file():
    sys.exit(f"{folder} holds no model.json; amt-export --format onnx makes such a folder")
if not song.is_file():
    sys.exit(f"{song} is not there")
model = json.loads((folder / "model.json").read_text(encoding="utf-8"))
if not model["files"]["encoder"].endswith(".onnx"):
    sys.exit(f"{folder} holds programs of torch.export; amt-export --format onnx writes graphs")
encoder, step = (
    onnxruntime.InferenceSession(folder / model["files"][k]) for k in ("encoder", "decoder_step")
)

try:
    with wave.open(str(song)) as file:
        kind, channels = (file.getframerate(), file.getsampwidth()), file.getnchannels()
        sound = file.readframes(file.getnframes())
except (wave.Error, EOFError) as error:
    sys.exit(f"{song} is no WAV file ({error})")
if kind != (model["sample_rate"], 2):
    sys.exit(f"{song} must have 16 bit and {model['sample_rate']} samples per second")
samples = np.frombuffer(sound, "<i2").reshape(-1, channels)
audio = samples.astype(np.float32).mean(1) / 32768
audio = np.pad(audio, (0, -len(audio) % model["segment_samples"])).reshape(-1, 1, model["segment_samples"])


def write_tokens(window: np.ndarray) -> np.ndarray:
    """Audio (1, 1, S) to one row of token ids for each channel, the likeliest token at each step."""
    _, cross = encoder.run(None, {"audio": window})
    cache, rows = model["cache"], cross.shape[2]
    own = np.zeros((cache["layers"], 2, rows, cache["heads"], 0, cache["width"]), np.float32)
    ids, written, ended = np.full(rows, model["pad_id"]), [], np.zeros(rows, bool)
    while len(written) < model["max_length"] and not ended.all():
        logits, own = step.run(None, {"ids": ids, "own_cache": own, "cross_cache": cross})
        prefix = model["prefix"][len(written) : len(written) + 1]
        ids = np.where(ended, model["pad_id"], prefix[0] if prefix else logits.argmax(1))
        ended |= ids == model["eos_id"]
        written.append(ids)
    return np.stack(written, 1)


notes, sounding = [], {}  # a note that sounds: (channel, program, pitch) to its onset in seconds
for number, window in enumerate(audio):
    start = number * model["segment_samples"] / model["sample_rate"]
    for channel, row in enumerate(write_tokens(window[None]).tolist()):
        now, program, velocity, ties = start, None, None, set()
        for token in row[: row.index(model["eos_id"])] if model["eos_id"] in row else row:
            kinds = [k for k, (first, count) in model["tokens"].items() if 0 <= token - first < count]
            if not kinds:
                continue  # a special or task token
            kind, value = kinds[0], token - model["tokens"][kinds[0]][0]
            key = (channel, program, value)
            if kind == "shift":
                now = (round(start * model["steps_per_second"]) + value) / model["steps_per_second"]
            elif kind == "program":
                program = value
            elif kind == "velocity":
                velocity = value
            elif kind == "drum":
                notes.append((now, now + 0.01, value, 128))
            elif kind == "tie":  # what sounded before and is not named ends here
                for old in [old for old in sounding if old[0] == channel and old not in ties]:
                    notes.append((sounding.pop(old), start, old[2], old[1]))
            elif velocity is None:
                ties.add(key)
            else:
                if key in sounding:
                    notes.append((sounding.pop(key), now, value, program))
                if velocity:
                    sounding[key] = now
notes += [(onset, onset + 0.01, pitch, program) for (_, program, pitch), onset in sounding.items()]
print("onset,offset,pitch,program")
for onset, offset, pitch, program in sorted(notes):
    print(f"{onset:.3f},{offset:.3f},{pitch},{program}")
