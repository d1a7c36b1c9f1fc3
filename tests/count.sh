#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Checks count.awk on a log with every kind of test, and on one without any; said.awk on one that failed.
set -eu
cd "$(dirname "$0")"

log() { # NAME RESULT OUTPUT
    printf '==================================== 1/9 =====================================\n'
    printf 'test:         %s\nstart time:   06:16:41\nduration:     1.38s\nresult:       %s\n' "$1" "$2"
    printf 'command:      ./%s\n----------------------------------- stdout -----------------------------------\n' "$1"
    printf '%b\n==============================================================================\n\n' "$3"
}

got=$({
    log plain_good 'exit status 0' 'test: not a name\nresult: not a result'
    log plain_bad 'exit status 1' ''
    log plain_skipped 'exit status 77' ''
    log killed 'killed by signal 11 SIGSEGV' ''
    log criterion_good 'exit status 0' '[====] Synthesis: Tested: 5 | Passing: 5 | Failing: 0 | Crashing: 0 '
    log criterion_bad 'exit status 1' '[\033[0;34m====\033[0m] \033[0;1mSynthesis: Tested: \033[0;34m7\033[0;1m | Passing: \033[0;32m4\033[0;1m | Failing: \033[0;31m3\033[0;1m | Crashing: \033[0;31m1\033[0;1m \033[0m'
    log criterion_empty 'exit status 0' '[====] Synthesis: Tested: 0 | Passing: 0 | Failing: 0 | Crashing: 0 '
    log script_good 'exit status 0' '10 passed, 0 failed, 2 skipped'
    log script_lies 'exit status 0' '10 passed, 1 failed'
    log late_crash 'exit status 1' '[====] Synthesis: Tested: 2 | Passing: 2 | Failing: 0 | Crashing: 0 '
} | awk -f count.awk)
want='failed: plain_bad (exit status 1)
failed: killed (killed by signal 11 SIGSEGV)
failed: criterion_bad (exit status 1)
failed: criterion_empty (ran no test)
failed: script_lies (exit status 0, though 1 cases failed)
failed: late_crash (exit status 1)
32 8 3'
if [ "$got" != "$want" ]; then
    printf 'count.awk printed:\n%s\nwanted:\n%s\n' "$got" "$want"
    exit 1
fi
if printf 'no test here\n' | awk -f count.awk >/dev/null; then
    echo 'count.awk accepted a log without tests'
    exit 1
fi
echo 'count.awk: every kind of test counted'
got=$({
    log good 'exit status 0' 'fine'
    log bad 'exit status 1' 'one\ntwo\nthree'
    log last 'killed by signal 11 SIGSEGV' ''
    printf 'Ok: 1\n'
} | awk -v lines=2 -f said.awk)
want='---- bad (exit status 1) said last:
     two
     three
---- last (killed by signal 11 SIGSEGV) said last:'
if [ "$got" != "$want" ]; then
    printf 'said.awk printed:\n%s\nwanted:\n%s\n' "$got" "$want"
    exit 1
fi
