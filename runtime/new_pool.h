/* SPDX-License-Identifier: Apache-2.0 */
/* What libraries for products allocate with, supplied by this program. */
#ifndef DT_RUNTIME_NEW_POOL_H
#define DT_RUNTIME_NEW_POOL_H

#include <stddef.h>
#include <stdint.h>

/* Does nothing; calling it makes the linker take them into the program. */
void dt_new_pool_link(void);

/* Between these, what this thread gets from malloc are buffers that are kept when they are freed. */
void dt_new_pool_begin(void);
void dt_new_pool_end(void);

/* For malloc: such a buffer; NULL: ask the allocator. */
void *dt_new_pool_serve(size_t bytes);

#endif
