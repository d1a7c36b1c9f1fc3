#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Training steps of small GPT, ViT and mixture-of-experts models in float32 and bf16, one rank: medians in milliseconds,
# and where the time goes. With a second build, that one's beside, alternating in one run.
#
#   bench/steps.sh BUILD [OTHER_BUILD] [ROUNDS]
set -eu
build=${1:?usage: bench/steps.sh BUILD [OTHER_BUILD] [ROUNDS]} other=${2:-} rounds=${3:-3}
here=$(cd "$(dirname "$0")/.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
median() { sort -n "$1" | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)]; else print "-" }'; }
plan() ( # BUILD FILE MODEL PRECISION
    case $3 in
    gpt) set -- "$1" "$2" "$4" bench/gpt_step.dsl ;;
    vit) set -- "$1" "$2" "$4" examples/vit.dsl -D batch=8 -D layers=4 -D embed=256 -D heads=4 -D ffn=1024 ;;
    moe) set -- "$1" "$2" "$4" examples/moe.dsl -D batch=16 -D seq=128 -D vocab=1000 -D layers=2 -D embed=256 \
            -D ffn=512 -D kv=2 -D group=2 -D head=64 ;;
    esac
    tool=$1 file=$2 precision=$3 program=$4
    shift 4
    "$tool/dtc" "$here/$program" "$@" --parallel none --data=synthetic --set "train.precision=mixed($precision)" \
        -o "$file" >/dev/null
)
steps() { # BUILD PLAN FILE
    "$1/dtrun" "$2" --steps 13 --overwrite --log "$out/log" --quiet >/dev/null
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"seconds":\([0-9.e-]*\).*/\1 \2/p' "$out/log" |
        awk '$1 > 3 { print $2 * 1000 }' >>"$3"
}
shares() { # TRACE: prints the shares of instructions in the time of its last steps, in percent
    sed -n 's/^{"name":"\([^"]*\)","ph":"X","pid":1,"tid":[34],.*"dur":\([0-9.]*\).*/\2 \1/p' "$1" |
        awk '{ kind = $2 == "gemm" ? "products" : $2 == "read" ? "data" : "kernels"
               n[$2 == "copy" || $2 == "zero" ? "copies" : kind] += $1; all += $1 }
             END { printf "products %.0f %%, kernels %.0f %%, copies %.0f %%, data %.0f %%", 100 * n["products"] / all,
                   100 * n["kernels"] / all, 100 * n["copies"] / all, 100 * n["data"] / all }'
}
for model in gpt vit moe; do
    for precision in f32 bf16; do
        compute="compute = $precision, params = f32, grads = f32"
        plan "$build" "$out/new.plan" "$model" "$compute"
        [ -z "$other" ] || plan "$other" "$out/other.plan" "$model" "$compute"
        rm -f "$out/new" "$out/other"
        for round in $(seq "$rounds"); do
            steps "$build" "$out/new.plan" "$out/new"
            [ -z "$other" ] || steps "$other" "$out/other.plan" "$out/other"
        done
        "$build/dtrun" "$out/new.plan" --steps 4 --trace "$out/trace" --quiet >/dev/null
        now=$(median "$out/new")
        printf '%-4s %-5s %8.1f ms' "$model" "$precision" "$now"
        [ -z "$other" ] || median "$out/other" |
            awk -v now="$now" '{ printf "   the other build %8.1f ms, ratio %.2f", $1, now / $1 }'
        printf '   %s\n' "$(shares "$out/trace")"
    done
done
