#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dtrun on plans that dtc compiled:  dtrun.sh DTC DTRUN
# Layouts against each other, libraries, repetition, resuming, Ctrl-C, evaluation, generation, trace,
# wrong command lines and wrong files. The text is made here; nothing outside a temporary folder is used.
set -u
. "$(dirname "$0")/check.sh"
cp "$root/tests/runtime/small.dsl" "$work/small.dsl"
cd "$work" || exit 1
awk 'BEGIN { for (i = 0; i < 3000; i++) printf "%d squared is %d\n", i, i * i }' >numbers.txt

plan() { # name, further arguments of dtc
    name=$1
    shift
    "$dtc" small.dsl "$@" -o "$name.plan" 2>err || { what="dtc $*"; fail "cannot compile"; exit 1; }
}
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' "$1"; }
wait_for_steps() { # Argument: the log of a run that continues
    for _ in $(seq 200); do
        [ "$(grep -c '"event":"step"' "$1" 2>/dev/null)" -ge 5 ] 2>/dev/null && break
        sleep 0.1
    done
}
losses_alike() { # two logs, relative tolerance, steps
    losses "$1" >a.txt
    losses "$2" >b.txt
    what="losses of $1 and $2"
    alike a.txt b.txt "$3" "$4"
}
tensors() {
    find "$1" -name '*.safetensors' | sort | while read -r file; do echo "${file##*/} $(cksum <"$file")"; done
}

# ---- metrics stand beside the loss in the progress ----
"$dtc" "$root/tests/passes/programs/metrics.dsl" --parallel data -o metrics.plan 2>err || { cat err; exit 1; }
run metrics.plan; exits 0; says 'step 3/3  loss 1.6440  accuracy 0.3333  some 0.1429  seen 7.0000'
says 'eval after 3 steps: loss 1.7394, accuracy 0.1667'

# ---- command line ----
run --help; exits 0; prints 'usage: dtrun'; prints '--temperature'
if grep -q -- '--shared' out; then fail 'the help shows hidden options'; else pass; fi
run --version; exits 0
run --man; exits 0; prints '.TH'
run; exits 2; says 'which plan?'
run a.plan b.plan; exits 2; says 'one plan at a time'
run a.plan --stepz 3; exits 2; says 'did you mean --steps'
run a.plan --steps -3; exits 2; says '--steps wants a number'
run a.plan --gemm blas; exits 2; says 'onednn, openblas or plain'
run a.plan --data x; exits 2; says 'OLD=NEW'
run a.plan --eval --generate x; exits 2; says 'exclude each other'
run a.plan --tokens 5; exits 2; says '--tokens belongs to --generate and --prompts'
run a.plan --eval --temperature 1; exits 2; says '--temperature belongs to --generate'
run a.plan --seed 5; exits 2; says '--seed belongs to --generate'
run a.plan --max-ranks many; exits 2; says '--max-ranks wants a number'
run absent.plan; exits 5; says 'absent.plan'
run small.dsl; exits 5; says 'not a plan'

# ---- layouts ----
plan one --parallel none
run one.plan -q --log one.jsonl; exits 0
holds test "$(losses one.jsonl | wc -l)" -eq 50
holds grep -q '"event":"start".*"gemm":"o[a-z]*","plain_gemms":0' one.jsonl
for layout in d2 d4 d8 d2m2 m4; do
    plan $layout --parallel $layout
    run $layout.plan -q --log $layout.jsonl; exits 0
    losses_alike one.jsonl $layout.jsonl 1e-5 50
done
# compares the evaluation too: the last line of each log
for layout in d2 d8 m4; do
    grep -h '"event":"eval","step":50' one.jsonl $layout.jsonl | sed 's/.*"loss":\([^,]*\),.*/\1/' >a.txt
    holds awk 'NR == 1 { x = $1 } NR == 2 { d = x - $1 } END { exit !(NR == 2 && d < 1e-5 && d > -1e-5) }' a.txt
done
# the loss falls
holds awk 'NR == 1 { first = $1 } END { exit !($1 < 0.6 * first) }' <<END
$(losses one.jsonl)
END

# ---- a run in a file: what was run, lines, what came of it, and the page ----
run d2.plan --log shown.jsonl --save shown --steps 4; exits 0
says 'model     small (small.dsl), '
says 'layout    data = 2: 2 ranks on cpu, '
says_like '^data      .*numbers.txt: [0-9,]* samples, [0-9,]* steps an epoch of [0-9]* samples a step$'
says 'run       steps 1 to 4, evaluation every '
says_like '^done      4 steps in .*, [0-9.]* k? ?tokens/s, goodput [0-9.]* %$'
says_like '^loss      [0-9.]* at the first step, [0-9.]* over the last 4; evaluation: loss [0-9.]*$'
says 'files     shown, shown.jsonl, shown.jsonl.html'
says 'next      dtrun d2.plan --steps 8 --resume shown'
holds grep -q '"kind":"loss","name":"loss","points":\[\[1' shown.jsonl.html
run d2.plan -q --log shown.jsonl --overwrite --steps 3; exits 0; holds test ! -s err
holds grep -q '\[3.0,[0-9.]*\]\],"odd":0,"n":3' shown.jsonl.html # starts this run
run d2.plan --log shown.jsonl --overwrite --data numbers.txt=absent.txt; exits 5
# a run without any step makes no page
run d2.plan -q --log shown.jsonl --overwrite --steps 0; exits 0; holds test ! -e shown.jsonl.html
run d2.plan -q --log /dev/null --steps 2; exits 0; holds test ! -e /dev/null.html
mkdir taken.jsonl.html
run d2.plan -q --log taken.jsonl --steps 2; exits 5; says 'the page of the run: '; says 'taken.jsonl.html'
echo mine >theirs.jsonl.html
run d2.plan -q --log theirs.jsonl --steps 2; exits 5; says 'is no page of an earlier run'; spares 'step 1'
holds grep -q mine theirs.jsonl.html; holds test ! -e theirs.jsonl
run d2.plan --resume shown --eval --log eval.jsonl; exits 0; spares 'model  '; holds test ! -e eval.jsonl.html

# ---- pixels are integers and no tokens ----
cat >pixels.dsl <<'END'
include "std.dsl"
dim batch = 4, pixels = 16, classes = 3
model net(x[batch, pixels]) -> [batch, classes] { return out:linear[pixels, classes](x, std = 0.1) }
train {
  i32 image[batch, pixels] = bin("numbers.txt", u8)
  y = net(f32(image) / 255)
  loss = mean[batch, classes](y * y)
  optimizer = sgd(lr = 1e-9)
  steps = 2
}
END
"$dtc" pixels.dsl -o pixels.plan 2>err || { cat err; exit 1; }
run pixels.plan --log pixels.jsonl; exits 0; says 'samples/s'; spares 'tokens'
holds sh -c '! grep -q tokens_per_second pixels.jsonl'

# ---- libraries, unfused kernels, repetition ----
for library in plain openblas onednn; do
    run one.plan -q --gemm $library --log $library.jsonl; exits 0
    losses_alike one.jsonl $library.jsonl 1e-4 50
done
plan unfused --parallel none --unfused
run unfused.plan -q --log unfused.jsonl; exits 0
losses_alike one.jsonl unfused.jsonl 1e-4 50
run d2.plan -q --log again.jsonl; exits 0
losses d2.jsonl >a.txt; losses again.jsonl >b.txt
holds cmp a.txt b.txt

# ---- saving and resuming: the bits of the uninterrupted run ----
run d2.plan -q --save whole; exits 0
run d2.plan -q --save halves --steps 23; exits 0
run d2.plan -q --resume halves; exits 0
tensors whole/step-00000050 >a.txt; tensors halves/step-00000050 >b.txt
holds test -s a.txt; holds cmp a.txt b.txt
run one.plan -q --resume halves --steps 52; exits 0
run one.plan -q --resume absent; exits 5

# ---- evaluation and generation ----
run d2.plan --resume whole --eval; exits 0; prints 'eval after 50 steps: loss'
run d2.plan --resume whole --eval --set eval.steps=0; exits 0; holds grep -q 'over [0-9]*[1-7] samples' out
cp out a.txt
run one.plan --resume whole --eval --set eval.steps=0; exits 0; holds cmp out a.txt
# the rest of the last batch: exact for a mean and a sum whatever the batch is, left out for a quotient of sums
eval_of() { # LOSS BATCH [EXIT CODE]: eval_sum is the loss over the whole held-out part and the number of samples
    sed "s|  loss = .*|  l = xent[vocab](small(tokens), labels)\n  loss = $1|" small.dsl >loss.dsl
    what="dtc loss.dsl, loss = $1"
    "$dtc" loss.dsl --parallel none -D batch="$2" -o loss.plan 2>err || fail 'cannot compile'
    run loss.plan --resume whole --eval --set eval.steps=0; exits "${3:-0}"
    eval_sum=$(sed 's/.*: loss \([^ ]*\) over \([0-9]*\) samples.*/\1 \2/' out)
}
eval_of 'mean[batch, seq](l)' 1
held=$eval_sum
for batch in 8 100 5000; do
    eval_of 'mean[batch, seq](l)' $batch; holds test "$eval_sum" = "$held"
done
eval_of 'sum[batch, seq](l)' 8
holds awk 'END { split($0, a); exit !(a[2] == a[4] && a[1] / 128 - a[3] < 2e-4 && a[3] - a[1] / 128 < 2e-4) }' <<END
$eval_sum $held
END
quotient='sum[batch, seq](l * (labels > 0)) / sum[batch, seq](labels > 0)'
eval_of "$quotient" 8
held=$eval_sum
for batch in 100 5000; do
    eval_of "$quotient" $batch; holds test "$eval_sum" = "$held"
done
largest='max[batch](mean[seq](l))'
eval_of "$largest" 100; holds test "$(echo "$eval_sum" | awk '{ print $2 % 100 }')" -eq 0
eval_of "$largest" 5000 2; says 'smaller batch'
run d2.plan --resume whole --generate '12 sq' --tokens 40 --temperature 0; exits 0; prints '12 sq'
holds test "$(wc -c <out)" -eq 46
cp out a.txt
run one.plan --resume whole --generate '12 sq' --tokens 40 --temperature 0; exits 0; holds cmp out a.txt
run d2.plan --resume whole --generate '1' --tokens 30 --temperature 0.8 --seed 5; cp out a.txt
run d2.plan --resume whole --generate '1' --tokens 30 --temperature 0.8 --seed 5; holds cmp out a.txt
run d2.plan --resume whole --generate '1' --tokens 30 --temperature 0.8 --seed 6
if cmp -s out a.txt; then fail 'another seed writes the same text'; else pass; fi

# tokens of a vocabulary that has more entries than there are bytes
plan wide --parallel none -D vocab=3000
run wide.plan --generate 1 --tokens 20 --temperature 1; exits 0; holds grep -aq '<[0-9][0-9]*>' out

# ---- trace ----
run d2.plan -q --steps 3 --trace trace.json; exits 0
for text in '"traceEvents"' '"name":"rank 1"' '"all_reduce"' 'small.dsl:' '"name":"step 2"'; do
    holds grep -q "$text" trace.json
done
holds test ! -e trace.json.rank1
if command -v python3 >/dev/null; then
    run d4.plan -q --steps 3 --set eval.every=0 --trace trace.json --log trace.jsonl; exits 0
    holds python3 "$root/tests/runtime/trace.py" 4 trace.json trace.jsonl # tracks and bytes
else
    echo 'SKIP no python3: trace.json not parsed'
fi

# ---- limits of the shell ----
run one.plan -q --steps 9223372036854775807; exits 2; says 'at most 2^46'
run one.plan -q --set train.steps=9223372036854775807; exits 2; says 'is no count'
what='ulimit -f 1; dtrun'
sh -c 'ulimit -f 1; "$0" one.plan -q --steps 2 --save limited' "$dtrun" >out 2>err </dev/null; code=$?
exits 4; says 'ulimit -f'

# ---- what a plan's strings may hold does not reach the terminal ----
"$dtc" dump one.plan >one.text
sed 's/"numbers.txt"/"\\x1b[31mnumb\\xc2\\x9bers\\x0adtrun: all is well.txt"/' one.text >wicked.text
holds sh -c '! cmp -s one.text wicked.text'
"$dtc" asm wicked.text -o wicked.plan; "$dtc" dump wicked.plan >wicked.dump
holds cmp wicked.text wicked.dump
run wicked.plan -q --steps 1; exits 1; says 'is not proved to compute what its program says'
holds sh -c '! LC_ALL=C grep -q "$(printf "[\033\233]")" err'
run wicked.plan -q --steps 1 --unproved; exits 5
holds sh -c '! LC_ALL=C grep -q "$(printf "[\033\233]")" err'; says '\x1b[31mnumb\xc2\x9bers'

what='dtc asm of a plan whose formula has no settings'
grep -v '^SETT' one.text >norate.text
"$dtc" asm norate.text -o norate.plan 2>err; code=$?; holds test "$code" -ne 0; says 'there is no number `lr.'

# ---- settings and data ----
run one.plan -q --steps 2 --set lr.base=0.5 --set lr.warmup=0 --log set.jsonl; exits 0
holds grep -q '"step":1,.*"lr":0.5' set.jsonl
run one.plan -q --set lr.bas=1; exits 2; says 'did you mean `lr.base`'
run one.plan -q --set lr.base=1e30 --set lr.warmup=0 --trace bad.json; exits 1; says 'of step'
holds test ! -e bad.json; holds test ! -e bad.json.rank0
run one.plan -q --set lr.every=5; exits 2; says 'this plan has no key `lr.every`'
run one.plan -q --set lr.factor=0.5; exits 2; says 'no key `lr.factor`'
sed 's/warmup_cosine(1e-2, warmup = 5, total = 50, floor = 1e-3)/1e-2/; /^  eval = /d' small.dsl >plain.dsl
what='dtc plain.dsl'; "$dtc" plain.dsl --parallel none -o plain.plan 2>err || fail 'cannot compile'
run plain.plan -q --steps 2 --set lr.warmup=3; exits 2; says 'no key `lr.warmup`'
run plain.plan -q --steps 2 --set eval.every=1; exits 2; says 'no held-out data'
run plain.plan -q --steps 2 --set lr.base=0.5; exits 0
sed 's/squared/SQUARED/' numbers.txt >other.txt
run one.plan -q --steps 2 --data numbers.txt=other.txt --log other.jsonl; exits 0
losses other.jsonl >a.txt; losses one.jsonl | head -2 >b.txt
if cmp -s a.txt b.txt; then fail 'other data, same losses'; else pass; fi
run one.plan -q --steps 2 --data synthetic; exits 0
run one.plan -q --data numbers.txt=absent.txt; exits 5; says 'small.dsl:28:3: cannot read absent.txt'; spares rank
head -c 400 numbers.txt >outside.txt; printf '\310' >>outside.txt; head -c 300 numbers.txt >>outside.txt
run one.plan -q --data numbers.txt=outside.txt; exits 5
says 'small.dsl:28:3: token 400 (byte 400) of outside.txt is 200: outside `vocab` of 128, which `tokens` indexes at small.dsl:20'; spares rank
# longer than what is checked before the ranks start: a rank finds the error, and prints the same
# message as the check
head -c 70000000 /dev/zero | tr '\0' '\310' >large.txt
for ranks in one d2; do
    run $ranks.plan -q --data numbers.txt=large.txt --set eval.every=0; exits 5; spares rank; spares instruction
    says 'of large.txt is 200: outside `vocab` of 128, which `tokens` indexes at small.dsl:20'
    holds grep -q 'small.dsl:28:3: token \([0-9]*\) (byte \1) of' err
done
rm large.txt
gzip -c numbers.txt >packed.gz
run one.plan -q --data numbers.txt=packed.gz; exits 5; says 'packed.gz is compressed (gzip): unpack it first (gunzip)'; spares rank
run d2.plan -q --data numbers.txt=packed.gz --set eval.every=0; exits 5; spares rank

# ---- places to write to ----
run d2.plan -q --log one.plan/log.jsonl; exits 5; says '--log one.plan: something else has that name'; spares rank
run d2.plan -q --log "$work"; exits 5; says 'is a folder; name a file'; spares rank
run d2.plan -q --save numbers.txt; exits 5; says '--save numbers.txt: something else has that name'; spares rank
run d2.plan -q --save numbers.txt/deeper; exits 5; says 'something else has that name'; spares rank

# ---- what there is not ----
run one.plan -q --device tpu; exits 2; says 'no device `tpu`'; spares rank
run one.plan -q --share-gpu; exits 2; says "share-gpu says nothing of device"; spares rank
run one.plan -q --device cuda; exits 2; says 'none for device `cuda`: compile it with --target=sm_90a'; spares rank
run one.plan -q --comm mpi; exits 2; says 'no communicator `mpi`'; spares rank
run one.plan -q --comm nccl; exits 2; says '--comm nccl is for GPUs'; spares rank

# ---- damaged plans ----
head -c 3000 one.plan >cut.plan
run cut.plan; exits 5; says 'was cut or extended'
cp one.plan bad.plan; printf 'x' | dd of=bad.plan bs=1 seek=2000 conv=notrunc 2>/dev/null
run bad.plan; exits 5; says 'digest'
plan empty --parallel none --no-kernels
run empty.plan; exits 1; says '--no-kernels'

# ---- kernels compiled again: the same numbers ----
run empty.plan --rebuild --log rebuilt.jsonl; exits 0; says 'compiling the kernels for this processor'
losses one.jsonl >a.txt; losses rebuilt.jsonl >b.txt; holds cmp a.txt b.txt
plan level2 --parallel d2 --target=cpu-v2
run level2.plan -q --log level2.jsonl; exits 0
run level2.plan -q --rebuild --overwrite --log rebuilt.jsonl; exits 0
losses level2.jsonl >a.txt; losses rebuilt.jsonl >b.txt; holds cmp a.txt b.txt
other=cpu-arm64; [ "$(uname -m)" = x86_64 ] || other=cpu-v2
"$dtc" dump level2.plan | sed "s/cpu-v2/$other/" >other.txt
"$dtc" asm other.txt -o other.plan || fail 'cannot write a plan for another processor'
run other.plan -q --unproved --overwrite --log rebuilt.jsonl; exits 0
losses rebuilt.jsonl >b.txt; holds cmp a.txt b.txt
what='dtrun level2.plan --rebuild without a compiler'
DT_CC=/nonexistent/cc timeout 60 "$dtrun" level2.plan --rebuild >out 2>err </dev/null; code=$?
exits 5; says 'must be compiled for this processor'

# ---- plans for more than this machine ----
sed 's/gpus = 2;/gpus = 2048;/; /d2m2/d; s/mesh data = 2; shard batch on data }/mesh data = 2048; shard batch on data }/' \
    small.dsl >wide.dsl
what='dtc wide.dsl'
"$dtc" wide.dsl --parallel d2 -D batch=2048 --no-kernels -o wide.plan 2>err || fail 'cannot compile'
run wide.plan; exits 2; says '2048 ranks'; says '--max-ranks 2048'
plan large --parallel none --no-kernels -D batch=50000000
run large.plan; exits 4; says '1 ranks need'

# ---- Ctrl-C: the step is finished and saved, and resuming gives the bits of an uninterrupted run ----
what='dtrun interrupted'
"$dtrun" d2.plan -q --steps 100000 --set eval.every=0 --save stopped --log stopped.jsonl >out 2>err </dev/null &
pid=$!
wait_for_steps stopped.jsonl
# another run may not write to this one's files
cp err err.first
run one.plan -q --steps 2 --save stopped; exits 2; says 'another run writes to stopped'
run one.plan -q --steps 2 --log stopped.jsonl; exits 2; says 'another run writes to stopped.jsonl'
run one.plan -q --steps 2 --save elsewhere --log elsewhere.jsonl; exits 0
cp err.first err
what='dtrun interrupted'
kill -INT $pid
wait $pid
code=$?
exits 130
last=$(sed -n 's/.*"event":"step","step":\([0-9]*\),.*/\1/p' stopped.jsonl | tail -1)
steps=$((last + 4))
run d2.plan -q --resume stopped --steps $steps --set eval.every=0; exits 0
run d2.plan -q --save straight --steps $steps --set eval.every=0; exits 0
tensors "$(ls -d stopped/step-* | tail -1)" >a.txt; tensors "$(ls -d straight/step-* | tail -1)" >b.txt
holds test -s a.txt; holds cmp a.txt b.txt
# the command that continues the run does so with the same numbers
what='dtrun interrupted, and what it says'
chosen='--gemm plain --epilogues all'
"$dtrun" d2.plan --device cpu --comm shm $chosen --max-ranks 9 --steps 1000 --set eval.every=0 \
    --data numbers.txt=other.txt --save "it's here" --log said.jsonl >out 2>err </dev/null &
pid=$!
wait_for_steps said.jsonl
kill -INT $pid
wait $pid
code=$?
exits 130
on=$(sed -n 's/^stopped after step [0-9]*; go on with: dtrun \(.*\)/\1/p' err)
holds test -n "$on"
says "--steps 1000 --device cpu --comm shm $chosen --max-ranks 9"
last=$(losses said.jsonl | wc -l)
on=$(echo "$on" | sed "s/--steps 1000/--steps $((last + 3))/")
what="dtrun $on"
eval "timeout 60 '$dtrun' $on --log said.jsonl" >out 2>err </dev/null
code=$?; exits 0
run d2.plan -q --gemm plain --steps $((last + 3)) --set eval.every=0 --data numbers.txt=other.txt --log straight.jsonl
exits 0
losses said.jsonl >a.txt; losses straight.jsonl >b.txt; holds cmp a.txt b.txt

# ---- a full disk ----
if [ -w /dev/full ]; then
    run one.plan -q --steps 2 --log /dev/full --save kept; exits 5
    says 'the log /dev/full is not complete: No space left'; holds sh -c '! grep -q "rank 0 failed" err'
    holds test -e kept/step-00000002/manifest.json
    what='dtrun --generate >/dev/full'
    timeout 60 "$dtrun" one.plan --resume kept --generate 1 --tokens 2 >/dev/full 2>err </dev/null; code=$?
    exits 5; says 'No space left'
    what='dtrun --eval >/dev/full'
    timeout 60 "$dtrun" d2.plan --resume kept --eval >/dev/full 2>err </dev/null; code=$?
    exits 5; says 'cannot write the loss: No space left'
fi
what='dtrun --generate | true'
{ timeout 60 "$dtrun" one.plan --generate 1 --tokens 100 2>err </dev/null; echo $? >code; } | true
code=$(cat code); exits 5; says 'cannot write the text: Broken pipe'
what='dtrun 2>&1 | true'
{ timeout 60 "$dtrun" d2.plan --steps 3 --log unread.jsonl 2>&1 </dev/null; echo $? >code; } | true
code=$(cat code); exits 0; holds test "$(losses unread.jsonl | wc -l)" -eq 3
run d2.plan -q --trace one.plan/trace.json; exits 5; says '--trace one.plan: something else has that name'; spares rank
run d2.plan -q --steps 1 --trace absent/1/trace.json --log absent/2/log.jsonl; exits 0
holds test -s absent/1/trace.json -a -s absent/2/log.jsonl
run one.plan --steps 0 --save initial; exits 0; says 'saved 0 steps in initial'
run one.plan --resume initial --steps 0 --save moved; exits 0; says 'saved 0 steps in moved'
run one.plan -q --resume moved --steps 2 --save moved2; exits 0
run one.plan --resume moved2 --steps 1 --save moved3; exits 0; says 'saved 2 steps in moved3'
holds cmp moved2/step-00000002/optimizer.safetensors moved3/step-00000002/optimizer.safetensors
run one.plan --resume moved2/step-00000002 --steps 2 --save moved2; exits 0; says 'has 2 steps already'
run one.plan -q --resume initial --steps 3 --log from0.jsonl; exits 0
run one.plan -q --steps 3 --log begun.jsonl; exits 0; losses_alike from0.jsonl begun.jsonl 0 3
mkdir full
if unshare -rm mount -t tmpfs -o size=200k full full 2>/dev/null; then
    what='dtrun on a full disk'
    unshare -rm sh -c 'mount -t tmpfs -o size=200k full full &&
        timeout 60 "$@" -q --steps 20 --set save.every=2 --save full/saved
        code=$?; cp -r full/saved kept2; exit $code' full "$dtrun" d2.plan >out 2>err </dev/null
    code=$?; exits 5; says 'the checkpoint after step 4 was not saved (earlier ones are untouched)'
    says 'free some space'
    run d2.plan -q --resume kept2 --steps 4; exits 0
    what='dtrun --trace on a full disk'
    unshare -rm sh -c 'mount -t tmpfs -o size=200k full full && timeout 60 "$@" -q --steps 40 --trace full/trace.json
        code=$?; [ -z "$(ls -A full)" ] || exit 99; exit $code' full "$dtrun" d2.plan >out 2>err </dev/null
    code=$?; exits 5; says 'full/trace.json'; says 'No space left'
    what='dtrun on folders that are read only'
    unshare -rm sh -c 'mount --bind kept2 full && mount -o remount,bind,ro full && {
        timeout 60 "$@" --resume full --eval || exit 98; timeout 60 "$@" -q --resume full --steps 6; }' \
        full "$dtrun" d2.plan >out 2>err </dev/null
    code=$?; exits 5; prints 'eval after 4 steps'; says 'Read-only file system'
    what='dtc with a full TMPDIR'
    unshare -rm sh -c 'mount -t tmpfs -o size=4k full full && export TMPDIR=$PWD/full XDG_CACHE_HOME=$PWD/cold && "$@"' \
        full "$dtc" small.dsl --parallel d2 -o full.plan >out 2>err; code=$?; exits 5; says 'no room for its temporary files'
    what='dtc -o on a full disk'
    unshare -rm sh -c 'mount -t tmpfs -o size=200k full full && "$@"; code=$?; [ -e full/plan ] && exit 1; exit $code' \
        full "$dtc" small.dsl --parallel d2 -o full/plan >out 2>err; code=$?; exits 5; says 'No space left'
else
    echo 'SKIP no mounts: a full disk is not tried'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
