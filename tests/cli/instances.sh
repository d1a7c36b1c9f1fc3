#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Small programs whose layers call each other twice, 11 levels deep, have 2,048 instances: what is built is large, and
# time and memory grow with it, not with its square. Fusion alone took a minute here; all gradients of `x + w` are one
# value in 2,048 places, which took more than 12 GB; each of the sums of a residual stream had a list of all its terms,
# and x + x, doubled again and again, as many as that is long. Usage: instances.sh DTC
set -eu
dtc=$(readlink -f "$1")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
passed=0 failed=0

# check NAME LAYOUT LEVELS LEAF: what the innermost layer returns of x and w
check() {
    awk -v n="$3" -v leaf="$4" 'BEGIN {
        print "include \"std.dsl\"\ndim batch = 4, embed = 8"
        print "layer f0(x[batch, embed]) -> [batch, embed] { param w[embed] = normal(1.0); return " leaf " }"
        for (i = 1; i <= n; i++)
            printf "layer f%d(x[batch, embed]) -> [batch, embed] { return b:f%d(a:f%d(x)) }\n", i, i - 1, i - 1
        printf "model m(x[batch, embed]) -> [batch, embed] { param v[embed] = normal(1.0); return a:f%d(x * v) }\n", n
        print "train { x[batch, embed] = synthetic(0.0, 1.0); loss = mean[batch, embed](m(x)); optimizer = sgd(lr = 0.1); steps = 1 }"
        print "cluster c { gpus = 2; gpu = \"cpu\" }\nparallel p on c { mesh d = 2; shard batch on d }" }' >"$out/deep.dsl"
    if (ulimit -t 8 && ulimit -v 6000000 && "$dtc" "$out/deep.dsl" --parallel "$2" --no-kernels -o "$out/plan") 2>"$out/err"; then
        passed=$((passed + 1))
    else
        echo "$1, --parallel $2: takes more than 8 seconds of a processor or 6 GB, or fails:"
        tail -3 "$out/err"
        failed=$((failed + 1))
    fi
}

check product none 11 'tanh(x * w)'
check product p 11 'tanh(x * w)'
check sum none 11 'x + w'
check residual none 12 'x + dropout(x * w, 0.1)'
check doubled p 7 'x + x + 0.0 * w'
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
