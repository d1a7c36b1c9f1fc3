/* SPDX-License-Identifier: Apache-2.0 */
#include "base/page.h"

#include <stdatomic.h>
#include <unistd.h>

uint64_t dt_page_bytes(void)
{
    static _Atomic uint64_t known;
    uint64_t bytes = atomic_load_explicit(&known, memory_order_relaxed);
    if (bytes == 0) {
        const long said = sysconf(_SC_PAGESIZE);
        bytes = said > 0 ? (uint64_t)said : 4096;
        atomic_store_explicit(&known, bytes, memory_order_relaxed);
    }
    return bytes;
}

uint64_t dt_page_up(uint64_t bytes)
{
    return (bytes + dt_page_bytes() - 1) & ~(dt_page_bytes() - 1);
}
