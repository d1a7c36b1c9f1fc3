#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What docs/adding.md tells to change is changed in a copy of the tree, which then builds, passes the tests it speaks
# of, and compiles and trains a program that uses what was added:  adding.sh
#
# The changes must always fit the tree. The copy is built in one commit of four only (tests/share.py: DT_SHARE, place 0),
# as it takes a minute of processor time.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/share.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
(cd "$root" && tar cf - --exclude=./build --exclude=./out --exclude=./.git .) | tar xf - -C "$work" || exit 1
cd "$work" || exit 1
failed=0 passed=0

# WHAT COMMAND...
check() {
    what=$1
    shift
    if "$@" >log 2>&1; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAIL $what"
        sed 's/^/    /' log | tail -20
    fi
}

awk '/^```/ { inside = $0 == "```diff"; next } inside' docs/adding.md >changes.patch
check 'docs/adding.md holds changes' test -s changes.patch
check 'the changes fit the tree' patch -p1 --fuzz=0 --batch -i changes.patch
if ! share_has 0; then
    echo "SKIP the copy is built in the turn of another commit (DT_SHARE=$DT_SHARE)"
    echo "$passed passed, $failed failed, 1 skipped"
    [ "$failed" = 0 ]
    exit
fi
check 'the tree is set up' meson setup build -Dbuildtype=debug -Db_pch=false -Doptimization=0 -Ddebug=false -Dtests=enabled
check 'it builds' ninja -C build dtc dtrun tests/ir/test_interp_map tests/ir/test_shape tests/passes/test_vjp \
    tests/codegen/test_kernels tests/verify/test_op_table tests/frontend/test_frontend_optimizers \
    tests/passes/test_schedule tests/passes/test_golden
for test in ir/test_interp_map ir/test_shape passes/test_vjp codegen/test_kernels verify/test_op_table \
    frontend/test_frontend_optimizers passes/test_schedule passes/test_golden; do
    check "$test passes" "build/tests/$test"
done
check 'the manual is complete' sh tests/docs/check_examples.sh build/dtc

cat >soft.dsl <<'END'
dim batch = 8, a = 6, b = 4
model m(x[batch, a]) -> [] {
  param w[a, b] = normal(1.0)
  return sum[batch, b](softsign(x @a w))
}
train { x[batch, a] = synthetic(0, 2); loss = m(x); optimizer = sgd(lr = 0.1); steps = 3 }
cluster two { gpus = 2; gpu = "cpu" }
parallel cut on two { mesh t = 2; shard a on t }
END
check 'a program with it is equal on two ranks' build/dtc soft.dsl --parallel cut --verify -o soft.plan
check 'it trains' build/dtrun soft.plan
cat >>examples/quickstart.dsl <<'END'
cluster three { gpus = 3; gpu = "cpu" }
parallel eager on three { mesh pipe = 3; pipeline h on pipe (schedule = "eager_1f1b"); micro batch = 8 }
END
check 'a plan with the schedule is proved' build/dtc examples/quickstart.dsl --parallel eager --no-kernels -o eager.plan

# Adds the pass as the page says. Layouts are proved with its result, and are refused if the pass
# computes something wrong.
cat >factor.dsl <<'END'
dim batch = 8, a = 6
model m(x[batch, a], y[batch, a]) -> [] {
  param w[a], v[a] = normal(1.0)
  z = tanh(x * w + y * w)
  return sum[batch, a](z * z * v)
}
train {
  x[batch, a] = synthetic(0, 2)
  y[batch, a] = synthetic(0, 2)
  loss = m(x, y)
  optimizer = sgd(lr = 0.1)
  steps = 3
}
cluster two { gpus = 2; gpu = "cpu" }
parallel cut on two { mesh t = 2; shard a on t }
parallel rows on two { mesh t = 2; shard batch on t; micro batch = 2 }
END
sed 's/y \* w/y * v/' factor.dsl >apart.dsl
products() { build/dtc "$1" --parallel cut "--print-after=$2" | grep -c '= mul('; }
refused() { build/dtc "$1" --parallel cut --no-kernels -o no.plan 2>&1 | grep -q 'the layout is not proved'; }
check 'a product less' test "$(products factor.dsl factor)" -lt "$(products factor.dsl cse)"
check 'others stay' test "$(products apart.dsl factor)" = "$(products apart.dsl cse)"
for parallel in none cut rows; do
    check "what the pass makes is proved: $parallel" build/dtc factor.dsl --parallel $parallel --verify
done
cp passes/factor.c right.c
grep -v 'out->means = ' right.c >passes/factor.c
check 'a pass with the wrong number builds' ninja -C build dtc
check 'and is refused' refused factor.dsl
sed 's/p->in\[1 - i\] == q->in\[1 - i\] && //' right.c >passes/factor.c
check 'a wrong pass builds' ninja -C build dtc
check 'and is refused, too' refused apart.dsl
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
