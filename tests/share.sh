# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts, some of whose cases run in one commit of several only: see tests/share.py.

# share_has PLACE: whether the case at this place runs. All do, unless the environment says DT_SHARE=K/N; then those whose
# place is K modulo N.
share_has() {
    share_of=${DT_SHARE:-0/1}
    [ $(($1 % ${share_of#*/})) -eq "${share_of%/*}" ]
}
