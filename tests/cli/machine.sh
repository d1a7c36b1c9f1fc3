#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dtc --verify runs the plan's machine code:  machine.sh DTC DTRUN FAULTY_DTRUN
# Every third kernel of a small program is built wrongly in turn (with DT_SHARE=K/N, tests/share.py, one of N of these),
# by a compiler that skips the first iteration of its outermost loop; the runtime has bugs; the code does not end, or ends
# the process. Each is found, and nothing is left behind. Where the code cannot be run, that is said.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/faulty" "$work/alone" "$work/tmp" "$work/cache"
cp "$1" "$work/bin/dtc" && cp "$1" "$work/faulty/dtc" && cp "$1" "$work/alone/dtc" || exit 1
cp "$2" "$work/bin/dtrun" && cp "$3" "$work/faulty/dtrun" || exit 1
cd "$work" || exit 1
export TMPDIR="$work/tmp" DTC_LIBRARY="$root/lib"
unset DT_FAULT_IN
passed=0 failed=0

check() { # Arguments: what is wrong if the command fails, then the command
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $case: $what"
        sed 's/^/    /' out err | tail -5 | cut -c1-300
    fi
}
ranks() { # The processes of the dtrun that dtc started
    ls -l /proc/[0-9]*/exe 2>/dev/null | grep -F "$work/bin/dtrun" >ranks
}
verify() { # Arguments: folder of dtc, layout, options
    folder=$1 layout=$2
    shift 2
    "$work/$folder/dtc" program.dsl --parallel "$layout" --verify "$@" >out 2>err
    code=$?
}

cat >program.dsl <<'END'
include "std.dsl"
dim batch = 8, seq = 4, kseq = seq, embed = 8, head = embed, vocab = 12
model m(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.3)
  state seen[embed] = zeros
  x = wte[vocab = tokens]
  seen = 0.9 * seen + 0.1 * mean[batch, seq](x)
  x = x + (attend[seq, kseq, head](wq:linear[embed, head](x), wk:linear[embed, head](x)[seq -> kseq],
                                    wv:linear[embed, head](x)[seq -> kseq], scale = 0.5) |> wo:linear[head, embed])
  return layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](m(tokens), labels))
  optimizer = adamw(lr = 0.01, clip = 1.0)
  steps = 2
  eval = every(1, steps = 1, data = next_token(synthetic(0, vocab)))
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 1 on data }
parallel staged on pair { mesh tensor = 2; shard vocab on tensor; micro batch = 2 }
END

# A C compiler to which DT_BREAK says which kernel to compile wrongly, and how. For all other texts
# it is the real compiler, and reports the same version.
cat >cc.sh <<'END'
#!/bin/sh
[ "$1" = --version ] && { cc --version | sed "1s/^/$DT_BREAK /"; exit; }
for argument; do
    shift
    [ "$argument" = -O3 ] && argument=-O0
    set -- "$@" "$argument"
done
awk -v "what=$DT_BREAK" 'BEGIN { split(what, words, "-") }
    /^void dt_k[0-9]+\(/ { here = index($0, "void " words[2] "(") == 1 }
    here && words[1] == "skip" && /for \(int64_t i[0-9]+ = 0;/ { sub(/ = 0;/, " = 1;"); here = 0; print "x" >>"broken" }
    here && words[1] == "trap" && /\(void\)p/ { print "    __builtin_trap();"; print "x" >>"broken" }
    here && words[1] == "hang" && /\(void\)p/ { print "    for (;;) __asm__ volatile(\"\");"; print "x" >>"broken" }
    { print }' | cc "$@"
END
chmod +x cc.sh
export DT_CC="$work/cc.sh" DT_CC_CHECK=none XDG_CACHE_HOME="$work/cache" DT_BREAK=nothing

case='no fault'
for layout in none two staged; do
    verify bin $layout
    check "exit code is not 0 but $code" test $code -eq 0
    check "it does not say so" grep -q 'machine code: equal to the interpreter but for roundings: 2 steps' out
done

# ---- kernels ----
"$work/bin/dtc" program.dsl --parallel two --emit=c >text.c 2>err
all=$(sed -n 's/^void \(dt_k[0-9]*\)(.*/\1/p' text.c)
thirds=$(echo "$all" | awk 'NR % 3 == 1')
check 'the program has few kernels' test "$(echo "$thirds" | wc -l)" -ge 6
first=$(echo "$thirds" | head -1)
turn=${DT_SHARE:-0/1}
kernels=$(echo "$thirds" | awk -v turn="${turn%/*}" -v n="${turn#*/}" '(NR - 1) % n == turn')
least=5
[ "${turn#*/}" -eq 1 ] || least=1
found=0 not_found=
for kernel in $kernels; do
    case="skip-$kernel"
    rm -f broken
    DT_BREAK="skip-$kernel"
    verify bin two
    [ -e broken ] || continue
    if [ $code -eq 1 ] && grep -q "the plan's machine code does not compute" err; then
        found=$((found + 1))
        continue
    fi
    DT_BREAK="trap-$kernel"
    verify bin two
    # otherwise only the entry "predict" runs this kernel
    [ $code -eq 0 ] || not_found="$not_found $kernel"
done
DT_BREAK=nothing
case='kernels built wrongly'
check "not found:$not_found" test -z "$not_found"
check "only $found were built wrongly" test $found -ge $least
case='kernels that only evaluation runs'
evaluated=
for kernel in $(echo "$all" | tac); do # the entry follows that of the step
    DT_BREAK="skip-$kernel"
    verify bin two
    grep -q 'loss of held-out data differs' err && evaluated=$kernel && break
done
DT_BREAK=nothing
check 'none of them is found' test -n "$evaluated"
case='what it says'
DT_BREAK="skip-$first"
verify bin two
check 'not that the layout is right' grep -q 'the layout is right, but' err
check 'the layout is not called equal' grep -q 'equal to the serial program' out
check 'neither value nor place' grep -qE "step [12]: .* differs by .* by the plan's machine code, .* by the interpreter" err
verify bin two --no-kernels
check '--no-kernels finds it' test $code -eq 0
check '--no-kernels does not say that nothing ran' grep -qx 'machine code: not run: --no-kernels' out
case='a kernel that ends the process'
DT_BREAK="trap-$first"
verify bin two
check "exit code is not 1 but $code" test $code -eq 1
check 'not that the ranks failed' grep -q 'the ranks failed: .*signal' err

# ---- the runtime ----
DT_BREAK=nothing
verify faulty two
case='a runtime without a fault'
check "exit code is not 0 but $code" test $code -eq 0
for fault in sum copies data; do
    case="a runtime with a fault in $fault"
    says="by the plan's machine code"
    [ $fault = copies ] && says='has another copy of'
    DT_FAULT_IN=$fault
    export DT_FAULT_IN
    verify faulty two
    check "exit code is not 1 but $code" test $code -eq 1
    check "not: $says" grep -q "$says" err
done
unset DT_FAULT_IN

# ---- the life of a run ----
cat >life.dsl <<'END'
dim batch = 4, embed = 4
model m(x[batch, embed]) -> [batch] {
  param w[embed] = normal(0.3)
  return x @embed w
}
model n(x[batch, embed]) -> [batch] {
  param v[embed] = normal(0.3)
  return x @embed v
}
train {
  x[batch, embed] = synthetic(0, 1)
  near = sum[batch](f32(m(x)) ** 2)
  far = sum[batch](f32(n(x)) ** 2)
  first = adamw(lr = warmup_linear(0.05, warmup = 3, total = 9), loss = near, params = "w")
  second = adamw(lr = 0.01, loss = far, params = "v", every = 3)
  precision = mixed(compute = f16, params = f32, grads = f32, loss_scale = dynamic)
  steps = 9
  eval = every(3, steps = 1, data = bin("held.bin", f32))
}
cluster pair { gpus = 2; gpu = "cpu" }
parallel two on pair { mesh data = 2; shard batch on data; zero 1 on data }
END
live() {
    "$work/faulty/dtc" life.dsl --parallel two --verify >out 2>err
    code=$?
}
case='a life without a fault'
live
check "exit code is not 0 but $code" test $code -eq 0
check 'it does not say so' grep -qx "life of a run: equal on 9 steps, the schedule's first and last among them; the loss scale skipped 1; saved and resumed, also in another layout of 2 ranks; evaluated over 10 samples, and over 10 of files" out
for fault in scale rate resume load eval window; do
    case="a life with a fault in $fault"
    says='by the interpreter'
    [ $fault = scale ] && says='leaves one of .* after [0-9]* good updates; it should be'
    [ $fault = resume ] && says='a resume after step 2 leaves 3 updates of `near`; it should be 2'
    [ $fault = window ] && says='near of held-out data differs'
    [ $fault = load ] && says='though this is a resume'
    [ $fault = eval ] && says='though an evaluation changes nothing'
    DT_FAULT_IN=$fault
    export DT_FAULT_IN
    live
    check "exit code is not 1 but $code" test $code -eq 1
    check "not: $says" grep -q "$says" err
done
unset DT_FAULT_IN

# ---- held-out data in arrays of NumPy ----
sed 's/bin("held.bin", f32)/npy("held.npy", from = 0.5)/' life.dsl >arrays.dsl
for fault in '' window; do
    case="held-out arrays and a fault in '$fault'"
    env DT_FAULT_IN=$fault "$work/faulty/dtc" arrays.dsl --parallel two --verify >out 2>err
    code=$?
    [ -n "$fault" ] || check 'it does not say so' grep -q 'evaluated over 10 samples, and over 10 of files$' out
    [ -z "$fault" ] || check 'the fault is not found' grep -q 'near of held-out data differs' err
    check "the exit code is $code" test $code -eq $([ -z "$fault" ] && echo 0 || echo 1)
done

case='held-out data of which no files are written'
sed 's/bin("held.bin", f32)/csv("held.csv", columns = "a*")/' life.dsl >table.dsl
"$work/faulty/dtc" table.dsl --parallel two --verify >out 2>err
check 'it does not say so' grep -q 'evaluated over 10 samples, and over none of files, .* for csv(..)$' out

# ---- not run ----
case='no compiler'
DT_CC=/nowhere/cc
verify bin two
check "exit code is not 0 but $code" test $code -eq 0
check 'it does not say so' grep -q 'machine code: not run: .*/nowhere/cc' out
DT_CC="$work/cc.sh"
case='no dtrun'
verify alone two
check 'it does not say so' grep -qx 'machine code: not run: there is no dtrun beside dtc' out
case='too many ranks'
cat >many.dsl <<'END'
dim batch = 128
model m(x[batch]) -> [] { param w[] = ones; return sum[batch](x * w) }
train { x[batch] = synthetic(0, 1); loss = m(x); optimizer = sgd(lr = 0.1); steps = 1 }
cluster many { gpus = 128; gpu = "cpu" }
parallel p on many { mesh data = 128; shard batch on data }
END
"$work/bin/dtc" many.dsl --verify >out 2>err
check 'it does not say so' grep -q 'machine code: not run: 128 ranks' out

# ---- what gcc 12 made wrong of kernels at -O3: a sum that a condition around its loop guards ----
cat >guarded.dsl <<'END'
dim batch = 4, seq = 5, route = 4, choice = 2
model m(x[batch, seq, choice]) -> [] {
  param w[route] = normal(1.0)
  y = x * w # lint: allow L0301
  f = sum[seq](sum[choice](y))
  return sum[batch, route](f * w) + sum[batch, choice, route](y[seq = 0])
}
train { x[batch, seq, choice] = synthetic(0, 2); loss = m(x); optimizer = sgd(lr = 0.1); steps = 1 }
cluster c { gpus = 2; gpu = "cpu" }
parallel q on c { mesh a = 2; shard seq on a (pad = 8) }
END
case='a guarded sum'
for layout in none q; do
    env -u DT_CC -u DT_CC_CHECK "$work/bin/dtc" guarded.dsl --parallel $layout --verify -o plan >out 2>err
    check 'the machine code is wrong' grep -q '^machine code: equal to the interpreter' out
    "$work/bin/dtrun" plan >out 2>err
    check 'the loss is another one' grep -q 'loss 65.3237' err
done

# ---- the end of dtc is the end of all ----
case='dtc is ended'
DT_BREAK="hang-$first"
"$work/bin/dtc" program.dsl --parallel two --verify >out 2>err &
dtc=$!
tries=0
while ! ranks && [ $tries -lt 300 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
sleep 0.5
check 'no ranks are running' test -s ranks
kill -KILL $dtc
wait $dtc 2>/dev/null
tries=0
while ranks && [ $tries -lt 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
check 'ranks go on' test ! -s ranks
while [ -n "$(ls "$work/tmp")" ] && [ $tries -lt 50 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
check 'something lies in TMPDIR' test -z "$(ls "$work/tmp")"

echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
