# SPDX-License-Identifier: Apache-2.0
# Counts test cases in meson's testlog.txt. A Criterion program reports its cases in a summary line
# ("Synthesis: Tested: 9 | Passing: 9 | ..."), a script in a line "9 passed, 0 failed, 0 skipped"; any other
# test is one case, judged by its exit status (77 is skipped). A program that reports no case at all fails.
# Prints a line "failed: NAME (why)" for each test that failed, then "PASSED FAILED SKIPPED".

function finish() {
    if (name == "")
        return
    tests++
    skipped_whole = (result ~ /exit status 77/)
    bad = !(result ~ /exit status 0/) && !skipped_whole
    if (skipped_whole) {
        skipped++
    } else if (!reports) {
        bad ? failed++ : passed++
    } else {
        passed += ok
        failed += wrong
        skipped += left
        if (ok + wrong + left == 0) {
            failed++
            bad = 1
            result = "ran no test"
        } else if (bad && wrong == 0) {
            failed++
        } else if (!bad && wrong > 0) {
            bad = 1
            result = result ", though " wrong " cases failed"
        }
    }
    if (bad)
        print "failed: " name " (" result ")"
    name = ""
}

/^=+ [0-9]+\/[0-9]+ =+$/ { finish() }
/^test: +/ && name == "" {
    name = $0
    sub(/^test: +/, "", name)
    result = "no result"
    reports = ok = wrong = left = 0
}
/^result: +/ && result == "no result" {
    result = $0
    sub(/^result: +/, "", result)
}
{
    line = $0
    gsub(/\033\[[0-9;]*m/, "", line)
}
line ~ /Synthesis: Tested: [0-9]+ \| Passing: [0-9]+ \| Failing: [0-9]+/ {
    sub(/^.*Tested: /, "", line)
    split(line, n, /[^0-9]+/)
    reports++
    ok += n[2]
    wrong += n[3]
}
/^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$/ {
    reports++
    ok += $1
    wrong += $3
    left += $5
}
END {
    finish()
    if (tests == 0)
        exit 1
    print passed + 0, failed + 0, skipped + 0
}
