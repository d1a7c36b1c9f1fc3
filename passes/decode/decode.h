/* SPDX-License-Identifier: Apache-2.0 */
/* Internal to passes/decode: what the derivation of an entry knows of each value of "predict". */
#ifndef DT_PASSES_DECODE_DECODE_H
#define DT_PASSES_DECODE_DECODE_H

#include "passes/passes.h"

#include "ir/map.h"

typedef struct DtDecodeScope DtDecodeScope;
typedef struct DtDecodeVal DtDecodeVal;
typedef struct DtDecodeState DtDecodeState;

/* A value of "predict", and what stands for it in the derived entry. */
struct DtDecodeVal {
    DtDecodeScope *scope;  /* the function of the derived entry that has it */
    /* It depends on what the model reads. If not, it is the same for all positions, and `whole`
     * and `now` are built when they are read. */
    bool varies;
    DtValue *whole;        /* all positions; NULL: not built yet, or it varies */
    DtValue *now;          /* the new positions; NULL: not built yet */
    /* not NULL: the axis to which the time axis was renamed. `now` still has the new positions,
     * `all` has those in the cache as well (NULL: not built yet) */
    const char *past;
    DtValue *all;
    bool is_first;         /* a slice of the first position, which `now` has without the axis */
    const char *why_not;   /* why the derived entry has no such value; NULL: it has */
    /* of a value that does not vary: the op that makes it, or the value outside of the loop */
    const DtOp *op;
    DtDecodeVal **in;
    DtDecodeVal *outside;
    bool is_stacked;       /* `outside` has a slice for each iteration */
    const char *prefix;    /* of the op's path */
};

/* A value from outside that a loop's body reads. */
typedef struct DtDecodeTaken {
    DtValue *outside, *inside;
    bool is_stacked;
} DtDecodeTaken;

/* What a step keeps for the next one: in an entry a store, in a body a slice of such a state
 * outside. */
struct DtDecodeState {
    DtStore *store;
    DtDecodeState *outside;
    DtValue *old, *new;
};

/* A function of the derived entry while it is built: the entry, or the body of a loop. */
struct DtDecodeScope {
    DtDecodeScope *outer;  /* NULL: the entry */
    DtBuilder b;
    const DtLoop *loop;
    bool is_timed;         /* (inside) a loop along the time axis: values have one position */
    const char *prefix;    /* of paths: labels of the calls that were inlined */
    const char *place;     /* of `bind` ops */
    DtValue *start;        /* i32[rows]: positions that earlier steps computed; NULL: not built */
    DtValue *count;        /* i32[rows]: how many of the new positions there are */
    DtValue *query;        /* i32[rows, new]: the number of each new position */
    DT_VEC(DtDecodeTaken) taken;
    DT_VEC(DtDecodeState *) states;
};

/* Axes of the slots of experts. `slot` has n_fresh places. */
typedef struct DtDecodeSlots {
    const char *experts, *slot;
} DtDecodeSlots;

typedef struct DtDecode {
    DtModule *module;
    const DtPassContext *context;
    const DtEntryPoint *predict;
    DtEntryPoint entry;
    const char *time, *samples; /* axes of the first input */
    const char *fresh, *rows;   /* what they are called in the derived entry */
    int64_t seq, n_fresh, n_rows;
    bool is_decode;             /* one new position in every row; else `count` of n_fresh */
    DtDecodeScope *top;
    DT_VEC(const char *) pasts; /* axes to which the time axis was renamed */
    DT_VEC(DtDecodeSlots) slots;
    DtMap moves;                /* ops that move tokens to slots, or back */
    DtMap taken;                /* by DtValue in a body: the value outside that it is in every
                                 * iteration */
    DtMap queries;              /* values `query` and `start` of all scopes */
    const DtFunc *func;         /* the function of "predict" whose ops are being built */
    const DtOp *call;           /* the call whose ops are being built; NULL: none */
    bool failed;
} DtDecode;

/* ---- decode_value.c ---- */

/* Reports that the model cannot be computed position by position. */
void dt_decode_refuse(DtDecode *d, DtSpan span, const char *what);
/* The type with the axes of the derived entry. past: the axis that stands for the new positions
 * besides the time axis; is_whole: the time axis stays. */
const DtType *dt_decode_type(const DtDecode *d, const DtType *type, const char *past,
                             bool is_whole);
/* Copies an op of "predict" to the derived entry, with these operands. */
DtOp *dt_decode_emit(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtValue *const *in,
                     const char *past, bool is_whole);
DtValue *dt_decode_whole(DtDecode *d, DtDecodeVal *v);
/* The value as an operand of an op: the new positions, and all positions of a renamed axis. */
DtValue *dt_decode_now(DtDecode *d, DtDecodeVal *v);
DtValue *dt_decode_start(DtDecode *d, DtDecodeScope *s);
DtValue *dt_decode_count(DtDecode *d, DtDecodeScope *s);
DtValue *dt_decode_query(DtDecode *d, DtDecodeScope *s);
/* What the body reads of a value outside of its loop. */
DtValue *dt_decode_take(DtDecode *d, DtDecodeScope *s, DtValue *outside, bool is_stacked);
/* A new state; the caller sets its `new`. */
DtDecodeState *dt_decode_state(DtDecode *d, DtDecodeScope *s, const DtType *type,
                               const char *name);
/* x in rows whose text begins with this step, else y. */
DtValue *dt_decode_if_first(DtDecode *d, DtDecodeScope *s, DtValue *x, DtValue *y);
bool dt_decode_is_past(const DtDecode *d, const char *axis);
const char *dt_decode_join(const char *prefix, const char *name);

/* ---- decode_carry.c: ops along the time axis ---- */

bool dt_decode_is_timed(const DtDecode *d, const DtOp *loop, DtDecodeVal *const *in);
/* is_local: it counts the new positions alone. */
DtDecodeVal *dt_decode_scan(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x,
                            bool is_local);
DtDecodeVal *dt_decode_window(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x);
/* The result of a call of the library's `taps` along the time axis; NULL: it is none. */
DtDecodeVal *dt_decode_taps(DtDecode *d, DtDecodeScope *s, const DtOp *call, DtDecodeVal *x);
DtDecodeVal *dt_decode_shift(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x,
                             const DtDecodeVal *index);
DtDecodeVal *dt_decode_first(DtDecode *d, DtDecodeScope *s, const DtOp *op, DtDecodeVal *x);
DtDecodeVal *dt_decode_made(DtDecodeScope *s, DtValue *now, const char *past);

/* ---- decode_queue.c ---- */

/* Whether the running sum numbers the tokens of each expert, as places in slots, and nothing else;
 * notes the axis of slots and the ops that move tokens. */
bool dt_decode_is_queue(DtDecode *d, const DtFunc *func, const DtOp *scan);
bool dt_decode_is_slot(const DtDecode *d, const char *axis);

/* ---- decode_hidden.c ---- */

/* Whether a sum of products, or a maximum, over `axis` depends on positions after the new ones. */
bool dt_decode_sees_later(DtDecode *d, const char *axis, uint32_t n, DtValue *const *in);

/* ---- decode_last.c ---- */

/* The value at the last of the new positions of each row. */
DtValue *dt_decode_last(DtDecode *d, DtValue *value);

#endif
