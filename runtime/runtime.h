/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the runtime. One process (in unit tests: one thread) is one rank of one
 * plan:
 *
 *   supervisor.c   starts the rank processes and watches them
 *   run_options.h  what the command line of dtrun says
 *   shared.c       the mapping that all local ranks share (shared.h)
 *   comm_shm.c     collectives over the mapping; blocks.c, reduce.c: their copies and sums
 *   channel.c      messages between stages over the mapping
 *   fetch.c        rank 0 reads the values of other ranks, to save them
 *   comm_sync.c    waiting for other ranks in these; comm_mark.c: whether they are at the same
 *                  operation, and the order of sums
 *   comm_hosts.c   collectives and messages between processors of several hosts, with hosts_*.c;
 *                  wire.c: messages between two ranks, by wire_*.c;
 *                  ucx.c: the library
 *   comm_nccl.c    collectives and messages between GPUs; nccl_join.c: their groups, channels and
 *                  queues; nccl_links.c: waiting; nccl_windows.c, windows.c: memory that GPUs can
 *                  access from each other; nccl.c: the library
 *   cluster.c      ranks of several machines; cluster_meet.c: their supervisors; socket.c: TCP
 *   load.c         plan, arenas -> DtRank
 *   rank.c         a rank's place in the mesh; pack.c: which elements of a store it has
 *   preflight.c    checks before ranks start
 *   exec.c         schedules and instructions; graphs.c: CUDA graphs of them; position.c: which
 *                  instruction a device has reached
 *   device.c       memory of the device for host code
 *   readback.c     copies scalars to the host as soon as they exist; reading.c: reads samples ahead
 *   device_cpu.c   the instructions on a processor, with gemm*.c and code.c; rebuild.c: compiles
 *                  kernels for this processor
 *   device_apart.c the same in memory that host code cannot access
 *   device_cuda.c  the instructions on a GPU, with cuda_*.c; cuda_kernels.c: the plan's kernels;
 *                  cuda_host.c: copies to and from the host; cuda_list.c: --gpus
 *   algorithms.c   which algorithms compute products, the same on all ranks
 *   forms.c        which products have their epilogues computed by kernels
 *   init.c         initial parameters
 *   data.c         readers of training data
 *   save.c         saves a checkpoint, checkpoint.c loads one; resume.c: which one; shares.c: which
 *                  rank holds and writes what; outputs.c: ownership of the folder and the log
 *   import.c       parameters of other programs' files, with import_names.c and foreign.c;
 *                  export.c: the way back, with export_list.c, export_merge.c and export_files.c
 *   train.c        steps, saving; evaluate.c: held-out data; scale.c: the loss scale
 *   generate.c     --generate, with generate_*.c
 *   compare.c      compares the results of instructions between devices
 *   trial.c        a run for dtc --verify
 *   progress.c     lines of progress; banner.c: the first and last lines; log.c, trace.c,
 *                  predicted.c, profile.c, traffic.c: other output
 *   command.c      the command that continues the run; page.c: the page of the run
 *
 * The checker has bounded everything in the plan, so nothing here checks indices again. A rank has
 * no global state. A function that fails at run time calls dt_rank_fail and returns false, up to
 * train.c; the first failure of a rank is the one that is reported. */
#ifndef DT_RUNTIME_RUNTIME_H
#define DT_RUNTIME_RUNTIME_H

#include "base/arena.h"
#include "base/formula.h"
#include "base/hostrun.h"
#include "base/status.h"
#include "base/text.h"
#include "plan/kinds.h"
#include "plan/plan.h"
#include "plan/read.h"
#include "runtime/algorithms.h"
#include "runtime/run_options.h"
#include "runtime/shared.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- before ranks start ---- */

uint64_t dt_now_ns(void); /* returns nanoseconds of a monotonic clock (rank.c) */

/* What a checkpoint stores about a data source, so that a resumed run notices that the data have
 * changed (data_facts.c). For synthetic data all members are 0. */
typedef struct DtDataFact {
    const char *input;       /* the first input that the source fills; "eval.NAME" for held-out
                              * data */
    const char *source;      /* the source of this run, for messages; not in checkpoints */
    int64_t samples, values; /* values: number of values of a sample */
    int64_t first;           /* index, among all values of the files, of the first one that this
                              * source reads */
    int64_t bytes;           /* values of all files */
    int64_t share;           /* of a mixture: billionths of the samples; 0: of none */
    uint64_t digest;         /* a hash of the files' sizes and of at most 1 MiB of their bytes */
} DtDataFact;

/* The values of settings that occur in formulas of scalars, from the plan or from --set. */
typedef struct DtRunSettings {
    DtFormulaSetting at[DT_PLAN_MAX_SETTINGS];
    bool given[DT_PLAN_MAX_SETTINGS]; /* by --set, of this run or of the one that it continues */
    uint32_t n;
    int64_t steps; /* of the whole run: what `steps` is in schedules */
} DtRunSettings;

/* settings.c: applies --steps and --set to the numbers of the plan. Errors: a key that does not
 * exist (the message has the most similar one), and a key that this plan does not use. */
DtStatus dt_settings_apply(const DtRunOptions *options, const DtPlan *plan, DtPlanMeta *ret_meta,
                           DtRunSettings *ret_settings);
/* Sets the number of steps of the run, and checks that all formulas accept it and the settings. */
DtStatus dt_settings_take_steps(const DtPlan *plan, int64_t steps, DtRunSettings *settings);
/* epochs.c: if the plan says `epochs`, computes the number of steps from that of samples and sets
 * meta.steps. The readers of the training data are open, and the rank has its place in the data.
 * Fails if the data have no epochs, or if that is less than a step. */
DtStatus dt_epochs_resolve(struct DtRank *rank);
/* best.c: notes the loss of an evaluation after so many steps. Returns whether it is the lowest so
 * far. False, and nothing is noted, if the plan has neither `patience` nor `keep_best`. */
bool dt_best_take(struct DtRank *rank, double loss, int64_t steps);
/* Whether the run ends, since so many evaluations as `patience` says had no lower loss. */
bool dt_best_is_over(const struct DtRank *rank);
/* Returns the value of a scalar in step `step`, from 0, whose update is number `updates`, from 1,
 * and which takes `rows` samples; NaN: its formula has none. */
double dt_settings_scalar(const DtPlan *plan, const DtPlanScalar *scalar,
                          const DtRunSettings *settings, int64_t step, int64_t updates,
                          double loss_scale, int64_t rows);

/* preflight.c: checks, before any rank starts, what the user gave: names of devices and
 * communicators, data, folders to read, folders and files to write, prompts. meta: with --steps and
 * --set applied. ret_notes: warnings, as lines. With several nodes: sets options->data. */
DtStatus dt_preflight_check(DtRunOptions *options, const DtPlan *plan, const DtPlanMeta *meta,
                            DtText *ret_notes);
/* Whether a run with these options and settings reads the training data, or the held-out data. */
bool dt_preflight_reads(const DtRunOptions *options, const DtPlanMeta *meta, bool is_eval);

/* cuda_list.c: prints which GPUs and libraries there are, and how fast each GPU copies; fails if
 * none can be used. json: prints only the GPUs, as a list. */
DtStatus dt_cuda_list(bool json, FILE *out);
/* How many GPUs the driver has. */
DtStatus dt_cuda_count(int *ret_n);

/* load.c: checks whether all ranks of a plan fit into this machine's memory. If not,
 * DT_EXIT_DOES_NOT_FIT with both sizes. */
DtStatus dt_load_fits(const DtRunOptions *options, const DtPlan *plan);

/* rebuild.c: compiles kernels for this processor if that is necessary; returns the machine code of
 * each unit. */
/* said: warnings as lines; or NULL */
typedef struct DtRebuilt { DtHostBytes *units; const char *said; } DtRebuilt;
bool dt_rebuild_wanted(const DtRunOptions *options, const DtPlan *plan);
DtStatus dt_rebuild_codes(const DtPlan *plan, DtArena *memory, DtRebuilt *ret_codes);

/* ---- one rank ---- */

typedef struct DtComm DtComm;
typedef struct DtData DtData;
typedef struct DtDeviceState DtDeviceState;
typedef struct DtTrace DtTrace;
typedef struct DtProfile DtProfile;
typedef struct DtLending DtLending;
typedef struct DtCompare DtCompare;
typedef struct DtLog DtLog;

/* A group of the plan, as seen by this rank. */
typedef struct DtRankGroup {
    uint32_t size, me;     /* my member number */
    const uint32_t *ranks; /* the members in order; reductions add in this order */
    /* number of this group among the groups with the same mask, 0 .. n_ranks/size - 1 */
    uint32_t number;
} DtRankGroup;

/* The blocks of an exchange (plan.h, BLOK) in a group of this rank; units are elements. */
typedef struct DtRankBlocks {
    uint32_t n_dims;
    int64_t extent[DT_PLAN_BLOCK_DIMS], to[DT_PLAN_BLOCK_DIMS], from[DT_PLAN_BLOCK_DIMS];
    const int64_t *to_at;   /* [q]: where the block of member q begins in the receiver's `to` */
    const int64_t *from_at; /* [p]: where the block for member p begins in the sender's `from` */
} DtRankBlocks;

/* An address in device memory, which only the device may dereference (device.h). */
typedef struct DtDeviceAt {
    uint64_t at;
} DtDeviceAt;

/* An address argument with all registers and coordinates applied. */
typedef struct DtPlaceAt {
    DtDeviceAt at;
    uint32_t arena;
    int64_t offset, bytes;
} DtPlaceAt;

/* Returns whether the event for which one waits has happened. */
typedef bool DtIsDone(void *context);

/* Communicator. All functions return false after dt_rank_fail or when the abort word was set. The
 * members of a group must call its functions in the same order. Reductions of `shm` add in member
 * order, so they give the same bits in every run. Each wait spins about 200 times, then sleeps on a
 * futex, and looks at the abort word; the slot says meanwhile for whom (dt_shared_wait). */
typedef struct DtCommOps {
    const char *name;
    DtStatus (*open)(DtRank *rank, DtComm **ret_comm);
    void (*close)(DtComm *comm);
    /* to and from: count elements each; they are either equal or disjoint. Both may be memory of
     * this process. */
    bool (*all_reduce)(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       int64_t count, DtPlanDtype dtype, DtPlanReduce reduce);
    /* Exchanges of blocks of count elements. blocks NULL: contiguous, in member order.
     * all_gather: to: size blocks; from: one */
    bool (*all_gather)(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype);
    /* to: one block, disjoint from `from` or this member's own block in it; from: size blocks */
    bool (*reduce_scatter)(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                           const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype,
                           DtPlanReduce reduce);
    /* to and from: size blocks, disjoint */
    bool (*all_to_all)(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                       const DtRankBlocks *blocks, int64_t count, DtPlanDtype dtype);
    /* to and from: count elements, disjoint. way: from whom they are received (shift.h) */
    bool (*shift)(DtComm *comm, const DtRankGroup *group, DtPlaceAt to, DtPlaceAt from,
                  int64_t count, DtPlanDtype dtype, uint32_t way);
    /* A message of `bytes` bytes through a channel of the plan, from or to the rank of the other
     * stage whose other coordinates are equal. send waits for a free slot only. The two ends must
     * agree on bytes and tag. */
    bool (*send)(DtComm *comm, uint32_t channel, DtPlaceAt buffer, int64_t bytes, int64_t tag);
    bool (*recv)(DtComm *comm, uint32_t channel, DtPlaceAt buffer, int64_t bytes, int64_t tag);
    bool (*barrier)(DtComm *comm, const DtRankGroup *group);
    /* Bytes that this rank has received from other members, in all operations of the group so far.
     */
    uint64_t (*received)(const DtComm *comm, const DtRankGroup *group);
    uint64_t (*channel_received)(const DtComm *comm, uint32_t channel);
    /* get copies bytes from an arena of another rank. That rank must call serve, which returns when
     * this rank calls release. */
    bool (*get)(DtComm *comm, uint32_t rank, uint32_t arena, int64_t offset, int64_t bytes,
                void *ret_bytes);
    bool (*serve)(DtComm *comm, uint32_t asker);
    void (*release)(DtComm *comm); /* ends `serve` of all other ranks */
    /* Before each step, by all ranks: brings rank 0's shared->last_step to all; NULL: they share
     * it. */
    bool (*decide)(DtComm *comm);
    /* Bytes of device memory that the communicator needs; NULL: none. */
    uint64_t (*memory)(const DtRank *rank);
    /* For communicators with queues on the device; NULL: it has none. starts: whether messages of
     * the channel can be asynchronous; otherwise the receiver starts them when it waits. enter and
     * leave are called before and after each function above. event: the event that a later await
     * names; -1: there is none, and the next instruction waits for the communication. */
    bool (*starts)(const DtComm *comm, uint32_t channel);
    bool (*enter)(DtComm *comm, const DtPlanInst *inst);
    bool (*leave)(DtComm *comm, const DtPlanInst *inst, int64_t event);
    bool (*await)(DtComm *comm, int64_t event);
    /* Some devices' functions return before their work is complete. This function waits until
     * is_done, which it polls, returns true, or until the run is to stop. NULL: work is complete
     * when a function returns. */
    bool (*wait)(DtComm *comm, DtIsDone *is_done, void *context);
} DtCommOps;

/* comm_shm.c, comm_nccl.c, comm_hosts.c */
extern const DtCommOps dt_comm_shm, dt_comm_nccl, dt_comm_ucx, dt_comm_tcp;
/* Bytes that comm_shm wants in the mapping (DtSharedLayout.comm_bytes), zeroed at start. */
uint64_t dt_comm_shm_bytes(const DtPlan *plan);

/* Addresses of a product's operands: A, B, C, and the vector and matrix of its epilogue; 0 if it
 * has none. */
enum { DT_GEMM_A, DT_GEMM_B, DT_GEMM_C, DT_GEMM_VECTOR, DT_GEMM_MATRIX, DT_GEMM_OPERANDS };

/* A device: functions for its memory, and for each kind of instruction. */
typedef struct DtDeviceOps {
    const char *name;
    /* its memory is memory of the process, which ranks of one machine can share; then it has no put
     * and get */
    bool is_host;
    /* Opens the device with the plan's code, before arenas are made. *ret_state must be closed
     * even after a failure, if it is set. */
    DtStatus (*open)(DtRank *rank, DtDeviceState **ret_state);
    void (*close)(DtDeviceState *state);
    /* Allocates an arena of device memory, zeroed, until close; NULL: load.c maps it. */
    DtStatus (*arena)(DtDeviceState *state, uint64_t bytes, DtDeviceAt *ret_at);
    /* The same, in memory that other devices can access (for --windows). NULL: the device has no
     * such memory. */
    DtStatus (*window)(DtDeviceState *state, uint64_t bytes, DtDeviceAt *ret_at);
    /* The device's address of mapped memory; NULL: the same address. */
    DtDeviceAt (*address)(char *mapped);
    /* The kernel of an instruction, with its arguments' values. */
    void (*kernel)(DtDeviceState *state, const DtPlanInst *inst, uint32_t n_pointers,
                   const DtDeviceAt *pointers, const int64_t *integers);
    bool (*gemm)(DtDeviceState *state, uint32_t gemm, const DtDeviceAt at[DT_GEMM_OPERANDS]);
    /* Chooses algorithms of products. All ranks call it together, after a checkpoint is loaded and
     * before the first entry. Appends lines for the log. NULL: the device has nothing to choose. */
    bool (*choose)(DtDeviceState *state, DtText *ret_said);
    /* The address at which instructions that are started from now on find the number of the step.
     * NULL: kernels get it as an argument. */
    DtDeviceAt (*step)(DtDeviceState *state, int64_t number);
    /* the ranges may overlap */
    void (*copy)(DtDeviceState *state, DtDeviceAt to, DtDeviceAt from, int64_t bytes);
    void (*zero)(DtDeviceState *state, DtDeviceAt to, int64_t bytes);
    /* Copies from and to memory of the process, after all earlier work. When put returns, `from`
     * may be reused; when get returns, the bytes are there. */
    void (*put)(DtDeviceState *state, DtDeviceAt to, const void *from, int64_t bytes);
    void (*get)(DtDeviceState *state, void *to, DtDeviceAt from, int64_t bytes);
    /* Host memory from which the device copies by itself. lend returns some (NULL: none is free).
     * The caller fills it, and then either sends it or drops it. NULL: the device has no such
     * memory. */
    char *(*lend)(DtDeviceState *state, int64_t bytes);
    void (*send)(DtDeviceState *state, char *lent, DtDeviceAt to, int64_t bytes);
    void (*drop)(DtDeviceState *state, char *lent);
    /* Cells, which receive scalars. note: copies up to 8 bytes to a cell when all earlier work is
     * done. noted: waits for that copy, but not for later work, and reads the cell. NULL: the
     * device has no cells. */
    void (*note)(DtDeviceState *state, uint32_t cell, DtDeviceAt from, int64_t bytes);
    void (*noted)(DtDeviceState *state, uint32_t cell, void *to, int64_t bytes);
    /* waits until all earlier work is done; NULL: it is done when functions return */
    void (*wait)(DtDeviceState *state);
    /* Between capture and captured, kernels, products, copies and zeroings are not run but
     * recorded as a graph with a number, which replay starts as often as wanted, with the same
     * arguments. False: the rank has failed. NULL: the device has no graphs. */
    bool (*capture)(DtDeviceState *state);
    bool (*captured)(DtDeviceState *state, uint32_t *ret_graph);
    bool (*replay)(DtDeviceState *state, uint32_t graph);
    /* Writes the value to the slot's marks[which] once all earlier work is done. NULL:
     * instructions are done when they return. */
    void (*mark)(DtDeviceState *state, uint32_t which, uint32_t value);
    /* stamp: records the time at which all earlier work is done, under a number below
     * DT_DEVICE_STAMPS. stamps: the first n times, in seconds from an arbitrary origin. NULL:
     * instructions are done when they return. */
    void (*stamp)(DtDeviceState *state, uint32_t number);
    void (*stamps)(DtDeviceState *state, uint32_t n, double *ret_seconds);
} DtDeviceOps;

enum { DT_DEVICE_STAMPS = 4096, DT_DEVICE_CELLS = 64 };
enum { DT_MARK_INST, DT_MARK_STEP }; /* number of progress words in a slot (position.h) */

/* device_cpu.c and so on */
extern const DtDeviceOps dt_device_cpu, dt_device_cuda, dt_device_apart;

/* The dynamic loss scale, if the plan has one (scale.c). */
typedef struct DtScale {
    bool is_dynamic, was_skipped; /* was_skipped: whether the last update was skipped */
    double factor;                /* factor of the loss; a power of two */
    int64_t good;                 /* number of updates applied since the factor changed */
    int64_t skipped;              /* updates that were skipped */
} DtScale;

/* The evaluation with the lowest held-out loss so far (best.c). Equal on all ranks. */
typedef struct DtBest {
    bool any;      /* there was an evaluation with a finite loss */
    double loss;
    int64_t steps; /* it came after so many steps */
    int64_t since; /* evaluations since then */
} DtBest;

/* Batch k of an evaluation, or generated token k, uses the random numbers of step (this + k). */
#define DT_EVAL_DRAWS ((int64_t)1 << 31)

/* The first value of a step that is not finite (examine.h). */
typedef struct DtFirstBad {
    uint64_t ns;   /* when it was noticed, of CLOCK_REALTIME; 0: it was not */
    uint32_t inst; /* the instruction that made it, or gave it to other ranks */
} DtFirstBad;

/* ---- ramp.c ---- */

/* The samples of each step: the run's step number `step` begins at sample `samples` (not step *
 * batch after a change of the batch size). by 0: each takes the batch. Otherwise it takes `from`
 * samples, and `by` more after each equal share of the first `over` samples, until it is the
 * batch. */
typedef struct DtRamp {
    int64_t batch, from, by, over;
    int64_t step, samples;
} DtRamp;
/* That of a run that begins at sample 0. */
DtRamp dt_ramp_open(const DtPlanMeta *meta);
/* The first sample of a step, and how many it takes. */
int64_t dt_ramp_first(const DtRamp *ramp, int64_t step);
int64_t dt_ramp_rows(const DtRamp *ramp, int64_t step);
/* The number of the first step that takes a sample from number `samples` on. */
int64_t dt_ramp_steps(const DtRamp *ramp, int64_t samples);

struct DtRank {
    const DtRunOptions *options;
    const DtPlan *plan;
    DtPlanMeta meta; /* the plan's META, with --steps and --set applied */
    DtRunSettings settings;
    DtBest best; /* if the plan asks for it */
    bool moved; /* steps have changed replicas since their average was computed (mixing.c) */
    uint32_t rank, n_ranks;
    uint32_t stage;      /* stage of this rank; 0 without a pipeline */
    int64_t coord[16];   /* coordinates of this rank in the mesh */
    DtArena *memory;     /* arena of the host for everything allocated when the rank is loaded */
    DtDeviceAt *arenas;  /* own arenas: base addresses */
    char **peer_arenas;  /* [rank * plan->n_arenas + arena]: addresses of all ranks' arenas; NULL if
                          * not in the common mapping */
    DtRankGroup *groups; /* per record of plan->groups */
    DtRankBlocks *blocks; /* per record of plan->blocks */
    DtRankGroup world;   /* the group of all ranks; number of groups for barriers that are not in
                          * the plan */
    DtRankGroup local;   /* the ranks of this node; equal to `world` if there is one node */
    DtShared *shared;
    DtSlot *slot;
    const DtCommOps *comm_ops;
    DtComm *comm;
    const DtDeviceOps *device_ops;
    DtDeviceState *device;
    DtLending *lending; /* device.h */
    /* algorithms of products: those in the resumed checkpoint; those of this run */
    DtAlgorithms recorded, chosen;
    bool *second;             /* by GEMM record: whether its products use their second form
                               * (forms.h) */
    const char *gemm_library; /* "onednn", "openblas", "plain" */
    uint32_t n_plain_gemms;
    /* what computes attention: "cudnn 9.19.0" or "generated"; NULL: the device has only one way */
    const char *attention;
    const char *saved_attention; /* the same in the resumed checkpoint; NULL: it does not contain
                                  * it */
    bool resumes;                /* the run continues from a checkpoint */
    /* absolute path of the files of another program that the parameters were imported from, in this
     * run or in one before it; NULL: none */
    const char *imported;
    void **codes;       /* by code unit: dlopen handles; NULL: its kernels are interpreted */
    struct DtKirImage **images; /* by code unit: kernels that are interpreted; NULL: machine code */
    DtData **readers;   /* by record of plan->readers; opened when first needed */
    int64_t step;       /* step that is running; data and random numbers depend on it */
    DtRamp ramp; /* which samples a step takes */
    int64_t left_out; /* micro-batches that the step that runs does not need, its first ones */
    DtDataFact *facts; /* facts of the sources of this run; on the first rank of each machine */
    uint32_t n_facts;
    DtDataFact *saved_facts; /* facts of the sources in the resumed checkpoint */
    uint32_t n_saved_facts;
    int64_t save_piece; /* bytes, a multiple of 8; 0: the default of save.c; tests use less */
    uint32_t parts;        /* number of parts of loads so far (checkpoint_shares.c) */
    DtStatus save_status; /* of a save in the plain way, which begin has done */
    int64_t save_file;  /* the most bytes of a file of a checkpoint; 0: the default of shares.h */
    struct DtSaver *saver; /* NULL: saves are in the plain way */
    int shared_fd;         /* of the mapping that ranks share */
    DtScale scale;
    int64_t updates[DT_PLAN_MAX_OBJECTIVES]; /* number of applied updates, by loss */
    int64_t eval_batch; /* the batch that readers of held-out data read */
    bool evaluates;     /* random numbers are those of the evaluation's batch instead of the step */
    /* address of the number on which random numbers depend; 0: kernels get it as an argument */
    DtDeviceAt step_at;
    DtTrace *trace;     /* NULL: none */
    DtProfile *profile; /* NULL: none */
    DtCompare *compare; /* NULL: none */
    struct DtExamine *examine; /* a step is examined (examine.h); NULL: none is */
    DtFirstBad first_bad;      /* of the present turn of the step */
    uint64_t *usual_ns; /* per instruction: running mean of its duration */
    /* number of the file with the time in which the thread waited for a processor; 0: not open */
    int schedstat;
    uint64_t computed_ns; /* in kernels, products and copies, in all steps so far */
    /* of that: without a processor; and what the file said when the rank began to compute */
    uint64_t delayed_ns, delay_ns;
    /* progress words of a device that runs instructions later (position.h); NULL */
    struct DtPosition *position;
    struct DtWireUcx *ucx; /* of all wires of the rank by UCX (wire_ucx.c); NULL */
    struct DtGraphs *graphs;   /* by entry of the plan, with --graph (graphs.h); NULL */
    struct DtReadback *readback;     /* for a device with cells (readback.h); NULL */
    /* for a device that copies from the host by itself (reading.h); NULL */
    struct DtReading *reading;
    /* by event: a message that was started and is received at the wait */
    struct DtPending *pending;
    /* The first failure, by the rank or a thread of it, is written once; then has_failed is set.
     * Others read it only after dt_rank_has_failed. */
    DtStatus failure;
    atomic_bool has_failed;
    int64_t *arg_base;  /* by argument: its base plus the part that depends on coordinates */
    struct DtRankMap {
        void *at;
        size_t len;
    } * maps; /* mappings to remove at the end */
    uint32_t n_maps;
    int *code_fds;
    uint64_t memory_bytes; /* arenas and workspaces */
};

/* Records the first failure of this rank, stores it in its slot, sets the abort word; returns
 * false. */
bool dt_rank_fail(DtRank *rank, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool dt_rank_fail_status(DtRank *rank, const DtStatus *status);
/* The same for what is wrong with a file, which is no fault of this rank. */
bool dt_rank_fail_data(DtRank *rank, const DtStatus *status);
/* Whether this rank has failed; then rank->failure says why, and does not change. */
static inline bool dt_rank_has_failed(const DtRank *rank)
{
    return atomic_load_explicit(&rank->has_failed, memory_order_acquire);
}
/* Whether another rank, or the supervisor, has set the abort word, which asks all ranks to stop. */
static inline bool dt_rank_aborted(const DtRank *rank)
{
    return atomic_load_explicit(&rank->shared->abort, memory_order_relaxed) != 0;
}

/* load.c: loads everything of one rank except values of parameters. shared_fd is from
 * dt_shared_create; plan remains the caller's. options->device, comm and gemm choose the tables. */
DtStatus dt_load_rank(const DtRunOptions *options, const DtPlan *plan, uint32_t rank, int shared_fd,
                      DtRank *ret_rank);
void dt_load_close(DtRank *rank);
/* Allocates arena INSTEAD after all other arenas, unless that was done before. False after
 * dt_rank_fail. */
bool dt_load_instead(DtRank *rank);
/* The tables of functions that options->device and options->comm name; by default those of the
 * device for which the plan has code. */
DtStatus dt_load_choose(const DtRunOptions *options, const DtPlan *plan,
                        const DtDeviceOps **ret_device, const DtCommOps **ret_comm);

/* init.c: sets the values of all stores before step 0. */
bool dt_init_stores(DtRank *rank);
/* The same, except for stores for which `skips` is true: they get their values otherwise. */
typedef bool (*DtInitSkips)(const void *context, const DtRank *rank, const DtPlanStore *store);
bool dt_init_others(DtRank *rank, DtInitSkips skips, const void *context);
/* Sets moments to zero, as they are before the first step. */
void dt_init_zero(DtRank *rank);
/* Writes the initial values of a store's local elements to a buffer of the store's dtype, in the
 * order of its arena; tests use it, too. */
void dt_init_store(const DtRank *rank, const DtPlanStore *store, void *ret_values);

/* scale.c: sets the scale at the beginning of a run. */
void dt_scale_begin(const DtPlan *plan, DtScale *ret_scale);
/* After an update: records whether it was applied, or skipped because the norm is not finite,
 * and adapts the scale. False: the norm is not finite and no smaller scale could help. */
bool dt_scale_step(DtScale *scale, double grad_norm);
/* Continues with the scale of a checkpoint, which may come from a run without one, or the other
 * way round. */
void dt_scale_resume(DtScale *scale, const DtScale *saved);
/* Whether a checkpoint's numbers are possible in a run. */
bool dt_scale_is_valid(const DtScale *scale);

/* exec.c: runs an entry. False after a failure. */
bool dt_exec_entry(DtRank *rank, const char *entry);
bool dt_exec_has(const DtRank *rank, const char *entry);
void dt_exec_open(DtRank *rank); /* once, before the first entry */

/* Returns the record of metric `name` of `entry`, or NULL; the value of a scalar as a double. */
const DtPlanMetric *dt_exec_metric(const DtPlan *plan, const char *entry, const char *name);
double dt_exec_scalar(const DtRank *rank, const DtPlanMetric *metric);

/* Values that a step or an evaluation displays: losses, then the metrics of the program
 * (shown.c). */
enum { DT_MAX_SHOWN = DT_PLAN_MAX_OBJECTIVES + 16 };
typedef struct DtShown {
    uint32_t n, n_losses;
    const char *name[DT_MAX_SHOWN];
    double value[DT_MAX_SHOWN];
} DtShown;
/* Collects the values that a step displays. taken: by loss, whether the step minimised it. */
void dt_shown_step(const DtRank *rank, const bool *taken, DtShown *ret_shown);
/* Collects the values that an evaluation displays. means: the mean over `batches` of each METR
 * scalar of entry "eval". */
void dt_shown_over(const DtRank *rank, const double *means, double batches, DtShown *ret_shown);

/* ---- data (data.c) ---- */

/* Opens reader number reader. Relative globs count from the reader's folder, itself relative to
 * the plan's folder; redirects and --data=synthetic apply. Errors name the glob, the folder and
 * the DSL line. */
DtStatus dt_data_open(const DtRunOptions *options, const DtPlan *plan, uint32_t reader,
                      DtData **ret_data);
/* Opens all readers of the train block, or of its held-out data, that readers[] (by number of the
 * reader) has not yet, and fails if they cannot be paired: all except `unpaired` ones must have the
 * same number of samples, and then have the same order. The caller closes what readers[] has
 * afterwards, also after a failure. */
DtStatus dt_data_open_block(const DtRunOptions *options, const DtPlan *plan, bool is_eval,
                            DtData **readers);
/* Opens the array of NumPy (.npy), or the images, at `path` for one input of the plan, in their
 * order; samples after the last one repeat that. */
DtStatus dt_data_open_file(const DtRunOptions *options, const DtPlan *plan,
                           const DtPlanInput *input, const char *path, DtData **ret_data);
void dt_data_close(DtData *data);
/* data_facts.c: the facts of the reader's data for a checkpoint, whose name is allocated in
 * `memory`. The other function says whether two facts differ, and how. */
DtStatus dt_data_fact(DtArena *memory, const DtData *data, DtDataFact *ret_fact);
bool dt_data_changed(const DtDataFact *before, const DtDataFact *now, DtText *ret_text);
/* Checks all values of a stream of files, unless it is large: values of large streams are checked
 * when they are read. Appends a line for each input whose values are out of range for an axis that
 * they index, and says what happens then. */
DtStatus dt_data_look(const DtData *data, DtText *ret_notes);
/* Called before the first read: steps take the samples that the ramp says, which stays where it is.
 * Without this call step t begins at sample t * batch. */
void dt_data_begin(DtData *data, const DtRamp *ramp);
/* From now on synthetic data has this many samples. */
void dt_data_end(DtData *data, int64_t samples);
/* Rows first .. first + rows - 1 of batch number `step`. A step that takes n samples takes the
 * last n rows of the batch.
 * inputs[i]: rows x row_elements of the input's dtype. eval readers: file order, batches counted
 * from 0. Fails for a value that the program cannot use, and says where it lies. */
DtStatus dt_data_read(DtData *data, int64_t step, int64_t first, int64_t rows, char *const *inputs);
/* The number of whole batches in the data, for an evaluation of all of it; 0: it has less than a
 * batch. */
int64_t dt_data_batches(const DtData *data);
/* The number of samples; 0: unlimited. After the end of held-out data its last sample is
 * repeated. */
int64_t dt_data_samples(const DtData *data);

/* ---- checkpoints (save.c, checkpoint.c, resume.c, checkpoint_list.c) ---- */

/* Collective over all ranks. Saves stores with `saved` set after `steps` finished steps as logical
 * tensors under folder/step-N, atomically; older ones stay. begin returns as soon as the stores may
 * change; the checkpoint is there when finish returns, which each begin needs. is_over: whether
 * finish would not wait; if so, it need not be called. False of begin and finish: the run ends.
 * Else ret_status has the same code on all ranks, DT_EXIT_IO if a disk did not take it: the run may
 * go on and save later. Its message is rank 0's. */
bool dt_checkpoint_begin(DtRank *rank, const char *folder, int64_t steps);
bool dt_checkpoint_is_over(DtRank *rank, DtStatus *ret_status);
bool dt_checkpoint_finish(DtRank *rank, DtStatus *ret_status);
/* begin and finish. */
bool dt_checkpoint_save(DtRank *rank, const char *folder, int64_t steps, DtStatus *ret_status);
/* Removes all checkpoints except the newest meta.save_keep (0: removes none). Only rank 0 calls
 * it. */
DtStatus dt_checkpoint_trim(const DtRank *rank, const char *folder);

/* Where a run begins: with the newest good checkpoint of the first of these folders that contains
 * one, or is one itself. Without one the run fails, unless may_fail (it begins at step 0), or
 * may_lack and the last folder has no checkpoint at all, not even a damaged one. weights_only:
 * loads parameters and states, no moments (for --eval, --generate). */
typedef struct DtCheckpointFrom {
    const char *folders[2];
    uint32_t n;
    bool weights_only, may_lack, may_fail;
    bool begins; /* the tensors are initial values: nothing else of the checkpoint counts */
} DtCheckpointFrom;
/* Collective over all ranks: loads it. ret_steps: number of finished steps; -1: nothing is loaded,
 * and the run begins at step 0. */
bool dt_checkpoint_load(DtRank *rank, const DtCheckpointFrom *from, int64_t *ret_steps);
/* replicas.c: fails if ranks that should hold the same bits after so many steps do not. */
bool dt_replicas_check(DtRank *rank, int64_t steps);
/* Whether the path ends in step-N. */
bool dt_checkpoint_is_name(const char *path);
/* True if path is a checkpoint itself; then ret_folder is the folder above it. */
bool dt_checkpoint_above(const char *path, char ret_folder[4096]);

/* ---- training and displayed values ---- */

/* Runs one rank from start to end; returns the exit code of its process. A rank process that the
 * supervisor started calls it, and tests do. */
int dt_train_rank(const DtRunOptions *options, uint32_t rank, int shared_fd);

/* Whether the ranks of this node are few enough for it, and their memory fits. */
DtStatus dt_supervisor_fits(const DtRunOptions *options, const DtPlan *plan);
/* supervisor.c: starts all ranks by spawn and exec of /proc/self/exe with argv and the hidden
 * options --rank R --shared FD, watches them, restarts; returns the exit code of dtrun. tasks: a
 * launcher's other tasks on this host, or NULL (tasks.h). */
struct DtTasks;
int dt_supervisor_run(const DtRunOptions *options, const DtPlan *plan, int argc, char *const *argv,
                      struct DtTasks *tasks);
/* Hashes all words of the command line except the plan's path, which may differ between nodes, and
 * this node's number. */
uint64_t dt_supervisor_hash(const DtRunOptions *options, int argc, char *const *argv);
/* Of several nodes, this one cannot start: ends those that wait for it. plan: NULL if it cannot be
 * read. */
void dt_supervisor_refuse(const DtRunOptions *options, const DtPlan *plan, int argc,
                          char *const *argv, const DtStatus *why);
/* First thing in a rank process: it dies with the supervisor; ends at once if that is dead already.
 */
void dt_supervisor_bind(int shared_fd);

/* show_samples.c: prints the first n samples of the training data, or all if there are fewer. Adds
 * what dt_data_look says. */
DtStatus dt_show_samples(const DtRunOptions *options, const DtPlan *plan, int64_t n,
                         DtText *ret_notes);

/* generate.c: runs the model again and again, and writes the texts. ret_stopped: a signal ended it
 * before. */
bool dt_generate_run(DtRank *rank, bool *ret_stopped);
/* Whether the plan can continue the prompts of the options. ret_notes: warnings, as lines. */
DtStatus dt_generate_check(const DtRunOptions *options, const DtPlan *plan, DtText *ret_notes);

/* progress.c */
typedef struct DtProgress {
    FILE *out;
    bool terminal, color;
    int64_t first_step, last_step;
    /* item: "tokens", or "samples" if the input has no token ids */
    double items_per_step; const char *item;
    int64_t batch; /* samples of a step that takes all of them */
    uint64_t began_ns, shown_ns;
    int64_t shown_step;
    uint64_t period_ns; /* a line is due when this much time has passed since the last one */
    double seconds_per_step; /* running mean */
    /* seconds and operations of a step, and FLOP/s of all ranks, as the plan predicts; 0: it does
     * not */
    double predicted, flops, peak;
} DtProgress;
typedef struct DtLossReport {
    bool taken;                 /* whether this step minimised the loss */
    bool skipped;               /* whether the loss scale skipped its update */
    double loss, grad_norm, lr; /* grad_norm < 0: the plan has no norm */
} DtLossReport;
typedef struct DtStepReport {
    int64_t step;               /* number of finished steps */
    DtLossReport losses[DT_PLAN_MAX_OBJECTIVES]; /* by number of the loss in the plan */
    uint32_t n_losses;
    DtShown shown;              /* the losses that the step took, and the metrics */
    int64_t rows;               /* samples of this step */
    double seconds;             /* of this step */
    /* time of steps that counted so far, by the time since the first attempt began; 0: not known */
    double goodput;
    uint64_t memory;            /* bytes of the rank with the largest memory */
    DtScale scale;              /* after this step */
} DtStepReport;
void dt_progress_open(DtProgress *progress, const DtRank *rank, FILE *out, int64_t first_step,
                      int64_t last_step);
/* Adds "loss 2.4931, accuracy 0.4312", with `between` between the values, from value number `first`
 * on. */
void dt_progress_shown(const DtShown *shown, uint32_t first, const char *between, DtText *ret_text);
void dt_progress_step(DtProgress *progress, const DtStepReport *report);
/* False if output could not be written. */
bool dt_progress_line(DtProgress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void dt_progress_close(DtProgress *progress);

/* Bytes received in `steps` steps: by group, then by channel of the plan. */
typedef struct DtTraffic {
    uint32_t n;
    uint64_t *before, *sums;
    int64_t steps;
} DtTraffic;

/* log.c: writes JSON lines to the end of the file. empties: the file is emptied first. */
DtStatus dt_log_open(const char *path, bool empties, DtLog **ret_log);
void dt_log_start(DtLog *log, const DtRank *rank, int64_t first_step);
void dt_log_step(DtLog *log, const DtStepReport *report, const DtPlan *plan);
void dt_log_eval(DtLog *log, int64_t step, const DtShown *shown, int64_t samples);
void dt_log_event(DtLog *log, const char *event, int64_t step, const char *text);
/* received bytes: sums of all ranks */
void dt_log_traffic(DtLog *log, const DtRank *rank, const DtTraffic *traffic);
DtStatus dt_log_close(DtLog *log); /* Closes the log. False: not all lines were written. */

/* trace.c: records the instructions of the last steps as Chrome trace events. */
DtStatus dt_trace_open(const DtRank *rank, const char *path, DtTrace **ret_trace);
void dt_trace_inst(DtTrace *trace, uint32_t inst, uint64_t began_ns, uint64_t ended_ns,
                   uint64_t received);
void dt_trace_step(DtTrace *trace, const char *entry, int64_t step, uint64_t began_ns,
                   uint64_t ended_ns);
DtStatus dt_trace_write(const DtTrace *trace); /* writes this rank's part */
void dt_trace_close(DtTrace *trace);           /* removes that part */

#endif
