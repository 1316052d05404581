"""What is claimed of training on a GPU, measured on the one at hand: see ``benchmarks/gpu.sh``.

Writes ``gpu.json`` and ``gpu.md`` with the name of the card. Parts that no longer fit into the time are left
out and said to be; ``--smoke`` runs the same code at tiny sizes on any machine, where no target counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from gpu_bench import Bench, row

from amt.training.memory import GIB

LIMIT_SECONDS = 300.0


def card_of(device: torch.device) -> dict[str, Any]:
    """The machine, by name."""
    card: dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        card |= {"name": properties.name, "memory_gib": properties.total_memory / GIB}
        card["capability"] = f"{properties.major}.{properties.minor}"
    else:
        card |= {"name": "CPU", "memory_gib": None, "capability": ""}
    return card


def write_result(folder: Path, bench: Bench, card: dict[str, Any], parts: dict[str, dict[str, Any]]) -> None:
    """``gpu.json`` and ``gpu.md`` with what there is so far."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = [asdict(figure) for figure in bench.figures]
    result = {"card": card, "smoke": bench.smoke, "parts": parts, "figures": figures}
    (folder / "gpu.json").write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    head = [
        f"{card['name']}, torch {card['torch']}, CUDA {card['cuda']}",
        "",
        "| | measured | target | met |",
    ]
    table = [*head, "|---|---|---|---|", *(row(figure) for figure in bench.figures)]
    (folder / "gpu.md").write_text("\n".join(table) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    default = Path(__file__).resolve().parent / "results" / "gpu"
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes, any machine")
    options = parser.parse_args()
    device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cpu" and not options.smoke:
        parser.error("there is no GPU here; --smoke tries the script at tiny sizes")
    if device.type == "cpu":
        torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    began = time.monotonic()
    bench, card = Bench(options.smoke, device), card_of(device)
    print(f"{card['name']}, torch {card['torch']}, CUDA {card['cuda']}", flush=True)
    parts: dict[str, dict[str, Any]] = {}
    for name, part, needs in (
        ("memory", bench.memory, 30),
        ("speed", bench.speed, 40),
        ("optimizer", bench.optimizer, 10),
        ("parity", bench.parity, 40),
        ("data", bench.data_wait, 90),
        ("compile", bench.compiling, 90),
    ):
        start = time.monotonic()
        if start - began + needs > LIMIT_SECONDS:
            parts[name] = {"left_out": f"less than {needs} s of {LIMIT_SECONDS:g} were left"}
            print(f"{name}: left out, {parts[name]['left_out']}", flush=True)
            continue
        try:
            with bench.released():
                part()
            parts[name] = {}
        except Exception as error:  # the other parts are worth having
            parts[name] = {"error": f"{type(error).__name__}: {error}"}
            print(f"{name}: {parts[name]['error']}", flush=True)
        parts[name]["seconds"] = round(time.monotonic() - start, 1)
        write_result(options.folder, bench, card, parts)  # a lent machine may go at any time
    print(f"{time.monotonic() - began:.0f} s; {options.folder / 'gpu.json'}, gpu.md", flush=True)
    failed = any("error" in part for part in parts.values())
    return int(failed or any(figure.met is False for figure in bench.figures))


if __name__ == "__main__":
    sys.exit(main())
