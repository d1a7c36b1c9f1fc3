#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Golden tests of diagnostics:  run_errors.sh [--bless] PATTERN PROGRAM [ARGUMENT...]
# Runs the program on every tests/golden/errors/PATTERN.dsl, in that folder, and compares its stderr with
# the .txt beside it. A first line `# dtc ARGUMENT...` of a program gives other arguments: for what only a plan
# draws, `--no-kernels --report`. The code in the file's name must be among the diagnostics; E files must end with
# exit code 3, L files (lints) with 0. --bless (or DT_BLESS=1) writes the .txt files instead of comparing.
set -u
bless=no
[ -n "${DT_BLESS:-}" ] && bless=yes
if [ "${1:-}" = --bless ]; then
    bless=yes
    shift
fi
if [ $# -lt 2 ]; then
    echo "usage: run_errors.sh [--bless] PATTERN PROGRAM [ARGUMENT...]" >&2
    exit 2
fi
pattern=$1 program=$2
shift 2
case $program in */*) program=$(cd "$(dirname "$program")" && pwd)/$(basename "$program") ;; esac
cd "$(dirname "$0")/errors" || exit 1
actual=$(mktemp) || exit 1
trap 'rm -f "$actual"' EXIT
passed=0 failed=0
for source in $pattern.dsl; do
    [ -f "$source" ] || continue
    name=${source%.dsl} code=${source%%_*} problem=
    own=$(sed -n '1s/^# dtc //p' "$source")
    # shellcheck disable=SC2086
    if [ -n "$own" ]; then "$program" $own "$source"; else "$program" "$@" "$source"; fi 2>"$actual" >/dev/null
    status=$?
    case $code in L*) wanted=0 ;; *) wanted=3 ;; esac
    [ $status -eq $wanted ] || problem="exit code $status instead of $wanted"
    grep -aq "\[$code\]" "$actual" || problem="no $code among the diagnostics"
    if [ -z "$problem" ] && [ $bless = yes ]; then
        cp "$actual" "$name.txt"
    elif [ -z "$problem" ] && ! cmp -s "$actual" "$name.txt"; then
        problem="the text differs"
        diff -a "$name.txt" "$actual"
    fi
    if [ -n "$problem" ]; then
        echo "FAIL $name: $problem"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
