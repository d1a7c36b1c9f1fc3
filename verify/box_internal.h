/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of boxes.
 *
 *   residue.c    numbers                       box_small.c  small extents, positions, mesh axes
 *                that are kept
 *   box_run.c    functions, maps, sources      box_move.c   ops that move, sum and look up elements
 *   box.c        the comparison                box_match.c  finds the boxes between two programs
 *   box_draw.c   random operands               box_axis.c   ops along a whole axis
 *   box_edge.c   positions where a function may change its form
 *   box_linear.c integers as linear functions of positions
 *   box_number.c dtypes and rounding           box_fail.c   why a box is refused */
#ifndef DT_VERIFY_BOX_INTERNAL_H
#define DT_VERIFY_BOX_INTERNAL_H

#include "verify/box.h"
#include "verify/internal.h"
#include "verify/residue.h"

enum { BOX_NAMES = 96, BOX_RANKS = 1024, BOX_DEPTH = 16 };

/* A lens: the positions that are evaluated along all axes of a name, those in `at` out of each
 * `unit` positions. Names that a relabel turns into each other share a lens. */
typedef struct BoxLens {
    const char *name;
    uint32_t of; /* index of the lens that the name shares: that of another name, or its own */
    /* unit: positions are chosen within it, and it divides the length of every block of the axis;
     * own: the unit before a common one was chosen for several axes */
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

/* An axis of an evaluated tensor. */
typedef struct BoxAxis {
    const char *name;
    const BoxLens *lens;
    /* number of evaluated elements: on one rank; on all kept ranks together */
    int64_t local, extent;
    int64_t whole;         /* extent in the program */
    uint8_t n, split[CERT_SPLIT];
    bool zigzag;
} BoxAxis;

/* The evaluated shape of a type. */
typedef struct BoxShape {
    const CertType *type;
    uint32_t rank;
    BoxAxis axes[CERT_RANK];
    /* stride: of each axis in the elements of a rank; n: elements of a rank */
    int64_t stride[CERT_RANK], n;
    uint16_t partial;             /* bit set of kept mesh axes that split it */
    bool is_float, is_bool;
    const struct BoxShape *next;
} BoxShape;

typedef struct BoxTensor {
    const BoxShape *shape;
    DtResidue *at; /* the elements, rank after rank */
} BoxTensor;

typedef struct BoxCast BoxCast;

/* Counts of roundings for elements with these axes, sorted by name and without that of a ring's
 * ranks. n: by function, how many elements it casts to fewer digits. products, sums: how many the
 * first function computes by products and sums with as few digits. n_ops: by function, how many
 * such products it has. */
typedef struct BoxRounded {
    const char *to;
    uint32_t rank;
    const char *axes[CERT_RANK];
    int64_t n[2], products, sums;
    uint32_t n_ops[2];
} BoxRounded;

/* A tensor that an op has cast in this evaluation. Its memory is not reused during the evaluation,
 * so it identifies the tensor. */
typedef struct BoxRounding {
    const CertOp *op;
    const DtResidue *at;
} BoxRounding;

/* A comparison of two functions: which ranks and positions are evaluated, and the state of the
 * evaluation (the draw) that is in progress. */
typedef struct Box {
    /* arenas: of the comparison; of one draw, an evaluation with random operands */
    DtArena *arena, *scratch;
    DtResidues *r;
    DtText *problem;
    bool large; /* the problem is that the evaluation would take too long */
    bool whole; /* all positions are evaluated */
    /* rounds: a cast to fewer digits counts as an unknown function; counts: casts are counted */
    bool rounds, counts;
    /* parts: the second function may compute in parts what the first one computes at once; few:
     * some value has few digits */
    bool parts, few;
    /* by function: it has a cast to fewer digits, or a product or sum with few digits */
    bool narrows[2];
    DT_VEC(BoxRounded) rounded; /* this and the next two lists are for the draw in progress */
    DT_VEC(const CertOp *) products; /* products with few digits */
    DT_VEC(BoxRounding) roundings;   /* tensors that the second function casts */
    DT_VEC(const CertOp *) exact; /* casts that only undo the widening by a sum of one element */
    const char *from;     /* dtype of the current op's first operand */
    uint32_t n_mesh, ranks;
    /* by mesh axis: its size in this comparison, 1 if one rank stands for all; its size in the
     * program */
    int64_t size[CERT_MESH], whole_size[CERT_MESH];
    BoxLens lenses[BOX_NAMES];
    uint32_t n_lenses;
    DT_VEC(int64_t) constants; /* integer constants of both functions */
    /* positions at which the functions may change their form (box_edge.c) */
    DT_VEC(int64_t) places;
    /* after how many positions the functions repeat their form between these positions */
    int64_t period;
    /* the functions may change their form elsewhere, too: then all positions are also evaluated, if
     * there are not too many */
    bool doubtful;
    /* compares: some float is compared; becomes_whole: some float becomes an integer */
    bool compares, becomes_whole;
    DT_VEC(const CertType *) types;
    /* operand types of ops that compare floats: each element of them is one decision */
    DT_VEC(const CertType *) decided;
    const BoxShape *shapes[64];
    int64_t left;       /* how many elements, and terms of sums, may still be computed */
    DT_VEC(const CertFunc *) funcs; /* functions whose axes were recorded */
    /* factor for the number of draws, and the number of positions along axes that no op uses; more
     * than 1 if few ranks are kept */
    uint32_t multiple;
    uint32_t depth;
    /* the names of calls around the op, which come before the sites of random numbers */
    const char *path;
    uint64_t iteration;
    /* from here on: for the draw in progress */
    DT_VEC(int64_t) integers; /* the integers from which operands are drawn */
    uint64_t seed;
    uint32_t number;
    /* some operands of the draw are constants of the functions, so that numbers are equal */
    bool ties;
    bool second; /* the second function is being evaluated */
    /* residues count how often the followed argument was rounded on its way to them */
    bool follows;
    uint32_t followed; /* number of the argument that is followed */
    /* by hash: floats that were cast to integers in this draw, with the integers */
    BoxCast **casts;
    uint32_t n_casts;
} Box;

/* Whether a constant is small enough to become a 64-bit integer without rounding. */
static inline bool dt_box_is_whole(double x) { return x >= -9e15 && x <= 9e15; }

/* Whether the op has this attribute, which takes no value. */
bool dt_box_has_flag(const CertOp *op, const char *flag);
/* Whether the op has only attributes that the evaluation knows. */
bool dt_box_knows_attributes(const CertOp *op);

/* Reports why the functions cannot be compared or are different; returns false. */
bool dt_box_fail(Box *b, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Like dt_box_fail, for evaluations that would take too long (sets b->large). */
bool dt_box_large(Box *b, const CertOp *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- box_small.c ---- */

bool dt_boxsmall_same_type(const CertType *a, const CertType *c);

/* Records the axes of a function and how its ops use them. After both functions, dt_boxsmall_decide
 * chooses the positions. False after a reason. */
bool dt_boxsmall_collect(Box *b, const CertProgram *program, const CertFunc *func);
/* Chooses the evaluated positions and the kept ranks for two recorded functions and their programs.
 * False after a reason. */
bool dt_boxsmall_decide(Box *b, const CertProgram *const *programs, const CertFunc *const *funcs);
void dt_boxsmall_constant(Box *b, int64_t x); /* records a constant that integers may be compared
                                               * with */
/* Returns the lens of the axis; NULL: no axis has this name. */
const BoxLens *dt_boxsmall_lens(const Box *b, const char *name);
const BoxShape *dt_boxsmall_shape(Box *b, const CertType *type);
/* Makes a tensor of the evaluated shape of the type; NULL after a reason: it would be too large. */
BoxTensor *dt_boxsmall_tensor(Box *b, const CertType *type);
/* Counts n more elements of `terms` terms each on every rank as work. False after a reason: there
 * is too much. */
bool dt_boxsmall_afford(Box *b, int64_t n, int64_t terms);
const BoxAxis *dt_boxsmall_axis(const BoxShape *shape, const char *name);
/* Returns the stride of the axis with that name; 0: the shape has no such axis. */
int64_t dt_boxsmall_stride(const BoxShape *shape, const char *name);

/* global: returns the evaluated position along the whole axis of element `local` of a rank. find:
 * returns the number of the element at a position on the rank that holds it, *ret_holder (its other
 * coordinates are those of `rank`). true: returns the position in the program. of_true: the
 * inverse; -1: that position is not evaluated. */
int64_t dt_boxsmall_global(const Box *b, const BoxAxis *axis, uint32_t rank, int64_t local);
int64_t dt_boxsmall_find(const Box *b, const BoxAxis *axis, int64_t global, uint32_t rank,
                         uint32_t *ret_holder);
int64_t dt_boxsmall_true(const BoxLens *lens, int64_t global);
int64_t dt_boxsmall_of_true(const BoxLens *lens, int64_t position);

int64_t dt_boxsmall_coordinate(const Box *b, uint32_t rank, uint32_t mesh);
uint32_t dt_boxsmall_move(const Box *b, uint32_t rank, uint32_t mesh, int64_t coordinate);
/* Whether two ranks have equal coordinates on all mesh axes except those in the bit set. */
bool dt_boxsmall_together(const Box *b, uint16_t mesh, uint32_t a, uint32_t c);

/* ---- box_linear.c ---- */

/* A linear function of integer variables: plus + sum of by * variable, where `var` is an index into
 * BoxVars.at. */
enum { BOX_TERMS = 6 };
typedef struct BoxLinear {
    uint32_t n;
    struct {
        uint32_t var;
        int64_t by;
    } term[BOX_TERMS];
    int64_t plus;
} BoxLinear;

/* What an integer variable is: a position along an axis; any number of lo .. lo + n - 1; the
 * quotient or the remainder (REST) of a linear function by a constant; or an integer about which
 * nothing is known. */
typedef enum BoxMade { BOX_POSITION, BOX_RANGE, BOX_QUOTIENT, BOX_REST, BOX_ANYTHING } BoxMade;

typedef struct BoxVar {
    BoxMade made;
    const char *axis; /* of a POSITION */
    int64_t lo, n;    /* of a RANGE */
    BoxLinear of;     /* of a QUOTIENT or REST: the linear function that is divided by `by` */
    int64_t by;       /* of a QUOTIENT or REST: the divisor */
    bool lens[BOX_NAMES]; /* lenses along which it contains positions */
    uint64_t axes;        /* axes along which it varies: a bit each; several axes may share one */
    double most;          /* largest absolute value; ANYTHING: any value; 0: not known */
} BoxVar;

/* The variables of a box that have been made so far. */
typedef struct BoxVars {
    Box *b;
    BoxVar **at;
    uint32_t n, cap;
} BoxVars;

/* Adds a variable, whose `most` is computed here, and returns its number. */
uint32_t dt_boxlinear_new(BoxVars *vars, BoxVar var);
/* Returns the number of the variable for the position along an axis. If all positions of the axis
 * are evaluated, the variable is a range. */
uint32_t dt_boxlinear_position(BoxVars *vars, const char *axis);
/* Whether only some positions along a lens are evaluated, and functions use them. */
bool dt_boxlinear_is_thin(const BoxLens *lens);

static inline BoxLinear dt_boxlinear_constant(int64_t x) { return (BoxLinear){.plus = x}; }
static inline BoxLinear dt_boxlinear_of(uint32_t var)
{
    return (BoxLinear){.n = 1, .term = {{var, 1}}};
}
/* Sets *ret_sum to x + by * y. False: it would have too many terms, or too large numbers. */
bool dt_boxlinear_sum(const BoxLinear *x, const BoxLinear *y, int64_t by, BoxLinear *ret_sum);
/* Returns f without that term. */
BoxLinear dt_boxlinear_without(const BoxLinear *f, uint32_t term);

/* Returns a bound of the absolute value of f. */
double dt_boxlinear_most(const BoxVars *vars, const BoxLinear *f);
/* The least and the largest value of f. False: it is not made of ranges alone, or
 * its numbers are too large. */
bool dt_boxlinear_range(const BoxVars *vars, const BoxLinear *f, int64_t *ret_lo, int64_t *ret_hi);
/* Sets lens[k] for each lens k along which f contains positions; leaves the others unchanged. */
void dt_boxlinear_depends(const BoxVars *vars, const BoxLinear *f, bool *lens);
/* Returns the axes along which f varies, as BoxVar.axes does. */
uint64_t dt_boxlinear_axes(const BoxVars *vars, const BoxLinear *f);
/* Returns the unit of the only lens on which f depends; 0: it depends on none, or on several. */
int64_t dt_boxlinear_unit(const BoxVars *vars, const BoxLinear *f);
/* Whether f modulo m wraps around at most once per block. */
bool dt_boxlinear_is_of_blocks(const BoxVars *vars, const BoxLinear *f, int64_t m);

/* ---- box_edge.c ---- */

/* Adds to b->places the positions at which the function may change its form. *ret_changed becomes
 * true if an axis must now be evaluated at all positions, so that another search is needed. False
 * after a reason. */
bool dt_boxedge_find(Box *b, const CertProgram *program, const CertFunc *func, bool *ret_changed);

/* ---- box_draw.c ---- */

/* Collects the integers from which operands are drawn, if any (b->integers). False after a
 * reason. */
bool dt_boxdraw_begin(Box *b, const CertFunc *func);
/* Sets *ret_wanted to the number of draws that are needed, and *ret_ties to the number of further
 * draws with ties (Box.ties). False after a reason. */
bool dt_boxdraw_count(Box *b, const CertFunc *func, uint32_t *ret_wanted, uint32_t *ret_ties);
/* dt_boxdraw_next begins draw `number` with random numbers of this seed. dt_boxdraw_argument fills
 * argument i; ranks with the same element get equal numbers. */
void dt_boxdraw_next(Box *b, uint64_t seed, uint32_t number, bool ties);
void dt_boxdraw_argument(Box *b, uint32_t i, BoxTensor *x);
/* Returns in *ret_whole the integer that the float x stands for in this draw. False after a
 * reason. */
bool dt_boxdraw_whole(Box *b, DtResidue x, int64_t *ret_whole);

/* ---- box_run.c, box_move.c ---- */

bool dt_boxrun_func(Box *b, const CertProgram *program, const CertFunc *func, BoxTensor *const *in,
                    BoxTensor **ret_results);

/* A handler that computes the result of an op from its operands on all ranks. False: the operands
 * do not fit the op, or there is a reason. */
typedef bool DtBoxOp(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *out);
DtBoxOp *dt_boxmove_op(const CertOp *op);
/* Returns x moved to type `to`. Each element comes from the rank of the group (ranks that differ in
 * `mesh` only) that holds it or, with reduces, is reduced over the group. NULL after a reason. */
BoxTensor *dt_boxmove_to(Box *b, const CertOp *op, const BoxTensor *x, const CertType *to,
                         uint16_t mesh, bool reduces);
/* ---- box_number.c ---- */

/* wrap: returns the integer with the low bits that the dtype keeps. is_odd: the residue has no
 * second component, so it is no number, or a symbol. */
int64_t dt_boxnumber_wrap(const char *dtype, int64_t x);
static inline bool dt_box_is_odd(DtResidue x) { return x.q == DT_RESIDUE_NONE; }
static inline DtResidue dt_box_odd_of(DtResidue x, DtResidue y)
{
    return dt_box_is_odd(x) && (!dt_box_is_odd(y) || x.p > y.p) ? x : y;
}
typedef enum BoxReduce { BOX_SUM, BOX_MAX, BOX_MIN } BoxReduce;
/* Returns the function that combines two elements in a reduction of this name; NULL: a sum. */
BoxReduce dt_boxnumber_reduction(const char *name);
DtResidue dt_boxnumber_combine(const Box *b, BoxReduce reduce, const BoxShape *shape, DtResidue x,
                               DtResidue y);
/* Returns n times x. factor: n as a float residue. */
DtResidue dt_boxnumber_times(const Box *b, const BoxShape *shape, DtResidue x, int64_t n,
                             DtResidue factor);
/* Whether the second dtype lacks some float of the first one. dt_boxnumber_rounded returns x
 * rounded to a dtype. */
bool dt_boxnumber_narrows(const char *from, const char *to);
/* Returns x rounded to the nearest number of the float dtype. */
double dt_boxnumber_nearest(const char *dtype, double x);
/* Returns x as an element of the shape's dtype; undefined if the dtype is integer and x is not
 * whole. */
DtResidue dt_boxnumber_constant(const Box *b, const BoxShape *shape, double x);
DtResidue dt_boxnumber_rounded(const Box *b, const char *to, DtResidue x);
bool dt_boxnumber_is_exact(const Box *b, const CertOp *cast);
bool dt_boxnumber_is_sum(const CertOp *op);
/* count: adds the roundings of op, whose result has been computed, to the counts. as_often: whether
 * the second function rounds at most as often as the first. False after a reason. */
bool dt_boxnumber_count(Box *b, const CertOp *op, BoxTensor *const *in, const BoxShape *made);
bool dt_boxnumber_as_often(Box *b);
/* argument: lets the elements of x be followed from here on. Otherwise x is the result of an op:
 * each element that depends on the followed argument, has few digits, and was not of this dtype
 * before, counts one more rounding. */
void dt_boxnumber_follow(const Box *b, BoxTensor *x, bool argument);
/* For the result of a ring call that is a sum over these mesh axes: counts one more rounding per
 * hop between ranks, since it may travel in its own dtype. */
void dt_boxnumber_hop(const Box *b, BoxTensor *x, uint16_t mesh);
/* Whether the followed argument was rounded at most as often on the way to y as on the way to x. */
static inline bool dt_boxnumber_no_deeper(DtResidue x, DtResidue y)
{
    return y.depth <= 1 || y.depth <= x.depth;
}
/* Returns x as a number of the dtype, which a cast to the dtype leaves unchanged. */
DtResidue dt_boxnumber_of_dtype(const Box *b, const char *dtype, DtResidue x);

/* ---- box_axis.c ---- */

DtBoxOp *dt_boxaxis_op(const CertOp *op);
bool dt_boxaxis_topk(Box *b, const CertOp *op, BoxTensor *const *in, BoxTensor *const *out);

#endif
