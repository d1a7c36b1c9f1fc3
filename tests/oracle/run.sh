#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The interpreter against PyTorch: run.sh ORACLE [--record] [NAME...], in the root of the source tree.
# PYTHON chooses the interpreter of Python; without torch and xxhash there the test is skipped.
exec "${PYTHON:-python3}" "$(dirname "$0")/run.py" "$@"
