#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Capped scores, a window, a learned bias and dropout of the weights, forms.dsl; a log-sum-exp, logs.dsl:
#   forms.sh DTC DTRUN
# Equal to the serial program in tiles, in rings and in zigzag order, by numbers and by real ranks: what is drawn for a
# query and a key is the same wherever they are.
set -u
dtc=$(readlink -f "$1") dtrun=$(readlink -f "$2")
program=$(cd "$(dirname "$0")" && pwd)/forms.dsl logs=$(cd "$(dirname "$0")" && pwd)/logs.dsl
. "$(dirname "$0")/cases.sh"

cp "$program" program.dsl
for layout in r z h; do
    run "$dtc" program.dsl --parallel $layout --no-kernels --verify --print-after=expand
    exits 0; prints 'equal to the serial program'; prints 'capped.fwd.1.ring'; prints 'capped.bwd.1.ring'
done

losses() { # program, layout and options: of 3 steps, with blocks of 64 queries
    rm -f log
    "$dtc" "$1" -D seq=160 --parallel $2 -o plan >/dev/null 2>&1 && "$dtrun" plan --log log --quiet >/dev/null 2>&1
    sed -n 's/.*"event":"step".*"loss":\([0-9.e+-]*\).*/\1/p' log
}
same() { # two files of losses
    awk 'NR == FNR { x[NR] = $1; next } { n++; d = x[FNR] - $1; if (d < 0) d = -d; if (!(d <= 1e-5 * $1)) bad = 1 }
         END { exit bad || n != 3 }' "$1" "$2"
}
losses program.dsl 'none --unfused' >plain
losses program.dsl none >serial
what='losses in tiles'
holds same plain serial
for layout in b r z h; do
    losses program.dsl $layout >shared
    what="losses of $layout"
    holds same serial shared
done
# Elements that dropout removes count in the comparison.
sed 's/keep = where.*/keep = where(iota[kseq] >= 0 * uniform[batch, heads, seq, kseq](), 1.0, 0)/' program.dsl >kept.dsl
losses kept.dsl none >kept
holds test "$(wc -l <kept)" -eq 3
if same serial kept; then fail 'nothing is dropped'; else passed=$((passed + 1)); fi

# Some functions have results without a value for each key. The parts of such results are merged in
# rings, and keys that belong to no queries are not sent.
cp "$logs" logs.dsl
losses logs.dsl none >serial
for layout in r z d v; do
    losses logs.dsl $layout >shared
    what="losses of logs.dsl, $layout"
    holds same serial shared
done
run "$dtc" logs.dsl --parallel z --no-kernels --print-after=expand; exits 0; prints 'logs.fwd.1.ring'; prints 'logs.bwd.1.ring'
run "$dtc" logs.dsl --parallel v --no-kernels --report --details; exits 0; prints 'all_to_all'; lacks 'maximum over `vocab`'
sed 's/, whole\[vocab\](/, lse[vocab](/' logs.dsl >plain.dsl
run "$dtc" plain.dsl --parallel v --no-kernels --report --details; exits 0; lacks 'all_to_all'; prints 'maximum over `vocab`'

# With tiles, no product computes the scores of all queries.
run "$dtc" program.dsl -D seq=1024 -D head=32 --parallel none --report --details
exits 0; lacks ' 1024 x   1024 x'
# Random numbers with one value for each score are drawn inside of the tile that uses them.
lacks 'rng+lt+where'
finish
