/* SPDX-License-Identifier: Apache-2.0 */
/* C++'s allocation operators, supplied by this program. */
#ifndef DT_RUNTIME_NEW_POOL_H
#define DT_RUNTIME_NEW_POOL_H

#include <stddef.h>
#include <stdint.h>

/* Does nothing; calling it makes the linker take the operators into the program. */
void dt_new_pool_link(void);

#endif
