#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Long fuzzing:  run.sh BUILD [RUNS [SEED]]
# Runs every fuzz program of the build folder (best one with sanitizers) RUNS times, in pieces, each a
# process of its own, since interned names live as long as their process. Stops at the first finding.
set -eu
if [ $# -lt 1 ]; then
    echo "usage: run.sh BUILD [RUNS [SEED]]" >&2
    exit 2
fi
build=$(realpath "$1") runs=${2:-1000000} first=${3:-1}
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rmdir "$folder" 2>/dev/null || true' EXIT
for program in "$build"/tests/fuzz/fuzz_*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    left=$runs seed=$first
    set -- "$program"_*.plan # kinds of damage
    [ -e "$1" ] || shift
    echo "$(basename "$program"): $runs runs from seed $seed"
    while [ "$left" -gt 0 ]; do
        piece=$((left < 50000 ? left : 50000))
        if ! DT_FUZZ_KEEP=$folder "$program" "$piece" "$seed" "$@" >/dev/null; then
            echo "$(basename "$program"): finding with seed $seed; its input may be in $folder" >&2
            exit 1
        fi
        left=$((left - piece)) seed=$((seed + 1))
    done
done
echo "no findings"
