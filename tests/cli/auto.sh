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

# The layout that `auto` prints, pasted into the program, gives the same step time, and the same
# losses as on one rank.
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

# The measured time is printed next to the predicted one.
run "$dtrun" pasted.plan --trace trace.json --quiet
exits 0
run "$dtc" pasted.dsl --library "$tree/lib" --parallel open --target=cpu --report --measured trace.json
exits 0; prints "measured: 3 steps of 2 ranks"; prints "matrix products"; prints "not in instructions"; prints "farthest off"
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

# A layout that is a little faster than the winner must be less simple than the winner.
sed 's/, mask = iota\[kseq\] <= iota\[seq\]//; s/, iota\[seq\] - iota\[kseq\] < 5//' "$tree/tests/cli/streams.dsl" >near.dsl
run "$dtc" near.dsl --library "$tree/lib" --parallel auto -D batch=2 -D seq=512 -D head=64 -D layers=1 -D embed=1024
exits 0; says "zero 1 on data"; says "less, too little to count, and less simple"; says "as fast, and less simple"

# With a line that gathers nothing ahead, the program waits for gathers, and estimates must include
# that.
run "$dtc" "$tree/examples/llama3_8b.dsl" --library "$tree/lib" --parallel auto --add 'mesh data = 128' \
    --add 'shard batch on data' --add 'zero 3 on data' --json --emit=layout
exits 0
holds python3 -c "
import json
trial = json.loads(open('err').readline())['auto']['trials'][0]
assert trial['layout'] == 'data 128, zero 3' and abs(trial['estimate'] / trial['step'] - 1) < 0.1, trial"

# `auto` is as fast as published layouts. Interleaved pieces need not have equally many layers, and two may have none: 126
# layers of Llama in 128 pieces. The update of all of DeepSeek's parameters takes more memory than a stage has, and ranks
# that have one expert alone are fastest.
for program in llama3_405b deepseek_v3; do
    for layout in published best; do
        run "$dtc" "$tree/examples/$program.dsl" --library "$tree/lib" --parallel $layout --report=json -o $layout.json
        exits 0
    done
    holds python3 -c "
import json
best, published = (json.load(open(f + '.json'))['time']['step'] for f in ('best', 'published'))
assert best <= 1.01 * published, (best, published)"
done
run "$dtc" "$tree/examples/deepseek_v3.dsl" --library "$tree/lib" --parallel auto --add 'mesh pipe = 16, data = 2, expert = 64' \
    --report=json -o pinned.json
exits 0; says "auto: a step takes"

# With gpipe a stage keeps the saved values of all micro-batches.
compile --parallel auto --cluster eight --add 'mesh pipe = 2, data = 4' --add 'shard batch on data' \
    --add 'pipeline h on pipe (schedule = "gpipe")' --add 'micro batch = 4' -D batch=128 -D seq=1024 -D embed=1024 \
    --json --emit=layout
exits 0
holds python3 -c "
import json
trial = json.loads(open('err').readline())['auto']['trials'][0]
assert abs(trial['estimated_bytes'] / trial['bytes'] - 1) < 0.1, trial"

# Lines that the block already has are kept.
compile --parallel pipes --emit=layout -D layers=16 -D embed=1024
exits 0; says "longer: bubble"; prints "mesh pipe = 4, data = 2"; prints "pipeline h on pipe"; prints "micro batch = 4"; prints "shard batch on data"
compile --parallel tensors --emit=layout
exits 0; prints "tp = 4"; prints "dp = 2"; prints "  remat h"; prints "on tp"; prints "shard batch on dp"
compile --parallel shards --emit=layout
exits 0; prints "shard heads on left"; prints "shard batch on right"; prints "left = 4"; prints "right = 2"
compile --parallel shards --add 'zero 2 on right' --emit=layout
exits 0; prints "zero 2 on right"

# `auto` can choose the cheapest number of devices, or the least memory; and print its result as
# JSON.
compile --parallel many --emit=layout
exits 0; says "auto:      2 devices"; says "auto:     16 devices"; says "(--set pairs.nodes=1)"; prints "parallel many on pairs {"
compile --parallel many --set "parallel.auto.minimise=gpu_hours" --emit=layout
exits 0; says "(--set pairs.nodes=1)"
compile --parallel many --set "parallel.auto.minimise=step_time" --emit=layout
exits 0
compile --parallel least --report=json
exits 0; says "auto: a step takes"; says "a rank, as small, and less simple"
compile --parallel open --json --report
exits 0
holds python3 -c "
import json
said = [json.loads(line) for line in open('err')]
auto = next(x['auto'] for x in said if 'auto' in x)
assert auto['step'] > 0 and auto['low'] < auto['step'] < auto['high'] and auto['bytes'] > 0 and 0 <= auto['gap'] <= 1
assert auto['block'].startswith('parallel open on two {') and len(auto['trials']) > 1 and auto['devices'] == 2"

# Nodes of two kinds: the slow node gets one of four layers, and training computes the same as the
# serial program.
compile --parallel cut --target=cpu -o cut.plan
exits 0
run "$dtrun" cut.plan --log cut.jsonl --quiet
exits 0
losses cut.jsonl >cut.losses
holds python3 -c "
a, b = ([float(x) for x in open(f)] for f in ('cut.losses', 'serial.losses'))
assert len(a) == len(b) == 3 and all(abs(x - y) < 1e-5 * abs(y) for x, y in zip(a, b))"
iterations() { # parallel block, numbers
    compile --parallel "$1" --target=cpu --report=json
    exits 0
    holds python3 -c "
import json
assert [x['iterations'] for x in json.load(open('out'))['saved']] == $2"
}
iterations even '[2]'
iterations cut '[3, 1]'
compile --parallel kept --emit=layout
exits 0; prints "parallel kept on uneven {"; prints "pipeline h on pipe"

# Reports name the devices of each stage, also for a plan that is read from a file; MFU is relative
# to the sum of the devices' peaks.
compile --parallel stages --no-kernels -o stages.plan
exits 0
run "$dtc" report stages.plan
exits 0; prints "for 4 h100-sxm and 8 a100-40g on 3 nodes"; prints "stage 1 (a100-40g)"; prints "of 40.0 GiB a rank"
prints "x 12 x 35.3 TFLOP/s of f32, the mean"
cp out read.report
compile --parallel stages --report
exits 0
holds cmp out read.report
compile --parallel across --report
exits 0; prints "(h100-sxm and a100-40g)"
compile --parallel stages --report=json
holds python3 -c "
import json
report = json.load(open('out'))
assert report['target'] == 'sm_90a,sm_80', report['target']
assert [(x['device'], x['nodes'], x['ranks']) for x in report['nodes']] == [('h100-sxm', 1, 4), ('a100-40g', 2, 8)]
assert [x['device'] for x in report['memory']['stages']] == ['h100-sxm', 'a100-40g', 'a100-40g']
assert abs(report['time']['peak'] * 12 - (4 * 67e12 + 8 * 19.5e12)) < 1e6, report['time']['peak']"
compile --parallel tight --no-kernels -o tight.plan
exits 4; says "a rank of stage 1 needs 726 MiB; tiny has 600 MiB"

# For nodes of two kinds, the winner's plan equals the plan of the printed block.
compile --parallel chosen --no-kernels --emit=plan
exits 0; says "mesh pipe = 3, data = 4"; says "of 40.0 GiB"
grep '^INST\|^STOR\|^SCHD\|^CHAN\|^AREN\|^ARGS\|^DEVC' out >chosen.records
compile --parallel chosen --emit=layout
{ sed '/^parallel chosen/d' auto.dsl; cat out; } >pasted.dsl
run "$dtc" pasted.dsl --library "$tree/lib" --parallel chosen --no-kernels --emit=plan
exits 0
grep '^INST\|^STOR\|^SCHD\|^CHAN\|^AREN\|^ARGS\|^DEVC' out >pasted.records
holds test "$(wc -l <pasted.records)" -gt 1000
holds cmp chosen.records pasted.records
compile --parallel counted --emit=layout
exits 3; says "error[E0513]"; says 'cluster `kinds` has several'
compile --parallel stages --set kinds.nodes=3 --check
exits 3; says "error[E0452]"; says '`nodes` says 1 number, `gpu` names 2 devices'
compile --parallel stages --set 'kinds.gpu=("cpu", "h100-sxm")' --check
exits 3; says "error[E0452]"; says "all on GPUs or all on processors"

# The search runs only if its result is asked for. A report contains the layout that was chosen,
# and a check checks it.
compile --parallel open --params
exits 0; silent err
compile --parallel open --check
exits 0; says "auto: a step takes"; silent out
run "$dtc" "$tree/examples/gpt_1t.dsl" --library "$tree/lib" --parallel auto --set superpod.nodes=2 --check
exits 4; says "error[E0701]: no layout fits"
compile --parallel tensors --report=json
exits 0; says "auto: "; prints '"report"'

# Without a block, `auto` uses the cluster that is named, or the only one. Lines can be added to
# its block.
compile --parallel auto --cluster two --emit=layout
exits 0; prints "parallel auto on two {"
sed 's/parallel auto/parallel open/' out >made.layout
compile --parallel open --emit=layout
holds cmp out made.layout
compile --parallel auto --cluster two --add 'micro batch = 4' --emit=layout
exits 0; prints "micro batch = 4"
compile --parallel auto --report
exits 3; says "error[E0003]: --parallel auto needs a cluster, and the program has"; says "--cluster eight"
sed '/^parallel/d; /^cluster/d; /^device/d' auto.dsl >bare.dsl
run "$dtc" bare.dsl --library "$tree/lib" --parallel auto --report
exits 3; says "the program has none"; says "say what there is"
echo 'cluster one { gpus = 4; gpu = "a100-40g" }' >>bare.dsl
run "$dtc" bare.dsl --library "$tree/lib" --parallel auto --report
exits 0; says "parallel auto on one {"; prints "for 4 a100-40g"
# If several clusters fit, the message names each of them.
compile --report
exits 3; says "--parallel open (auto: the compiler chooses, on two)"
says "--parallel tensors (auto: the compiler chooses around mesh tp 4, dp 2, on eight)"
says "--parallel auto, for a layout that the compiler chooses, with --cluster NAME"

# A layout that is refused when it is compiled does not end the search. Here the results of `sunk`
# are not sums of its parts, so layouts with rings cannot be proved. The next best layout is taken,
# which uses fewer devices.
sed 's/u \* a + u2 \* b)/u * a + u2 * a)/' "$tree/tests/cli/streams.dsl" >rings.dsl
rings() {
    run "$dtc" rings.dsl --library "$tree/lib" --parallel auto -D batch=1 -D seq=2048 -D heads=1 -D layers=1 \
        --set c.gpus=1 --add "remat h" "$@"
}
rings --add 'auto (gpus = (1, 2))' --emit=layout
exits 0; says "auto: refused: context 2, zero 1: "; says "\`sunk\` is not what its blocks come to"; says "nodes=1"; lacks "context"
rings --add 'auto (gpus = (1, 2))' --json --report
exits 0
holds python3 -c "
import json
said = [json.loads(line)['auto'] for line in open('err') if line.startswith('{\"auto')]
assert len(said) > 1 and said[0]['layout'].startswith('context 2') and said[-1]['layout'] == 'one rank', said"
rings --add 'auto (gpus = (2, 2))' --no-kernels -o rings.plan
exits 3; says "auto: refused: context 2, zero 1: "; says "error[E0223]: \`sunk\` is not what its blocks come to"
holds test ! -e rings.plan

# Requests that are refused.
compile --parallel written --emit=layout
exits 2; says "this layout is written in full"
compile --parallel small
exits 4; says "error[E0701]: no layout fits"; says "that one: "
compile --parallel small --set parallel.auto.memory=0.017
exits 4; says "data 8, zero 1: it does not fit, by 27.7 MiB a rank"
# Ranks of experts already split the experts, so their parameters are not split further: 47 G
# parameters do not fit on 8 devices.
printf 'include "%s/examples/moe.dsl"\ncluster one { gpus = 8; gpu = "h100-sxm" }\nparallel all on one { auto }\n' "$tree" >moe.dsl
run "$dtc" moe.dsl --library "$tree/lib" --parallel all --emit=layout
exits 4; says "error[E0701]: no layout fits"; says "that one: "
holds python3 -c "
import re
need, have = map(float, re.search(r'about ([0-9.]+) GiB a rank, of ([0-9.]+) GiB', open('err').read()).groups())
assert 95 < need < 115 and have < need, (need, have)"
# The layout that `auto` writes draws no lint: it has no prefetch if no loop gathers anything or
# the device runs everything in order, and no level of `zero` that splits nothing.
draws_none() {
    run "$dtc" "$@" --library "$tree/lib" --parallel auto --report
    exits 0
    holds sh -c '! grep -A3 "^warning" err | grep "(auto)"'
}
draws_none "$tree/examples/vgg16.dsl"
says "zero 3 on data"
draws_none "$tree/examples/diffusion.dsl"
cat >least.dsl <<END
dim batch = 4
model m(x[batch]) -> [batch] { param w[] = ones; return x * w }
train {
  x[batch] = synthetic(0, 1)
  loss = mean[batch](m(x))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster two { gpus = 2; gpu = "cpu" }
END
printf 'include "std.dsl"\n' | cat - least.dsl >scalar.dsl
sed 's/w\[\]/w[wide]/; s/x \* w/sum[wide](x * w)/; s/^dim/dim wide = 8,/' scalar.dsl >stateless.dsl
draws_none scalar.dsl
draws_none stateless.dsl
holds sh -c '! grep "^  zero 1" err'
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
