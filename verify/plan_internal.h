/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside the plan certificate.
 *
 *   plan.c        all entries                     plan_store.c  records of stores
 *   plan_entry.c  what one finds                  plan_result.c where its results are
 *   plan_note.c   words of notes, problems
 *   plan_place.c  addresses, overlaps             plan_find.c   where values are
 *   plan_walk.c   schedules, loops                plan_inst.c   one instruction
 *   plan_integer.c integers of instructions
 *   plan_comm.c   collectives                     plan_tile.c   attention in blocks
 *   plan_frame.c  iterations of functions, gathers ahead
 *   plan_again.c  iterations that do the same again
 *   plan_mask.c   what a mask hides from them
 *   plan_epilogue.c what a product does besides; plan_form.c by a kernel
 *   plan_attend.c attention that a library may run; both compare residues (plan_number.c)
 *   plan_memo.c   attention that was looked at before
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

/* Memory of a rank: an address that is affine in device coordinates, and in registers that have no value while an
 * instruction is looked at (those of loops over blocks of attention; micro-batch and slots of a pipeline's piece), and
 * how a tensor lies there. */
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

/* Operands of a product: A, B, then what its epilogue reads; C, then what that writes. */
enum { PLAN_PRODUCT = 4, PLAN_PRODUCT_OPS = 64 };
typedef struct PlanProduct {
    uint32_t read[PLAN_PRODUCT], written[PLAN_PRODUCT], n_read, n_written; /* values */
    PlanPlace from[PLAN_PRODUCT], to[PLAN_PRODUCT];
} PlanProduct;

/* Attention of a record: what its parts are, and where, and the ops of the instruction. */
typedef struct PlanAttend {
    const DtPlanSdpa *of;
    uint32_t value[DT_SDPA_PARTS];
    PlanPlace place[DT_SDPA_PARTS];
    const CertOp *const *ops;
    uint32_t n_ops;
} PlanAttend;

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
enum { PLAN_SUMMING = -1 };
typedef struct PlanRegion {
    PlanRegionKind kind;
    PlanPlace place;
    bool alive;
    uint32_t depth;          /* loops that were open when it was written */
    uint32_t summed;         /* device axes over which SUM, or PART, completed it; PLAN_SUMMING: that goes on */
    uint64_t met;            /* the last search that came by */
    uint64_t stamp;          /* when it was written */
    int64_t lo, hi;          /* bytes, whatever coordinates and open registers are */
    const DtPlanArg *arg;    /* by which argument; NULL: by none */
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

/* What an instruction's note says of an argument that it writes. */
typedef struct PlanWrite {
    uint32_t value, flags, old; /* old: the value that it may overwrite */
    const DtPlanArg *arg;
    PlanPlace place;
} PlanWrite;
typedef DT_VEC(PlanWrite) PlanWrites;

typedef enum PlanFrameKind { PLAN_ENTRY, PLAN_CALL, PLAN_BODY } PlanFrameKind;

/* A function in one of its runs: an entry for a micro-batch, a call, an iteration of a loop. */
typedef struct PlanFrame {
    PlanFrameKind kind;
    struct PlanFrame *outer, *next; /* next: of those in the same place of the table */
    const CertFunc *func;
    const CertOp *op;       /* CALL, BODY: in outer */
    const CertEntry *entry; /* ENTRY */
    int64_t number;         /* ENTRY: the micro-batch, PLAN_ANY: what is the same in all; BODY: the iteration */
    const CertOp **maker;   /* by value; NULL: an input */
    uint8_t *made_anew;     /* by value, what dt_certplan_is_inline found: 0 nothing yet, 1 no, 2 yes */
    PlanRegion **regions;   /* by value */
    bool *done;             /* by value: the op was done */
    PlanPlace *slots;       /* ENTRY, by result: the place that the note gives, if */
    int64_t *terms;         /* ENTRY, by result: micro-batches that were added to it; of all micro-batches' frames */
    bool *has_slot, finished, complete;
    uint32_t reg; /* BODY: its register */
    struct PlanFrame *before; /* BODY: the iteration that ran before it */
} PlanFrame;
enum { PLAN_ANY = -1 };

typedef struct PlanFound {
    PlanPlace place;
    bool added;
    uint32_t summed;
    uint64_t stamp;       /* of what lies there */
    const DtPlanArg *arg; /* which wrote it */
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

typedef struct PlanMask { /* of attention: where(value, scores, -inf), or 0 for -inf */
    uint32_t value;
    const bool *zero;                  /* by value of the function: it is 0 where that hides */
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
    const DtPlanArg *arg[8];
    DT_VEC(PlanPlace) others; /* where blocks wrote what is no output */
    uint32_t wrote[8];     /* the last block that did */
    uint32_t *mark, block; /* by value: 1 + the last block that made it */
    uint64_t began;        /* when this block did */
    PlanMask mask;         /* if causal: blocks may leave out what it hides */
    uint32_t guarded, n_guards; /* the last block with a first instruction, and the guards of that */
    const DtPlanArg *guards;
} PlanTiles;

/* Bytes of an arena, whatever coordinates and open registers are. */
typedef struct PlanRange {
    uint32_t arena;
    int64_t lo, hi;
} PlanRange;

/* What was read or looked at, and when. */
typedef struct PlanLog {
    uint64_t stamp, clock;
} PlanLog;

/* A loop that may be left out in part: iterations that do the same. */
typedef struct PlanAgain {
    uint32_t at, end, reg;
    int64_t count, step;
    bool may;
    uint64_t begin;               /* when the loop began */
    DT_VEC(uint32_t) marks;       /* by iteration: the first that it logs */
    DT_VEC(uint64_t) clocks;      /* and when it began */
    int64_t from, to;             /* iterations from .. to - 1 were left out; the one that was `from` is `to` now */
} PlanAgain;

/* A collective that was started: what it makes, where, of what is there; its event, and when. */
typedef struct PlanStarted {
    PlanFrame *frame;
    uint32_t value;
    PlanPlace to, from;
    const DtPlanArg *to_arg, *from_arg;
    uint64_t event, stamp;
    uint32_t sum; /* not 0: it sums there what micro-batches added, over these device axes */
} PlanStarted;

/* What a loop stacks, whose slices may be on their way when it has ended. */
typedef struct PlanStack {
    PlanFrame *frame;     /* which has the loop */
    const CertOp *op;
    const CertFunc *func; /* its body */
    uint32_t number;      /* of the result */
    bool waited, left;    /* some of its slices were on their way when the loop ended; they lie in even steps now */
    PlanAgain again;
} PlanStack;

/* The note, in an entry of the plan, of which something was found. */
typedef struct PlanKnown {
    const uint8_t *note;
    const DtPlanEntry *entry;
} PlanKnown;

/* Whether a loop may be left out in part, in an entry. */
typedef struct PlanWatched {
    const DtPlanEntry *entry;
    bool may;
} PlanWatched;

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
    PlanFrame *frame, *back;     /* back: where gathers ahead, and copies of what other iterations made, return to */
    bool behind;                 /* back: such copies */
    PlanFrame **frames;          /* all of this plan entry, by hash */
    uint32_t n_frames, most_frames;
    DT_VEC(PlanFrame *) entries; /* ENTRY frames of this plan entry, the last of each */
    int64_t reg[DT_PLAN_REGS];
    bool taken[DT_PLAN_REGS];    /* by a loop around us */
    bool skips;                  /* notes are read of what a guard holds back */
    uint32_t guard;              /* 1 + the register of the innermost WHEN around us, 0: there is none */
    bool second;                 /* products with two forms do the second one */
    PlanWrites *form;            /* what the second form at hand has written; NULL: there is none */
    bool last;                   /* what a piece does in its last micro-batch alone */
    uint32_t depth;              /* loops over blocks of attention that are open */
    uint32_t actions;            /* loops over actions of a pipeline, of which plan_pipe.c knows every turn */
    int64_t count[DT_PLAN_REGS]; /* of registers without a value: how many they may have; 0: it has one */
    uint32_t open[DT_PLAN_REGS]; /* the depth inside of its loop over blocks; 0: it is closed */
    uint64_t clock;
    uint32_t watched;            /* loops around us that may be left out in part */
    DT_VEC(PlanLog) log;         /* of them */
    uint64_t opened;             /* when the outermost loop over blocks was */
    DT_VEC(PlanHole *) holes;    /* made in it */
    DT_VEC(PlanStarted) started;
    DT_VEC(PlanStack) stacks;
    PlanKnown *kernels;          /* by instruction */
    PlanWatched *loops;          /* by item */
    uint64_t *added;             /* by argument: when it last added to what was there */
    uint64_t budget;             /* instructions that may still be done */
    struct DtResidues *numbers;  /* with which ops are compared; NULL: none were yet (plan_number.c) */
    uint32_t ring;               /* the ring's slot in which a piece begins */
    DT_VEC(PlanRange) written;   /* by this piece */
    bool whole;                  /* no iterations are left out: for tests */
    uint32_t nested;             /* searches in one another */
    bool trial;                  /* a search for what a piece would have to find gathered */
    PlanFrame *trial_frame;
    uint32_t trial_value;
    DT_VEC(struct PlanMaskMemo *) masks;
    struct PlanTileMemo *memo; /* of the attention that is looked at */
    DT_VEC(struct PlanTileMemo *) memos;
    struct PlanMakers *makers[64]; /* of functions, by hash */
    PlanTiles tiles;
    const DtPlanInst *inst;
    PlanPlace *stores;  /* by number in the text; bytes 0: none on this stage */
    const CertType **terms; /* by number: what the memory of a store that has `terms` holds; NULL: what its type says */
    uint32_t *has_record; /* by record of a store: 1 + the last stage on which a store has it */
    bool *has_metric;     /* by record of a result: there is one */
    bool *is_result;  /* by number, in this plan entry */
    PlanRegion **of_store, *inputs; /* in this plan entry, also those that are gone: by number; all of them */
    const PlanRegion *found;        /* of inputs, those that have to be there when it ends */
    PlanRegion *regions,
        **kept; /* stores of the stage as an entry finds them: by number; by address */
    uint32_t n_kept;
    DtCertSpan *spans;       /* by instruction; may be NULL */
    uint32_t *seen;          /* by entry of the program: how often it is in the plan */
    uint32_t *walked;        /* by first item: 1 + the last entry that begins there */
    bool moves, *moving;     /* an address depends on the stage: in this plan entry; by entry */
    uint32_t alike_from;     /* from this stage on, there are the same stores at the same places */
    struct PlanNamed *named; /* results that later entries read */
    struct PlanPipe *pipe;
};

/* plan_note.c */
void dt_certplan_say_frame(const PlanFrame *frame, DtText *text); /* which iterations and micro-batch it is */
bool dt_certplan_fail(PlanWalk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t dt_certplan_word(PlanWalk *walk);
int64_t dt_certplan_signed(PlanWalk *walk);
uint32_t dt_certplan_number(PlanWalk *walk); /* a word that 32 bits hold; else a problem, and 0 */

/* plan_form.c: a product with two forms, the one of them that is walked. */
bool dt_certplan_forms(PlanWalk *walk, const DtPlanInst *inst);

/* plan_walk.c */
DtNoteKind dt_certplan_note(PlanWalk *walk);
bool dt_certplan_walk(PlanWalk *walk, const DtPlanEntry *entry, const DtPlanNote *notes);

/* plan_frame.c */
/* The one of these, new if there is none yet; create false: NULL then. what: op or entry. */
PlanFrame *dt_certplan_frame(PlanWalk *walk, PlanFrameKind kind, PlanFrame *outer, const CertFunc *func,
                             const void *what, int64_t number);
PlanFrame *dt_certplan_has_frame(const PlanWalk *walk, const PlanFrame *outer, const void *what, int64_t number);
void dt_certplan_renumber(PlanWalk *walk, PlanFrame *frame, int64_t number);
const CertType *dt_certplan_type(const PlanFrame *frame, uint32_t value);
const CertOp *dt_certplan_op(PlanWalk *walk, uint64_t value); /* of the present frame; NULL after a message */
bool dt_certplan_is_inline(const PlanFrame *frame, uint32_t value); /* made of constants and positions only */
/* The frame that knows where the value lies: what is gathered of stored parameters is the same in all micro-batches. */
PlanFrame *dt_certplan_home(PlanWalk *walk, const PlanFrame *frame, uint32_t value);
void dt_certplan_say_there(PlanWalk *walk, const PlanPlace *place, DtText *text); /* what lies at a place */
bool dt_certplan_is_ahead(const CertOp *op);
bool dt_certplan_takes(const CertOp *op, const CertFunc *func, PlanFrameKind kind); /* as a call or a loop does */
bool dt_certplan_ahead(PlanWalk *walk);  /* AHEAD */
bool dt_certplan_behind(PlanWalk *walk); /* BEHIND */
/* A piece may find there what another one gathered: then that is noted, and the value is there. */
bool dt_certplan_assume(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *place);

/* plan_again.c */
void dt_certplan_log(PlanWalk *walk, uint64_t stamp); /* an instruction has looked at what was written then */
void dt_certplan_watch(PlanWalk *walk, PlanAgain *again, uint32_t at, uint32_t end);
void dt_certplan_turn(PlanWalk *walk, PlanAgain *again);            /* an iteration begins */
int64_t dt_certplan_again(PlanWalk *walk, PlanAgain *again, int64_t t); /* how many are left out behind iteration t */
void dt_certplan_watched(PlanWalk *walk, const PlanAgain *again);   /* the loop has ended */

/* plan_place.c */
int64_t dt_certplan_local(const PlanWalk *walk, const CertType *type, uint32_t axis);
int64_t dt_certplan_size(const char *dtype);
void dt_certplan_dense(const PlanWalk *walk, const CertType *type,
                       PlanPlace *place); /* fills what is not address */
/* The axes from number `from` on are those of the type. */
void dt_certplan_take_axes(const PlanWalk *walk, const CertType *type, uint32_t from, PlanPlace *place);
/* How a tensor lies whose axes from number `from` on have no gaps, with this stride of the last; the first that is
 * left. */
int64_t dt_certplan_pack(PlanPlace *place, uint32_t from, int64_t stride);
void dt_certplan_put(PlanPlace *place, const PlanPlace *address); /* there, as long as it is */
void dt_certplan_arg(const PlanWalk *walk, const DtPlanArg *arg,
                     PlanPlace *ret_place); /* address and length */
void dt_certplan_raw(const PlanWalk *walk, const DtPlanArg *arg, PlanPlace *ret_place); /* of all registers */
/* Adds what a part of an axis that m splits begins behind the one before: to a register or a coordinate. An axis of one
 * rank has one part, and its coordinate is 0, whatever an instruction multiplies it with. */
void dt_certplan_dealt(const PlanWalk *walk, uint32_t m, int64_t step, int64_t *reg, int64_t *coord);
bool dt_certplan_spans(PlanPlace *place);   /* sets bytes; false: elements coincide */
bool dt_certplan_same(const PlanPlace *a, const PlanPlace *b);  /* address and length */
bool dt_certplan_alike(const PlanPlace *a, const PlanPlace *b); /* also how the tensor lies */
int dt_certplan_axis(const PlanPlace *place, const char *axis); /* its number, or -1 */
int64_t dt_certplan_stride(const PlanPlace *place, const char *axis); /* 0: it has no such axis */
/* Sorts indices and joins neighbours that are one run in all tensors; how many are left. */
uint32_t dt_certplan_runs(PlanIndex *at, uint32_t n);
/* Whether the record walks A, B and C as a contraction of tensors that lie there does. */
bool dt_certplan_is_product(const DtPlanGemm *gemm, const PlanPlace *const *places);
bool dt_certplan_meets(const PlanWalk *walk, const PlanPlace *a,
                       const PlanPlace *b); /* may overlap */
bool dt_certplan_contains(const PlanWalk *walk, const PlanPlace *outer, const PlanPlace *inner);

/* plan_epilogue.c: the contraction among the ops, if they are all that a record with an epilogue does; else
 * NULL. */
const CertOp *dt_certplan_joined(PlanWalk *walk, const DtPlanGemm *g, const CertOp *const *ops, uint32_t n_ops,
                                 const PlanProduct *p);

/* plan_attend.c: whether the ops are what the record says. */
bool dt_certplan_attends(PlanWalk *walk, const PlanAttend *p);
/* plan_mask.c: whether all (1) or none (0) of the keys from .. to are seen by that query, alike on all ranks; else -1.
 * value: of the present frame. */
int dt_certplan_sees(PlanWalk *walk, uint32_t value, const char *queries, const char *keys, int64_t query, int64_t from,
                     int64_t to);

/* plan_find.c */
bool dt_certplan_is_view(const CertOp *op);
/* What a rank has of a value of type x there as one of type y, which mesh axes split more; false: nothing. */
bool dt_certplan_run(const PlanWalk *walk, const CertType *x, const CertType *y, PlanPlace *place);
/* Places where the value lies now; how many. at: only those that begin there are asked for, others may be left out;
 * NULL: all. */
uint32_t dt_certplan_find(PlanWalk *walk, const PlanFrame *frame, uint32_t value, const PlanPlace *at,
                          PlanFinds *ret_found);

/* plan_memo.c: attention that is looked at once, `note` being the first behind TILES; items from .. to are its loops */
void dt_certmemo_begin(PlanWalk *walk, const uint8_t *note);
void dt_certmemo_read(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, const PlanPlace *place, int64_t base);
void dt_certmemo_zero(PlanWalk *walk, uint64_t stamp);
void dt_certmemo_output(PlanWalk *walk, const DtPlanArg *arg);
void dt_certmemo_end(PlanWalk *walk, uint32_t from, uint32_t to);
bool dt_certmemo_again(PlanWalk *walk, const uint8_t *note, uint32_t at, uint32_t end); /* false: look at it */

/* plan_memory.c */
void dt_certplan_hull(const PlanWalk *walk, const PlanPlace *place, int64_t *ret_lo, int64_t *ret_hi);
void dt_certplan_push_region(PlanWalk *walk, PlanRegion *region);
void dt_certplan_forget_regions(PlanWalk *walk); /* an entry begins */
void dt_certplan_widen(PlanWalk *walk, uint32_t reg); /* holes in zeros: for all values of the register */
/* All regions that are there and may meet the place, and perhaps others; until the next call. */
const PlanList *dt_certplan_near(PlanWalk *walk, const PlanPlace *place);

/* plan_inst.c: what memory holds */
PlanRegion *dt_certplan_hold(PlanWalk *walk, PlanRegionKind kind, const PlanPlace *place);
void dt_certplan_hold_store(PlanWalk *walk, int64_t store, const PlanPlace *place);
PlanRegion *dt_certplan_hold_input(PlanWalk *walk, const char *name, const PlanPlace *place);
PlanRegion *dt_certplan_define(PlanWalk *walk, PlanFrame *frame, uint32_t value,
                               const PlanPlace *place, bool added);
/* The same of what an instruction has written by that argument. */
void dt_certplan_define_by(PlanWalk *walk, PlanFrame *frame, uint32_t value, const PlanPlace *place, bool added,
                           const DtPlanArg *arg);
void dt_certplan_spoil(PlanWalk *walk, const PlanPlace *written,
                       bool ahead); /* what may lie there is gone */
void dt_certplan_spoil_old(PlanWalk *walk, const PlanPlace *written, uint64_t before); /* what was there before that */
/* Zeros from outside of loops deeper than that; fresh: that every iteration of the others finds there. */
bool dt_certplan_is_zero(PlanWalk *walk, const PlanPlace *place, uint32_t depth, bool fresh);
bool dt_certplan_is_added(PlanWalk *walk, const PlanPlace *place,
                          uint32_t depth); /* loops deeper than that */

/* plan_integer.c */
/* What the argument grows by from stage to stage. */
int64_t dt_certplan_stage_step(const PlanWalk *walk, const DtPlanArg *arg);
bool dt_certplan_integer(PlanWalk *walk, const DtPlanArg *arg);

/* plan_inst.c: the present instruction */
bool dt_certplan_is_there(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, PlanPlace *ret_place);
/* Reads the rest of what a note says of the written argument: where all of the value goes. */
bool dt_certplan_where(PlanWalk *walk, PlanWrite *write);
bool dt_certplan_layout(PlanWalk *walk, const CertType *type, uint32_t flags,
                        PlanPlace *place); /* what a note says */
/* kind: of its note, which is read behind that; of an instruction without one, nothing. */
bool dt_certplan_inst(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind);
bool dt_certplan_skip(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind); /* of a gather: does nothing */

/* Where a named result is. */
static inline PlanPlace dt_certplan_metric(const DtPlanMetric *metric)
{
    return (PlanPlace){.arena = metric->arena, .base = metric->offset, .bytes = metric->bytes};
}

/* plan_store.c: where all stores of the stage are */
bool dt_certplan_stores(PlanWalk *walk);
bool dt_certplan_has_slots(const CertStore *store);
extern const char *const dt_certplan_kinds[]; /* of stores, by DtPlanStoreKind */
int64_t dt_certplan_first(const PlanWalk *walk, const DtPlanStore *record); /* iteration that it has on the stage */
/* Whether records of axes are those of the type; of the first `shared` ones it may have a part. */
bool dt_certplan_axes(const PlanWalk *walk, const CertType *type, uint32_t first, uint32_t n, uint32_t shared);

/* plan_facts.c */
const CertType *dt_certplan_input(const PlanWalk *walk, const char *name); /* NULL: no entry reads it */
bool dt_certplan_begins(PlanWalk *walk, const CertStore *store, const DtPlanStore *record); /* as the program says */
bool dt_certplan_records(PlanWalk *walk); /* no input or result but the program's, each with its axes */

/* plan_entry.c */
const CertEntry *dt_certplan_entry(PlanWalk *walk, uint64_t number); /* that the present one runs; NULL: a problem */
bool dt_certplan_begin(PlanWalk *walk);                    /* ENTRY */
/* Of the stage's pieces, in the run of the present entry: that of this number and phase. */
const CertEntry *dt_certplan_piece(PlanWalk *walk, uint64_t number, uint32_t phase);
bool dt_certplan_has_input(const PlanWalk *walk, const char *name, const PlanPlace *place);
bool dt_certplan_read(PlanWalk *walk, const DtPlanInst *inst);

/* plan_result.c */
const char *dt_certplan_run_of(const CertEntry *entry); /* the entry of the plan that "grad.f3" is a part of */
extern const char *const dt_certplan_names[DT_PLAN_NO_RUN]; /* what plans call runs */
DtPlanName dt_certplan_at(const PlanWalk *walk);       /* what the name of the present entry of the plan says */
bool dt_certplan_is_piece(const CertEntry *entry);     /* one of a run: what it leaves is complete when the run is */
bool dt_certplan_agree(PlanWalk *walk, const char *name, const PlanPlace *place); /* entries have it there alike */
bool dt_certplan_accumulates(const PlanWalk *walk, const CertResult *result);     /* over micro-batches */
/* Device axes over which a result is summed when the entry has run all micro-batches. */
uint32_t dt_certplan_sum_of(const PlanWalk *walk, const CertType *type, int store);
bool dt_certplan_place_result(PlanWalk *walk, const PlanFrame *frame, uint32_t i, PlanPlace *ret_place);
bool dt_certplan_finish(PlanWalk *walk, PlanFrame *frame);   /* its micro-batch was added to its results */
bool dt_certplan_complete(PlanWalk *walk, PlanFrame *frame); /* they are where they belong, of all micro-batches */
void dt_certplan_add_terms(PlanFrame *entry, int64_t n);     /* so many micro-batches more were added */
bool dt_certplan_sum(PlanWalk *walk, const DtPlanInst *inst); /* SUM */

/* plan_pipe.c */
bool dt_certplan_enter(PlanWalk *walk, uint32_t entry); /* before and after an entry is walked */
bool dt_certplan_leave(PlanWalk *walk);
bool dt_certplan_steps(const PlanWalk *walk, uint32_t reg,
                       int64_t step); /* not back, nor further than any memory with all values of the register */
uint32_t dt_certplan_rings(PlanWalk *walk, const DtPlanEntry *entry); /* slots that others may leave it with; else 1 */
bool dt_certplan_uses(PlanWalk *walk, int store,
                      bool written); /* the piece reads or writes its slot */
void dt_certplan_needs(PlanWalk *walk, const char *name,
                       const PlanPlace *place); /* ... reads that of its prologue */
/* What a piece starts, and leaves on its way; a WAIT for that, in the schedule of its stage. */
void dt_certplan_began(PlanWalk *walk, uint64_t event, bool leaves);
void dt_certplan_ended(PlanWalk *walk, uint64_t event);
/* A piece sums over ranks, in its last micro-batch, what it added there; false: it adds nothing. */
bool dt_certplan_parts(PlanWalk *walk, const PlanPlace *place);
void dt_certplan_adds(PlanWalk *walk, const PlanPlace *place, uint32_t sum, int store,
                      const CertType *type, bool adds); /* to a result; false: sets it */
bool dt_certplan_across(PlanWalk *walk, const CertOp *op); /* a collective; stages meet in the order of the text */
bool dt_certplan_may_write(PlanWalk *walk, const PlanPlace *place);
PlanRegion *dt_certplan_find_sum(PlanWalk *walk, const PlanPlace *place); /* that was made over ranks there; or NULL */
bool dt_certplan_has_called(const PlanWalk *walk);
bool dt_certplan_added(PlanWalk *walk, int store, const PlanPlace *at, PlanPlace *ret_place,
                       uint32_t *ret_sum, const CertType **ret_type); /* SUM of what pieces added */
bool dt_certplan_called(PlanWalk *walk, const DtPlanSchedule *item);  /* CALL of a schedule */
bool dt_certplan_share(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_move(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_repeat(PlanWalk *walk, uint32_t entry, uint32_t before,
                        const CertEntry *of); /* what does the same */
void dt_certplan_wrote(PlanWalk *walk, const PlanPlace *place); /* an instruction of a piece */
/* A piece finds there what another one has gathered; it has written there nothing yet. */
bool dt_certplan_finds(PlanWalk *walk, PlanFrame *frame, uint32_t value, const PlanPlace *place);
bool dt_certplan_is_again(const PlanWalk *walk, const CertEntry *of); /* another entry of the stage is that piece */
bool dt_certplan_queues(PlanWalk *walk);      /* all stages together */

/* Micro-batches. */
static inline uint32_t dt_certplan_n_micro(const PlanWalk *walk)
{
    return walk->first_device ? (uint32_t)walk->program->size[0] : 1;
}

/* plan_comm.c, on what is started */
/* The collective, of which event and time are not yet known; then the WAIT for it. */
bool dt_certplan_start(PlanWalk *walk, const DtPlanInst *inst, PlanStarted started);
bool dt_certplan_wait(PlanWalk *walk, const DtPlanInst *inst);
/* plan_pipe.c: whether it is a message, or waits for one; whether the event is one's; a WAIT that plan_run.c runs. */
bool dt_certplan_is_message(const PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_has_message(const PlanWalk *walk, uint64_t event);
bool dt_certplan_came(PlanWalk *walk);
/* plan_result.c: PART, and that it has ended. */
bool dt_certplan_part(PlanWalk *walk, const DtPlanInst *inst);
void dt_certplan_summed(PlanWalk *walk, const PlanPlace *place, uint32_t sum);
bool dt_certplan_is_still(PlanWalk *walk, const PlanPlace *written); /* false: something is on its way there */
bool dt_certplan_landed(PlanWalk *walk);                             /* all that was started is done */

/* plan_comm.c: whether the instruction does the op between these places. */
bool dt_certplan_comm(PlanWalk *walk, const CertOp *op, const DtPlanInst *inst, const PlanPlace *to,
                      const PlanPlace *from);
const char *dt_certplan_reduction(const DtPlanInst *inst); /* "sum" */
bool dt_certplan_group(PlanWalk *walk, const DtPlanInst *inst, uint32_t mask, const char *stages);

/* plan_mask.c */
bool dt_certplan_mask(PlanWalk *walk); /* of the attention that begins */
bool dt_certplan_guards(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_covered(const PlanWalk *walk); /* all queries are, at every point */
bool dt_certplan_hides(const PlanWalk *walk, uint32_t value); /* it is zero where the mask hides */

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
bool dt_certplan_place_output(PlanWalk *walk, uint32_t i, const DtPlanArg *arg);
void dt_certplan_beside(PlanWalk *walk, const PlanPlace *written); /* by blocks, if any are open: no output */
bool dt_certplan_untile(PlanWalk *walk); /* at the end of the outermost loop */

#endif
