/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: what every rank computes, when, in which memory, and which bytes travel. One file for all
 * ranks; the contract between the compiler (writer) and the runtime (reader).
 *
 * File = DtPlanHeader, then DtPlanSection[n_sections], then the sections, each an array of one fixed
 * little-endian record type (STRS, BLOB: bytes), 64-byte aligned. References are indices of records;
 * strings are offsets of NUL-terminated UTF-8 text in STRS. Loading is mmap, digest, one pass that bounds
 * every index (plan/check.c); the arrays are then used in place. Nothing depends on pointers.
 *
 * A plan contains machine code: running one trusts its author. Everything but the runtime treats it as
 * data.
 *
 * Addresses and integers of instructions are affine in registers (iteration numbers set by the schedule)
 * and in mesh coordinates, so that a loop over layers and micro-batches is one body:
 *     value = base + sum_r reg[r] * regs[r] + sum_c coord[c] * coordinate(coord_axis[c])
 *
 * Pipelines: ranks differ in what they do by their coordinate on one mesh axis, the *stage*, and only by it.
 * Records that not all stages have carry a stage, -1 for all; without a pipeline there is one stage, 0. */
#ifndef DT_PLAN_PLAN_H
#define DT_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DT_PLAN_MAGIC "DTPLAN\r\n"
#define DT_PLAN_MAX_BYTES ((int64_t)1 << 46) /* of all arenas of a rank; also elements and extents */

enum { DT_PLAN_VERSION = 24, DT_PLAN_ALIGN = 64, DT_PLAN_REGS = 10, DT_PLAN_ARG_REGS = 8, DT_PLAN_COORDS = 5,
       DT_PLAN_MAX_RANK = 16, DT_PLAN_MAX_BATCH = 4, DT_PLAN_SPLITS = 4, DT_PLAN_BLOCK_DIMS = 6, DT_PLAN_RANGES = 4,
       DT_PLAN_MAX_DEPTH = 8, DT_PLAN_MAX_STAGES = 1024, DT_PLAN_MAX_SLOTS = 4096, DT_PLAN_MAX_SETTINGS = 128,
       DT_PLAN_MAX_OBJECTIVES = 8, DT_PLAN_MAX_EVENTS = 1 << 16, DT_PLAN_NONE = -1 };

typedef struct DtPlanHeader {
    char magic[8];
    uint32_t version;
    uint32_t n_sections;
    uint64_t length;      /* of the whole file */
    uint64_t digest;      /* XXH3-64 of all bytes after the header */
    uint8_t reserved[32]; /* zero */
} DtPlanHeader;           /* 64 bytes */

typedef struct DtPlanSection {
    char tag[4];
    uint16_t version;
    uint16_t critical;    /* 1: a reader that does not know the tag must refuse the file */
    uint32_t record_size;
    uint32_t count;       /* records (bytes for STRS and BLOB) */
    uint64_t offset;      /* from the start of the file, multiple of DT_PLAN_ALIGN */
    uint64_t length;      /* record_size * count */
    uint64_t checksum;    /* XXH3-64 of the section */
} DtPlanSection;          /* 40 bytes */

typedef uint32_t DtPlanStr; /* offset in STRS; 0 is the empty string */

/* META: one record. */
typedef struct DtPlanMeta {
    DtPlanStr model, source, compiler, target; /* "gpt2", "gpt2.dsl", "dtc 0.1.0", "cpu-v4" */
    DtPlanStr source_folder;  /* folder of the .dsl file relative to the plan's folder, or absolute */
    uint32_t eval_rest;       /* 1: the loss is a sum over samples: those behind the last whole batch count too */
    uint32_t pipeline;        /* 1 + number of the mesh axis whose coordinate is the stage; 0: one stage */
    uint32_t events;          /* that instructions name */
    uint32_t n_ranks, n_micro;
    uint32_t draws;           /* elements of a random draw that a call of the generator gives: 1, 4; 0: no draws */
    uint32_t tf32;            /* 1: operands of products in f32 are rounded to 10 bits of mantissa */
    uint64_t source_digest;
    uint64_t seed;
    int64_t steps;
    int64_t batch;            /* samples per step over all ranks */
    int64_t tokens;           /* elements of the first input per step over all ranks */
    int64_t parameters;       /* logical elements of all parameters */
    int64_t eval_every, eval_steps, save_every, save_keep;
    double flops;             /* of a step over all ranks, the mean where losses take turns; contractions only */
    double model_flops;       /* those of the serial program: without what is computed again or padded; 0: not known */
} DtPlanMeta;

/* SETT: numbers in formulas of scalars that a run may set: "lr.base". is_whole: to a count only. */
typedef struct DtPlanSetting { DtPlanStr name; uint32_t is_whole; double value; } DtPlanSetting;

/* MESH, slowest link first; rank = row-major over the coordinates. */
typedef struct DtPlanMeshAxis { DtPlanStr name; uint32_t size; } DtPlanMeshAxis;

/* GRUP: the ranks that differ only in the mesh axes of mask. stages: those that belong to it (base/stages.h), if
 * mask has the pipeline's axis; "": all. queue: of its collectives; groups of equal masks share one. All else is in
 * queue 0. */
typedef struct DtPlanGroup { uint32_t mask, size, queue; DtPlanStr stages; } DtPlanGroup;

/* CHAN: values that travel from one stage to another, to the rank whose other coordinates are equal. It holds
 * `slots` messages: `send` waits for a free slot only, `recv` for the oldest message. direct 1: it can do without
 * slots, since no rank waits for ever if each does one thing at a time, in the order in which it begins them, and a
 * message goes from buffer to buffer once both ends have begun. Either end is a queue of its own then. */
typedef struct DtPlanChannel {
    DtPlanStr name;           /* of the value */
    uint32_t from, to;        /* stages; may be equal */
    uint32_t slots;
    int64_t bytes;            /* of a slot: of the largest message */
    uint32_t span, direct;
} DtPlanChannel;

/* AREN: memory of one rank, zeroed at start. shared: lies in the mapping that other ranks read. bytes: of the
 * stage with the most. PREDICT, PREDICTED: temporaries and tensors that entry "predict" alone touches; a run that
 * trains does without them. INSTEAD: what the instructions of products' second forms (INST) hand on
 * among themselves; it is there in runs that chose such a form. ASIZ: bytes of arena a on stage s
 * at index s * arenas + a; no records: all stages equal. */
typedef enum DtPlanArenaKind { DT_ARENA_PARAMS, DT_ARENA_GRADS, DT_ARENA_OPTIMIZER, DT_ARENA_ACTIVATIONS,
                               DT_ARENA_INPUTS, DT_ARENA_SCALARS, DT_ARENA_WORKSPACE, DT_ARENA_PREDICT,
                               DT_ARENA_PREDICTED, DT_ARENA_INSTEAD, DT_ARENA_KINDS } DtPlanArenaKind;
typedef struct DtPlanArena { DtPlanStr name; uint32_t kind, shared, reserved; int64_t bytes; } DtPlanArena;
typedef struct DtPlanArenaSize { int64_t bytes; } DtPlanArenaSize;

/* AXIS: axes of stores, inputs and outputs. A stage's store holds iterations first .. first + local - 1 of a
 * loop that stages share. */
typedef struct DtPlanAxis {
    DtPlanStr name;
    uint8_t split[DT_PLAN_SPLITS]; /* mesh axes that split it + 1, major to minor, then zeros */
    int64_t extent;       /* logical */
    int64_t local;        /* on one rank */
    int64_t first;        /* loop axes: index of the stage's first element; else 0 */
    int64_t step;         /* loop axes of a store of several stages: how much larger first is on the next one */
} DtPlanAxis;

/* PACK: where a store's elements are if they share a bucket with others'. Per iteration of its loops (their extents are
 * those of the store's first axes) a rank's bucket holds `run` elements: of `extent` elements those from run * block
 * on, block being this rank's number among those of the mesh axes split[], major first. The store's local elements,
 * row-major behind the loop axes, are the bucket's from `offset` on. A gradient's memory may be that of all blocks:
 * then it is in its own place among them, and micro-batches add up each rank's terms in all. */
typedef struct DtPlanPack {
    int64_t extent, run, offset;
    uint8_t split[4];
    uint32_t n_split;
} DtPlanPack;

/* STOR: parameters, states, moments (gradients too, for reports). Local part contiguous, row-major. */
typedef struct DtPlanStore {
    DtPlanStr path;       /* h.attention.wq.w */
    DtPlanStr pattern;    /* h.#.attention.wq.w */
    uint32_t first_axis;
    int32_t of;           /* store that a moment or gradient belongs to, or -1 */
    uint8_t kind, dtype, init, n_axes, n_loops; /* DtStoreKind, DtDtype, DtInitKind */
    uint8_t saved, arena, reserved;             /* saved: belongs in checkpoints */
    double init_a, init_b;
    uint64_t key;         /* of the initialiser's random numbers */
    int64_t offset, bytes;
    uint32_t span;
    int32_t stage;        /* stages that use one parameter have a record each, with one path and equal contents */
    uint32_t pack;        /* 0, or 1 + number of the PACK record: offset and bytes are then those of the bucket */
    uint32_t more;        /* so many stages behind `stage` have one of the kind at the same place; its axes
                           * say of which iterations */
} DtPlanStore;

/* CODE: one compiled unit (a shared object in BLOB) and its source text in BLOB. */
typedef struct DtPlanCode {
    DtPlanStr target, compiler;
    uint64_t binary, binary_len, source, source_len; /* offsets in BLOB; binary_len 0: compiled without code */
} DtPlanCode;

/* KERN: void symbol(char *const *p, const int64_t *i), p: n_pointers addresses, i: n_integers. */
typedef struct DtPlanKernel {
    DtPlanStr symbol, name; /* "k12", "layernorm.fwd" */
    uint32_t code, n_pointers, n_integers, span;
    double flops, bytes, special; /* special: what takes time beside operations (codegen/kernel_price.c) */
} DtPlanKernel;

/* LNCH: how a GPU starts the kernel of KERN's record of that number; none for kernels of processors. A unit has a
 * record of CODE for each target then, one behind the other and with one source, and KERN names the first. A kernel has
 * one argument: a struct of its addresses, then its integers, each of them 8 bytes; none of a sort: 8 bytes that it
 * does not read. With `finish` it is two, started one behind the other: `symbol` DT_PLAN_PIECES in `blocks`, `symbol`
 * DT_PLAN_FINISH in `finish`. Then, behind its addresses, that of the workspace, which nobody else touches between
 * the two, and which may have any contents before. */
#define DT_PLAN_PIECES "_pieces"
#define DT_PLAN_FINISH "_finish"
#define DT_PLAN_WORKSPACE_MOST (1 << 26) /* bytes */
typedef struct DtPlanLaunch {
    uint32_t blocks, threads;  /* threads of a block: at most 1,024 */
    uint32_t shared, finish;   /* bytes of memory that a block's threads share: at most 232,448; blocks or 0 */
    uint64_t workspace;        /* bytes */
} DtPlanLaunch;

/* REGS: what the assembler said of a kernel's code for one target: of two launches the most. In the order of kernels,
 * then of CODE; none of what was not compiled, or is for processors. For people alone. */
typedef struct DtPlanRegisters {
    uint32_t kernel, code;        /* numbers of its KERN, and of the CODE */
    uint32_t registers, spilled;  /* of a thread: at most 255; bytes of its values that go to memory and back */
} DtPlanRegisters;

/* SDPA: what a kernel of attention is to a library that has softmax attention, which may be run instead of it. Of
 * query i and key j z is scale (q_i . k_j), or -inf where i does not see j: causal 1: where j > i, window w > 0:
 * where i - j >= w. Each query sees a key. Forward o_i is the sum of p_ij v_j, p = exp(z - m) / l, with the maximum m
 * and the sum l of exp(z - m) of each query, which may be stored (s, 1) for any s = m + log l. Backward, from m, l, o
 * and do, with dz = p (do_i . v_j - do_i . o_i): dq_i is the sum of scale dz k_j, dk_j of scale dz q_i, dv_j of p
 * do_i, over all heads with these keys. It is meant for m of no less than -1e30 and l of no less than 1e-30: kernels
 * may bound them so. Head h has the keys of head h / (heads / kv_heads). A tensor [batch, heads, rows, head] is
 * pointer[part] of the kernel's (-1: it has none), from element `offset` on; elements of a row are adjacent. m and l
 * are f32, all else dtype. workspace: bytes that the library may need, which nobody else touches meanwhile.
 *
 * Where there is m the code has a kernel `symbol` DT_PLAN_STATISTIC, too, in any number of blocks of
 * DT_PLAN_STATISTIC_THREADS, of the addresses of a dense f32 [batch, heads, queries], of m and of l: forward it makes
 * (s, 1) of s, backward m + log l of both. */
#define DT_PLAN_STATISTIC "_statistic"
#define DT_PLAN_STATISTIC_THREADS 256
#define DT_PLAN_SDPA_WORKSPACE_MOST ((uint64_t)1 << 32) /* bytes */
typedef enum DtPlanSdpaPart {
    DT_SDPA_Q, DT_SDPA_K, DT_SDPA_V, DT_SDPA_O, DT_SDPA_MAX, DT_SDPA_SUM,
    DT_SDPA_DO, DT_SDPA_DQ, DT_SDPA_DK, DT_SDPA_DV, DT_SDPA_PARTS
} DtPlanSdpaPart;
typedef struct DtPlanSdpa {
    uint32_t kernel, dtype, backward, causal;
    int64_t batch, heads, kv_heads, queries, keys, head, window;
    double scale;
    uint64_t workspace;
    int32_t pointer[DT_SDPA_PARTS];
    int64_t offset[DT_SDPA_PARTS];
    int64_t of_batch[DT_SDPA_PARTS], of_head[DT_SDPA_PARTS], of_row[DT_SDPA_PARTS]; /* strides */
} DtPlanSdpa;

/* GEMM: C[b.., m, n] (+)= A[b.., m, k] B[b.., k, n], all strided in elements. epilogue (kinds.h): what else happens, at
 * c_col = 1 and without batch axes, and if it adds up in C, sums of A or B alone. */
typedef struct DtPlanGemm {
    uint32_t n_batch, accumulate;       /* accumulate 1: add to C */
    uint32_t dtype_a, dtype_b, dtype_c, epilogue;
    int64_t m, n, k;
    int64_t batch[DT_PLAN_MAX_BATCH];
    int64_t a_batch[DT_PLAN_MAX_BATCH], b_batch[DT_PLAN_MAX_BATCH], c_batch[DT_PLAN_MAX_BATCH];
    int64_t a_row, a_col, b_row, b_col, c_row, c_col;
    int64_t matrix_row, matrix_col;     /* of the epilogue's matrix; 0: it has none */
} DtPlanGemm;

/* BLOK: how the blocks lie that members of a group exchange. A block is an array of extent[] elements, outermost
 * dimension first, with the strides to[] and from[] in the two buffers. What member q has for member p begins in
 * q's `from` at sum_c from_coord[c] * coordinate(coord_axis[c]) of p, and goes to p's `to` at
 * sum_c to_coord[c] * coordinate(coord_axis[c]) of q. An all-gather has no from_coord, a reduce-scatter no to_coord.
 * So a collective along any axis reads and writes tensors where they lie: nothing is packed. */
typedef struct DtPlanBlocks {
    uint32_t group, n_dims;
    int64_t extent[DT_PLAN_BLOCK_DIMS], to[DT_PLAN_BLOCK_DIMS], from[DT_PLAN_BLOCK_DIMS];
    uint8_t coord_axis[8];                    /* DT_PLAN_COORDS of them */
    int64_t to_coord[DT_PLAN_COORDS], from_coord[DT_PLAN_COORDS];
} DtPlanBlocks;

/* ARGS */
/* STEP: number of the step; code for GPUs gets the address of 8 bytes that hold it */
typedef enum DtPlanArgKind { DT_ARG_ADDRESS, DT_ARG_INTEGER, DT_ARG_STEP } DtPlanArgKind;
typedef struct DtPlanArg {
    uint8_t kind, arena;
    uint8_t written;      /* address: 1 if the instruction writes there */
    uint8_t coord_axis[DT_PLAN_COORDS];
    int64_t base;         /* address: byte offset in the arena */
    int64_t bytes;        /* address: length of the range it may touch */
    int64_t reg[DT_PLAN_ARG_REGS]; /* of the first registers; the others are for schedules */
    int64_t coord[DT_PLAN_COORDS];
} DtPlanArg;

/* INST. An instruction begins when those before it have ended, but for a collective or message with an event: it is
 * only started, goes on in the queue of its group, or of its end of the channel, behind what was started there before,
 * and has ended for sure once a WAIT for that event has. What a rank does in the order of its instructions, without
 * queues, is the same: nothing touches what is on its way, which the certificate proves. Such a rank receives where it
 * waits: where a RECV is started, nobody need have sent.
 *
 * args: see each kind. A kernel, product, copy or zeroing may have guards: it runs where none of them is
 * negative.
 *
 * A product with an epilogue may have a second form, a body of products without one and of kernels:
 * a run takes either for all instructions of a GEMM record (`dtrun --epilogues`). Both write the
 * same values to the same places; where the second form rounds what the first one does not, bits
 * differ. Instructions of the body read and write addresses of the product's own arguments and of
 * arena INSTEAD, where each of them reads only what one before it in the body wrote. */
typedef enum DtPlanInstKind {
    DT_INST_KERNEL,         /* ref: kernel; n_pointers addresses, then n_integers integers */
    DT_INST_GEMM,           /* ref: gemm; A, B, C, then the epilogue's vector and matrix */
    DT_INST_COPY,           /* to, from; count bytes */
    DT_INST_ZERO,           /* to; count bytes */
    DT_INST_READ,           /* ref: reader; one address per input, then first row and number of rows (of the batch) */
    DT_INST_ALL_REDUCE,     /* ref: group; to, then from unless in place; count elements, dtype, reduce */
    DT_INST_ALL_GATHER,     /* ref: group; to, from; count elements of a block (of from); blocks */
    DT_INST_REDUCE_SCATTER, /* ref: group; to, from; count elements of a block (of to); reduce, blocks */
    DT_INST_ALL_TO_ALL,     /* ref: group; to, from; count elements of a block; blocks */
    DT_INST_SHIFT,          /* ref: group; to, from; count elements, of the member before; member 0: of the last */
    DT_INST_SHIFT_BACK,     /* the same, of the member behind; the last: of member 0 */
    DT_INST_SEND, DT_INST_RECV, /* ref: channel; buffer, integer tag (micro-batch): both ends must name the same */
    DT_INST_WAIT,           /* until what was started under its event has ended; nothing, if nothing was */
    DT_INST_KINDS
} DtPlanInstKind;
typedef struct DtPlanInst {
    uint16_t kind, dtype;
    uint8_t reduce, guards; /* guards: so many of the arguments, the last ones, are integers of its guards */
    uint16_t n_args;
    uint32_t first_arg, ref, span;
    uint32_t blocks;        /* 1 + BLOK record; 0: blocks of count elements lie one after the other in member order */
    int64_t count;
    uint32_t event;         /* 1 + number of the event; of collectives and messages, 0: they are not only started */
    uint32_t event_step;    /* that number grows so much from slot to slot of a ring buffer */
    uint32_t instead;       /* of a product: 1 + the body that is its second form; 0: it has one form */
    uint32_t reserved;
} DtPlanInst;

/* BODY: instructions in order. */
typedef struct DtPlanBody { DtPlanStr name; uint32_t first_inst, n_insts, reserved; } DtPlanBody;

/* SCHD: a sequence of RUN, CALL, SET, WHEN, LOOP .. END.
 *   RUN    body: body
 *   CALL   body: entry, one before this one, whose items run as if they stood here; it has no CALL itself
 *   SET    register reg = step * register[body] + register[plus] + first, modulo count if that is not 0 (then
 *          0 .. count - 1); plus 0: nothing
 *   LOOP   register reg = first, first + step, ... count times
 *   WHEN   the next `body` items, of RUN, SET and WHEN alone, only if first <= register reg < first + count; a WHEN
 *          that another one guards guards none
 * Registers are 0 when an entry begins, a loop's after its END. Register 0 is the micro-batch, 1 to 4 are
 * iterations of loops by depth; schedules of pipelines use the others: for slots (a micro-batch modulo a
 * depth), for their period and for what repeats inside it. The ring is the slot of what loops gather ahead of their
 * iterations; it is set modulo how many of these have memory, and alone keeps what an iteration, or a called entry,
 * sets it to for the next one. */
enum {
    DT_PLAN_REG_SLOTS = 5,
    DT_PLAN_N_SLOTS = 2,
    DT_PLAN_REG_RINGBUF = 7,
    DT_PLAN_REG_PERIOD = 8,
    DT_PLAN_REG_REPEAT = 9
};
typedef enum DtPlanScheduleKind {
    DT_SCHED_RUN,
    DT_SCHED_LOOP,
    DT_SCHED_END,
    DT_SCHED_CALL,
    DT_SCHED_SET,
    DT_SCHED_WHEN,
    DT_SCHED_KINDS
} DtPlanScheduleKind;
typedef struct DtPlanSchedule {
    uint8_t kind, reg, plus, reserved;
    uint32_t body;
    int32_t first, step, count;
} DtPlanSchedule;

/* ENTR: "step" (all micro-batches: loss, gradients complete over ranks), "update" (optimizer, grad_norm), of several
 * losses "step@NAME", "update@NAME" each; "eval" (losses of one batch), "predict" (outputs of one batch), each once per
 * stage or once for all; others are parts that these call. */
typedef struct DtPlanEntry { DtPlanStr name; uint32_t first, count; int32_t stage; } DtPlanEntry;

/* READ and INPT: data readers. rows: samples. */
typedef struct DtPlanReader {
    uint32_t sample, source;  /* DtSampleKind, DtSourceKind */
    DtPlanStr glob, folder;   /* folder: as META.source_folder */
    uint32_t dtype, is_eval;
    uint32_t first_input, n_inputs;
    double from, to, lo, hi, rate, mean_span;
    int64_t mask_id, reserved;
    uint32_t span, reserved2;
} DtPlanReader;
typedef struct DtPlanInput {
    DtPlanStr name;
    uint32_t dtype, first_axis, n_axes;
    int64_t row_elements;
    uint32_t arena, reserved;
    int64_t offset; /* of a micro-batch of it */
    /* i32: what the program can do with. Random numbers are drawn from draw_lo .. draw_hi - 1; equal: nothing says. A
     * value must lie in one of n_ranges intervals lo .. hi - 1, in rising order; elsewhere it would be outside
     * `indexed`, an axis of `extent` elements, at span. n_ranges 0: any value may stand. */
    int64_t draw_lo, draw_hi, lo[DT_PLAN_RANGES], hi[DT_PLAN_RANGES];
    uint32_t n_ranges, span;
    DtPlanStr indexed;
    uint32_t reserved2;
    int64_t extent;
} DtPlanInput;

/* SCAL: scalars that the runtime writes before "step", each one f32. formula: base/formula.h, of the step and SETT.
 * name: of the program's input: "@lr", which logs show; "@loss_scale" only if the runtime adapts it. */
typedef struct DtPlanScalar { DtPlanStr name, formula; uint32_t arena, reserved; int64_t offset; } DtPlanScalar;

/* OBJE: losses that a step minimises, in this order: for each, if the number of the step from 1 is a multiple of
 * `every`, entry `step` and then entry `update`. rate: the SCAL record that is shown as its learning rate, or "". */
typedef struct DtPlanObjective { DtPlanStr loss, step, update, rate; int64_t every; } DtPlanObjective;

/* METR: scalars and tensors that the runtime reads after an entry ran. */
typedef struct DtPlanMetric {
    DtPlanStr name, entry;  /* "loss" of "step" ... ; outputs of "predict": "gpt2.0" */
    uint32_t arena, dtype, first_axis, n_axes;
    int64_t offset, bytes;
    int32_t stage;          /* where it can be read */
    uint32_t reserved;
} DtPlanMetric;

/* SHOW: losses and metrics that are shown of an entry: losses first. formula: base/formula.h, of
 * the scalars that METR names for the entry, and of `batches`, over which each of these is a mean;
 * "": the METR record of that name. */
typedef struct DtPlanShow { DtPlanStr name, entry, formula; uint32_t reserved; } DtPlanShow;

/* SPAN: where something comes from. */
typedef struct DtPlanSpan {
    DtPlanStr file, path, text; /* text: the op or call */
    uint32_t line, column, reserved;
} DtPlanSpan;

/* SAVE: what a loop hands over to its backward loop, and what that computes again instead, in bytes of one
 * iteration of one micro-batch on one rank; for reports. */
typedef struct DtPlanSaved { DtPlanStr loop; uint32_t span; int64_t iterations, saved, recomputed; } DtPlanSaved;

/* PEAK: where the temporaries of an entry need most memory at a time: `live` bytes, the largest tensors of them have
 * `bytes`. ATTN: what attention a kernel is: `heads` times `queries` rows of `head` elements, kv_heads times `keys`; of
 * the scores so many are wanted, on the rank that wants most. What it multiplies has `dtype`; elements at its address
 * number p are f32 if bit p of `wide` is set, else of that type. A GPU's kernel in 16 bits is not the same bits on
 * every machine: matrix units add in an order of their own, exponentials and quotients may be off by 2^-20. DEVC: the
 * device that the plan was made for, as names and numbers (report/device.c). PRED: what a step takes there in seconds,
 * probably between low and high, and the peak of products on one rank in FLOP/s. All are for reports; the runtime shows
 * PRED, what follows from DEVC in traces, and compares recorded runs by ATTN. */
typedef struct DtPlanPeak {
    uint32_t entry, span;
    int64_t live, bytes[4];
} DtPlanPeak;
typedef struct DtPlanAttention {
    uint32_t kernel, dtype, backward, dropout;
    int64_t heads, kv_heads, head, queries, keys;
    double visible;
    uint64_t wide;
} DtPlanAttention;
typedef struct DtPlanDevice { DtPlanStr name, text; double value, within; } DtPlanDevice;
typedef struct DtPlanPrediction { DtPlanStr device; uint32_t reserved; double step, low, high, peak; } DtPlanPrediction;

/* LOGI: one record, for the certificate; the runtime skips it: the programs that it reads (plan/logical.h), the notes
 * of all entries (plan/notes.h), and a digest of the kernels that these speak of. NOTE: where the notes of an entry
 * are; entries that do the same share them. */
typedef struct DtPlanLogical { uint64_t programs, programs_len, notes, notes_len; uint64_t code[4]; } DtPlanLogical;
typedef struct DtPlanNote { uint32_t first, count; } DtPlanNote;                          /* bytes of the notes */

#define DT_PLAN_SECTIONS(X)                                                                                  \
    X("META", meta, DtPlanMeta) X("SETT", settings, DtPlanSetting) X("MESH", mesh, DtPlanMeshAxis)                \
    X("GRUP", groups, DtPlanGroup) X("CHAN", channels, DtPlanChannel) X("AREN", arenas, DtPlanArena)         \
    X("ASIZ", sizes, DtPlanArenaSize) X("AXIS", axes, DtPlanAxis)                                            \
    X("STOR", stores, DtPlanStore) X("PACK", packs, DtPlanPack) X("CODE", codes, DtPlanCode)       \
    X("KERN", kernels, DtPlanKernel) X("LNCH", launches, DtPlanLaunch) X("REGS", registers, DtPlanRegisters) \
    X("SDPA", sdpas, DtPlanSdpa) \
    X("GEMM", gemms, DtPlanGemm) \
    X("BLOK", blocks, DtPlanBlocks)                                                                          \
    X("ARGS", args, DtPlanArg) X("INST", insts, DtPlanInst)                                                  \
    X("BODY", bodies, DtPlanBody) X("SCHD", schedule, DtPlanSchedule) X("ENTR", entries, DtPlanEntry)        \
    X("READ", readers, DtPlanReader) X("INPT", inputs, DtPlanInput) X("SCAL", scalars, DtPlanScalar)         \
    X("OBJE", objectives, DtPlanObjective)                                                                 \
    X("METR", metrics, DtPlanMetric) X("SHOW", shows, DtPlanShow) X("SPAN", spans, DtPlanSpan)              \
    X("SAVE", saved, DtPlanSaved)                                                                            \
    X("PEAK", peaks, DtPlanPeak) X("ATTN", attentions, DtPlanAttention) X("DEVC", devices, DtPlanDevice)     \
    X("PRED", predictions, DtPlanPrediction)                                                                \
    X("LOGI", logical, DtPlanLogical) X("NOTE", notes, DtPlanNote)

/* A plan in memory: read (arrays point into the mapping) or being written (arrays in an arena). */
typedef struct DtPlan {
#define DT_PLAN_FIELD(tag, field, type) const type *field; uint32_t n_##field;
    DT_PLAN_SECTIONS(DT_PLAN_FIELD)
#undef DT_PLAN_FIELD
    const char *strings; uint32_t n_strings;  /* starts with a NUL, ends with a NUL */
    const uint8_t *blob; uint64_t n_blob;
    uint64_t digest;
} DtPlan;

static inline uint32_t dt_plan_stages(const DtPlan *plan)
{
    return plan->meta->pipeline ? plan->mesh[plan->meta->pipeline - 1].size : 1;
}

/* Whether a record with this stage (-1: all) is one of the given stage. */
static inline int dt_plan_on_stage(int32_t record, uint32_t stage) { return record < 0 || (uint32_t)record == stage; }

static inline int dt_plan_store_on(const DtPlanStore *store, uint32_t stage)
{
    return store->stage < 0 || (stage >= (uint32_t)store->stage && stage - (uint32_t)store->stage <= store->more);
}

static inline int64_t dt_plan_arena_bytes(const DtPlan *plan, uint32_t arena, uint32_t stage)
{
    return plan->n_sizes ? plan->sizes[stage * plan->n_arenas + arena].bytes : plan->arenas[arena].bytes;
}

/* Whether memory of the kind is there only where something is predicted. */
static inline int dt_plan_predicts(uint32_t kind) { return kind == DT_ARENA_PREDICT || kind == DT_ARENA_PREDICTED; }

/* Whether every rank has memory of the kind from its start on. */
static inline int dt_plan_is_usual(uint32_t kind)
{
    return !dt_plan_predicts(kind) && kind != DT_ARENA_INSTEAD;
}

static inline const char *dt_plan_str(const DtPlan *plan, DtPlanStr str) { return plan->strings + str; }

/* Whether an entry of that name is what steps are made of. */
static inline int dt_plan_is_step(const DtPlan *plan, DtPlanStr name)
{
    for (uint32_t i = 0; i < plan->n_objectives; i++)
        if (strcmp(dt_plan_str(plan, name), dt_plan_str(plan, plan->objectives[i].step)) == 0 ||
            strcmp(dt_plan_str(plan, name), dt_plan_str(plan, plan->objectives[i].update)) == 0)
            return 1;
    return 0;
}

#endif
