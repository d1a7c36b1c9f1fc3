# SPDX-License-Identifier: Apache-2.0
"""The share of generated cases that one run of ./check goes through.

A test whose cases are generated or enumerated by the hundred (mutants, layouts, odd programs, kernels) goes through all of
them, unless the environment says `DT_SHARE=K/N`: then through those whose place is K modulo N. ./check sets it, with
K following the number of the commit, so that N commits in a row have run all cases; `./check SUITE` and `./check --all`
do not. tests/share.h is the same for C, share.sh for scripts, and turn.sh runs a whole test in its turn."""
import os


def share():
    """(K, N); (0, 1) where all cases run."""
    text = os.environ.get("DT_SHARE", "0/1")
    turn, n = (int(word) for word in text.split("/"))
    if not 0 <= turn < n:
        raise SystemExit("DT_SHARE=%s: K/N with 0 <= K < N is meant" % text)
    return turn, n


def mine(place):
    """Whether the case at this place runs."""
    turn, n = share()
    return place % n == turn


def of(cases):
    """Those of the cases that run; at least one where there is any."""
    turn, n = share()
    cases = list(cases)
    return cases[turn::n] or cases[:1]
