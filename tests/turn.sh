#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A test that judges all of its cases together, and takes long: turn.sh PLACE COMMAND...
# Runs the command if the share of this run has PLACE (share.py). Otherwise the test is skipped: the run of ./check for
# another commit has it.
. "$(dirname "$0")/share.sh"
if ! share_has "$1"; then
    echo "skipped: the turn of another commit (DT_SHARE=$DT_SHARE)"
    exit 77
fi
shift
exec "$@"
