/* SPDX-License-Identifier: Apache-2.0 */
/* The pages of this machine: 4096 bytes on x86-64, up to 65536 on others. */
#ifndef DT_BASE_PAGE_H
#define DT_BASE_PAGE_H

#include <stdint.h>

/* Returns the bytes of a page, a power of two. */
uint64_t dt_page_bytes(void);
/* Returns the smallest multiple of a page's bytes that is no less than `bytes`. */
uint64_t dt_page_up(uint64_t bytes);

#endif
