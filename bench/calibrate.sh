#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# calibrate.sh BUILD [NAME]: a `device` block of this machine's processor, one rank on one core, on stdout; on stderr how
# well it predicts the plans that it was fitted on, and four that it was not. The machine should be idle. Takes a minute.
set -eu
build=$(cd "$1" && pwd)
name=${2:-here}
program=$(cd "$(dirname "$0")" && pwd)/gpt_step.dsl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

trace() { # NAME OPTION..: a plan and the trace of its steps
    plan=$1
    shift
    "$build/dtc" "$program" --parallel none "$@" -o "$plan" >&2
    "$build/dtrun" "$plan" --steps 6 --trace "$plan.json" >/dev/null 2>"$plan.err" || { cat "$plan.err" >&2; exit 1; }
    printf '%s %s ' "$plan" "$plan.json"
}

bf16='train.precision=mixed(compute = bf16)'
fitted=$(trace a -D batch=2 -D layers=2
    trace b -D batch=1 -D layers=2 -D embed=512 -D vocab=1024
    trace c -D batch=4 -D layers=2 -D embed=128 -D heads=4 -D seq=128
    trace d -D batch=2 -D layers=2 --set "$bf16")
others=$(trace e -D batch=2 -D layers=2 -D embed=384 -D heads=6
    trace f -D batch=1 -D layers=2 -D embed=768 -D heads=12
    trace g -D batch=2 -D layers=2 -D vocab=4096
    trace h -D batch=1 -D layers=2 -D embed=512 --set "$bf16")
# shellcheck disable=SC2086
"$build/bench/calibrate" "$name" $fitted -- $others
