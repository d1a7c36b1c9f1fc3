/* SPDX-License-Identifier: Apache-2.0 */
/* What oneDNN allocates with, supplied by this program. */
#ifndef DT_RUNTIME_NEW_POOL_H
#define DT_RUNTIME_NEW_POOL_H

#include <stddef.h>
#include <stdint.h>

/* Does nothing; calling it makes the linker take them into the program. */
void dt_new_pool_link(void);

#endif
