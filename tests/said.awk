# SPDX-License-Identifier: Apache-2.0
# What the tests that failed said, out of meson's testlog.txt: the last `lines` (25) lines of each, at most `tests` (8) of them.

function finish() {
    if (name != "" && result !~ /exit status (0|77)$/ && told++ < tests) {
        print "---- " name " (" result ") said last:"
        for (i = n > lines ? n - lines : 0; i < n; i++)
            print "     " substr(said[i], 1, 400)
    }
    name = ""
    n = 0
}

BEGIN {
    lines = lines ? lines : 25
    tests = tests ? tests : 8
}
/^=+( [0-9]+\/[0-9]+ =+)?$/ { finish(); next }
/^test: +/ && name == "" {
    name = $0
    sub(/^test: +/, "", name)
    result = "no result"
    next
}
/^result: +/ && result == "no result" {
    result = $0
    sub(/^result: +/, "", result)
    next
}
/^(start time|duration|command): / || /^-+ (stdout|stderr) -+$/ || /^$/ { next }
name != "" { said[n++] = $0 }
END { finish() }
