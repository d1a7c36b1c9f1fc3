/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate by steps: passes say which serial value a value means (`means=` of the text), and each op is one
 * step of a proof: if its operands mean what they do, its result means what it says.
 *
 * Every value of the serial program is a node of its own, which nothing is looked up by; what the passes say is the
 * number of one. A value of the final program has the node that it means. An op means a serial op's result if
 * it is of the same kind, with the same attributes, and its operands mean that op's operands; it may lie as
 * cert_rule.c allows. Nobody is believed: an op that says something else than it makes is refused.
 *
 *  - In a function, arguments mean those of the function that a serial call of it names; it is checked once.
 *  - In the body of a loop, a node is a value at the iteration. What the loop carries means, before an iteration, what
 *    a serial loop carries there, if it does so before the first one and the body makes the next of it. So a part of
 *    a loop is a loop, and what one iteration has left is what the same iteration of another loop reads.
 *  - Few nodes are none of the serial program: what a loop carries between two iterations, the sum over some
 *    iterations, the terms of a sum, what a linear op makes of one term. They are looked up by what they are
 *    made of, and a sum of them is compared with a serial value term by term (step_sum.c).
 *  - Of an op without a number, or of one that puts terms together, the node says what it is made of; the forms that
 *    passes make of several ops (kept on the first rank, windows with edges, buckets) are recognised in these. */
#ifndef DT_VERIFY_STEP_H
#define DT_VERIFY_STEP_H

#include "verify/internal.h"

typedef struct StepLoop {
    const char *symbols; /* where it stands, and its direction */
    int64_t first, count;
    bool reverse;
    uint32_t n;
    CertNode **from, **at, **made, **out; /* of what it carries: its start, before an iteration, after it, behind all */
    DT_VEC(CertNode *) in; /* all operands */
    DT_VEC(CertValue) result;
} StepLoop;

/* What is known of a serial node. */
typedef struct StepNote {
    const StepLoop *loop; /* of what a loop carries, */
    uint32_t carried;     /* number in it */
    const CertFunc *func; /* of a call */
    CertNode **outs;      /* its results */
    CertNode **made;      /* what its function makes, of arguments */
    DT_VEC(CertNode *) users;
} StepNote;

/* Nodes with one number: a body may belong to several loops. */
typedef struct StepMeaning {
    CertNode *node;
    struct StepMeaning *next;
} StepMeaning;

typedef struct StepMade {
    const CertFunc *func;
    CertNode **made;
} StepMade;

typedef struct Step {
    DtArena *arena;
    uint32_t n, id;
    StepMeaning **by_number;
    DT_VEC(StepMade) funcs; /* of the serial program */
} Step;

/* ---- nodes (step_op.c) ---- */

/* Of sums that are none of the serial program: attributes; others: kinds. */
extern const char dt_stepkind_sum[], dt_stepkind_term[], dt_stepkind_lacks[];
static inline bool dt_step_is_sum(const CertNode *node) { return node->attributes == dt_stepkind_sum; }

/* A node of its own. */
CertNode *dt_step_node(CertState *state, CertNode parts);
StepNote *dt_step_note(CertState *state, CertNode *node);
/* The serial values of this number; NULL: there are none. */
const StepMeaning *dt_step_numbered(const CertState *state, uint32_t number);
void dt_step_number(CertState *state, uint32_t number, CertNode *node);
/* Whether values of the one may be of the other: extents of ranges of iterations may be open. */
bool dt_step_same_axes(const CertShape *a, const CertShape *b);
/* Whether it stands for zeros. */
bool dt_step_is_zero(const CertNode *node);
/* Whether op is linear in operand i of the node that it makes. */
bool dt_step_is_linear(const CertNode *node, uint32_t i);
/* What op, which is no call, loop or source, makes; its placement is checked. */
bool dt_step_op(CertState *state, const CertOp *op, const char *context, const CertValue *in, CertValue *out);
/* What a collective makes of x. */
CertNode *dt_step_moved(CertState *state, const CertOp *op, CertNode *x);
CertNode *dt_step_moved_all(CertState *state, const CertOp *op, CertNode *x); /* of a bucket's members */
/* x in another dtype. number: the serial cast that it is said to be. */
CertNode *dt_step_cast(CertState *state, const CertShape *shape, CertNode *x, uint32_t number);
/* An op of members of buckets: the serial op of these operands, or a new node. */
CertNode *dt_step_member(CertState *state, const CertOp *op, const CertShape *shape, CertNode *const *in,
                         uint32_t index);

/* ---- sums (step_sum.c) ---- */

/* What a loop carries at that position, between two iterations. */
CertNode *dt_step_carried(CertState *state, const StepLoop *loop, uint32_t carried, int64_t position);
/* Whether it only adds to it. */
bool dt_step_adds(const StepLoop *loop, uint32_t carried);
/* What iterations lo .. hi add. */
CertNode *dt_step_total(CertState *state, const StepLoop *loop, uint32_t carried, int64_t lo, int64_t hi);
/* What s, linear in operand i, makes of a term x of that operand. */
CertNode *dt_step_term(CertState *state, CertNode *s, uint32_t i, CertNode *x);
/* parts, whose operand *x may be of some iterations: so are they, and *x says which no more. */
CertNode *dt_step_ranged(CertState *state, CertNode parts, CertNode **x);
/* Whether have is want, term by term if it is a sum. ret_lacks: it may be what want is but for what a loop began with;
 * NULL: it may not. */
bool dt_step_equal(CertState *state, CertNode *have, CertNode *want, bool *ret_lacks);

/* ---- functions (step.c) ---- */

bool dt_step_run(CertState *state, const CertFunc *func, CertValue *ret_results);
/* The sum of what pieces or stages add, member by member of buckets; NULL: they do not fit. */
CertNode *dt_step_sum(CertState *state, const CertShape *shape, uint32_t n, CertNode *const *in);
bool dt_step_same(CertState *state, CertNode *have, CertNode *want);

/* ---- buckets (step_pack.c) ---- */

bool dt_step_pack(CertState *state, const CertOp *op, const CertValue *in, uint32_t index, CertValue *out);

#endif
