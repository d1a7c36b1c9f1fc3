#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a GPU does with plans: whether all is right, and how fast. Runs in the tree that bench/gpu/pack.sh made, on a machine
# with a driver and CUDA's libraries and nothing else; PyTorch is measured beside it if python3 has it.
#
#   TREE/run.sh [OUT]          OUT: folder for results.txt and summary.txt (default $OUT, else TREE/out)
#
# Phases, the most important first; each has its seconds, and none begins that could not end in BUDGET seconds (540);
# most end sooner; PHASES="device kernels" runs these alone. Exit code 1 if a value is wrong or a phase failed, 0 else; what was left out is in the summary.
set -u
tree=$(cd "$(dirname "$0")" && pwd)
out=${1:-${OUT:-$tree/out}} budget=${BUDGET:-540} began=$(date +%s)
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
cd "$tree" || exit 2
PATH=$tree/bin:$PATH LD_LIBRARY_PATH=$tree/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export PATH LD_LIBRARY_PATH PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
# CUDA's libraries may be those of a Python package
if [ -z "${VIRTUAL_ENV:-}" ] && command -v "$python" >/dev/null 2>&1; then
    VIRTUAL_ENV=$("$python" -c 'import sys; print(sys.prefix)' 2>/dev/null) && export VIRTUAL_ENV
fi
steps=12 floor_steps=8 patience=1 failed=0 layout_ranks=4
. ./tree.conf
phases=${PHASES:-device kernels products losses layouts nccl windows gpt2 attention pytorch llama graphs epilogues} budget=$((budget * patience))
results=$out/results.txt summary=$out/summary.txt scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
: >"$results"
: >"$summary"
note() { echo "$*" | tee -a "$summary"; }
gone() { echo $(($(date +%s) - began)); }

# phase TITLE SECONDS FUNCTION: runs the function with a time limit. Its output goes to the
# results; what it writes to descriptor 3 also goes to the summary
phase() {
    title=$1 seconds=$(($2 * patience)) what=$3
    case " $phases " in *" $what "*) ;; *) return ;; esac
    if [ $(($(gone) + seconds)) -gt "$budget" ]; then
        note "$title: left out, $((budget - $(gone))) of $budget s are left and it may take $seconds"
        return
    fi
    echo "== $title ($(gone) s)" | tee -a "$results"
    : >"$scratch/short"
    limit=$(($(date +%s) + seconds))
    "$what" >"$scratch/said" 2>&1 3>"$scratch/short"
    code=$?
    cat "$scratch/said" >>"$results"
    verdict=ok
    [ $code -eq 0 ] || { verdict=FAILED failed=$((failed + 1)); tail -n 15 "$scratch/said"; }
    [ $code -ne 99 ] || { verdict="left out" failed=$((failed - 1)); }
    note "$title: $verdict"
    sed 's/^/    /' "$scratch/short" | tee -a "$summary"
}
# Runs one command with what is left of the phase's time.
left() { s=$((limit - $(date +%s))); [ $s -gt 0 ] || s=1; echo $s; }
within() {
    timeout -k 3 "$(left)" "$@"
    code=$?
    [ $code -ne 124 ] || echo "did not end in its time: $*"
    return $code
}

device() {
    command -v nvidia-smi >/dev/null 2>&1 && within nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm --format=csv
    uname -sr
    cat version.txt
    within dtrun --gpus >"$scratch/gpus"
    code=$?
    cat "$scratch/gpus"
    cat "$scratch/gpus" >&3
    return $code
}
# The name of the first GPU; its copy rate in GB/s; TFLOP/s of its products in 16 bits by the data
# sheet (lib/devices.dsl), 0 for an unknown GPU. PEAK overrides the latter.
first_gpu() {
    [ -s "$scratch/json" ] || within dtrun --gpus --json >"$scratch/json" 2>/dev/null
    sed -n 's/^\[{"name":"\([^"]*\)",[^}]*"copies":\([-+0-9.e]*\)}.*/\1 \2/p' "$scratch/json"
}
rate_of_copies() { first_gpu | awk '{ print $NF / 1e9 }'; }
peak_of() {
    [ -z "${PEAK:-}" ] || { echo "$PEAK"; return; }
    case $(first_gpu) in
    *B200*) echo 2250 ;;
    *H100*PCIe*) echo 756 ;;
    *H100*NVL* | *H200*NVL*) echo 835 ;;
    *H100* | *H200* | *H800*) echo 989 ;;
    *A100* | *A800*) echo 312 ;;
    *L40S*) echo 362 ;;
    *) echo 0 ;;
    esac
}
kernels() {
    wrong=0
    for record in recorded/*.record.gz; do
        name=$(basename "$record" .record.gz)
        gzip -dc "$record" >"$scratch/record"
        echo "-- $name"
        within dtrun "plans/kernels-$name.plan" --quiet --steps 1 --attention generated --compare "$scratch/record" >"$scratch/compared" 2>&1 || wrong=1
        cat "$scratch/compared"
        echo "$name: $(grep 'instructions compared' "$scratch/compared" || tail -n 1 "$scratch/compared")" >&3
    done
    return $wrong
}
products() {
    within dtrun plans/products.plan --quiet --steps $((floor_steps + 2)) --profile >"$scratch/table" || { cat "$scratch/table"; return 1; }
    cat "$scratch/table"
    grep ' gemm ' "$scratch/table" | head -n 3 >&3
    awk '/ gemm / && $5 > best { best = $5 } END { print best + 0 }' "$scratch/table" >"$scratch/best"
}
# run_losses LIST OPTION...
run_losses() {
    list=$1 wrong=0
    shift
    while read -r name n first all data; do
        # shellcheck disable=SC2086
        within dtrun "plans/losses-$name.plan" --quiet --steps "$n" $data "$@" --overwrite --log "$scratch/$name.jsonl" ||
            { echo "$name: failed" >&3; wrong=1; continue; }
        awk -v first="$first" -v all="$all" -f losses.awk "recorded/$name.jsonl" "$scratch/$name.jsonl" >"$scratch/losses" || wrong=1
        cat "$scratch/losses"
        echo "$name: $(tail -n 1 "$scratch/losses")" >&3
    done <"$list"
    return $wrong
}
losses() { run_losses losses.txt; }
layouts() { run_losses layouts.txt --share-gpu; }
# Runs the same programs with their steps captured as graphs.
graphs() { run_losses losses.txt --graph; }
# Runs the layouts, with a GPU for each rank, over NCCL; then with windows of the memory that
# collectives access.
by_nccl() {
    gpus=$(dtrun --gpus 2>/dev/null | grep -c '^GPU ')
    [ "$gpus" -ge "$layout_ranks" ] || { echo "$gpus GPU(s), and the layouts have up to $layout_ranks ranks" >&3; return 99; }
    run_losses layouts.txt --comm nccl "$@"
}
nccl() { by_nccl; }
windows() {
    by_nccl --windows
    code=$?
    ! grep -q -e '--windows needs' "$scratch/said" || { echo "NCCL is too old" >&3; return 99; }
    return $code
}
# median PLAN: prints the median of its steps in ms, and writes it to $scratch/PLAN.ms
median() {
    within dtrun "plans/$1.plan" --quiet --steps $((steps + 2)) --overwrite --log "$scratch/$1.jsonl" || return 1
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"seconds":\([0-9.e-]*\).*/\1 \2/p' "$scratch/$1.jsonl" |
        awk '$1 > 2 { printf "%.3f\n", $2 * 1000 }' | sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] + 0, NR }' >"$scratch/$1.ms"
    awk -v name="$1" '{ print name ": " $1 " ms a step, of " $2 }' "$scratch/$1.ms" | tee "$scratch/median"
    cat "$scratch/median" >&3
}
# step PLAN: the same, and where the time goes, and what the step would take at the rates of copies
# and of large products
step() {
    median "$1" || return 1
    within dtrun "plans/$1.plan" --quiet --steps 4 --profile >"$scratch/table" || { cat "$scratch/table"; return 1; }
    cat "$scratch/table"
    sed -n 1,12p "$scratch/table" >&3
    # the model's operations; only those of products if the plan names no device
    flops=$(dtc report "plans/$1.plan" --json 2>/dev/null |
        awk -F'[:,]' '$1 ~ /"model_flops"/ { m = $2 + 0 } $1 ~ /^  "flops"/ { f = $2 } END { print m ? m : f }')
    awk -v ms="$(cut -d' ' -f1 "$scratch/$1.ms")" -v copies="$(rate_of_copies)" -v best="$(cat "$scratch/best" 2>/dev/null)" \
        -v peak="$(peak_of)" -v flops="$flops" -f bounds.awk "$scratch/table" >"$scratch/bounds"
    cat "$scratch/bounds"
    cat "$scratch/bounds" >&3
}
gpt2() { step gpt2; }
# The same program with the epilogues of products in kernels of their own.
epilogues() {
    median gpt2-none || return 1
    [ -s "$scratch/gpt2.ms" ] || return 0
    awk 'NR == FNR { with = $1; next } { printf "with epilogues %.3f of the time without\n", with / $1 }' "$scratch/gpt2.ms" "$scratch/gpt2-none.ms" | tee "$scratch/ratio"
    cat "$scratch/ratio" >&3
}
# GPT-2 with attention by the plan's own kernels and by cuDNN: both must give similar losses; and
# where their time goes.
attention() {
    for by in generated cudnn; do
        within dtrun plans/gpt2.plan --quiet --steps 5 --profile --attention $by --overwrite --log "$scratch/$by.jsonl" >"$scratch/table" 2>&1 || {
            cat "$scratch/table"
            [ $by = generated ] && return 1
            head -n 3 "$scratch/table" >&3
            return 99
        }
        cat "$scratch/table"
        echo "$by:" >&3
        grep 'dot+.*exp' "$scratch/table" | head -n 3 >&3
    done
    awk -v first=0.004 -v all=0.02 -f losses.awk "$scratch/generated.jsonl" "$scratch/cudnn.jsonl" >"$scratch/losses"
    code=$?
    cat "$scratch/losses"
    cat "$scratch/losses" >&3
    return $code
}
llama() { [ -f plans/llama_1b.plan ] || { echo "not in the tree" >&3; return 99; }; step llama_1b; }
pytorch() {
    "$python" -c 'import torch, sys; sys.exit(0 if torch.cuda.is_available() else 1)' 2>/dev/null || { echo "no PyTorch that sees a GPU" >&3; return 99; }
    within "$python" peer_gpt2.py --steps $((steps * 2)) >"$scratch/torch"
    code=$? # its output before it failed counts
    cat "$scratch/torch"
    cat "$scratch/torch" >&3
    if [ -s "$scratch/gpt2.ms" ]; then
        awk 'NR == FNR { ours = $1; next } match($0, /(eager|torch.compile): [0-9.]+ ms/) { split(substr($0, RSTART, RLENGTH), w, /: | /); printf "our step is %.3f of that of %s\n", ours / w[2], w[1] }' \
            "$scratch/gpt2.ms" "$scratch/torch" | tee "$scratch/ratio"
        cat "$scratch/ratio" >&3
    fi
    [ -s "$scratch/torch" ] && return $code
    return 1
}

phase "device and libraries" 20 device
phase "instructions beside recorded ones" 60 kernels
phase "rates of products" 90 products
phase "losses beside the CPU's" 60 losses
phase "layouts, ranks sharing the GPU" 30 layouts
phase "layouts, ranks with a GPU each, by NCCL" 30 nccl
phase "the same with windows" 30 windows
phase "step of GPT-2" 60 gpt2
phase "attention of GPT-2 by cuDNN beside the plan's" 40 attention
phase "step of GPT-2 in PyTorch" 100 pytorch
phase "step of a Llama of 1B" 60 llama
phase "losses, steps as graphs" 60 graphs
phase "step of GPT-2 without epilogues" 40 epilogues
note "$failed phases failed, $(gone) s"
[ $failed -eq 0 ]
