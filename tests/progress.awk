# SPDX-License-Identifier: Apache-2.0
# What `meson test` prints as tests end, shown while they run: names of those that fail, and how many have ended. On a
# terminal (shown=yes) the count is one line that is written again; elsewhere a line for every tenth of the tests.

{
    line = $0
    gsub(/\033\[[0-9;]*m/, "", line)
}
match(line, /^ *[0-9]+\/[0-9]+ /) {
    split(substr(line, 1, RLENGTH), n, "/")
    ended = n[1] + 0
    all = n[2] + 0
    bad = line ~ / (FAIL|TIMEOUT|ERROR|INTERRUPT|UNEXPECTEDPASS) /
    failed += bad
    if (bad) {
        sub(/^ *[0-9]+\/[0-9]+ +/, "", line)
        printf "%sFAILED: %s: %s\n", shown ? "\r\033[K" : "", name, line
    }
    if (shown)
        printf "\r   %s: %d of %d tests, %d failed ", name, ended, all, failed
    else if (int(10 * ended / all) > int(10 * (ended - 1) / all) && ended < all)
        printf "   %s: %d of %d tests, %d failed\n", name, ended, all, failed
    fflush()
}
END {
    if (shown && all)
        printf "\r\033[K"
}
