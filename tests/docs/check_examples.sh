#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual's examples compile, and its lists are complete:  check_examples.sh DTC
#
# A fenced block ```dsl of docs/*.md is a whole program if it begins with an item (include, dim, axis, fn, layer,
# model, train); else it is a fragment and stands where `...` is in the page's block ```dsl frame. ```dsl E0309
# must be refused with that code, and any other block accepted. A program with `train` is compiled to a plan.
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
failed=0 passed=0

fail() {
    echo "FAIL $1"
    [ -s err ] && sed 's/^/    /' err | head -12
    failed=$((failed + 1))
}

# PAGE: writes each code block to PAGE-LINE.dsl, and the code that it must give (or "ok") to
# PAGE-LINE.want
extract() {
    awk -v page="$(basename "$1" .md)" '
        function flush(   i, whole, name) {
            if (kind == "frame") { n_frame = n; for (i = 1; i <= n; i++) frame[i] = text[i]; return }
            name = page "-" start
            whole = first ~ /^(include|dim|axis|fn|layer|model|train|cluster|parallel)$/
            if (!whole && !n_frame) { print "no frame before line " start > (name ".want"); return }
            printf "" > (name ".dsl")
            for (i = 1; !whole && i <= n_frame && frame[i] !~ /^ *\.\.\.$/; i++) print frame[i] > (name ".dsl")
            if (whole) i = n_frame + 1
            at = i
            for (i = 1; i <= n; i++) print text[i] > (name ".dsl")
            for (i = at + 1; i <= n_frame; i++) print frame[i] > (name ".dsl")
            print (kind == "" ? "ok" : kind) > (name ".want")
            close(name ".dsl"); close(name ".want")
        }
        inside && /^```$/ { flush(); inside = 0; next }
        inside { text[++n] = $0; if (first == "" && $1 !~ /^#/ && NF) first = $1; next }
        /^```dsl( |$)/ { inside = 1; n = 0; first = ""; start = NR; kind = $2 }' "$1"
}

check() { # the NAME of the parallel block in a code block
    want=$(cat "$1.want")
    if grep -q '^train' "$1.dsl"; then
        timeout 20 "$dtc" "$1.dsl" -o plan --no-kernels --data=synthetic >out 2>err
    else
        timeout 20 "$dtc" --check "$1.dsl" >out 2>err
    fi
    code=$?
    if [ "$want" = ok ]; then
        [ $code -eq 0 ] || { fail "docs/$(echo "$1" | sed 's/-/.md:/'): exit code $code"; return; }
    else
        { [ $code -eq 3 ] && grep -q "^error\[$want\]" err; } ||
            { fail "docs/$(echo "$1" | sed 's/-/.md:/'): wanted $want, exit code $code"; return; }
    fi
    passed=$((passed + 1))
}

lists() { # PAGE TEXT: the page must contain the text
    if grep -qF -- "$2" "$root/docs/$1"; then passed=$((passed + 1)); else : >err; fail "docs/$1 lacks $2"; fi
}

for page in "$root"/docs/*.md; do extract "$page"; done
for want in *.want; do check "${want%.want}"; done
blocks=$passed

for name in $(sed -n 's/^DT_BUILTIN("\([a-z]*\)".*/\1/p' "$root/frontend/builtins.def" | sort -u); do
    lists builtins.md "\`$name"
done
for name in $(sed -n 's/^\(fn\|layer\) \([a-z_]*\).*/\2/p' "$root/lib/std.dsl"); do lists builtins.md "\`$name"; done
for name in $(sed -n 's/^DT_OP([A-Z_]*, "\([a-z_]*\)".*/\1/p' "$root/ir/ops.def"); do lists placement.md "\`$name\`"; done
for name in $(sed -n "s/^DT_INLINE float dt_\([a-z]*\)(float x\(, float y\)*).*/\1/p" "$root/codegen/kernels/prelude.h"); do
    lists kernels.md "\`$name\`"
done
for name in $(sed -n 's/^DT_LIBRARY("\([a-z_]*\)".*/\1/p' "$root/passes/grad/library.def"); do lists builtins.md "\`$name"; done

echo "$blocks examples, $((passed - blocks)) names, $failed failed"
[ "$blocks" -ge 30 ] || { echo "too few examples were found"; exit 1; }
[ $failed -eq 0 ]
