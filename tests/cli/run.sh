#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The command line of dtc, option by option:  run.sh DTC
# Each case is a command, its exit code, and texts that must (or with `not` must not) be on stdout or stderr.
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
unset NO_COLOR DTC_LIBRARY
. "$root/tests/cli/cases.sh"
cp -r "$root/tests/golden/errors/mini" "$work/mini"

run() { # option...: what the checks below look at
    what="dtc $*"
    "$dtc" "$@" >out 2>err
    code=$?
}

cat >program.dsl <<'END'
include "mini/train.dsl"
parallel two on pair {
  mesh data = 2
  shard batch on data
}
parallel whole on one { mesh data = 1 }
parallel staged on pair { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
cluster one { gpus = 1; gpu = "cpu" }
END
cat >faulty.dsl <<'END'
include "mini/train.dsl"
parallel two on pair { mesh data = 3; shard batch on data }
END

# ---- help, version, usage ----
run --help; exits 0; silent err; prints 'usage: dtc'; prints '--print-after=PASS'; prints 'Exit codes'
# every option of the table is in the help
for name in $(sed -n 's/^DT_CLI_OPTION([A-Z_]*, "\([a-z-]*\)".*/\1/p' "$root/cli/options.def"); do
    prints "--$name"
done
run --man; exits 0; prints '.TH dtc 1'; prints '.SH OPTIONS'
run -h; exits 0
run --help=html; exits 2; says 'takes no value'; silent out
run --version; exits 0; prints 'dtc '; silent err
run -V; exits 0
run; exits 2; says 'no program'; silent out
run --chek program.dsl; exits 2; says 'did you mean --check?'
run --zzzzzz; exits 2; says 'unknown option --zzzzzz'
run -q program.dsl; exits 2; says 'unknown option -q'
run --check=1 program.dsl; exits 2; says '--check takes no value'
run program.dsl --emit; exits 2; says '--emit needs a value'
run program.dsl other.dsl; exits 2; says 'one program at a time'
run program.dsl --emit=asm; exits 2; says '--emit cannot be asm'
run program.dsl --emit=pln; exits 2; says 'did you mean plan?'
run program.dsl --report=pdf; exits 2; says '--report cannot be pdf'
run program.dsl --color=blue; exits 2; says '--color cannot be blue'
run program.dsl -D batch; exits 2; says '-D takes name=number'
run program.dsl --set train.steps; exits 2; says '--set takes block.key=value'
run program.dsl --data=other; exits 2; says '--data takes'
run program.dsl -w; exits 2; says 'dtc fmt'
run missing.dsl; exits 5; says 'cannot read missing.dsl'; silent out
run -- --missing.dsl; exits 5; says '--missing.dsl'

# ---- check ----
run program.dsl --check; exits 0; silent out; silent err
run --check program.dsl; exits 0
run program.dsl; exits 0; silent out
run faulty.dsl --check; exits 3; silent out; says 'error[E0501]'; says 'faulty.dsl:2:24'
run faulty.dsl --check --json; exits 3; says '"code":"E0501"'; holds sh -c 'python3 -c "import json,sys
for l in open(\"err\"): json.loads(l)" || ! command -v python3'
run faulty.dsl --check --color=always; exits 3; holds grep -q "$(printf '\033')" err
run faulty.dsl --check --color=never; holds sh -c "! grep -q '$(printf '\033')' err"
run faulty.dsl --check; holds sh -c "! grep -q '$(printf '\033')' err"

# ---- params ----
run mini/train.dsl --params; exits 0; prints '296 parameters'; prints 'h.#.mlp.up'; prints '4 x'; prints '[embed=4, ffn=8]'; silent err
run mini/train.dsl --params -D embed=8 -Dvocab=1000; exits 0; prints '8,512 parameters'
run mini/train.dsl --params --dim=layers=2; exits 0; prints '168 parameters'
run mini/train.dsl --params --json; exits 0; prints '"total": 296'; prints '"pattern": "h.#.mlp.down"'
run mini/model.dsl --params; exits 0; prints '296 parameters'
run faulty.dsl --params; exits 3; silent out

# ---- stages ----
run mini/train.dsl --emit=ast; exits 0; prints 'train'; silent err
run mini/train.dsl --emit=ir; exits 0; prints 'loop'
cp out first; run mini/train.dsl --emit ir; holds cmp out first
run --list-passes; exits 0; prints 'differentiate'
run mini/train.dsl --print-after=difrentiate; exits 2; says 'did you mean differentiate?'
run mini/train.dsl --print-after=differentiate; exits 0; prints '# after differentiate'
run mini/train.dsl --time-passes; exits 0; says 'parse, check, lower'; says 'ms'

# ---- choosing blocks, setting things ----
run program.dsl --check --parallel two; exits 0
run program.dsl --check --parallel none; exits 0
# if a layout is named, only this one must fit
sed 's/on pair { mesh pipe = 2; pipeline h on pipe;/on four { mesh pipe = 4; pipeline h on pipe;/' program.dsl >many.dsl
echo 'cluster four { gpus = 4; gpu = "cpu" }' >>many.dsl
run many.dsl --check -D layers=1; exits 3; says 'error[E0605]'
run many.dsl --check -D layers=1 --parallel two; exits 0
run many.dsl --check -D layers=1 --parallel none; exits 0
run many.dsl --check -D layers=1 --parallel staged; exits 3; says 'error[E0605]'
run program.dsl --check -D layers=1 --parallel staged; exits 0
run program.dsl --check --parallel twoo; exits 3; says 'E0003'; says 'did you mean `two`?'
run program.dsl --check --cluster pai; exits 3; says 'E0003'; says 'did you mean `pair`?'
run program.dsl --check --train big; exits 3; says 'E0003'
run program.dsl --check --parallel two --cluster one; exits 3; says 'E0501'
run program.dsl --check --parallel two --set parallel.mesh.data=1 --cluster one; exits 0
# of several layouts, the chosen one must fit its cluster
run program.dsl --check --set pair.gpus=4; exits 3; says 'E0501'
run program.dsl --check --parallel none --set pair.gpus=4; exits 0
run program.dsl --check --parallel two --set pair.gpus=4 --set parallel.mesh.data=4; exits 0
run program.dsl --check --parallel staged --set pair.gpus=4; exits 3; says 'E0501'
run program.dsl --check --set two.micro=4; exits 0
run program.dsl --check --parallel two --set two.micro=3; exits 3; says 'E0502'
run program.dsl --check --set train.steps=20 --set train.optimizer.lr=0.5; exits 0
run program.dsl --check --set train.steps=many; exits 3; says '--set train.steps'
run program.dsl --check --set train.stpes=20; exits 3; says 'E0450'
run program.dsl --check --set train.optimizer.rate=1; exits 3; says 'E0450'
run program.dsl --check --set 'train.optimizer=adamw(1e-3)'; exits 0
run program.dsl --check --set 'train.optimizer.lr=1 +'; exits 3
run program.dsl --check --set trian.steps=20; exits 3; says 'E0002'; says 'did you mean `train`?'
run program.dsl --check --set steps=20; exits 3; says 'E0002'
run program.dsl --check --set parallel.micro=4; exits 3; says 'there are 3 parallel blocks'
run program.dsl --check --set two.zero=1; exits 3; says 'E0002'
run program.dsl --check --set one.gpu=h100-sxm; exits 0
run program.dsl --check --set one.gpu=h101-sxm; exits 3; says 'E0516'
run program.dsl --check -D batch=x; exits 3; says 'E0216'
run program.dsl --check -D bach=8; exits 3; says 'E0216'; says '-D batch='
mkdir library; cp "$root/lib/training.dsl" "$root/lib/devices.dsl" "$root/lib/stacks.dsl" library
run program.dsl --check --library "$work/library"; exits 0

# a library file: in the language's own library `--check` finds no error and leaves nothing
# unchecked; a planted error in a function with free axes is found
library=$(cd "$(dirname "$0")/../.." && pwd)/lib/std.dsl
run "$library" --check; exits 0; silent out; silent err
for fault in 's/u = x - mean\[d\](x)/u = x - mean[a](x)/' 's/q @d k/q @kh k/' 's/win @(kh, kw, chan) w/win @(kh, chan) w/' \
    's/mean\[phase\](x\[a -> (b, phase)\])/mean[phase](x)/' 's/return max(x, 0)/return max(x)/'; do
    sed "$fault" "$library" >faulty_std.dsl
    run faulty_std.dsl --check; exits 3; says 'faulty_std.dsl:'
done
run faulty_std.dsl --check --json; exits 3; says '"code":"E0'
printf '%s\n' 'fn apply(f, x[...]) { return f(x) }' >apply.dsl
run apply.dsl --check --json; exits 0; says '"code":"L0207"'; says '`apply` is not checked'

# a gradient that a function states is checked; one that the program declares to be different is
# not
cat >stated.dsl <<'END'
dim batch = 4, embed = 3
fn scaled(x[...], w[...]) -> [...] {
  e = exp(x)
  return e * w
  gradient(dy) { return (dy * e * w, dy * e) }
}
fn step(x[...]) -> [...] {
  return where(x > 0.1, 1.0, 0.0)
  surrogate(dy) { return dy / (1 + abs(x)) }
}
model m(x[batch, embed]) -> [batch, embed] {
  param w[embed] = ones
  param v[embed] = normal(0.5)
  return scaled(step(x * v), w)
}
train { x[batch, embed] = synthetic(-1, 1); loss = sum[batch, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh a = 2; shard batch on a }
END
run stated.dsl --parallel two --no-kernels --verify; exits 0; prints 'gradients: those of the loss'
sed 's/, dy \* e) }/, dy * x) }/' stated.dsl >wrong.dsl
run wrong.dsl --parallel two --no-kernels --verify; exits 3; says 'the gradient that `scaled` states is not its derivative'
says 'wrong.dsl:5'
sed 's/surrogate/gradient/' stated.dsl >wrong.dsl
run wrong.dsl --parallel two --no-kernels --verify; exits 3; says 'if it is meant to differ, write `surrogate`'

# a loop of two iterations cannot be cut into more stages; what the help suggests can
mkdir errors && python3 "$root/tests/golden/errors.py" --split errors
# matrices that ranks can split draw no lint
run errors/L0523_iterations.dsl -D layers=8 --no-kernels --report; exits 0; silent err
sed 's/^dim batch = 4/dim view = 2, batch = 4/' errors/E0592_pipeline_twice.dsl >views.dsl
run views.dsl --parallel two --no-kernels --report; exits 3; says 'E0592'; says '`f(stack[view](x, y))`'
cat >joined.dsl <<'END'
dim view = 2, batch = 8, embed = 8, layers = 4
layer student(x[..., embed]) -> [..., embed] {
  param w[embed] = ones
  repeat h in layers { x = x + tanh(x * w) }
  return x
}
model m(x[batch, embed], y[batch, embed]) -> [batch] {
  f = student
  z = f(stack[view](x, y))
  return sum[embed](z[view = 0] * z[view = 1])
}
train {
  x[batch, embed] = synthetic(0, 1); y[batch, embed] = synthetic(0, 1)
  loss = sum[batch](m(x, y)); optimizer = sgd(lr = 0.1); steps = 1
}
cluster c { gpus = 2; gpu = "cpu" }
parallel p on c { mesh pipe = 2; pipeline h on pipe; micro batch = 2 }
END
run joined.dsl --verify --no-kernels; exits 0; prints 'equal to the serial program: 2 ranks, 2 micro-batches'

# names a loop of one of two instances by its path
cat >twins.dsl <<'END'
include "std.dsl"
dim batch = 4, d = 3, layers = 2
layer net(x[batch, d]) -> [batch, d] {
  repeat h in layers { param w[d] = ones; x = tanh(gelu(x * w)) * x }
  return x
}
model both(x[batch, d]) -> [batch, d] { return teacher:net(x) - student:net(x) }
train { x[batch, d] = synthetic(0, 1); loss = mean[batch, d](both(x)); optimizer = sgd(0.1); steps = 2 }
cluster one { gpus = 1; gpu = "cpu" }
parallel p on one { mesh data = 1; remat student.h }
END
run twins.dsl --parallel p --print-after=remat; exits 0; cp out one.text
run twins.dsl --parallel p --print-after=differentiate; exits 0
sed -i 's/student.h/h/' twins.dsl
run twins.dsl --parallel p --print-after=remat; exits 0; holds sh -c '! cmp -s out one.text'
sed -i 's/remat h/remat pupil.h/' twins.dsl
run twins.dsl --check --parallel p; exits 3; says 'the program has no loop `pupil.h`'

# two train blocks: the layout of the other one is not checked against the chosen one
cat >trains.dsl <<'END'
dim batch = 8, d = 4, e = 4, f = 4
model small(x[batch, d]) -> [batch, e] { param w[d, e] = normal(0.1); return x @d w }
model large(x[batch, d]) -> [batch, f] {
  param w[d, f] = normal(0.1)
  y = x @d w
  repeat h in e { y = y + 1 }
  return y
}
train one { x[batch, d] = synthetic(0, 1); loss = sum[batch, e](small(x)); optimizer = sgd(0.1); steps = 2 }
train two { x[batch, d] = synthetic(0, 1); loss = sum[batch, f](large(x)); optimizer = sgd(0.1); steps = 2 }
cluster pair { gpus = 2; gpu = "cpu" }
parallel columns on pair { mesh data = 2; shard e on data }
parallel pieces on pair { mesh data = 2; shard batch on data; remat h }
END
run trains.dsl --check; exits 3; says 'error[E0461]'
run trains.dsl --check --train one --parallel columns; exits 0
run trains.dsl --check --train one; exits 0
run trains.dsl --check --train one --parallel pieces; exits 3; says 'error[E0601]'
run trains.dsl --check --train two --parallel columns; exits 3; says 'error[E0508]'
run trains.dsl --check --train two --parallel pieces; exits 0

cat >named.dsl <<'END'
include "mini/train.dsl"
names file on tiny {
  "wte.weight"[vocab, embed] = wte
  "block.{h}.up"[o, embed] = h.mlp.up[ffn -> o]
  "block.{h}.down"[embed, o] = h.mlp.down[ffn -> o]
}
END
run named.dsl --check; exits 0; silent err

# ---- explain ----
run explain E0501; exits 0; prints 'error E0501'; silent err
run explain e0501; exits 0
run explain E9999; exits 2; silent out
run explain; exits 0; prints 'E0501'
for name in $(awk '{ print $1 }' out); do
    run explain "$name"
    exits 0
    holds test "$(wc -c <out)" -gt 80
done

run explain adamw; exits 0; prints 'betas'; prints 'must be given'
run explain shard; exits 0; prints 'zigzag'
run explain lora attend; exits 0; prints 'lora (layer of std.dsl)'; prints 'rank = 8'; prints 'attend (function of std.dsl)'
run explain adam; exits 2; says 'did you mean adamw?'
run explain settings; exits 0
for name in $(sed -n 's/^DT_CONFIG_KEY([A-Z_]*, \([a-z_]*\),.*/\1/p' "$root/frontend/config.def" | sort -u); do
    prints "  $name "
done

# ---- fmt ----
printf 'dim  a=3\n\n\n\ndim b = a\n' >ugly.dsl
run fmt ugly.dsl; exits 0; prints 'dim a = 3'; cp out pretty.dsl
run fmt --check ugly.dsl pretty.dsl; exits 1; prints 'ugly.dsl'; holds sh -c '! grep -q pretty out'
run fmt -w ugly.dsl; exits 0; holds cmp ugly.dsl pretty.dsl
run fmt --check ugly.dsl; exits 0; silent out
run fmt; exits 2
run fmt missing.dsl; exits 5
run fmt ugly.dsl pretty.dsl; exits 2
printf 'dim = 3\n' >broken.dsl
run fmt broken.dsl; exits 3; says 'error[E01'; silent out

# ---- plans ----
run program.dsl -o plan; exits 3; says 'has 3 parallel blocks'; says '--parallel whole'; holds test ! -e plan
run dump; exits 2
run dump missing; exits 5
printf 'not a plan' >plan
run dump plan; holds test "$code" -ne 0; silent out
run asm plan; exits 2
run asm plan -o made; holds test "$code" -ne 0; holds test ! -e made

run "$root/examples/gpt_1t.dsl" --parallel none --no-kernels -o big; exits 4; says 'a rank needs 619'; holds test ! -e big
run program.dsl --parallel two --no-kernels -o plan; exits 0; silent out; silent err; holds test -s plan
cp plan first; run program.dsl --parallel two --no-kernels -o plan; holds cmp plan first
run dump plan; exits 0; prints 'mini/train.dsl'; cp out text
run dump plan -o text2; exits 0; silent out; holds cmp text text2
run asm text -o again; exits 0; holds cmp plan again
run program.dsl --parallel two --no-kernels --emit=plan; exits 0; holds cmp out text
run program.dsl --parallel two --emit=c; exits 0; prints 'void '
run program.dsl --parallel two --emit=schedule --no-kernels; exits 0; prints 'step'; prints 'all_reduce data'; prints '4 times'
run program.dsl --parallel staged --emit=schedule --no-kernels; exits 0; prints '0F0 0SEND_F0'; prints '1RECV_F0 1F0'
run program.dsl --parallel staged --emit=schedule-svg -o picture; exits 0; silent out; holds grep -q '</svg>' picture
holds grep -q 'forward' picture; holds grep -q 'simulated for cpu' picture
run program.dsl --parallel staged --emit=schedule-svg --window=1..2; exits 0; prints 'micro-batches 1 to 2'
run program.dsl --parallel staged --emit=schedule-svg --window=1..4; exits 2; says '--window takes A..B'
run program.dsl --parallel staged --emit=schedule --window=1..2; exits 2; says '--window belongs to --emit=schedule-svg'
run program.dsl --parallel two --emit=schedule-svg; exits 2; says 'this layout has none'
run program.dsl --parallel two --report --details; exits 0; prints 'memory of one rank'; prints 'all_reduce'; prints 'tokens/s'
run program.dsl --parallel two --report=json --no-kernels -o report; exits 0; silent out
holds sh -c 'python3 -m json.tool report || ! command -v python3'
run program.dsl --parallel none --report --details; exits 0; holds sh -c '! grep -q all_reduce out'
run program.dsl --parallel two --report; exits 0; holds test "$(wc -l <out)" -le 40; lacks 'all_reduce'; prints 'step '; prints 'memory '
run "$root/examples/gpt2.dsl" --parallel dp --report; exits 0; prints 'activations are most, 2.12 GiB, at add of xent (std.dsl:'
run "$root/examples/llama3_8b.dsl" --parallel d3 --report; exits 0
prints 'beside them most, 440 MiB, at add of swiglu ('; prints 'predict needs 2.32 GiB more on stage 3 (dtrun'
run program.dsl --parallel staged --report=trace -o trace; exits 0; holds grep -q '"ph":"s"' trace
holds sh -c 'python3 -m json.tool trace || ! command -v python3'
run program.dsl --parallel two --report --tokens 300B --price 2; exits 0; prints 'device-hours'
run program.dsl --parallel two --report --tokens 300B --price 2; exits 0; prints 'at 2 per device-hour'
# Pixels that are integers are no tokens, because nothing in the program is indexed by them.
cat >pixels.dsl <<'END'
include "std.dsl"
dim batch = 8, pixel = 16, classes = 4
model m(x[batch, pixel]) -> [batch, classes] { return up:linear[pixel, classes](x) }
train {
  i32 x[batch, pixel] = bin("pixels.bin", u8)
  i32 y[batch] = bin("labels.bin", u8)
  loss = mean[batch](xent[classes](m(f32(x)), y))
  optimizer = sgd(lr = 0.1)
  steps = 1
}
cluster two { gpus = 2; gpu = "cpu" }
parallel two on two { mesh data = 2; shard batch on data }
END
run pixels.dsl --no-kernels --report; exits 0; prints 'samples/s'; lacks 'token'
run program.dsl --parallel two --report --price 2; exits 2; says 'add how long it is'
run report plan --price 2; exits 2; says 'add how long it is'
run program.dsl --parallel two --report --tokens many; exits 2; says '--tokens takes a number'
# the message says why there is no time; a report reads no data, and gives no warnings about a run
run "$root/examples/shakespeare.dsl" --report; exits 0; prints 'not known: there is no device'; prints 'cluster pod {'
run "$root/examples/bert.dsl" --parallel none --report; exits 0; prints 'tokens/s'
run "$root/examples/vit.dsl" --parallel none --report --tokens 1M; exits 4; prints 'samples/s'; lacks 'tokens'; prints '1.00 M samples are'
run "$root/examples/vit.dsl" --parallel none --report=json; prints '"tokens_per_second": null'; prints '"samples_per_second"'
run "$root/examples/llama3_8b.dsl" --parallel d3 --report --details; exits 0; silent err
prints 'on 16 nodes'; prints 'not in the total: only dtrun --generate takes it'
cp out details.txt
run "$root/examples/llama3_8b.dsl" --parallel d3 --report=json; exits 0; holds python3 -c 'import json, re
total = re.search(r"memory of one rank of stage 1\n.*?  total +(\d+) B", open("details.txt").read(), re.S)[1]
assert json.load(open("out"))["memory"]["stages"][1]["allocated"] == int(total)'
run "$root/examples/llama3_8b.dsl" --parallel none --report; exits 4; prints 'for 1 h100-sxm'; lacks 'nodes'
run "$root/examples/llama3_8b.dsl" --parallel d3 --no-kernels --target=cpu -o warned; exits 0; says 'warning[L0593]'
run program.dsl --parallel two --add 'zero 1 on data' --report=json; exits 0; prints '"report": 3'
run program.dsl --parallel two --add 'zero'; exits 3
run program.dsl --parallel two --add 'zero 1 on data; micro batch = 2'; exits 3; says 'this is not one line'
run program.dsl --parallel two --no-kernels -o made/here/plan; exits 0; holds test -s made/here/plan
run faulty.dsl --no-kernels -o nowhere/plan; exits 3; holds test ! -e nowhere
run program.dsl --parallel two --no-kernels -o first/plan; exits 5; says 'first'
run program.dsl --parallel two -o plan --time-passes; exits 0; says 'host compiler'; says 'emit'
run program.dsl --parallel two -o plan; exits 0
# kernels that are compiled again equal those found in the cache, byte for byte
for cache in cold warm; do
    what="with a $cache cache"
    XDG_CACHE_HOME=$work/cold "$dtc" program.dsl --parallel two -o first 2>err; code=$?; exits 0; holds cmp plan first
done
ls "$work/cold/dtc" >kernels
what="of another file, lines shifted"
{ echo; cat program.dsl; } >shifted.dsl
XDG_CACHE_HOME=$work/cold "$dtc" shifted.dsl --parallel two -o first 2>err; code=$?; exits 0
holds test -s kernels; holds sh -c "ls '$work/cold/dtc' | cmp - kernels"
run program.dsl --parallel two -o plan --unfused; exits 0
run program.dsl --parallel two -o plan --target=cpu-v3; exits 0
run program.dsl --parallel two -o plan --target=pdp11; exits 2; says 'no target pdp11'
run program.dsl --parallel two -o plan --target="$([ "$(uname -m)" = x86_64 ] && echo cpu-arm64 || echo cpu-v2)"; exits 2; says 'cannot be made on this machine'
run program.dsl --parallel two -o plan --target=cpuv3; exits 2; says 'did you mean cpu-v3?'
run program.dsl --parallel two -o plan --target=sm_90a --no-kernels; exits 0
run program.dsl --parallel two -o plan --target=sm_90a --no-kernels --rows=sm_80; exits 0
run program.dsl --parallel two -o plan --target=sm_90a --no-kernels --rows=cpu; exits 2; says 'in the order of GPUs, not in that of cpu'
run program.dsl --parallel two -o plan --no-kernels --rows=pdp11; exits 2; says 'rows takes a target'
{ cat program.dsl; echo 'device "mine" { like = "v100-16g" }'; } >gpus.dsl
# a target for which no code is made: dtc does not silently make code for another one
for gpu in v100 mi300x mine; do
    run gpus.dsl --parallel two -o unmade --cluster pair --set cluster.gpu=$gpu; exits 2; says "there is no code for the cluster's GPUs, \`$gpu\`"; holds test ! -e unmade
    run gpus.dsl --parallel two --report --cluster pair --set cluster.gpu=$gpu; exits 0
    run gpus.dsl --parallel two -o plan --no-kernels --cluster pair --set cluster.gpu=$gpu; exits 0
    run gpus.dsl --parallel two -o plan --target=cpu --cluster pair --set cluster.gpu=$gpu; exits 0
done
run program.dsl --parallel two --emit=cuda --target=sm_90; exits 2; says 'no target sm_90; did you mean sm_90a?'
for pair in sm_86:sm_80 sm_103:sm_100f sm_121:sm_120 sm_110:compute_80; do
    run program.dsl --parallel two --emit=cuda --target="${pair%:*}"; exits 2
    says "no target ${pair%:*}; did you mean ${pair#*:}?"
done
run program.dsl --parallel two --emit=cuda --target=sm_75; exits 2; says 'no target sm_75; for GPUs there are sm_100a'
run program.dsl --parallel two --emit=cuda; exits 2; says '--emit=cuda takes one of sm_100a, sm_100f, sm_120, sm_90a, sm_80, compute_80'
run program.dsl --parallel two --verify --target=sm_80; exits 2; says "with --target=sm_80 add --no-kernels"
run program.dsl --parallel two --emit=c --target=sm_80; exits 2; says "emit=cuda prints the kernels"
"$dtc" program.dsl --parallel two --emit=cuda --no-kernels --target=sm_80,sm_90a >cuda 2>err; code=$?; what="kernels as CUDA"; exits 0
holds grep -q '^DT_KERNEL(dt_k0, [0-9]*, 256, ' cuda; holds grep -q '^ *\/\* [a-z/]*.dsl:[0-9]* \*\/$' cuda
what="kernels as CUDA, compiled"
"$dtc" program.dsl --parallel two --emit=cuda --target=sm_80 >cuda 2>err; code=$?
if [ $code = 0 ]; then holds grep -q '^ \* dt_k0: [1-9][0-9]* registers, 0 bytes spilled$' cuda
else code=$((code - 1)); exits 0; says 'package cuda-nvrtc'; fi
sed 's/optimizer = .*//' mini/train.dsl | sed 's/model.dsl/mini\/model.dsl/' >serial.dsl
run serial.dsl --check; exits 0; says 'warning[L0465]'
run serial.dsl -o other; exits 3; says 'error[E0453]'; holds test ! -e other
run mini/model.dsl -o other; exits 3; says 'E0453'
cat >pictures.dsl <<'END'
dim batch = 4, side = 2, pixels = side * side, classes = 3
train {
  picture[batch, height = side, width = side, chan = 1], i32 label[batch] = images("pictures", crop = random, flip = true)
  z = net(picture)
  loss = -sum[batch](z[classes = label])
  optimizer = sgd(0.1)
  steps = 1
}
model net(x[batch, height = side, width = side, chan = 1]) -> [batch, classes] {
  param w[height = side, width = side, chan = 1, classes] = normal(0.1)
  return x @(height, width, chan) w
}
axis height, width, chan
END
run pictures.dsl --check; exits 0
run pictures.dsl -o other --no-kernels; exits 0
run pictures.dsl -o other --data=synthetic --no-kernels; exits 0
run dump other; prints synthetic

# ---- what only a compilation finds ----
cat >sums.dsl <<'END'
dim batch = 8, d = 4, e = 4
model m(x[batch, d]) -> [batch, e] {
  param w[d, e] = normal(0.1)
  return x @d w
}
train {
  x[batch, d] = synthetic(0, 1)
  s = sum[batch](m(x))
  loss = sum[e](s * s)
  optimizer = sgd(0.1)
  steps = 2
}
cluster one { gpus = 1; gpu = "cpu" }
cluster pair { gpus = 2; gpu = "cpu" }
parallel micro on one { mesh data = 1; micro batch = 2 }
parallel two on pair { mesh data = 2; shard batch on data }
parallel tensor on pair { mesh tensor = 2; shard e on tensor }
parallel zigzag on pair { mesh tensor = 2; shard e on tensor (order = zigzag) }
parallel samples on pair { mesh data = 2; shard batch on data (order = zigzag) }
END
run sums.dsl --no-kernels -o other --parallel none; exits 0
run sums.dsl --no-kernels -o other --parallel two; exits 0
run sums.dsl --no-kernels -o third --parallel micro; exits 3; says 'error[E0590]'; says 'sums.dsl:9'; holds test ! -e third
run sums.dsl --check --parallel micro; exits 3; says 'error[E0590]'; silent out
run sums.dsl --check --parallel samples; exits 3; says 'error[E0592]'
run sums.dsl --parallel zigzag; exits 0; silent out; silent err
run sums.dsl; exits 0; silent err # five layouts, none of them chosen: each is reported by itself
run sums.dsl --check --parallel two --print-after=place; exits 0; prints '# after place'
run sums.dsl --no-kernels -o other --parallel tensor; exits 0
run sums.dsl --no-kernels -o other --parallel zigzag; exits 0
run sums.dsl --no-kernels -o third --parallel samples; exits 3; says 'error[E0592]'; holds test ! -e third
sed -e 's/dim batch = 8, d = 4/dim batch = 8, rows = 4, d = 4/' -e 's/x\[batch, d\]/x[batch, rows, d]/g' \
    -e 's/\[batch, e\]/[batch, rows, e]/' -e 's/sum\[batch\]/sum[batch, rows]/' -e 's/shard e on/shard rows on/' sums.dsl >rows.dsl
run rows.dsl --no-kernels -o other --parallel none; exits 0
run rows.dsl --no-kernels -o other --parallel tensor; exits 0
sed 's/sum\[batch\]/max[batch]/' sums.dsl >maxima.dsl
run maxima.dsl --no-kernels -o other --parallel two; exits 0
sed 's/sum\[batch\](m(x))/sum[batch](cumsum[batch](m(x)))/' sums.dsl >scans.dsl
run scans.dsl --no-kernels -o other --parallel two; exits 0
run scans.dsl --no-kernels -o third --parallel micro; exits 3; says 'error[E0591]'; holds test ! -e third
cat >tops.dsl <<'END'
dim batch = 8, d = 4, e = 4
model m(x[batch, d]) -> [batch, e] {
  param w[d, e] = normal(0.1)
  state top[e] = zeros
  y = x @d w
  top = max[batch](y)
  return y - top
}
train {
  x[batch, d] = synthetic(0, 1)
  y = m(x)
  loss = sum[batch, e](y * y)
  optimizer = sgd(0.1)
  steps = 2
}
cluster one { gpus = 1; gpu = "cpu" }
cluster pair { gpus = 2; gpu = "cpu" }
parallel micro on one { mesh data = 1; micro batch = 2 }
parallel two on pair { mesh data = 2; shard batch on data }
END
run tops.dsl --no-kernels -o other --parallel two; exits 0
run tops.dsl --no-kernels -o third --parallel micro; exits 3; says 'error[E0590]'; holds test ! -e third

sed -e 's/dim batch = 8, rows = 4/dim batch = 8, rows = 4, pairs = 2, two = 2, four = 4/' -e 's/cumsum.*/y/' rows.dsl >merged.dsl
sed -i -e 's/  return x @d w/  y = (x @d w)[rows -> (pairs, two)]; return cumsum[pairs](y)[(pairs, two) -> rows]/' merged.dsl
run merged.dsl --no-kernels -o third --parallel tensor; exits 3; says 'error[E0594]'; says 'add `shard pairs on tensor`'; holds test ! -e third

sed 's/shard e on/shard w.batch on tensor; shard w.e on/' sums.dsl >limited.dsl
run limited.dsl --no-kernels -o other --parallel tensor; exits 0; says 'warning[L0596]'; says 'nothing of `w`'

# an axis that is split, and a sum that is pending over the same ranks
sed 's/  state top.*//; s/  top = .*/  top = sum[batch](y)/' tops.dsl >mixed.dsl
run mixed.dsl --no-kernels -o other --parallel two; exits 0
run mixed.dsl --no-kernels -o third --parallel micro; exits 3; says 'error[E0590]'; holds test ! -e third

# ---- values used twice, again and again: nothing grows but with their number ----
doubled() { # how often: a bias, a mask and a table of positions, each made of itself twice
    printf '%s\n' 'include "std.dsl"' 'dim batch = 2, seq = 4, kseq = seq, embed = 4, vocab = 8' \
        'model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {' '  param wte[vocab, embed] = normal(0.1)' \
        '  b = iota[kseq] * 0.01 - iota[seq] * 0.01' '  p = iota[embed] * 0.01' '  k = iota[kseq] - iota[seq]'
    i=0
    while [ $i -lt "$1" ]; do
        printf '%s\n' '  b = b + b' '  b = b * b' '  p = p + p' '  p = p * p' '  k = max(k, k - 1)'
        i=$((i + 1))
    done
    printf '%s\n' '  x = wte[vocab = tokens] + p' \
        '  x = attend[seq, kseq, embed](x, x[seq -> kseq], x[seq -> kseq], scale = 0.5, bias = b,' '    mask = k <= 0)' '  return x @embed wte' '}' \
        'train {' '  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))' \
        '  loss = mean[batch, seq](xent[vocab](m(tokens), labels))' '  optimizer = sgd(0.1)' '  steps = 2' '}'
}
doubled 10 >ten.dsl; doubled 40 >forty.dsl
run ten.dsl --emit=c; exits 0; cp out ten.c
run forty.dsl --emit=c; exits 0
holds test "$(wc -c <out)" -lt "$((5 * $(wc -c <ten.c)))"
run forty.dsl --no-kernels -o third; exits 0 # and proved
rm -f third

# values that a loop's body computes in both directions are saved once: x, y, the mean and the
# softmax of each iteration
run "$root/tests/passes/programs/twice.dsl" --print-after=inline --parallel none; exits 0; prints 'stacked_out=6'
run "$root/tests/passes/programs/twice.dsl" --print-after=cse --parallel none; exits 0; prints 'stacked_out=4'
holds sh -c '! grep -q stacked_out=6 out'

# ---- optimizers in a file of their own: nothing calls them ----
cat >optimizers.dsl <<'END'
fn heavy(p[...], g[...], updates, lr, beta = 0.9) -> [...] {
  state m[...] = zeros
  next = beta * m + (1 - beta) * g
  m = next
  return if rank >= 2 then p - lr * next / (1 - beta ** updates) else p - lr * flat(g)
}
fn flat(g[...]) -> [...] { return if rank == 1 then g else refuse("a vector is wanted") }
fn rows_only[rows, cols](p[..., rows, cols], g[..., rows, cols], lr) -> [..., rows, cols] {
  state r[..., rows] = zeros
  now = 0.9 * r + 0.1 * sum[cols](g * g)
  r = now
  return p - lr * g * rsqrt(now + 1e-8)
}
END
run optimizers.dsl --check; exits 0; silent err
run "$root/lib/training.dsl" --check; exits 0; holds sh -c '! grep -q error err'
printf 'fn f(x[...]) -> [...] { return x }\n' | cat - optimizers.dsl program.dsl >all.dsl
run all.dsl --check --parallel two; exits 0; holds sh -c '! grep -q error err'
sed 's/beta \* m +/beta * mm +/' optimizers.dsl >faulty_optimizers.dsl
run faulty_optimizers.dsl --check; exits 3; says 'there is no value `mm`'; holds sh -c '! grep -q E0209 err'
printf 'fn kept[a](x[..., a]) -> [..., a] { state s[a] = zeros; s = x; return x }\n' >kept.dsl
run kept.dsl --check; exits 3; says 'error[E0209]'

# ---- precision ----
for precision in 'grads = bf16' 'reduce = bf16' 'loss_scale = 128' 'loss_scale = dynamic' 'params = bf16' 'params = bf16, master = f32'; do
    run sums.dsl --no-kernels -o third --parallel two --set "train.precision=mixed($precision)"
    exits 0; holds test -e third
    rm -f third
done

# ---- a plan for CPU ranks, whatever the cluster is ----
run sums.dsl --no-kernels -o third --parallel two --set cluster.gpu=h100-sxm --cluster pair --target=cpu; exits 0; says 'L0593'; holds test -e third
run sums.dsl --no-kernels -o third --parallel two --cluster pair --set cluster.nodes=2 --set cluster.gpus=1; exits 0; says 'L0593'
run sums.dsl --no-kernels -o third --parallel none --set pair.gpu=h100-sxm; exits 0; silent err
rm -f third

# ---- what a rank needs beside what its device has; plans of clusters of GPUs ----
cat >large.dsl <<'END'
include "mini/train.dsl"
cluster small { gpus = 2; gpu = "tiny"; intra = link(50GB/s, 2us) }
device "tiny" { like = "a100-80g"; capacity = 1GiB }
parallel two on small { mesh data = 2; shard batch on data }
parallel piped on small { mesh pipe = 2; pipeline h on pipe; micro batch = 4 }
END
run large.dsl --parallel two --no-kernels -o third; exits 0; holds test -e third
run report third; exits 0; prints 'fits '; prints 'for 2 tiny'; prints 'MFU'
run large.dsl --parallel piped --no-kernels -o fourth; exits 0
run compare third fourth; exits 0; prints 'step'; prints 'mean bubble'; prints 'memory of a rank'; lacks 'money'
# reports of stages name the model, too
run compare third fourth; prints 'third: tiny of '; prints 'fourth: tiny of '
run report third; exits 0; prints ' allocated: parameters'; prints ' reserved'
run report fourth --details; exits 0; prints ', in pieces 0, 1'
run report fourth --report=trace; exits 0; holds python3 -c "
import json
slices = [x for x in json.load(open('out'))['traceEvents'] if x['ph'] == 'X']
sends = [x for x in slices if x['name'] == 'send']
assert sends and all(x['args']['bytes'] > 0 for x in sends)"
run compare third fourth --tokens 1B --price 2; exits 0; prints 'device-hours'; prints 'money'
run compare third fourth --price 2; exits 2
run compare third fourth --report=trace; exits 2; says 'is of one plan'
run compare third fourth --report=html; exits 0; prints 'B against A'; lacks 'DATA_OF_THE_REPORT'
sed '1i # <!-- <script> </script>' "$root/examples/quickstart.dsl" >marked.dsl # in the page it is text
run marked.dsl --report=html; exits 0; prints '# \u003c!-- \u003cscript> \u003c/script>'
printf '{"event":"step","step":1,"loss":2.5,"seconds":0.5}\n{"event":"step","step":2,"loss":nul' >cut.jsonl # still written
run compare third fourth --report=html --log cut.jsonl; exits 0; prints '"name":"cut.jsonl"'
run report third --log cut.jsonl; exits 2; says 'add --report=html'
run report third --report=html --log third; exits 5; says 'has no steps'
run report third --report=html --log absent.jsonl; exits 5; says 'absent.jsonl'
run compare third fourth --details; exits 2
"$dtc" "$root/examples/quickstart.dsl" --parallel none --no-kernels -o other 2>err
run compare third other; exits 0; prints 'different models'
run compare third third; exits 0; lacks 'different'
run compare third program.dsl; exits 2; says 'is a program, not a plan'
run report program.dsl; exits 2; says 'program.dsl --report'
for json in --json --report=json; do
    run compare third fourth $json; exits 0; holds python3 -c 'import json
plans = json.load(open("out"))["plans"]
assert [p["plan"] for p in plans] == ["third", "fourth"] and plans[0]["report"] == 3'
done
run compare third; exits 2
run report nothing; exits 5
run large.dsl --parallel two --no-kernels -D batch=4194304 -o fifth; exits 4; says 'error[E0701]'; says 'tiny has 1.00 GiB'; holds test ! -e fifth
run large.dsl --parallel two -D batch=4194304 --report; exits 4; prints 'DOES NOT FIT'; says 'error[E0701]'
run program.dsl --parallel none --report; exits 0; prints 'allocated  '; holds test "$(grep -c '^memory' out)" -eq 1
run explain MFU bubble step 'matrix products' reserved context; exits 0; prints 'contractions of the serial program'; prints 'in bytes'
rm -f third fourth
# each number has a definition that `dtc explain` prints
for word in fits memory step tokens/s MFU HFU bubble limit time traffic exposed run predict allocated reserved parameters \
    gradients optimizer activations workspace communicators 'fused kernels' attention copies messages fixed \
    inputs scalars samples tokens device-hours received headroom total 'mean bubble' saved recomputed band peak FLOP \
    predicted 'ms a step' 'measured / predicted' 'off by' norm lr ETA skipped times GB/s TFLOP/s; do
    run explain "$word"; exits 0; prints '(a number of reports'
done
for word in micro-batch micro-batches 'in flight' bound estimate layout trial all_reduce all_gather reduce_scatter gemm kernel copy \
    shift wait read send recv extrapolated busiest stage ranks ours gpipe 1f1b interleaved_1f1b zb_h1 zb_v dualpipe_v; do
    run explain "$word"; exits 0; prints '(a word of reports'
done
# what a mask hides is known: of the scores of a causal model, half are computed, up to whole tiles
run "$root/examples/gpt2.dsl" --no-kernels --emit=plan; exits 0; prints 'head=64 queries=1024 keys=1024 visible=0.52'

# ---- options that would be ignored ----
run sums.dsl --parallel none --emit=ir -o text; exits 0; holds grep -q 'entry' text
run sums.dsl --emit=ast -o text; exits 0; holds grep -q 'include\|dim' text
run sums.dsl --parallel none --emit=c --report; exits 2
run sums.dsl --check -o third; exits 2; holds test ! -e third
run sums.dsl --parallel none --no-kernels --report --json; exits 0; prints '"memory"'
printf 'include "missing.dsl"\n' >lost.dsl
run lost.dsl --check; exits 3; says 'error[E0001]'
run program.dsl --check -D bach=8; exits 3; says 'error[E0216]'; says 'did you mean'

# ---- a full disk ----
if [ -w /dev/full ]; then
    what='--help >/dev/full'
    "$dtc" --help >/dev/full 2>err
    code=$?
    exits 5
fi

# ---- --verify ----
run program.dsl --verify --no-kernels --parallel two; exits 0; prints ' results of the layout are those of the serial program'; prints "instructions are the layout's ops"; prints 'equal to the serial program: 2 ranks'; prints 'grad'; prints 'update'; prints 'machine code: not run: --no-kernels'
run program.dsl --verify --parallel two -o verified --no-kernels; exits 0; prints 'equal'; holds test -e verified
run program.dsl --verify --check; exits 2
run program.dsl --verify; exits 3; says 'error[E0003]'; says '--parallel two'
run program.dsl --verify --no-kernels --parallel two --emit=ir -o text; exits 0; prints 'equal'; holds grep -q '^func ' text
run program.dsl --verify --no-kernels --parallel staged --emit=schedule-svg -o picture; exits 0; prints 'equal'; holds grep -q '<svg' picture
printf 'include "mini/model.dsl"\n' >untrained.dsl
run untrained.dsl --verify; exits 0; prints 'no plan to prove'; prints 'equal to the serial program: 1 rank'; prints 'machine code: there is none'
if [ -w /dev/full ]; then
    what='untrained.dsl --verify >/dev/full'
    "$dtc" untrained.dsl --verify >/dev/full 2>err
    code=$?
    exits 5
fi
printf '%s\n' 'dim batch = 4, wide = 4' 'model net(x[batch, wide]) -> [batch, wide] { param w[wide] = ones; return x * w / 0 }' \
    'train {' '  x[batch, wide] = synthetic(0, 1)' '  loss = sum[batch, wide](net(x))' '  optimizer = sgd(lr = 0.01)' \
    '  steps = 2' '}' >infinite.dsl
run infinite.dsl --parallel none --verify --no-kernels; exits 1; prints 'not compared'; says 'not finite'
printf '%s\n' 'include "std.dsl"' 'dim batch = 4, wide = 4' 'fn own(p[...], g[...]) -> [...] { return p - g / (g - g) }' \
    'model net(x[batch, wide]) -> [batch, wide] { param w[wide] = ones; return x * w }' 'train {' '  x[batch, wide] = synthetic(0, 1)' \
    '  loss = mean[batch, wide](net(x))' '  optimizer = own()' '  steps = 2' '}' >update.dsl
run update.dsl --verify --no-kernels; exits 1; prints 'not compared'; says 'the formulas of the optimizer leave'
# The proof recurses as deeply as the program is long, so it runs in a thread with a stack of its
# own, whatever the limit of the process is.
awk 'BEGIN { print "include \"std.dsl\"\ndim batch = 4, embed = 4, layers = 2"
    print "model m(x[batch, embed]) -> [batch, embed] {\n  param w[embed] = normal(0.5)\n  x = x * w\n  repeat h in layers {"
    for (i = 0; i < 12000; i++) print "    x = -x"
    print "  }\n  return x\n}\ntrain {\n  x[batch, embed] = synthetic(0, 1)\n  loss = mean[batch, embed](m(x))"
    print "  optimizer = sgd(lr = 0.1)\n  steps = 1\n}" }' >deep.dsl
what='deep.dsl'
(ulimit -s unlimited 2>/dev/null; "$dtc" deep.dsl --parallel none --no-kernels -o deep.plan >out 2>err)
code=$?
exits 0; holds test -s deep.plan
run "$root/tests/passes/programs/layouts.dsl" --verify --no-kernels --parallel padded_twice; exits 0; prints 'equal to the serial program: 4 ranks'
run "$root/tests/passes/programs/frozen.dsl" --verify --no-kernels --parallel data; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/frozen.dsl" --verify --no-kernels --parallel staged; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/frozen.dsl" --verify --no-kernels --parallel cut; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/frozen.dsl" --verify --no-kernels --parallel both; exits 0; prints 'equal to the serial program: 4 ranks'
run "$root/tests/passes/programs/unlearned.dsl" --verify --no-kernels --parallel staged; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/alone.dsl" --verify --no-kernels --train shares --parallel shared; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/alone.dsl" --verify --no-kernels --train shares --parallel zero; exits 0; prints 'equal to the serial program: 4 ranks'
run "$root/tests/passes/programs/alone.dsl" --verify --no-kernels --parallel shared --train looped; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/stopped.dsl" --verify --no-kernels --parallel again; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/twice.dsl" --verify --no-kernels --parallel data; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/towers.dsl" --verify --no-kernels --parallel both; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/towers.dsl" --verify --no-kernels --parallel label; exits 0; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/nested.dsl" --verify --no-kernels --parallel zero1; exits 0; prints 'proved'; prints 'equal to the serial program: 2 ranks'
run "$root/tests/passes/programs/nested.dsl" --verify --no-kernels --parallel zero3; exits 0; prints 'proved'; prints 'equal to the serial program: 4 ranks'
run faulty.dsl --verify; exits 3
echo 'dim n = 2' >empty.dsl
run empty.dsl --verify; exits 2; says 'nothing to verify'
run sums.dsl --verify --parallel micro; exits 3; says 'error[E0590]'


# A definition in a file hides the library's definition of that name. The library's own functions
# still call the library's.
cat >shadow.dsl <<'END'
include "std.dsl"
dim batch = 4, embed = 8
fn sigmoid(x[...]) -> [...] { return x * 2.0 }
fn mean[a](x[..., a]) -> [...] { return sum[a](x) * 3.0 }
model m(x[batch, embed]) -> [batch, embed] { return layernorm[embed](x) + sigmoid(x) - mean[embed](x) }
train { x[batch, embed] = synthetic(0.0, 1.0); loss = mean[batch, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }
END
run shadow.dsl --emit=ir; exits 0; prints 'const() : f32[] number=2 @'; prints 'number=3 @'; prints ' = div('
run shadow.dsl --no-kernels -o shadow.plan; exits 0
run shadow.dsl --verify --no-kernels; exits 0

# ---- logits: no entry stores those of all tokens ----
gpt2() { # option...
    run "$root/examples/gpt2.dsl" --parallel none -D batch=32 --no-kernels -o gpt2.plan "$@"; exits 0
}
stored() { # whether a value of that type is made in an entry, a layer or a loop; functions that stream make blocks of it
    awk '/^func /{whole = / : (entry|body|layer|model) /} whole && / = / && /[[]batch=32, seq=1024, vocab=50257[]]/{found = 1}
        END{exit !found}' out
}
gpt2 --print-after=rows; holds stored # the program as it is written
gpt2 --print-after=memory
for entry in grad eval predict update; do
    prints "func $entry : entry"
done
if stored; then fail 'an entry stores the logits of all tokens'; fi
# With one layer every arena is smaller than these logits are in 16 bits.
gpt2 -D layers=1
run dump gpt2.plan; exits 0; prints 'AREN name="predict"'
holds awk '/^AREN/ && match($0, /bytes=[0-9]+/){n++; large = large || substr($0, RSTART + 6, RLENGTH - 6) + 0 >= 2 * 32 * 1024 * 50257}
    END{exit large || n < 5}' out

# ---- buckets hold more where more ranks share them: three matrices of 16 MiB over 8 and over 128 ranks ----
cat >buckets.dsl <<'END'
dim batch = 256, width = 2048, wider = width
model m(x[batch, width]) -> [batch, width] {
  param a[width, wider] = normal(0.02)
  param b[width, wider] = normal(0.02)
  param c[width, wider] = normal(0.02)
  x = (x @width a)[wider -> width]
  x = (x @width b)[wider -> width]
  return (x @width c)[wider -> width]
}
train {
  x[batch, width] = synthetic(-1, 1)
  loss = sum[batch, width](m(x))
  optimizer = sgd(lr = 0.1, momentum = 0.9)
  steps = 10
}
cluster many { nodes = 1; gpus = 128; gpu = "cpu" }
parallel it on many { mesh data = 128; shard batch on data; zero 1 on data }
END
run buckets.dsl --no-kernels -o buckets.plan --print-after=zero; exits 0
holds test "$(grep -c '^store.*: grad.*@bucket' out)" -eq 1
sed 's/128/8/g' buckets.dsl >fewer.dsl
run fewer.dsl --no-kernels -o buckets.plan --print-after=zero; exits 0
holds test "$(grep -c '^store.*: grad.*@bucket' out)" -eq 3
finish
