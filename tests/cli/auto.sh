#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `auto`: what it chooses compiles and trains as its text does, what a block says already stays, and what cannot be
# chosen is refused with a cause. Usage: auto.sh DTC DTRUN, from the root of the tree.
tree=$PWD
dtc=$(realpath "$1") dtrun=$(realpath "$2")
. "$tree/tests/cli/cases.sh"
export DTC_LIBRARY="$tree/lib"
cp "$tree/tests/cli/auto.dsl" .
compile() { run "$dtc" auto.dsl --library "$tree/lib" "$@"; }
losses() { sed -n 's/.*"loss": *\([-0-9.e]*\).*/\1/p' "$1"; }

# The printed text, pasted into the program, is the layout: the same step, and the same losses as on one rank.
compile --parallel open --target=cpu -o chosen.plan
exits 0; says "auto: "; says "parallel open on two {"; says "layouts; parts of"
compile --parallel open --emit=layout
exits 0; prints "parallel open on two {"
{ sed '/^parallel open/d' auto.dsl; cat out; } >pasted.dsl
run "$dtc" pasted.dsl --library "$tree/lib" --parallel open --target=cpu -o pasted.plan
exits 0; lacks "auto"
run "$dtc" auto.dsl --library "$tree/lib" --parallel none --target=cpu -o serial.plan
exits 0
for plan in chosen pasted serial; do
    run "$dtrun" $plan.plan --log $plan.jsonl --quiet
    exits 0
    losses $plan.jsonl >$plan.losses
done
holds cmp chosen.losses pasted.losses
holds test "$(wc -l <serial.losses)" -eq 3
holds python3 -c "
a, b = ([float(x) for x in open(f)] for f in ('chosen.losses', 'serial.losses'))
assert len(a) == len(b) and all(abs(x - y) < 1e-5 * abs(y) for x, y in zip(a, b))"

# What was measured stands beside what was predicted.
run "$dtrun" pasted.plan --trace trace.json --quiet
exits 0
run "$dtc" pasted.dsl --library "$tree/lib" --parallel open --target=cpu --report --measured trace.json
exits 0; prints "measured: 3 steps of 2 ranks"; prints "matrix products"; prints "farthest off"
run "$dtc" pasted.dsl --library "$tree/lib" --parallel none --target=cpu --report --measured pasted.dsl
exits 5; says "cannot read the trace"
echo '{"traceEvents": [{"name": "step 0", "dur": 1, "args": {"inst": 99999999}}]}' >wrong.json
run "$dtc" pasted.dsl --library "$tree/lib" --parallel open --target=cpu --report --measured wrong.json
exits 5; says "not a trace of this plan"
run "$dtc" pasted.dsl --library "$tree/lib" --parallel open --measured trace.json
exits 2; says "--measured belongs to --report"
run "$dtc" compare pasted.plan pasted.plan --measured trace.json
exits 2; says "belongs to the report of one plan"
run "$dtc" report pasted.plan --measured trace.json
exits 2; says "does not say what device"

# Lines of the block stay.
compile --parallel pipes --emit=layout
exits 0; prints "mesh pipe = 4, data = 2"; prints "pipeline h on pipe"; prints "micro batch = 4"; prints "shard batch on data"
compile --parallel tensors --emit=layout
exits 0; prints "tp = 4"; prints "dp = 2"; prints "  remat h"; prints "on tp"; prints "shard batch on dp"
compile --parallel shards --emit=layout
exits 0; prints "shard heads on left"; prints "shard batch on right"; prints "left = 4"; prints "right = 2"
compile --parallel shards --add 'zero 2 on right' --emit=layout
exits 0; prints "zero 2 on right"

# So many devices as cost least; the fewest bytes; for programs.
compile --parallel many --emit=layout
exits 0; says "auto:      2 devices"; says "auto:     16 devices"; says "(--set pairs.nodes=1)"; prints "parallel many on pairs {"
compile --parallel many --set "parallel.auto.minimise=step_time" --emit=layout
exits 0
compile --parallel least --report=json
exits 0; says "auto: a step takes"
compile --parallel open --json --report
exits 0
holds python3 -c "
import json
said = [json.loads(line) for line in open('err')]
auto = next(x['auto'] for x in said if 'auto' in x)
assert auto['step'] > 0 and auto['low'] < auto['step'] < auto['high'] and auto['bytes'] > 0 and 0 <= auto['gap'] <= 1
assert auto['block'].startswith('parallel open on two {') and len(auto['trials']) > 1 and auto['devices'] == 2"

# What is not asked for is not searched for; a report of what was chosen has it.
compile --parallel open --check
exits 0; silent err
compile --parallel open --params
exits 0
compile --parallel tensors --report=json
exits 0; says "auto: "; prints '"report"'

# Refused.
compile --parallel written --emit=layout
exits 2; says "this layout is written in full"
compile --parallel small
exits 4; says "error[E0701]: no layout fits"; says "that one: "
compile --parallel unclear
exits 3; says "error[E0513]"; says 'what mesh axis `left` is for'
compile --parallel twice
exits 3; says "error[E0513]"; says "are of one sort"
compile --parallel many --add "auto (gpus = (16, 2))"
exits 3; says "error[E0452]"; says "(least, most)"
compile --parallel between
exits 3; says "error[E0513]"; says "no power of two of nodes"
compile --parallel both
exits 3; says "error[E0513]"; says "and so does"
compile --parallel odd
exits 3; says "error[E0513]"; says "do not divide"
finish
