"""Transcribe WAV files with basic-pitch at several thresholds; runs in basic-pitch's own environment.

Usage: estimate.py OUT.json THRESHOLDS WAV...   with THRESHOLDS like 0.5/0.3,0.6/0.4
Writes {"<onset>/<frame>": {"<file stem>": [[onset_s, offset_s, midi_pitch, amplitude], ...]}}.
"""

import json
import logging
import sys
from pathlib import Path

logging.disable(logging.WARNING)

import basic_pitch  # noqa: E402
from basic_pitch.inference import Model, run_inference  # noqa: E402
from basic_pitch.note_creation import model_output_to_notes  # noqa: E402

MINIMUM_NOTE_SECONDS = 0.08
FRAMES_PER_SECOND = 22050 / 256


def main() -> None:
    out, thresholds, *files = sys.argv[1:]
    weights = next(Path(basic_pitch.__file__).parent.rglob("nmp.onnx"))
    model = Model(weights)
    result: dict = {pair: {} for pair in thresholds.split(",")}
    for name in files:
        output = run_inference(name, model)
        for pair in result:
            onset, frame = map(float, pair.split("/"))
            _, events = model_output_to_notes(
                output,
                onset_thresh=onset,
                frame_thresh=frame,
                min_note_len=round(MINIMUM_NOTE_SECONDS * FRAMES_PER_SECOND),
                min_freq=80.0,
                max_freq=1200.0,
                include_pitch_bends=False,
            )
            result[pair][Path(name).stem] = [
                [float(start), float(end), int(pitch), float(amplitude)]
                for start, end, pitch, amplitude, *_ in events
            ]
    Path(out).write_text(json.dumps(result))


if __name__ == "__main__":
    main()
