#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One float32 training step of examples/mamba.dsl (2 layers, width 64, 16 cells, batch 4) over more and more positions, in
# blocks of 64 and one after the other, beside PyTorch: its loop over positions, and its scan of all positions at once
# (peer_mamba_step.py), eager and compiled; alternating in one run, one thread each. A table in Markdown: medians in
# milliseconds, beside the step of dtrun; by how much each has grown since the number of positions before (2 for twice as
# many is linear); the largest peak memory of a process, with all that it loads.
#
#   bench/mamba_vs_pytorch.sh BUILD [ROUNDS] [POSITIONS ...]        PYTHON=python with torch (default python3); OURS=1: without it
#
# bench/linear_vs_pytorch.sh sets another program, its peer, and what the peer's --scan does.
set -eu
build=${1:?usage: bench/mamba_vs_pytorch.sh BUILD [ROUNDS] [POSITIONS ...]} rounds=${2:-3}
[ $# -gt 1 ] && shift 2 || shift 1
[ $# -gt 0 ] || set -- 256 512 1024 2048
here=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
peer=${PEER:-$here/bench/peer_mamba_step.py} scan=${SCAN:-scan of all positions}
compile() { # POSITIONS: steps of mamba in blocks of 64 positions, and one position after the other
    if [ -n "${PROGRAM:-}" ]; then
        "$build/dtc" "$PROGRAM" -D seq="$1" --parallel none --target=cpu -o "$out/1.plan" 2>/dev/null
        return
    fi
    set -- -D batch=4 -D seq="$1" -D layers=2 -D embed=64 -D vocab=256 --data=synthetic --parallel none --target=cpu -D block="$1"
    "$build/dtc" "$here/examples/mamba.dsl" "$@" -o "$out/one.plan" 2>/dev/null
    "$build/dtc" "$here/examples/mamba.dsl" "$@" -D block=64 -o "$out/1.plan" 2>/dev/null
}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
ninja -C "$build" dtc dtrun >/dev/null
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)]; else print "-" }'; }
cat >"$out/peak.py" <<'EOF'
import resource, subprocess, sys  # FILE COMMAND...: appends the peak MiB of the largest process to FILE
code = subprocess.run(sys.argv[2:]).returncode
with open(sys.argv[1], "a") as file:
    print(round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024), file=file)
sys.exit(code)
EOF
ours() { # PLAN FILE
    rm -f "$out/log"
    "$python" "$out/peak.py" "$2.peak" "$build/dtrun" "$1" --steps 8 --log "$out/log" --quiet >/dev/null
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"seconds":\([0-9.e-]*\).*/\1 \2/p' "$out/log" |
        awk '$1 > 2 { print $2 * 1000 }' >"$out/steps"
    median "$out/steps" >>"$2"
}
theirs() { # FILE ARGS...
    file=$1
    shift
    "$python" "$out/peak.py" "$file.peak" "$python" "$peer" "$@" >>"$file" 2>"$out/err" ||
        tail -n 1 "$out/err" >&2
}
row() { # POSITIONS NAME FILE
    value=$(median "$3") before=$(cat "$3.before" 2>/dev/null || echo -)
    echo "$1 $value $before $(median "$out/ours") $(sort -n "$3.peak" | tail -n 1)" | awk -v name="$2" '{
        if ($2 == "-") { printf "| %d | %s | failed | | | |\n", $1, name; exit }
        printf "| %d | %s | %.1f | %.2f | %s | %d |\n", $1, name, $2, $2 / $4,
               $3 == "-" ? "" : sprintf("%.2f", $2 / $3), $5 }'
    [ "$value" = - ] || echo "$value" >"$3.before"
}
echo "| positions | one core | ms | to dtrun | grown | peak MiB |"
echo "|---|---|---|---|---|---|"
for seq; do
    compile "$seq"
    for round in $(seq "$rounds"); do
        ours "$out/1.plan" "$out/ours"
        [ -z "${PROGRAM:-}" ] && ours "$out/one.plan" "$out/one"
        [ -n "${OURS:-}" ] && continue
        theirs "$out/loop" --seq "$seq"
        theirs "$out/scan" --seq "$seq" --scan
        theirs "$out/compiled" --seq "$seq" --scan --compile
    done
    row "$seq" "dtrun, blocks of 64" "$out/ours"
    [ -z "${PROGRAM:-}" ] && row "$seq" "dtrun, one position after the other" "$out/one"
    if [ -z "${OURS:-}" ]; then
        row "$seq" "PyTorch, loop over positions" "$out/loop"
        row "$seq" "PyTorch, $scan" "$out/scan"
        row "$seq" "PyTorch, that with \`torch.compile\`" "$out/compiled"
    fi
    for file in ours one loop scan compiled; do
        rm -f "$out/$file" "$out/$file.peak"
        : >"$out/$file"
    done
done
