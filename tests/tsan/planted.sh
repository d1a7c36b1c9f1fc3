#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# planted.sh PROGRAM: the thread sanitizer must find the planted fault of PROGRAM. If it does not, it does
# not see the memory that ranks share, and the other runs under it prove nothing.
out=$(TSAN_OPTIONS=exitcode=66 "$1" --planted 2>&1)
status=$?
if [ $status -eq 66 ] && printf '%s\n' "$out" | grep -q 'WARNING: ThreadSanitizer: data race'; then
    echo "1 passed, 0 failed"
    exit 0
fi
printf '%s\n' "$out" | head -n 20
echo "exit status $status: the planted race was not found"
echo "0 passed, 1 failed"
exit 1
