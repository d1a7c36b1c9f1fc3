#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Interrupted runs go on to the bits of the uninterrupted one:  resume.sh DTC DTRUN
# After every number of steps, over the end of an epoch, on two ranks with micro-batches and dropout; after a kill
# at any moment; after a full disk.
set -u
. "$(dirname "$0")/check.sh"
cp "$root/tests/runtime/small.dsl" "$work/small.dsl"
cd "$work" || exit 1
awk 'BEGIN { for (i = 0; i < 80; i++) printf "%d squared is %d\n", i, i * i }' >numbers.txt
steps=12 # number of steps: an epoch has 83 batches of 8 samples

# arguments: trains quietly
run() {
    what="dtrun small.plan $*"
    timeout 60 "$dtrun" small.plan -q --set eval.every=0 "$@" >out 2>err </dev/null
}
# arguments: folder, name; checks that the tensors equal those of the uninterrupted run
same() {
    if cmp -s "straight/$last/model.safetensors" "$1/$last/model.safetensors" &&
        cmp -s "straight/$last/optimizer.safetensors" "$1/$last/optimizer.safetensors"; then pass; else fail "$2"; fi
}

"$dtc" small.dsl --parallel d2m2 -o small.plan 2>err || { fail 'cannot compile'; exit 1; }
last=$(printf 'step-%08d' $steps)
run --save straight --steps $steps || { fail 'the straight run'; exit 1; }
run --save again --steps $steps
same again 'two runs differ'

k=1
while [ $k -lt $steps ]; do
    run --save part$k --steps $k && run --resume part$k --steps $steps || fail "resuming after $k steps"
    same part$k "resumed after $k steps: other bits"
    k=$((k + 1))
done

# Kills the run at some moment, again and again, until it has reached its end.
tries=0
while [ ! -e killed/$last/manifest.json ] && [ $tries -lt 60 ]; do
    "$dtrun" small.plan -q --set eval.every=0 --set save.every=1 --resume killed --or-start --steps $steps \
        >out 2>err </dev/null &
    pid=$!
    sleep 0.$((1 + tries % 8))
    if [ $tries -lt 40 ]; then kill -9 $pid 2>/dev/null; fi
    wait $pid 2>/dev/null
    tries=$((tries + 1))
done
same killed "killed $tries times: other bits"

# The disk is full at the n-th write of each rank. The run goes on, saves later, and reports the
# failed saves, also by its exit code. Ranks may fail in one save or in two.
for n in 1 2 3 5 6; do
    rm -rf full
    run --save full --steps 5 || fail 'the run before the disk is full'
    DT_FAULT=write:$n run --resume full --steps $steps --set save.every=4
    code=$?
    what="write $n fails"
    exits 5; says 'was not saved (earlier ones are untouched)'; says 'free some space'
    says 'the run goes on and tries again'
    says_like '^dtrun: (1 checkpoint was|2 checkpoints were) not saved; the newest has 12 of 12 steps'
    same full "saved after failed write $n: other bits"
done

# A damaged checkpoint is named and skipped, and the run continues from the one before it.
run --save hurt --steps $steps --set save.every=6 --set save.keep=2 || fail 'the run to be damaged'
printf 'x' | dd of=hurt/$last/model.safetensors bs=1 seek=5000 conv=notrunc 2>/dev/null
if run --resume hurt/$last --steps $((steps + 1)); then fail 'a damaged checkpoint loads'; else pass; fi
run --resume hurt --save healed --steps $steps || fail 'resuming from the one before'
if grep -q "note: the checkpoint hurt/$last is passed over: .* is damaged: chunk 0, bytes" err; then pass; else fail 'it is not named'; fi
same healed 'resumed from the one before: other bits'
cp -r hurt mended
run --resume mended --steps $steps --restarts 1 || fail 'resuming with --restarts from the one before'
if grep -q 'is passed over: .* is damaged: chunk 0, bytes' err; then pass; else fail 'it is not named'; fi
same mended 'a damaged checkpoint is not replaced'

# When one given checkpoint is resumed, new ones are saved next to it.
run --resume hurt/step-00000006 --steps $steps || fail 'resuming one of several'
same hurt 'resumed one of several: other bits'

# A layout can load what another layout saved.
"$dtc" small.dsl --parallel none -o small.plan 2>err || fail 'cannot compile for one rank'
if run --resume straight --steps $((steps + 1)); then pass; else fail 'another layout cannot load'; fi

# With parameters in f16, master copies and a dynamic loss scale: at first the sum over samples
# overflows.
sed 's/loss = mean/loss = sum/' small.dsl >half.dsl
"$dtc" half.dsl --parallel d2m2 -o small.plan \
    --set 'train.precision=mixed(compute = f16, params = f16, master = f32, grads = f32, loss_scale = dynamic)' 2>err ||
    fail 'cannot compile in 16 bits'
rm -rf straight
run --save straight --steps $steps --log half.jsonl || fail 'the straight run in 16 bits'
if grep -q '"skipped":[1-9]' half.jsonl; then pass; else fail 'no step was skipped'; fi
for k in 1 2 7; do
    run --save half$k --steps $k && run --resume half$k --steps $steps || fail "resuming after $k steps in 16 bits"
    same half$k "resumed after $k steps in 16 bits: other bits"
    if [ "$(grep -A 4 '"loss_scale"' straight/$last/manifest.json)" = \
        "$(grep -A 4 '"loss_scale"' half$k/$last/manifest.json)" ]; then
        pass
    else
        fail "another loss scale after $k steps"
    fi
done
"$dtc" half.dsl --parallel none -o small.plan 2>err || fail 'cannot compile in f32'
if run --resume straight --steps $((steps + 1)); then pass; else fail 'f32 cannot load 16 bits'; fi

echo "resume: $passed passed, $failed failed"
[ $failed -eq 0 ]
