# SPDX-License-Identifier: Apache-2.0
# What the tests of dtrun share, to be sourced with their arguments DTC DTRUN: absolute paths, a temporary folder,
# a run, and checks of its exit code and what it printed, which are counted. `what` names what is checked.
dtc=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
dtrun=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 code=0 what=

fail() {
    echo "FAIL $what: $1"
    [ -s err ] && sed 's/^/    /' err | tail -5
    failed=$((failed + 1))
}
pass() { passed=$((passed + 1)); }
run() { # arguments of dtrun
    what="dtrun $*"
    timeout 120 "$dtrun" "$@" >out 2>err </dev/null
    code=$?
}
exits() { if [ "$code" -eq "$1" ]; then pass; else fail "exit code $code instead of $1"; fi; }
says() { if grep -aqF -- "$1" err; then pass; else fail "stderr lacks: $1"; fi; }
spares() { if grep -aqF -- "$1" err; then fail "stderr has: $1"; else pass; fi; }
says_like() { if grep -aqE -- "$1" err; then pass; else fail "stderr lacks: $1"; fi; }
prints() { if grep -aqF -- "$1" out; then pass; else fail "stdout lacks: $1"; fi; }
holds() { if "$@" >/dev/null 2>&1; then pass; else fail "does not hold: $*"; fi; }
alike() { # arguments: two files of numbers, relative tolerance, count
    if paste "$1" "$2" | awk -v most="$3" -v count="$4" '
        { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > most * $1) bad = 1; n++ }
        END { exit bad || n != count }'; then pass; else fail "$1 and $2 differ by more than $3"; fi
}
