#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What lies in the folder of a run, and who may touch it:  saves.sh DTC DTRUN
# Readers and successors beside a run that saves, with a rank that is late; folders and logs of another run; folders
# without a checkpoint; restarts; parameters that an update has spoilt.
set -u
. "$(dirname "$0")/check.sh"
cp "$root/tests/runtime/small.dsl" "$work/small.dsl"
cd "$work" || exit 1
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%d squared is %d\n", i, i * i }' >numbers.txt
what='dtc small.dsl'
"$dtc" small.dsl --parallel d2 -o small.plan 2>err || { fail 'cannot compile'; exit 1; }
last() { (cd "$1" && find . -name 'step-*' | sort | tail -n 1 | sed 's|^\./||'); }
count() { find "$1" -name 'step-*' | wc -l; }
wait_for() { # makes a folder with this many steps
    for _ in $(seq 600); do
        [ -e "$1/latest" ] && [ "$(sed 's/step-0*//' "$1/latest")" -ge "$2" ] && break
        sleep 0.05
    done
}
begin() { # arguments: folder, further options; a run that saves in every step
    folder=$1
    shift
    "$dtrun" small.plan -q --steps 1000000 --set eval.every=0 --set save.every=1 --save "$folder" "$@" \
        >out.run 2>err.run </dev/null &
    pid=$!
    wait_for "$folder" 3
}
end() {
    kill -INT $pid
    wait $pid
}
eval_of() { sed -n 's/eval after \([0-9]*\) steps: loss \([0-9.]*\) .*/\1 \2/p' out; }

# ---- all ranks load one checkpoint, though rank 1 comes a second later and the newest is another one then ----
begin all --set save.keep=0
: >seen.txt
for _ in 1 2 3; do
    DT_FAULT=late:1 timeout 60 "$dtrun" small.plan --resume all --eval >out 2>err </dev/null; code=$?
    what='dtrun --eval, rank 1 late'; exits 0; eval_of >>seen.txt
done
# a second run waits for the lock before it looks at the folder, and does not get it
what='dtrun --resume, rank 1 late, while the run goes on'
DT_FAULT=late:1 timeout 60 "$dtrun" small.plan -q --resume all --steps 3000000 >out 2>err </dev/null; code=$?
exits 2; says 'another run writes to all'
if grep -q 'rank' err; then fail 'a rank is blamed'; else pass; fi
end
# what it saw before is still true
while read -r steps loss; do
    run small.plan --resume "all/$(printf 'step-%08d' "$steps")" --eval; exits 0
    holds test "$(eval_of)" = "$steps $loss"
done <seen.txt
holds test "$(wc -l <seen.txt)" -eq 3
# the chosen checkpoint is removed before rank 1 reads it: all ranks load a newer one
begin few --set save.keep=2
before=$(sed 's/step-0*//' few/latest)
DT_FAULT=late:1 timeout 60 "$dtrun" small.plan --resume few --eval >out 2>err </dev/null; code=$?
what='dtrun --eval of a checkpoint that is removed'; exits 0
# shellcheck disable=SC2046
set -- $(eval_of)
end
holds test "${1:-0}" -gt "$((before + 2))"
if grep -q 'passed over' err; then fail 'a removed checkpoint is called damaged'; else pass; fi
run small.plan -q --save truth --steps "${1:-1}" --set eval.every=0; exits 0
run small.plan --resume truth --eval; holds test "$(eval_of)" = "${1:-0} ${2:-0}"

# ---- folders and logs of another run ----
run small.plan -q --save one --steps 4 --log one.jsonl; exits 0
cksum one/*/* one.jsonl >a.txt
run small.plan -q --save one --steps 2; exits 2; says 'one holds the checkpoints of another run (4 steps)'; says '--overwrite'
run small.plan -q --save two --steps 2 --log one.jsonl; exits 2; says 'the log one.jsonl is that of another run'
run small.plan -q --resume one --save few --steps 5; exits 2; says 'few holds the checkpoints of another run'
run small.plan -q --save one/step-00000004 --steps 2; exits 2; says 'is a checkpoint'
run small.plan -q --save one --overwrite --data numbers.txt=absent.txt; exits 5
cksum one/*/* one.jsonl >b.txt; holds cmp a.txt b.txt; holds test ! -e two
run small.plan -q --save one --steps 2 --log new.jsonl; exits 2; holds test ! -e new.jsonl
run small.plan -q --resume one --steps 5 --log one.jsonl; exits 0; holds test "$(grep -c '"event":"step"' one.jsonl)" -eq 5
run small.plan -q --resume one/step-00000004 --steps 5 --log one.jsonl; exits 0
run small.plan -q --save one --steps 2 --overwrite --log one.jsonl; exits 0
holds test "$(count one)" -eq 1; holds test "$(last one)" = step-00000002
holds test "$(grep -c '"event":"step"' one.jsonl)" -eq 2

# ---- nothing to resume ----
mkdir empty
run small.plan -q --resume empty --steps 3; exits 5; says 'there is no checkpoint in empty'; says '--or-start'
run small.plan -q --resume absent --steps 3; exits 5; says 'cannot open the folder absent'; holds test ! -e absent
run small.plan -q --resume absent --or-start --steps 3; exits 0; holds test -e absent/step-00000003/manifest.json
run small.plan -q --resume absent --or-start --steps 4; exits 0; holds test -e absent/step-00000004/manifest.json
run small.plan -q --resume empty --restarts 1 --steps 3; exits 0; holds test -e empty/step-00000003/manifest.json
run small.plan -q --resume gone/step-00000010 --or-start --steps 3; exits 5; holds test ! -e gone
run small.plan --resume empty --eval --or-start; exits 2; says '--or-start belongs to --resume and training'
run small.plan -q --or-start; exits 2
# a mistake of the user is found before any rank starts, and the message names no rank
unblamed() { exits "$1"; says "$2"; spares 'rank'; }
run small.plan --resume absent/step-00000009 --eval; unblamed 5 'cannot open the folder absent/step-00000009'
run small.plan --resume small.dsl --steps 3; unblamed 5 'cannot open the folder small.dsl: Not a directory'
run small.plan --resume small.dsl --generate 1; unblamed 5 'cannot open the folder small.dsl: Not a directory'
"$dtc" small.dsl --set train.eval.interval=1 -D vocab=60 --data=synthetic --parallel d2 -o narrow.plan 2>err
run narrow.plan --generate 'z'; unblamed 2 'byte 122 of the prompt is outside the vocabulary of 60'
other() { setpriv --reuid=65534 --clear-groups timeout 60 "$@"; }
if [ "$(id -u)" -eq 0 ] && other test -x "$dtrun"; then # root may read and write anywhere
    chmod 755 "$work"; chmod -R a+rX absent; chmod a+r small.plan numbers.txt
    what='dtrun --resume, a folder that cannot be written'
    other "$dtrun" "$work/small.plan" -q --resume absent --steps 9 >out 2>err; code=$?
    unblamed 5 '--resume cannot write to absent: Permission denied'
    chmod 700 absent; what='dtrun --resume, a folder that cannot be read'
    other "$dtrun" "$work/small.plan" --resume absent --eval >out 2>err; code=$?
    unblamed 5 'cannot open the folder absent: Permission denied'
fi
# all checkpoints are damaged: that is not the same as having none
printf 'x' | dd of=empty/step-00000003/manifest.json bs=1 seek=40 conv=notrunc 2>/dev/null
run small.plan -q --resume empty --or-start --steps 3; exits 5; says 'empty/step-00000003/manifest.json is damaged'
rm empty/step-00000003/manifest.json
run small.plan -q --resume empty --or-start --steps 3; exits 5; says 'empty/step-00000003/manifest.json: No such file'

# a folder is where a checkpoint's manifest was: the run begins with the previous checkpoint, and
# saves a new one in its place
run small.plan -q --save odd --steps 3 --set save.every=1 --set save.keep=0; exits 0
rm odd/step-00000002/manifest.json; mkdir odd/step-00000002/manifest.json; rm -r odd/step-00000003
run small.plan -q --resume odd --steps 3 --set save.every=1; exits 0
holds test -f odd/step-00000002/manifest.json; holds test -f odd/step-00000003/manifest.json

# ---- numbers that are not finite ----
cat >spoilt.dsl <<'END'
include "std.dsl"
dim batch = 8, wide = 4
model m(x[batch, wide]) -> [batch] {
  param w[wide] = normal(0.1)
  return sum[wide](x * w * w)
}
train {
  x[batch, wide] = synthetic(0, 1)
  loss = mean[batch](m(x))
  optimizer = sgd(lr = 0.01)
  eval = every(1000, steps = 1, data = synthetic(0, 1))
  save = every(1, keep = 1)
  steps = 3
}
END
what='dtc spoilt.dsl'
"$dtc" spoilt.dsl --parallel none -o spoilt.plan 2>err || fail 'cannot compile'
run spoilt.plan -q --save good; exits 0
# the rows of its input are no tokens
run spoilt.plan --steps 2 --log rows.jsonl; exits 0; says 'samples/s'
holds grep -q '"samples_per_second":[1-9]' rows.jsonl
holds test "$(grep -c tokens rows.jsonl)" = 0
run small.plan -q --steps 2 --overwrite --log words.jsonl; exits 0
holds grep -q '"samples_per_second":[1-9].*"tokens_per_second":[1-9]' words.jsonl
# an update makes the parameters infinite: they are not saved
run spoilt.plan -q --resume good --steps 9 --set lr.base=1e39; exits 1; says '`w` has numbers that are not finite'
holds test "$(last good)" = step-00000003
# the parameters are finite, but the loss of the next step is not: the previous checkpoint stays
run spoilt.plan -q --resume good --steps 9 --set lr.base=1e30; exits 1; says 'the loss of step 5 is'
says 'the last checkpoint has 4 steps and leads there: go on from an older one'
holds test -e good/step-00000003/manifest.json
run spoilt.plan --resume good/step-00000003 --eval; exits 0
run spoilt.plan --resume good --eval; exits 1; says 'the loss over 8 samples after 4 steps is'
run spoilt.plan -q --resume good/step-00000003 --steps 9; exits 0; holds test "$(count good)" -eq 1
# the loss is finite, but the norm of its gradients is not: the step changes nothing, and the steps
# before it are saved, to the bit
cat >steep.dsl <<'END'
include "std.dsl"
dim batch = 8, wide = 4, layers = 4
model m(x[batch, wide]) -> [batch] {
  state seen[wide] = zeros
  param w[wide] = normal(0.1)
  y = x * w
  repeat h in layers {
    param u[wide] = normal(0.1)
    y = y + x * u
  }
  r = sum[wide](y + 0 * seen)
  seen = seen + mean[batch](stop(y))
  return -exp(r)
}
train {
  x[batch, wide] = synthetic(0, 1)
  loss = mean[batch](m(x))
  optimizer = adamw(lr = 0.5)
  save = every(10, keep = 1)
  steps = 100
}
cluster c2 { gpus = 2; gpu = "cpu" }
cluster c4 { gpus = 4; gpu = "cpu" }
parallel data on c2 { mesh data = 2; shard batch on data; zero 2 on data }
parallel both on c4 { mesh pipe = 2, tensor = 2; shard wide on tensor; pipeline h on pipe; micro batch = 2 }
END
for layout in none data both; do
    what="dtc steep.dsl, $layout"
    "$dtc" steep.dsl --parallel $layout -o steep.plan 2>err || fail 'cannot compile'
    rm -rf steep whole
    run steep.plan -q --save steep; exits 1; says 'the gradient norm of step 12 is infinite; parameters are as before it'
    says 'the last checkpoint has 11 steps and leads there: go on from an older one'
    run steep.plan -q --save whole --steps 11; exits 0
    for file in model optimizer; do
        holds cmp steep/step-00000011/$file.safetensors whole/step-00000011/$file.safetensors
    done
    holds test -e steep/step-00000010/manifest.json
    run steep.plan -q --resume steep/step-00000011; exits 1; says 'the gradient norm of step 12 is infinite'
    holds test "$(count steep)" -eq 2
done
run steep.plan --eval; exits 2; says '--eval: the plan has no held-out data'; spares 'rank'
run steep.plan -q --steps 12; exits 1; says 'the gradient norm of step 12 is infinite'
# with a dynamic loss scale, steps are skipped before the run ends: the checkpoint with which the
# last step that was not skipped began stays
what='dtc steep.dsl, loss_scale = dynamic'
"$dtc" steep.dsl --parallel none --set 'train.precision=mixed(loss_scale = dynamic)' \
    --set 'train.save=every(1, keep = 1)' -o steep.plan 2>err || fail 'cannot compile'
rm -rf steep
run steep.plan -q --save steep --log steep.jsonl; exits 1; says 'with a loss scale of 1'
finite=$(sed -n 's/.*"event":"step","step":\([0-9]*\),.*"grad_norm":[0-9].*/\1/p' steep.jsonl | tail -n 1)
holds test "$finite" -lt "$(sed 's/step-0*//' steep/latest)"
run steep.plan -q --resume "steep/$(printf 'step-%08d' $((finite - 1)))" --steps "$finite"; exits 0

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
