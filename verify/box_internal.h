/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of boxes.
 *
 *   residue.c    numbers                       box_small.c  small extents, places, mesh axes that stay
 *   box_run.c    functions, maps, sources      box_move.c   what moves, sums and looks up elements
 *   box.c        the comparison                box_match.c  two programs and the boxes between them
 *   box_draw.c   operands of a draw            box_axis.c   ops along a whole axis
 *   box_edge.c   where functions may change their form
 *   box_number.c what is of a dtype            box_fail.c   why a box is refused */
#ifndef DT_VERIFY_BOX_INTERNAL_H
#define DT_VERIFY_BOX_INTERNAL_H

#include "verify/box.h"
#include "verify/internal.h"
#include "verify/residue.h"

enum { BOX_NAMES = 96, BOX_RANKS = 1024, BOX_DEPTH = 16 };

/* Which positions along axes of a name are looked at: of each `unit` of them, those `at`. Names that a relabel makes of
 * each other share one. */
typedef struct BoxLens {
    const char *name;
    uint32_t of;       /* the one that it shares */
    int64_t unit, own; /* divides all blocks of the axis; before one that is common to several was chosen */
    int64_t longest;   /* of those axes */
    bool fixed;        /* all positions are */
    bool position;     /* some op looks at positions */
    bool two;          /* two are taken: it is summed over, has another name somewhere, or numbers are drawn along it */
    int64_t k, *at;    /* of how many, which: ascending */
    int64_t *weight;   /* for how many of the unit each of these stands in a sum; NULL: for one, itself */
    DtResidue *factor; /* the same, of floats */
} BoxLens;

typedef struct BoxAxis {
    const char *name;
    const BoxLens *lens;
    int64_t local, extent; /* small ones: of a rank, of all ranks that stay */
    int64_t whole;         /* extent in the program, without padding */
    uint8_t n, split[CERT_SPLIT];
    bool zigzag;
} BoxAxis;

typedef struct BoxShape {
    const CertType *type;
    uint32_t rank;
    BoxAxis axes[CERT_RANK];
    int64_t stride[CERT_RANK], n; /* elements of a rank */
    uint16_t partial;             /* of mesh axes that stay */
    bool is_float, is_bool;
    const struct BoxShape *next;
} BoxShape;

typedef struct BoxTensor {
    const BoxShape *shape;
    DtResidue *at; /* of rank after rank */
} BoxTensor;

typedef struct BoxCast BoxCast;

/* How many elements with these axes (but for that of a ring's ranks; sorted by name) each side casts to fewer digits,
 * and the first one makes with as few by products, by sums; how many ops each side has that are such products. */
typedef struct BoxRounded {
    const char *to;
    uint32_t rank;
    const char *axes[CERT_RANK];
    int64_t n[2], products, sums;
    uint32_t n_ops[2];
} BoxRounded;

typedef struct Box {
    DtArena *arena, *scratch; /* of the box; of the draw */
    DtResidues *r;
    DtText *problem;
    bool large; /* the problem is that it would take too long */
    bool whole; /* no position is left out */
    bool rounds, counts; /* a cast to fewer digits is not what it was; it counts how many are cast */
    bool parts, few;     /* the second function does in parts what the first one does; something has few digits */
    bool narrows[2];     /* by function: it has a cast to fewer digits, or a product or a sum with few */
    DT_VEC(BoxRounded) rounded; /* in this draw */
    DT_VEC(const CertOp *) products; /* in this draw: those with few digits */
    DT_VEC(const CertOp *) exact; /* casts that take back what a sum of one element has made wider */
    const char *from;     /* the present op's first operand's dtype */
    uint32_t n_mesh, ranks;
    int64_t size[CERT_MESH], whole_size[CERT_MESH]; /* 1: it does not stay */
    BoxLens lenses[BOX_NAMES];
    uint32_t n_lenses;
    DT_VEC(int64_t) constants; /* integers */
    DT_VEC(int64_t) places;    /* positions where functions may change their form (box_edge.c) */
    int64_t period;            /* between these they repeat after so many */
    bool doubtful;             /* or elsewhere: all positions are looked at, too, if those are not too many */
    bool compares, becomes_whole; /* some float is compared; becomes an integer */
    DT_VEC(const CertType *) types;
    DT_VEC(const CertType *) decided; /* what is compared: as many decisions as it has elements */
    const BoxShape *shapes[64];
    int64_t left;       /* elements, and terms of sums, that may still be made */
    DT_VEC(const CertFunc *) funcs; /* whose axes were noted */
    uint32_t again; /* draws for each that is needed, since few rows are there */
    uint32_t depth;
    const char *path;   /* of random numbers */
    uint64_t iteration;
    /* the draw */
    DT_VEC(int64_t) integers; /* of which operands are some */
    uint64_t seed;
    uint32_t number;
    bool ties;   /* constants are among operands */
    bool second; /* the second function is evaluated */
    bool follows;      /* how often an argument was rounded on its way to results is compared */
    uint32_t followed; /* which one */
    BoxCast **casts; /* what floats have become */
    uint32_t n_casts;
} Box;

/* Of a constant: that it is exact as an integer. */
static inline bool dt_box_is_whole(double x) { return x >= -9e15 && x <= 9e15; }

/* Whether an attribute without a value is this. */
bool dt_box_has_flag(const CertOp *op, const char *flag);
/* Whether every attribute is one that such an op may have here. */
bool dt_box_knows_attributes(const CertOp *op);

/* False, after a reason. */
bool dt_box_fail(Box *b, const CertOp *op, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same where it would take too long. */
bool dt_box_large(Box *b, const CertOp *op, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- box_small.c ---- */

bool dt_boxsmall_same_type(const CertType *a, const CertType *c);

/* Notes a function's axes, and what its ops do with them; then what is looked at is decided. */
bool dt_boxsmall_collect(Box *b, const CertProgram *program, const CertFunc *func);
/* programs, funcs: both sides. */
bool dt_boxsmall_decide(Box *b, const CertProgram *const *programs, const CertFunc *const *funcs);
void dt_boxsmall_constant(Box *b, int64_t x); /* that integers may meet */
const BoxLens *dt_boxsmall_lens(const Box *b, const char *name); /* NULL: no axis has the name */
const BoxShape *dt_boxsmall_shape(Box *b, const CertType *type);
/* NULL after a reason: it would be too large. */
BoxTensor *dt_boxsmall_tensor(Box *b, const CertType *type);
/* Whether every rank may still make so many elements of so many terms. */
bool dt_boxsmall_afford(Box *b, int64_t n, int64_t terms);
const BoxAxis *dt_boxsmall_axis(const BoxShape *shape, const char *name);
int64_t dt_boxsmall_stride(const BoxShape *shape, const char *name); /* 0: it has no such axis */

/* Small position along the whole axis of a rank's element; the rank that has it (other coordinates as those of `rank`)
 * and which of its elements it is; the position in the program, and back: -1, it is not looked at. */
int64_t dt_boxsmall_global(const Box *b, const BoxAxis *axis, uint32_t rank, int64_t local);
int64_t dt_boxsmall_find(const Box *b, const BoxAxis *axis, int64_t global, uint32_t rank, uint32_t *ret_holder);
int64_t dt_boxsmall_true(const BoxLens *lens, int64_t global);
int64_t dt_boxsmall_of_true(const BoxLens *lens, int64_t position);

int64_t dt_boxsmall_coordinate(const Box *b, uint32_t rank, uint32_t mesh);
uint32_t dt_boxsmall_move(const Box *b, uint32_t rank, uint32_t mesh, int64_t coordinate);
/* Whether the ranks are equal in all mesh axes but these. */
bool dt_boxsmall_together(const Box *b, uint16_t mesh, uint32_t a, uint32_t c);

/* ---- box_edge.c ---- */

/* Notes in b->places where the function may change its form; ret_again: some axis must be looked at as a whole. */
bool dt_boxedge_find(Box *b, const CertProgram *program, const CertFunc *func, bool *ret_again);

/* ---- box_draw.c ---- */

/* Collects what integers are drawn from, if there are any. */
bool dt_boxdraw_begin(Box *b, const CertFunc *func);
/* How many draws are needed, and how many with ties beside. */
bool dt_boxdraw_count(Box *b, const CertFunc *func, uint32_t *ret_wanted, uint32_t *ret_ties);
/* Draw `number` of those, of random numbers of this seed; its arguments, which are equal where ranks hold the same. */
void dt_boxdraw_next(Box *b, uint64_t seed, uint32_t number, bool ties);
void dt_boxdraw_argument(Box *b, uint32_t i, BoxTensor *x);
/* Which integer a float is in this draw. */
bool dt_boxdraw_whole(Box *b, DtResidue x, int64_t *ret_whole);

/* ---- box_run.c, box_move.c ---- */

bool dt_boxrun_func(Box *b, const CertProgram *program, const CertFunc *func, BoxTensor *const *in,
                    BoxTensor **ret_results);

/* Ops of box_move.c; false, and no reason: it knows no such op. */
typedef bool DtBoxOp(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out);
DtBoxOp *dt_boxmove_op(const CertOp *op);
/* x as this type: every element from the rank of the group that has it; reduced over the group, if so. */
BoxTensor *dt_boxmove_to(Box *b, const CertOp *op, const BoxTensor *x, const CertType *to, uint16_t mesh, bool reduces);
/* ---- box_number.c ---- */

/* An integer of the dtype; a second component that is missing: no number, or a symbol. */
int64_t dt_boxnumber_wrap(const char *dtype, int64_t x);
static inline bool dt_box_is_odd(DtResidue x) { return x.q == DT_RESIDUE_NONE; }
static inline DtResidue dt_box_odd_of(DtResidue x, DtResidue y)
{
    return dt_box_is_odd(x) && (!dt_box_is_odd(y) || x.p > y.p) ? x : y;
}
typedef enum BoxReduce { BOX_SUM, BOX_MAX, BOX_MIN } BoxReduce;
BoxReduce dt_boxnumber_reduction(const char *name); /* NULL: a sum */
DtResidue dt_boxnumber_combine(const Box *b, BoxReduce reduce, const BoxShape *shape, DtResidue x, DtResidue y);
/* x, so often; factor: n as a float. */
DtResidue dt_boxnumber_times(const Box *b, const BoxShape *shape, DtResidue x, int64_t n, DtResidue factor);
/* Whether a float of the one dtype may be none of the other; what it becomes then. */
bool dt_boxnumber_narrows(const char *from, const char *to);
/* The number of the float dtype that is nearest to x. */
double dt_boxnumber_nearest(const char *dtype, double x);
/* What x is in the dtype of the shape; an integer that is none is undefined. */
DtResidue dt_boxnumber_constant(const Box *b, const BoxShape *shape, double x);
DtResidue dt_boxnumber_rounded(const Box *b, const char *to, DtResidue x);
bool dt_boxnumber_is_exact(const Box *b, const CertOp *cast);
bool dt_boxnumber_is_sum(const CertOp *op);
/* Counts what op rounds to make this; false after a reason. Whether the second function rounds as much or less. */
bool dt_boxnumber_count(Box *b, const CertOp *op, BoxTensor *const *in, const BoxShape *made);
bool dt_boxnumber_as_often(Box *b);
/* Of what an op has made, or an argument: numbers with few digits that were not of the dtype were rounded once more. */
void dt_boxnumber_follow(const Box *b, BoxTensor *x, bool argument);
/* Of a ring call's result, a sum over these mesh axes: it may travel in its dtype, and is rounded once a hop. */
void dt_boxnumber_hop(const Box *b, BoxTensor *x, uint16_t mesh);
/* Whether what is followed was rounded on the way to y as often as on that to x, or less. */
static inline bool dt_boxnumber_no_deeper(DtResidue x, DtResidue y) { return y.depth <= 1 || y.depth <= x.depth; }
/* x as a number that its dtype has: a cast to it leaves it as it is. */
DtResidue dt_boxnumber_of_dtype(const Box *b, const char *dtype, DtResidue x);

/* ---- box_axis.c ---- */

DtBoxOp *dt_boxaxis_op(const CertOp *op);
bool dt_boxaxis_topk(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *const *out);

#endif
