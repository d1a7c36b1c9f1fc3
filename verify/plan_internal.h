/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside the plan certificate, which proves that a plan computes the placed program in its
 * text. It walks the schedule like a rank would, and keeps a record of which value each piece of
 * memory holds.
 *
 *   plan.c         all entries                     plan_store.c   records of stores
 *   plan_entry.c   inputs and stores of an entry   plan_result.c  where its results are
 *   plan_note.c    reading notes, problems
 *   plan_place.c   addresses, overlaps             plan_find.c    in which places a value is
 *   plan_walk.c    schedules, loops                plan_inst.c    one instruction
 *   plan_integer.c integers of instructions
 *   plan_comm.c    collectives                     plan_tile.c    attention in blocks
 *   plan_frame.c   iterations of functions, prefetched gathers
 *   plan_repeat.c   skips iterations that repeat earlier ones
 *   plan_mask.c    what a mask hides from blocks of attention
 *   plan_epilogue.c epilogues that a library computes with a product
 *   plan_form.c    products with a second form
 *   plan_attend.c  attention that a library may run; both compare residues (plan_number.c)
 *   plan_memo.c    reuses the check of equal attention
 *   plan_memory.c  index of memory: which regions may overlap a place
 *   plan_pipe.c    pieces of a pipeline, slots, sums over stages
 *   plan_run.c     the schedules of all stages, channels
 *   plan_facts.c   records of training, data, initial values */
#ifndef DT_VERIFY_PLAN_INTERNAL_H
#define DT_VERIFY_PLAN_INTERNAL_H

#include "plan/notes.h"
#include "verify/internal.h"
#include "verify/plan.h"

#define PLAN_BYTES (INT64_C(1) << 48) /* larger than any memory */

/* Memory of a rank: an address that is affine in device coordinates, and in registers whose
 * value is left open while an instruction is checked (loops over blocks of attention;
 * micro-batch and slots of a pipeline's piece), and the layout of a tensor there. */
typedef struct PlanPlace {
    uint32_t arena;
    int64_t base, reg[DT_PLAN_ARG_REGS], coord[CERT_MESH]; /* distance in bytes */
    int64_t bytes, size;                                   /* bytes in all; bytes of an element */
    const char *dtype;
    uint32_t rank;
    const char *axis[CERT_RANK];
    int64_t extent[CERT_RANK], stride[CERT_RANK]; /* local extents; strides in elements */
} PlanPlace;

/* An index that walks through up to three tensors: its extent, and its stride in each. */
typedef struct PlanIndex {
    int64_t extent, step[3];
} PlanIndex;

/* The values of a product. Operands: A, B, then those of its epilogue; results: C, then those of
 * the epilogue. */
enum { PLAN_PRODUCT = 4, PLAN_PRODUCT_OPS = 64 };
typedef struct PlanProduct {
    uint32_t read[PLAN_PRODUCT], written[PLAN_PRODUCT], n_read, n_written; /* numbers of values */
    PlanPlace from[PLAN_PRODUCT], to[PLAN_PRODUCT];
} PlanProduct;

/* An SDPA record with the value and the place of each part, and the ops of the instruction. */
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

/* A hole in zeroed memory: a part that was written after it was zeroed. */
typedef struct PlanHole {
    PlanPlace place;
    struct PlanHole *next;
} PlanHole;

/* Contents of a region of memory: a value; a sum in progress; zeros; or a store or input with the
 * contents that the entry found. */
enum { PLAN_SUMMING = -1 };
typedef struct PlanRegion {
    PlanRegionKind kind;
    PlanPlace place;
    bool alive;
    uint32_t depth;          /* how many loops were open when it was written */
    /* device axes over which SUM, or PART, has reduced it; PLAN_SUMMING: the reduction is in
     * flight */
    uint32_t summed;
    uint64_t met;            /* number of the last search that visited it */
    uint64_t stamp;          /* time of the write */
    int64_t lo, hi;          /* range of bytes over all coordinates and open registers */
    const DtPlanArg *arg;    /* the argument through which it was written; NULL: none */
    int64_t id;              /* STORE: number in the text */
    const char *name;        /* INPUT: its name */
    PlanHole *holes;         /* ZERO: parts that were written since */
    struct PlanRegion *next; /* the next region of the same value or store, or of another input */
    struct PlanRegion *const *of; /* the list of the value to which it belongs; NULL: none */
} PlanRegion;

typedef DT_VEC(PlanRegion *) PlanList;

/* The regions of an arena in cells of 2^shift bytes, and the regions whose address is unbounded. */
typedef struct PlanCells {
    uint32_t shift, most; /* number of regions at which the cells are rebuilt */
    PlanList *cell, everywhere;
} PlanCells;

/* An argument that an instruction writes, as its note describes it. */
typedef struct PlanWrite {
    uint32_t value, flags, old; /* old: the value that the write may overwrite */
    const DtPlanArg *arg;
    PlanPlace place;
} PlanWrite;
typedef DT_VEC(PlanWrite) PlanWrites;

typedef enum PlanFrameKind { PLAN_ENTRY, PLAN_CALL, PLAN_BODY } PlanFrameKind;

/* One execution of a function: an entry for a micro-batch, a call, an iteration of a loop. */
typedef struct PlanFrame {
    PlanFrameKind kind;
    struct PlanFrame *outer, *next; /* next: in the same slot of the hash table */
    const CertFunc *func;
    const CertOp *op;       /* CALL, BODY: the op in `outer` */
    const CertEntry *entry; /* ENTRY: the program's entry */
    /* ENTRY: the micro-batch; PLAN_ANY: for values that are the same in all of them. BODY: the
     * iteration */
    int64_t number;
    const CertOp **maker;   /* by value: the op that makes it; NULL: an input */
    /* by value, the cached answer of dt_certplan_is_inline: 0 not computed yet, 1 no, 2 yes */
    uint8_t *made_anew;
    PlanRegion **regions;   /* by value: the regions that hold it */
    bool *done;             /* by value: its op was executed */
    PlanPlace *slots;       /* ENTRY, by result: its place, if a note gave it one */
    /* ENTRY, by result: how many micro-batches were added to it; shared by the frames of all
     * micro-batches */
    int64_t *terms;
    bool *has_slot, finished, complete;
    uint32_t reg; /* BODY: the register of the loop */
    struct PlanFrame *before; /* BODY: the iteration that ran before this one */
} PlanFrame;
enum { PLAN_ANY = -1 };

typedef struct PlanFound {
    PlanPlace place;
    bool added;
    uint32_t summed;
    uint64_t stamp;       /* time at which the contents were written */
    const DtPlanArg *arg; /* the argument through which they were written */
} PlanFound;

/* Places of one value. More than a few of them are in the walk's scratch memory. Must not be
 * copied. */
typedef struct PlanFinds {
    uint32_t n, cap;
    PlanFound *at, few[8];
} PlanFinds;

/* Memory in which entries keep results that others read by name. */
struct PlanNamed {
    const char *name;
    uint32_t stage;
    PlanPlace place;
    struct PlanNamed *next;
};

typedef struct PlanMask { /* a mask of attention: where(value, scores, -inf), or 0 for -inf */
    uint32_t value;
    /* by value of the function: the value is 0 wherever the mask hides a score */
    const bool *zero;
    const struct Where *where;         /* the functions around that value */
    /* mesh axes on which the mask depends; loops on which it depends, by register */
    uint16_t axes;
    const CertLoop *loops[DT_PLAN_REGS];
    int64_t coord[CERT_MESH], reg[DT_PLAN_REGS]; /* the point being evaluated */
    /* values evaluated so far for this part, to bound the work */
    uint32_t visits;
    int64_t n;                         /* number of points */
    /* by point, half of the queries and half of the keys: every key but the first is hidden */
    bool *hidden;
    int64_t *next;                     /* by point: the first query that no block has covered yet */
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
    DT_VEC(PlanPlace) others; /* places that blocks wrote and that are no outputs */
    uint32_t wrote[8];     /* the last block that wrote output i */
    uint32_t *mark, block; /* by value: 1 + the last block that made it */
    uint64_t began;        /* time at which this block began */
    PlanMask mask;         /* if causal: the mask by which blocks may leave out keys */
    /* the last block whose first instruction was seen, and that instruction's guards */
    uint32_t guarded, n_guards;
    const DtPlanArg *guards;
} PlanTiles;

/* Bytes of an arena over all coordinates and open registers. */
typedef struct PlanRange {
    uint32_t arena;
    int64_t lo, hi;
} PlanRange;

/* A log entry: memory was read or tested for zero. stamp: when it was written; clock: when it was
 * read. */
typedef struct PlanLog {
    uint64_t stamp, clock;
} PlanLog;

/* A loop whose repeating iterations may be skipped. */
typedef struct PlanRepeat {
    uint32_t at, end, reg;
    int64_t count, step;
    bool may;
    uint64_t begin;               /* time at which the loop began */
    DT_VEC(uint32_t) marks;       /* by iteration: its first entry in the log */
    DT_VEC(uint64_t) clocks;      /* by iteration: the time at which it began */
    /* iterations from .. to - 1 were skipped; what iteration `from` was is now called iteration
     * `to` */
    int64_t from, to;
} PlanRepeat;

/* A collective in flight: the value that it makes, its places, its event, and the time of its
 * start. */
typedef struct PlanStarted {
    PlanFrame *frame;
    uint32_t value;
    PlanPlace to, from;
    const DtPlanArg *to_arg, *from_arg;
    uint64_t event, stamp;
    uint32_t sum; /* not 0: the reduction sums the terms of micro-batches, over these device axes */
} PlanStarted;

/* A stacked result of a loop, whose slices may be in flight when the loop has ended. */
typedef struct PlanStack {
    PlanFrame *frame;     /* the frame that has the loop */
    const CertOp *op;
    const CertFunc *func; /* the loop's body */
    uint32_t number;      /* number of the result */
    /* some of its slices were in flight when the loop ended; their places have a constant step */
    bool waited, left;
    PlanRepeat repeat;
} PlanStack;

/* A note, in an entry of the plan, for which a check succeeded before. */
typedef struct PlanKnown {
    const uint8_t *note;
    const DtPlanEntry *entry;
} PlanKnown;

/* An entry of the plan, and whether repeating iterations of a loop may be skipped in it. */
typedef struct PlanWatched {
    const DtPlanEntry *entry;
    bool may;
} PlanWatched;

typedef struct PlanWalk PlanWalk;
struct PlanWalk {
    DtArena *arena, *scratch; /* scratch: reset after each entry of the plan */
    const DtPlan *plan;
    const CertProgram *program;
    DtText *problem;
    uint32_t first_device; /* mesh axes of the text before this one are time, not devices */
    uint32_t stage;
    const DtPlanEntry *at_entry;
    const uint8_t *note, *end; /* the notes that were not read yet */
    PlanList memory[DT_ARENA_KINDS + DT_PLAN_N_SLOTS];
    PlanCells *cells[DT_ARENA_KINDS + DT_PLAN_N_SLOTS]; /* NULL: the arena has few regions */
    PlanList near;               /* regions found by the last search */
    uint64_t meeting;            /* number of that search */
    /* back: the frame to return to after a prefetched gather, or after a copy of a result of
     * another iteration */
    PlanFrame *frame, *back;
    bool behind;                 /* back was set for such a copy */
    PlanFrame **frames;          /* all frames of this entry of the plan, by hash */
    uint32_t n_frames, most_frames;
    /* ENTRY frames of this entry of the plan, in the order of their first use */
    DT_VEC(PlanFrame *) entries;
    int64_t reg[DT_PLAN_REGS];
    bool taken[DT_PLAN_REGS];    /* by register: an open loop uses it */
    bool skips;                  /* a guard is false: notes are read without effect */
    uint32_t guard;              /* 1 + the register of the innermost open WHEN; 0: none */
    bool second;                 /* products with two forms execute the second one */
    PlanWrites *form;            /* writes of the present second form; NULL: none is open */
    /* inside the part of a piece that runs in its last micro-batch only */
    bool last;
    uint32_t depth;              /* open loops over blocks of attention */
    /* open loops over actions of a pipeline; plan_pipe.c knows their iterations */
    uint32_t actions;
    /* by register whose value is left open: how many values it may have; 0: it has a value */
    int64_t count[DT_PLAN_REGS];
    /* by register: depth of its open loop over blocks; 0: it has none */
    uint32_t open[DT_PLAN_REGS];
    uint64_t clock;
    uint32_t watched;            /* open loops whose repeating iterations may be skipped */
    DT_VEC(PlanLog) log;         /* what the open iterations of these loops read */
    uint64_t opened;             /* time at which the outermost loop over blocks began */
    DT_VEC(PlanHole *) holes;    /* holes that were made inside that loop */
    DT_VEC(PlanStarted) started;
    DT_VEC(PlanStack) stacks;
    PlanKnown *kernels;          /* by instruction: the note for which it was checked before */
    PlanWatched *loops;          /* by item of the schedule */
    uint64_t *added;             /* by argument: time at which it last added to earlier contents */
    uint64_t budget;             /* how many instructions may still be walked */
    /* the residues with which ops are compared; NULL: not needed yet (plan_number.c) */
    struct DtResidues *numbers;
    uint32_t ring;               /* the ring buffer slot with which a piece begins */
    DT_VEC(PlanRange) written;   /* ranges of memory that this piece has written */
    bool whole;                  /* walks all iterations: for tests */
    uint32_t nested;             /* depth of nested searches */
    /* a trial run that finds out which gathers a piece expects to find */
    bool trial;
    PlanFrame *trial_frame;
    uint32_t trial_value;
    DT_VEC(struct PlanMaskMemo *) masks;
    struct PlanTileMemo *memo; /* memory of checks for the attention that is being checked */
    DT_VEC(struct PlanTileMemo *) memos;
    struct PlanMakers *makers[64]; /* tables of functions, by hash */
    PlanTiles tiles;
    const DtPlanInst *inst;
    PlanPlace *stores;  /* by number in the text: its place; bytes 0: it is not on this stage */
    /* by number: the type of a store's memory if it has `terms`; NULL: the store's own type */
    const CertType **terms;
    /* by record of a store: 1 + the last stage on which a store has the record */
    uint32_t *has_record;
    bool *has_metric;     /* by record of a named result: the program has the result */
    bool *is_result;  /* by number of the store: it is a result of this entry of the plan */
    /* regions of this entry of the plan, including dead ones: by number of the store; of all
     * inputs */
    PlanRegion **of_store, *inputs;
    const PlanRegion *found;        /* the inputs that must be unchanged at the end, in the list of
                                     * inputs */
    /* regions of the stage's stores at the beginning of an entry: by number; sorted by address */
    PlanRegion *regions, **kept;
    uint32_t n_kept;
    DtCertSpan *spans;       /* by instruction: its source span; may be NULL */
    uint32_t *seen;          /* by entry of the program: how often the plan has it */
    uint32_t *walked;        /* by first item: 1 + the last entry of the plan that begins there */
    /* whether an address depends on the stage: in this entry of the plan; by entry */
    bool moves, *moving;
    /* from this stage on, all stages have the same stores at the same places */
    uint32_t alike_from;
    struct PlanNamed *named; /* results that later entries read */
    struct PlanPipe *pipe;
};

/* plan_note.c */
/* appends the iterations and the micro-batch of a frame */
void dt_certplan_say_frame(const PlanFrame *frame, DtText *text);
bool dt_certplan_fail(PlanWalk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t dt_certplan_word(PlanWalk *walk);
int64_t dt_certplan_signed(PlanWalk *walk);
/* reads a word of the note that fits into 32 bits; otherwise reports a problem and returns 0 */
uint32_t dt_certplan_number(PlanWalk *walk);

/* plan_form.c: walks one form of a product with two forms. */
bool dt_certplan_forms(PlanWalk *walk, const DtPlanInst *inst);

/* plan_walk.c */
DtNoteKind dt_certplan_note(PlanWalk *walk);
bool dt_certplan_walk(PlanWalk *walk, const DtPlanEntry *entry, const DtPlanNote *notes);

/* plan_frame.c */
/* Finds the frame of this iteration or call, or creates it; with create false returns NULL instead.
 * what: the op or the entry. */
PlanFrame *dt_certplan_frame(PlanWalk *walk, PlanFrameKind kind, PlanFrame *outer,
                             const CertFunc *func, const void *what, int64_t number);
PlanFrame *dt_certplan_has_frame(const PlanWalk *walk, const PlanFrame *outer, const void *what,
                                 int64_t number);
void dt_certplan_renumber(PlanWalk *walk, PlanFrame *frame, int64_t number);
const CertType *dt_certplan_type(const PlanFrame *frame, uint32_t value);
/* the op that makes a value of the current frame; NULL after a message */
const CertOp *dt_certplan_op(PlanWalk *walk, uint64_t value);
/* whether the value is computed from constants and positions only */
bool dt_certplan_is_inline(const PlanFrame *frame, uint32_t value);
/* The frame that records where the value is: gathers of stored parameters are the same in all
 * micro-batches, and are recorded once. */
PlanFrame *dt_certplan_home(PlanWalk *walk, const PlanFrame *frame, uint32_t value);
/* appends a description of the contents of memory at a place */
void dt_certplan_say_there(PlanWalk *walk, const PlanPlace *place, DtText *text);
bool dt_certplan_is_ahead(const CertOp *op);
/* whether func fits op, as a call or the body of a loop */
bool dt_certplan_takes(const CertOp *op, const CertFunc *func, PlanFrameKind kind);
bool dt_certplan_ahead(PlanWalk *walk);  /* reads note AHEAD */
bool dt_certplan_behind(PlanWalk *walk); /* reads note BEHIND */
/* If a piece may find at the place a value that another piece gathered: records this assumption,
 * and the value as present there. */
bool dt_certplan_assume(PlanWalk *walk, const PlanFrame *frame, uint32_t value,
                        const PlanPlace *place);

/* plan_repeat.c */
/* records that an instruction has read memory that was written at that time */
void dt_certplan_log(PlanWalk *walk, uint64_t stamp);
void dt_certplan_watch(PlanWalk *walk, PlanRepeat *repeat, uint32_t at, uint32_t end);
/* called when an iteration begins */
void dt_certplan_turn(PlanWalk *walk, PlanRepeat *repeat);
/* how many iterations are skipped after iteration t */
int64_t dt_certplan_repeats(PlanWalk *walk, PlanRepeat *repeat, int64_t t);
/* called when the loop has ended */
void dt_certplan_watched(PlanWalk *walk, const PlanRepeat *repeat);

/* plan_place.c */
int64_t dt_certplan_local(const PlanWalk *walk, const CertType *type, uint32_t axis);
int64_t dt_certplan_size(const char *dtype);
void dt_certplan_dense(const PlanWalk *walk, const CertType *type,
                       PlanPlace *place); /* lays the tensor out without gaps; leaves the address
                                           * unchanged */
/* Sets the axes from number `from` on to those of the type. */
void dt_certplan_take_axes(const PlanWalk *walk, const CertType *type, uint32_t from,
                           PlanPlace *place);
/* Lays out the axes from number `from` on without gaps, the last one with this stride; returns
 * the stride that the next outer axis would have. */
int64_t dt_certplan_pack(PlanPlace *place, uint32_t from, int64_t stride);
/* gives place the address of `address`, with its own length */
void dt_certplan_put(PlanPlace *place, const PlanPlace *address);
void dt_certplan_arg(const PlanWalk *walk, const DtPlanArg *arg,
                     PlanPlace *ret_place); /* the address and the length of an argument */
/* the same, with all registers left open */
void dt_certplan_raw(const PlanWalk *walk, const DtPlanArg *arg, PlanPlace *ret_place);
/* Adds the distance between the parts of neighbouring ranks, for an axis that mesh axis m splits,
 * to a register or a coordinate. A mesh axis of one rank has one part and coordinate 0, so its
 * factor in an instruction does not matter. */
void dt_certplan_dealt(const PlanWalk *walk, uint32_t m, int64_t step, int64_t *reg,
                       int64_t *coord);
bool dt_certplan_spans(PlanPlace *place);   /* sets the number of bytes; false: elements overlap */
/* whether address and length are equal */
bool dt_certplan_same(const PlanPlace *a, const PlanPlace *b);
/* whether the layout of the tensor is equal, too */
bool dt_certplan_alike(const PlanPlace *a, const PlanPlace *b);
int dt_certplan_axis(const PlanPlace *place, const char *axis); /* the number of the axis, or -1 */
/* the stride of the axis; 0: there is no such axis */
int64_t dt_certplan_stride(const PlanPlace *place, const char *axis);
/* Sorts indices and joins neighbours that are contiguous in all tensors; returns how many are
 * left. */
uint32_t dt_certplan_runs(PlanIndex *at, uint32_t n);
/* Whether the record walks A, B and C like a contraction of tensors in these places. */
bool dt_certplan_is_product(const DtPlanGemm *gemm, const PlanPlace *const *places);
bool dt_certplan_meets(const PlanWalk *walk, const PlanPlace *a,
                       const PlanPlace *b); /* whether the places may overlap */
bool dt_certplan_contains(const PlanWalk *walk, const PlanPlace *outer, const PlanPlace *inner);

/* plan_epilogue.c: the contraction among the ops, if the ops are exactly those of a GEMM record
 * with an epilogue; else NULL. */
const CertOp *dt_certplan_joined(PlanWalk *walk, const DtPlanGemm *g, const CertOp *const *ops,
                                 uint32_t n_ops, const PlanProduct *p);

/* plan_attend.c: whether the ops are the attention that the record describes. */
bool dt_certplan_attends(PlanWalk *walk, const PlanAttend *p);
/* plan_mask.c: whether the query sees all (1) or none (0) of the keys from .. to, equally on all
 * ranks; else -1. value: the mask, in the current frame. */
int dt_certplan_sees(PlanWalk *walk, uint32_t value, const char *queries, const char *keys,
                     int64_t query, int64_t from, int64_t to);

/* plan_find.c */
bool dt_certplan_is_view(const CertOp *op);
/* Makes place the part of a value of type x that belongs to a rank under type y, which mesh axes
 * split more; false: there is none. */
bool dt_certplan_run(const PlanWalk *walk, const CertType *x, const CertType *y, PlanPlace *place);
/* The places that hold the value now; returns how many. at: only places at that address are
 * needed, others may be left out; NULL: all. */
uint32_t dt_certplan_find(PlanWalk *walk, const PlanFrame *frame, uint32_t value,
                          const PlanPlace *at, PlanFinds *ret_found);

/* plan_memo.c: skips the check of attention that equals an earlier one. `note` is the first note
 * after TILES; items from .. to are its loops. */
void dt_certmemo_begin(PlanWalk *walk, const uint8_t *note);
void dt_certmemo_read(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, const PlanPlace *place,
                      int64_t base);
void dt_certmemo_zero(PlanWalk *walk, uint64_t stamp);
void dt_certmemo_output(PlanWalk *walk, const DtPlanArg *arg);
void dt_certmemo_end(PlanWalk *walk, uint32_t from, uint32_t to);
/* skips the attention if it equals an earlier one; false: it must be checked */
bool dt_certmemo_repeats(PlanWalk *walk, const uint8_t *note, uint32_t at, uint32_t end);

/* plan_memory.c */
void dt_certplan_hull(const PlanWalk *walk, const PlanPlace *place, int64_t *ret_lo,
                      int64_t *ret_hi);
void dt_certplan_push_region(PlanWalk *walk, PlanRegion *region);
void dt_certplan_forget_regions(PlanWalk *walk); /* called at the beginning of an entry */
/* makes holes in zeroed memory hold for all values of the register */
void dt_certplan_widen(PlanWalk *walk, uint32_t reg);
/* All live regions that may overlap the place, and perhaps others; valid until the next call. */
const PlanList *dt_certplan_near(PlanWalk *walk, const PlanPlace *place);

/* plan_inst.c: the contents of memory */
PlanRegion *dt_certplan_hold(PlanWalk *walk, PlanRegionKind kind, const PlanPlace *place);
void dt_certplan_hold_store(PlanWalk *walk, int64_t store, const PlanPlace *place);
PlanRegion *dt_certplan_hold_input(PlanWalk *walk, const char *name, const PlanPlace *place);
PlanRegion *dt_certplan_define(PlanWalk *walk, PlanFrame *frame, uint32_t value,
                               const PlanPlace *place, bool added);
/* The same, for memory that an instruction writes through that argument. */
void dt_certplan_define_by(PlanWalk *walk, PlanFrame *frame, uint32_t value, const PlanPlace *place,
                           bool added, const DtPlanArg *arg);
void dt_certplan_spoil(PlanWalk *walk, const PlanPlace *written,
                       bool ahead); /* records that the contents of the place are not known any
                                     * more */
/* the same, for contents older than that time */
void dt_certplan_spoil_old(PlanWalk *walk, const PlanPlace *written, uint64_t before);
/* Whether the place is zero, and was zeroed outside of loops deeper than `depth`; fresh: it is
 * zeroed anew in every iteration of the other loops. */
bool dt_certplan_is_zero(PlanWalk *walk, const PlanPlace *place, uint32_t depth, bool fresh);
bool dt_certplan_is_added(PlanWalk *walk, const PlanPlace *place,
                          uint32_t depth); /* whether something was added to the place in loops
                                            * deeper than that */

/* plan_integer.c */
/* By how much the argument grows from stage to stage. */
int64_t dt_certplan_stage_step(const PlanWalk *walk, const DtPlanArg *arg);
bool dt_certplan_integer(PlanWalk *walk, const DtPlanArg *arg);

/* plan_inst.c: the current instruction */
bool dt_certplan_is_there(PlanWalk *walk, uint32_t value, const DtPlanArg *arg,
                          PlanPlace *ret_place);
/* Reads the rest of the note of a written argument: the place of the whole value. */
bool dt_certplan_where(PlanWalk *walk, PlanWrite *write);
bool dt_certplan_layout(PlanWalk *walk, const CertType *type, uint32_t flags,
                        PlanPlace *place); /* reads the layout of a value from a note */
/* Checks an instruction. kind: that of its note, whose other words are read next; an instruction
 * without a note may do nothing. */
bool dt_certplan_inst(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind);
/* reads the note of a gather that a guard skips */
bool dt_certplan_skip(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind);

/* The memory of a named result. */
static inline PlanPlace dt_certplan_metric(const DtPlanMetric *metric)
{
    return (PlanPlace){.arena = metric->arena, .base = metric->offset, .bytes = metric->bytes};
}

/* plan_store.c: finds the memory of all stores of the stage */
bool dt_certplan_stores(PlanWalk *walk);
bool dt_certplan_has_slots(const CertStore *store);
extern const char *const dt_certplan_kinds[]; /* names of kinds of stores, by DtPlanStoreKind */
/* the first iteration of the store on this stage */
int64_t dt_certplan_first(const PlanWalk *walk, const DtPlanStore *record);
/* Whether the n records of axes from `first` on match the type; along the first `shared` axes the
 * type may be a part. */
bool dt_certplan_axes(const PlanWalk *walk, const CertType *type, uint32_t first, uint32_t n,
                      uint32_t shared);

/* plan_facts.c */
/* the type of an input; NULL: no entry reads it */
const CertType *dt_certplan_input(const PlanWalk *walk, const char *name);
/* whether the store's initial value is that of the program */
bool dt_certplan_begins(PlanWalk *walk, const CertStore *store, const DtPlanStore *record);
/* whether all inputs and results in the plan are the program's, with their axes */
bool dt_certplan_records(PlanWalk *walk);

/* plan_entry.c */
/* the program's entry that runs now; NULL after a problem */
const CertEntry *dt_certplan_entry(PlanWalk *walk, uint64_t number);
bool dt_certplan_begin(PlanWalk *walk);                    /* reads note ENTRY */
/* The piece of the stage with this number and phase, in the run of the current entry. */
const CertEntry *dt_certplan_piece(PlanWalk *walk, uint64_t number, uint32_t phase);
bool dt_certplan_has_input(const PlanWalk *walk, const char *name, const PlanPlace *place);
bool dt_certplan_read(PlanWalk *walk, const DtPlanInst *inst);

/* plan_result.c */
/* the name in plans of the run that the entry belongs to, "grad" for "grad.f3" */
const char *dt_certplan_run_of(const CertEntry *entry);
extern const char *const dt_certplan_names[DT_PLAN_NO_RUN]; /* names of runs in plans */
/* the parsed name of the current entry of the plan */
DtPlanName dt_certplan_at(const PlanWalk *walk);
/* whether it is a piece of a run, whose results are complete only after the whole run */
bool dt_certplan_is_piece(const CertEntry *entry);
/* whether all entries have the result of that name at this place */
bool dt_certplan_agree(PlanWalk *walk, const char *name, const PlanPlace *place);
/* whether micro-batches add to the result */
bool dt_certplan_accumulates(const PlanWalk *walk, const CertResult *result);
/* Device axes over which a result is summed once the entry has run all micro-batches. */
uint32_t dt_certplan_sum_of(const PlanWalk *walk, const CertType *type, int store);
bool dt_certplan_place_result(PlanWalk *walk, const PlanFrame *frame, uint32_t i,
                              PlanPlace *ret_place);
/* records that the micro-batch was added to the entry's results */
bool dt_certplan_finish(PlanWalk *walk, PlanFrame *frame);
/* whether its results are in their places, for all micro-batches */
bool dt_certplan_complete(PlanWalk *walk, PlanFrame *frame);
/* records that n more micro-batches were added */
void dt_certplan_add_terms(PlanFrame *entry, int64_t n);
/* checks an instruction with note SUM */
bool dt_certplan_sum(PlanWalk *walk, const DtPlanInst *inst);

/* plan_pipe.c */
/* called before and after an entry is walked */
bool dt_certplan_enter(PlanWalk *walk, uint32_t entry);
bool dt_certplan_leave(PlanWalk *walk);
bool dt_certplan_steps(const PlanWalk *walk, uint32_t reg,
                       int64_t step); /* whether slots advance by at least 0 and stay within memory
                                       * for all values of the register */
/* the number of ring slots with which other pieces may leave off; 1 if there is no ring */
uint32_t dt_certplan_rings(PlanWalk *walk, const DtPlanEntry *entry);
bool dt_certplan_uses(PlanWalk *walk, int store,
                      bool written); /* records that the piece reads or writes its slot of the
                                      * store */
void dt_certplan_needs(PlanWalk *walk, const char *name,
                       const PlanPlace *place); /* records that it reads this result of its
                                                 * prologue */
/* A piece starts a collective. leaves: it is still in flight at the end of the piece.
 * dt_certplan_ended: a WAIT for it in the schedule of its stage. */
void dt_certplan_began(PlanWalk *walk, uint64_t event, bool leaves);
void dt_certplan_ended(PlanWalk *walk, uint64_t event);
/* A piece sums its terms over ranks in its last micro-batch; false: it has added nothing there. */
bool dt_certplan_parts(PlanWalk *walk, const PlanPlace *place);
void dt_certplan_adds(PlanWalk *walk, const PlanPlace *place, uint32_t sum, int store,
                      const CertType *type, bool adds); /* records that a piece adds to a result, or
                                                         * (false) sets it */
/* records a collective between stages, which must meet in the order of the text */
bool dt_certplan_across(PlanWalk *walk, const CertOp *op);
bool dt_certplan_may_write(PlanWalk *walk, const PlanPlace *place);
/* a region at the place that was summed over ranks; or NULL */
PlanRegion *dt_certplan_find_sum(PlanWalk *walk, const PlanPlace *place);
bool dt_certplan_has_called(const PlanWalk *walk);
bool dt_certplan_added(PlanWalk *walk, int store, const PlanPlace *at, PlanPlace *ret_place,
                       /* SUM of terms that pieces added */
                       uint32_t *ret_sum, const CertType **ret_type);
/* checks a CALL of a schedule */
bool dt_certplan_called(PlanWalk *walk, const DtPlanSchedule *item);
bool dt_certplan_share(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_move(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_repeat(PlanWalk *walk, uint32_t entry, uint32_t before,
                        const CertEntry *of); /* an entry whose function was walked before */
/* records what an instruction of a piece writes */
void dt_certplan_wrote(PlanWalk *walk, const PlanPlace *place);
/* Whether a piece finds a value that another piece gathered at the place, which it has not written
 * itself. */
bool dt_certplan_finds(PlanWalk *walk, PlanFrame *frame, uint32_t value, const PlanPlace *place);
/* whether another entry of the stage is the same piece */
bool dt_certplan_is_duplicate(const PlanWalk *walk, const CertEntry *of);
bool dt_certplan_queues(PlanWalk *walk);      /* checks all stages together */

/* The number of micro-batches. */
static inline uint32_t dt_certplan_n_micro(const PlanWalk *walk)
{
    return walk->first_device ? (uint32_t)walk->program->size[0] : 1;
}

/* plan_comm.c, on started collectives */
/* Records a started collective, whose event and time are not known yet; then the WAIT for it. */
bool dt_certplan_start(PlanWalk *walk, const DtPlanInst *inst, PlanStarted started);
bool dt_certplan_wait(PlanWalk *walk, const DtPlanInst *inst);
/* plan_pipe.c: whether the instruction is a message, or waits for one; whether the event is a
 * message's; handles a WAIT that plan_run.c executes. */
bool dt_certplan_is_message(const PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_has_message(const PlanWalk *walk, uint64_t event);
bool dt_certplan_came(PlanWalk *walk);
/* plan_result.c: checks a PART; records its end. */
bool dt_certplan_part(PlanWalk *walk, const DtPlanInst *inst);
void dt_certplan_summed(PlanWalk *walk, const PlanPlace *place, uint32_t sum);
/* whether nothing in flight is written there */
bool dt_certplan_is_still(PlanWalk *walk, const PlanPlace *written);
/* whether all that was started has ended */
bool dt_certplan_landed(PlanWalk *walk);

/* plan_comm.c: whether the instruction does the op between these places. */
bool dt_certplan_comm(PlanWalk *walk, const CertOp *op, const DtPlanInst *inst, const PlanPlace *to,
                      const PlanPlace *from);
const char *dt_certplan_reduction(const DtPlanInst *inst); /* the name of the reduction, for example
                                                            * "sum" */
bool dt_certplan_group(PlanWalk *walk, const DtPlanInst *inst, uint32_t mask, const char *stages);

/* plan_mask.c */
bool dt_certplan_mask(PlanWalk *walk); /* reads the mask of the attention that begins */
bool dt_certplan_guards(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_covered(const PlanWalk *walk); /* whether blocks cover all queries, at every
                                                 * point */
/* whether the value is zero wherever the mask hides */
bool dt_certplan_hides(const PlanWalk *walk, uint32_t value);

/* plan_tile.c */
bool dt_certplan_tiles(PlanWalk *walk);
bool dt_certplan_block(PlanWalk *walk);
/* cuts the place of a value to the block's part */
void dt_certplan_cut(const PlanWalk *walk, PlanPlace *place);
void dt_certplan_pack_block(const PlanWalk *walk,
                            PlanPlace *place); /* lays the block's part out without gaps; leaves the
                                                * address unchanged */
bool dt_certplan_is_output(const PlanWalk *walk, uint32_t value);
bool dt_certplan_is_of_block(const PlanWalk *walk, const CertOp *op);
bool dt_certplan_output(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, uint32_t flags,
                        PlanPlace *ret_place);
bool dt_certplan_place_output(PlanWalk *walk, uint32_t i, const DtPlanArg *arg);
/* records a write of blocks, if any are open, that is no output */
void dt_certplan_beside(PlanWalk *walk, const PlanPlace *written);
bool dt_certplan_untile(PlanWalk *walk); /* ends the outermost loop over blocks */

#endif
