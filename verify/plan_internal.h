/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside the plan certificate.
 *
 *   plan.c        entries, results                plan_store.c  records of stores
 *   plan_place.c  addresses, views, overlaps
 *   plan_walk.c   schedules, frames, loops        plan_inst.c   one instruction
 *   plan_comm.c   collectives                     plan_tile.c   attention in blocks
 *   plan_ahead.c  gathers ahead of their iterations
 *   plan_mask.c   what a mask hides from them
 *   plan_memory.c what memory holds: which regions may be near a place
 *   plan_pipe.c   pieces, slots, sums over stages
 *   plan_run.c    all stages' schedules, channels
 *   plan_facts.c  what records say of training, data, initial values */
#ifndef DT_VERIFY_PLAN_INTERNAL_H
#define DT_VERIFY_PLAN_INTERNAL_H

#include "plan/notes.h"
#include "verify/internal.h"
#include "verify/plan.h"

#define PLAN_BYTES (INT64_C(1) << 48) /* more than any memory has */

/* Memory of a rank: an address that is affine in registers and device coordinates, and how a tensor lies there. */
typedef struct PlanPlace {
    uint32_t arena;
    int64_t base, reg[DT_PLAN_ARG_REGS], coord[CERT_MESH]; /* bytes */
    int64_t bytes, size;                                   /* in all; of an element */
    const char *dtype;
    uint32_t rank;
    const char *axis[CERT_RANK];
    int64_t extent[CERT_RANK], stride[CERT_RANK]; /* local; elements */
} PlanPlace;

/* An index along which up to three tensors are walked: steps in elements. */
typedef struct PlanIndex {
    int64_t extent, step[3];
} PlanIndex;

typedef enum PlanRegionKind {
    PLAN_VALUE,
    PLAN_ADDED,
    PLAN_ZERO,
    PLAN_STORE,
    PLAN_INPUT
} PlanRegionKind;

/* What is not zero any more in memory that was zeroed. */
typedef struct PlanHole {
    PlanPlace place;
    struct PlanHole *next;
} PlanHole;

/* What memory holds: a value; a sum that a value is added to; zeros; a store or input as the entry found it. */
typedef struct PlanRegion {
    PlanRegionKind kind;
    PlanPlace place;
    bool alive;
    uint32_t depth;          /* loops that were open when it was written */
    uint32_t summed;         /* device axes over which SUM completed it */
    uint64_t met;            /* the last search that came by */
    int64_t id;              /* STORE: number in the text */
    const char *name;        /* INPUT */
    PlanHole *holes;         /* ZERO */
    struct PlanRegion *next; /* of the same value or store, or of another input */
    struct PlanRegion *const *of; /* the list of the value that it is of; NULL: none */
} PlanRegion;

typedef DT_VEC(PlanRegion *) PlanList;

/* The regions of an arena by cells of 2^shift bytes, and those that may be anywhere. */
typedef struct PlanCells {
    uint32_t shift, most; /* regions, when the cells are made anew */
    PlanList *cell, everywhere;
} PlanCells;

typedef enum PlanFrameKind { PLAN_ENTRY, PLAN_CALL, PLAN_BODY, PLAN_AHEAD } PlanFrameKind;

/* A function that is being walked. */
typedef struct PlanFrame {
    PlanFrameKind kind;
    struct PlanFrame *outer;
    const CertFunc *func;
    const CertOp *op;       /* CALL, BODY: in outer */
    const CertEntry *entry; /* ENTRY */
    const CertOp **maker;   /* by value; NULL: an input */
    uint8_t *made_anew;     /* by value, what dt_certplan_is_inline found: 0 nothing yet, 1 no, 2 yes */
    PlanRegion **regions;   /* by value */
    bool *done;             /* by value: the op was done */
    PlanRegion **carried;   /* BODY, by number: first value, then where it lies */
    PlanPlace *slots;       /* ENTRY, by result: the place that the note gives, if */
    bool *has_slot, finished;
    uint32_t reg; /* BODY: its register; AHEAD: the one that its iteration moves with, 0: with none */
    struct PlanFrame *back; /* AHEAD: where it was met */
    int64_t number;         /* AHEAD: as the note has it */
    int64_t sign, shift;    /* slices of stacked inputs are number sign * register + shift */
    uint32_t depth;
} PlanFrame;

typedef struct PlanFound {
    PlanPlace place;
    bool added;
    uint32_t summed;
} PlanFound;

/* Places of one value; more than a few of them lie in the walk's scratch memory. Not to be copied. */
typedef struct PlanFinds {
    uint32_t n, cap;
    PlanFound *at, few[8];
} PlanFinds;

/* Where entries keep what others read by name. */
struct PlanNamed {
    const char *name;
    uint32_t stage;
    PlanPlace place;
    struct PlanNamed *next;
};

typedef struct PlanMask { /* of attention: where(value, scores, -inf) */
    uint32_t value;
    const struct Where *where;         /* the functions around it */
    uint16_t axes;                     /* mesh axes that it depends on; and loops, by register */
    const CertLoop *loops[DT_PLAN_REGS];
    int64_t coord[CERT_MESH], reg[DT_PLAN_REGS]; /* the point that is looked at */
    uint32_t visits;                   /* of values, for this part of it */
    int64_t n;                         /* points */
    bool *hidden;                      /* by point, half of queries and half of keys: none is seen but the first key */
    int64_t *next;                     /* by point: the first query that no block has covered there */
} PlanMask;

typedef struct PlanTiles { /* attention in blocks */
    bool open;
    uint32_t n_loops, n_open, regs[4], n_outputs;
    const char *loops[4], *queries, *keys;
    int64_t counts[4], n_queries, n_keys, at, rows, width;
    bool causal;
    uint32_t output[8];
    PlanPlace place[8];
    uint32_t flags[8];
    bool placed[8];
    uint32_t wrote[8];     /* the last block that did */
    uint32_t *mark, block; /* by value: 1 + the last block that made it */
    PlanMask mask;         /* if causal: blocks may leave out what it hides */
    uint32_t guarded, n_guards; /* the last block with a first instruction, and the guards of that */
    const DtPlanArg *guards;
} PlanTiles;

/* Where iterations of a loop have what they gather ahead: in the slot that the ring's register says. */
typedef struct PlanKept {
    const CertOp *loop;
    DT_VEC(uint32_t) values;
    DT_VEC(PlanPlace) places;
} PlanKept;

/* What a piece of a pipeline has of a ring that others have too. */
typedef struct PlanShare {
    const CertOp *finds, *leaves; /* loops whose first iterations are there, when it begins and has ended; NULL: none */
    int64_t depth, step;          /* slots, and bytes from one to the next */
    PlanPlace slots;              /* all of them */
    DT_VEC(PlanKept *) kept;
} PlanShare;

typedef struct PlanWalk PlanWalk;
struct PlanWalk {
    DtArena *arena, *scratch; /* scratch: of the present plan entry */
    const DtPlan *plan;
    const CertProgram *program;
    DtText *problem;
    uint32_t first_device; /* mesh axes of the text before this are time */
    uint32_t stage;
    const DtPlanEntry *at_entry;
    const uint8_t *note, *end; /* what is left of the notes */
    PlanList memory[DT_ARENA_KINDS + DT_PLAN_N_SLOTS];
    PlanCells *cells[DT_ARENA_KINDS + DT_PLAN_N_SLOTS]; /* NULL: its regions are few */
    PlanList near;               /* what the last search found */
    uint64_t meeting;            /* its number */
    PlanFrame *frame;
    DT_VEC(PlanFrame *) entries; /* ENTRY frames of this plan entry */
    uint32_t depth;              /* loops open */
    uint32_t actions;            /* and those over actions of a pipeline, of which plan_pipe.c knows every turn */
    int64_t count[DT_PLAN_REGS]; /* of open loops; slots: how many */
    uint32_t open[DT_PLAN_REGS]; /* the depth inside of its loop; 0: it is closed */
    const CertOp *carry_op;      /* the loop whose carried values get their first ones */
    DT_VEC(PlanRegion *) carried;
    bool carries; /* the next instruction makes one */
    PlanTiles tiles;
    const DtPlanInst *inst;
    PlanPlace *stores;  /* by number in the text; bytes 0: none on this stage */
    bool *has_record; /* by record of a store: some stage's store has it */
    bool *is_result;  /* by number, in this plan entry */
    PlanRegion **of_store, *inputs; /* in this plan entry, also those that are gone: by number; all of them */
    PlanRegion *regions,
        **kept; /* stores of the stage as an entry finds them: by number; by address */
    uint32_t n_kept;
    PlanRegion **guarded; /* by metric: of other pieces, in the entry of one */
    DtCertSpan *spans;       /* by instruction; may be NULL */
    uint32_t *seen;          /* by entry of the program: how often it is in the plan */
    uint32_t *walked;        /* by first item: 1 + the last entry that begins there */
    bool moves, *moving;     /* an address depends on the stage: in this plan entry; by entry */
    uint32_t alike_from;     /* from this stage on, there are the same stores at the same places */
    struct PlanNamed *named; /* results that later entries read */
    struct PlanPipe *pipe;
    struct PlanRing *ring;
};

/* plan_walk.c */
bool dt_certplan_fail(PlanWalk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t dt_certplan_word(PlanWalk *walk);
int64_t dt_certplan_signed(PlanWalk *walk);
DtNoteKind dt_certplan_note(PlanWalk *walk, DtNoteKind only);
PlanFrame *dt_certplan_push(PlanWalk *walk, PlanFrameKind kind, const CertFunc *func,
                            const CertOp *op);
uint32_t dt_certplan_end(const DtPlan *plan, uint32_t loop); /* its END item */
bool dt_certplan_walk(PlanWalk *walk, const DtPlanEntry *entry, const DtPlanNote *notes);
/* What instructions between two items write, for all values of the registers of loops between them. */
typedef bool PlanEach(PlanWalk *walk, const PlanPlace *written, const void *data);
bool dt_certplan_each_write(PlanWalk *walk, uint32_t from, uint32_t to, PlanEach *each, const void *data);
const CertType *dt_certplan_type(const PlanFrame *frame, uint32_t value);
const CertOp *dt_certplan_op(PlanWalk *walk,
                             uint64_t value); /* of the present frame; NULL after a message */
bool dt_certplan_is_inline(const PlanFrame *frame,
                           uint32_t value); /* made of constants and positions only */

void dt_certplan_widen(PlanWalk *walk, uint32_t reg); /* holes in zeros: for all values of the register */

/* plan_ahead.c */
void dt_certplan_forget_ahead(PlanWalk *walk);                 /* an entry begins */
bool dt_certplan_ahead(PlanWalk *walk);                        /* AHEAD */
bool dt_certplan_gathered(PlanWalk *walk);                     /* its RETURN */
bool dt_certplan_may_do(PlanWalk *walk, const CertOp *op);     /* here, or ahead of its iteration */
bool dt_certplan_begin_ring(PlanWalk *walk, PlanFrame *body, uint32_t loop);  /* before it, an item, is entered */
bool dt_certplan_end_ring(PlanWalk *walk, const PlanFrame *body); /* its items are walked */
bool dt_certplan_begin_micro(PlanWalk *walk, uint32_t loop);   /* item of the loop over micro-batches */
bool dt_certplan_end_micro(PlanWalk *walk);
bool dt_certplan_when(PlanWalk *walk, const DtPlanSchedule *item);
bool dt_certplan_end_when(PlanWalk *walk);
bool dt_certplan_is_guarded(const PlanWalk *walk);             /* by iterations or micro-batches: gathers alone are */
bool dt_certplan_spares_ring(PlanWalk *walk, const DtPlanInst *inst); /* it writes no slot, but as a gather ahead */
bool dt_certplan_set(PlanWalk *walk, const DtPlanSchedule *item);
bool dt_certplan_has_slot(const PlanWalk *walk, const DtPlanArg *arg); /* if it depends on the ring's register */
bool dt_certplan_has_used(PlanWalk *walk);                     /* all that was gathered */
/* An entry ends; ret_began: it began a ring itself. */
bool dt_certplan_leave_ring(PlanWalk *walk, PlanShare **ret_share, bool *ret_began);
bool dt_certplan_shares(const PlanShare *left, const PlanShare *finds);

/* plan_place.c */
int64_t dt_certplan_local(const PlanWalk *walk, const CertType *type, uint32_t axis);
int64_t dt_certplan_size(const char *dtype);
void dt_certplan_dense(const PlanWalk *walk, const CertType *type,
                       PlanPlace *place); /* fills what is not address */
/* How a tensor lies whose axes from number `from` on have no gaps, with this stride of the last; the first that is
 * left. */
int64_t dt_certplan_pack(PlanPlace *place, uint32_t from, int64_t stride);
void dt_certplan_put(PlanPlace *place, const PlanPlace *address); /* there, as long as it is */
void dt_certplan_arg(const PlanWalk *walk, const DtPlanArg *arg,
                     PlanPlace *ret_place); /* address and length */
bool dt_certplan_spans(PlanPlace *place);   /* sets bytes; false: elements coincide */
bool dt_certplan_same(const PlanPlace *a, const PlanPlace *b);  /* address and length */
bool dt_certplan_alike(const PlanPlace *a, const PlanPlace *b); /* also how the tensor lies */
int dt_certplan_axis(const PlanPlace *place, const char *axis); /* its number, or -1 */
int64_t dt_certplan_stride(const PlanPlace *place, const char *axis); /* 0: it has no such axis */
/* Sorts indices and joins neighbours that are one run in all tensors; how many are left. */
uint32_t dt_certplan_runs(PlanIndex *at, uint32_t n);
bool dt_certplan_meets(const PlanWalk *walk, const PlanPlace *a,
                       const PlanPlace *b); /* may overlap */
bool dt_certplan_contains(const PlanWalk *walk, const PlanPlace *outer, const PlanPlace *inner);
/* Places where the value lies now; how many. at: only those that begin there are asked for, others may be left out;
 * NULL: all. */
uint32_t dt_certplan_find(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at,
                          PlanFinds *ret_found);

/* plan_memory.c */
void dt_certplan_push_region(PlanWalk *walk, PlanRegion *region);
void dt_certplan_forget_regions(PlanWalk *walk); /* an entry begins */
/* All regions that are there and may meet the place, and perhaps others; until the next call. */
const PlanList *dt_certplan_near(PlanWalk *walk, const PlanPlace *place);

/* plan_inst.c */
PlanRegion *dt_certplan_hold(PlanWalk *walk, PlanRegionKind kind, const PlanPlace *place);
void dt_certplan_hold_store(PlanWalk *walk, int64_t store, const PlanPlace *place);
PlanRegion *dt_certplan_hold_input(PlanWalk *walk, const char *name, const PlanPlace *place);
PlanRegion *dt_certplan_define(PlanWalk *walk, PlanFrame *frame, uint32_t value,
                               const PlanPlace *place, bool added);
void dt_certplan_spoil(PlanWalk *walk, const PlanPlace *written,
                       bool ahead); /* what may lie there is gone */
bool dt_certplan_layout(PlanWalk *walk, const CertType *type, uint32_t flags,
                        PlanPlace *place); /* what a note says */
bool dt_certplan_inst(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_integer(PlanWalk *walk, const DtPlanArg *arg);

/* Zeros from outside of loops deeper than that; fresh: that every iteration of the others finds there. */
bool dt_certplan_is_zero(PlanWalk *walk, const PlanPlace *place, uint32_t depth, bool fresh);
bool dt_certplan_is_added(PlanWalk *walk, const PlanPlace *place,
                          uint32_t depth); /* loops deeper than that */

/* Where a named result is. */
static inline PlanPlace dt_certplan_metric(const DtPlanMetric *metric)
{
    return (PlanPlace){.arena = metric->arena, .base = metric->offset, .bytes = metric->bytes};
}

/* plan_store.c: where all stores of the stage are */
bool dt_certplan_stores(PlanWalk *walk);
extern const char *const dt_certplan_kinds[]; /* of stores, by DtPlanStoreKind */
/* Whether records of axes are those of the type; of the first `shared` ones it may have a part. */
bool dt_certplan_axes(const PlanWalk *walk, const CertType *type, uint32_t first, uint32_t n, uint32_t shared);

/* plan_facts.c */
bool dt_certplan_begins(PlanWalk *walk, const CertStore *store, const DtPlanStore *record); /* as the program says */
bool dt_certplan_records(PlanWalk *walk); /* no store, input or result but the program's, each with its axes */

/* plan.c */
bool dt_certplan_has_slots(const CertStore *store);
bool dt_certplan_begin(PlanWalk *walk);                    /* ENTRY */
/* Of the stage's pieces, in the run of the present entry: that of this number and phase. */
const CertEntry *dt_certplan_piece(PlanWalk *walk, uint64_t number, uint32_t phase);
bool dt_certplan_finish(PlanWalk *walk, PlanFrame *frame); /* its results are where they belong */
bool dt_certplan_has_input(const PlanWalk *walk, const char *name, const PlanPlace *place);
const CertType *dt_certplan_input(const PlanWalk *walk, const char *name); /* NULL: no entry reads it */
bool dt_certplan_sum(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_read(PlanWalk *walk, const DtPlanInst *inst);

/* plan_pipe.c */
bool dt_certplan_enter(PlanWalk *walk, uint32_t entry); /* before and after an entry is walked */
bool dt_certplan_leave(PlanWalk *walk);
bool dt_certplan_uses(PlanWalk *walk, int store,
                      bool written); /* the piece reads or writes its slot */
void dt_certplan_needs(PlanWalk *walk, const char *name,
                       const PlanPlace *place); /* ... reads that of its prologue */
void dt_certplan_adds(PlanWalk *walk, const PlanPlace *place, uint32_t sum, int store,
                      const CertType *type, bool adds); /* to a result; false: sets it */
bool dt_certplan_across(PlanWalk *walk, const CertOp *op); /* a collective; stages meet in the order of the text */
bool dt_certplan_may_write(PlanWalk *walk, const PlanPlace *place);
bool dt_certplan_has_called(const PlanWalk *walk);
bool dt_certplan_added(PlanWalk *walk, int store, const PlanPlace *at, PlanPlace *ret_place,
                       uint32_t *ret_sum, const CertType **ret_type); /* SUM of what pieces added */
bool dt_certplan_called(PlanWalk *walk, const DtPlanSchedule *item);  /* CALL of a schedule */
bool dt_certplan_share(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_move(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_repeat(PlanWalk *walk, uint32_t entry, uint32_t before,
                        const CertEntry *of); /* what does the same */
bool dt_certplan_is_again(const PlanWalk *walk, const CertEntry *of); /* another entry of the stage is that piece */
bool dt_certplan_queues(PlanWalk *walk);      /* all stages together */

/* plan_comm.c: whether the instruction does the op between these places. */
bool dt_certplan_comm(PlanWalk *walk, const CertOp *op, const DtPlanInst *inst, const PlanPlace *to,
                      const PlanPlace *from);
const char *dt_certplan_reduction(const DtPlanInst *inst); /* "sum" */
bool dt_certplan_group(PlanWalk *walk, const DtPlanInst *inst, uint32_t mask, uint64_t stages);

/* plan_mask.c */
bool dt_certplan_mask(PlanWalk *walk); /* of the attention that begins */
bool dt_certplan_guards(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_covered(const PlanWalk *walk); /* all queries are, at every point */

/* plan_tile.c */
bool dt_certplan_tiles(PlanWalk *walk);
bool dt_certplan_block(PlanWalk *walk);
void dt_certplan_cut(const PlanWalk *walk, PlanPlace *place); /* the block of a value */
void dt_certplan_pack_block(const PlanWalk *walk,
                            PlanPlace *place); /* of its type, without gaps: not the address */
bool dt_certplan_is_output(const PlanWalk *walk, uint32_t value);
bool dt_certplan_is_of_block(const PlanWalk *walk, const CertOp *op);
bool dt_certplan_output(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, uint32_t flags,
                        PlanPlace *ret_place);
bool dt_certplan_untile(PlanWalk *walk); /* at the end of the outermost loop */

#endif
