/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside codegen: how a function becomes a stream of instructions and loops over buffers,
 * whose addresses are chosen afterwards.
 *
 *   entry.c       arenas, stores, inputs, the entries
 *   place.c       the memory of values: views, buffers, live ranges
 *   scope.c       the functions being emitted, and who reads their values
 *   output.c      the memory that ops write to
 *   inst.c        instructions
 *   copy.c        copies of values into other layouts
 *   emit.c        ops to instructions, loops
 *   bucket.c      tensors that are packed into buckets
 *   concat.c      concatenations
 *   exchange.c    collectives
 *   gemm.c        contractions to GEMM descriptors; epilogue.c: bias, activation and casts that
 *                 a GEMM does as well; instead.c: the same by kernels, its second form
 *   attend.c      streaming functions (attention) in tiles; attend_parts.c: the roles of their
 *                 ops; attend_kernel.c: all of it as one kernel of a GPU
 *   untiled.c     streaming functions that get no tiles
 *   mask.c        proves that scores hidden by a mask do not change the result
 *   visible.c     how many keys a mask leaves visible to a block of queries
 *   replay.c      reuses instructions that were emitted before, with other buffers
 *   ringbuf.c     conditions, and ring buffers of prefetched gathers
 *   event.c       events, and the ring buffer slot that an instruction means
 *   inflight.c    asynchronous reductions in flight at the end of an iteration
 *   launch.c      kernels to instructions
 *   note.c        notes that tie each instruction to an op of the reference program, for the proof
 *   pipeline.c    the entries of stages, channels, schedules
 *   slots.c       memory that is kept per micro-batch in flight
 *   finish.c      offsets, bodies, schedules, records of the plan
 *   stacked.c     records of the values that loops stack, for reports
 *   remarks.c     further records for reports
 *
 * What differs by target is in its table (target.h) and its folder. */
#ifndef DT_CODEGEN_EMIT_H
#define DT_CODEGEN_EMIT_H

#include "codegen/codegen.h"
#include "codegen/kernel.h"
#include "codegen/target.h"
#include "ir/joined.h"
#include "ir/pipeline.h"
#include "ir/product.h"
#include "plan/notes.h"

/* A piece of a rank's memory. Temporaries are in frames (ir/frame.h). Buffers that code generation
 * adds (inside attention, and copies that an op may need) get an offset in the gaps between frames
 * when the entry is complete. */
typedef struct DtBuffer {
    const char *name;
    int64_t bytes;
    bool fixed;            /* it lives as long as the plan runs; false: a temporary */
    bool framed;           /* pass `memory` chose its offset */
    uint32_t arena;        /* DtPlanArenaKind */
    int64_t offset;        /* valid if fixed or framed, or once the entry is complete */
    /* first and last position in the stream of an item that touches the buffer; first > last: no
     * item does */
    uint32_t first, last;
} DtBuffer;

/* The memory of a value: a view of a buffer, and the bytes by which its address grows with each
 * register of the schedule */
typedef struct DtPlace {
    bool set;
    DtView view;
    int64_t reg[DT_PLAN_ARG_REGS];
    int64_t coord[DT_MAX_MESH]; /* the bytes by which the address grows with the rank's coordinate
                                 * on each mesh axis of devices */
} DtPlace;

typedef struct DtEArg {
    uint8_t kind;          /* DtPlanArgKind */
    bool written;
    uint32_t buffer;
    int64_t base, bytes;
    int64_t reg[DT_PLAN_ARG_REGS];
    uint8_t coord_axis[DT_PLAN_COORDS];
    int64_t coord[DT_PLAN_COORDS];
} DtEArg;

/* An element of the stream that an entry becomes: an instruction, or a loop or condition around
 * instructions. */
typedef enum DtItemKind {
    DT_ITEM_INST,
    DT_ITEM_LOOP,
    DT_ITEM_END,
    DT_ITEM_SCHED,
    DT_ITEM_CLOSE
} DtItemKind;
typedef struct DtItem {
    DtItemKind kind;
    DtPlanInst inst;       /* args counted from DtEmit.args */
    DtPlanSchedule loop;   /* SCHED: a SET or CALL, or a WHEN that a CLOSE ends */
    DtSpan span;
    const char *path, *text;
    /* INST with guards: the fraction of points (ranks, iterations) at which it runs (visible.c);
     * else 1 */
    double share;
    bool instead;          /* INST: part of the second form of the product before it */
} DtItem;

/* The memory in which a reader wants a result, so that whatever computes the result writes it
 * there. old: the value whose memory it overwrites, NULL if nobody still reads the old contents. */
typedef struct DtWanted {
    bool set, accumulate;
    /* the memory is part of a bucket, for an op `pack`, which is the value's only reader if it
     * accumulates */
    bool packed;
    DtPlace place;
    const DtValue *old;
} DtWanted;

/* The readers of a value. */
typedef struct DtRead {
    uint32_t n;            /* reads by ops */
    const DtOp *done;      /* the `done` that waits for it; NULL: it has none in this function */
} DtRead;

/* A function being emitted, with the memory of its values. */
typedef struct DtScope {
    const struct DtScope *parent;
    const DtFunc *func;
    DtPlace *places;       /* by value id */
    const DtWanted **wanted; /* by value id; NULL: no reader wants it in a certain place */
    const DtWanted *results; /* of a loop's body: by result, the memory in which the loop wants
                              * it */
    uint32_t *number;      /* by value id: the value's number in the final program, for notes */
    DtRead *reads;         /* by value id; NULL until it is needed */
    const DtLoop *loop;    /* NULL: the function is an entry, a branch or called */
    const DtOp *op;        /* the loop, call, when or fused op; NULL: an entry */
    /* framed: the function has a frame, which begins at byte `base` of the arena of temporaries */
    bool framed;
    int64_t base;
    uint32_t reg;          /* the register of the loop */
    const char *path;      /* path of the instance, for rng sites */
} DtScope;

typedef struct DtEInput {
    const char *name;
    DtPlace place;
    const DtType *type;
} DtEInput;

/* Arenas: one of each kind; with a pipeline two more, for memory that is kept for each micro-batch
 * in flight. */
enum { DT_EMIT_ARENAS = DT_ARENA_KINDS + DT_PLAN_N_SLOTS };

/* A body of the plan; equal bodies are stored once. */
typedef struct DtEBody {
    uint64_t hash;
    uint32_t body, n_args;
} DtEBody;

typedef struct DtEAxes {
    const DtType *type;
    int64_t first, step, whole;
    uint32_t at;
} DtEAxes;

typedef struct DtPipelineEmit DtPipelineEmit; /* pipeline.c */

/* An iota that attention makes for a block along a split axis: its positions count from the rank's
 * first one. */
typedef struct DtOrigin {
    const DtOp *iota;
    const DtAxis *axis;
} DtOrigin;

/* Communication that was started and not waited for yet. value: the result, as an op of the
 * function being emitted. */
typedef struct DtStarted {
    const DtValue *value;
    uint32_t event;        /* number */
    uint32_t to, from;     /* buffers */
} DtStarted;

/* The events of a ring buffer's slots, or of a late sum. `of` says what they are for. NULL: gather
 * number `gather` into each slot. A loop's body: the reductions that read the slot and make result
 * number `gather`. A loop or function: the late sum in it. */
typedef struct DtSlotEvents {
    const void *of;
    uint32_t gather, slots, first;
} DtSlotEvents;

typedef struct DtEmit {
    const DtProgram *program;
    const DtModule *module;
    const DtCodegenOptions *options;
    /* order_as: the target in whose order rows are added up */
    const DtTargetRow *target, *order_as;
    DtPlanBuilder *plan;
    DtArena *arena;
    /* freed after the body of an entry: scopes, kernels being built */
    DtArena *scratch;
    uint64_t seed;
    uint32_t n_micro;
    DT_VEC(DtBuffer) buffers;
    DT_VEC(DtEArg) args;
    DT_VEC(DtItem) items;
    /* conditions under which the instructions emitted at present run */
    DtEArg guards[2];
    uint32_t n_guards;
    double share;                      /* with guards: the fraction of points at which they hold */
    DtText notes, all_notes;           /* of the entry being emitted; of all entries */
    /* the value that the kernel being emitted copies; NULL: the kernel computes ops */
    const DtValue *copied;
    uint32_t entry_buffer;             /* first buffer of the entry being emitted */
    DtPlanArenaKind temporaries;       /* the arena of that entry's temporaries */
    /* 1 + position of the LOOP over micro-batches that is open; 0: none */
    uint32_t micro_loop;
    int64_t arena_bytes[DT_EMIT_ARENAS]; /* with a pipeline: the bytes of the stage being emitted */
    int32_t stage;                     /* the stage being emitted; 0 without a pipeline */
    /* the first of the stages that share these instructions (a class), for which the loops'
     * iterations are written */
    int32_t class_first;
    bool in_class;                     /* later stages of its class run the same entry */
    double trips;                      /* how often a step runs the entry being emitted */
    DtPipelineEmit *pipeline;          /* NULL without one */
    DT_VEC(DtEBody) bodies;
    DT_VEC(struct DtReplayed *) replayed; /* replay.c */
    DtPlace *stores;                   /* by store index */
    int32_t *store_record;             /* by store index: number in the plan */
    bool *is_bucket;                   /* by store index: other stores are parts of it */
    /* by store index: the store is a copy of a parameter that an earlier stage holds too */
    bool *is_copy;
    DT_VEC(DtEAxes) axes;              /* records of axes; equal types share one */
    DT_VEC(DtEInput) inputs;
    DT_VEC(DtOrigin) origins;          /* of the iotas made for blocks of attention */
    /* a block of attention is being emitted: notes omit the strides of arguments that are read */
    bool in_blocks;
    DT_VEC(DtKDraw) draws;             /* the draws made for blocks of attention */
    DT_VEC(uint64_t) kernel_hashes;    /* hashes of kernel texts: equal texts share one kernel */
    DT_VEC(const char *) kernel_texts;
    DT_VEC(DtSpan) kernel_spans;
    /* 1 + number of the kernel that the next launch reuses; 0: its text is made, and an equal
     * kernel looked for */
    uint32_t like;
    /* later launches will have the same text, with other addresses */
    bool repeats;
    /* 1 + number of the kernel of the last launch; 0: not known */
    uint32_t launched;
    /* streaming functions for which a lint has reported that they get no kernel or no tiles */
    DT_VEC(const DtFunc *) refused;
    /* contractions for which a lint has reported that no library computes them */
    DT_VEC(DtSpan) no_products;
    const DtKAttention *attention;     /* set if the next launch is attention, else NULL */
    /* the axis of the rows of the next launch; NULL: its ops decide */
    const char *rows;
    uint32_t *span_slots, n_span_slots; /* hash table of finish.c that finds equal spans */
    DT_VEC(DtStarted) started;         /* exchange.c */
    DT_VEC(DtSlotEvents) slot_events;
    DT_VEC(bool) events_taken;         /* by number */
    DtScope *scope;
} DtEmit;

/* Number of the first mesh axis of devices; the plan's axes count from it. An axis of time, if
 * there is one, comes before. */
static inline uint32_t dt_emit_first_device(const DtMesh *mesh)
{
    return mesh->n && mesh->axes[0].is_time ? 1 : 0;
}

/* place.c */
int64_t dt_place_bytes(const DtEmit *e, const DtType *type); /* bytes of a rank's part */
/* rounded up to a multiple of DT_PLAN_ALIGN */
int64_t dt_place_aligned(int64_t bytes);
/* Adds a temporary buffer. */
uint32_t dt_place_buffer(DtEmit *e, const char *name, int64_t bytes);
/* records that the next item touches the buffer */
void dt_place_touch(DtEmit *e, uint32_t buffer);
/* Adds a buffer at the end of an arena. */
uint32_t dt_place_fixed(DtEmit *e, const char *name, DtPlanArenaKind arena, int64_t bytes);
DtPlace dt_place_dense(DtEmit *e, const DtType *type, uint32_t buffer);
DtPlace dt_place_temporary(DtEmit *e, const DtType *type, const char *name);
/* The value's own memory in the layout DtValue.lies: in the frame of the function, or a
 * temporary. */
DtPlace dt_place_own(DtEmit *e, const DtValue *value);
uint32_t dt_place_framed(DtEmit *e, const DtValue *value, const char *name, int64_t base,
                         int64_t bytes);
/* the value's place, looked up in the current scope; NULL if it has none there */
DtPlace *dt_place_find(DtEmit *e, const DtValue *value);
void dt_place_set(DtEmit *e, const DtValue *value, DtPlace place);
/* Whether the place is contiguous, in the type's own order. */
bool dt_place_is_dense(const DtPlace *place, const DtType *type, const DtMesh *mesh);
bool dt_place_same(const DtPlace *a, const DtPlace *b);
/* Appends bytes to key that are equal for places that differ in their buffers only. (A DtPlace has
 * undefined padding between its fields, so its own bytes do not serve.) */
void dt_place_key(const DtPlace *place, DtText *key);
/* whether the places share no byte, whatever the values of the registers */
bool dt_place_apart(const DtPlace *a, const DtPlace *b);
/* The result of an axis op as a view of its operand; false if no strides describe it. */
bool dt_place_view_of(DtEmit *e, const DtOp *op, const DtPlace *in, DtPlace *ret_place);
/* The part of a value that belongs to a rank if its type is `to`, which mesh axes split more
 * than `from`, its type at `place`. */
DtPlace dt_place_run(DtEmit *e, const DtPlace *place, const DtType *from, const DtType *to);
/* The slice of a stacked operand or result of a loop for the iteration whose number is in the
 * register. */
DtPlace dt_place_slice(DtEmit *e, const DtOp *loop, DtPlace place, uint32_t reg);
DtEArg dt_place_arg(DtEmit *e, const DtPlace *place, bool written);
/* Ends a loop, whose first item is `begin`: buffers that the loop touches and that existed
 * before live until the last item so far. */
void dt_place_extend(DtEmit *e, uint32_t begin);
/* The buffer is written piece by piece inside the loop that the last item opened: its live range
 * begins there. */
void dt_place_begin(DtEmit *e, const DtPlace *place);
/* The part of a bucket's place that holds a tensor of this type from element `offset` on. The
 * first `kept` axes are those of the bucket. */
DtPlace dt_place_in_bucket(DtEmit *e, const DtPlace *bucket, const DtType *type, uint32_t kept,
                           int64_t offset);

/* inst.c */
void dt_inst_add(DtEmit *e, DtPlanInstKind kind, uint32_t ref, uint32_t n, const DtEArg *args,
                 const DtOp *op);
void dt_inst_zero(DtEmit *e, const DtPlace *place);
/* Returns the plan's group for a set of mesh axes. */
uint32_t dt_inst_group(DtEmit *e, uint16_t mesh);
/* The group of some stages of the pipeline, whose mesh axis is in mesh; 0: of all stages. */
uint32_t dt_inst_stage_group(DtEmit *e, uint16_t mesh, const char *stages);

/* scope.c */
/* A scope for func inside of e->scope. */
DtScope *dt_scope_new(DtEmit *e, const DtFunc *func, const DtLoop *loop, const char *path);
/* A scope for the function that an op runs in a frame of its own: a loop, a `when`, or a call that
 * is not attention. */
DtScope *dt_scope_run(DtEmit *e, const DtOp *op, const char *path);
/* Records, before the function of the scope is emitted, where its first n results are wanted. */
void dt_scope_want(DtScope *scope, uint32_t n, const DtWanted *wanted);
/* After the function is emitted: checks that its first n results are where they are wanted.
 * (Copies are ops of the program, made by pass `memory`.) */
void dt_scope_check(DtEmit *e, uint32_t n, const DtWanted *wanted);
/* how many operands in the function are this value */
uint32_t dt_scope_reads(DtEmit *e, const DtValue *value);
/* whether the value is a result that is still to be written to its wanted place */
bool dt_scope_is_result(const DtEmit *e, const DtValue *value);
/* the `done` op that waits for a started collective; NULL: it is in another function */
const DtOp *dt_scope_done(DtEmit *e, const DtValue *started);

/* copy.c */
/* The place of a value that an op reads from memory; the value must have one. */
DtPlace *dt_copy_require(DtEmit *e, DtValue *value);
/* The same for operands of a streaming function, which may or may not run in tiles: a value that
 * kernels compute where they read it is computed into memory first. In other functions such a
 * copy is an op of the program (pass `memory`). */
DtPlace *dt_copy_settle(DtEmit *e, DtValue *value);
/* Copies a value to a place, from any layout to any layout. */
void dt_copy_value(DtEmit *e, DtValue *value, const DtPlace *to, bool accumulate);

/* emit.c */
/* emits all ops of e->scope->func; results go where they are wanted */
void dt_emit_func(DtEmit *e);
void dt_emit_op(DtEmit *e, const DtOp *op);

/* bucket.c. claim: before a function is emitted, marks the operands of its packs as wanted in
 * the bucket. pack: copies the operands of a pack that are not in the bucket yet. */
void dt_bucket_claim(DtEmit *e);
void dt_bucket_pack(DtEmit *e, const DtOp *op);

/* concat.c. claim: before a function is emitted, marks the operands of its concats as wanted in
 * the result. emit: copies operands that are not there yet; false if op is no concat that was
 * claimed. */
void dt_concat_claim(DtEmit *e);
bool dt_concat_emit(DtEmit *e, const DtOp *op);

/* attend.c: emits the call of a streaming function, or of its gradient, in tiles, in the scope of
 * the callee. False, with nothing emitted, if its ops do not have the roles that tiles need:
 * ret_why says why, and which op is to blame (or NULL). */
typedef struct DtTileWhy {
    const char *why;
    const DtOp *at;
} DtTileWhy;
#define DT_TILE_NO_PRODUCT \
    "no product has an axis of queries alone and one of keys alone, as `q @d k` has"
bool dt_attend_emit(DtEmit *e, const DtOp *call, DtScope *scope, DtTileWhy *ret_why);

/* untiled.c: whether a lint has been reported for the streaming function; marks it as reported. */
bool dt_untiled_is_reported(DtEmit *e, const DtFunc *func);
/* Reports lint L0585 for a call whose ops are emitted one by one, if the memory that they keep
 * is large. kernels: the callee, fused. */
void dt_untiled_report(DtEmit *e, const DtOp *call, const DtFunc *kernels, const DtTileWhy *why);

/* mask.c: whether the function computes the same without the scores that the mask of op
 * `where` hides. outputs: by op position, whether the op's result leaves the block. */
bool dt_mask_hides(DtEmit *e, const DtFunc *func, const DtOp *where, const char *queries,
                   const char *keys, const bool *outputs);

/* replay.c: reuses a stretch of instructions that was emitted before. First the caller adds
 * everything that the stretch depends on to the key; buffers count only by which of them are
 * equal. `again` then emits the stretch with the present buffers. If it returns false, the
 * caller emits the stretch and calls `end`, which remembers it. */
typedef struct DtReplay {
    DtText key;
    DT_VEC(uint32_t) buffers;          /* in the order of the key */
    uint64_t hash;
    uint32_t item, arg, buffer;        /* the first item, argument and buffer of the stretch */
    size_t note;
} DtReplay;
void dt_replay_add(DtReplay *replay, const void *bytes, size_t n);
void dt_replay_buffer(DtEmit *e, DtReplay *replay, uint32_t buffer);
void dt_replay_place(DtEmit *e, DtReplay *replay, const DtPlace *place);
void dt_replay_guards(const DtEmit *e, DtReplay *replay); /* adds the guards in force */
bool dt_replay_repeat(DtEmit *e, DtReplay *replay);
void dt_replay_end(DtEmit *e, DtReplay *replay);
void dt_replay_free(DtEmit *e);

/* visible.c: how many keys the mask leaves visible to a block of queries, distinguished by the
 * rank's coordinates and by loop iterations. A point is one such combination; a case is a set of
 * points with equally many keys. */
enum { DT_VISIBLE_REGS = DT_PLAN_REG_SLOTS, DT_VISIBLE_CASES = 4, DT_VISIBLE_NUMBERS = 8 };
/* the number of a rank among the ranks of these mesh axes, major to minor */
typedef struct DtVisibleNumber {
    uint8_t n, mesh[DT_MAX_SPLIT];
} DtVisibleNumber;
typedef struct DtVisible {
    DtEmit *e;
    const DtScope *scope;              /* the scope of the mask */
    const DtValue *mask;
    const char *axis[2];               /* names and local extents of the axes of queries and of
                                        * keys */
    int64_t n[2];
    /* uses: bits of the mesh axes on which positions depend; loops on which they depend, by
     * register */
    uint16_t uses;
    const DtLoop *loops[DT_VISIBLE_REGS];
    DtVisibleNumber numbers[DT_VISIBLE_NUMBERS]; /* rank numbers on which positions depend */
    uint32_t n_numbers;
    int64_t grain;                     /* numbers of keys are rounded up to a multiple of this */
    int64_t n_points, least, most;     /* number of points; range of the values of sums */
    int64_t coord[DT_MAX_MESH], step[DT_VISIBLE_REGS]; /* the point being evaluated */
    /* by point and half of the queries: the keys of each half, 0 if they differ */
    int64_t *of_half;
    /* values evaluated so far for this block, to bound the work */
    uint32_t visits;
} DtVisible;
/* A guard compares this sum: rank number minus loop iteration; -1: without that term. */
typedef struct DtVisibleSum {
    int number, reg;
} DtVisibleSum;
typedef struct DtVisibleCase {           /* the points where first <= value of sum_of <= last */
    DtVisibleSum sum_of;
    /* first, last of all cases: no guard is needed on that side */
    bool is_first, is_last;
    int64_t first, last, keys, points;
} DtVisibleCase;
/* Begins the analysis of a mask; false if nothing is known of the mask. Then every block takes all
 * keys. */
bool dt_visible_begin(DtEmit *e, const DtScope *scope, const DtValue *mask, const char *queries,
                      int64_t n_queries, const char *keys, int64_t n_keys, DtVisible *ret_reach);
/* The cases for queries at .. at + rows - 1, at most `most` of them; together they cover all
 * points. */
uint32_t dt_visible_cases(DtVisible *r, int64_t at, int64_t rows, uint32_t most,
                          DtVisibleCase *ret_cases);
/* Guards the instructions emitted from here on: they run at the points of this case only. */
void dt_visible_guard(DtVisible *r, const DtVisibleCase *of_points);

/* codegen.c: prepares ret_emit for the program's module; the caller frees ret_emit->scratch. */
void dt_codegen_begin(const DtProgram *program, const DtCodegenOptions *options,
                      DtPlanBuilder *builder, DtEmit *ret_emit);

/* entry.c: arenas, stores, inputs, readers; every entry of the module */
void dt_entry_emit_all(DtEmit *e);
/* Adds the memory and the plan record of a parameter, gradient, moment .. */
void dt_entry_store(DtEmit *e, const DtStore *store);
/* begins an entry, which lasts until dt_finish_entry */
void dt_entry_begin(DtEmit *e, DtEntryKind kind);
/* The arena of the entry's temporaries. Temporaries of "predict" and "quantize" have an arena of
 * their own, which a run that only trains does not allocate. */
static inline DtPlanArenaKind dt_entry_temporaries(DtEntryKind kind)
{
    return dt_entry_predicts(kind) || kind == DT_ENTRY_QUANTIZE ? DT_ARENA_PREDICT
                                                                : DT_ARENA_ACTIVATIONS;
}
/* Finds the memory in which each result of the entry is wanted. name: the name of the entry in the
 * plan. */
void dt_entry_wanted(DtEmit *e, const DtEntryPoint *entry, const char *name, DtWanted *ret_wanted);
/* emits the readers that fill inputs of func; NULL: all readers */
void dt_entry_reads(DtEmit *e, const DtFunc *func, bool eval);
void dt_entry_body(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted);
/* Emits the sums over ranks of results that are still partial. */
void dt_entry_complete(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted);
/* Emits one pass over all micro-batches of a batch, then the sums over ranks. */
void dt_entry_pass(DtEmit *e, const DtEntryPoint *entry, const char *name, bool eval);
void dt_entry_update(DtEmit *e, const DtEntryPoint *entry);
void dt_entry_metric(DtEmit *e, const char *name, const char *entry, const DtType *type,
                     uint32_t buffer);

/* slots.c: the slots of one stage in one run */
typedef struct DtSlots {
    int64_t depth[DT_PLAN_N_SLOTS]; /* slots of each group; 0: the group does not exist */
    int64_t bytes[DT_PLAN_N_SLOTS]; /* bytes of one slot, by group */
    int64_t single;                 /* bytes of memory that needs one slot only */
} DtSlots;
void dt_slots_place(DtEmit *e, const DtPipelineRun *run, DtSlots *ret_slots);

/* pipeline.c: all entries of a module that is cut into stages */
void dt_pipeline_emit(DtEmit *e);
/* bytes of a stage's arena, once everything is emitted */
int64_t dt_pipeline_arena(const DtEmit *e, uint32_t arena, uint32_t stage);
/* Memory of a named result, the same on all stages if it is a scalar. */
DtPlace dt_pipeline_named(DtEmit *e, const char *entry, const char *name, const DtType *type);

/* output.c: where an op writes one of its results */
typedef struct DtOutput {
    DtValue *value;
    DtPlace place;
    bool accumulate;
    bool wished;           /* `place` is where a reader wants the value */
    /* the value whose contents are in that memory and will be overwritten; NULL: none that is still
     * read */
    const DtValue *old;
    bool block;            /* the op writes one block of attention's output */
} DtOutput;
/* Finds where `value` may be written directly: the place where it is wanted, if that memory is free
 * or belongs to DtValue.over; else a temporary. dt_output_write also records the place as the
 * value's. */
DtOutput dt_output_of(DtEmit *e, DtValue *value);
DtPlace dt_output_write(DtEmit *e, DtValue *value, bool *ret_accumulate);
/* If the output takes the memory of another value (DtValue.over), gives that value's contents a
 * temporary */
void dt_output_take(DtEmit *e, DtOutput *output);

/* launch.c: kernels, one text per distinct kernel */
/* False, with nothing emitted, if an output would overwrite what the kernel reads at another
 * index. */
bool dt_launch_kernel(DtEmit *e, const DtOp *const *ops, uint32_t n_ops, const DtOutput *outputs,
                      uint32_t n_outputs);
/* NULL, or why the target has no kernel for e->attention. Only types and layouts of the outputs
 * count. */
const char *dt_launch_refuses(DtEmit *e, const DtOp *const *ops, uint32_t n_ops,
                              const DtOutput *outputs, uint32_t n_outputs);
bool dt_launch_fused(DtEmit *e, const DtOp *op, const DtOutput *outputs, uint32_t n_outputs);

/* event.c: events, and slots of ring buffers. Functions are named after what they do:
 *   take   n consecutive events, none below `from`
 *   of     the event of gather number `gather` in slot 0 of a ring buffer, or of the function
 *   set    gives the last instruction its event, which grows by `step` with each slot
 *   wait   waits for that event
 *   slot   the place of a value in the front slot of the ring buffer in this memory
 *   put    the place to which the op writes
 *   turn   makes the next slot the front one; begins: the first slot */
uint32_t dt_event_take(DtEmit *e, uint32_t from, uint32_t n);
uint32_t dt_event_of(DtEmit *e, const void *of, uint32_t gather, uint32_t slots);
void dt_event_set(DtEmit *e, uint32_t event, uint32_t step);
void dt_event_wait(DtEmit *e, const DtOp *done, uint32_t event, uint32_t step);
uint32_t dt_event_slots(const DtType *ringbuf);
DtPlace dt_event_slot(DtEmit *e, const DtValue *ringbuf, const DtPlace *memory, double byte,
                      const DtType *type);
DtPlace dt_event_put(DtEmit *e, const DtOp *put, const DtPlace *memory);
void dt_event_turn(DtEmit *e, const DtType *ringbuf, bool begins);

/* exchange.c: emits a collective or a `done`; false if op is neither. finish: waits for the sums
 * that the entry, a piece of a pipeline, returns while they are in flight. */
bool dt_exchange_emit(DtEmit *e, const DtOp *op);
void dt_exchange_finish(DtEmit *e, const DtEntryPoint *entry);
/* dt_exchange_sum: the reduction over `mesh` of two dense places of equal length, in place if they
 * are equal. op may be NULL. */
/* Makes the last instruction, a message, asynchronous under this event, or makes it the wait for
 * the event; *event 0: takes a new event. */
void dt_exchange_message(DtEmit *e, uint32_t *event);
void dt_exchange_sum(DtEmit *e, const DtPlace *to, const DtPlace *from, uint16_t mesh,
                     DtReduce reduce, const DtOp *op);

/* inflight.c: asynchronous reductions in flight at the end of an iteration. is: whether op is such
 * a reduction, and which result of the function it makes. turn: moves the ring buffer on by one
 * slot, and waits for the reduction that was started on the slot which is now the front one.
 * finish: emits a `done` of a loop's result. */
bool dt_inflight_is(const DtFunc *func, const DtOp *op, uint32_t *ret_number);
uint32_t dt_inflight_event(DtEmit *e, const DtFunc *body, uint32_t result);
void dt_inflight_turn(DtEmit *e, const DtOp *turn);
void dt_inflight_finish(DtEmit *e, const DtOp *done);

/* ringbuf.c: emits `when`, counters and ops of ring buffers; false if op is none. claim: before
 * a function is emitted, marks values that it puts into ring buffers as wanted there. memory:
 * the place of a ring buffer. */
bool dt_ringbuf_emit(DtEmit *e, const DtOp *op);
void dt_ringbuf_claim(DtEmit *e);
DtPlace dt_ringbuf_memory(DtEmit *e, const DtValue *ringbuf);
/* Whether a value of the scope's function is the iteration number of a loop, which is in a
 * register. */
bool dt_ringbuf_is_counter(const DtScope *scope, const DtValue *value);

/* gemm.c: emits the contraction as a GEMM; false if dtypes or strides do not allow one. */
bool dt_gemm_emit(DtEmit *e, const DtOp *op, const DtPlace operands[2], const DtPlace *out,
                  bool accumulate);
/* Reports lint L0587 for a large contraction that cannot be a GEMM. */
void dt_gemm_say(DtEmit *e, const DtOp *op, const DtPlace operands[2], const DtPlace *out);
/* The GEMM whose result goes into c. */
DtPlanGemm dt_gemm_of(const DtProduct *product, const DtView *const operands[2], const DtView *c);
uint32_t dt_gemm_record(DtEmit *e, DtPlanGemm gemm); /* its number in the plan */

/* For a product that says `copies`: copies operands so that dt_gemm_of applies, if the copies cost
 * less than they save. */
void dt_gemm_straighten(DtEmit *e, const DtOp *op, DtPlace operands[2], const DtPlace *out);

/* epilogue.c: a product with the epilogue that its library computes, as one instruction. */
typedef struct DtJoin {
    const DtOp *op;
    DtScope *inner;        /* the scope of the op's function */
    DtJoinedParts parts;
    DtOutput *outputs;     /* by result */
    bool swapped;          /* the product's A is the second operand */
} DtJoin;
void dt_epilogue_emit(DtEmit *e, const DtOp *op);
/* instead.c: the second form of the instruction that was just emitted, gemm: a product without an
 * epilogue, and a kernel; args: the arguments of that instruction, the third of which is C's. note:
 * the offset of its note, in front of which a FORMS is inserted. A product with one form only gets
 * no second one. */
void dt_instead_emit(DtEmit *e, const DtJoin *j, DtPlanGemm gemm, const DtEArg *args, size_t note);

DtEArg dt_launch_integer(DtEmit *e, const DtKInt *value);

/* finish.c: records of the plan */
/* remarks.c. dt_remarks_attention adds the ATTN record of an attention kernel. dt_remarks_peak
 * returns the item at which temporaries of the entry need most memory; ret_peak->live is 0 if the
 * entry has no temporaries. */
void dt_remarks_attention(DtEmit *e, const DtKernel *k, uint32_t kernel);
uint32_t dt_remarks_peak(DtEmit *e, DtPlanPeak *ret_peak);

/* names.c: adds the records of the program's names blocks. */
void dt_names_emit(DtEmit *e);
uint32_t dt_finish_span(DtEmit *e, DtSpan span, const char *path, const char *text);
void dt_finish_entry(DtEmit *e, const char *name);
DtStatus dt_finish_plan(DtEmit *e);

/* note.c: writes notes (plan/notes.h), in the order of items. numbers: by value id, the numbers of
 * the function's values. dt_note_read and dt_note_write say which value of the present function an
 * argument holds; place: where all of that value is. over: the result overwrites the value
 * `old`. */
uint32_t *dt_note_numbers(DtEmit *e, const DtFunc *func);
void dt_note_entry(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted);
void dt_note_op(DtEmit *e, uint32_t kind, const DtOp *op);
void dt_note_carry(DtEmit *e, const DtOp *loop, uint32_t number);
/* The instructions up to RETURN gather for a later iteration, which `of` names. */
void dt_note_ahead(DtEmit *e, const DtAheadOf *of);
/* The instructions up to RETURN belong to an earlier iteration: the one `number` iterations before
 * the present one or, after the loop has ended, iteration number `number`. */
void dt_note_behind(DtEmit *e, const DtOp *loop, int64_t number);
void dt_note_store(DtEmit *e, uint32_t kind, const DtStore *store);
void dt_note_sum(DtEmit *e, uint32_t n, const DtStore *const *stores); /* NULL: a named result */
void dt_note_part(DtEmit *e, const DtValue *value); /* records that a result's memory holds the
                                                     * terms that micro-batches have added so far */
void dt_note_forms(DtEmit *e, size_t first,
                   size_t second); /* inserts a FORMS before the notes of a product's two forms,
                                    * which begin at these offsets */
void dt_note_do(DtEmit *e, const DtOp *const *ops, uint32_t n);
void dt_note_read(DtEmit *e, const DtValue *value);
/* Records a read by a kernel that is compiled for this view. */
void dt_note_read_as(DtEmit *e, const DtValue *value, const DtView *view, uint32_t flags);
/* a flag: the argument is a block of a place whose strides were noted before */
enum { DT_NOTE_OF_BLOCK = DT_NOTE_FLAGS };
void dt_note_write(DtEmit *e, const DtValue *value, const DtPlace *place, uint32_t flags);
void dt_note_over(DtEmit *e, const DtValue *value, const DtPlace *place, uint32_t flags,
                  const DtValue *old);
void dt_note_integer(DtEmit *e, const DtKInt *value);
/* mask: the mask by which blocks may leave out keys, or NULL. */
void dt_note_tiles(DtEmit *e, uint32_t n_loops, const char *const *loops, const char *queries,
                   const char *keys, const DtValue *mask);
void dt_note_words(DtEmit *e, uint32_t n, const int64_t *words);

/* stacked.c: writes section SAVE. */
void dt_stacked_records(DtEmit *e);

#endif
