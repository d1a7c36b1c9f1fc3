/* SPDX-License-Identifier: Apache-2.0 */
/* Translates names of other frameworks (foreign.def). */
#include "frontend/foreign.h"

#include <string.h>
#include <strings.h>

typedef struct Row {
    DtForeignPlace place;
    const char *theirs, *ours, *says, *line;
} Row;

static const Row rows[] = {
#define DT_FOREIGN(place, theirs, ours, says, line) {DT_FOREIGN_##place, theirs, ours, says, line},
#include "frontend/foreign.def"
#undef DT_FOREIGN
};

static const Row *find(DtForeignPlace place, const char *name)
{
    const Row *near = NULL;
    for (size_t i = 0; name && i < DT_COUNT(rows); i++) {
        if (rows[i].place == place && !strcmp(rows[i].theirs, name))
            return &rows[i];
        if (rows[i].place == place && !near && !strcasecmp(rows[i].theirs, name))
            near = &rows[i];
    }
    return near;
}

bool dt_foreign_is(DtForeignPlace place, const char *name, const char **ret_ours)
{
    const Row *row = find(place, name);
    *ret_ours = row ? row->ours : "";
    return row;
}

bool dt_foreign_help(DtDiag *diag, DtForeignPlace place, DtSpan at, const char *name)
{
    const Row *row = find(place, name);
    if (!row)
        return false;
    if (*row->line)
        dt_diag_help(diag, "%s: `%s`", row->says, row->line);
    else
        dt_diag_help(diag, "%s", row->says);
    if (*row->ours && at.file && !strchr(row->ours, '['))
        dt_diag_fix(diag, at, row->ours, "did you mean `%s`?", row->ours);
    return true;
}

bool dt_foreign_is_module(const char *name)
{
    static const char *const modules[] = {"nn",   "F",     "torch", "functional", "np",    "numpy",
                                          "jnp",  "jax",   "lax",   "tf",         "keras", "optax",
                                          "flax", "optim", "math",  "self"};
    for (size_t i = 0; name && i < DT_COUNT(modules); i++)
        if (!strcmp(modules[i], name))
            return true;
    return false;
}
