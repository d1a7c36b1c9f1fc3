/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of boxes.
 *
 *   residue.c    numbers                       box_small.c  small extents, positions, mesh axes
 *                that are kept
 *   box_run.c    functions, maps, sources      box_move.c   ops that move, sum and look up elements
 *   box.c        the comparison                box_match.c  finds the boxes between two programs
 *   box_draw.c   random operands               box_axis.c   ops along a whole axis
 *   box_edge.c   positions where a function may change its form
 *   box_number.c dtypes and rounding           box_fail.c   why a box is refused */
#ifndef DT_VERIFY_BOX_INTERNAL_H
#define DT_VERIFY_BOX_INTERNAL_H

#include "verify/box.h"
#include "verify/internal.h"
#include "verify/residue.h"

enum { BOX_NAMES = 96, BOX_RANKS = 1024, BOX_DEPTH = 16 };

/* A lens: which positions are evaluated along the axes of a name: those in `at` out of each `unit`
 * positions. Names that a relabel turns into each other share a lens. */
typedef struct BoxLens {
    const char *name;
    uint32_t of;       /* number of the lens that it shares */
    /* unit: its multiples include the length of every block of the axis; own: the unit before a
     * common one was chosen for several axes */
    int64_t unit, own;
    int64_t longest;   /* extent of the longest of its axes */
    bool fixed;        /* all positions are evaluated */
    bool position;     /* the function uses positions along the axis */
    /* at least two positions are evaluated: the axis is summed, renamed, or numbers are drawn along
     * it */
    bool two;
    int64_t k, *at;    /* number of positions, ascending */
    /* how many positions of the unit each stands for in a sum; NULL: one each */
    int64_t *weight;
    DtResidue *factor; /* the same numbers as float residues */
} BoxLens;

typedef struct BoxAxis {
    const char *name;
    const BoxLens *lens;
    int64_t local, extent; /* number of evaluated elements: of one rank, of all kept ranks */
    int64_t whole;         /* extent in the program */
    uint8_t n, split[CERT_SPLIT];
    bool zigzag;
} BoxAxis;

typedef struct BoxShape {
    const CertType *type;
    uint32_t rank;
    BoxAxis axes[CERT_RANK];
    int64_t stride[CERT_RANK], n; /* elements of a rank */
    uint16_t partial;             /* bit set of kept mesh axes that split it */
    bool is_float, is_bool;
    const struct BoxShape *next;
} BoxShape;

typedef struct BoxTensor {
    const BoxShape *shape;
    DtResidue *at; /* the elements, rank after rank */
} BoxTensor;

typedef struct BoxCast BoxCast;

/* Counts of roundings for elements with these axes (sorted by name, without that of a ring's
 * ranks): how many elements each function casts to fewer digits; how many the first function
 * computes by products and by sums with as few digits; and how many such products each function
 * has. */
typedef struct BoxRounded {
    const char *to;
    uint32_t rank;
    const char *axes[CERT_RANK];
    int64_t n[2], products, sums;
    uint32_t n_ops[2];
} BoxRounded;

/* A tensor that an op has cast in this draw. Its memory is not reused within the draw, so it
 * identifies the tensor. */
typedef struct BoxRounding {
    const CertOp *op;
    const DtResidue *at;
} BoxRounding;

typedef struct Box {
    DtArena *arena, *scratch; /* arenas: of the box; of one draw */
    DtResidues *r;
    DtText *problem;
    bool large; /* the problem is that evaluation would take too long */
    bool whole; /* all positions are evaluated */
    /* a cast to fewer digits counts as an unknown function; casts are counted */
    bool rounds, counts;
    /* parts: the second function computes in parts what the first computes at once; few: some value
     * has few digits */
    bool parts, few;
    /* by function: whether it has a cast to fewer digits, or a product or sum with few digits */
    bool narrows[2];
    DT_VEC(BoxRounded) rounded; /* what follows is for the present draw */
    DT_VEC(const CertOp *) products; /* products with few digits */
    DT_VEC(BoxRounding) roundings;   /* tensors that the second function casts */
    DT_VEC(const CertOp *) exact; /* casts that only undo the widening by a sum of one element */
    const char *from;     /* dtype of the current op's first operand */
    uint32_t n_mesh, ranks;
    /* whole_size: size in the program; size 1: the mesh axis is not kept */
    int64_t size[CERT_MESH], whole_size[CERT_MESH];
    BoxLens lenses[BOX_NAMES];
    uint32_t n_lenses;
    DT_VEC(int64_t) constants; /* integer constants of both functions */
    /* positions at which the functions may change their form (box_edge.c) */
    DT_VEC(int64_t) places;
    int64_t period;            /* period with which they repeat between these positions */
    /* the functions may change elsewhere too: all positions are also evaluated, if there are not
     * too many */
    bool doubtful;
    bool compares, becomes_whole; /* whether a float is compared; whether a float becomes an
                                   * integer */
    DT_VEC(const CertType *) types;
    DT_VEC(const CertType *) decided; /* operand types of ops that compare floats: one
                                       * decision per element */
    const BoxShape *shapes[64];
    int64_t left;       /* elements, and terms of sums, that may still be computed */
    DT_VEC(const CertFunc *) funcs; /* functions whose axes were recorded */
    uint32_t multiple; /* factor for the number of draws, since few rows are evaluated */
    uint32_t depth;
    const char *path;   /* path in front of the sites of random numbers */
    uint64_t iteration;
    /* the draw: */
    DT_VEC(int64_t) integers; /* the integers from which operands are drawn */
    uint64_t seed;
    uint32_t number;
    bool ties;   /* the draw has constants among operands */
    bool second; /* the second function is being evaluated */
    bool follows;      /* counts how often the followed argument was rounded on its way to
                        * results */
    uint32_t followed; /* number of the followed argument */
    BoxCast **casts; /* results of casts that were followed */
    uint32_t n_casts;
} Box;

/* Whether a constant is exact as an integer. */
static inline bool dt_box_is_whole(double x) { return x >= -9e15 && x <= 9e15; }

/* Whether the op has this attribute, which takes no value. */
bool dt_box_has_flag(const CertOp *op, const char *flag);
/* Whether every attribute of the op is known here. */
bool dt_box_knows_attributes(const CertOp *op);

/* Reports a reason; returns false. */
bool dt_box_fail(Box *b, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same, for evaluations that would take too long. */
bool dt_box_large(Box *b, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- box_small.c ---- */

bool dt_boxsmall_same_type(const CertType *a, const CertType *c);

/* Records a function's axes and how its ops use them; then dt_boxsmall_decide chooses the
 * positions. */
bool dt_boxsmall_collect(Box *b, const CertProgram *program, const CertFunc *func);
/* Adds the sizes and axes of both sides: of programs, or of functions. */
bool dt_boxsmall_decide(Box *b, const CertProgram *const *programs, const CertFunc *const *funcs);
void dt_boxsmall_constant(Box *b, int64_t x); /* records a constant that integers may be compared
                                               * with */
/* lens of the axis; NULL: no axis has this name */
const BoxLens *dt_boxsmall_lens(const Box *b, const char *name);
const BoxShape *dt_boxsmall_shape(Box *b, const CertType *type);
/* the evaluated shape of a type; NULL after a reason: it would be too large */
BoxTensor *dt_boxsmall_tensor(Box *b, const CertType *type);
/* Whether every rank may compute n more elements of so many terms each. */
bool dt_boxsmall_afford(Box *b, int64_t n, int64_t terms);
const BoxAxis *dt_boxsmall_axis(const BoxShape *shape, const char *name);
/* the stride of the axis with that name; 0: the shape has no such axis */
int64_t dt_boxsmall_stride(const BoxShape *shape, const char *name);

/* global: evaluated position along the whole axis of a rank's element. find: the rank that holds a
 * position (its other coordinates are those of `rank`), and the number of the element there. true:
 * the position in the program. of_true: the inverse; -1: that position is not evaluated. */
int64_t dt_boxsmall_global(const Box *b, const BoxAxis *axis, uint32_t rank, int64_t local);
int64_t dt_boxsmall_find(const Box *b, const BoxAxis *axis, int64_t global, uint32_t rank,
                         uint32_t *ret_holder);
int64_t dt_boxsmall_true(const BoxLens *lens, int64_t global);
int64_t dt_boxsmall_of_true(const BoxLens *lens, int64_t position);

int64_t dt_boxsmall_coordinate(const Box *b, uint32_t rank, uint32_t mesh);
uint32_t dt_boxsmall_move(const Box *b, uint32_t rank, uint32_t mesh, int64_t coordinate);
/* Whether two ranks have equal coordinates on all mesh axes but these. */
bool dt_boxsmall_together(const Box *b, uint16_t mesh, uint32_t a, uint32_t c);

/* ---- box_edge.c ---- */

/* Adds to b->places the positions at which the function may change its form. ret_again: another
 * round is needed, since an axis must be evaluated at all positions. */
bool dt_boxedge_find(Box *b, const CertProgram *program, const CertFunc *func, bool *ret_changed);

/* ---- box_draw.c ---- */

/* Collects the integers from which operands are drawn, if any. */
bool dt_boxdraw_begin(Box *b, const CertFunc *func);
/* The number of draws that are needed; ret_ties: the number of further draws with ties. */
bool dt_boxdraw_count(Box *b, const CertFunc *func, uint32_t *ret_wanted, uint32_t *ret_ties);
/* Prepares draw `number` with random numbers of this seed. dt_boxdraw_argument fills an argument;
 * ranks with the same element get equal numbers. */
void dt_boxdraw_next(Box *b, uint64_t seed, uint32_t number, bool ties);
void dt_boxdraw_argument(Box *b, uint32_t i, BoxTensor *x);
/* The integer that a float stands for in this draw. */
bool dt_boxdraw_whole(Box *b, DtResidue x, int64_t *ret_whole);

/* ---- box_run.c, box_move.c ---- */

bool dt_boxrun_func(Box *b, const CertProgram *program, const CertFunc *func, BoxTensor *const *in,
                    BoxTensor **ret_results);

/* The function of box_move.c for an op; NULL: it has none. */
typedef bool DtBoxOp(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out);
DtBoxOp *dt_boxmove_op(const CertOp *op);
/* Moves x to this type: each element comes from the rank of the group that holds it, or (reduces)
 * is reduced over the group. */
BoxTensor *dt_boxmove_to(Box *b, const CertOp *op, const BoxTensor *x, const CertType *to,
                         uint16_t mesh, bool reduces);
/* ---- box_number.c ---- */

/* Wraps an integer to the dtype. dt_boxnumber_is_odd: the residue has no second component: it is no
 * number, or a symbol. */
int64_t dt_boxnumber_wrap(const char *dtype, int64_t x);
static inline bool dt_box_is_odd(DtResidue x) { return x.q == DT_RESIDUE_NONE; }
static inline DtResidue dt_box_odd_of(DtResidue x, DtResidue y)
{
    return dt_box_is_odd(x) && (!dt_box_is_odd(y) || x.p > y.p) ? x : y;
}
typedef enum BoxReduce { BOX_SUM, BOX_MAX, BOX_MIN } BoxReduce;
BoxReduce dt_boxnumber_reduction(const char *name); /* the function that combines two elements in a
                                                     * reduction; NULL: a sum */
DtResidue dt_boxnumber_combine(const Box *b, BoxReduce reduce, const BoxShape *shape, DtResidue x,
                               DtResidue y);
/* n times x. factor: n as a float residue. */
DtResidue dt_boxnumber_times(const Box *b, const BoxShape *shape, DtResidue x, int64_t n,
                             DtResidue factor);
/* Whether some float of the first dtype is none of the second. dt_boxnumber_rounded gives the
 * rounded value. */
bool dt_boxnumber_narrows(const char *from, const char *to);
/* Rounds x to the nearest number of the float dtype. */
double dt_boxnumber_nearest(const char *dtype, double x);
/* x as an element of the shape's dtype; undefined if that is an integer and x is none. */
DtResidue dt_boxnumber_constant(const Box *b, const BoxShape *shape, double x);
DtResidue dt_boxnumber_rounded(const Box *b, const char *to, DtResidue x);
bool dt_boxnumber_is_exact(const Box *b, const CertOp *cast);
bool dt_boxnumber_is_sum(const CertOp *op);
/* Counts the roundings by op, whose result has been computed; false after a reason. as_often:
 * whether the second function rounds at most as often. */
bool dt_boxnumber_count(Box *b, const CertOp *op, BoxTensor *const *in, const BoxShape *made);
bool dt_boxnumber_as_often(Box *b);
/* Counts roundings of results of an op, or of an argument: a number with few digits that was not of
 * this dtype before counts as rounded once more. */
void dt_boxnumber_follow(const Box *b, BoxTensor *x, bool argument);
/* Counts roundings of the result of a ring call that is a sum over these mesh axes: it may travel
 * in its own dtype, and is then rounded once per hop. */
void dt_boxnumber_hop(const Box *b, BoxTensor *x, uint16_t mesh);
/* Whether the followed argument was rounded at most as often on the way to y as on the way to x. */
static inline bool dt_boxnumber_no_deeper(DtResidue x, DtResidue y)
{
    return y.depth <= 1 || y.depth <= x.depth;
}
/* x as a number of the dtype: a cast to the dtype leaves it unchanged. */
DtResidue dt_boxnumber_of_dtype(const Box *b, const char *dtype, DtResidue x);

/* ---- box_axis.c ---- */

DtBoxOp *dt_boxaxis_op(const CertOp *op);
bool dt_boxaxis_topk(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *const *out);

#endif
