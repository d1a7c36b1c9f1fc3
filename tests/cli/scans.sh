#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Functions that go along an axis in blocks, scans.dsl:  scans.sh DTC DTRUN
# Linear attention and a recurrence with its own neutral element: proved to be what they return, equal to the serial program,
# and trained by ranks that share the axis. What says something wrong of itself is refused, and named.
set -u
dtc=$(readlink -f "$1") dtrun=$(readlink -f "$2")
program=$(cd "$(dirname "$0")" && pwd)/scans.dsl
. "$(dirname "$0")/cases.sh"

cp "$program" program.dsl
judge() { # layout, -D ...
    layout=$1
    shift
    run "$dtc" program.dsl --parallel "$layout" "$@" --no-kernels --verify --print-after=place
    exits 0; prints 'equal to the serial program'; prints 'functions compute what they return'
}
for layout in none s z d r o a w m; do # o: an axis of one rank
    judge $layout
done
# 23 positions are 7 blocks and 2 single positions; 2 positions are no block
judge none -D seq=23; prints 'slice[seq]'
judge d -D seq=2; lacks '.blocks'
# values that are recomputed are also computed along both
judge r -D seq=23

# Other merge functions pass their results from rank to rank, too, also in 16 bits.
cp "$(dirname "$program")/scan_merges.dsl" merges.dsl
sed 's/^  steps = 3/  precision = mixed(compute = bf16, params = bf16, master = f32, grads = f32)\n  steps = 3/' merges.dsl >rounded.dsl
for file in merges rounded; do
    run "$dtc" $file.dsl --parallel s --no-kernels --verify --print-after=place
    exits 0; prints 'equal to the serial program'
    for name in rec decay most; do
        holds grep -q "func=$name.blocks.relay mesh={t}" out
    done
    for name in rec decay; do
        holds grep -q "func=$name.blocks.bwd.step.relay mesh={t}" out
    done
done

# Blocks of another length along the same axis make another axis.
sed 's/scan\[t = 3\]/scan[t = 6]/' program.dsl >lengths.dsl
run "$dtc" lengths.dsl --parallel z --no-kernels --verify; exits 0; prints 'equal to the serial program'

# What ranks exchange along the axis is the total of the positions before theirs: one part for each
# rank, not what all blocks give. Arguments: layout, and its lines of the traffic along the axis
crosses() { # layout: lines of the traffic along the axis
    "$dtc" program.dsl --parallel "$1" --report --details -o crossing >/dev/null 2>&1
    grep -E 'prefixes along|input of the loop' crossing >crossed
}
for layout in s d a m; do
    crosses $layout
    what="what crosses in $layout: $(cat crossed)"
    # if the merge is an addition: totals; otherwise values go from rank to rank, for gradients
    # backwards
    holds test "$(grep -c 'all_gather .*prefixes along `seq.3.blocks`' crossed)" -eq 1
    holds grep -q ' shift  .*prefixes along' crossed                                   # else from rank to rank,
    holds grep -q ' shift_back .*prefixes along' crossed                               # and for gradients backwards
    run grep 'input of the loop' crossed; exits 1
done
# If ranks do not have blocks in the order in which totals are passed on, or not one block each,
# parts are gathered.
for layout in z w; do
    crosses $layout
    run grep 'prefixes along' crossed; exits 1
done
"$dtc" program.dsl --parallel s -D seq=12 --report --details -o crossing >/dev/null 2>&1
run grep 'prefixes along' crossing; exits 1

# Real ranks compute the same losses. Argument: layout; prints its losses
train() { # layout: its losses
    "$dtc" program.dsl --parallel "$1" -o "$1.plan" >/dev/null 2>&1 && "$dtrun" "$1.plan" --log "$1.log" --quiet >/dev/null 2>&1
    sed -n 's/.*"event":"step".*"loss":\([0-9.e+-]*\).*/\1/p' "$1.log"
}
train none >losses
holds test "$(wc -l <losses)" -eq 3
for layout in s z d a m; do
    train $layout >other
    what="losses of $layout: $(tr '\n' ' ' <losses) and $(tr '\n' ' ' <other)"
    holds sh -c 'paste losses other | awk "{ n++; d = \$1 - \$2; if (d < 0) d = -d; if (d > 1e-5 * \$1) exit 1 } END { if (n != 3) exit 1 }"'
done

wrong() { # Arguments: function, sed expression that makes another program
    sed "$2" program.dsl >wrong.dsl
    cmp -s program.dsl wrong.dsl && fail "nothing changed: $2"
    run "$dtc" wrong.dsl --parallel none --no-kernels --verify; exits 3
    says "\`$1\` does not compute in blocks what it returns"
}
wrong linear_attention 's/iota\[t\]\[t -> past\] <= /iota[t][t -> past] < /'
wrong linear_attention 's/return k @t v }/return k @t (2 * v) }/'
wrong linear_attention 's/return q @d h + seen/return seen/'
wrong recurrence 's/return (p \* q, q \* h + g)/return (p * q, h + g)/'
wrong recurrence 's/return (p \* q, q \* h + g)/return (p * q, p * h + g)/'
wrong recurrence 's/return (1, first)/return (1, 0)/'
# If the merge has a first element that changes its result, this is refused if everything is
# compared, and otherwise reported (golden/errors/L0209.dsl).
sed 's/neutral() { return -inf }/neutral() { return 0 }/' merges.dsl >wrong.dsl
run "$dtc" wrong.dsl --parallel none --no-kernels; exits 3; says '`most` does not compute in blocks what it returns'
finish
