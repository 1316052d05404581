#!/usr/bin/env bash
# Everything that is claimed of a GPU, measured in at most five minutes on one that is lent.
#
#   bash benchmarks/gpu.sh [FOLDER]            results go to FOLDER (default: benchmarks/results/gpu)
#   bash benchmarks/gpu.sh --smoke FOLDER      the same logic at tiny sizes on any machine, in about a minute
#
# Exit status 1 when a figure is missed or a part failed, 0 otherwise; parts for which no time was left are named.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

PYTHON="${AMT_PYTHON:-${here}/../.venv/bin/python}"
if [[ ! -x "${PYTHON}" ]]; then
    PYTHON="$(command -v python3 || command -v python)"
fi
exec "${PYTHON}" "${here}/gpu.py" "$@"
