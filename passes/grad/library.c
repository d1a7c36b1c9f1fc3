/* SPDX-License-Identifier: Apache-2.0 */
/* Which library functions are differentiated as a whole. */
#include "passes/passes.h"

#include <string.h>

#define DT_LIBRARY(NAME) NAME,
static const char *const library[] = {
#include "passes/grad/library.def"
};
#undef DT_LIBRARY

bool dt_library_is_whole(const DtFunc *func)
{
    for (uint32_t i = 0; func->library != NULL && i < DT_COUNT(library); i++)
        if (strcmp(library[i], func->library) == 0)
            return true;
    return false;
}
