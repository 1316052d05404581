#!/usr/bin/env bash
# 修改：YourMT3+ 公开的 all_cross_final 混合数据与其完整乐器词表，从头训练。
set -euo pipefail
source "$(dirname "$(readlink -f "${BASH_SOURCE[0]}" 2>/dev/null || echo "${BASH_SOURCE[0]}")")/common.sh"

AMT_EXP_ID="${AMT_EXP_ID:-all_cross_final_scratch}"         # 修改：每次实质性改动都换一个名字，避免续训到旧实验
AMT_TASK="${AMT_TASK:-mt3_full_plus_all_cross_final}"
AMT_DATA_PRESET="${AMT_DATA_PRESET:-all_cross_final}"
AMT_PRECISION="${AMT_PRECISION:-bf16-mixed}"
AMT_OPTIMIZER="${AMT_OPTIMIZER:-AdamW}"
AMT_SCHEDULER="${AMT_SCHEDULER:-cosine}"
AMT_STRATEGY="${AMT_STRATEGY:-ddp}"
AMT_BSZ_SUB="${AMT_BSZ_SUB:-${AMT_BSZ_LOCAL:-16}}"
AMT_BSZ_LOCAL="${AMT_BSZ_LOCAL:-16}"
AMT_LR="${AMT_LR:-1.5e-4}"
AMT_SYNC_BN="${AMT_SYNC_BN:-0}"
AMT_INPUT_FRAMES="${AMT_INPUT_FRAMES:-65534}"
AMT_EVENT_LENGTH="${AMT_EVENT_LENGTH:-2048}"
AMT_VAL_INTERVAL="${AMT_VAL_INTERVAL:-1000}"
AMT_MAX_STEPS="${AMT_MAX_STEPS:-50000}"
AMT_RANDOM_AMP_MIN="${AMT_RANDOM_AMP_MIN:-0.7}"
AMT_RANDOM_AMP_MAX="${AMT_RANDOM_AMP_MAX:-1.3}"
AMT_IAUG_PROB="${AMT_IAUG_PROB:-0.15}"
AMT_XAUG_MAX_K="${AMT_XAUG_MAX_K:-2}"
AMT_PS_MIN="${AMT_PS_MIN:--2}"
AMT_PS_MAX="${AMT_PS_MAX:-2}"
AMT_INIT_CKPT="${AMT_INIT_CKPT:-}"
AMT_WANDB_MODE="${AMT_WANDB_MODE:-online}"
export CUDA_VISIBLE_DEVICES="${CUDA_VISIBLE_DEVICES-0,1,2,3,4,5,6,7}"

args=(
    "${AMT_EXP_ID}"
    -tk "${AMT_TASK}"                                       # 修改：mt3_full_plus -> mt3_full_plus_all_cross_final，词表不变，名字对应公开的混合数据
    -d "${AMT_DATA_PRESET}"                                 # 修改：默认是 musicnet_thickstun_ext_em，这里用公开数据的混合
    -enc perceiver-tf                                       # 修改：t5 -> perceiver-tf，编码器更小，擅长区分多种乐器
    -dec t5
    -nl 26                                                  # 修改：24 -> 26 个 latent，容量略大
    -dl 128
    -dpm 128
    -pqk 128
    -pvc 128
    -npb 3
    -npl 2
    -npt 2
    -sqr 1                                                  # 修改：谱交叉注意力加残差，从头训练更稳
    -atc 1
    -ff mlp
    -wf 1
    -act gelu
    -epe trainable
    -rp 0
    -edr 0.05                                               # 修改：0.1 -> 0.05，数据增强已足够强
    -ddr 0.05
    -ac spec                                                # 修改：melspec -> spec，perceiver-tf 用线性频谱
    -hop 300                                                # 修改：128 -> 300，4.096 秒只有 219 帧，省显存
    -if "${AMT_INPUT_FRAMES}"
    -el "${AMT_EVENT_LENGTH}"                               # 修改：4.096 秒的多乐器片段可能超过 1024 个 token
    -bsz "${AMT_BSZ_SUB}" "${AMT_BSZ_LOCAL}"                # 修改：36 -> 16，长片段更占显存
    -it "${AMT_MAX_STEPS}"                                  # 修改：cosine 需要总步数
    -vit "${AMT_VAL_INTERVAL}"
    -lr "${AMT_LR}"                                         # 修改：AdamW 从头训练的经验值
    -o "${AMT_OPTIMIZER}"                                   # 修改：AdamWScale -> AdamW，学习率含义更直观
    -s "${AMT_SCHEDULER}"
    -pr "${AMT_PRECISION}"
    -st "${AMT_STRATEGY}"
    -n 1
    -g auto
    -sb "${AMT_SYNC_BN}"
    -amp "${AMT_RANDOM_AMP_MIN}" "${AMT_RANDOM_AMP_MAX}"
    -iaug "${AMT_IAUG_PROB}"
    -xk "${AMT_XAUG_MAX_K}"
    -xtau 0.5
    -ps "${AMT_PS_MIN}" "${AMT_PS_MAX}"                     # 修改：±6 -> ±2 半音，人声移调过大不自然
    -w true                                                 # 修改：写出验证集 MIDI，便于试听
    -wb "${AMT_WANDB_MODE}"
)

AMT_INIT_CKPT="$(resolve_init_ckpt "${AMT_INIT_CKPT}")"
if [[ -n "${AMT_INIT_CKPT}" ]]; then
    args+=(--init-ckpt "${AMT_INIT_CKPT}")                  # 修改：只在给出权重文件时热启动
fi

cd "${src_dir}"
announce "${args[@]}" "$@"
exec "${PYTHON}" train.py "${args[@]}" "$@"
