/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of names blocks: config_names.c (the block and the left sides of its entries),
 * config_sides.c (the right sides), config_members.c (members of config.json). */
#ifndef DT_FRONTEND_CONFIG_NAMES_H
#define DT_FRONTEND_CONFIG_NAMES_H

#include "frontend/config_internal.h"

/* The number that a path leaves out after the label of a `repeat` over a tuple. */
typedef struct DtSideNumber {
    const char *label; /* interned */
    int64_t number;
} DtSideNumber;
typedef DT_VEC(DtSideNumber) DtSideNumbers;

typedef struct DtMapping {
    const DtConfigHost *host;
    DtProgram *program;
    const DtItem *item;
    DtMap known;           /* names of tensors: the target that has them */
    DtMap seen;            /* stores that occur */
    DtSideNumbers numbers; /* of the paths of the entry that is read */
    const char *label;     /* of the instance of the model; "": it has none */
    DtFileNames made;
} DtMapping;

/* An axis of a right side. A parameter inside loops has their labels as axes. */
typedef struct DtSideAxis {
    const char *name; /* interned */
    int64_t extent;
    bool is_loop;
} DtSideAxis;

/* The elements of a parameter in a right side: index x of the element with indices i is first[x] +
 * sum of factor[a][x] * i[a]. */
typedef struct DtSidePart {
    const DtStore *store;
    int64_t first[DT_MAX_RANK], factor[DT_MAX_RANK][DT_MAX_RANK];
} DtSidePart;

typedef struct DtSide {
    DtSideAxis axes[DT_MAX_RANK];
    uint32_t n;
    DT_VEC(DtSidePart) parts;
} DtSide;

/* Returns the value without parentheses, and the chosen branch of an `if`, whose condition is a
 * constant. NULL after a report. */
const DtExpr *dt_configsides_chosen(const DtMapping *m, const DtExpr *expr);
/* Whether the value is the name `none`: the file has no such tensor or member. */
bool dt_configsides_is_none(const DtExpr *expr);

/* The numbers that the paths of an entry leave out: the entry stands for one entry with each of
 * them. Without any: one list without numbers. */
typedef DT_VEC(DtSideNumbers) DtSideInstances;
void dt_configsides_instances(const DtMapping *m, const DtExpr *expr,
                              DtSideInstances *ret_instances);

/* Reads the right side of an entry, an expression of parameters, into ret_side. False after an
 * error. */
bool dt_configsides_read(DtMapping *m, const DtExpr *expr, DtSide *ret_side);
bool dt_configsides_is_parameter(const DtStore *store);
/* Returns the path of a parameter or state within the instance of the model that the block is read
 * for; NULL if it is of another instance, or a copy. */
const char *dt_configsides_path(const DtMapping *m, const DtStore *store);
/* Returns the number of iterations of the loop with that label (interned); 0 if no parameter is in
 * such a loop. */
int64_t dt_configsides_iterations(const DtMapping *m, const char *label);

/* Reads `config "KEY" = VALUE` into rules of m->made. */
void dt_configmembers_read(DtMapping *m, const DtEntry *entry);

#endif
