/* SPDX-License-Identifier: Apache-2.0 */
/* What the train, cluster, parallel and names blocks say, checked and in plain data. Filled by the
 * frontend, read by passes, search, codegen. Every value has the span where it was written. */
#ifndef DT_IR_CONFIG_H
#define DT_IR_CONFIG_H

#include "base/stages.h"
#include "ir/ranges.h"

/* ---- train ---- */

typedef enum DtSourceKind {
    DT_SOURCE_TEXT,
    DT_SOURCE_BIN,
    DT_SOURCE_NPY,
    DT_SOURCE_IMAGES,
    DT_SOURCE_SYNTHETIC
} DtSourceKind;
typedef struct DtSource {
    DtSourceKind kind;
    const char *glob;     /* as written; relative to the folder of the .dsl file that says it */
    const char *folder;   /* that folder, as the file was named on the command line or by include */
    DtDtype dtype;        /* bin */
    double from, to;      /* part of the tokens, 0..1 */
    double lo, hi;        /* synthetic: integers lo..hi-1, or floats lo..hi */
    const char *augment;  /* images: as written, NULL if none */
    DtSpan span;
} DtSource;

typedef enum DtSampleKind { DT_SAMPLE_NEXT_TOKEN, DT_SAMPLE_MLM, DT_SAMPLE_SPAN_CORRUPTION, DT_SAMPLE_IMAGES,
                            DT_SAMPLE_RAW } DtSampleKind; /* RAW: the source itself, element for element */

/* One source assignment: the inputs it fills, in order. All have the sample axis first. */
typedef struct DtReader {
    DtSampleKind kind;
    DtSource source;
    double rate, mean_span; /* mlm, span_corruption */
    int64_t mask_id;
    uint32_t n_inputs;
    const char *inputs[8];  /* names of `input` ops */
    const DtType *types[8];
    DtInputRange ranges[8]; /* i32 inputs: what the program can do with */
    DtSpan span;
} DtReader;

/* A number that the run knows when a step begins (base/formula.h), the value of an `input` op of that name: "@lr". */
typedef struct DtStepScalar { const char *name, *formula; } DtStepScalar;
/* A name in formulas that a run may set: "lr.base". */
typedef struct DtStepSetting { const char *name; double value; bool is_whole; } DtStepSetting;

/* What the optimizer does to one parameter: a function that is not among the module's. Inputs: the parameter, its
 * gradient, each f32, the norm of all gradients; then scalars[], of these names; then states (params of the function).
 * Results: what the parameter becomes, what the states in writes[] become. */
typedef struct DtUpdateRule {
    const DtStore *param;
    uint32_t group; /* in DtTrainConfig.groups */
    DtFunc *func;
    const char **scalars; uint32_t n_scalars;
} DtUpdateRule;

enum {
    DT_MAX_MOMENTS = 4,    /* states of an optimizer for each parameter: stores of kinds MOMENT1 .. */
    DT_UPDATE_OPERANDS = 8 /* of an op of its function, at most */
};

typedef struct DtOptimizer {
    DT_VEC(DtUpdateRule) rules; /* of every parameter that is not frozen */
    DtSpan span;
} DtOptimizer;

typedef struct DtPrecision {
    DtDtype compute, params, master, grads, reduce;
    bool has_master;
    bool tf32;           /* operands of products in f32 are rounded to it */
    bool dynamic_loss_scale;
    double loss_scale;
    DtSpan span;         /* file 0 if precision was not written: everything f32 */
} DtPrecision;

/* A loss that is minimised by rules of its own, in its turn: steps take the objectives one after the other, each with
 * the parameters as those before have left them. */
typedef struct DtObjective {
    const char *name; /* of its entries, NULL: `loss` */
    const char *loss; /* of the value */
    int64_t every;    /* taken in every so manyth step */
    const char *rate; /* the scalar of the step that is shown as its rate; NULL: there is none */
    DtSpan span;
} DtObjective;

typedef struct DtPattern { const char *text; DtSpan span; } DtPattern; /* of paths of parameters */
typedef DT_VEC(DtPattern) DtPatterns;

/* Parameters with an optimizer of their own. name: of the entry, "optimizer" for that of all that no group has. */
typedef struct DtParamGroup {
    const char *name;
    DtPatterns params; /* n 0: all others */
    bool own_norm; /* grad_norm is the norm of the group's gradients */
    uint32_t objective; /* in DtTrainConfig.objectives */
    const char *rate;   /* the scalar of the step that is its rate, NULL: no rule reads it as it is */
    DtSpan span;
} DtParamGroup;

/* A loss or metric that is shown of an entry of the plan: formula (base/formula.h) of the entry's
 * results, or "": its result of that name. */
typedef struct DtShownValue {
    const char *name, *entry, *formula;
} DtShownValue;

enum { DT_MAX_OBJECTIVES = 8, DT_MAX_METRICS = 16 };

typedef struct DtTrainConfig {
    const char *name;
    DT_VEC(DtReader) readers;
    DtOptimizer optimizer;
    DT_VEC(DtParamGroup) groups;
    DT_VEC(DtObjective) objectives; /* at least one */
    DT_VEC(DtStepScalar) scalars;
    DT_VEC(DtStepSetting) settings;
    DtPrecision precision;
    int64_t steps;
    uint64_t seed;
    const char *metrics[DT_MAX_METRICS]; uint32_t n_metrics; /* names of values beside the loss */
    DtSpan metric_spans[DT_MAX_METRICS];
    DT_VEC(DtShownValue) shown; /* of each entry losses, then metrics */
    DtPatterns frozen;
    int64_t eval_every, eval_steps;      /* eval_every 0: none; eval_steps 0: the whole split */
    DT_VEC(DtReader) eval_readers;       /* in the order of readers, same inputs */
    bool draws_one;                      /* `draws = one`: an element of a draw takes a call, not a quarter of it */
    uint32_t draws;                      /* elements that draws take from a call; 0: nothing draws */
    bool eval_rest;                      /* samples behind the last whole batch count: dt_samples_add_up */
    int64_t save_every, save_keep;       /* 0: only at the end; keep 0: all */
    DtSpan span;
} DtTrainConfig;

/* The objective that trains the parameter of this path; of one that has no rule the first. */
const DtObjective *dt_train_objective(const DtTrainConfig *train, const char *path);
/* The first objective that every step takes: metrics are computed with it. */
const DtObjective *dt_train_always(const DtTrainConfig *train);

/* ---- cluster ---- */

typedef struct DtDevice DtDevice; /* cost/cost.h */
typedef struct DtStack DtStack;

typedef struct DtLink { double bytes_per_second, seconds; } DtLink;
/* Nodes of one kind. */
typedef struct DtNodeKind {
    const char *gpu;        /* name of a device, "cpu" for the host */
    const DtDevice *device; /* that one; NULL after an error */
    int64_t nodes;
} DtNodeKind;
enum { DT_NODE_KINDS = 4 };
typedef struct DtClusterConfig {
    const char *name;
    int64_t nodes, gpus;    /* of all kinds; devices of a node, of whatever kind */
    DtNodeKind kinds[DT_NODE_KINDS]; uint32_t n_kinds; /* in the order of ranks; at least one */
    const DtStack *stack;   /* as what a step is priced: dt_stack_ours, if nothing is written */
    DtLink intra, inter; /* bytes_per_second 0: not given */
    DtSpan span;
} DtClusterConfig;

/* ---- parallel ---- */

typedef struct DtShard {
    const char *place[8]; uint32_t n_place;   /* path that limits the line; n_place 0: general */
    const char *axes[16]; uint32_t n_axes;
    const char *mesh[4]; uint32_t n_mesh;
    int64_t pad;                              /* 0: none */
    bool ring, zigzag;
    DtSpan span;
} DtShard;
typedef struct DtPipeline {
    const char *loops[8]; uint32_t n_loops;   /* by their whole paths once the program is known */
    const char *on;
    const char *schedule;                     /* "1f1b" by default */
    int64_t chunks;
    int64_t cuts[DT_STAGES_MOST]; uint32_t n_cuts;
    const char *named_cuts[DT_STAGES_MOST]; uint32_t n_named_cuts;
    DtSpan span;
} DtPipeline;
typedef struct DtZero {
    int level;
    const char *on[4]; uint32_t n_on;
    bool offload_host;
    int64_t prefetch, bucket_bytes;
    DtSpan span;
} DtZero;
typedef struct DtRemat {
    const char *loop;
    const char *keep[16]; uint32_t n_keep;    /* dotted paths */
    const char *drop[16]; uint32_t n_drop;
    DtSpan span;
} DtRemat;
typedef struct DtParallelConfig {
    const char *name, *cluster;
    DtMesh mesh;                              /* without time */
    DtSpan mesh_span;
    DT_VEC(DtShard) shards;
    DT_VEC(DtPipeline) pipelines;
    DT_VEC(DtZero) zeros;
    DT_VEC(DtRemat) remats;
    const char *micro_axis; int64_t micro;    /* 1 if not written */
    DtSpan micro_span;
    bool is_auto;                             /* `auto (...)`: search */
    const char *auto_goal;                    /* what is least: a word of config.def */
    double auto_memory;                       /* part of a device's memory that may be used */
    int64_t auto_gpus[2];                     /* least and most devices; 0: those of the cluster */
    DtSpan auto_span;
    DtSpan span;
} DtParallelConfig;

/* Least common multiple of two positive numbers; INT64_MAX if it is larger. */
int64_t dt_config_lcm(int64_t a, int64_t b);

/* What the padded extent of the axis is a multiple of: the `pad` and the blocks of every line that pads it;
 * 1: no line does. axis: interned. The product of the mesh's sizes is below 2^31. */
int64_t dt_config_pad_unit(const DtParallelConfig *config, const char *axis);

/* ---- a whole program ---- */

/* A dim of the program's files, or of the library. */
typedef struct DtDim {
    const char *name;
    int64_t extent;
    bool is_number;  /* written as a number, not computed from other dims */
    bool is_given;   /* by -D */
} DtDim;

typedef struct DtProgram {
    DtModule *module;              /* entries "loss" (of each objective; training = true: loss, then state writes),
                                    * "eval", "predict" */
    DT_VEC(DtTrainConfig *) trains;
    DT_VEC(DtClusterConfig *) clusters;
    DT_VEC(DtParallelConfig *) parallels;
    DtTrainConfig *train;          /* the chosen ones */
    DtClusterConfig *cluster;      /* NULL: this machine */
    DtParallelConfig *parallel;    /* NULL: one rank */
    DT_VEC(const DtDevice *) devices; /* of the program's blocks, and those of the library that it names */
    DT_VEC(const DtStack *) stacks;
    DT_VEC(DtDim) dims;            /* those that have an extent */
} DtProgram;

#endif
