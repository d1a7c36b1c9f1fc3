#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dtc verify:  verify.sh DTC EDITLOGICAL
# Plans of a pipeline, of a bucketed layout and of a ring are proved; each edit of a record, of a kernel or of a text of
# the logical section is refused with its reason; --program tells the plan's program from others.
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
edit=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
program=$(cd "$(dirname "$0")" && pwd)/verify.dsl
. "$(dirname "$0")/cases.sh"

cp "$program" program.dsl
for layout in zeros rings staged; do
    run "$dtc" program.dsl --parallel $layout --no-kernels -o $layout.plan; exits 0
    run "$dtc" verify $layout.plan; exits 0; prints 'proved: '; prints 'rates, initial values and what is saved'
    run "$dtc" verify $layout.plan --program program.dsl --parallel $layout --no-kernels
    exits 0; prints 'the same: serial program, data and training'
done
run "$dtc" verify rings.plan; prints 'proved: what ranks do for rings and the zigzag order is that'
run "$dtc" verify zeros.plan; lacks 'rings'
run "$dtc" verify; exits 2
run "$dtc" verify missing; exits 5
run "$dtc" verify program.dsl; exits 5; says 'not a plan'
run "$dtc" program.dsl --program program.dsl; exits 2; says 'dtc verify'

# ---- of which program ----
run "$dtc" verify zeros.plan --program program.dsl --parallel none --no-kernels; exits 0
run "$dtc" verify zeros.plan --program program.dsl --parallel none; exits 1; says 'laid out otherwise'
run "$dtc" verify zeros.plan --program program.dsl --parallel zeros
exits 0; prints 'kernels and the ops of program.dsl'; prints 'not compared: machine code'
for other in '-D embed=16' '-D batch=16' '--set train.seed=8' '--set train.optimizer.lr=0.1' '--set train.steps=5' \
    '--set train.optimizer.clip=2.0' '--set train.optimizer.decay=0.5'; do
    # shellcheck disable=SC2086
    run "$dtc" verify zeros.plan --program program.dsl --parallel none --no-kernels $other
    exits 1; says 'zeros.plan is not a plan of program.dsl'
done
other() { # Arguments: what it is about, sed expression that makes another program
    sed "$2" program.dsl >other.dsl
    run "$dtc" verify zeros.plan --program other.dsl --parallel none --no-kernels
    exits 1; says "$1"
}
other '(in other.dsl:9)' 's/return wo:linear/return 2 * wo:linear/'
other '`add` makes what nothing' 's/x + attention(x)/attention(x) + x/'
other '(in other.dsl:8)' 's/iota.kseq. <= iota/iota[kseq] < iota/'
other 'begins otherwise' 's/normal(0.5)/normal(0.25)/'
sed 's/o = attend/p = attend/; s/](o)/](p)/; s/^dim/\n\ndim/' program.dsl >other.dsl
run "$dtc" verify zeros.plan --program other.dsl --parallel none --no-kernels
exits 0; prints 'the same: serial program, data and training are those of other.dsl'
other 'data or training' 's/synthetic(0, vocab))$/synthetic(1, vocab))/'

# ---- records ----
"$dtc" dump zeros.plan >text
edited() { # reason, sed expression
    what="the plan, edited by $2"
    sed "$2" text >edited
    if cmp -s text edited; then fail "nothing is edited"; fi
    "$dtc" asm edited -o edited.plan >out 2>err || { fail "the reader refuses it"; return; }
    run "$dtc" verify edited.plan; exits 1; says "edited.plan is not proved to do what it says: "; says "$1"
}
field() { # reason, a record's first words, field, value
    edited "$1" "/^$2/{
        / $3=/!s/ # / $3=$4 # /
        s/ $3=[^ ]*/ $3=$4/
    }"
}
for name in steps batch tokens parameters eval_every eval_steps save_every save_keep; do
    field "META record has $name" META $name 9
done
field 'META record has draws' META draws 1
field 'random numbers' META seed 8
field 'SETT record has value' 'SETT name="lr.base"' value 0.2
field 'SETT record has is_whole' 'SETT name="lr.base"' is_whole 1
edited 'SCAL record has formula' '/^SCAL name="@lr"/s/min(/max(/'
edited 'SCAL record has formula' '/^SCAL name="@bias1"/s/updates/step/'
edited '' '/^SCAL name="@bias2"/d'
edited 'SETT records are not those that the program has' '$a\
SETT name="lr.more"'
field 'READ record has sample' READ sample raw
field 'READ record has hi' READ hi 15
field 'READ record has glob' READ glob '"x"'
field 'initial value' 'STOR path="wte"' init_a 0.25
field 'place in checkpoints' 'STOR path="wte"' saved 0
edited 'kernels (KERN, CODE)' 's/^KERN symbol="dt_k0"/KERN symbol="dt_kX"/;s/^KERN symbol="dt_k1"/KERN symbol="dt_k0"/
    s/^KERN symbol="dt_kX"/KERN symbol="dt_k1"/'
edited 'kernels (KERN, CODE)' 's/fmaf(/fmaf (/'

# ---- texts, with their checksums right ----
rewritten() { # plan, text, from, to, reason
    what="$1 with $4 for $3 in $2"
    if "$edit" "$1" "$2" "$3" "$4" edited.plan; then
        run "$dtc" verify edited.plan; exits 1; says "edited.plan is not proved to do what it says: $5"
    else
        fail "nothing is edited"
    fi
}
rewritten zeros.plan serial 'normal(0.5, 0)' 'normal(0.25, 0)' '`param wte` begins otherwise'
rewritten zeros.plan serial 'log(' 'exp(' ''
rewritten zeros.plan placed 'exp(' 'log(' ''
rewritten zeros.plan final 'exp(' 'log(' ''
rewritten zeros.plan facts 'seed=7' 'seed=8' "the plan's META record has seed"
rewritten zeros.plan facts '"lr.warmup" is_whole=1 value=2' '"lr.warmup" is_whole=1 value=3' "the plan's SETT record has value"
rewritten zeros.plan facts 'READ sample' 'XXXX sample' "the plan's XXXX"
rewritten zeros.plan facts 'INPT' 'AXIS' "the plan's"
rewritten rings.plan final 'exp(' 'neg(' ''
rewritten staged.plan final 'slots=2' 'slots=1' ''
finish
