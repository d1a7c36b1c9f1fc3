#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What a new user does first:  first.sh DTC DTRUN BUILD
# The examples of both helps run as they are printed, one behind the other, in a copy of what a fresh clone holds (no
# out/, no data); of a smaller program and for fewer steps. What was built is installed without being built again, and
# compiles from there.
set -u
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
dtrun=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
build=$(cd "$3" && pwd)
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tests/cli/cases.sh"

mkdir clone
cp -r "$root/examples" "$root/docs" "$root/lib" clone
for program in "$dtrun" "$dtc"; do # dtrun's first: they make what they need
    "$program" --help | sed -n '/^Example/,/^$/s/^  //p' >examples.txt
    holds grep -q "^${program##*/} " examples.txt
    while read -r line; do
        case $line in
        *--generate*) line=$(echo "$line" | sed 's/--tokens [0-9]*/--tokens 3/') ;;
        dtrun*) line="$(echo "$line" | sed 's/--steps [0-9]*//') --steps 2" ;;
        *' -o '*) line="$line -D batch=2 -D seq=16 -D layers=1 -D embed=32 -D ffn=32" ;;
        esac
        run sh -c "dtc() { '$dtc' \"\$@\"; }; dtrun() { '$dtrun' \"\$@\"; }; cd clone && $line"; exits 0
    done <examples.txt
done

if command -v meson >/dev/null; then
    run env DESTDIR="$work/fresh" meson install -C "$build" --no-rebuild --quiet; exits 0
    installed=$(find fresh -path '*/bin/dtc')
    holds test -x "$(dirname "$installed")/dtrun"
    holds test -s "$(find fresh -name dtrun.1)"
    holds test -s "$(find fresh -path '*/dtc/std.dsl')"
    run env -u DTC_LIBRARY "$installed" clone/examples/quickstart.dsl --params; exits 0
else
    skip 'meson is not on the path'
fi
finish
