#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One float32 training step of a GPT (4 layers, width 256, 8 heads, context 256, batch 8) beside PyTorch and beside
# the floor (the matrix products of our own step alone), alternating in one run; medians in milliseconds.
#
#   bench/step_vs_pytorch.sh BUILD [ROUNDS] [VOCAB ...]        PYTHON=python with torch (default python3)
set -eu
build=${1:?usage: bench/step_vs_pytorch.sh BUILD [ROUNDS] [VOCAB ...]} rounds=${2:-3}
[ $# -gt 1 ] && shift 2 || shift 1
[ $# -gt 0 ] || set -- 256 50257
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
ninja -C "$build" dtc dtrun bench/gemm_floor >/dev/null
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)]; else print "-" }'; }
ours() { # PLAN FILE
    rm -f "$out/log"
    "$build/dtrun" "$1" --steps 15 --overwrite --log "$out/log" --quiet >/dev/null
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"seconds":\([0-9.e-]*\).*/\1 \2/p' "$out/log" |
        awk '$1 > 3 { print $2 * 1000 }' >"$out/steps"
    median "$out/steps" >>"$2"
}
peer() { # FILE ARGS...
    file=$1; shift
    "$python" "$here/bench/peer_gpt_step.py" "$@" >>"$file" 2>"$out/err" || { tail -n 1 "$out/err" >&2; : >"$file.failed"; }
}
for vocab; do
    "$build/dtc" "$here/bench/gpt_step.dsl" -D vocab="$vocab" --parallel none -o "$out/1.plan"
    "$build/dtc" "$here/bench/gpt_step.dsl" -D vocab="$vocab" --parallel ranks2 -o "$out/2.plan"
    for round in $(seq "$rounds"); do
        ours "$out/1.plan" "$out/ours1"
        "$build/bench/gemm_floor" "$out/1.plan" 10 1 >>"$out/floor1"
        peer "$out/torch1" --vocab "$vocab" --threads 1 --fused
        peer "$out/torch1c" --vocab "$vocab" --threads 1 --fused --compile
        ours "$out/2.plan" "$out/ours2"
        "$build/bench/gemm_floor" "$out/2.plan" 10 2 >>"$out/floor2"
        peer "$out/torch2" --vocab "$vocab" --threads 2 --fused
        peer "$out/torch2c" --vocab "$vocab" --threads 2 --fused --compile
        peer "$out/torchddp" --vocab "$vocab" --ranks 2 --fused
    done
    o1=$(median "$out/ours1") o2=$(median "$out/ours2") f1=$(median "$out/floor1") f2=$(median "$out/floor2")
    row() { # NAME FILE OURS
        [ -s "$2" ] || { printf '  %-34s %10s\n' "$1" "failed"; return; }
        value=$(median "$2")
        printf '  %-34s %10s ms   %5.2f x ours\n' "$1" "$value" "$(echo "$value $3" | awk '{ print $1 / $2 }')"
    }
    echo "vocabulary $vocab, one core"
    row "dtrun, 1 rank" "$out/ours1" "$o1"
    row "floor: matrix products alone" "$out/floor1" "$o1"
    row "PyTorch, 1 thread" "$out/torch1" "$o1"
    row "PyTorch, 1 thread, torch.compile" "$out/torch1c" "$o1"
    echo "vocabulary $vocab, two cores"
    row "dtrun, 2 ranks" "$out/ours2" "$o2"
    row "floor: matrix products alone" "$out/floor2" "$o2"
    row "PyTorch, 2 threads" "$out/torch2" "$o2"
    row "PyTorch, 2 threads, torch.compile" "$out/torch2c" "$o2"
    row "PyTorch DDP, 2 ranks of 1 thread" "$out/torchddp" "$o2"
    echo "step over floor: $(echo "$o1 $f1 $o2 $f2" | awk '{ printf "%.2f on one core, %.2f on two", $1 / $2, $3 / $4 }')"
    rm -f "$out"/ours* "$out"/floor* "$out"/torch*
done
