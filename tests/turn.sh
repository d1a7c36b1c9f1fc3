#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A test that judges all of its cases together, and takes long: turn.sh PLACE COMMAND...
# Runs the command, unless the environment says DT_SHARE=K/N and PLACE is not K modulo N: then the test is skipped, and
# the run of ./check for another commit has it (see share.py).
place=$1
shift
case ${DT_SHARE:-} in
*/*)
    if [ $((place % ${DT_SHARE#*/})) -ne "${DT_SHARE%/*}" ]; then
        echo "skipped: the turn of another commit (DT_SHARE=$DT_SHARE)"
        exit 77
    fi
    ;;
esac
exec "$@"
