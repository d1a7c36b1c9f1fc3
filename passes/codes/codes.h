/* SPDX-License-Identifier: Apache-2.0 */
/* Weights as codes: pass `codes` (codes.c), the functions that read codes (codes_func.c), and the
 * expressions between weights, codes and scales (codes_value.c). */
#ifndef DT_PASSES_CODES_CODES_H
#define DT_PASSES_CODES_CODES_H

#include "ir/config.h"
#include "ir/map.h"

/* A parameter that inference reads as codes. `group` neighbours along one axis share a scale:
 *
 *   weight   f32[loops.., axes.., a, ..]
 *   scales   f32[loops.., kept.., summed.., a = groups]
 *   codes     u8[loops.., kept.., summed.., a = groups, "a.in" = group]
 *
 * With 4 bits "a.in" has half as many elements: byte j of a group holds element j in its lower and
 * element j + group / 2 in its upper half. summed: further axes that all products sum. */
typedef struct DtCodesOf {
    const DtCodedWeight *wish;
    int64_t group;
    DtStore *param, *codes, *scales;
    DtStore *from; /* what inference reads and becomes codes: the parameter, or its average */
    uint32_t axis;    /* number of the grouped axis in the type of `from` */
    const char *in, *half;
    uint32_t products; /* that read it */
    uint32_t summed[DT_MAX_RANK]; /* by axis: how many of these products sum it */
    bool looked_up[DT_MAX_RANK];  /* by axis: a lookup takes elements along it */
    bool failed;
} DtCodesOf;

/* A value that is a coded parameter, renamed perhaps, inside of `loops` loops, each with a slice
 * of it. names: of the parameter's axes. codes and scales are NULL while readers are looked at. */
typedef struct DtCodesRead {
    DtCodesOf *of;
    DtValue *codes, *scales;
    const char *names[DT_MAX_RANK];
    uint32_t loops;
    DtDtype dtype;
} DtCodesRead;

/* Rows of a product up to which a kernel reads codes, instead of a copy with restored weights. */
enum { DT_CODES_ROWS = 8 };

typedef struct DtCodes {
    DtModule *module;
    DtArena *arena;
    DT_VEC(DtCodesOf *) all;
    DT_VEC(struct DtCodesMade *) made; /* codes_func.c */
    bool is_smaller; /* DtTrainConfig.is_smaller */
    bool strict; /* readers that are neither products nor lookups are reported */
} DtCodes;

/* ---- codes_func.c ---- */

/* Notes for each coded parameter how products of the entry's function read it. Reports other
 * readers if d->strict. */
void dt_codesfunc_look(DtCodes *d, DtFunc *func);
/* Returns a copy of the entry's function that reads codes instead of coded parameters. */
DtFunc *dt_codesfunc_make(DtCodes *d, DtFunc *func);

/* ---- codes_value.c ---- */

/* Types of the stores, once the axis is known. The axes in front are those of loops. */
const DtType *dt_codesvalue_type(const DtCodesOf *of, bool scales);
/* Appends ops that compute scales and codes of the weight. */
DtValue *dt_codesvalue_scales(DtBuilder *b, const DtCodesOf *of, DtValue *weight);
DtValue *dt_codesvalue_codes(DtBuilder *b, const DtCodesOf *of, DtValue *weight, DtValue *scales);
/* Appends ops that compute what the codes stand for, with the grouped axis `axis` in one piece, in
 * the read's dtype. */
DtValue *dt_codesvalue_restore(DtBuilder *b, const DtCodesRead *read);
/* Appends the product of x and what the codes stand for, in one kernel. Its axes and dtype are
 * those of `dot`, which sums the grouped axis. */
DtValue *dt_codesvalue_product(DtBuilder *b, const DtCodesRead *read, const DtOp *dot, DtValue *x);

#endif
