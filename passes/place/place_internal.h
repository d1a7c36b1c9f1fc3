/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of placement share; place.c has the overview.
 *
 *   place.c          entries, functions, loops, calls, results
 *   place_rule.c     the `shard` lines: the rule placement of a value
 *   place_lazy.c     sums that may stay pending; sums over micro-batches
 *   place_choose.c   the placements that an op needs for its operands
 *   place_convert.c  converts a value from one placement to another
 *   place_ring.c     calls of attention as rings
 *   place_ringless.c why a line with `ring` made no ring
 *   place_relay.c    loops over blocks that ranks share
 *   place_halo.c     windows over a split axis
 *   place_refuse.c   diagnostics for layouts that are impossible
 *   place_lint.c     lints for communication that a line causes without need */
#ifndef DT_PASSES_PLACE_INTERNAL_H
#define DT_PASSES_PLACE_INTERNAL_H

#include "passes/passes.h"

/* Why the first call that could use a line with `ring` does not become a ring (of ranks that pass
 * keys on to each other). It is recorded before the call's operands are placed. */
typedef struct DtPlaceRingless {
    const char *axis; /* the axis of the line that the call streams over; NULL: no call does */
    const char *func; /* name of the called function */
    int64_t extent, physical; /* of the axis: its extent, and that with padding (0: it has no
                               * padding) */
    const char *queries;      /* an axis of queries and results that keys lack; or NULL */
    uint16_t queries_on;      /* the mesh axes that split `queries` */
    const char *taken_by;     /* another axis of the keys, split over one of the line; or NULL */
    uint8_t taken;            /* the mesh axis of the line that splits `taken_by` */
} DtPlaceRingless;

/* A `shard` line with mesh axes as numbers. The line for `micro` is the first one. */
typedef struct DtPlaceLine {
    const char *place[8];
    uint32_t n_place; /* 0: the line names no place and holds for all values */
    const char *axes[16];
    uint32_t n_axes;
    uint8_t mesh[DT_MAX_SPLIT];
    uint32_t n_mesh;
    DtSpan span;
    bool is_used;  /* a value at its place has one of its axes */
    bool gives;    /* this line, and no earlier one, gave such an axis a mesh axis */
    bool zigzag;   /* its splits use zigzag order */
    bool ring;     /* calls of `attend` become rings over its axes instead of gathers */
    bool has_rung; /* some call became a ring */
    DtPlaceRingless ringless;
    const char *overflows; /* an axis that more mesh axes would split than is possible; or NULL */
} DtPlaceLine;

/* What placement knows about a value of the function being built. All copies of one value, in
 * several placements, are linked in a circle; they have the same meaning. */
typedef struct DtPlaceInfo {
    DtValue *next;       /* next copy in the circle; itself if there is none */
    const DtType *bound; /* the rule placement from a line with a place, or NULL */
    bool is_free;        /* made of constants and positions: any placement costs nothing */
    uint8_t made_of;     /* what it depends on: OF_MORE, OF_SUMS or OF_DATA of place_lazy.c */
    DtValue *clone;      /* the same value in the prologue, or NULL */
} DtPlaceInfo;

typedef struct DtPlaceKnown {
    const DtValue *from;
    DtValue *to;
} DtPlaceKnown;

/* A version of a called function, placed for these types of its operands. */
typedef struct DtPlaceMade {
    const DtFunc *from;
    const DtType **types;
    bool is_ring;
    DtFunc *to;
} DtPlaceMade;

typedef struct DtPlacer {
    DtModule *module;
    const DtPassContext *context;
    /* the program's lines, then those derived for axes that were split or merged from others */
    DT_VEC(DtPlaceLine) lines;
    uint32_t n_written;          /* how many lines the program has */
    double seconds[DT_MAX_MESH]; /* seconds per byte that a rank receives over each mesh axis */
    uint16_t time;               /* bit of the time axis of micro-batches; 0: there is only one
                                  * micro-batch */
    bool failed;
    DtFunc *top; /* the copy of the entry being placed */
    bool lazy;   /* all sums in `top` may stay pending and all gathers are allowed: for updates */
    /* The part of `top` that depends on the data alone and runs before the first micro-batch; or
     * NULL. completed: pending values of top -> the inputs of top that hold their completed
     * sums. more: prologues of finished entries. */
    DtFunc *prologue;
    DT_VEC(DtPlaceKnown) completed;
    DT_VEC(DtEntryPoint) more;
    DT_VEC(DtPlaceMade) made;
} DtPlacer;

/* The arguments of a library function. Axes that the function makes itself are split like axes of
 * the same name in these. */
typedef struct DtPlaceLike {
    const DtType *const *types;
    uint32_t n;
} DtPlaceLike;

/* A function whose ops are being placed. */
typedef struct DtPlaceScope {
    DtPlacer *p;
    const DtPlaceLike *like; /* set in a library function, otherwise NULL */
    /* the function of a ring: the ring completes sums over its mesh axes */
    bool is_ring;
    DtBuilder b;
    DT_VEC(DtPlaceInfo) info; /* by id of the new values */
    uint32_t n_looked;        /* number of new ops whose made_of is known */
    const bool *lazy;         /* by id of the old values */
    const uint32_t *uses;     /* by id of the old values: how often they are read */
    const char *place;        /* the labels of enclosing loops; "" outside of loops */
    const char *why;          /* the reason that messages give for the next conversion */
    const DtOp *op;           /* the op being placed */
} DtPlaceScope;

/* A call that becomes a ring over the mesh axes of these bits; types: operands' types in the
 * function. */
typedef struct DtPlaceRing {
    const char *axis;
    uint16_t mesh;
    const DtType **types;
} DtPlaceRing;

/* ---- place_rule.c ---- */

/* Reads the program's lines: fills lines and seconds, and the module's mesh. False after a
 * diagnostic that says what is not supported. */
bool dt_placerule_read(DtPlacer *p, const DtParallelConfig *config);

/* The type with the splits that the lines give it, instead of its own. place: the name of the
 * argument or result, a parameter's path, or NULL. The first n_loops axes stay whole. */
const DtType *dt_placerule_of(const DtPlacer *p, const DtType *type, const char *place,
                              uint32_t n_loops);

/* Checks that lines give no axis more mesh axes than can split it; false after a diagnostic. */
bool dt_placerule_check_fits(DtPlacer *p);

/* Reports a lint for each line with a place that matched no value. */
void dt_placerule_check_used(const DtPlacer *p);

/* Whether some line that names a place (an argument, result or parameter) holds for this place. */
bool dt_placerule_is_limited(const DtPlacer *p, const char *place);

/* The preferred type of result i of op, if its operands have these types: the order of its axes,
 * and the splits of axes that no operand has. */
const DtType *dt_placerule_wish(const DtPlacer *p, const DtOp *op, uint32_t i,
                                const DtType *const *in);

/* Whether the axis, which no line names, is split by mesh axis m because it was split or merged
 * from an axis that is. */
bool dt_placerule_is_inherited(const DtPlacer *p, const char *axis, uint32_t m);

/* Lets the new axes of a relabel take over the splits of the axes from which they were split or
 * merged, unless a line names them. */
void dt_placerule_learn(DtPlacer *p, const DtOp *op, const DtType *type);

/* ---- states of a type on one mesh axis ---- */

enum {
    DT_PLACE_WHOLE = -1,
    DT_PLACE_PENDING = -2
}; /* a state that is none of these is the number of the axis that the mesh axis splits */

int dt_placerule_state(const DtType *type, uint32_t m);
uint16_t dt_placerule_bits(const DtType *type); /* bits of the mesh axes that split the type */
/* the type with splits and sums over mesh axis m only */
const DtType *dt_placerule_project(const DtType *type, uint32_t m);
/* the type with this state on mesh axis m */
const DtType *dt_placerule_with(const DtPlacer *p, const DtType *type, uint32_t m, int state);
/* Whether the lines split the axis by m in zigzag order. */
bool dt_placerule_is_zigzag(const DtPlacer *p, const char *axis, uint32_t m);
/* the type with plain splits in place of zigzag ones: stores have no zigzag splits */
const DtType *dt_placerule_stored(const DtPlacer *p, const DtType *type);
/* Whether mesh axis m can split axis number a of type in addition to the present splits. */
bool dt_placerule_divides(const DtPlacer *p, const DtType *type, uint32_t a, uint32_t m);

/* ---- place_lazy.c ---- */

/* By value id of func: whether a sum in the value may stay pending, because only linear ops read
 * it on the way to results that may be pending (results[i]). */
bool *dt_placelazy_of(const DtFunc *func, const bool *results, DtArena *arena);

/* Turns x, which is whole over these mesh axes, into a pending sum: x on the first rank, zero
 * elsewhere. */
DtValue *dt_placelazy_keep_first(DtPlaceScope *s, DtValue *x, uint16_t bits);

/* The complete value of x, which is pending over time; NULL after a diagnostic that says why
 * there is none. */
DtValue *dt_placelazy_before_all(DtPlaceScope *s, DtValue *x, const DtOp *user);

/* For operands computed from data alone, some of them completed by the prologue and others pending
 * over time: lets the prologue complete the latter as well. Their combination (a variance, say)
 * could not be completed later. */
void dt_placelazy_meet_sums(DtPlaceScope *s, DtValue **in, uint32_t n);

/* Makes the prologue of the entry that was just placed an entry of its own, "grad.prologue",
 * whose results are the inputs of the same names. */
void dt_placelazy_finish(DtPlacer *p, const DtEntryPoint *of);

/* ---- place_ring.c ---- */

/* Finds whether the call, whose operands are wanted in these placements, becomes a ring by some
 * line (ret_ring; its axis is NULL if not). If so, changes `wanted` for operands that travel around
 * the ring. False after a diagnostic. */
bool dt_placering_find(DtPlaceScope *s, const DtOp *op, DtValue *const *in, const DtType **wanted,
                       DtPlaceRing *ret_ring);

/* The axis that mesh axis m splits in the queries, if some line makes keys travel over m; or
 * NULL. */
const char *dt_placering_queries(const DtPlacer *p, const DtOp *op, DtValue *const *in, uint32_t m);

/* ---- place_ringless.c ---- */

/* Records for each line with `ring` the first call that could use it, and why it could not, before
 * the call's operands are placed. */
void dt_placeringless_note(DtPlaceScope *s, const DtOp *op, DtValue *const *in);

/* Reports a lint for each line with `ring` that no call uses, with the cause and a fix. */
void dt_placeringless_check(const DtPlacer *p);

/* ---- place_relay.c ---- */

/* Returns the mesh axes over which the loop becomes a relay, in which each rank runs its own
 * iterations after those of the rank before; 0: none. Converts the loop's stacked operands to the
 * ranks' blocks then. */
uint16_t dt_placerelay_find(DtPlaceScope *s, const DtOp *op, DtValue **in);
/* Builds the relay over `mesh` that replaces the loop op. Its results are those of op, without
 * values for results that no op reads. */
DtOp *dt_placerelay_make(DtPlaceScope *s, const DtOp *op, DtFunc *body, uint16_t mesh,
                         DtValue *const *in);

/* ---- place_convert.c ---- */

/* Whether the axis counts the blocks of a scan. Ranks only exchange the parts of blocks, so such a
 * gather is allowed. */
bool dt_placeconvert_are_parts(const char *axis);

DtPlaceInfo *dt_placeconvert_info(DtPlaceScope *s, const DtValue *value);
/* The name in op's first operand of an axis of its result, if op expands or renames; NULL: the axis
 * is new. */
const char *dt_placeconvert_name_before(const DtOp *op, const char *axis);
/* Seconds to convert value, or one of its copies, to this state on mesh axis m. */
double dt_placeconvert_cost(DtPlaceScope *s, const DtValue *value, uint32_t m, int state);
/* value in this placement; value itself if it has it already */
DtValue *dt_placeconvert_to(DtPlaceScope *s, DtValue *value, const DtType *type);
/* The type to which a value is converted once its sum is complete: its rule placement. */
const DtType *dt_placeconvert_rule(DtPlaceScope *s, const DtValue *value);

/* ---- place_choose.c ---- */

/* Converts operands until the op's local rule accepts them; false after a diagnostic. ret_ring:
 * the ring that the call becomes (axis NULL: none); operands that travel then stay in their
 * blocks. */
bool dt_placechoose_operands(DtPlaceScope *s, const DtOp *op, DtValue **in, DtPlaceRing *ret_ring);

/* Returns why the op's rule refuses operands of these types, or NULL and its result types. */
const char *dt_placechoose_derive(const DtPlaceScope *s, const DtOp *op, const DtType *const *in,
                                  const DtType **ret_out);

/* The preferred type of result i of op: by the lines (dt_placerule_wish), or in a library function
 * by the splits of its arguments. */
const DtType *dt_placechoose_wish(const DtPlacer *p, const DtPlaceLike *like, const DtOp *op,
                                  uint32_t i, const DtType *const *in);

/* ---- place_halo.c ---- */

/* Whether op is a window or fold along a split axis of its operand x. */
bool dt_placehalo_is(const DtOp *op, const DtType *x);
/* The type of the op's operand with that axis whole. */
const DtType *dt_placehalo_whole(const DtOp *op, const DtType *x);
/* Derives the result's type for the split operand, given in `out` the one for the whole operand.
 * Returns why ranks cannot exchange halos, or NULL. */
const char *dt_placehalo_derive(const DtPlacer *p, const DtOp *op, const DtType *x,
                                const DtType **out);
/* Builds the ops by which ranks compute op on the split x; returns the last one. */
DtOp *dt_placehalo_make(DtPlaceScope *s, const DtOp *op, DtValue *x);
/* False after a diagnostic if a window's operand would be gathered (before -> after) although
 * its result is to be split. */
bool dt_placehalo_check(DtPlaceScope *s, const DtOp *op, const DtType *before, const DtType *after);

/* ---- place_refuse.c ---- */

/* Reports that placement fails, for this reason, and returns the diagnostic for notes. */
DtDiag *dt_placerefuse_at(DtPlacer *p, DtDiagCode code, DtSpan span, const char *reason);
/* Adds a label at the call of the library function that has op. */
void dt_placerefuse_call(DtDiag *diag, const DtOp *op);
/* Reports E0590 for a loop along the axis that `micro` splits; returns false. */
bool dt_placerefuse_samples(DtPlacer *p, const DtOp *op);

/* ---- place_lint.c ---- */

/* Reports lints on the placed program: exchanges that another layout would save. */
void dt_placelint_check(const DtPlacer *p);

#endif
