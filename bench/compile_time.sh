#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whole-process time and peak memory of the compiler: median of 20 runs without kernels, then with kernels, cold and
# cached. Usage: bench/compile_time.sh BUILD [PROGRAM.dsl] [DTC OPTION...]
# Without a program: GPT-2 serial and in its layout, Llama 3 8B on 128 ranks, a GPT of 10^12 parameters on 3,072 by three
# schedules, each also with other numbers of replicas and micro-batches, and with 32 and 128 layers on 16 stages.
set -eu
build=${1:?usage: bench/compile_time.sh BUILD [PROGRAM.dsl] [DTC OPTION...]}
here=$(cd "$(dirname "$0")/.." && pwd)
if [ $# -eq 1 ]; then
    "$0" "$build" "$here/examples/gpt2.dsl" --parallel none -D batch=32
    export LAYOUT_ONLY=1
    "$0" "$build" "$here/examples/gpt2.dsl"
    "$0" "$build" "$here/examples/llama3_8b.dsl" --parallel d3
    trillion="$here/examples/gpt_1t.dsl"
    for schedule in interleaved_1f1b 1f1b zb_h1; do
        chunks=1
        [ $schedule != interleaved_1f1b ] || chunks=2
        set -- --set "parallel.pipeline.schedule=$schedule" --set parallel.pipeline.chunks=$chunks
        # gradients that are computed later (W) need so much memory that 80 GB are not enough
        [ $schedule != zb_h1 ] || set -- "$@" --set cluster.gpu=b200
        "$0" "$build" "$trillion" "$@"
        # Changes that should not cost any compile time: more replicas, micro-batches, layers.
        "$0" "$build" "$trillion" "$@" --set parallel.mesh.data=1 --set cluster.nodes=64 -D batch=512
        "$0" "$build" "$trillion" "$@" --set parallel.mesh.data=48 --set cluster.nodes=3072 -D batch=24576
        "$0" "$build" "$trillion" "$@" --set parallel.micro.batch=64 -D batch=384
    done
    for layers in 32 128; do
        "$0" "$build" "$trillion" -D layers=$layers --set parallel.mesh.pipe=16 --set cluster.nodes=96
    done
    exit 0
fi
program=$2
shift 2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export XDG_CACHE_HOME="$out/cache"
mkdir -p "$XDG_CACHE_HOME"
measure() { # Arguments: NAME RUNS OPTION...
    name=$1 runs=$2
    shift 2
    : >"$out/times"
    for _ in $(seq "$runs"); do
        begin=$(date +%s%N)
        "$build/dtc" "$program" -o "$out/plan" "$@" 2>"$out/err"
        end=$(date +%s%N)
        echo $(((end - begin) / 1000)) >>"$out/times"
    done
    sort -n "$out/times" | awk -v name="$name" '{ v[NR] = $1 } END {
        printf "%-24s median %8.1f ms   smallest %8.1f ms   %d runs\n", name, v[int((NR + 1) / 2)] / 1000, v[1] / 1000, NR }'
}
echo "$(basename "$program") $*"
"$build/dtc" "$program" -o "$out/plan" --no-kernels "$@" 2>"$out/err" || { grep '^error' "$out/err" | head -2; echo; exit 0; }
measure "without kernels" 20 --no-kernels "$@"
if [ -z "${LAYOUT_ONLY:-}" ]; then
    measure "with kernels, cold" 1 "$@"
    measure "with kernels, cached" 10 "$@"
fi
"$build/dtc" "$program" -o "$out/plan" --no-kernels "$@" --time-passes 2>&1 | grep -E '^[a-z, ]+ [0-9.]+ ms' || :
echo "plan                     $(wc -c <"$out/plan") bytes"
if [ -x /usr/bin/time ]; then
    /usr/bin/time -f "peak resident memory      %M KiB" "$build/dtc" "$program" -o "$out/plan" --no-kernels "$@" 2>&1 | tail -n 1
fi
