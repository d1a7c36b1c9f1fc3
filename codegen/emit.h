/* SPDX-License-Identifier: Apache-2.0 */
/* Shared inside codegen: lowering a function to a stream of instructions and loops over buffers whose
 * addresses are chosen afterwards.
 *
 *   entry.c   arenas, stores, inputs, the entries
 *   place.c   where values lie: views, buffers, lifetimes
 *   scope.c   functions being emitted: who reads what
 *   output.c  where ops write
 *   inst.c    instructions
 *   copy.c    values to places
 *   emit.c    ops to instructions, loops
 *   bucket.c  what lies in buckets
 *   concat.c  what is joined
 *   exchange.c  collectives
 *   gemm.c    contractions to GEMM descriptors
 *   epilogue.c  and what these do with their results; instead.c: the same by kernels
 *   attend.c  functions that stream in tiles; attend_parts.c what their ops are, attend_kernel.c as one kernel of a GPU
 *   whole.c   those that get no tiles
 *   hidden.c  what becomes of scores that its mask hides
 *   reach.c   how far its mask lets queries look
 *   replay.c  what was emitted before, for other buffers
 *   ringbuf.c conditions, ring buffers of what is gathered ahead
 *   event.c   events, and which slot of a ring buffer instructions mean
 *   left.c    what iterations leave on its way
 *   launch.c  kernels to instructions
 *   note.c    what instructions stand for
 *   pipeline.c  the entries of stages, channels, schedules
 *   slots.c   what micro-batches in flight leave
 *   finish.c  offsets, bodies, schedules, records of the plan
 *   saved.c   what loops hand over, for reports
 *   tell.c    what else reports are told
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

/* Memory of one rank. Temporaries are in frames (ir/frame.h); those of attention, and copies that an op may make, get
 * an offset between them when the entry is complete. */
typedef struct DtBuffer {
    const char *name;
    int64_t bytes;
    bool fixed;            /* no temporary */
    bool framed;           /* pass `memory` says where it lies */
    uint32_t arena;        /* DtPlanArenaKind */
    int64_t offset;        /* if fixed or framed, or once placed */
    uint32_t first, last;  /* positions in the stream that touch it; first > last: never */
} DtBuffer;

/* Where a value lies now: a view, and how its address moves, in bytes, with the registers. */
typedef struct DtPlace {
    bool set;
    DtView view;
    int64_t reg[DT_PLAN_ARG_REGS];
    int64_t coord[DT_MAX_MESH]; /* and with the rank's coordinates on mesh axes of devices */
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

/* What an entry does, in order: an instruction, or what the schedule has around instructions. */
typedef enum DtItemKind { DT_ITEM_INST, DT_ITEM_LOOP, DT_ITEM_END, DT_ITEM_SCHED, DT_ITEM_CLOSE } DtItemKind;
typedef struct DtItem {
    DtItemKind kind;
    DtPlanInst inst;       /* args counted from DtEmit.args */
    DtPlanSchedule loop;   /* SCHED: a SET or CALL, or a WHEN that a CLOSE ends */
    DtSpan span;
    const char *path, *text;
    double share;          /* INST with guards: of the points at which it runs (reach.c); else 1 */
    bool instead;          /* INST: part of the second form of the product before it */
} DtItem;

/* Where a result should be written by whatever computes it. old: the value whose memory it overwrites, NULL
 * if the memory holds nothing that is still read. */
typedef struct DtWanted {
    bool set, accumulate;
    bool packed;           /* in a bucket, by an op `pack`, which is the value's only reader if it accumulates */
    DtPlace place;
    const DtValue *old;
} DtWanted;

/* Who reads a value. */
typedef struct DtRead {
    uint32_t n;            /* reads by ops */
    const DtOp *done;      /* its `done`; NULL: it has none */
} DtRead;

/* A function being emitted: its values' places. */
typedef struct DtScope {
    const struct DtScope *parent;
    const DtFunc *func;
    DtPlace *places;       /* by value id */
    const DtWanted **wanted; /* by value id; NULL: nowhere in particular */
    const DtWanted *results; /* of a body, by result: where it goes */
    uint32_t *number;      /* by value id: as the program's text counts values, for notes */
    DtRead *reads;         /* by value id; NULL until somebody asks */
    const DtLoop *loop;    /* NULL: an entry, a call or a kernel */
    const DtOp *op;        /* the loop, call, when or fused op; NULL: an entry */
    bool framed;           /* it has a frame, which begins at this byte of the arena of temporaries */
    int64_t base;
    uint32_t reg;          /* of the loop */
    const char *path;      /* instance path of rng sites */
} DtScope;

typedef struct DtEInput {
    const char *name;
    DtPlace place;
    const DtType *type;
} DtEInput;

/* Arenas: one of each kind; with a pipeline two more, of what micro-batches in flight leave. */
enum { DT_EMIT_ARENAS = DT_ARENA_KINDS + DT_PLAN_N_SLOTS };

/* A body of the plan, to use one for equal ones. */
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

/* An iota over a block of a split axis: its positions count from the rank's first. */
typedef struct DtOrigin {
    const DtOp *iota;
    const DtAxis *axis;
} DtOrigin;

/* What was started and is not done: the value that it makes, as the present functions call it. */
typedef struct DtStarted {
    const DtValue *value;
    uint32_t event;        /* number */
    uint32_t to, from;     /* buffers */
} DtStarted;

/* Events that slots of ring buffers wait for: of gathers, number `gather` of each slot; with `of`, a loop's body, of
 * what reads the slot and makes that result; a loop, or a function, of that late sum in it. */
typedef struct DtSlotEvents {
    const void *of;
    uint32_t gather, slots, first;
} DtSlotEvents;

typedef struct DtEmit {
    const DtProgram *program;
    const DtModule *module;
    const DtCodegenOptions *options;
    const DtTargetRow *target, *order_as; /* order_as: by whose order rows are added up */
    DtPlanBuilder *plan;
    DtArena *arena;
    DtArena *scratch;                  /* until the body of an entry is emitted: scopes, kernels being built */
    uint64_t seed;
    uint32_t n_micro;
    DT_VEC(DtBuffer) buffers;
    DT_VEC(DtEArg) args;
    DT_VEC(DtItem) items;
    DtEArg guards[2];                  /* of the instructions being emitted */
    uint32_t n_guards;
    double share;                      /* with guards: of the points at which they run */
    DtText notes, all_notes;           /* of the entry being emitted; of all */
    const DtValue *copied;             /* what the kernel being emitted copies; NULL: it computes ops */
    uint32_t entry_buffer;             /* first buffer of that entry */
    DtPlanArenaKind temporaries;       /* of that entry: where they lie */
    uint32_t micro_loop;               /* 1 + position of the LOOP over micro-batches around us; 0: none */
    int64_t arena_bytes[DT_EMIT_ARENAS]; /* with a pipeline: of the stage being emitted */
    int32_t stage;                     /* being emitted; 0 without a pipeline */
    int32_t class_first;               /* the stage that the loops of the entry being emitted are written for */
    bool in_class;                     /* and stages behind it have the same entry */
    double trips;                      /* how often a step runs the entry being emitted */
    DtPipelineEmit *pipeline;          /* NULL without one */
    DT_VEC(DtEBody) bodies;
    DT_VEC(struct DtReplayed *) replayed; /* replay.c */
    DtPlace *stores;                   /* by store index */
    int32_t *store_record;             /* by store index: number in the plan */
    bool *is_bucket;                   /* by store index: others lie in it */
    bool *is_again;                    /* by store index: it is the copy of an earlier stage's parameter */
    DT_VEC(DtEAxes) axes;              /* records of axes, to use them for equal types */
    DT_VEC(DtEInput) inputs;
    DT_VEC(DtOrigin) origins;          /* of iotas made for blocks of attention */
    bool in_blocks;                    /* of attention: notes say no strides of what is read */
    DT_VEC(DtKDraw) draws;             /* made for them */
    DT_VEC(uint64_t) kernel_hashes;    /* of texts, to use one kernel for equal texts */
    DT_VEC(const char *) kernel_texts;
    DT_VEC(DtSpan) kernel_spans;
    uint32_t like;                     /* 1 + number of the kernel that the next launch has too, 0: unknown */
    bool repeats;                      /* other launches will have the next one's text, with other addresses */
    uint32_t launched;                 /* the same of the last launch */
    DT_VEC(const DtFunc *) refused;    /* streaming functions of which a lint said that they have no kernel, no tiles */
    DT_VEC(DtSpan) no_products;        /* contractions of which a lint said that no library does them */
    const DtKAttention *attention;     /* what the next launch is, or NULL */
    const char *rows;                  /* the axis that the next launch goes along row by row; NULL: as its ops say */
    uint32_t *span_slots, n_span_slots; /* finish.c: finds equal spans */
    DT_VEC(DtStarted) started;         /* exchange.c */
    DT_VEC(DtSlotEvents) slot_events;
    DT_VEC(bool) events_taken;         /* by number */
    DtScope *scope;
} DtEmit;

/* The module's first mesh axis of devices (time, if there is one, comes before): the plan's axes count from it. */
static inline uint32_t dt_emit_first_device(const DtMesh *mesh) { return mesh->n && mesh->axes[0].is_time ? 1 : 0; }

/* place.c */
int64_t dt_place_bytes(const DtEmit *e, const DtType *type); /* of a rank's part */
int64_t dt_place_aligned(int64_t bytes);                     /* up to a multiple of DT_PLAN_ALIGN */
uint32_t dt_place_buffer(DtEmit *e, const char *name, int64_t bytes);                      /* a temporary */
void dt_place_touch(DtEmit *e, uint32_t buffer);             /* the next item does */
uint32_t dt_place_fixed(DtEmit *e, const char *name, DtPlanArenaKind arena, int64_t bytes);/* at the end of an arena */
DtPlace dt_place_dense(DtEmit *e, const DtType *type, uint32_t buffer);
DtPlace dt_place_temporary(DtEmit *e, const DtType *type, const char *name);
/* The value's own memory, where it lies as DtValue.lies says: in the frame of the function, or a temporary. */
DtPlace dt_place_own(DtEmit *e, const DtValue *value);
uint32_t dt_place_framed(DtEmit *e, const DtValue *value, const char *name, int64_t base, int64_t bytes);
DtPlace *dt_place_find(DtEmit *e, const DtValue *value);     /* in the current scope; NULL if it has none */
void dt_place_set(DtEmit *e, const DtValue *value, DtPlace place);
/* Lies in type's own order without gaps. */
bool dt_place_is_dense(const DtPlace *place, const DtType *type, const DtMesh *mesh);
bool dt_place_same(const DtPlace *a, const DtPlace *b);
/* What tells places apart but for their buffers, as bytes, behind key: a DtPlace itself has gaps between its fields. */
void dt_place_key(const DtPlace *place, DtText *key);
bool dt_place_apart(const DtPlace *a, const DtPlace *b); /* have no byte in common, whatever the registers are */
/* The place of an axis op's result as a view of its operand's, if strides can say it. */
bool dt_place_view_of(DtEmit *e, const DtOp *op, const DtPlace *in, DtPlace *ret_place);
/* What a rank has of a value of the first type there as one of the second, which mesh axes split more. */
DtPlace dt_place_run(DtEmit *e, const DtPlace *place, const DtType *from, const DtType *to);
/* The part of what a loop stacks, or has stacked, that is of the iteration whose number is in the register. */
DtPlace dt_place_slice(DtEmit *e, const DtOp *loop, DtPlace place, uint32_t reg);
DtEArg dt_place_arg(DtEmit *e, const DtPlace *place, bool written);
/* What a loop touches and was there before item `begin`, its first one, lives until its last one, the present. */
void dt_place_extend(DtEmit *e, uint32_t begin);
/* The buffer is written piece by piece inside the loop that the last item opened: it lives from there. */
void dt_place_begin(DtEmit *e, const DtPlace *place);
/* The part of a bucket's place where a tensor of this type lies, from element `offset` on. The first kept axes are
 * those of the bucket. */
DtPlace dt_place_in_bucket(DtEmit *e, const DtPlace *bucket, const DtType *type, uint32_t kept, int64_t offset);

/* inst.c */
void dt_inst_add(DtEmit *e, DtPlanInstKind kind, uint32_t ref, uint32_t n, const DtEArg *args, const DtOp *op);
void dt_inst_zero(DtEmit *e, const DtPlace *place);
uint32_t dt_inst_group(DtEmit *e, uint16_t mesh);            /* the plan's group for a set of mesh axes */
/* Of some stages of the pipeline, whose mesh axis is in mesh; 0: of all. */
uint32_t dt_inst_stage_group(DtEmit *e, uint16_t mesh, const char *stages);

/* scope.c */
DtScope *dt_scope_new(DtEmit *e, const DtFunc *func, const DtLoop *loop, const char *path); /* inside of e->scope */
/* The same for the function that an op runs in a frame of its own: a loop, a `when`, a call of what is no attention. */
DtScope *dt_scope_run(DtEmit *e, const DtOp *op, const char *path);
/* Where the first n results of the scope's function are wanted, before it is emitted. */
void dt_scope_want(DtScope *scope, uint32_t n, const DtWanted *wanted);
/* The function is emitted: its first n results are where they are wanted. Copies are in the text (pass `memory`). */
void dt_scope_check(DtEmit *e, uint32_t n, const DtWanted *wanted);
uint32_t dt_scope_reads(DtEmit *e, const DtValue *value);    /* operands of the function that are it */
bool dt_scope_is_result(const DtEmit *e, const DtValue *value); /* that is still to be delivered */
const DtOp *dt_scope_done(DtEmit *e, const DtValue *started); /* its `done`; NULL: it is elsewhere */

/* copy.c */
DtPlace *dt_copy_require(DtEmit *e, DtValue *value);         /* its place, of a value that an op reads from memory */
/* The same of an operand of a function that may run in tiles, and did not, or of its ops: if it is computed wherever it
 * is read, into memory first. Elsewhere that is a copy of the program (pass `memory`). */
DtPlace *dt_copy_settle(DtEmit *e, DtValue *value);
void dt_copy_value(DtEmit *e, DtValue *value, const DtPlace *to, bool accumulate); /* any layout to any layout */

/* emit.c */
void dt_emit_func(DtEmit *e);                                /* all ops of e->scope->func, results where wanted */
void dt_emit_op(DtEmit *e, const DtOp *op);

/* bucket.c: wishes for what the function's packs join, before it is emitted; and what of a pack is not in its bucket
 * yet. */
void dt_bucket_claim(DtEmit *e);
void dt_bucket_pack(DtEmit *e, const DtOp *op);

/* concat.c: before a function is emitted, what its concats join gets its wish; then what of one is not there yet, false
 * if op is none that was claimed. */
void dt_concat_claim(DtEmit *e);
bool dt_concat_emit(DtEmit *e, const DtOp *op);

/* attend.c: a call of a function that streams, or of its gradient, in tiles, in the scope of the callee; false, with
 * nothing emitted, if the function has another shape: why, and which op is to blame (or NULL). */
typedef struct DtTileWhy {
    const char *why;
    const DtOp *at;
} DtTileWhy;
#define DT_TILE_NO_PRODUCT "no product has an axis of queries alone and one of keys alone, as `q @d k` has"
bool dt_attend_emit(DtEmit *e, const DtOp *call, DtScope *scope, DtTileWhy *ret_why);

/* whole.c: whether a lint has spoken of the streaming function; from now on one has. */
bool dt_whole_is_said(DtEmit *e, const DtFunc *func);
/* Lint L0585 of a call whose ops are emitted one by one, if what they keep is large. form: the callee in kernels. */
void dt_whole_say(DtEmit *e, const DtOp *call, const DtFunc *form, const DtTileWhy *why);

/* hidden.c: whether the function is the same without the scores that the mask of this op hides. outputs: by op
 * position, what blocks leave. */
bool dt_hidden_by(DtEmit *e, const DtFunc *func, const DtOp *where, const char *queries, const char *keys,
                  const bool *outputs);

/* replay.c: a stretch of instructions that may have been emitted before. First all that they depend on is added, where
 * buffers count by which are the same; then `again` emits them, or says false: the caller does, and `end` remembers. */
typedef struct DtReplay {
    DtText key;
    DT_VEC(uint32_t) buffers;          /* of the key */
    uint64_t hash;
    uint32_t item, arg, buffer;        /* the first ones of the stretch */
    size_t note;
} DtReplay;
void dt_replay_add(DtReplay *replay, const void *bytes, size_t n);
void dt_replay_buffer(DtEmit *e, DtReplay *replay, uint32_t buffer);
void dt_replay_place(DtEmit *e, DtReplay *replay, const DtPlace *place);
void dt_replay_guards(const DtEmit *e, DtReplay *replay); /* the present ones */
bool dt_replay_again(DtEmit *e, DtReplay *replay);
void dt_replay_end(DtEmit *e, DtReplay *replay);
void dt_replay_free(DtEmit *e);

/* reach.c: how many keys a mask leaves a block of queries, case by case of coordinates and steps. */
enum { DT_REACH_REGS = DT_PLAN_REG_SLOTS, DT_REACH_CASES = 4, DT_REACH_NUMBERS = 8 };
typedef struct DtReachNumber {         /* of a rank among those of these mesh axes, major to minor */
    uint8_t n, mesh[DT_MAX_SPLIT];
} DtReachNumber;
typedef struct DtReach {
    DtEmit *e;
    const DtScope *scope;              /* of the mask */
    const DtValue *mask;
    const char *axis[2];               /* of queries and keys, and their local extents */
    int64_t n[2];
    uint16_t uses;                     /* mesh axes that positions depend on; and loops, by register */
    const DtLoop *loops[DT_REACH_REGS];
    DtReachNumber numbers[DT_REACH_NUMBERS]; /* that positions depend on */
    uint32_t n_numbers;
    int64_t grain;                     /* of numbers of keys */
    int64_t n_points, least, most;     /* of values of forms */
    int64_t coord[DT_MAX_MESH], step[DT_REACH_REGS]; /* the point that is looked at */
    int64_t *of_half;                  /* by point and half of the queries: the keys of each, 0 if they differ */
    uint32_t visits;                   /* of values, for this block of the mask */
} DtReach;
typedef struct DtReachForm {           /* number of a rank - step; -1: without it */
    int number, reg;
} DtReachForm;
typedef struct DtReachCase {           /* the form's values first .. last */
    DtReachForm form;
    bool is_first, is_last;            /* of all cases: no guard on that side */
    int64_t first, last, keys, points;
} DtReachCase;
/* False if nothing is known of the mask: blocks have all keys then. */
bool dt_reach_begin(DtEmit *e, const DtScope *scope, const DtValue *mask, const char *queries, int64_t n_queries,
                    const char *keys, int64_t n_keys, DtReach *ret_reach);
/* The cases of queries at .. at + rows - 1, at most so many; together they are all points. */
uint32_t dt_reach_cases(DtReach *r, int64_t at, int64_t rows, uint32_t most, DtReachCase *ret_cases);
/* What is emitted from now on runs in this case only. */
void dt_reach_guard(DtReach *r, const DtReachCase *of_points);

/* codegen.c: ready to emit the program's module; the caller frees ret_emit->scratch. */
void dt_codegen_begin(const DtProgram *program, const DtCodegenOptions *options, DtPlanBuilder *builder,
                      DtEmit *ret_emit);

/* entry.c: arenas, stores, inputs, readers; every entry of the module */
void dt_entry_emit_all(DtEmit *e);
void dt_entry_store(DtEmit *e, const DtStore *store);        /* memory and record of a parameter, gradient, ... */
void dt_entry_begin(DtEmit *e, DtEntryKind kind);            /* what follows, up to dt_finish_entry, is one entry */
/* The arena of its temporaries: a run that only trains has no memory for those of "predict". */
static inline DtPlanArenaKind dt_entry_temporaries(DtEntryKind kind)
{
    return kind == DT_ENTRY_PREDICT ? DT_ARENA_PREDICT : DT_ARENA_ACTIVATIONS;
}
/* Where each result goes; name: of the plan's entry. */
void dt_entry_wanted(DtEmit *e, const DtEntryPoint *entry, const char *name, DtWanted *ret_wanted);
void dt_entry_reads(DtEmit *e, const DtFunc *func, bool eval); /* of readers that fill inputs of func; NULL: of all */
void dt_entry_body(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted);
/* Sums over ranks of what is still partial. */
void dt_entry_complete(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted);
/* One pass over all micro-batches of a batch; then sums over ranks. */
void dt_entry_pass(DtEmit *e, const DtEntryPoint *entry, const char *name, bool eval);
void dt_entry_update(DtEmit *e, const DtEntryPoint *entry);
void dt_entry_metric(DtEmit *e, const char *name, const char *entry, const DtType *type, uint32_t buffer);

/* slots.c: the slots of one stage in one run */
typedef struct DtSlots {
    int64_t depth[DT_PLAN_N_SLOTS]; /* of each group; 0: there is none */
    int64_t bytes[DT_PLAN_N_SLOTS]; /* of one slot */
    int64_t single;                 /* bytes of what has one slot */
} DtSlots;
void dt_slots_place(DtEmit *e, const DtPipelineRun *run, DtSlots *ret_slots);

/* pipeline.c: all entries of a module that is cut into stages */
void dt_pipeline_emit(DtEmit *e);
int64_t dt_pipeline_arena(const DtEmit *e, uint32_t arena, uint32_t stage); /* its bytes, once all is emitted */
/* Memory of a named result, the same on all stages if it is a scalar. */
DtPlace dt_pipeline_named(DtEmit *e, const char *entry, const char *name, const DtType *type);

/* output.c */
typedef struct DtOutput {
    DtValue *value;
    DtPlace place;
    bool accumulate;
    bool wished;           /* somebody wants it in this place */
    const DtValue *old;    /* what lies there now */
    bool block;            /* a block of attention's output */
} DtOutput;
/* Where value may be written at once: where it is wanted, if that is nobody's memory or that of DtValue.over; else a
 * temporary. write: and it counts as written. */
DtOutput dt_output_of(DtEmit *e, DtValue *value);
DtPlace dt_output_write(DtEmit *e, DtValue *value, bool *ret_accumulate);
/* A temporary becomes the memory of DtValue.over, if it has one. */
void dt_output_take(DtEmit *e, DtOutput *output);

/* launch.c: kernels, one text per distinct kernel */
/* False, with nothing emitted, if an output would overwrite what the kernel reads at another index. */
bool dt_launch_kernel(DtEmit *e, const DtOp *const *ops, uint32_t n_ops, const DtOutput *outputs, uint32_t n_outputs);
/* Of e->attention: NULL, or why the target has no kernel of this form. Of outputs only types and layouts count. */
const char *dt_launch_refuses(DtEmit *e, const DtOp *const *ops, uint32_t n_ops, const DtOutput *outputs,
                              uint32_t n_outputs);
bool dt_launch_fused(DtEmit *e, const DtOp *op, const DtOutput *outputs, uint32_t n_outputs);

/* event.c: events, and slots of ring buffers. take: n events in a row, none of them below `from`. of: of gather
 * number `gather` of a slot, in slot 0; or of the function. set: of the last instruction, and as many more as `step`
 * says for each slot. slot: where a value lies in the front one, in this memory. put: where the op puts something.
 * turn: the next slot is the front one; or the first. */
uint32_t dt_event_take(DtEmit *e, uint32_t from, uint32_t n);
uint32_t dt_event_of(DtEmit *e, const void *of, uint32_t gather, uint32_t slots);
void dt_event_set(DtEmit *e, uint32_t event, uint32_t step);
void dt_event_wait(DtEmit *e, const DtOp *done, uint32_t event, uint32_t step);
uint32_t dt_event_slots(const DtType *ringbuf);
DtPlace dt_event_slot(DtEmit *e, const DtValue *ringbuf, const DtPlace *memory, double byte, const DtType *type);
DtPlace dt_event_put(DtEmit *e, const DtOp *put, const DtPlace *memory);
void dt_event_turn(DtEmit *e, const DtType *ringbuf, bool begins);

/* exchange.c: emits a collective, or a `done`; false if op is none. finish: waits for the sums that the entry, a piece,
 * returns on their way. */
bool dt_exchange_emit(DtEmit *e, const DtOp *op);
void dt_exchange_finish(DtEmit *e, const DtEntryPoint *entry);
/* The reduction over mesh of equally long, dense places; equal ones: in place. op may be NULL. */
/* The last instruction is of a message that is started, or waits for it, under this event, a new one if it is 0. */
void dt_exchange_message(DtEmit *e, uint32_t *event);
void dt_exchange_sum(DtEmit *e, const DtPlace *to, const DtPlace *from, uint16_t mesh, DtReduce reduce, const DtOp *op);

/* left.c: whether the op is what the function leaves to the loop around it, and as which result. turn: the next slot of
 * a ring buffer is the front one, which what was started on it has read. finish: a `done` of a loop's result. */
bool dt_left_is(const DtFunc *func, const DtOp *op, uint32_t *ret_number);
uint32_t dt_left_event(DtEmit *e, const DtFunc *body, uint32_t result);
void dt_left_turn(DtEmit *e, const DtOp *turn);
void dt_left_finish(DtEmit *e, const DtOp *done);

/* ringbuf.c: ops of `when`, of counters and ring buffers; false if op is none. claim: before a function is emitted,
 * what it puts into ring buffers gets its wish. memory: of a ring buffer. */
bool dt_ringbuf_emit(DtEmit *e, const DtOp *op);
void dt_ringbuf_claim(DtEmit *e);
DtPlace dt_ringbuf_memory(DtEmit *e, const DtValue *ringbuf);
/* Whether a value of the scope's function is what a loop counts: it lies in a register. */
bool dt_ringbuf_is_counter(const DtScope *scope, const DtValue *value);

/* gemm.c: emits the contraction as a GEMM if dtypes and strides allow. */
bool dt_gemm_emit(DtEmit *e, const DtOp *op, const DtPlace operands[2], const DtPlace *out, bool accumulate);
/* Lint L0587 of one that is none, if it is large. */
void dt_gemm_say(DtEmit *e, const DtOp *op, const DtPlace operands[2], const DtPlace *out);
DtPlanGemm dt_gemm_of(const DtProduct *product, const DtView *const operands[2], const DtView *c); /* into c */
uint32_t dt_gemm_record(DtEmit *e, DtPlanGemm gemm); /* its number in the plan */

/* Copies operands so that it is true, if that pays: of a product that says `copies`. */
void dt_gemm_straighten(DtEmit *e, const DtOp *op, DtPlace operands[2], const DtPlace *out);

/* epilogue.c: a product and what its library does besides, as one instruction. */
typedef struct DtJoin {
    const DtOp *op;
    DtScope *inner;        /* of the op's function */
    DtJoinedParts parts;
    DtOutput *outputs;     /* by result */
    bool swapped;          /* the product's A is the second operand */
} DtJoin;
void dt_epilogue_emit(DtEmit *e, const DtOp *op);
/* instead.c: the second form of the instruction that was just emitted, gemm: a product without an
 * epilogue, and a kernel; args: of the instruction, C's is the third. note: where its note begins,
 * which gets a FORMS in front. Nothing if it has one form. */
void dt_instead_emit(DtEmit *e, const DtJoin *j, DtPlanGemm gemm, const DtEArg *args, size_t note);

DtEArg dt_launch_integer(DtEmit *e, const DtKInt *value);

/* finish.c */
/* tell.c: of a kernel that is attention. Where temporaries of the entry need most memory: the item; live 0: there are
 * none. */
void dt_tell_attention(DtEmit *e, const DtKernel *k, uint32_t kernel);
uint32_t dt_tell_peak(DtEmit *e, DtPlanPeak *ret_peak);

uint32_t dt_finish_span(DtEmit *e, DtSpan span, const char *path, const char *text);
void dt_finish_entry(DtEmit *e, const char *name);
DtStatus dt_finish_plan(DtEmit *e);

/* note.c: notes of plan/notes.h, in the order of items. numbers: of the function's values. A read or written
 * argument is value, in the present function; place: where all of it goes; over: in place of old. */
uint32_t *dt_note_numbers(DtEmit *e, const DtFunc *func);
void dt_note_entry(DtEmit *e, const DtEntryPoint *entry, const DtWanted *wanted);
void dt_note_op(DtEmit *e, uint32_t kind, const DtOp *op);
void dt_note_carry(DtEmit *e, const DtOp *loop, uint32_t number);
void dt_note_ahead(DtEmit *e, const DtAheadOf *of);          /* what follows, up to RETURN, gathers for that */
/* What follows, up to RETURN, is of the iteration so many before the present one; or, of a loop that has ended, of
 * number `number` of those that ran. */
void dt_note_behind(DtEmit *e, const DtOp *loop, int64_t number);
void dt_note_store(DtEmit *e, uint32_t kind, const DtStore *store);
void dt_note_sum(DtEmit *e, uint32_t n, const DtStore *const *stores); /* NULL: a named result */
void dt_note_part(DtEmit *e, const DtValue *value); /* of what micro-batches added to a result where that lies */
void dt_note_forms(DtEmit *e, size_t first,
                   size_t second); /* notes of two forms, which begin there */
void dt_note_do(DtEmit *e, const DtOp *const *ops, uint32_t n);
void dt_note_read(DtEmit *e, const DtValue *value);
/* By a kernel that is made for this view. */
void dt_note_read_as(DtEmit *e, const DtValue *value, const DtView *view, uint32_t flags);
enum { DT_NOTE_OF_BLOCK = DT_NOTE_FLAGS }; /* in flags: a block of a place whose strides were noted */
void dt_note_write(DtEmit *e, const DtValue *value, const DtPlace *place, uint32_t flags);
void dt_note_over(DtEmit *e, const DtValue *value, const DtPlace *place, uint32_t flags, const DtValue *old);
void dt_note_integer(DtEmit *e, const DtKInt *value);
/* mask: NULL, or what blocks may leave out keys by. */
void dt_note_tiles(DtEmit *e, uint32_t n_loops, const char *const *loops, const char *queries, const char *keys,
                   const DtValue *mask);
void dt_note_words(DtEmit *e, uint32_t n, const int64_t *words);

/* saved.c: section SAVE. */
void dt_saved_plan(DtEmit *e);

#endif
