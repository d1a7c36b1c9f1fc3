#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# compile.sh DTC: the compiler proves its layouts in a thread beside code generation; nothing races.
dtc=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
passed=0 failed=0
for program in "examples/gpt2.dsl" "examples/gpt2.dsl --verify" "examples/llama3_8b.dsl --parallel d3" \
    "examples/gpt_1t.dsl" "examples/t5.dsl --data=synthetic"; do
    # shellcheck disable=SC2086
    TSAN_OPTIONS=exitcode=66 "$dtc" $program --no-kernels -o "$folder/plan" >"$folder/said" 2>&1
    status=$?
    if [ $status -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "$program: exit status $status"
        head -n 40 "$folder/said"
    fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
