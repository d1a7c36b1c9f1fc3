#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every diagnostic has a program that draws it: a golden text under tests/golden, or a test under tests/cli,
# tests/plan or tests/standin that names the code (files, plans and compilers have no faulty program). Run from the root
# of the tree.
set -eu
export LC_ALL=C
least=${1:-80} # faulty programs

codes=$(sed -n 's/^DT_DIAG(\([EL][0-9]\{4\}\),.*/\1/p' base/diags.def)
rows=$(grep -c '^DT_DIAG(' base/diags.def)
[ "$(echo "$codes" | wc -l)" -eq "$rows" ] || { echo "base/diags.def: a row without a code"; exit 1; }

shown=$({
    find tests/golden -path tests/golden/diag -prune -o -name '*.txt' -exec \
        sed -n 's/.*\(error\|warning\)\[\([EL][0-9]*\)\].*/\2/p' {} +
    for folder in tests/cli tests/plan tests/ir tests/standin; do
        [ -d $folder ] && grep -rhoE '[EL]0[0-9]{3}' $folder || true
    done
} | sort -u)

passed=0 failed=0
for code in $codes; do
    if echo "$shown" | grep -qx "$code"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$code: no test draws it"
    fi
done

programs=$(cat tests/golden/errors/*.dsl | grep -ac '^# ---- ')
if [ $programs -ge "$least" ]; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "$programs faulty programs; $least are wanted"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
