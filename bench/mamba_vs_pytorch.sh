#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One float32 training step of examples/mamba.dsl (2 layers, width 64, 16 cells, batch 4) over more and more positions,
# beside PyTorch: its loop over positions, and its scan of all positions at once (peer_mamba_step.py), eager and
# compiled; alternating in one run, one thread each; medians in milliseconds.
#
#   bench/mamba_vs_pytorch.sh BUILD [ROUNDS] [POSITIONS ...]        PYTHON=python with torch (default python3)
set -eu
build=${1:?usage: bench/mamba_vs_pytorch.sh BUILD [ROUNDS] [POSITIONS ...]} rounds=${2:-3}
[ $# -gt 1 ] && shift 2 || shift 1
[ $# -gt 0 ] || set -- 256 512 1024 2048
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
ninja -C "$build" dtc dtrun >/dev/null
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)]; else print "-" }'; }
ours() { # PLAN FILE
    rm -f "$out/log"
    "$build/dtrun" "$1" --steps 8 --log "$out/log" --quiet >/dev/null
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"seconds":\([0-9.e-]*\).*/\1 \2/p' "$out/log" |
        awk '$1 > 2 { print $2 * 1000 }' >"$out/steps"
    median "$out/steps" >>"$2"
}
peer() { # FILE ARGS...
    file=$1; shift
    "$python" "$here/bench/peer_mamba_step.py" "$@" >>"$file" 2>"$out/err" || tail -n 1 "$out/err" >&2
}
row() { # NAME FILE OURS
    [ -s "$2" ] || { printf '  %-34s %10s\n' "$1" "failed"; return; }
    value=$(median "$2")
    printf '  %-34s %10s ms   %5.2f x ours\n' "$1" "$value" "$(echo "$value $3" | awk '{ print $1 / $2 }')"
}
before=
for seq; do
    "$build/dtc" "$here/examples/mamba.dsl" -D batch=4 -D seq="$seq" -D layers=2 -D embed=64 -D vocab=256 \
        --data=synthetic --parallel none -o "$out/1.plan" 2>/dev/null
    for round in $(seq "$rounds"); do
        ours "$out/1.plan" "$out/ours"
        peer "$out/loop" --seq "$seq"
        peer "$out/scan" --seq "$seq" --scan
        peer "$out/compiled" --seq "$seq" --scan --compile
    done
    o=$(median "$out/ours")
    echo "$seq positions, one core"
    row "dtrun, 1 rank" "$out/ours" "$o"
    row "PyTorch, loop over positions" "$out/loop" "$o"
    row "PyTorch, scan of all positions" "$out/scan" "$o"
    row "PyTorch, that with torch.compile" "$out/compiled" "$o"
    [ -z "$before" ] || echo "$seq $before $o" | awk '{ printf "  grown %.2f times for %.2f times the positions\n", $4 / $3, $1 / $2 }'
    before="$seq $o"
    rm -f "$out/ours" "$out/loop" "$out/scan" "$out/compiled"
done
