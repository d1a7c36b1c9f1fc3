/* SPDX-License-Identifier: Apache-2.0 */
/* Shape rules: from an op's kind, attributes and operand types to its result types, or to the
 * reason why there are none. One rule per name in the `shape` column of ops.def; the builder
 * (graph.c), the verifier and the frontend use the same ones. Splits and pending sums are part
 * of a type, so the rules also say which placements of operands an op takes and which placement
 * its results get.
 *
 * To ask before building, fill a DtOp with kind, in, n_in and the attributes of the op (nothing
 * is kept):
 *
 *   DtOp op = {.kind = DT_OP_ADD, .in = (DtValue *[]){x, y}, .n_in = 2};
 *   const DtType *type;
 *   const char *reason = dt_shape_check(&op, &module->mesh, NULL, &type);
 *   if (reason) ... a diagnostic; the text is valid until the next call */
#ifndef DT_IR_SHAPE_H
#define DT_IR_SHAPE_H

#include "ir/ir.h"

/* Number of results that op has. Needs the attributes func, loop where the kind has
 * them. */
uint32_t dt_shape_results(const DtOp *op);
/* Number of ranges that op has (DtOp.ranges), if its kind has ranges. */
uint32_t dt_shape_ranges(const DtOp *op);

/* Why op is not well formed, or NULL; then ret_types (room for dt_shape_results(op)) are its
 * result types. wish: for each result NULL or a type. It gives the order of axes, and for kinds
 * whose result is declared (sources, expand, fold, scatter_add, communication) also what the
 * operands do not say; its dtype matters for sources, cast and dot only. NULL = no wishes. mesh:
 * NULL if nothing is split. */
const char *dt_shape_check(const DtOp *op, const DtMesh *mesh, const DtType *const *wish,
                           const DtType **ret_types);

/* The same, but a wish with other axes than the result's is dropped instead of refused. */
const char *dt_shape_derive(const DtOp *op, const DtMesh *mesh, const DtType *const *wish,
                            const DtType **ret_types);

/* ---- for the rules ---- */

typedef struct DtShape {
    const DtOp *op;
    const DtMesh *mesh;
    const DtType *const *wish;
    bool loose;
    const DtType **out;
    DtText reason;
} DtShape;

/* The type of a result while a rule computes it. */
typedef struct DtShapeType {
    DtDtype dtype;
    uint32_t rank;
    DtAxis axes[DT_MAX_RANK];
    uint16_t partial;
    DtReduce pending;
} DtShapeType;

/* Records why op is not well formed; always false. */
bool dt_shape_fail(DtShape *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* "f32[batch=4]" for messages; valid until eight more calls. */
const char *dt_shape_text(DtShape *s, const DtType *type);
const DtType *dt_shape_wish(const DtShape *s, uint32_t i);
int dt_shape_find(const DtShapeType *t, const char *axis);
bool dt_shape_add(DtShape *s, DtShapeType *t, const DtAxis *axis);
/* Inserts the axis into t before axis number `at`; false after a reason. */
bool dt_shape_insert(DtShape *s, DtShapeType *t, uint32_t at, const DtAxis *axis);
void dt_shape_remove(DtShapeType *t, uint32_t at);
/* Adds the axes of type that t lacks; shared ones must be equal in extent and split. */
bool dt_shape_merge(DtShape *s, DtShapeType *t, const DtType *type);
void dt_shape_start(DtShapeType *t, const DtType *type);
/* Applies the wish for result i to t, checks the type, sets s->out[i]; false after a reason. */
bool dt_shape_finish(DtShape *s, uint32_t i, const DtShapeType *t);
uint16_t dt_shape_split_bits(const DtAxis *axis);
/* Pending reductions: of an op that is linear in operands from..from+n-1 together; linear in
 * each of its operands; linear in none. */
bool dt_shape_linear(DtShape *s, DtShapeType *t, uint32_t from, uint32_t n);
bool dt_shape_multilinear(DtShape *s, DtShapeType *t);
bool dt_shape_complete(DtShape *s, uint32_t operand);
bool dt_shape_is_number(DtDtype dtype); /* i32, i64 and floats */

bool dt_shape_declared(DtShape *s);
bool dt_shape_map(DtShape *s);
bool dt_shape_cast(DtShape *s);
bool dt_shape_compare(DtShape *s);
bool dt_shape_where(DtShape *s);
bool dt_shape_relabel(DtShape *s);
bool dt_shape_slice(DtShape *s);
bool dt_shape_pad(DtShape *s);
bool dt_shape_concat(DtShape *s);
bool dt_shape_expand(DtShape *s);
bool dt_shape_terms(DtShape *s);
bool dt_shape_window(DtShape *s);
bool dt_shape_fold(DtShape *s);
bool dt_shape_dot(DtShape *s);
bool dt_shape_reduce(DtShape *s);
bool dt_shape_scan(DtShape *s);
bool dt_shape_topk(DtShape *s);
bool dt_shape_gather(DtShape *s);
bool dt_shape_scatter_add(DtShape *s);
bool dt_shape_call(DtShape *s);
bool dt_shape_loop(DtShape *s);
bool dt_shape_when(DtShape *s);
bool dt_shape_turn(DtShape *s);
bool dt_shape_at(DtShape *s);
bool dt_shape_ringbuf(DtShape *s);
bool dt_shape_ringbuf_put(DtShape *s);
bool dt_shape_ringbuf_get(DtShape *s);
bool dt_shape_ringbuf_turn(DtShape *s);
bool dt_shape_same(DtShape *s);
bool dt_shape_pack(DtShape *s);
bool dt_shape_unpack(DtShape *s);
bool dt_shape_comm(DtShape *s);
bool dt_shape_partner(DtShape *s);

#endif
