/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan was compiled from: options, the layout that `auto` chose, and the texts of all files,
 * those of the library too. `dtc recompile` needs no other file. Compressed in BLOB:
 *
 *   words of the command line, each with a NUL after it; an empty word ends them
 *   the parallel block that `auto` chose, or nothing; a NUL
 *   for each file, the main one first: `library` or `program`, its name, the number of bytes of its
 *   text, each with a NUL after it; the text
 *
 * The program's files have the names under which dtc read them. */
#ifndef DT_PLAN_ORIGIN_H
#define DT_PLAN_ORIGIN_H

#include "plan/write.h"

#include <stdbool.h>

typedef struct DtOriginFile {
    const char *name, *text; /* the text ends with a NUL, too */
    size_t len;
    bool is_library;
} DtOriginFile;

typedef struct DtOrigin {
    DT_VEC(const char *) words;
    const char *block; /* NULL: `auto` chose nothing */
    DT_VEC(DtOriginFile) files; /* at least one */
} DtOrigin;

/* Adds the section. False: the texts exceed 64 MiB, or a name or word is empty. */
bool dt_origin_write(DtPlanBuilder *builder, const DtOrigin *origin);

/* Reads the section, which need not be trusted, into arena. False: the plan has no valid one. */
bool dt_origin_read(DtArena *arena, const DtPlan *plan, DtOrigin *ret_origin);

#endif
