# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts whose cases are a command, its exit code, and texts that must be on stdout or stderr.
# They end with `finish`. Sets $work, a folder of their own, in which they run.
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
passed=0 failed=0 skipped=0 code=0 what=

run() { # command...: what the checks below look at
    what=$*
    "$@" >out 2>err
    code=$?
}
fail() {
    echo "FAIL $what: $1"
    sed 's/^/    /' err | head -5
    failed=$((failed + 1))
}
skip() {
    echo "SKIP $1"
    skipped=$((skipped + 1))
}
exits() {
    if [ "$code" -eq "$1" ]; then passed=$((passed + 1)); else fail "exit code $code instead of $1"; fi
}
prints() {
    if grep -aqF -- "$1" out; then passed=$((passed + 1)); else fail "stdout lacks: $1"; fi
}
lacks() {
    if grep -aqF -- "$1" out; then fail "stdout has: $1"; else passed=$((passed + 1)); fi
}
says() {
    if grep -aqF -- "$1" err; then passed=$((passed + 1)); else fail "stderr lacks: $1"; fi
}
silent() {
    if [ ! -s "$1" ]; then passed=$((passed + 1)); else fail "$1 is not empty: $(head -1 "$1")"; fi
}
holds() { # command that must succeed
    if "$@" >/dev/null 2>&1; then passed=$((passed + 1)); else fail "does not hold: $*"; fi
}
finish() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
