#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Kernels for GPUs are compiled in processes of their own: equal bytes whatever the machine has, from the cache or not;
# what happens to these processes, and that none is left:  units.sh DTC
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
root=$PWD
. "$(dirname "$0")/cases.sh"
mkdir lib
cp "$root/examples/gpt2.dsl" .
compile() { # the cache's folder, options
    folder=$1
    shift
    XDG_CACHE_HOME=$work/$folder run "$@" "$dtc" gpt2.dsl --target=sm_90a --data=synthetic -o plan
}
entries() { find "$work/$1" -type f | wc -l; }

compile cold
if [ $code = 1 ] && grep -q 'package cuda-nvrtc' err; then
    skip "there is no NVRTC"
    finish
    exit
fi
exits 0
mv plan cold.plan
holds test "$(entries cold)" -ge 4

# ---- equal bytes ----
compile cold
exits 0
holds cmp plan cold.plan
compile one taskset -c "$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')"
exits 0
holds cmp plan cold.plan
XDG_CACHE_HOME= HOME= compile none env -u XDG_CACHE_HOME -u HOME
exits 0
holds cmp plan cold.plan

# If only line numbers change, the code stays the same: nothing is compiled.
before=$(entries cold)
{ echo; echo '# a line'; cat "$root/examples/gpt2.dsl"; } >gpt2.dsl
compile cold
exits 0
holds test "$(entries cold)" = "$before"
cp "$root/examples/gpt2.dsl" .

# ---- a disk that takes no file of that length: what it costs is that there is no cache ----
mkdir -m 700 small
what='no room for the cache'
(ulimit -f 20; XDG_CACHE_HOME=$work/small exec "$dtc" gpt2.dsl --target=sm_90a --data=synthetic \
    --emit=cuda 2>err) | grep -c ' registers, ' >out
code=$?
exits 0
holds test "$(cat out)" -ge 40
holds test "$(find small -type f -size +20k | wc -l)" = 0
holds test -z "$(find small -name '*.*')"

# ---- signals ----
begin() { # a folder: until it has children
    rm -f plan
    # the same under nohup
    XDG_CACHE_HOME=$work/$1 env --default-signal "$dtc" gpt2.dsl --target=sm_90a --data=synthetic -o plan >out 2>err &
    pid=$!
    children=
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; do
        children=$(pgrep -P "$pid" | tr '\n' ' ')
        [ -n "$children" ] && break
        sleep 0.1
    done
    what="dtc with children: $children"
    holds test -n "$children"
}
are_gone() { # the exit status of the last command, which is dtc's
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        # shellcheck disable=SC2086
        ps -o pid= -p "$(echo $children | tr ' ' ,)" >/dev/null || break
        sleep 0.1
    done
    # shellcheck disable=SC2086
    holds sh -c "! ps -o pid= -p $(echo $children | tr ' ' ,)"
    holds test ! -e plan
    holds test -z "$(find . -name 'plan?*')"
}
begin killed
kill -KILL "${children%% *}"
wait "$pid"
code=$?
exits 75
says 'a process that compiles kernels was ended by signal 9 (Killed)'
are_gone
# background processes of a shell ignore signal 2; signal 1 has the same effect
for signal in 1 9 15; do
    begin "signal$signal"
    kill -$signal "$pid"
    wait "$pid" 2>/dev/null
    code=$?
    exits $((128 + signal))
    are_gone
done
# Units that were not finished are compiled by the next run.
compile killed
exits 0
holds cmp plan cold.plan
finish
