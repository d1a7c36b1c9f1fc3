#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What is not proved gives no plan:  refused.sh DTC FAULTY
# FAULTY is dtc with a bug in a pass or in the code generator (faulty.c). Whatever it is asked for it must end with 1, say
# which certificate failed, and leave the files that it was to write as they were.
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
faulty=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0

check() { # what, command that must succeed
    what=$1
    shift
    if "$@" >/dev/null 2>&1; then
        passed=$((passed + 1))
    else
        echo "FAIL $fault: $what"
        sed 's/^/    /' err | head -5
        failed=$((failed + 1))
    fi
}

cat >program.dsl <<'END'
dim batch = 8, seq = 4, vocab = 12, embed = 4, ffn = 8
model tiny(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param first[embed, ffn], second[embed, ffn] = normal(0.02)
  param out[ffn, vocab] = normal(0.02)
  x = wte[vocab = tokens]
  return (max(x @embed first, 0) * (x @embed second)) @ffn out
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  z = tiny(tokens)
  loss = -sum[batch, seq](z[vocab = labels])
  optimizer = sgd(lr = 0.1)
  steps = 10
}
parallel two on pair { mesh data = 2; shard batch on data }
parallel split on pair { mesh tensor = 2; shard ffn on tensor; micro batch = 2 }
cluster pair { gpus = 2; gpu = "cpu" }
END

for layout in none two split; do
    fault="nowhere, $layout"
    "$dtc" program.dsl --parallel $layout --no-kernels -o want >out 2>err
    check "dtc makes no plan" test -e want
    "$faulty" program.dsl --parallel $layout --no-kernels -o have >out 2>err
    check "exit code is not 0" test $? -eq 0
    check "without a fault it makes another plan than dtc" cmp want have
    for place in pass code; do
        case $place in
        pass) says='the layout is not proved' ;;
        code) says='the plan is not proved' ;;
        esac
        for wanted in "-o new" "-o old" "-o new --no-kernels" "-o old --verify" "--verify" "--emit=plan" "--emit=plan -o new" \
            "--report" "--report=json -o old" "--emit=schedule"; do
            fault="$place, $layout, $wanted"
            rm -f new
            echo 'the plan of yesterday' >old
            # shellcheck disable=SC2086
            DT_FAULT_IN=$place "$faulty" program.dsl --parallel $layout $wanted >out 2>err
            check "exit code is not 1" test $? -eq 1
            check "message lacks: $says" grep -qF "dtc: internal error: $says" err
            check "a file is there" test ! -e new
            check "the old file is another" grep -qx 'the plan of yesterday' old
            check "it says that the layout is right" test -z "$(grep -aF 'equal to the serial program' out)"
            case $wanted in
            *-o*) ;;
            --verify) check "it says that the plan is right" test -z "$(grep -aF "the layout's ops" out)" ;;
            *) check "stdout is not empty" test ! -s out ;;
            esac
        done
    done
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
