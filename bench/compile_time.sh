#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Whole-process time and peak memory of the compiler: median of 20 runs without kernels, then with kernels, cold and
# cached. Usage: bench/compile_time.sh BUILD [PROGRAM.dsl] [DTC OPTION...]
set -eu
build=${1:?usage: bench/compile_time.sh BUILD [PROGRAM.dsl] [DTC OPTION...]}
here=$(cd "$(dirname "$0")/.." && pwd)
program=${2:-$here/examples/gpt2.dsl}
[ $# -gt 1 ] && shift 2 || shift 1
[ $# -gt 0 ] || set -- --parallel none
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export XDG_CACHE_HOME="$out/cache"
mkdir -p "$XDG_CACHE_HOME"
measure() { # NAME RUNS OPTION...
    name=$1 runs=$2
    shift 2
    : >"$out/times"
    for _ in $(seq "$runs"); do
        begin=$(date +%s%N)
        "$build/dtc" "$program" -o "$out/plan" "$@"
        end=$(date +%s%N)
        echo $(((end - begin) / 1000)) >>"$out/times"
    done
    sort -n "$out/times" | awk -v name="$name" '{ v[NR] = $1 } END {
        printf "%-24s median %8.1f ms   smallest %8.1f ms   %d runs\n", name, v[int((NR + 1) / 2)] / 1000, v[1] / 1000, NR }'
}
measure "without kernels" 20 --no-kernels "$@"
measure "with kernels, cold" 1 "$@"
measure "with kernels, cached" 10 "$@"
"$build/dtc" "$program" -o "$out/plan" --no-kernels "$@" --time-passes
if [ -x /usr/bin/time ]; then
    /usr/bin/time -f "peak resident memory      %M KiB" "$build/dtc" "$program" -o "$out/plan" --no-kernels "$@"
fi
