/* SPDX-License-Identifier: Apache-2.0 */
/* The plan: what every rank computes, when, in which memory, and which bytes travel. One file for
 * all ranks; the contract between the compiler (writer) and the runtime (reader).
 *
 * File = DtPlanHeader, then DtPlanSection[n_sections], then the sections, each an array of one
 * fixed little-endian record type (STRS, BLOB: bytes), 64-byte aligned. References are indices of
 * records; strings are offsets of NUL-terminated UTF-8 text in STRS. Loading is mmap, digest, one
 * pass that bounds every index (plan/check.c); the arrays are then used in place. Nothing depends
 * on pointers.
 *
 * A plan contains machine code: running one trusts its author. Everything but the runtime treats it
 * as data.
 *
 * Addresses and integers of instructions are affine in registers (iteration numbers set by the
 * schedule) and in mesh coordinates, so that a loop over layers and micro-batches is one body:
 *     value = base + sum_r reg[r] * regs[r] + sum_c coord[c] * coordinate(coord_axis[c])
 *
 * Pipelines: what a rank does depends on its coordinate on one mesh axis, the *stage*, and on no
 * other coordinate. Records that only some stages have carry a stage, -1 for all; without a
 * pipeline there is one stage,
 * 0. */
#ifndef DT_PLAN_PLAN_H
#define DT_PLAN_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DT_PLAN_MAGIC "DTPLAN\r\n"
#define DT_PLAN_MAX_BYTES ((int64_t)1 << 46) /* the most bytes of all arenas of a rank; also the
                                              * most elements, and the largest extent */

enum { DT_PLAN_VERSION = 32, DT_PLAN_ALIGN = 64, DT_PLAN_REGS = 10, DT_PLAN_ARG_REGS = 8,
       DT_PLAN_COORDS = 5, DT_PLAN_MAX_RANK = 16, DT_PLAN_MAX_BATCH = 4, DT_PLAN_SPLITS = 4,
       DT_PLAN_BLOCK_DIMS = 6, DT_PLAN_RANGES = 4, DT_PLAN_MAX_DEPTH = 8, DT_PLAN_MAX_STAGES = 1024,
       DT_PLAN_MAX_SLOTS = 4096, DT_PLAN_MAX_SETTINGS = 128, DT_PLAN_MAX_OBJECTIVES = 8,
       DT_PLAN_SPECIALS = 8, DT_PLAN_MIX_MOST = 64,
       DT_PLAN_MAX_EVENTS = 1 << 16, DT_PLAN_NONE = -1 };

typedef struct DtPlanHeader {
    char magic[8];
    uint32_t version;
    uint32_t n_sections;
    uint64_t length;      /* bytes of the whole file */
    uint64_t digest;      /* XXH3-64 of all bytes after the header */
    uint8_t reserved[32]; /* zero */
} DtPlanHeader;           /* 64 bytes */

typedef struct DtPlanSection {
    char tag[4];
    uint16_t version;
    uint16_t critical;    /* 1: a reader that does not know the tag must refuse the file */
    uint32_t record_size;
    uint32_t count;       /* number of records (bytes for STRS and BLOB) */
    uint64_t offset;      /* from the start of the file, multiple of DT_PLAN_ALIGN */
    uint64_t length;      /* record_size * count */
    uint64_t checksum;    /* XXH3-64 of the section */
} DtPlanSection;          /* 40 bytes */

typedef uint32_t DtPlanStr; /* offset in STRS; 0 is the empty string */

/* The number of steps, for checks of formulas, of a plan that says `epochs`: a run finds the true
 * one. */
enum { DT_PLAN_STEPS_ASSUMED = 1000 };

/* META: one record. */
typedef struct DtPlanMeta {
    DtPlanStr model, source, compiler, target; /* for example "gpt2", "gpt2.dsl", "dtc 0.1.0",
                                                * "cpu-v4" */
    /* folder of the .dsl file relative to the plan's folder, or absolute */
    DtPlanStr source_folder;
    /* 1: the loss is a sum over samples, so an evaluation includes the samples after the last
     * whole batch */
    uint32_t eval_rest;
    uint32_t pipeline;        /* 1 + number of the mesh axis whose coordinate is the stage; 0: one
                               * stage */
    uint32_t events;          /* number of events that instructions use */
    uint32_t n_ranks, n_micro;
    /* elements of a random draw that one call of the generator gives: 1, 4; 0: no draws */
    uint32_t draws;
    /* 1: operands of products in f32 are rounded to 10 bits of mantissa */
    uint32_t tf32;
    uint64_t source_digest;
    uint64_t seed;
    int64_t steps;
    int64_t batch;            /* samples per step over all ranks */
    /* elements of the first input in a step over all ranks; token ids if that holds some */
    int64_t tokens;
    int64_t parameters;       /* logical elements of all parameters */
    int64_t eval_every, eval_steps, save_every, save_keep;
    /* operations of contractions in a step over all ranks; the mean over steps where losses take
     * turns */
    double flops;
    /* those of the serial program, without recomputation and padding; 0: not known */
    double model_flops;
    /* > 0: steps is 0, and follows from the number of samples: so often the data are read */
    double epochs;
    int64_t eval_patience;    /* evaluations without a lower loss that end the run; 0: none do */
    int64_t keep_best;        /* 1: the checkpoint with the lowest held-out loss is kept */
    /* A step takes ramp_from samples, and ramp_by more after each equal share of the first
     * ramp_over samples, until it takes `batch`. It runs the last of its micro-batches. 0: all take
     * `batch` */
    int64_t ramp_from, ramp_by, ramp_over;
    /* replicas exchange parameters after each step whose number is a multiple of mix_every, by
     * entry "mix" or, of mix_ways ways, by one of "mix@0", "mix@1", ..; 0: there are none */
    int64_t mix_every, mix_ways;
} DtPlanMeta;

/* SETT: numbers in formulas of scalars that a run may change: "lr.base". is_whole: only whole
 * numbers. */
typedef struct DtPlanSetting { DtPlanStr name; uint32_t is_whole; double value; } DtPlanSetting;

/* MESH, slowest link first; rank = row-major over the coordinates. */
typedef struct DtPlanMeshAxis { DtPlanStr name; uint32_t size; } DtPlanMeshAxis;

/* GRUP: a group: the ranks that differ only in the mesh axes of mask. stages: the stages whose
 * ranks belong to it (base/stages.h), if mask has the pipeline's axis; "": all. queue: the queue
 * of its collectives, shared by groups of equal masks. Everything else is in queue 0. */
typedef struct DtPlanGroup { uint32_t mask, size, queue; DtPlanStr stages; } DtPlanGroup;

/* CHAN: a channel: a value that travels from one stage to another, to the rank whose other
 * coordinates are equal. It holds `slots` messages: `send` waits only for a free slot, `recv`
 * for the oldest message. direct 1: the channel also works without slots. Then a message goes
 * from buffer to buffer once both ends have begun, each end has a queue of its own, and no rank
 * waits for ever even if each end works through its messages one at a time, in the order in
 * which they were begun. */
typedef struct DtPlanChannel {
    DtPlanStr name;           /* path of the value */
    uint32_t from, to;        /* the sending and the receiving stage; may be equal */
    uint32_t slots;
    int64_t bytes;            /* bytes of a slot, which the largest message needs */
    uint32_t span, direct;
} DtPlanChannel;

/* AREN: memory of one rank, zeroed at start. shared: in the mapping that other ranks read.
 * bytes: of the stage that has most. PREDICT, PREDICTED: temporaries and tensors that only entry
 * "predict", "prefill" and "decode" use (codes and scales of weights among them), and CACHE what
 * the last two keep of earlier positions; a training run does not allocate them. INSTEAD: values
 * passed between the
 * instructions of products' second forms (INST); allocated only in runs that chose such a form.
 * ASIZ: bytes of arena a on stage s at index s * arenas + a; no records: equal on all stages. */
typedef enum DtPlanArenaKind {
    DT_ARENA_PARAMS,
    DT_ARENA_GRADS,
    DT_ARENA_OPTIMIZER,
    DT_ARENA_ACTIVATIONS,
    DT_ARENA_INPUTS,
    DT_ARENA_SCALARS,
    DT_ARENA_WORKSPACE,
    DT_ARENA_PREDICT,
    DT_ARENA_PREDICTED,
    DT_ARENA_INSTEAD,
    DT_ARENA_CACHE,
    DT_ARENA_KINDS
} DtPlanArenaKind;
typedef struct DtPlanArena {
    DtPlanStr name;
    uint32_t kind, shared, reserved;
    int64_t bytes;
} DtPlanArena;
typedef struct DtPlanArenaSize { int64_t bytes; } DtPlanArenaSize;

/* AXIS: axes of stores, inputs and outputs. A stage's store holds iterations first .. first + local
 * - 1 of a loop that stages share. */
typedef struct DtPlanAxis {
    DtPlanStr name;
    uint8_t split[DT_PLAN_SPLITS]; /* 1 + numbers of the mesh axes that split it, major to minor,
                                    * then zeros */
    int64_t extent;       /* logical extent */
    int64_t local;        /* extent on one rank */
    int64_t first;        /* loop axes: index of the stage's first element; else 0 */
    /* loop axes of a store that several stages have: how much `first` grows from one stage to
     * the next */
    int64_t step;
} DtPlanAxis;

/* PACK: the elements of a store that is part of a bucket. Per iteration of its loops (the
 * store's first axes) the bucket has `extent` elements, of which a rank holds `run`, from run *
 * block on; block is the rank's number among the ranks of the mesh axes split[], major first.
 * The store's local elements, row-major after the loop axes, are the bucket's from `offset` on.
 * The memory of a bucket of gradients may hold all blocks: then its own block is at its place
 * among them, and micro-batches accumulate each rank's terms in all blocks. */
typedef struct DtPlanPack {
    int64_t extent, run, offset;
    uint8_t split[4];
    uint32_t n_split;
} DtPlanPack;

/* STOR: parameters, states, moments (gradients too, for reports). Local part contiguous,
 * row-major. */
typedef struct DtPlanStore {
    DtPlanStr path;       /* for example h.attention.wq.w */
    DtPlanStr pattern;    /* for example h.#.attention.wq.w */
    uint32_t first_axis;
    int32_t of;           /* number of the store that a moment or gradient belongs to, or -1 */
    uint8_t kind, dtype, init, n_axes, n_loops; /* DtStoreKind, DtDtype, DtInitKind */
    uint8_t saved, arena;                       /* saved 1: checkpoints contain it */
    uint8_t adapter;      /* 1: of an adapter; --weights may take a checkpoint without it */
    double init_a, init_b;
    uint64_t key;         /* key of the initialiser's random numbers */
    int64_t offset, bytes;
    uint32_t span;
    /* the stage that has it, or -1; stages that use one parameter have a record each, with equal
     * paths and contents */
    int32_t stage;
    /* 0, or 1 + number of the PACK record: offset and bytes are then those of the bucket */
    uint32_t pack;
    /* number of stages after `stage` with such a store at the same offset; its axes give the
     * iterations of each */
    uint32_t more;
    /* of a copy: bytes with which path and pattern begin. After them is the path of the original,
     * with whose value it begins: --import and --weights read that. 0: it is no copy */
    uint32_t copy;
    uint32_t reserved;
} DtPlanStore;

/* CODE: one compiled unit (a shared object in BLOB) and its source text in BLOB. */
typedef struct DtPlanCode {
    DtPlanStr target, compiler;
    /* offsets in BLOB; binary_len 0: compiled without machine code */
    uint64_t binary, binary_len, source, source_len;
} DtPlanCode;

/* KERN: void symbol(char *const *p, const int64_t *i), p: n_pointers addresses, i: n_integers. */
typedef struct DtPlanKernel {
    DtPlanStr symbol, name; /* for example "k12", "layernorm.fwd" */
    uint32_t code, n_pointers, n_integers, span;
    /* special: operations that take time in addition to flops, such as exponentials
     * (codegen/kernel_price.c) */
    double flops, bytes, special;
} DtPlanKernel;

/* LNCH: how a GPU starts the kernel with this number in KERN; kernels for processors have no
 * record. A unit of code has a record of CODE for each target then, one after the other, with
 * the same source; KERN names the first. A kernel takes one argument: a struct of its addresses,
 * then its integers, 8 bytes each (8 unused bytes if it has neither). With `finish` there are
 * two kernels, started one after the other: `symbol` DT_PLAN_PIECES with `blocks` blocks, then
 * `symbol` DT_PLAN_FINISH with `finish` blocks. They get the address of the workspace after the
 * other addresses; nobody else touches it between the two, and its earlier contents are
 * arbitrary. */
#define DT_PLAN_PIECES "_pieces"
#define DT_PLAN_FINISH "_finish"
#define DT_PLAN_WORKSPACE_MOST (1 << 26) /* the most bytes of a workspace */
#define DT_PLAN_ARGUMENT_MOST 4096       /* bytes of a kernel's argument that every driver
                                          * accepts */
typedef struct DtPlanLaunch {
    uint32_t blocks, threads;  /* threads of a block: at most 1,024 */
    /* shared memory of a block in bytes: at most 232,448; blocks of the second kernel, or 0 */
    uint32_t shared, finish;
    uint64_t workspace;        /* bytes of the workspace */
} DtPlanLaunch;

/* REGS: registers of a kernel's code for one target, as the assembler reported them; of two
 * kernels the larger number. In the order of kernels, then of CODE. No record for code that was
 * not compiled or is for processors. For reports only. */
typedef struct DtPlanRegisters {
    uint32_t kernel, code;        /* numbers of its KERN, and of the CODE */
    /* per thread: at most 255; bytes of its values that are spilled to memory */
    uint32_t registers, spilled;
} DtPlanRegisters;

/* SDPA: describes an attention kernel as softmax attention, so that a library may run in its
 * place. For query i and key j, z is scale (q_i . k_j), or -inf where i does not see j: causal
 * 1: where j > i, window w > 0: where i - j >= w. Each query sees a key. Forward: o_i is the sum
 * of p_ij v_j with p = exp(z - m) / l, where m is the maximum of z and l the sum of exp(z - m)
 * per query. The kernel stores m and l, or (s, 1) with any s = m + log l. Backward, from m, l, o
 * and do, with dz = p (do_i . v_j - do_i . o_i): dq_i is the sum of scale dz k_j, dk_j of scale
 * dz q_i, dv_j of p do_i, over all heads with these keys. Kernels may assume m >= -1e30 and l >=
 * 1e-30. Head h has the keys of head h / (heads / kv_heads). A tensor [batch, heads, rows, head]
 * is pointer[part] of the kernel's addresses (-1: none), from element `offset` on; elements of a
 * row are adjacent. m and l are f32, everything else dtype. workspace: bytes that the library
 * may need and that nobody else touches meanwhile.
 *
 * Where there is m, the code also has a kernel `symbol` DT_PLAN_STATISTIC, for any number of
 * blocks of DT_PLAN_STATISTIC_THREADS, with the addresses of a dense f32 [batch, heads, queries]
 * s, of m and of l: forward it writes (s, 1) to m and l, backward it writes m + log l to s. */
#define DT_PLAN_STATISTIC "_statistic"
#define DT_PLAN_STATISTIC_THREADS 256
#define DT_PLAN_SDPA_WORKSPACE_MOST ((uint64_t)1 << 32) /* the most bytes of the workspace */
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
    /* strides of batch, heads and rows */
    int64_t of_batch[DT_SDPA_PARTS], of_head[DT_SDPA_PARTS], of_row[DT_SDPA_PARTS];
} DtPlanSdpa;

/* GEMM: C[b.., m, n] (+)= A[b.., m, k] B[b.., k, n], all strided in elements. epilogue
 * (kinds.h): what the product does in the same call (bias, activation). It requires c_col = 1
 * and no batch axes; with `accumulate` only sums of A or B are allowed. */
typedef struct DtPlanGemm {
    uint32_t n_batch, accumulate;       /* 1: adds to C */
    uint32_t dtype_a, dtype_b, dtype_c, epilogue;
    int64_t m, n, k;
    int64_t batch[DT_PLAN_MAX_BATCH];
    int64_t a_batch[DT_PLAN_MAX_BATCH], b_batch[DT_PLAN_MAX_BATCH], c_batch[DT_PLAN_MAX_BATCH];
    int64_t a_row, a_col, b_row, b_col, c_row, c_col;
    int64_t matrix_row, matrix_col;     /* strides of the epilogue's matrix; 0: it has none */
} DtPlanGemm;

/* BLOK: the layout of the blocks that members of a group exchange. A block is an array of
 * extent[] elements, outermost dimension first, with the strides to[] and from[] in the two
 * buffers. The block of member q for member p begins in q's `from` at sum_c from_coord[c] *
 * coordinate(coord_axis[c]) of p, and goes to p's `to` at sum_c to_coord[c] *
 * coordinate(coord_axis[c]) of q. An all-gather has no from_coord, a reduce-scatter no to_coord.
 * So a collective along any axis reads and writes tensors in place, without packing. */
typedef struct DtPlanBlocks {
    uint32_t group, n_dims;
    int64_t extent[DT_PLAN_BLOCK_DIMS], to[DT_PLAN_BLOCK_DIMS], from[DT_PLAN_BLOCK_DIMS];
    uint8_t coord_axis[8];                    /* by coordinate, DT_PLAN_COORDS of them */
    int64_t to_coord[DT_PLAN_COORDS], from_coord[DT_PLAN_COORDS];
} DtPlanBlocks;

/* ARGS: arguments of instructions */
/* STEP: number of the step; GPU code gets the address of 8 bytes that hold it */
typedef enum DtPlanArgKind { DT_ARG_ADDRESS, DT_ARG_INTEGER, DT_ARG_STEP } DtPlanArgKind;
typedef struct DtPlanArg {
    uint8_t kind, arena;
    uint8_t written;      /* address: 1 if the instruction writes there */
    uint8_t coord_axis[DT_PLAN_COORDS];
    int64_t base;         /* address: byte offset in the arena */
    int64_t bytes;        /* address: length of the range it may touch */
    int64_t reg[DT_PLAN_ARG_REGS]; /* factors for the first registers; the other registers are for
                                    * schedules only */
    int64_t coord[DT_PLAN_COORDS];
} DtPlanArg;

/* INST. An instruction begins when all earlier ones have ended. Exceptions are collectives and
 * messages with an event: these are only started, and run in the queue of their group, or of
 * their end of the channel, after what was started there before. They are complete once a WAIT
 * for the event has ended. A rank without queues may run every instruction where it is started
 * and get the same result: nothing touches buffers that are in flight, which the certificate
 * proves. Such a rank receives at the WAIT, since the sender need not have sent when RECV is
 * started.
 *
 * args: see each kind. A kernel, product, copy or zeroing may have guards: integer arguments; it
 * runs only if none of them is negative.
 *
 * A product with an epilogue may have a second form: a body of kernels and of products without an
 * epilogue. A run takes one of the forms for all instructions of a GEMM record (`dtrun
 * --epilogues`). Both write the same values to the same places; where the second form rounds and
 * the first one does not, bits differ. Instructions of the body access the addresses of the
 * product's own arguments, and arena INSTEAD, from which each reads only what an earlier one of the
 * body wrote. */
typedef enum DtPlanInstKind {
    DT_INST_KERNEL,         /* ref: kernel; n_pointers addresses, then n_integers integers */
    DT_INST_GEMM,           /* ref: gemm; A, B, C, then the epilogue's vector and matrix */
    DT_INST_COPY,           /* to, from; count bytes */
    DT_INST_ZERO,           /* to; count bytes */
    DT_INST_READ,           /* ref: reader; one address per input, then first row and number of rows
                             * (of the batch) */
    DT_INST_ALL_REDUCE,     /* ref: group; to, then from unless in place; count elements, dtype,
                             * reduce */
    DT_INST_ALL_GATHER,     /* ref: group; to, from; count elements of a block (of from); blocks */
    DT_INST_REDUCE_SCATTER, /* ref: group; to, from; count elements of a block (of to); reduce,
                             * blocks */
    DT_INST_ALL_TO_ALL,     /* ref: group; to, from; count elements of a block; blocks */
    /* ref: group; to, from; count elements from the member before (member 0: from the last
     * member), or with `round` from the partner */
    DT_INST_SHIFT,
    DT_INST_SHIFT_BACK,     /* the same, from the member after (the last member: from member 0) */
    /* ref: channel; buffer, integer tag (micro-batch): both ends must name the same */
    DT_INST_SEND, DT_INST_RECV,
    /* waits until the communication with this event has ended; does nothing if none was started */
    DT_INST_WAIT,
    DT_INST_KINDS
} DtPlanInstKind;
typedef struct DtPlanInst {
    uint16_t kind, dtype;
    uint8_t reduce, guards; /* number of guards, the last arguments */
    uint16_t n_args;
    uint32_t first_arg, ref, span;
    /* 1 + BLOK record; 0: blocks of count elements, contiguous, in member order */
    uint32_t blocks;
    int64_t count;
    /* for collectives and messages: 1 + the number of the event; 0: synchronous */
    uint32_t event;
    uint32_t event_step;    /* by how much that number grows with each slot of a ring buffer */
    uint32_t instead;       /* for products: 1 + the body that is the second form; 0: there is
                             * none */
    uint32_t round;         /* of a SHIFT: 1 + a round of the pairs of its group's members
                             * (base/pairs.h); 0: they shift */
} DtPlanInst;

/* BODY: instructions in order. */
typedef struct DtPlanBody { DtPlanStr name; uint32_t first_inst, n_insts, reserved; } DtPlanBody;

/* SCHD: a sequence of RUN, CALL, SET, WHEN, LOOP .. END.
 *   RUN    body: body
 *   CALL   body: an earlier entry, whose items run as if they were written here; that entry has
 *          no CALL
 *   SET    register reg = step * register[body] + register[plus] + first, modulo count if that
 *          is not 0 (then 0 .. count - 1); plus 0: without that term
 *   LOOP   register reg = first, first + step, ... count times
 *   WHEN   the next `body` items (RUN, SET and WHEN only) run only if first <= register reg <
 *          first + count; a WHEN inside guards no further WHEN
 * Registers are 0 when an entry begins, a loop's register again after its END. Register 0 is the
 * micro-batch, 1 to 4 are loop iterations by depth. Schedules of pipelines use the others: for
 * slots (a micro-batch modulo a depth), for the period of these and for repetitions within it.
 * The ring register is the ring buffer slot for prefetched gathers. It is set modulo the number
 * of slots, and it alone keeps its value from one iteration, or called entry, to the next. */
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

/* ENTR: "step" (all micro-batches: loss, gradients complete over ranks), "update" (optimizer,
 * grad_norm); with several losses "step@NAME", "update@NAME" for each; "eval" (losses of one
 * batch), "predict" (outputs of one batch), "prefill", "decode" (outputs at new positions of texts,
 * whose earlier positions are in the stores of kind CACHE), "mix" (replicas exchange parameters),
 * "mix@average" (their average for what evaluates and saves), "mix@spread" (replicas begin with
 * it). Each exists once per stage, or once for
 * all. Other entries are parts that these call. */
typedef struct DtPlanEntry { DtPlanStr name; uint32_t first, count; int32_t stage; } DtPlanEntry;

/* READ and INPT: readers of data, and their inputs. rows: samples. */
typedef struct DtPlanReader {
    uint32_t sample, source;  /* DtSampleKind, DtSourceKind */
    DtPlanStr glob, folder;   /* folder: as META.source_folder */
    uint32_t dtype, is_eval;
    uint32_t first_input, n_inputs;
    double from, to, lo, hi, rate, mean_span;
    /* Of mlm: the mask token, and tokens that are never masked. Of span_corruption: the first
     * sentinel; the token in front of the target, and at its end. */
    int64_t mask_id, start_id, end_id, special[DT_PLAN_SPECIALS];
    /* Readers that are mixed follow each other and fill the same inputs. part: 1, 2, ...; 0: it is
     * not mixed. Instructions read the first. The samples come from all of them, in proportion to
     * their weights. */
    double weight;
    uint32_t n_special, part;
    /* raw 1: the bytes of any file. unpaired 1: the source has its own number of samples and its
     * own order; all other sources of a block share theirs. */
    uint32_t raw, unpaired;
    uint32_t span, header; /* header 1: the first line of a table names its columns */
    /* Of text: tokenizer.json or its folder, and the token after each file; "": its bytes are
     * read; there is none. */
    DtPlanStr tokenizer, end;
    /* Of conversations: the name of their template, or "", and bits DT_PLAN_CHAT_. */
    DtPlanStr template;
    uint32_t chat;
    /* Of tables: the names of their columns, each on a line, "": all; the character between two
     * fields. */
    DtPlanStr columns;
    uint32_t separator;
    /* Of images, in the order of what becomes of them: the pixels of the shorter side, 0: as they
     * are; zeros on each side; the part (DtPlanCrop), bits DT_PLAN_IMAGE_; (value / 255 - mean) /
     * std of each colour. pixels: the most that one may have. */
    uint32_t crop, image;
    int64_t resize, pad, pixels;
    double mean[3], std[3];
} DtPlanReader;
typedef struct DtPlanInput {
    DtPlanStr name;
    uint32_t dtype, first_axis, n_axes;
    int64_t row_elements;
    uint32_t arena, reserved;
    int64_t offset; /* offset of the present micro-batch's part */
    /* i32: the values that the program can use. Synthetic data is drawn from draw_lo .. draw_hi
     * - 1; equal: no bounds are known. A value must be in one of n_ranges intervals lo .. hi -
     * 1, in ascending order; another one would index outside `indexed`, an axis of `extent`
     * elements, at span. n_ranges 0: every value is allowed. */
    int64_t draw_lo, draw_hi, lo[DT_PLAN_RANGES], hi[DT_PLAN_RANGES];
    uint32_t n_ranges, span;
    DtPlanStr indexed;
    uint32_t reserved2;
    int64_t extent;
} DtPlanInput;

/* SCAL: scalars that the runtime writes before "step", each one f32. formula: base/formula.h, in
 * terms of the step and SETT. name: of the program's input: "@lr", which logs show;
 * "@loss_scale" only if the runtime adapts it. */
typedef struct DtPlanScalar {
    DtPlanStr name, formula;
    uint32_t arena, reserved;
    int64_t offset;
} DtPlanScalar;

/* OBJE: losses that a step minimises, in this order. If the number of the step (from 1) is a
 * multiple of `every`, entry `step` and then entry `update` run. rate: the SCAL record that is
 * shown as its learning rate, or "". */
typedef struct DtPlanObjective {
    DtPlanStr loss, step, update, rate;
    int64_t every;
} DtPlanObjective;

/* METR: scalars and tensors that the runtime reads after an entry ran. */
typedef struct DtPlanMetric {
    /* name and the entry after which it is read: "loss" of "step". Results of "predict" are named
     * MODEL.NUMBER: "gpt2.0" */
    DtPlanStr name, entry;
    uint32_t arena, dtype, first_axis, n_axes;
    int64_t offset, bytes;
    int32_t stage;          /* the stage in whose memory it can be read; -1: any stage */
    uint32_t reserved;
} DtPlanMetric;

/* SHOW: a loss or a metric that an entry shows; losses come first. formula: base/formula.h, over
 * the scalars that METR names for the entry, each a mean over `batches`; "": the value is the METR
 * record of that name. */
typedef struct DtPlanShow { DtPlanStr name, entry, formula; uint32_t reserved; } DtPlanShow;

/* SPAN: the place in the source that something comes from. */
typedef struct DtPlanSpan {
    DtPlanStr file, path, text; /* text: the op or call */
    uint32_t line, column, reserved;
} DtPlanSpan;

/* SAVE: bytes that a loop stacks for its backward loop, and bytes that the backward loop
 * recomputes instead, in one iteration of one micro-batch on one rank. For reports only. */
typedef struct DtPlanSaved {
    DtPlanStr loop;
    uint32_t span;
    int64_t iterations, saved, recomputed;
} DtPlanSaved;

/* PEAK: the moment at which the temporaries of an entry need most memory: `live` bytes, of which
 * the largest tensors have `bytes`.
 *
 * ATTN: the shape of an attention kernel: `heads` times `queries` rows of `head` elements,
 * kv_heads times `keys`; `visible`: how many scores the mask leaves, on the rank that has most.
 * The factors have `dtype`; elements at its address number p are f32 if bit p of `wide` is set,
 * else of that dtype. In 16 bits a GPU's kernel does not give the same bits on every machine:
 * matrix units have an order of addition of their own, and exponentials and quotients may be off
 * by 2^-20.
 *
 * DEVC: the device that the plan was made for, as names and numbers (report/device.c). PRED: the
 * predicted seconds of a step there, probably between low and high, and the peak of products on
 * one rank in FLOP/s.
 *
 * All are for reports. The runtime shows PRED, derives traces from DEVC, and compares recorded
 * runs by ATTN. */
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
typedef struct DtPlanPrediction {
    DtPlanStr device;
    uint32_t reserved;
    double step, low, high, peak;
} DtPlanPrediction;

/* Names blocks: how the parameters stand in files of other programs (`dtrun --import`).
 * NAMS: a block. FTEN: a tensor of the file, or several that differ in the numbers in their
 * names. These count as one, whose first n_index axes are the indices that make the numbers; its
 * other axes are those of each tensor in the file. pattern has # for each number, a HOLE record:
 * first + sum of factor[x] * index[x]. PART: the elements of a parameter. Element i, whose axes
 * are those of the store with this path, loops first, is element first + sum of stride[a] * i[a]
 * of the FTEN tensor, row-major, if i[a] < count[a] for every axis; the file does not have the
 * others. A parameter that several PARTs have is stored several times. RULE: of names of tensors,
 * of paths, or of config.json (DtPlanRuleKind); value: a JSON array of the values that are right.
 */
typedef struct DtPlanNames {
    DtPlanStr name;
    uint32_t first_tensor, n_tensors, first_rule, n_rules, span;
    uint32_t adapters; /* 1: no block of the program, but the adapters of the block of this name as
                        * peft's files have them; its rules are of adapter_config.json */
    DtPlanStr label;   /* of the instance of the model, with which the paths begin; "": none does */
} DtPlanNames;
typedef struct DtPlanFileTensor {
    DtPlanStr pattern;
    uint32_t n_index, n_axes, first_hole, n_holes, first_part, n_parts, span;
    int64_t extent[DT_PLAN_MAX_RANK];
} DtPlanFileTensor;
typedef struct DtPlanFileHole {
    DtPlanStr list; /* n_list numbers, as "2,5,8": the one at that place counts; 0: there is none */
    uint32_t n_list;
    int64_t first, factor[DT_PLAN_MAX_RANK];
} DtPlanFileHole;
typedef struct DtPlanFilePart {
    DtPlanStr path;
    uint32_t n_axes;
    int64_t first, stride[DT_PLAN_MAX_RANK], count[DT_PLAN_MAX_RANK];
} DtPlanFilePart;
typedef enum DtPlanRuleKind {
    DT_RULE_IGNORE,  /* tensors whose names match key, with the shell's patterns, are not used */
    DT_RULE_INITIAL, /* parameters whose paths match key keep their initial values */
    /* member key of config.json, such as "rope_scaling.factor"; of several (", " between) the first
     * that is there */
    DT_RULE_CONFIG,
    DT_RULE_KINDS
} DtPlanRuleKind;
typedef struct DtPlanRule { uint32_t kind; DtPlanStr key, value; uint32_t span; } DtPlanRule;

/* ADPT: a weight to which an adapter can be added: with w + scale a b for w, the program without
 * the adapter computes what the program does. They are paths of parameters with the same loops.
 * Each is a matrix, row by row: w[from, to], a[from, r], b[r, to], where from and to may be several
 * axes and r is one. */
typedef struct DtPlanAdapted {
    DtPlanStr weight, a, b;
    uint32_t reserved;
    double scale;
} DtPlanAdapted;

/* LOGI: one record, for the certificate; the runtime skips it. It has the programs that the
 * certificate reads (plan/logical.h), the notes of all entries (plan/notes.h), and a digest of
 * the kernels named in these. NOTE: the bytes of an entry's notes; entries that do the same
 * share them. */
typedef struct DtPlanLogical {
    uint64_t programs, programs_len, notes, notes_len;
    uint64_t code[4];
} DtPlanLogical;
/* NOTE: position and length in the section's notes, in bytes */
typedef struct DtPlanNote { uint32_t first, count; } DtPlanNote;

/* ORIG: one record, or none: what the plan was compiled from (plan/origin.h), so that `dtc
 * recompile` can compile it for other ranks. The runtime skips it, and so does the certificate. */
typedef struct DtPlanOrigin { uint64_t text, text_len; } DtPlanOrigin;

#define DT_PLAN_SECTIONS(X)                                                                        \
    X("META", meta, DtPlanMeta)                                                                    \
    X("SETT", settings, DtPlanSetting) X("MESH", mesh, DtPlanMeshAxis) X(                          \
        "GRUP", groups, DtPlanGroup) X("CHAN", channels, DtPlanChannel)                            \
        X("AREN", arenas, DtPlanArena) X("ASIZ", sizes, DtPlanArenaSize) X(                        \
            "AXIS", axes, DtPlanAxis) X("STOR", stores, DtPlanStore) X("PACK", packs, DtPlanPack)  \
            X("CODE", codes, DtPlanCode) X("KERN", kernels, DtPlanKernel)                          \
                X("LNCH", launches, DtPlanLaunch) X("REGS", registers, DtPlanRegisters)            \
                    X("SDPA", sdpas, DtPlanSdpa) X("GEMM", gemms, DtPlanGemm)                      \
                        X("BLOK", blocks, DtPlanBlocks) X("ARGS", args, DtPlanArg)                 \
                            X("INST", insts, DtPlanInst) X("BODY", bodies, DtPlanBody) X(          \
                                "SCHD", schedule, DtPlanSchedule) X("ENTR", entries, DtPlanEntry)  \
                                X("READ", readers, DtPlanReader) X("INPT", inputs, DtPlanInput) X( \
                                    "SCAL", scalars, DtPlanScalar) X("OBJE", objectives,           \
                                                                     DtPlanObjective)              \
                                    X("METR", metrics, DtPlanMetric) X("SHOW", shows, DtPlanShow)  \
                                        X("SPAN", spans, DtPlanSpan) X("SAVE", saved, DtPlanSaved) \
                                            X("PEAK", peaks, DtPlanPeak)                           \
                                                X("ATTN", attentions, DtPlanAttention)             \
                                                    X("DEVC", devices, DtPlanDevice)               \
                                                        X("PRED", predictions, DtPlanPrediction)   \
                                                            X("NAMS", names, DtPlanNames) \
                                                            X("FTEN", tensors, DtPlanFileTensor) \
                                                            X("HOLE", holes, DtPlanFileHole) \
                                                            X("PART", parts, DtPlanFilePart) \
                                                            X("RULE", rules, DtPlanRule) \
                                                            X("ADPT", adapted, DtPlanAdapted) \
                                                            X("LOGI", logical, DtPlanLogical)      \
                                                                X("NOTE", notes, DtPlanNote) \
                                                            X("ORIG", origins, DtPlanOrigin)

/* A plan in memory: a file that was read (arrays point into the mapping), or one being built
 * (arrays in an arena). */
typedef struct DtPlan {
#define DT_PLAN_FIELD(tag, field, type) const type *field; uint32_t n_##field;
    DT_PLAN_SECTIONS(DT_PLAN_FIELD)
#undef DT_PLAN_FIELD
    const char *strings; uint32_t n_strings;  /* begins and ends with a NUL */
    const uint8_t *blob; uint64_t n_blob;
    uint64_t digest;
} DtPlan;

static inline uint32_t dt_plan_stages(const DtPlan *plan)
{
    return plan->meta->pipeline ? plan->mesh[plan->meta->pipeline - 1].size : 1;
}

/* Whether a record with this stage (-1: all) belongs to the given stage. */
static inline int dt_plan_on_stage(int32_t record, uint32_t stage)
{
    return record < 0 || (uint32_t)record == stage;
}

static inline int dt_plan_store_on(const DtPlanStore *store, uint32_t stage)
{
    return store->stage < 0 ||
           (stage >= (uint32_t)store->stage && stage - (uint32_t)store->stage <= store->more);
}

static inline int64_t dt_plan_arena_bytes(const DtPlan *plan, uint32_t arena, uint32_t stage)
{
    return plan->n_sizes ? plan->sizes[stage * plan->n_arenas + arena].bytes
                         : plan->arenas[arena].bytes;
}

/* Whether an arena of this kind exists only in runs that predict. */
static inline int dt_plan_predicts(uint32_t kind)
{
    return kind == DT_ARENA_PREDICT || kind == DT_ARENA_PREDICTED || kind == DT_ARENA_CACHE;
}

/* Whether arenas of this kind grow with the rows of `generate = cached(rows = ..)`. */
static inline int dt_plan_grows_with_rows(uint32_t kind)
{
    return dt_plan_predicts(kind) || kind == DT_ARENA_INPUTS;
}

/* Whether every run allocates arenas of this kind. */
static inline int dt_plan_is_usual(uint32_t kind)
{
    return !dt_plan_predicts(kind) && kind != DT_ARENA_INSTEAD;
}

static inline const char *dt_plan_str(const DtPlan *plan, DtPlanStr str)
{
    return plan->strings + str;
}

/* Whether an entry of that name is part of a training step. */
static inline int dt_plan_is_step(const DtPlan *plan, DtPlanStr name)
{
    for (uint32_t i = 0; i < plan->n_objectives; i++)
        if (strcmp(dt_plan_str(plan, name), dt_plan_str(plan, plan->objectives[i].step)) == 0 ||
            strcmp(dt_plan_str(plan, name), dt_plan_str(plan, plan->objectives[i].update)) == 0)
            return 1;
    return 0;
}

#endif
