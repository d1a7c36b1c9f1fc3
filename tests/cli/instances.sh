#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A small program whose layers call each other twice, 12 levels deep, has 4,096 instances: what is built is large, and
# the time grows with it, not with its square (fusion alone took a minute here). Usage: instances.sh DTC
set -eu
dtc=$(readlink -f "$1")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
awk 'BEGIN {
    print "include \"std.dsl\"\ndim batch = 4, embed = 8"
    print "layer f0(x[batch, embed]) -> [batch, embed] { param w[embed] = normal(1.0); return tanh(x * w) }"
    for (i = 1; i <= 12; i++)
        printf "layer f%d(x[batch, embed]) -> [batch, embed] { return b:f%d(a:f%d(x)) }\n", i, i - 1, i - 1
    print "model m(x[batch, embed]) -> [batch, embed] { return a:f12(x) }"
    print "train { x[batch, embed] = synthetic(0.0, 1.0); loss = mean[batch, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }"
    print "cluster c { gpus = 2; gpu = \"cpu\" }\nparallel p on c { mesh d = 2; shard batch on d }" }' >"$out/deep.dsl"
passed=0 failed=0
for layout in none p; do
    if (ulimit -t 15 && "$dtc" "$out/deep.dsl" --parallel $layout --no-kernels -o "$out/plan") 2>"$out/err"; then
        passed=$((passed + 1))
    else
        echo "--parallel $layout takes more than 15 seconds of a processor, or fails:"
        tail -3 "$out/err"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
