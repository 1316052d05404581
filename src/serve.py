"""Transcribe in the browser: ``python serve.py --help``, ``amt-serve`` or ``python -m amt.serve``."""

import os
import sys


def main() -> int:
    """Run the command and return its exit code."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or os.getcwd()) != here]
    try:
        from amt.cli.serve import main as run
    except ModuleNotFoundError as error:
        if error.name != "amt":
            raise
        root = os.path.dirname(here)
        print(f'amt is not installed: run "make" in {root}, or pip install -e "{root}"', file=sys.stderr)
        return 1
    return run()


if __name__ == "__main__":
    sys.exit(main())
