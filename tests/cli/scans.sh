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
for layout in none s z d r; do
    judge $layout
done
# 23 positions are 7 blocks and 2 positions; 2 are no block
judge none -D seq=23; prints 'slice[seq]'
judge d -D seq=2; lacks '.blocks'
# and what is computed again goes along both
judge r -D seq=23

# Blocks of other lengths along the same axis are other axes.
sed 's/scan\[t = 3\]/scan[t = 6]/' program.dsl >lengths.dsl
run "$dtc" lengths.dsl --parallel z --no-kernels --verify; exits 0; prints 'equal to the serial program'

# Ranks gather what blocks give, not the axis.
"$dtc" program.dsl --parallel s --no-kernels --print-after=place >placed 2>&1
grep 'all_gather' placed | grep -v 'text=result' >gathered
holds grep 'seq.[0-9]*.blocks=8' gathered
run grep -v 'seq.[0-9]*.blocks=8' gathered; exits 1

# The same losses, by real ranks.
train() { # layout: its losses
    "$dtc" program.dsl --parallel "$1" -o "$1.plan" >/dev/null 2>&1 && "$dtrun" "$1.plan" --log "$1.log" --quiet >/dev/null 2>&1
    sed -n 's/.*"event":"step".*"loss":\([0-9.e+-]*\).*/\1/p' "$1.log"
}
train none >losses
holds test "$(wc -l <losses)" -eq 3
for layout in s z d; do
    train $layout >other
    what="losses of $layout: $(tr '\n' ' ' <losses) and $(tr '\n' ' ' <other)"
    holds sh -c 'paste losses other | awk "{ n++; d = \$1 - \$2; if (d < 0) d = -d; if (d > 1e-5 * \$1) exit 1 } END { if (n != 3) exit 1 }"'
done

wrong() { # function, sed expression that makes another program
    sed "$2" program.dsl >wrong.dsl
    cmp -s program.dsl wrong.dsl && fail "nothing changed: $2"
    run "$dtc" wrong.dsl --parallel none --no-kernels --verify; exits 1
    says "\`$1\` does not compute in blocks what it returns"
}
wrong linear_attention 's/iota\[t\]\[t -> past\] <= /iota[t][t -> past] < /'
wrong linear_attention 's/return k @t v }/return k @t (2 * v) }/'
wrong linear_attention 's/return q @d h + seen/return seen/'
wrong recurrence 's/return (p \* q, q \* h + g)/return (p * q, h + g)/'
wrong recurrence 's/return (p \* q, q \* h + g)/return (p * q, p * h + g)/'
wrong recurrence 's/return (1, first)/return (1, 0)/'
finish
