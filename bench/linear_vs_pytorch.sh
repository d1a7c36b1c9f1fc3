#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# One float32 training step of bench/linear_attention.dsl (2 layers, width 64, 2 heads, batch 4), which goes along positions in
# blocks of 64, beside PyTorch: its loop over positions, and the same blocks, eager and compiled (peer_linear_step.py). As
# mamba_vs_pytorch.sh, which it runs, does.
#
#   bench/linear_vs_pytorch.sh BUILD [ROUNDS] [POSITIONS ...]       PYTHON=python with torch (default python3)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export PROGRAM="$here/linear_attention.dsl" PEER="$here/peer_linear_step.py" SCAN='the same blocks'
exec "$here/mamba_vs_pytorch.sh" "$@"
