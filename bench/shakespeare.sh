#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Trains examples/shakespeare.dsl with seeds 1, 2 and 3 and prints the loss over the whole held-out part and
# the time of each, and their mean. Usage: bench/shakespeare.sh BUILD TEXT [STEPS]
set -eu
build=${1:?usage: bench/shakespeare.sh BUILD TEXT [STEPS]} text=${2:?name the text file} steps=${3:-2000}
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
for seed in 1 2 3; do
    "$build/dtc" "$here/examples/shakespeare.dsl" --set train.seed=$seed -o "$out/$seed.plan"
    begin=$(date +%s.%N)
    "$build/dtrun" "$out/$seed.plan" --data "tinyshakespeare.txt=$text" --steps "$steps" --overwrite --log "$out/$seed.jsonl" --quiet >"$out/$seed.txt"
    end=$(date +%s.%N)
    loss=$(sed -n 's/.*"event":"eval".*"loss":\([0-9.]*\).*/\1/p' "$out/$seed.jsonl" | tail -n 1)
    echo "seed $seed: held-out loss $loss, $(echo "$end $begin" | awk '{ printf "%.1f", $1 - $2 }') s"
    echo "$loss" >>"$out/losses"
done
awk '{ sum += $1; if ($1 > worst) worst = $1 } END { printf "mean %.4f, largest %.4f\n", sum / NR, worst }' "$out/losses"
