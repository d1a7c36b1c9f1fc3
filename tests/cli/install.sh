#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What `meson install` leaves works away from the build, and the examples of both helps, which the pages have too,
# run as they are printed, in a folder that has a clone's examples/ and docs/:  install.sh BUILD
# The examples run in one commit of four (tests/share.py: DT_SHARE, place 2); all else is always looked at.
set -u
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
unset DTC_LIBRARY
. "$root/tests/cli/cases.sh"
. "$root/tests/share.sh"

run env DESTDIR="$work/dest" meson install --no-rebuild --quiet -C "$build"
exits 0
dtc=$(find "$work/dest" -type f -path '*/bin/dtc')
dtrun=$(find "$work/dest" -type f -path '*/bin/dtrun')
std=$(find "$work/dest" -type f -path '*/share/dtc/std.dsl')
what='what is installed'
holds test -x "$dtc"
holds test -x "$dtrun"
holds test -f "$std"
holds cmp "$std" "$root/lib/std.dsl"
holds diff -r "$(dirname "$std")/models" "$root/lib/models"
for page in dtc dtrun; do
    found=$(find "$work/dest" -type f -path "*/man/man1/$page.1")
    what="$page.1"
    holds grep -q '^\.TH' "$found"
    holds grep -q '^\.SH' "$found"
done

# The installed dtc reads the installed library.
cp "$root/examples/quickstart.dsl" model.dsl
run "$dtc" model.dsl --check; exits 0
mv "$std" "$std.away"
printf 'fn mean[d...](x[d..., ...]) -> [...] { return nosuch(x) }\n' >"$std"
run "$dtc" model.dsl --check; exits 3; says 'std.dsl'
mv "$std.away" "$std"

# Runs the examples of the help and of the manual page: lines that begin with two spaces and one of
# the programs, at the end of the help or between .nf and .fi.
mkdir clone
cp -r "$root/examples" "$root/docs" clone
PATH=$(dirname "$dtc"):$PATH
examples() { sed -n '/^Example/,$p' | sed -n 's/\\-/-/g; s/^  \(dtc\|dtrun\) /\1 /p'; }
for program in dtc dtrun; do
    what="the examples of $program"
    "$program" --help | examples >lines
    "$program" --man | examples >page
    holds test "$(wc -l <lines)" -ge 3
    holds cmp lines page
    if ! share_has 2; then
        skip "the examples of $program run in the turn of another commit (DT_SHARE=$DT_SHARE)"
        continue
    fi
    rm -rf clone/out
    while IFS= read -r line; do
        run timeout 200 sh -c "cd clone && $line"
        exits 0
    done <lines
done
finish
