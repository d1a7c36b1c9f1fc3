/* SPDX-License-Identifier: Apache-2.0 */
/* The interpreter: slow, obvious, in double precision, the judge of every pass and the reference
 * meaning of every kernel. Booleans are 0 and 1, integers are doubles that hold whole numbers.
 *
 * Where the table of ops leaves a choice, this is what holds (generated kernels do the same):
 *  - max and min of numbers and over axes give NaN if any operand is NaN; of equal operands (0 and
 *    -0 count as equal) the later one. Comparisons with NaN are false, `ne` is true.
 *  - floor, floordiv and mod round towards minus infinity. mod has the sign of its right operand:
 *    x - floor(x / y) * y.
 *  - Integer results keep their low bits, as C's unsigned arithmetic does: INT32_MAX + 1 is
 *    INT32_MIN. Integer floordiv by zero gives 0, mod by zero gives the left operand.
 *  - cast to bool: x != 0, so NaN is true. From float to integer: towards zero, saturated, NaN
 *    gives 0. Between integers: the low bits.
 *  - where selects; nothing of the branch not taken reaches the result, NaN included.
 *  - dot, reduce and scan go through their axes in row-major order of the op's list; scatter_add
 *    and fold go through their operand in memory order.
 *  - topk: NaN comes first, then larger values; ties go to the lower index.
 *  - An index is in range if 0 <= index < extent. Out of range, gather reads 0 and scatter_add adds
 *    nothing. */
#ifndef DT_IR_INTERP_H
#define DT_IR_INTERP_H

#include "ir/ir.h"

typedef struct DtTensor {
    const DtType *type;
    double *at; /* dt_type_elements(type), row-major in axis order */
} DtTensor;

typedef struct DtInterp {
    DtArena *arena; /* tensors are made here */
    uint64_t seed;  /* start of the key of random sites: dt_hash_text(path, seed) */
    uint32_t step;
    /* returns the value of a `param` or `input` op of an entry function, a tensor of the op's
     * result type */
    DtTensor *(*source)(void *context, const DtOp *op);
    /* returns, for an all_reduce over pipeline stages, the sum over the stages in op->stages; NULL:
     * such an op aborts */
    DtTensor *(*across)(void *context, const DtOp *op, const DtTensor *in);
    void *context;
    bool rounds; /* round every float result to its dtype, as the language says (f32, bf16, f16) */
    /* not 0: simulates rounding errors. Each float that ranks would round to its dtype is first
     * moved at random by up to a roundoff, differently for each number in `noise`, and sums are
     * accumulated in f32 */
    uint32_t noise;
    /* the current position; kept by the interpreter */
    const char *path;   /* instance path; NULL or "" at the top */
    uint32_t iteration; /* row-major over the enclosing loops */
    /* iterations that the loop has done; in an entry the micro-batch, set by the caller */
    int64_t turn;
    const DtFunc *func; /* the function that is running, for messages */
    uint64_t n_moved;   /* key of the last tensor's noise, one more for each tensor; a caller that
                         * runs several steps starts each at a value of its own */
} DtInterp;

/* With noise: moves each element by up to two roundoffs of its dtype, as if it had just been
 * computed. */
void dt_interp_move(DtInterp *interp, DtTensor *tensor);
double dt_interp_roundoff(DtDtype dtype); /* the roundoff of the dtype, relative; 0: the dtype is no
                                           * rounded float */

DtTensor *dt_interp_tensor(DtArena *arena, const DtType *type); /* a new tensor of zeros */

/* Runs func on inputs (func->inputs.n of them, of exactly the types of func->inputs); fills
 * ret_results (func->results.n). Tensors are never written again once they are made, so results may
 * be inputs. Everything made on the way stays in the arena. Collectives over mesh axes of size 1
 * are the identity; anything else that needs other ranks aborts, as does a module that the verifier
 * would reject. */
void dt_interp_run(DtInterp *interp, const DtFunc *func, DtTensor *const *inputs,
                   DtTensor **ret_results);

/* The initial value of a store: same bits as the runtime's before rounding to the store's dtype.
 * The index of an element's draw is row-major over the axes sorted by name. Loop axes are no part
 * of it: they give the iteration. */
void dt_interp_init(const DtStore *store, uint64_t seed, DtTensor *ret_tensor);

/* Index of an element, row-major over the axes of type sorted by name. coordinate: one per axis,
 * logical. */
uint64_t dt_interp_element(const DtType *type, const int64_t *coordinate);

/* interp_axis.c: the part of a sum that the interpreters take for its term of that number among n
 * (op `terms`). */
double dt_interp_share(int64_t term, int64_t n);
/* Of n elements the one that a `partner` takes for element i. */
int64_t dt_interp_partner(const DtOp *op, int64_t n, int64_t i);

#endif
