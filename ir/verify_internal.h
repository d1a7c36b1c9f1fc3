/* SPDX-License-Identifier: Apache-2.0 */
/* What verify.c (modules), verify_func.c, verify_op.c, verify_frame.c and verify_pipeline.c
 * share. */
#ifndef DT_IR_VERIFY_INTERNAL_H
#define DT_IR_VERIFY_INTERNAL_H

#include "ir/ir.h"
#include "ir/map.h"

enum {
    DT_VERIFY_MAX = 50,    /* problems that are printed; further ones are only counted */
    DT_VERIFY_RECENT = 256
};

typedef struct DtVerify {
    const DtModule *module;
    const DtFunc *func; /* the function that is checked, or NULL */
    const DtOp *op;     /* the op that is checked, or NULL */
    DtText *problems;
    uint32_t n_problems;
    DtArena *scratch;
    DtMap funcs;            /* pointers of the module's functions -> number + 1 */
    DtMap types;            /* types that were found valid, by pointer */
    const DtType *recent[DT_VERIFY_RECENT]; /* some of these, in a table by address */
    bool starts_rings;      /* the module starts gathers into ring buffers */
    const DtValue **values; /* values of func by id; NULL = not defined so far */
} DtVerify;

static inline uint32_t dt_verify_recent(const DtType *type)
{
    return (uint32_t)((uintptr_t)type >> 4) % DT_VERIFY_RECENT;
}

/* Adds a line with the problem and its place; always false. */
bool dt_verify_fail(DtVerify *v, DtSpan span, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool dt_verify_name(DtVerify *v, DtSpan span, const char *what,
                    const char *name); /* the name must be interned and not NULL */
bool dt_verify_type(DtVerify *v, DtSpan span, const char *what, const DtType *type);
bool dt_verify_init(DtVerify *v, DtSpan span, const DtInit *init);
/* whether the type was found valid before */
bool dt_verify_is_good(const DtVerify *v, const DtType *type);
bool dt_verify_has_func(const DtVerify *v, const DtFunc *func);
/* whether gathers into ring buffers are started */
bool dt_verify_starts_rings(const DtModule *module);
/* Defines a value; false after a problem. */
bool dt_verify_define(DtVerify *v, DtSpan span, const DtValue *value, const DtOp *op,
                      uint32_t index);
bool dt_verify_path(DtVerify *v, DtSpan span, const char *path, const char *pattern,
                    const DtType *type, uint8_t n_loops);
/* Whether a value can be stored: the axes have the same order and extents, and the dtype is the
 * same; the value may have a pending sum. */
bool dt_verify_may_be_stored(const DtType *value, const DtType *store);
void dt_verify_interface(DtVerify *v, const DtFunc *func); /* the interface for callers */
void dt_verify_body(DtVerify *v, const DtFunc *func); /* after all interfaces were found good */
void dt_verify_cycles(DtVerify *v);                   /* after all bodies were */
bool dt_verify_op(DtVerify *v, const DtOp *op);
void dt_verify_frames(DtVerify *v);   /* after everything but pipelines was found good */
void dt_verify_pipeline(DtVerify *v); /* after everything else was found good */

#endif
