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
 *                            again
 *   costprograms.c   rows as programs of the language, which report.py gives to dtc */
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
enum { FITTED_SOURCES = OTHER_SCHEDULES }; /* rows for which this is false are printed, but
                                            * constants are not fitted to them */
typedef enum What { STEP, FORWARD, BACKWARD } What; /* the seconds are those of a whole step, or of
                                                     * one layer's passes */
typedef enum Schedule { ONE_F_ONE_B, INTERLEAVED, ZB_H1 } Schedule;
typedef enum Recompute { NONE, CORE, EVERY_OTHER, PRODUCTS, WHOLE } Recompute;

typedef struct Row {
    Source source;
    What what;
    const char *model, *stack, *device;
    bool is_llama, sequence_parallel, trims_ends; /* trims_ends: the first and the last stage have
                                                   * one layer fewer */
    Recompute recompute;
    Schedule schedule;
    int64_t layers, hidden, heads, kv_heads, ffn, vocab, seq, batch, micro, gpus, tensor, stages,
        chunks, data, zero;
    double measured; /* seconds */
} Row;

typedef DT_VEC(Row) Rows;

/* Reads the rows of all files in the folder whose software and times are known. Ends the process if
 * a file cannot be read. */
Rows rows_read(DtArena *arena, const char *folder);

/* The twelve profiled configurations: times of one stage in seconds, and the bubbles that the
 * authors computed from them. */
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
    double weight;            /* the part of these seconds for gradients of weights, for which other
                               * stages do not wait */
} Time;
Time time_add(Time a, Time b);
Time time_scale(Time a, double factor);
double time_total(Time a);

/* Parts of the model that can be left out, to find how much they improve predictions. */
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
    /* recompute: what backward runs again; backward includes the weight gradients */
    Time forward, backward, recompute;
} Layer;

Layer layer_of(const Setting *s);
/* Seconds of a computation and an exchange that run at the same time. */
double beside_of(const Setting *s, double compute, double exchange);
Layer embedding_of(const Setting *s);
Layer head_of(const Setting *s);
double layer_parameters(const Row *row); /* parameters of a whole layer, on all ranks together */
double outer_parameters(const Row *row); /* parameters of embedding and head */

/* ---- events.c ---- */

typedef struct Pipeline {
    Schedule schedule;
    int64_t stages, chunks, micro_batches;
    /* seconds of each piece, [chunks * stages] in the order of layers; `weight` is used for
     * ZB_H1 only, otherwise it is a part of backward */
    const double *forward, *backward, *weight;
    double message;
} Pipeline;
/* Seconds from the first action to the last. */
double pipeline_run(Pipeline p);

/* ---- step.c ---- */

/* Seconds of the step of a row, or of its layer, by kind. The time in bubbles is distributed over
 * the other kinds. */
Time step_of(const Setting *s);

/* ---- fit.c ---- */

typedef struct Known { /* the devices and stacks of the library */
    DtDevice *devices; size_t n_devices;
    const DtStack *const *stacks; size_t n_stacks;
} Known;
/* Reads them. lib: the folder of the library. Ends the process with a message if it cannot be
 * read. */
Known known_read(DtArena *arena, const char *tree);
Known known_copy(DtArena *arena, const Known *known);

/* A constant that is fitted: either one of constants.def (device NULL: for all devices that have no
 * value of their own), or one of a device. */
typedef struct Fitted {
    const char *device;
    DtCostConstantId id, also; /* also: a second constant that must have the same value; or equal to
                                * id */
    double prior, within;
} Fitted;
extern const Fitted fitted[];
extern const size_t n_fitted;

/* The present value of the constant for a device. */
DtCostEstimate fitted_value(const Known *known, const Fitted *f);
Setting setting_of(const Known *known, const Row *row, Without without);
/* Fits the constants to the rows of all sources except left_out (SOURCES: none is left out). Starts
 * with the values in known, and changes these. */
void fit_constants(Known *known, Rows rows, Source left_out, Without without);

#endif
