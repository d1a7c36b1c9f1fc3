/* SPDX-License-Identifier: Apache-2.0 */
/* Published training steps, predicted from the extents of their layers with the functions of cost/.
 *
 *   rows.c    reads bench/published/: a row is a program, a layout, a software, a device, and
 *             measured seconds
 *   layer.c   operations of a layer, an embedding, a head, on one rank, by kind of time
 *   step.c    a training step of them: stages, messages, data parallelism, optimizer
 *   events.c  pipeline schedules as events
 *   fit.c     least squares of the fitted constants
 *   known.c   the library's devices and stacks
 *   costmodel.c, costfit.c   the programs: tables of predicted and measured; the fitted constants
 *                            again */
#ifndef DT_BENCH_COSTMODEL_H
#define DT_BENCH_COSTMODEL_H

#include "base/arena.h"
#include "cost/cost.h"

/* ---- rows.c ---- */

typedef enum Source {
    SC21,
    RECOMPUTE,
    LAYER,
    ZERO_BUBBLE,
    TITAN_A100,
    TITAN_H100,
    OTHER_SCHEDULES,
    SOURCES
} Source;
enum { FITTED_SOURCES = OTHER_SCHEDULES }; /* the others are shown, and nothing is fitted on them */
typedef enum What { STEP, FORWARD, BACKWARD } What; /* a whole step, or one layer's passes */
typedef enum Schedule { ONE_F_ONE_B, INTERLEAVED, ZB_H1 } Schedule;
typedef enum Recompute { NONE, CORE, EVERY_OTHER, PRODUCTS, WHOLE } Recompute;

typedef struct Row {
    Source source;
    What what;
    const char *model, *stack, *device;
    bool is_llama, sequence_parallel, trims_ends; /* trims_ends: outer stages hold a layer fewer */
    Recompute recompute;
    Schedule schedule;
    int64_t layers, hidden, heads, kv_heads, ffn, vocab, seq, batch, micro, gpus, tensor, stages,
        chunks, data, zero;
    double measured; /* seconds */
} Row;

typedef DT_VEC(Row) Rows;

/* Rows of all files in folder whose software and times are known; ends the process if a file cannot
 * be read. */
Rows rows_read(DtArena *arena, const char *folder);

/* The twelve profiled configurations: times of one stage in seconds, bubbles as the authors
 * computed them. */
typedef struct Profile {
    const char *model;
    int64_t stages, micro_batches, chunks;
    double forward, backward, weight, message, bubble_1f1b, bubble_interleaved, bubble_zb_h1;
} Profile;
typedef DT_VEC(Profile) Profiles;
Profiles profiles_read(DtArena *arena, const char *folder);

/* ---- layer.c ---- */

typedef struct Time {
    double at[DT_COST_KINDS]; /* seconds by kind */
    double weight;            /* of these: gradients of weights, which other stages do not wait
                               * for */
} Time;
Time time_add(Time a, Time b);
Time time_scale(Time a, double factor);
double time_total(Time a);

/* Parts of the model that are left out, to see what they are worth. */
typedef enum Without {
    NOTHING,
    TILES,
    STEPS,
    KERNELS,
    LAUNCHES,
    ATTENTION,
    COLLECTIVES,
    SHARE,
    MESSAGES,
    BUBBLE,
    HEAD,
    OPTIMIZER,
    FIXED,
    WITHOUTS
} Without;

typedef struct Setting {
    const Row *row;
    DtCostModel model;
    Without without;
} Setting;

typedef struct Layer {
    /* recompute: what backward runs again; backward has the weight gradients */
    Time forward, backward, recompute;
} Layer;

Layer layer_of(const Setting *s);
/* Seconds of computing and an exchange that go on at a time. */
double beside_of(const Setting *s, double compute, double exchange);
Layer embedding_of(const Setting *s);
Layer head_of(const Setting *s);
double layer_parameters(const Row *row); /* of a whole layer, all ranks */
double outer_parameters(const Row *row); /* embedding and head */

/* ---- events.c ---- */

typedef struct Pipeline {
    Schedule schedule;
    int64_t stages, chunks, micro_batches;
    const double *forward, *backward, *weight; /* of each piece, [chunks * stages] in the order of
                                                * layers; weight of ZB_H1 only, else it is in
                                                * backward */
    double message;
} Pipeline;
/* Seconds from the first action to the last. */
double pipeline_run(Pipeline p);

/* ---- step.c ---- */

/* Seconds of a row's step, or layer, by kind; the bubble is spread over the kinds that fill the
 * rest. */
Time step_of(const Setting *s);

/* ---- fit.c ---- */

typedef struct Known { /* devices and stacks of the library */
    DtDevice *devices; size_t n_devices;
    const DtStack *const *stacks; size_t n_stacks;
} Known;
/* lib: the folder of the library; ends the process with a message if it cannot be read. */
Known known_read(DtArena *arena, const char *tree);
Known known_copy(DtArena *arena, const Known *known);

/* A constant that is fitted: of constants.def (device NULL: of all that do not say their own), or
 * of a device. */
typedef struct Fitted {
    const char *device;
    DtCostConstantId id, also; /* also: a second one that is the same number, or id */
    double prior, within;
} Fitted;
extern const Fitted fitted[];
extern const size_t n_fitted;

/* The value that a device has of it now. */
DtCostEstimate fitted_value(const Known *known, const Fitted *f);
Setting setting_of(const Known *known, const Row *row, Without without);
/* Fits the constants to the rows whose source is not left_out (SOURCES: none), from what known has;
 * changes known. */
void fit_constants(Known *known, Rows rows, Source left_out, Without without);

#endif
