#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Attention with learned biases and temperatures, capped scores, windows, gates, sinks, tiles.dsl:  tiles.sh DTC DTRUN
# Forwards and backwards in tiles, and in rings of 2 and of 4, in zigzag order too; gradients, those of a bias that each
# query and key has among them, are those of what the functions return, written out (--unfused) and by --verify.
set -u
dtc=$(readlink -f "$1") dtrun=$(readlink -f "$2")
program=$(cd "$(dirname "$0")" && pwd)/tiles.dsl
. "$(dirname "$0")/cases.sh"

cp "$program" program.dsl
for layout in none r z; do
    run "$dtc" program.dsl --parallel $layout --no-kernels --verify --print-after=expand
    exits 0; prints 'equal to the serial program'
    for name in biased attend capped gated sunk; do
        if [ $layout = none ]; then prints "func $name.bwd : fn stream=kseq"; else prints "$name.bwd.1.ring"; fi
    done
done

# No product computes the scores of all queries, neither with a mask nor without.
run "$dtc" program.dsl -D seq=1024 -D head=32 --parallel none --report --details
exits 0; prints ' 128 x   1024 x'; lacks ' 1024 x   1024 x'

steps() { # layout, options: losses and norms of 3 steps
    rm -f log
    "$dtc" program.dsl -D seq=160 --parallel "$@" -o plan >/dev/null 2>&1 &&
        "$dtrun" plan --log log --quiet >/dev/null 2>&1
    sed -n 's/.*"event":"step".*"loss":\([0-9.e+-]*\).*"grad_norm":\([0-9.e+-]*\).*/\1 \2/p' log
}
same() { # two files of losses and norms
    awk 'function far(x, y) { x -= y; return (x < 0 ? -x : x) > 1e-5 * y }
         NR == FNR { loss[NR] = $1; norm[NR] = $2; next } { n++; bad = bad || far(loss[FNR], $1) || far(norm[FNR], $2) }
         END { exit bad || n != 3 }' "$1" "$2"
}
steps none --unfused >plain
steps none >tiles
steps h >shared
what='steps in tiles'; holds same plain tiles
what='steps in a ring'; holds same plain shared
finish
