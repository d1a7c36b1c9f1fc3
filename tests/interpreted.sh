#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# dtc whose kernels are interpreted (kir/kir.h) where a test names no target. Tests of layouts, optimizers and data train tiny
# programs for some steps; compiling their kernels would take most of the time. DTC names the compiler.
set -eu
case "${1-}" in
*.dsl)
    case " $* " in
    *' --target'* | *' --emit'* | *' --no-kernels '* | *' --verify '*) ;;
    *) set -- "$@" --target=interpreted ;;
    esac
    ;;
esac
exec "$DTC" "$@"
