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
 *   plan_contents.c what each piece of memory holds now
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

/* Memory of a rank, and the layout of a tensor there. The address is base plus, for each device
 * coordinate and each register, its value times the step in coord or reg. The value of a register
 * may be left open while an instruction is checked (loops over blocks of attention; micro-batch and
 * slots of a pipeline's piece). */
typedef struct PlanPlace {
    uint32_t arena;
    /* base in bytes; steps in bytes by register, and by mesh axis */
    int64_t base, reg[DT_PLAN_ARG_REGS], coord[CERT_MESH];
    int64_t bytes, size; /* bytes: from the first byte to the last one; size: bytes of an element */
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

/* What is known of a region of memory: it holds a value; a sum to which values are added; zeros; a
 * store or an input as it was when the entry began. */
typedef enum PlanRegionKind {
    PLAN_VALUE,
    PLAN_ADDED,
    PLAN_ZERO,
    PLAN_STORE,
    PLAN_INPUT
} PlanRegionKind;

/* A hole in zeroed memory, or in a store: a part that was written since. */
typedef struct PlanHole {
    PlanPlace place;
    struct PlanHole *next;
} PlanHole;

/* A region of memory with known contents (kind). summed PLAN_SUMMING: its reduction over ranks is
 * in flight. */
enum { PLAN_SUMMING = -1 };
typedef struct PlanRegion {
    PlanRegionKind kind;
    PlanPlace place;
    bool alive;
    uint32_t depth; /* how many loops over blocks of attention were open when it was written */
    /* bit set of the device axes over which instruction SUM or PART has reduced it; PLAN_SUMMING:
     * the reduction is in flight */
    uint32_t summed;
    uint64_t met; /* number of the last search of the index (PlanWalk.meeting) that found it */
    uint64_t stamp;          /* time of the write */
    /* range of its bytes for all coordinates and all values of registers left open */
    int64_t lo, hi;
    const DtPlanArg *arg;    /* the argument through which it was written; NULL: none */
    int64_t id;              /* of a STORE: its number in the text */
    const char *name;        /* of an INPUT: its name */
    PlanHole *holes;         /* of a ZERO or STORE: the parts that were written since */
    struct PlanRegion *next; /* the next region of the same value or store, or of another input */
    struct PlanRegion *const *of; /* the list of regions of the value that it holds; NULL: none */
} PlanRegion;

typedef DT_VEC(PlanRegion *) PlanList;

/* An index of the regions of an arena: for each cell of 2^shift bytes the regions that touch it,
 * and a list of those whose address may be anywhere. */
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

/* What a frame executes: an entry, a call, or one iteration of a loop's body. */
typedef enum PlanFrameKind { PLAN_ENTRY, PLAN_CALL, PLAN_BODY } PlanFrameKind;

/* One execution of a function: an entry for a micro-batch, a call, an iteration of a loop. */
typedef struct PlanFrame {
    PlanFrameKind kind;
    struct PlanFrame *outer, *next; /* next: in the same slot of the hash table */
    const CertFunc *func;
    const CertOp *op;       /* CALL, BODY: the call or loop in `outer` */
    const CertEntry *entry; /* ENTRY: the entry of the program */
    /* ENTRY: the micro-batch; PLAN_ANY: the frame is for values that are the same in all of them.
     * BODY: the iteration */
    int64_t number;
    const CertOp **maker;   /* by value: the op that makes it; NULL: an input */
    /* by value, the cached answer of dt_certplan_is_inline: 0 not computed yet, 1 no, 2 yes */
    uint8_t *made_anew;
    PlanRegion **regions;   /* by value: the first region that holds it */
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

/* A place that holds a value. added: as a sum over micro-batches; summed: as PlanRegion.summed. */
typedef struct PlanFound {
    PlanPlace place;
    bool added;
    uint32_t summed;
    uint64_t stamp;       /* time at which the contents were written */
    const DtPlanArg *arg; /* the argument through which they were written */
    const PlanRegion *of; /* the store that it is a part of; NULL: none */
} PlanFound;

/* Places of one value, as dt_certplan_find returns them. More than a few of them are in the walk's
 * scratch memory. Must not be copied, since `at` may point to `few`. */
typedef struct PlanFinds {
    uint32_t n, cap;
    PlanFound *at, few[8];
} PlanFinds;

/* Memory in which an entry keeps a result that other entries of the stage read by its name. */
struct PlanNamed {
    const char *name;
    uint32_t stage;
    PlanPlace place;
    struct PlanNamed *next;
};

/* A mask of attention: where(value, scores, -inf), or 0 for -inf. A point is a choice of the
 * coordinates and registers on which it depends. */
typedef struct PlanMask {
    uint32_t value;
    /* by value of the function: the value is 0 wherever the mask hides a score */
    const bool *zero;
    const struct Where *where;         /* the functions and calls around that value */
    /* bit set of the mesh axes on which the mask depends; by register: the loop on which it
     * depends */
    uint16_t axes;
    const CertLoop *loops[DT_PLAN_REGS];
    int64_t coord[CERT_MESH], reg[DT_PLAN_REGS]; /* the point that is being evaluated */
    /* values evaluated so far for this part, to bound the work */
    uint32_t visits;
    int64_t n;                         /* number of points */
    /* by point, half of the queries and half of the keys: the mask hides every key but the first */
    bool *hidden;
    int64_t *next; /* by point: the first query that no block has covered so far */
} PlanMask;

/* The attention in blocks that is being walked: its loops (n_loops, of which n_open are entered),
 * the axes of queries and keys, and its outputs. at, rows, width: first query, queries and keys of
 * the present block. */
typedef struct PlanTiles {
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
    uint32_t wrote[8];     /* by output: number of the last block that wrote it */
    /* mark: by value, the last block that made it; block: number of the present block, from 1 */
    uint32_t *mark, block;
    uint64_t began;        /* time at which this block began */
    PlanMask mask;         /* if causal: the mask by which blocks may leave out keys */
    /* the last block whose first instruction was seen, and the guards of that instruction */
    uint32_t guarded, n_guards;
    const DtPlanArg *guards;
} PlanTiles;

/* A range of bytes of an arena: of a place, for all coordinates and all values of registers left
 * open. */
typedef struct PlanRange {
    uint32_t arena;
    int64_t lo, hi;
} PlanRange;

/* A log entry for the analysis of repeating iterations: memory was read or tested for zero. stamp:
 * the time of the write that was found; clock: the time of the read. */
typedef struct PlanLog {
    uint64_t stamp, clock;
} PlanLog;

/* A loop over items at .. end of the schedule, with the record by which repeating iterations are
 * skipped (plan_repeat.c). */
typedef struct PlanRepeat {
    uint32_t at, end, reg;
    int64_t count, step;
    bool may;
    uint64_t begin;               /* time at which the loop began */
    DT_VEC(uint32_t) marks;       /* by iteration: its first entry in the log */
    DT_VEC(uint64_t) clocks;      /* by iteration: the time at which it began */
    /* iterations from .. to - 1 were skipped: the one that ran as number `from` now counts as
     * number `to` */
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
    /* not 0: it reduces the terms of micro-batches over these device axes (bit set) */
    uint32_t sum;
} PlanStarted;

/* A stacked result of a loop. Its slices may be sums in flight when the loop has ended. */
typedef struct PlanStack {
    PlanFrame *frame;     /* the frame that has the loop */
    const CertOp *op;
    const CertFunc *func; /* the loop's body */
    uint32_t number;      /* number of the result */
    /* waited: some of its slices were in flight when the loop ended. left: it was recorded as one
     * value, since its slices have a constant distance */
    bool waited, left;
    PlanRepeat repeat;
} PlanStack;

/* For an instruction: the note, and the entry of the plan, for which a check succeeded before. */
typedef struct PlanKnown {
    const uint8_t *note;
    const DtPlanEntry *entry;
} PlanKnown;

/* For an item of the schedule, a loop: whether its repeating iterations may be skipped in this
 * entry of the plan. */
typedef struct PlanWatched {
    const DtPlanEntry *entry;
    bool may;
} PlanWatched;

/* The state of the proof of a plan, and of the walk through the entry of the plan that is being
 * proved. */
typedef struct PlanWalk PlanWalk;
struct PlanWalk {
    DtArena *arena, *scratch; /* scratch: reset after each entry of the plan */
    const DtPlan *plan;
    const CertProgram *program;
    DtText *problem;
    /* mesh axes of the text before this one are time (micro-batches), not devices */
    uint32_t first_device;
    uint32_t stage;
    const DtPlanEntry *at_entry;
    const uint8_t *note, *end; /* the notes of the entry that were not read yet */
    /* by arena: the regions with known contents */
    PlanList memory[DT_ARENA_KINDS + DT_PLAN_N_SLOTS];
    PlanCells *cells[DT_ARENA_KINDS + DT_PLAN_N_SLOTS]; /* NULL: the arena has few regions */
    PlanList near;               /* the regions that the last search of the index found */
    uint64_t meeting;            /* number of the last search of the index */
    /* the frame to return to after a prefetched gather (note AHEAD), or after a copy of a result of
     * an earlier iteration (note BEHIND); NULL: none */
    PlanFrame *frame, *back;
    bool behind;                 /* back was set for a result of an earlier iteration */
    PlanFrame **frames;          /* all frames of this entry of the plan, by hash */
    uint32_t n_frames, most_frames;
    /* ENTRY frames of this entry of the plan, in the order of their first use */
    DT_VEC(PlanFrame *) entries;
    /* values of the registers */
    int64_t reg[DT_PLAN_REGS];
    bool taken[DT_PLAN_REGS];    /* by register: a loop that is being walked uses it */
    bool skips;                  /* a guard does not hold here: notes are read without effect */
    uint32_t guard; /* 1 + the register that the innermost WHEN around tests; 0: none */
    bool second;                 /* products with two forms execute the second one in this walk */
    PlanWrites *form; /* collects what a product's second form writes while the walk executes
                       * it; else NULL */
    /* inside the part of a piece that only runs in the last micro-batch */
    bool last;
    uint32_t depth;              /* how many loops over blocks of attention are open */
    /* how many loops over actions of a pipeline are open; plan_pipe.c knows their iterations */
    uint32_t actions;
    /* by register whose value is left open: how many values it may have; 0: it has a value */
    int64_t count[DT_PLAN_REGS];
    /* by register: how many loops over blocks are open including its own; 0: it is of no such
     * loop */
    uint32_t open[DT_PLAN_REGS];
    /* time: it grows with each write and each loop iteration */
    uint64_t clock;
    uint32_t watched;            /* how many open loops may skip repeating iterations */
    DT_VEC(PlanLog) log;         /* what iterations of these loops have read */
    uint64_t opened;             /* the time at which the outermost open loop over blocks began */
    DT_VEC(PlanHole *) holes;    /* holes in zeroed memory that were made inside that loop */
    /* collectives in flight */
    DT_VEC(PlanStarted) started;
    /* stacked results of loops with slices that were in flight */
    DT_VEC(PlanStack) stacks;
    PlanKnown *kernels;          /* by instruction: the note for which it was checked before */
    PlanWatched *loops;          /* by item of the schedule */
    uint64_t *added; /* by argument: the time at which it last added to earlier contents */
    uint64_t budget;             /* how many instructions may still be walked */
    /* the residues with which ops are compared; NULL: not needed yet (plan_number.c) */
    struct DtResidues *numbers;
    uint32_t ring;               /* slot of the ring buffer with which the piece begins */
    DT_VEC(PlanRange) written;   /* ranges of memory that this piece has written */
    bool whole;                  /* walks all iterations: for tests */
    uint32_t nested;             /* how many searches for places of values are nested */
    /* a trial run of a search, which finds out for which gather a piece relies on another piece */
    bool trial;
    PlanFrame *trial_frame;
    uint32_t trial_value;
    DT_VEC(struct PlanMaskMemo *) masks;
    /* record of the first check of the attention that is being walked; NULL: none is recorded */
    struct PlanTileMemo *memo;
    DT_VEC(struct PlanTileMemo *) memos;
    struct PlanMakers *makers[64]; /* by hash of the function: the ops that make its values */
    PlanTiles tiles;
    const DtPlanInst *inst;
    /* by number of a store in the text: its memory; bytes 0: it is not on this stage */
    PlanPlace *stores;
    /* by number of a store: the type of its memory if it has `terms`; NULL: the store's own type */
    const CertType **terms;
    /* by record of a store: 1 + the last stage on which a store uses it; 0: none does */
    uint32_t *has_record;
    bool *has_metric;     /* by record of a named result: an entry of the program has that result */
    bool *is_result;  /* by number of a store: it is a result of this entry of the plan */
    /* the regions of this entry of the plan, including dead ones, as lists: by number of a store;
     * of all inputs */
    PlanRegion **of_store, *inputs;
    /* the first of the inputs that must be unchanged at the end, in the list `inputs` */
    const PlanRegion *found;
    /* regions of the stage's stores at the beginning of an entry: by number of the store; in kept
     * sorted by address */
    PlanRegion *regions, **kept;
    uint32_t n_kept;
    DtCertSpan *spans; /* by instruction: where its note is (DtCertSpan); NULL: not asked for */
    uint32_t *seen;          /* by entry of the program: on how many stages the plan has it */
    /* by first item of the schedule: 1 + the last entry of the plan that begins there; 0: none was
     * walked */
    uint32_t *walked;
    /* whether an address depends on the stage: in this entry of the plan; by entry of the plan */
    bool moves, *moving;
    /* from this stage on, all stages have the same stores at the same places */
    uint32_t alike_from;
    struct PlanNamed *named; /* results of entries that later entries read by name */
    struct PlanPipe *pipe;
};

/* plan_note.c */
/* Appends the iterations and the micro-batch of a frame, for messages. */
void dt_certplan_say_frame(const PlanFrame *frame, DtText *text);
bool dt_certplan_fail(PlanWalk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t dt_certplan_word(PlanWalk *walk);
int64_t dt_certplan_signed(PlanWalk *walk);
/* Reads a word of the note that fits 32 bits; otherwise reports a problem and returns 0. */
uint32_t dt_certplan_number(PlanWalk *walk);
/* Reads the strides of a value of that type, if the flags of its note say that strides follow. */
bool dt_certplan_strides(PlanWalk *walk, const CertType *type, uint32_t flags, PlanPlace *place);
/* Reads the layout of a value: strides, and the dtype that memory has, if it is another one. False
 * after a problem. */
bool dt_certplan_layout(PlanWalk *walk, const CertType *type, uint32_t flags, PlanPlace *place);

/* Walks a product with two forms: checks its first form or, if walk->second, that its second form
 * writes the same. False after a problem. */
bool dt_certplan_forms(PlanWalk *walk, const DtPlanInst *inst);

/* plan_walk.c */
DtNoteKind dt_certplan_note(PlanWalk *walk);
bool dt_certplan_walk(PlanWalk *walk, const DtPlanEntry *entry, const DtPlanNote *notes);

/* plan_frame.c */
/* Returns the frame of this iteration, call or entry, which it creates if needed. what: the op, or
 * the entry. */
PlanFrame *dt_certplan_frame(PlanWalk *walk, PlanFrameKind kind, PlanFrame *outer,
                             const CertFunc *func, const void *what, int64_t number);
PlanFrame *dt_certplan_has_frame(const PlanWalk *walk, const PlanFrame *outer, const void *what,
                                 int64_t number);
void dt_certplan_renumber(PlanWalk *walk, PlanFrame *frame, int64_t number);
const CertType *dt_certplan_type(const PlanFrame *frame, uint32_t value);
/* Returns the op that makes a value of the current frame; NULL after a message. */
const CertOp *dt_certplan_op(PlanWalk *walk, uint64_t value);
/* Whether the value is computed from constants and positions alone, so that instructions compute it
 * themselves. */
bool dt_certplan_is_inline(const PlanFrame *frame, uint32_t value);
/* Returns the frame that records where the value is: gathers of stored parameters are the same in
 * all micro-batches, so a frame for all of them records them. */
PlanFrame *dt_certplan_home(PlanWalk *walk, const PlanFrame *frame, uint32_t value);
/* Appends a description of what is known of the memory at a place, for messages. */
void dt_certplan_say_there(PlanWalk *walk, const PlanPlace *place, DtText *text);
bool dt_certplan_is_ahead(const CertOp *op);
/* Whether func has the operands and results of op, as a call or as the body of a loop. */
bool dt_certplan_takes(const CertOp *op, const CertFunc *func, PlanFrameKind kind);
/* Reads note AHEAD: enters the iteration for which the next instructions gather. */
bool dt_certplan_ahead(PlanWalk *walk);
bool dt_certplan_behind(PlanWalk *walk); /* reads note BEHIND: enters an earlier iteration */
/* Whether the piece may rely on another piece to have gathered the value at the place. If so,
 * records that it does, and the value as present there. */
bool dt_certplan_assume(PlanWalk *walk, const PlanFrame *frame, uint32_t value,
                        const PlanPlace *place);

/* plan_repeat.c */
/* Logs, for the analysis of repeating iterations, that an instruction has read memory that was
 * written at the time `stamp`. */
void dt_certplan_log(PlanWalk *walk, uint64_t stamp);
void dt_certplan_watch(PlanWalk *walk, PlanRepeat *repeat, uint32_t at, uint32_t end);
/* Called when an iteration begins: marks its first entry of the log. */
void dt_certplan_turn(PlanWalk *walk, PlanRepeat *repeat);
/* Returns how many iterations are skipped after iteration t, and moves what that one has written
 * accordingly. */
int64_t dt_certplan_repeats(PlanWalk *walk, PlanRepeat *repeat, int64_t t);
/* Called when the loop has ended. */
void dt_certplan_watched(PlanWalk *walk, const PlanRepeat *repeat);

/* plan_place.c */
int64_t dt_certplan_local(const PlanWalk *walk, const CertType *type, uint32_t axis);
int64_t dt_certplan_size(const char *dtype);
void dt_certplan_dense(const PlanWalk *walk, const CertType *type,
                       PlanPlace *place); /* lays the tensor out without gaps; leaves the address
                                           * unchanged */
/* Sets the place's axes from number `from` on to those of the type. */
void dt_certplan_take_axes(const PlanWalk *walk, const CertType *type, uint32_t from,
                           PlanPlace *place);
/* Lays the axes from number `from` on out without gaps, the last one with this stride. Returns the
 * stride that the next outer axis would have. */
int64_t dt_certplan_pack(PlanPlace *place, uint32_t from, int64_t stride);
/* Gives place the address of `address`, and keeps its own length. */
void dt_certplan_put(PlanPlace *place, const PlanPlace *address);
void dt_certplan_arg(const PlanWalk *walk, const DtPlanArg *arg,
                     PlanPlace *ret_place); /* the address and the length of an argument */
/* Like dt_certplan_arg, but with all registers left open. */
void dt_certplan_raw(const PlanWalk *walk, const DtPlanArg *arg, PlanPlace *ret_place);
/* Adds to coord[m], or for an axis of time to a register, the distance `step` between the parts of
 * neighbours along mesh axis m. A mesh axis of one rank has coordinate 0, so a factor there in an
 * instruction does not matter. */
void dt_certplan_dealt(const PlanWalk *walk, uint32_t m, int64_t step, int64_t *reg,
                       int64_t *coord);
bool dt_certplan_spans(PlanPlace *place);   /* sets the number of bytes; false: elements overlap */
/* Whether address and length are equal. */
bool dt_certplan_same(const PlanPlace *a, const PlanPlace *b);
/* Whether address, length and the layout of the tensor are equal. */
bool dt_certplan_alike(const PlanPlace *a, const PlanPlace *b);
/* Returns the number of the axis, or -1. */
int dt_certplan_axis(const PlanPlace *place, const char *axis);
/* Returns the stride of the axis; 0: there is no such axis. */
int64_t dt_certplan_stride(const PlanPlace *place, const char *axis);
/* Sorts n indices, and joins neighbours that are contiguous in all tensors. Returns how many are
 * left. */
uint32_t dt_certplan_runs(PlanIndex *at, uint32_t n);
/* Whether the record's strides walk A, B and C as the contraction of tensors in these places
 * does. */
bool dt_certplan_is_product(const DtPlanGemm *gemm, const PlanPlace *const *places);
bool dt_certplan_meets(const PlanWalk *walk, const PlanPlace *a,
                       const PlanPlace *b); /* whether the places may have a byte in common */
bool dt_certplan_contains(const PlanWalk *walk, const PlanPlace *outer, const PlanPlace *inner);

/* Returns the contraction among the ops if the ops are exactly those of a GEMM record with an
 * epilogue (plan_epilogue.c); else NULL. */
const CertOp *dt_certplan_joined(PlanWalk *walk, const DtPlanGemm *g, const CertOp *const *ops,
                                 uint32_t n_ops, const PlanProduct *p);

/* Whether the ops compute the attention that the record describes (plan_attend.c). */
bool dt_certplan_attends(PlanWalk *walk, const PlanAttend *p);
/* Returns 1 if the query sees all keys from .. to, equally on all ranks, 0 if it sees none, and -1
 * if neither is known (plan_mask.c). value: the mask, in the current frame. */
int dt_certplan_sees(PlanWalk *walk, uint32_t value, const char *queries, const char *keys,
                     int64_t query, int64_t from, int64_t to);

/* plan_find.c */
bool dt_certplan_is_view(const CertOp *op);
/* Makes place, that of a value of type x, the part of it that a rank has under type y, which more
 * mesh axes split. False: there is no such part. */
bool dt_certplan_run(const PlanWalk *walk, const CertType *x, const CertType *y, PlanPlace *place);
/* Fills ret_found with the places that hold the value now, and returns their number. at: only
 * places with that address are needed, others may be left out; NULL: all are. */
uint32_t dt_certplan_find(PlanWalk *walk, const PlanFrame *frame, uint32_t value,
                          const PlanPlace *at, PlanFinds *ret_found);

/* plan_memo.c skips the check of attention in blocks that equals an earlier one. begin: starts to
 * record a check. `note`: the first note after TILES, which identifies it. */
void dt_certmemo_begin(PlanWalk *walk, const uint8_t *note);
void dt_certmemo_read(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, const PlanPlace *place,
                      int64_t base);
void dt_certmemo_zero(PlanWalk *walk, uint64_t stamp);
void dt_certmemo_output(PlanWalk *walk, const DtPlanArg *arg);
void dt_certmemo_end(PlanWalk *walk, uint32_t from, uint32_t to);
/* Skips the attention if it equals an earlier one, with the same effects. False: it must be
 * walked. */
bool dt_certmemo_repeats(PlanWalk *walk, const uint8_t *note, uint32_t at, uint32_t end);

/* plan_memory.c */
void dt_certplan_hull(const PlanWalk *walk, const PlanPlace *place, int64_t *ret_lo,
                      int64_t *ret_hi);
void dt_certplan_push_region(PlanWalk *walk, PlanRegion *region);
void dt_certplan_forget_regions(PlanWalk *walk); /* called when an entry begins */
/* Makes holes in zeroed memory valid for all values of the register. */
void dt_certplan_widen(PlanWalk *walk, uint32_t reg);
/* Returns a list of all live regions that may overlap the place, and perhaps others. It is valid
 * until the next call. */
const PlanList *dt_certplan_near(PlanWalk *walk, const PlanPlace *place);

/* plan_contents.c */
PlanRegion *dt_certplan_hold(PlanWalk *walk, PlanRegionKind kind, const PlanPlace *place);
void dt_certplan_hold_store(PlanWalk *walk, int64_t store, const PlanPlace *place);
PlanRegion *dt_certplan_hold_input(PlanWalk *walk, const char *name, const PlanPlace *place);
PlanRegion *dt_certplan_define(PlanWalk *walk, PlanFrame *frame, uint32_t value,
                               const PlanPlace *place, bool added);
/* Like dt_certplan_define, for memory that an instruction writes through that argument. */
void dt_certplan_define_by(PlanWalk *walk, PlanFrame *frame, uint32_t value, const PlanPlace *place,
                           bool added, const DtPlanArg *arg);
void dt_certplan_spoil(PlanWalk *walk, const PlanPlace *written,
                       bool ahead); /* records that the contents of the place are not known any
                                     * more */
/* Like dt_certplan_spoil, but only contents that were written before that time are forgotten. */
void dt_certplan_spoil_old(PlanWalk *walk, const PlanPlace *written, uint64_t before);
/* Whether the place is zero, and was zeroed when at most `depth` loops over blocks were open.
 * fresh: each iteration of the loops opened since then finds zeros, since the place is another
 * one. */
/* Whether a part of the region was written since that the place may overlap. */
bool dt_certplan_in_hole(const PlanWalk *walk, const PlanRegion *region, const PlanPlace *place);
bool dt_certplan_is_zero(PlanWalk *walk, const PlanPlace *place, uint32_t depth, bool fresh);
/* Whether a sum overlaps the place to which something was added when at most `depth` loops over
 * blocks were open. */
bool dt_certplan_is_added(PlanWalk *walk, const PlanPlace *place,
                          uint32_t depth);
/* Whether the argument's memory holds the value; *ret_place is then its place there. */
bool dt_certplan_is_there(PlanWalk *walk, uint32_t value, const DtPlanArg *arg,
                          PlanPlace *ret_place);

/* plan_integer.c */
/* Returns by how much the argument grows from stage to stage. */
int64_t dt_certplan_stage_step(const PlanWalk *walk, const DtPlanArg *arg);
bool dt_certplan_integer(PlanWalk *walk, const DtPlanArg *arg);

/* plan_inst.c */
/* Reads the rest of the note of a written argument, and sets write->place to the memory that
 * receives the value. False after a problem. */
bool dt_certplan_where(PlanWalk *walk, PlanWrite *write);
/* Checks an instruction, and records what it writes. kind: that of its note, whose other words are
 * read next. An instruction without a note may do nothing. False after a problem. */
bool dt_certplan_inst(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind);
/* Reads the note of a gather that a guard skips. */
bool dt_certplan_skip(PlanWalk *walk, const DtPlanInst *inst, DtNoteKind kind);

/* Returns the memory of a named result. */
static inline PlanPlace dt_certplan_metric(const DtPlanMetric *metric)
{
    return (PlanPlace){.arena = metric->arena, .base = metric->offset, .bytes = metric->bytes};
}

/* plan_store.c: finds the memory of all stores of the stage (walk->stores). False after a
 * problem. */
bool dt_certplan_stores(PlanWalk *walk);
bool dt_certplan_has_slots(const CertStore *store);
extern const char *const dt_certplan_kinds[]; /* names of kinds of stores, by DtPlanStoreKind */
/* Returns the first iteration that the store has on this stage. */
int64_t dt_certplan_first(const PlanWalk *walk, const DtPlanStore *record);
/* Whether the n records of axes from `first` on match the type. Along the first `shared` axes the
 * type may have only some of the record's iterations. */
bool dt_certplan_axes(const PlanWalk *walk, const CertType *type, uint32_t first, uint32_t n,
                      uint32_t shared);

/* plan_facts.c */
/* Returns the type of an input; NULL: no entry reads it. */
const CertType *dt_certplan_input(const PlanWalk *walk, const char *name);
/* Whether the store's initial value in the plan is that of the program; reports a problem if
 * not. */
bool dt_certplan_begins(PlanWalk *walk, const CertStore *store, const DtPlanStore *record);
/* Checks that all inputs and named results in the plan are the program's, with their axes. */
bool dt_certplan_records(PlanWalk *walk);

/* plan_entry.c */
/* Returns the program's entry that runs now; NULL after a problem. */
const CertEntry *dt_certplan_entry(PlanWalk *walk, uint64_t number);
/* Reads note ENTRY: begins the frame of the entry, and marks its inputs. */
bool dt_certplan_begin(PlanWalk *walk);
/* Returns the piece of the stage with this number (from 0) in the run of the current entry; phase
 * 0, 1, 2: its part F, B, W. NULL: there is none. */
const CertEntry *dt_certplan_piece(PlanWalk *walk, uint64_t number, uint32_t phase);
bool dt_certplan_has_input(const PlanWalk *walk, const char *name, const PlanPlace *place);
bool dt_certplan_read(PlanWalk *walk, const DtPlanInst *inst);

/* plan_result.c */
/* Returns the name in plans of the run that the entry belongs to: "step" for "grad.f3". */
const char *dt_certplan_run_of(const CertEntry *entry);
extern const char *const dt_certplan_names[DT_PLAN_NO_RUN]; /* names of runs in plans */
/* Returns the parsed name of the current entry of the plan. */
DtPlanName dt_certplan_at(const PlanWalk *walk);
/* Whether the entry is a piece of a run, whose results are complete only after the whole run. */
bool dt_certplan_is_piece(const CertEntry *entry);
/* Checks that all entries of the stage have the result of that name at this place. */
bool dt_certplan_agree(PlanWalk *walk, const char *name, const PlanPlace *place);
/* Whether micro-batches add to the result. */
bool dt_certplan_accumulates(const PlanWalk *walk, const CertResult *result);
/* Returns the bit set of device axes over which a result is summed once the entry has run all
 * micro-batches. */
uint32_t dt_certplan_sum_of(const PlanWalk *walk, const CertType *type, int store);
bool dt_certplan_place_result(PlanWalk *walk, const PlanFrame *frame, uint32_t i,
                              PlanPlace *ret_place);
/* Checks that the micro-batch was added to the entry's results, and counts its terms. False after a
 * problem. */
bool dt_certplan_finish(PlanWalk *walk, PlanFrame *frame);
/* Checks that the results are in their places, with the terms of all micro-batches. False after a
 * problem. */
bool dt_certplan_complete(PlanWalk *walk, PlanFrame *frame);
/* Counts n more micro-batches that were added to each accumulated result. */
void dt_certplan_add_terms(PlanFrame *entry, int64_t n);
/* Checks an instruction with note SUM: a reduction of complete sums over ranks. */
bool dt_certplan_sum(PlanWalk *walk, const DtPlanInst *inst);

/* plan_pipe.c */
/* Called before and after an entry is walked; false after a problem. */
bool dt_certplan_enter(PlanWalk *walk, uint32_t entry);
bool dt_certplan_leave(PlanWalk *walk);
/* Whether slots advance by at least 0, and stay within their memory for all values of the
 * register. */
bool dt_certplan_steps(const PlanWalk *walk, uint32_t reg,
                       int64_t step);
/* Returns the number of slots of the ring buffer with which other pieces may end; 1: the piece has
 * no ring buffer. */
uint32_t dt_certplan_rings(PlanWalk *walk, const DtPlanEntry *entry);
bool dt_certplan_uses(PlanWalk *walk, int store,
                      bool written); /* records that the piece reads or writes its slot of the
                                      * store */
void dt_certplan_needs(PlanWalk *walk, const char *name,
                       const PlanPlace *place); /* records that it reads this result of its
                                                 * prologue */
/* began: a piece starts a collective; leaves: it is still in flight at the end of the piece. ended:
 * the schedule of the stage waits for it. */
void dt_certplan_began(PlanWalk *walk, uint64_t event, bool leaves);
void dt_certplan_ended(PlanWalk *walk, uint64_t event);
/* Records that the piece sums its terms over ranks in the last micro-batch. False: the piece adds
 * nothing at that place. */
bool dt_certplan_parts(PlanWalk *walk, const PlanPlace *place);
void dt_certplan_adds(PlanWalk *walk, const PlanPlace *place, uint32_t sum, int store,
                      const CertType *type, bool adds); /* records that a piece adds to a result, or
                                                         * (false) sets it */
/* Records a collective between stages. Stages must reach these in the order of the text, so that
 * matching ones meet. */
bool dt_certplan_across(PlanWalk *walk, const CertOp *op);
bool dt_certplan_may_write(PlanWalk *walk, const PlanPlace *place);
/* Returns a region at the place that was summed over ranks; NULL: there is none. */
PlanRegion *dt_certplan_find_sum(PlanWalk *walk, const PlanPlace *place);
bool dt_certplan_has_called(const PlanWalk *walk);
bool dt_certplan_added(PlanWalk *walk, int store, const PlanPlace *at, PlanPlace *ret_place,
                       /* Finds, for a SUM over ranks, the result to which pieces have added: its
                        * place, type and the device axes. */
                       uint32_t *ret_sum, const CertType **ret_type);
/* Checks a CALL of a schedule: that the piece may run here. */
bool dt_certplan_called(PlanWalk *walk, const DtPlanSchedule *item);
bool dt_certplan_share(PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_move(PlanWalk *walk, const DtPlanInst *inst);
/* Checks an entry whose function was walked before, as entry `before`. */
bool dt_certplan_repeat(PlanWalk *walk, uint32_t entry, uint32_t before,
                        const CertEntry *of);
/* Records the memory that an instruction of a piece writes. */
void dt_certplan_wrote(PlanWalk *walk, const PlanPlace *place);
/* Whether a piece relies on a gathered value at the place, which another piece leaves there and
 * which it has not overwritten itself. Records that it does. */
bool dt_certplan_finds(PlanWalk *walk, PlanFrame *frame, uint32_t value, const PlanPlace *place);
/* Whether another entry of the plan on this stage is the same piece. */
bool dt_certplan_is_duplicate(const PlanWalk *walk, const CertEntry *of);
bool dt_certplan_queues(PlanWalk *walk);      /* checks the schedules of all stages together */

/* Returns the number of micro-batches. */
static inline uint32_t dt_certplan_n_micro(const PlanWalk *walk)
{
    return walk->first_device ? (uint32_t)walk->program->size[0] : 1;
}

/* plan_comm.c, on started collectives */
/* start: records a started collective, whose event and time it sets. wait: ends it at the WAIT for
 * its event. */
bool dt_certplan_start(PlanWalk *walk, const DtPlanInst *inst, PlanStarted started);
bool dt_certplan_wait(PlanWalk *walk, const DtPlanInst *inst);
/* plan_pipe.c. is_message: whether the instruction sends, receives, or waits for a message.
 * has_message: whether the event is a message's. came: follows a WAIT that plan_run.c executes. */
bool dt_certplan_is_message(const PlanWalk *walk, const DtPlanInst *inst);
bool dt_certplan_has_message(const PlanWalk *walk, uint64_t event);
bool dt_certplan_came(PlanWalk *walk);
/* plan_result.c. part: checks a PART. summed: records that a sum in flight has ended. */
bool dt_certplan_part(PlanWalk *walk, const DtPlanInst *inst);
void dt_certplan_summed(PlanWalk *walk, const PlanPlace *place, uint32_t sum);
/* Whether no collective in flight reads or writes the place; reports a problem otherwise. */
bool dt_certplan_is_still(PlanWalk *walk, const PlanPlace *written);
/* Whether every started collective has ended; reports a problem otherwise. */
bool dt_certplan_landed(PlanWalk *walk);

/* plan_comm.c: checks that the instruction moves the blocks that op moves between these places. */
bool dt_certplan_comm(PlanWalk *walk, const CertOp *op, const DtPlanInst *inst, const PlanPlace *to,
                      const PlanPlace *from);
/* Returns the name of the reduction, for example "sum". */
const char *dt_certplan_reduction(const DtPlanInst *inst);
bool dt_certplan_group(PlanWalk *walk, const DtPlanInst *inst, uint32_t mask, const char *stages);

/* plan_mask.c */
/* Reads the mask of the attention that begins (walk->tiles.mask). */
bool dt_certplan_mask(PlanWalk *walk);
bool dt_certplan_guards(PlanWalk *walk, const DtPlanInst *inst);
/* Whether blocks cover all queries at every point. */
bool dt_certplan_covered(const PlanWalk *walk);
/* Whether the value is zero wherever the mask hides a score. */
bool dt_certplan_hides(const PlanWalk *walk, uint32_t value);

/* plan_tile.c */
bool dt_certplan_tiles(PlanWalk *walk);
bool dt_certplan_block(PlanWalk *walk);
/* Narrows the place of a value to the present block's part. */
void dt_certplan_cut(const PlanWalk *walk, PlanPlace *place);
/* Lays the block's part of a value out without gaps; leaves the address unchanged. */
void dt_certplan_pack_block(const PlanWalk *walk,
                            PlanPlace *place);
bool dt_certplan_is_output(const PlanWalk *walk, uint32_t value);
bool dt_certplan_is_of_block(const PlanWalk *walk, const CertOp *op);
bool dt_certplan_output(PlanWalk *walk, uint32_t value, const DtPlanArg *arg, uint32_t flags,
                        PlanPlace *ret_place);
bool dt_certplan_place_output(PlanWalk *walk, uint32_t i, const DtPlanArg *arg);
/* Records a write of a block that is no output, if a loop over blocks is open. */
void dt_certplan_beside(PlanWalk *walk, const PlanPlace *written);
bool dt_certplan_untile(PlanWalk *walk); /* ends the outermost loop over blocks */

#endif
