#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Our declarations of CUDA's libraries and of UCX against their headers, where these are installed: headers.sh CC.
# Exit code 77: none is. Headers are looked for where the compiler does, and in CUDA_HOME.
cc=$*
here=$(dirname "$0")
root=$(cd "$here/../.." && pwd)
options="-std=gnu11 -fsyntax-only -I$root -I${CUDA_HOME:-/usr/local/cuda}/include"
compared=0 skipped=0 failed=0
for name in cuda cublasLt cudnn nccl ucx; do
    header=$name.h
    [ $name != ucx ] || header=ucp/api/ucp.h
    if ! echo "#include <$header>" | $cc $options -x c - 2>/dev/null; then
        echo "skipped: there is no $header here"
        skipped=$((skipped + 1))
    elif ! $cc $options "$here/headers_$name.c" ||
        # a copy of the header in which one number is wrong
        $cc $options -DWRONG "$here/headers_$name.c" 2>/dev/null; then
        echo "failed: $header"
        failed=$((failed + 1))
    else
        compared=$((compared + 1))
    fi
done
echo "$compared passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] || exit 1
[ "$compared" != 0 ] || exit 77
