#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Functions that say how they stream:  streams.sh DTC
# Attention with sinks, and with gates instead of a softmax, in streams.dsl: equal to the serial program in tiles, in rings,
# in zigzag order, beside other axes. What says something wrong of itself is refused, and named.
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
program=$(cd "$(dirname "$0")" && pwd)/streams.dsl
. "$(dirname "$0")/cases.sh"

cp "$program" program.dsl
for layout in none r z d h; do
    run "$dtc" program.dsl --parallel $layout --no-kernels --verify --print-after=expand
    exits 0; prints 'equal to the serial program'
    case $layout in
    none) prints 'stream=kseq'; lacks '.ring' ;;
    *) prints 'sunk.fwd.1.ring'; prints 'sunk.bwd.1.ring'; prints 'gated.bwd.1.ring'
       prints 'what ranks do for rings and the zigzag order is that' ;;
    esac
done

# In 16 bits: the gradient of a sink, which lacks the axis, is summed over blocks in 16 bits.
sed 's/^  steps = 3/  precision = mixed(compute = f16, params = f32, grads = f32, loss_scale = 256)\n  steps = 3/' program.dsl >half.dsl
for layout in r d; do
    run "$dtc" half.dsl --parallel $layout --no-kernels --verify; exits 0; prints 'equal to the serial program'
done

wrong() { # Arguments: the message, the sed expression that makes another program
    sed "$2" program.dsl >wrong.dsl
    cmp -s program.dsl wrong.dsl && fail "nothing changed: $2"
    run "$dtc" wrong.dsl --parallel r --no-kernels --verify; exits 3; says "$1"
    for internal in means= .fwd. .ring %; do
        holds sh -c "! grep -qF -- '$internal' err"
    done
}
merge='of the parts of two blocks this does not make that of one block that is both'
whole='of all of `kseq` as one block this and `finish` give something else than `return`'
wrong "$merge" 's/u \* a + u2 \* b)/u * a + u2 * a)/'
wrong "$merge" 's/l \* a + l2 \* b, u/l + l2 * b, u/'
wrong "$merge" 's/(max(m, m2), l/(m, l/'
wrong "$whole" 's|return u \* a / (l \* a + exp(sink - most))|return u * a / (l * a)|'
says '`sunk` is not what its blocks come to'
wrong "$whole" 's/^  finish(u) { return u }/  finish(u) { return u * u }/'
says '`gated` is not what its blocks come to'
wrong 'or this does not give the part that the gradient takes' \
    's/return (m, sum\[t\](e), f32(e @t v))/return (m, sum[t](e) * 2, f32(e @t v))/'
wrong 'the gradient that `sunk` states is not its derivative' 's/dz @s q, p @s dy, -r/dz @s q, p @s dy, r/'
finish
