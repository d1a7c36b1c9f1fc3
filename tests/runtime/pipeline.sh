#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Pipelines on rank processes:  pipeline.sh DTC DTRUN
# Every schedule, with and without data and tensor parallelism, against one rank; checkpoints from layout to layout;
# evaluation, generation; a stage that is killed, one that hangs, and restarting. The program has dropout in its
# loop, whose draws must not depend on the stage. The text is made here, in a temporary folder.
#
# Losses of 20 steps agree to 1e-5 relative: float32 sums over 128 tokens in another order differ by some 1e-6.
#
# With DT_SHARE=K/N in the environment (tests/share.py) one layout of N is compared with one rank, loads the checkpoint
# and generates; of the programs with a state and with two loops one layout of N; all else always runs.
set -u
. "$(dirname "$0")/check.sh"
. "$root/tests/share.sh"
sed -e 's/x + mlp(\(.*\))$/x + dropout(mlp(\1), 0.1)/' -e 's/layers = 2/layers = 4/' \
    "$root/tests/runtime/small.dsl" >"$work/small.dsl"
cd "$work" || exit 1
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%d squared is %d\n", i, i * i }' >numbers.txt
cat >>small.dsl <<'END'
parallel gpipe on here2 { mesh pipe = 2; pipeline h on pipe (schedule = gpipe); micro batch = 4 }
parallel p2 on here2 { mesh pipe = 2; pipeline h on pipe; micro batch = 8 }
parallel p4 on here4 { mesh pipe = 4; pipeline h on pipe; micro batch = 8 }
parallel inter on here2 { mesh pipe = 2; pipeline h on pipe (schedule = interleaved_1f1b, chunks = 2); micro batch = 4 }
parallel zb_h1 on here2 { mesh pipe = 2; pipeline h on pipe (schedule = zb_h1); micro batch = 4 }
parallel zb_v on here2 { mesh pipe = 2; pipeline h on pipe (schedule = zb_v); micro batch = 4 }
parallel dual on here2 { mesh pipe = 2; pipeline h on pipe (schedule = dualpipe_v); micro batch = 4 }
parallel p2d2 on here4 { mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe; micro batch = 4 }
parallel d2p2 on here4 {
  mesh data = 2, pipe = 2; shard batch on data; pipeline h on pipe (schedule = zb_h1); micro batch = 4
}
parallel p2t2 on here4 { mesh pipe = 2, tensor = 2; shard heads, ffn on tensor; pipeline h on pipe; micro batch = 2 }
parallel m1 on here2 { mesh pipe = 2; pipeline h on pipe }
# The embedding, which is also the head; and the head as a piece of its own.
cluster here3 { gpus = 3; gpu = "cpu" }
cluster here6 { gpus = 6; gpu = "cpu" }
parallel apart on here3 { mesh pipe = 3; pipeline h on pipe (cuts = (0, 4)); micro batch = 4 }
parallel apart6 on here6 { mesh pipe = 6; pipeline h on pipe (schedule = zb_h1); micro batch = 8 }
parallel apart_i on here2 {
  mesh pipe = 2; pipeline h on pipe (schedule = interleaved_1f1b, chunks = 3); micro batch = 4; remat h
}
parallel apart_v on here3 { mesh pipe = 3; pipeline h on pipe (schedule = zb_v); micro batch = 8 }
parallel apart_z on here6 {
  mesh pipe = 3, data = 2; shard batch on data; pipeline h on pipe (schedule = dualpipe_v); micro batch = 4
  zero 3 on data; remat h
}
parallel apart_t on here4 {
  mesh pipe = 2, tensor = 2; shard heads, ffn, vocab on tensor
  pipeline h on pipe (schedule = interleaved_1f1b, chunks = 3); micro batch = 4; zero 1 on tensor
}
END

numbers() { sed -n 's/.*"event":"\(step\|eval\)".*"loss":\([^,]*\),.*/\2/p' "$1"; }
norms() { sed -n 's/.*"grad_norm":\([^,]*\),.*/\1/p' "$1"; }
plan() { "$dtc" small.dsl --parallel "$1" -o "$1.plan" 2>err || { what="dtc $1"; fail 'cannot compile'; }; }
place=0
mine() { # whether this run tests the next case of many
    place=$((place + 1))
    share_has $((place - 1))
}
names() { # prints the names of all tensors of a checkpoint
    grep -aoh '"[^"]*":{"dtype"' "$1"/*.safetensors | sed 's/^"\(.*\)":{"dtype"$/\1/' | sort
}

# ---- every layout against one rank ----
plan none
run none.plan -q --steps 20 --set eval.every=10 --log none.jsonl --save whole; exits 0
numbers none.jsonl >none.losses; norms none.jsonl >none.norms
holds test "$(wc -l <none.losses)" -eq 22
plan p4
for layout in gpipe p2 p4 inter zb_h1 zb_v dual p2d2 d2p2 p2t2 m1 apart apart6 apart_i apart_v apart_z apart_t; do
    mine || continue
    plan $layout
    run $layout.plan -q --steps 20 --set eval.every=10 --log $layout.jsonl; exits 0
    numbers $layout.jsonl >$layout.losses; norms $layout.jsonl >$layout.norms
    alike none.losses $layout.losses 1e-5 22
    alike none.norms $layout.norms 1e-4 20
done
for log in once again; do
    run p4.plan -q --steps 20 --set eval.every=10 --log $log.jsonl; exits 0
    numbers $log.jsonl >$log.losses
done
holds test -s once.losses; holds cmp again.losses once.losses
alike none.losses once.losses 1e-5 22

if command -v python3 >/dev/null; then
    plan p2d2
    run p2d2.plan -q --steps 2 --set eval.every=0 --trace trace.json --log trace.jsonl; exits 0
    holds python3 "$root/tests/runtime/trace.py" 4 trace.json trace.jsonl
else
    echo 'SKIP no python3: the trace is not looked at'
fi

# ---- what a piece's loop saves for its backward loop is counted once, however many pieces there are ----
saved() { "$dtc" dump "$1.plan" | sed -n 's/^SAVE.* saved=\([0-9]*\).*/\1/p'; }
what='saved bytes'
holds test "$(saved p4)" -eq $(($(saved none) / 8)) # of one micro-batch with 8 samples

# ---- checkpoints: the same tensors, whoever saved them; each layout goes on from each ----
last=step-00000020
run p4.plan -q --steps 20 --save stages; exits 0
names whole/$last >a.txt; names stages/$last >b.txt
holds test -s a.txt; holds cmp a.txt b.txt
run p4.plan -q --steps 10 --save half; exits 0
tail -11 none.losses >tail.losses
for layout in none p4 inter p2d2 apart_v; do
    mine || continue
    plan $layout
    cp -r half "half.$layout"
    run $layout.plan -q --resume "half.$layout" --steps 20 --set eval.every=10 --log on.jsonl; exits 0
    numbers on.jsonl >on.losses
    rm -f on.jsonl
    alike tail.losses on.losses 1e-5 11
done
run none.plan -q --steps 10 --save first; exits 0
plan zb_v
run zb_v.plan -q --resume first --steps 20 --set eval.every=10 --log on.jsonl; exits 0
numbers on.jsonl >on.losses
alike tail.losses on.losses 1e-5 11

# ---- evaluation and generation ----
run none.plan --resume whole --eval; exits 0; cp out a.txt
run p4.plan --resume whole --eval; exits 0; holds cmp out a.txt
run none.plan --resume whole --generate '12 sq' --tokens 20 --temperature 0; exits 0; cp out a.txt
for layout in p4 inter p2d2 apart apart_v; do
    mine || continue
    plan $layout
    run $layout.plan --resume whole --generate '12 sq' --tokens 20 --temperature 0; exits 0; holds cmp out a.txt
done

# ---- a state on one stage ----
cat >fit.dsl <<'END'
train {
  f32 x[batch, embed] = synthetic(-1, 1)
  y = m(x)
  loss = mean[batch, embed]((y - sin(x)) * (y - sin(x)))
  optimizer = adamw(lr = 1e-2, clip = 1.0)
  steps = 10
}
cluster four { nodes = 1; gpus = 4; gpu = "cpu" }
END
cat - fit.dsl >state.dsl <<'END'
include "std.dsl"
dim batch = 8, embed = 8, layers = 4, wide = embed, mid = embed
model m(f32 x[batch, embed]) -> [batch, embed] {
  param w0[embed, wide] = normal(0.3)
  y = first:linear[embed, wide](x) + x @embed w0
  repeat h in layers {
    param w[wide, mid] = normal(0.3)
    y = y + tanh(y @wide w)[mid -> wide]
  }
  state mu[wide] = zeros
  z = y - (if training then stop(mu) else mu)
  mu = 0.9 * mu + 0.1 * mean[batch](stop(y))
  return last:linear[wide, embed](z)
}
cluster two { nodes = 1; gpus = 2; gpu = "cpu" }
parallel loop on two { mesh pipe = 2; pipeline h on pipe (schedule = zb_v); micro batch = 2 }
parallel both on four {
  mesh pipe = 2, data = 2; pipeline h on pipe (schedule = zb_h1); micro batch = 2; shard batch on data
}
END
losses_of() { # PROGRAM LAYOUT: writes LAYOUT.losses
    "$dtc" "$1" --parallel "$2" -o "$2.plan" 2>err || { what="dtc $1 $2"; fail 'cannot compile'; }
    run "$2.plan" -q --overwrite --log "$2.jsonl"; exits 0; numbers "$2.jsonl" >"$2.losses"
}
losses_of state.dsl none
for layout in loop both; do
    mine || continue
    losses_of state.dsl $layout
    alike none.losses $layout.losses 1e-5 10
done

# ---- a loop in the loop: stages of a class number the iterations of the outer one alone; buckets of both ----
cat - fit.dsl >nested.dsl <<'END'
include "std.dsl"
dim batch = 8, embed = 8, layers = 8, inner = 3, wide = embed
model m(f32 x[batch, embed]) -> [batch, embed] {
  repeat h in layers {
    repeat k in inner {
      x = x + dropout(tanh(l:linear[embed, wide](x))[wide -> embed], 0.3)
    }
  }
  return x
}
parallel nested4 on four { mesh pipe = 4; pipeline h on pipe; micro batch = 4 }
parallel nested_v on four { mesh pipe = 4; pipeline h on pipe (schedule = zb_v); micro batch = 8; remat h }
parallel nested_z on four { mesh data = 4; shard batch on data; zero 3 on data }
parallel nested_vz on four {
  mesh pipe = 2, data = 2; shard batch on data; pipeline h on pipe (schedule = zb_v); micro batch = 4; zero 2 on data
}
END
losses_of nested.dsl none
for layout in nested4 nested_v nested_z nested_vz; do
    mine || continue
    losses_of nested.dsl $layout
    alike none.losses $layout.losses 1e-5 10
done

# ---- a stage dies, a stage stops, and everything goes on ----
children() { cat "/proc/$1/task/$1/children" | tr ' ' '\n'; } # of a process, oldest first
disturb() { # signal, further arguments
    signal=$1
    shift
    what="dtrun p4.plan and SIG$signal $*"
    rm -f disturbed.jsonl
    timeout 100 "$dtrun" p4.plan -q --set eval.every=0 --log disturbed.jsonl "$@" >out 2>err </dev/null &
    pid=$!
    for _ in $(seq 300); do # waits until a step is done, so that all ranks are running
        grep -qs '"event":"step"' disturbed.jsonl && break
        sleep 0.1
    done
    supervisor=$(children $pid | head -n 1)
    victim=$(children "$supervisor" | sed -n 3p)
    kill "-$signal" "$victim"
    wait $pid
    code=$?
}
disturb KILL --steps 1000000 --trace disturbed.json; exits 75; says 'rank 2 was ended by signal 9'; says_like 'in step [0-9]+, instruction'
for rank in '' .rank0 .rank1 .rank2 .rank3; do holds test ! -e disturbed.json$rank; done
disturb STOP --steps 1000000; exits 75; says 'rank 2 is stopped'; says_like 'while rank [0-3] waits for it'
disturb KILL --steps 600 --save revived --set save.every=20 --restarts 1; exits 0; says_like 'starting again \(1 of 1\)'
holds test -e revived/step-00000600/manifest.json

# ---- what is shown of it ----
"$dtc" small.dsl --parallel p2 --report=text --details >out 2>err; what='dtc --report'
holds grep -q 'memory of one rank of stage 1' out
"$dtc" dump p4.plan >p4.txt 2>err && "$dtc" asm p4.txt -o p4.again 2>>err; what='dtc dump'
holds cmp p4.plan p4.again
# Predicted times are shown next to measured ones.
sed 's/ model_flops=[^ ]*//; s/^META /META model_flops=1e9 /' p4.txt >said.txt
echo 'PRED device="tiny" step=0.125 low=0.1 high=0.15 peak=1e12' >>said.txt
"$dtc" asm said.txt -o said.plan 2>err; what='dtc asm, with a prediction'; holds test -s said.plan
run said.plan --steps 3; exits 0; says_like 'ms a step, predicted 125 ms  MFU [0-9.]* %'
run p4.plan --steps 3; exits 0; what='a plan without one'; holds sh -c '! grep -q predicted err out'

# ---- 64 stages, 512 micro-batches: the plan grows with neither layers nor micro-batches of a stage ----
cat >>small.dsl <<'END'
cluster many { nodes = 64; gpus = 1; gpu = "cpu" }
parallel far on many { mesh pipe = 64; pipeline h on pipe; micro batch = 512 }
parallel farzb on many { mesh pipe = 64; pipeline h on pipe (schedule = zb_h1); micro batch = 512 }
parallel far2 on many {
  mesh pipe = 64; pipeline h on pipe (schedule = interleaved_1f1b, chunks = 2); micro batch = 512
}
END
many() { # LAYOUT LAYERS: makes a plan with that many stages, or pieces
    what="dtc --parallel $1"
    timeout 60 "$dtc" small.dsl --parallel "$1" -D batch=512 -D layers="$2" --no-kernels -o "$1.plan" >out 2>err ||
        fail 'cannot compile'
    bytes=$(wc -c <"$1.plan")
    if [ "$bytes" -lt 2000000 ]; then pass; else fail "the plan has $bytes bytes"; fi
}
for layout in far farzb far2; do many $layout 128; done

# ---- more than 64 stages: compiled, proved, and run ----
cat >>small.dsl <<'END'
cluster more { nodes = 128; gpus = 1; gpu = "cpu" }
parallel more1 on more { mesh pipe = 128; pipeline h on pipe; micro batch = 512 }
parallel more_z on more { mesh pipe = 128; pipeline h on pipe (schedule = zb_h1); micro batch = 512 }
cluster here70 { gpus = 70; gpu = "cpu" }
parallel each70 on here70 { mesh pipe = 70; pipeline h on pipe (schedule = zb_h1); micro batch = 2 }
END
for layout in more1 more_z; do many $layout 128; done
few='-D layers=68 -D embed=4 -D batch=2 -D seq=4'
what='dtc --verify --parallel each70'
"$dtc" small.dsl --parallel each70 $few --verify --no-kernels >out 2>err || fail 'not proved'
holds grep -q "proved: the plan's .* instructions" out; holds grep -q 'equal to the serial program' out
for layout in none each70; do
    "$dtc" small.dsl --parallel $layout $few -o $layout.plan 2>err || fail 'cannot compile'
    run $layout.plan --max-ranks 70 -q --steps 3 --set eval.every=0 --overwrite --log $layout.jsonl; exits 0
    numbers $layout.jsonl >$layout.losses
done
alike none.losses each70.losses 1e-5 3

# ---- a trillion parameters in 128 stages of a layer each ----
cat >deep.dsl <<END
include "$root/examples/gpt_1t.dsl"
cluster deep { nodes = 128; gpus = 8; gpu = "a100-80g" }
parallel deep on deep {
  mesh pipe = 128, tensor = 8; shard heads, ffn, vocab on tensor; shard seq on tensor
  pipeline h on pipe; micro batch = 512; zero 1 on tensor; remat h
}
END
what='dtc deep.dsl'
"$dtc" deep.dsl --parallel deep --no-kernels -o deep.plan >out 2>err || fail 'cannot compile'
holds test "$("$dtc" dump deep.plan | grep -c '^ENTR.*name="step"')" -eq 128

# ---- 22 layers, the embedding and the head: 24 pieces, one of each ----
cat >>small.dsl <<'END'
parallel each on here8 { mesh pipe = 8; pipeline h on pipe (schedule = interleaved_1f1b, chunks = 3); micro batch = 8 }
END
what='dtc --parallel each'
"$dtc" small.dsl --parallel each -D layers=22 --no-kernels -o each.plan >out 2>err || fail 'cannot compile'
holds test "$("$dtc" dump each.plan | grep -c '^ENTR.*name="grad\.f')" -eq 24

echo "pipeline: $passed passed, $failed failed"
[ $failed -eq 0 ]
