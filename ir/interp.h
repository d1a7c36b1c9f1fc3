/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter: slow, obvious, in double precision, the judge of every pass. Booleans are 0 and 1,
 * integers are doubles that hold whole numbers. */
#ifndef DT_IR_INTERP_H
#define DT_IR_INTERP_H

#include "ir/ir.h"

typedef struct DtTensor {
    const DtType *type;
    double *at;          /* dt_type_elements(type), row-major in axis order */
} DtTensor;

typedef struct DtInterp {
    DtArena *arena;      /* tensors are made here */
    uint64_t seed;       /* key of rng sites: dt_hash_text(path, seed) */
    uint32_t step;
    /* value of a `param` or `input` op of an entry function; must have the op's result type */
    DtTensor *(*source)(void *context, const DtOp *op);
    void *context;
    bool rounds;         /* round every float result to its dtype, as the language says (f32, bf16, f16) */
    /* where we are; kept by the interpreter */
    const char *path;    /* instance path, "" at the top */
    uint32_t iteration;  /* row-major over the enclosing loops */
} DtInterp;

DtTensor *dt_interp_tensor(DtArena *arena, const DtType *type); /* zeros */

/* Runs func on inputs (func->inputs.n of them); fills ret_results (func->results.n). */
void dt_interp_run(DtInterp *interp, const DtFunc *func, DtTensor *const *inputs, DtTensor **ret_results);

/* The initial value of a store: same bits as the runtime's before rounding to the store's dtype. Elements
 * are drawn with index row-major over the axes sorted by name, loop axes aside, which are the iteration. */
void dt_interp_init(const DtStore *store, uint64_t seed, DtTensor *ret_tensor);

/* Index of an element, row-major over the axes of type sorted by name. coordinate: one per axis, logical. */
uint64_t dt_interp_element(const DtType *type, const int64_t *coordinate);

#endif
