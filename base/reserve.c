/* SPDX-License-Identifier: Apache-2.0 */
#include "base/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

DtStatus dt_reserve_space(int fd, const char *path, int64_t at, int64_t len)
{
    int error;
    do
        error = len > 0 && fallocate(fd, 0, (off_t)at, (off_t)len) != 0 ? errno : 0;
    while (error == EINTR);
    if (error != ENOSPC && error != EDQUOT && error != EFBIG && error != EIO)
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO, "cannot reserve %lld bytes of %.300s: %s%s", (long long)len,
                          path, strerror(error),
                          error == EFBIG ? "; `ulimit -f` allows no larger files"
                                         : "; free some space on that disk");
}
