/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of placement share; place.c tells the story.
 *
 *   place.c          entries, functions, loops, calls, results
 *   place_rule.c     the `shard` lines: the rule placement of a value
 *   place_lazy.c     sums that nothing waits for; sums over micro-batches
 *   place_choose.c   what an op wants of its operands
 *   place_convert.c  from one placement of a value to another
 *   place_ring.c     calls of attention whose keys travel
 *   place_relay.c    loops over blocks that ranks share
 *   place_halo.c     windows over a split axis
 *   place_refuse.c   what is said of a layout that cannot be
 *   place_lint.c     what the lines cost without need */
#ifndef DT_PASSES_PLACE_INTERNAL_H
#define DT_PASSES_PLACE_INTERNAL_H

#include "passes/passes.h"

/* A `shard` line with its mesh axes as numbers; `micro` is the first one. */
typedef struct DtPlaceLine {
    const char *place[8];
    uint32_t n_place; /* 0: general */
    const char *axes[16];
    uint32_t n_axes;
    uint8_t mesh[DT_MAX_SPLIT];
    uint32_t n_mesh;
    DtSpan span;
    bool is_used;  /* some value of its place has one of its axes */
    bool gives;    /* and got a mesh axis by this line, from no earlier one */
    bool zigzag;   /* its splits are in zigzag order */
    bool ring;     /* calls of `attend` pass blocks of its axes on instead of gathering them */
    bool has_rung; /* some call does */
    const char *overflows; /* an axis that more mesh axes would split than can; or NULL */
} DtPlaceLine;

/* What is known of a value of the function being made. Copies of one value in several placements
 * form a ring; they mean the same. */
typedef struct DtPlaceInfo {
    DtValue *next;       /* in the ring; itself if alone */
    const DtType *bound; /* the rule placement that a limited line gives it, or NULL */
    bool is_free;        /* made of constants and positions: any placement costs nothing */
    uint8_t made_of;     /* see place_lazy.c */
    DtValue *clone;      /* its copy in the prologue; or NULL */
} DtPlaceInfo;

typedef struct DtPlaceKnown {
    const DtValue *from;
    DtValue *to;
} DtPlaceKnown;

/* A call's function for these types of its operands. */
typedef struct DtPlaceMade {
    const DtFunc *from;
    const DtType **types;
    bool is_ring;
    DtFunc *to;
} DtPlaceMade;

typedef struct DtPlacer {
    DtModule *module;
    const DtPassContext *context;
    DT_VEC(DtPlaceLine) lines;   /* the program's, then those learned from splits and merges */
    uint32_t n_written;          /* how many are the program's */
    double seconds[DT_MAX_MESH]; /* per byte received over each mesh axis */
    uint16_t time;               /* bit of the time axis, 0 if there is one micro-batch */
    bool failed;
    DtFunc *top; /* the copy of the entry being placed */
    bool lazy;   /* in it all sums may wait, and all gathers are asked for (update) */
    /* What the data of top alone decide, before the first micro-batch; or NULL. completed: pending
     * values of top -> the inputs of top that hold them complete. more: prologues of finished
     * entries. */
    DtFunc *prologue;
    DT_VEC(DtPlaceKnown) completed;
    DT_VEC(DtEntryPoint) more;
    DT_VEC(DtPlaceMade) made;
} DtPlacer;

/* The arguments of a library function: its new axes are split as theirs are. */
typedef struct DtPlaceLike {
    const DtType *const *types;
    uint32_t n;
} DtPlaceLike;

/* A function being made. */
typedef struct DtPlaceScope {
    DtPlacer *p;
    const DtPlaceLike *like; /* of a library function, otherwise NULL */
    bool is_ring;            /* of one whose keys travel: sums over them are the ring's to complete */
    DtBuilder b;
    DT_VEC(DtPlaceInfo) info; /* by id of the new values */
    uint32_t n_looked;        /* of the new ops: those of which made_of is known */
    const bool *lazy;         /* by id of the old values */
    const uint32_t *uses;     /* the same: how often they are read */
    const char *place;        /* labels of the loops around, "" outside */
    const char *why;          /* what the next conversion is for */
    const DtOp *op;           /* being placed */
} DtPlaceScope;

/* A call whose keys travel over the mesh axes of these bits; types: of the operands that the function takes. */
typedef struct DtPlaceRing {
    const char *axis;
    uint16_t mesh;
    const DtType **types;
} DtPlaceRing;

/* ---- place_rule.c ---- */

/* Fills lines and seconds, and the module's mesh; false after a diagnostic that says what is not
 * supported. */
bool dt_placerule_read(DtPlacer *p, const DtParallelConfig *config);

/* type with the splits that the lines give it; those that it has are dropped. place: where it is
 * an argument or result, a parameter's path, or NULL. The first n_loops axes stay whole. */
const DtType *dt_placerule_of(const DtPlacer *p, const DtType *type, const char *place,
                              uint32_t n_loops);

/* False after a diagnostic if a line gives an axis more mesh axes than can split one. */
bool dt_placerule_check_fits(DtPlacer *p);

/* A lint for each limited line that found no value to hold for. */
void dt_placerule_check_used(const DtPlacer *p);

/* Whether a limited line holds at this place. */
bool dt_placerule_is_limited(const DtPlacer *p, const char *place);

/* The wanted type of result i of op, given its operands' types: the order of its axes, and splits
 * of the axes that no operand has. */
const DtType *dt_placerule_wish(const DtPlacer *p, const DtOp *op, uint32_t i,
                                const DtType *const *in);

/* Whether the axis, which no line names, is split by mesh axis m because of what it was made of. */
bool dt_placerule_is_inherited(const DtPlacer *p, const char *axis, uint32_t m);

/* New axes that a split or merge made of split ones keep their splits, unless a line names them. */
void dt_placerule_learn(DtPlacer *p, const DtOp *op, const DtType *type);

/* ---- states of a type on one mesh axis ---- */

enum {
    DT_PLACE_WHOLE = -1,
    DT_PLACE_PENDING = -2
}; /* otherwise the number of the axis that it splits */

int dt_placerule_state(const DtType *type, uint32_t m);
uint16_t dt_placerule_bits(const DtType *type); /* the mesh axes that split it */
/* type with only mesh axis m in use. */
const DtType *dt_placerule_project(const DtType *type, uint32_t m);
/* type in that state on mesh axis m; the others as they are. */
const DtType *dt_placerule_with(const DtPlacer *p, const DtType *type, uint32_t m, int state);
/* Whether the lines split the axis by m in zigzag order. */
bool dt_placerule_is_zigzag(const DtPlacer *p, const char *axis, uint32_t m);
/* type without the splits in zigzag order, which stores do not have. */
const DtType *dt_placerule_stored(const DtPlacer *p, const DtType *type);
/* Whether axis number a of type can be split by m besides what splits it already. */
bool dt_placerule_divides(const DtPlacer *p, const DtType *type, uint32_t a, uint32_t m);

/* ---- place_lazy.c ---- */

/* For each value of func, whether a sum in it may stay pending because it flows, through linear
 * ops only, into results that may (results[i]). By id. */
bool *dt_placelazy_of(const DtFunc *func, const bool *results, DtArena *arena);

/* x, which is whole over these mesh axes, as a sum pending over them: x on the first rank, zero
 * elsewhere. */
DtValue *dt_placelazy_keep_first(DtPlaceScope *s, DtValue *x, uint16_t bits);

/* x, pending over time, complete; NULL after a diagnostic that says why it cannot be. */
DtValue *dt_placelazy_before_all(DtPlaceScope *s, DtValue *x, const DtOp *user);

/* Where operands are made of the data alone, some of sums that the prologue has left and some pending over time, the
 * prologue completes these, too: what both make could not be completed later, and may have to be (a variance). */
void dt_placelazy_meet_sums(DtPlaceScope *s, DtValue **in, uint32_t n);

/* The prologue of the entry just placed becomes an entry of its own, "grad.prologue", whose
 * results are the inputs of the same names. */
void dt_placelazy_finish(DtPlacer *p, const DtEntryPoint *of);

/* ---- place_ring.c ---- */

/* Whether the call, whose operands are wanted in these placements, can be a ring by some line; then wanted is
 * changed for those that travel. False after a diagnostic. */
bool dt_placering_find(DtPlaceScope *s, const DtOp *op, DtValue *const *in, const DtType **wanted,
                       DtPlaceRing *ret_ring);

/* The axis that mesh axis m splits in the queries, where some line makes keys travel over m; or NULL. */
const char *dt_placering_queries(const DtPlacer *p, const DtOp *op, DtValue *const *in, uint32_t m);

/* A lint for each line with `ring` by which no call is one. */
void dt_placering_check_used(const DtPlacer *p);

/* ---- place_relay.c ---- */

/* The mesh axes over which the loop is to be a relay, 0: none; then what is stacked is put into the ranks' blocks. */
uint16_t dt_placerelay_find(DtPlaceScope *s, const DtOp *op, DtValue **in);
/* The loop as a relay over mesh; its results are those of op, but for what nobody reads. */
DtOp *dt_placerelay_make(DtPlaceScope *s, const DtOp *op, DtFunc *body, uint16_t mesh, DtValue *const *in);

/* ---- place_convert.c ---- */

/* Whether the axis is one of a scan's blocks: their parts are all that ranks tell each other, which the function asks
 * for. */
bool dt_placeconvert_are_parts(const char *axis);

DtPlaceInfo *dt_placeconvert_info(DtPlaceScope *s, const DtValue *value);
/* The name that the first operand of an op, an expansion or a renaming say, has for an axis of the result; NULL: a new
 * axis. */
const char *dt_placeconvert_name_before(const DtOp *op, const char *axis);
/* Seconds to get value, or one of its copies, into this state on mesh axis m. */
double dt_placeconvert_cost(DtPlaceScope *s, const DtValue *value, uint32_t m, int state);
/* value in this placement; the same value if it has it. */
DtValue *dt_placeconvert_to(DtPlaceScope *s, DtValue *value, const DtType *type);
/* The placement that value has once it is complete. */
const DtType *dt_placeconvert_rule(DtPlaceScope *s, const DtValue *value);

/* ---- place_choose.c ---- */

/* Converts operands until the op's local rule accepts them; false after a diagnostic. ret_ring: the ring that
 * the call is to be, axis NULL if none: then operands that travel stay in their blocks. */
bool dt_placechoose_operands(DtPlaceScope *s, const DtOp *op, DtValue **in, DtPlaceRing *ret_ring);

/* Why the op is refused in this scope on operands of these types, or NULL and its result types. */
const char *dt_placechoose_derive(const DtPlaceScope *s, const DtOp *op, const DtType *const *in,
                                  const DtType **ret_out);

/* The wanted type of result i of op: by the rules (dt_placerule_wish), or as in the library function `like` is of. */
const DtType *dt_placechoose_wish(const DtPlacer *p, const DtPlaceLike *like, const DtOp *op, uint32_t i,
                                  const DtType *const *in);

/* ---- place_halo.c ---- */

/* Whether op is a window or fold along an axis that its operand, x, has split. */
bool dt_placehalo_is(const DtOp *op, const DtType *x);
/* Its operand's type with that axis whole, */
const DtType *dt_placehalo_whole(const DtOp *op, const DtType *x);
/* and from the result's type for that the one for x; or why ranks cannot exchange halos. */
const char *dt_placehalo_derive(const DtPlacer *p, const DtOp *op, const DtType *x,
                                const DtType **out);
/* The ops that compute op on x; the last of them. */
DtOp *dt_placehalo_make(DtPlaceScope *s, const DtOp *op, DtValue *x);
/* False after a diagnostic if a window's operand would be gathered (before -> after) though its
 * result is to be split. */
bool dt_placehalo_check(DtPlaceScope *s, const DtOp *op, const DtType *before, const DtType *after);

/* ---- place_refuse.c ---- */

/* Placement has failed, for this reason. */
DtDiag *dt_placerefuse_at(DtPlacer *p, DtDiagCode code, DtSpan span, const char *reason);
/* A label where the function of a library that op stands in is called. */
void dt_placerefuse_call(DtDiag *diag, const DtOp *op);
/* E0590 of a loop along what `micro` cuts; false. */
bool dt_placerefuse_samples(DtPlacer *p, const DtOp *op);

/* ---- place_lint.c ---- */

/* Lints on the placed program. */
void dt_placelint_check(const DtPlacer *p);

#endif
