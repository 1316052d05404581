#!/usr/bin/env bash
# 修改：快速上手：在 CPU 上用自制的小数据集训练同族小模型，几分钟就能看到结果。
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}" 2>/dev/null || echo "${BASH_SOURCE[0]}")")/common.sh"

AMT_EXP_ID="${AMT_EXP_ID:-quickstart}"                      # 修改：每次实质性改动都换一个名字，避免续训到旧实验
QUICKSTART_MINUTES="${QUICKSTART_MINUTES:-10}"
AMT_INIT_CKPT="${AMT_INIT_CKPT:-}"
AMT_WANDB_MODE="${AMT_WANDB_MODE:-disabled}"

args=(
    "${AMT_EXP_ID}"
    --recipe quickstart                                     # 修改：小模型和配套的一组默认值
    --max-minutes "${QUICKSTART_MINUTES}"                   # 修改：按时间预算训练，学习率随之走完
    -wb "${AMT_WANDB_MODE}"
)

AMT_INIT_CKPT="$(resolve_init_ckpt "${AMT_INIT_CKPT}")"
if [[ -n "${AMT_INIT_CKPT}" ]]; then
    args+=(--init-ckpt "${AMT_INIT_CKPT}")                  # 修改：只在给出权重文件时热启动
fi

cd "${src_dir}"
machine_flags="$("${PYTHON}" -c '
from amt.cli.quickstart import machine, train_line

print(*train_line(1.0, 0, **machine())[len(train_line(1.0, 0)) :])
')"
# shellcheck disable=SC2206
args+=(${machine_flags})                                    # 修改：进程数和精度与 make quickstart 相同，由同一段 Python 代码按机器决定
announce "${args[@]}" "$@"
"${PYTHON}" prepare.py quickstart                           # 修改：数据不存在时先生成，已存在则直接返回
exec "${PYTHON}" train.py "${args[@]}" "$@"
