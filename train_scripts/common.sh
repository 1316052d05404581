# Shared by the training scripts: private settings, the interpreter, and what is said before a start.
# Sourced, never run. Sets scripts_dir, src_dir and PYTHON.

unset CDPATH  # with it cd prints where it goes
scripts_dir="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
src_dir="$(cd "${scripts_dir}/../src" && pwd)"

# local.env (not in git) holds private settings; what the caller set wins over it.
if [[ -f "${scripts_dir}/local.env" ]]; then
    caller_settings="$(export -p)"
    set -a
    # shellcheck disable=SC1091
    source "${scripts_dir}/local.env"
    set +a
    eval "${caller_settings}" 2>/dev/null || true
fi

# Folders are meant from where the caller stands; the commands run in src/.
for name in AMT_DATA_HOME AMT_LOG_DIR AMT_FAULTHANDLER_LOG_DIR; do
    if [[ -n "${!name:-}" && "${!name}" != /* && "${!name}" != "~"* ]]; then
        export "${name}=${PWD}/${!name}"
    fi
done

# The checkout's own interpreter stands in when python is missing or does not know amt.
PYTHON="${AMT_PYTHON:-python}"
if [[ -z "${AMT_PYTHON:-}" && -x "${src_dir}/../.venv/bin/python" ]] && ! "${PYTHON}" -c "import amt" 2>/dev/null; then
    PYTHON="$(cd "${src_dir}/.." && pwd)/.venv/bin/python"
fi

# Prints the path to start warm from, absolute, or a run's exp@checkpoint; nothing when there is none. Says so
# when a file is missing.
resolve_init_ckpt() {
    local path="$1"
    [[ "${path}" != "~/"* ]] || path="${HOME}/${path#"~/"}"  # in quotes the shell leaves it
    [[ -n "${path}" ]] || return 0
    if [[ -f "${path}" ]]; then
        printf '%s\n' "$(cd "$(dirname "${path}")" && pwd)/$(basename "${path}")"
    elif [[ -f "${src_dir}/${path}" ]]; then
        printf '%s\n' "${src_dir}/${path}"
    elif is_checkpoint_of_a_run "${path}"; then
        printf '%s\n' "${path}"
    else
        echo "修改：未找到 init ckpt=${path}，自动清空并从头训练。" >&2
    fi
}

# Whether the word is exp@checkpoint and there is such a run; train.py finds the file.
is_checkpoint_of_a_run() {
    local word="$1" logs="${AMT_LOG_DIR:-${src_dir}/../logs}" folder
    [[ "${word}" == *@* && "${word%%@*}" != */* ]] || return 1
    [[ "${logs}" != "~/"* ]] || logs="${HOME}/${logs#"~/"}"
    for folder in "${logs}"/*/"${word%@*}"/checkpoints; do
        [[ ! -d "${folder}" ]] || return 0
    done
    return 1
}

# With AMT_DRY_RUN=1 prints the command of train.py and ends the script: nothing is run. (To try a run with
# one step, put --dry-run behind the script's name.) Else says which start will happen and why.
announce() {
    local dry_run="${AMT_DRY_RUN:-}"
    if [[ ! "${dry_run,,}" =~ ^(0|false|no|f|n|off)?$ ]]; then
        printf 'cd %q && ' "${src_dir}"
        printf '%q ' "${PYTHON}" train.py "$@"
        printf '\n'
        exit 0
    fi
    "${PYTHON}" train.py "$@" --print-identity
}
