/* SPDX-License-Identifier: Apache-2.0 */
/* The memory pool from which libraries for matrix products allocate in this program. */
#ifndef DT_RUNTIME_NEW_POOL_H
#define DT_RUNTIME_NEW_POOL_H

#include <stddef.h>
#include <stdint.h>

/* Does nothing; calling it makes the linker take them into the program. */
void dt_new_pool_link(void);

/* Between these calls the memory that this thread gets from malloc is pooled: free keeps it for
 * later. */
void dt_new_pool_begin(void);
void dt_new_pool_end(void);

/* Called by malloc: a buffer of the pool; NULL: the caller uses the allocator. */
void *dt_new_pool_serve(size_t bytes);

#endif
