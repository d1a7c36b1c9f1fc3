#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The C compiler for kernels of tests that compile many programs to see that they are right, each running for a few steps
# only: it optimizes less, in a fifth of the time. Kernels are canonical C, whose bits do not depend on that (the tests of
# codegen compile as dtc does, and so do the slow ones). The kernel cache tells them apart by the version. Tests that use it
# set DT_CC_CHECK=none too: nothing is vectorised that could be compared.
set -eu
if [ "$1" = --version ]; then
    cc --version | sed '1s/^/quick -Og /'
    exit
fi
for argument; do
    shift
    [ "$argument" = -O3 ] && argument=-Og
    set -- "$@" "$argument"
done
exec cc "$@"
