/* SPDX-License-Identifier: Apache-2.0 */
/* The train, cluster, parallel and names blocks as plain data, checked. The frontend fills it
 * in; passes, search and code generation read it. Every value has the span where it was written. */
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
    DT_SOURCE_SYNTHETIC,
    DT_SOURCE_CHAT,
    DT_SOURCE_MEGATRON,
    DT_SOURCE_CSV
} DtSourceKind;
typedef enum DtImageCrop {
    DT_CROP_WHOLE, /* the image must have the input's size */
    DT_CROP_CENTRE,
    DT_CROP_RANDOM,
    DT_CROP_ZOOM /* a random part of random size, scaled to the input's */
} DtImageCrop;
/* How images become values: the shorter side's pixels (0: as they are), or the input's size; zeros
 * around them; the part; mirror images; (value / 255 - mean) / std. */
typedef struct DtImageSource {
    int64_t resize, pad, pixels; /* pixels: the most that an image may have */
    bool stretch, flip;
    DtImageCrop crop;
    double mean[3], std[3];
    uint32_t colours;            /* numbers written for mean or std: 0, 1 or 3 */
} DtImageSource;
typedef struct DtSource {
    DtSourceKind kind;
    const char *glob;     /* as written; relative to the folder of the .dsl file that says it */
    const char *folder;   /* the folder of that file, as the command line or the include names it */
    DtDtype dtype;        /* format `bin` */
    double from, to;      /* part of the tokens, 0..1 */
    bool raw;             /* bin: the bytes of any file, also of a known format */
    bool unpaired;        /* it has a number of samples and an order of its own */
    double lo, hi;        /* synthetic: integers lo..hi-1, or floats lo..hi */
    DtImageSource image;
    const char *tokenizer; /* text, chat: as glob; NULL: its bytes are tokens */
    const char *end;       /* text, chat: the token after each file or text; NULL: none */
    const char *template;  /* chat: its name; NULL: there is none */
    uint32_t chat;         /* chat: bits DT_CHAT_ */
    const char *columns;   /* csv: names of columns, each on a line; NULL: all of them */
    char separator;        /* csv: between two fields */
    bool header;           /* csv: the first line has the names of the columns */
    DtSpan span;
} DtSource;

/* Bits of what becomes of images. */
enum { DT_IMAGE_FLIP = 1, DT_IMAGE_STRETCH = 2 };

/* How documents of conversations fill samples: several in one, masked prompts are trained as well,
 * those that are too long are left out, not cut; the two documents of a preference are one. */
enum { DT_CHAT_PACK = 1, DT_CHAT_ALL = 2, DT_CHAT_DROP = 4, DT_CHAT_PAIRS = 8 };

typedef enum DtSampleKind {
    DT_SAMPLE_NEXT_TOKEN,
    DT_SAMPLE_MLM,
    DT_SAMPLE_SPAN_CORRUPTION,
    DT_SAMPLE_IMAGES,
    DT_SAMPLE_RAW, /* the source itself, element for element */
    DT_SAMPLE_CHAT
} DtSampleKind;

enum { DT_SPECIALS = 8 };

/* One source assignment: the inputs it fills, in order. All have the sample axis first. */
typedef struct DtReader {
    DtSampleKind kind;
    DtSource source;
    double rate, mean_span; /* of mlm and span_corruption */
    /* mlm: the mask token. span_corruption: the first sentinel, -1: none is said yet; what stands
     * in front of the target, and at its end. */
    int64_t mask_id, start_id, end_id;
    int64_t special[DT_SPECIALS]; /* mlm: tokens that are never masked */
    uint32_t n_special;
    /* Sources that are mixed are readers in a row, which fill the same inputs: parts 1, 2, ... of a
     * mixture, each with its weight. 0: a source that is not mixed. */
    uint32_t part;
    double weight;
    uint32_t n_inputs;
    const char *inputs[8];  /* names of `input` ops */
    const DtType *types[8];
    DtInputRange ranges[8]; /* i32 inputs: the values that the program can use */
    DtSpan span;
} DtReader;

/* A number that the runtime computes before each step (base/formula.h): the value of an `input`
 * op of that name, "@lr". */
typedef struct DtStepScalar { const char *name, *formula; } DtStepScalar;
/* A name in these formulas whose value a run may set: "lr.base". */
typedef struct DtStepSetting { const char *name; double value; bool is_whole; } DtStepSetting;

/* The optimizer's update of one parameter: a function outside the module. Inputs: the parameter
 * and its gradient, both f32, the norm of all gradients; then scalars of these names; then
 * states (params of the function). Results: the new parameter, the new values of the states in
 * writes[]. */
typedef struct DtUpdateRule {
    const DtStore *param;
    uint32_t group; /* index in DtTrainConfig.groups */
    DtFunc *func;
    const char **scalars; uint32_t n_scalars;
} DtUpdateRule;

enum {
    DT_MAX_MOMENTS = 4,    /* states of an optimizer for each parameter: stores of kinds MOMENT1
                            * .. */
    DT_UPDATE_OPERANDS = 8 /* the most operands of an op of the function */
};

typedef struct DtOptimizer {
    DT_VEC(DtUpdateRule) rules; /* of every parameter that is not frozen */
    /* the rules of averages, in the order of `rules`; none if the program keeps no averages. Their
     * arguments are the average (store AVERAGE) and the new parameter, in place of parameter and
     * gradient; they have no states. */
    DT_VEC(DtUpdateRule) averages;
    /* what a `compress` line does to the gradient, in the order of `rules`; none without such a
     * line. Their argument is the terms of the gradient, along DT_WORKER_AXIS after the axes of
     * loops; their result, the gradient; there is no norm. Their states follow the rule's. */
    DT_VEC(DtUpdateRule) exchanges;
    /* the outer optimizer of a `local` line, in the order of `rules`; none without one. Their
     * arguments are the parameter after the last average, and that minus the average of replicas */
    DT_VEC(DtUpdateRule) outers;
    DtSpan span;
} DtOptimizer;

typedef struct DtPrecision {
    DtDtype compute, params, master, grads, reduce;
    bool has_master;
    bool tf32;           /* f32 operands of products are rounded to this dtype */
    bool dynamic_loss_scale;
    double loss_scale;
    DtSpan span;         /* file 0: the program has no precision block, so everything is f32 */
} DtPrecision;

/* A loss with its own parameters and optimizer. A step takes the objectives one after the other,
 * each with the parameters that the ones before have left. */
typedef struct DtObjective {
    const char *name; /* part of the names of its entries; NULL: `loss` */
    const char *loss; /* name of the loss value */
    int64_t every;    /* the loss is minimised in every n-th step only */
    const char *rate; /* the scalar that is shown as its learning rate; NULL: none */
    DtSpan span;
} DtObjective;

/* patterns for paths of parameters */
typedef struct DtPattern { const char *text; DtSpan span; } DtPattern;
typedef DT_VEC(DtPattern) DtPatterns;

/* A parameter that inference reads as codes of so many bits, with a scale for each group of
 * neighbours (passes/codes). */
typedef struct DtCodedWeight {
    DtStore *param;
    uint32_t bits; /* 8 or 4 */
    int64_t group;
    DtSpan span;
} DtCodedWeight;

/* A call in `quantize`. */
typedef struct DtCodedPattern {
    DtPatterns params;
    uint32_t bits;
    int64_t group;
    DtSpan span;
} DtCodedPattern;

/* Parameters with an optimizer of their own. name: the name of the group in the program;
 * "optimizer" for parameters in no group. */
typedef struct DtParamGroup {
    const char *name;
    DtPatterns params; /* n 0: the group has all parameters that no other group has */
    bool own_norm; /* `grad_norm` counts the gradients of this group only */
    uint32_t objective; /* index in DtTrainConfig.objectives */
    const char *rate;   /* the scalar that is its learning rate; NULL: no scalar is used as one
                         * directly */
    DtSpan span;
} DtParamGroup;

/* A loss or metric that a run shows for an entry of the plan. formula: an expression of the entry's
 * results (base/formula.h), or "": the result of the same name. */
typedef struct DtShownValue {
    const char *name, *entry, *formula;
    bool runs; /* whether the plan has the entry: an evaluation needs held-out data */
} DtShownValue;

/* A line `local` or `gossip`: the ranks along these mesh axes have parameters of their own, which
 * they mix after steps whose number is a multiple of `every`. Pass `replicate` gives parameters,
 * states and the values computed from them an axis of this name, with n replicas. */
#define DT_REPLICA_AXIS "@replica"
typedef enum DtMix {
    DT_MIX_NONE,    /* there is no such line */
    DT_MIX_AVERAGE, /* all take the average of all, or what an outer optimizer makes of it */
    DT_MIX_RING,    /* each takes the average of itself and its neighbours in a ring */
    DT_MIX_PAIRS    /* pairs, drawn anew each time, take the average of both */
} DtMix;
enum { DT_MIX_MOST_PAIRED = 64 }; /* replicas that mix in pairs */
typedef struct DtReplicas {
    DtMix mix;
    const char *on[4]; uint32_t n_on;
    int64_t n, every;
    const char *samples; /* the dim that counts samples; its extent in a replica is batch / n */
    int64_t batch, micro; /* micro: micro-batches that cut it */
    DtSpan span;
} DtReplicas;
/* How many ways there are to mix replicas, each an entry: rounds of pairs, or 1. */
int64_t dt_replicas_ways(const DtReplicas *replicas);

/* `ramp = batch(..)`: a step takes `from` samples, and `by` more after each equal share of the
 * first `over` samples, until it takes the batch. by 0: every step takes the batch. */
typedef struct DtRampConfig { int64_t from, by, over; DtSpan span; } DtRampConfig;
/* the scalar of the step that has its number of samples */
#define DT_ROWS_INPUT "@rows"

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
    DtRampConfig ramp;
    DtReplicas replicas; /* those of the layout, as they change what training means */
    double epochs; /* > 0: takes the place of steps, which is 0: so often the data are read */
    uint64_t seed;
    /* names of values shown with the loss */
    const char *metrics[DT_MAX_METRICS]; uint32_t n_metrics;
    DtSpan metric_spans[DT_MAX_METRICS];
    DT_VEC(DtShownValue) shown; /* by entry: losses, then metrics */
    DtPatterns frozen, trained;
    DtPatterns keep_zeros; /* of parameters whose elements that are zero no step changes */
    DT_VEC(DtCodedPattern) quantize;
    /* extents are smaller than the program's, so groups that do not divide them are smaller, too */
    bool is_smaller;
    DT_VEC(DtCodedWeight) coded; /* the parameters that `quantize` names */
    bool trains_some; /* there is `trained`: what it does not match is frozen, but for adapters */
    int64_t eval_every, eval_steps;      /* eval_every 0: none; eval_steps 0: the whole split */
    int64_t eval_patience; /* evaluations without a lower loss that end the run; 0: none do */
    bool keep_best;        /* the checkpoint with the lowest held-out loss is kept */
    DT_VEC(DtReader) eval_readers;       /* in the order of readers, with the same inputs */
    /* `draws = one`: the generator is called once for each element of a draw, instead of once for
     * four */
    bool draws_one;
    /* elements that each call of the generator gives to a draw; 0: the program has no draws */
    uint32_t draws;
    /* an evaluation also counts the samples after the last whole batch: see dt_samples_add_up */
    bool eval_rest;
    int64_t save_every, save_keep;       /* save_every 0: only at the end; keep 0: keeps all */
    /* `generate`: texts that are generated at once, positions of a prompt that are computed at once
     * (passes/decode.c); 0: there is no such line */
    int64_t cached_rows, cached_chunk;
    DtSpan cached_span;
    int64_t predict_rows; /* samples for which "predict" runs at a time; 0: as few as make sense */
    DtSpan predict_span;
    DtSpan span;
} DtTrainConfig;

/* The number of steps; DT_STEPS_ASSUMED if `epochs` says how long training takes, since only the
 * data tell then. */
enum { DT_STEPS_ASSUMED = 1000 };
int64_t dt_train_steps(const DtTrainConfig *train);
/* The samples of the batch; 0: the block reads no data, or their types are not known yet. */
int64_t dt_train_batch(const DtTrainConfig *train);
/* The objective that trains the parameter of this path; the first one if no rule updates it. */
const DtObjective *dt_train_objective(const DtTrainConfig *train, const char *path);
/* The first objective that is part of every step: metrics are computed with it. */
const DtObjective *dt_train_always(const DtTrainConfig *train);

/* ---- cluster ---- */

typedef struct DtDevice DtDevice; /* cost/cost.h */
typedef struct DtStack DtStack;

typedef struct DtLink { double bytes_per_second, seconds; } DtLink;
/* Nodes of one kind. */
typedef struct DtNodeKind {
    const char *gpu;        /* name of a device, "cpu" for the host */
    const DtDevice *device; /* the device of that name, or NULL after an error */
    int64_t nodes;
} DtNodeKind;
enum { DT_NODE_KINDS = 4 };
typedef struct DtClusterConfig {
    const char *name;
    int64_t nodes, gpus;    /* nodes: of all kinds; gpus: devices per node */
    DtNodeKind kinds[DT_NODE_KINDS]; uint32_t n_kinds; /* in the order of ranks; at least one */
    /* the software stack whose speed the cost model assumes: dt_stack_ours by default */
    const DtStack *stack;
    DtLink intra, inter; /* bytes_per_second 0: not given */
    DtSpan span;
} DtClusterConfig;

/* ---- parallel ---- */

typedef struct DtShard {
    /* the path that limits the line to some values; n_place 0: it holds for all values */
    const char *place[8]; uint32_t n_place;
    const char *axes[16]; uint32_t n_axes;
    const char *mesh[4]; uint32_t n_mesh;
    int64_t pad;                              /* 0: none */
    bool ring, zigzag;
    DtSpan span;
} DtShard;
typedef struct DtPipeline {
    const char *loops[8]; uint32_t n_loops;   /* full paths, filled in once the program is known */
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
/* A line `compress`: the ranks of these mesh axes exchange gradients by a function of the library
 * (DtOptimizer.exchanges), which sees the term of each rank along an axis of this name. */
#define DT_WORKER_AXIS "@worker"
typedef struct DtCompress {
    const char *function; /* NULL: there is no such line */
    const char *on[4]; uint32_t n_on;
    int64_t workers;      /* ranks, the product of the sizes of these mesh axes */
    DtSpan span;
} DtCompress;

typedef struct DtParallelConfig {
    const char *name, *cluster;
    DtMesh mesh;                              /* the mesh's axes without time */
    DtSpan mesh_span;
    DT_VEC(DtShard) shards;
    DT_VEC(DtPipeline) pipelines;
    DT_VEC(DtZero) zeros;
    DT_VEC(DtRemat) remats;
    DtCompress compress;
    DtReplicas replicas;
    /* of `stream` lines: products with these axes move into the functions that read them, whatever
     * their size; stores_products: `stream none`, no product does (pass `absorb`) */
    DT_VEC(const char *) streams;
    bool stores_products;
    DtSpan stream_span;
    const char *micro_axis; int64_t micro;    /* 1 if not written */
    DtSpan micro_span;
    bool is_auto;                             /* the block says `auto (...)`: search for the rest */
    const char *auto_goal;                    /* the goal: a word of config.def */
    double auto_memory;                       /* fraction of a device's memory that may be used */
    int64_t auto_gpus[2];                     /* the fewest and most devices that the search may
                                               * use; 0: those of the cluster */
    DtSpan auto_span;
    DtSpan span;
} DtParallelConfig;

/* Least common multiple of two positive numbers; INT64_MAX if it is larger. */
int64_t dt_config_lcm(int64_t a, int64_t b);

/* The number that the padded extent of the axis must be a multiple of, from the `pad` and the
 * blocks of every line that pads it; 1: no line does. axis: interned. The product of the mesh's
 * sizes is below 2^31. */
int64_t dt_config_pad_unit(const DtParallelConfig *config, const char *axis);

/* ---- a names block: the tensors of files that other programs wrote ---- */

/* Where the elements of a parameter stand in the tensor of an entry. Element i of the parameter,
 * whose axes are those of its type (without that of replicas), loops first, is element
 * `first + sum of stride[a] * i[a]`, if i[a] < count[a] for every axis; the file does not have the
 * others. */
typedef struct DtFilePart {
    const DtStore *store;
    int64_t first, stride[DT_MAX_RANK], count[DT_MAX_RANK];
} DtFilePart;

/* The most elements of a tensor of a file, and of all that one entry stands for; the numbers in
 * their names are smaller. */
#define DT_FILE_MOST ((int64_t)1 << 46)

/* A number in the name of a tensor: first + sum of factor[x] * index[x], or the number at that
 * place of the list, if there is one. */
typedef struct DtFileHole {
    int64_t first, factor[DT_MAX_RANK];
    DT_VEC(int64_t) list;
} DtFileHole;

/* An entry: a tensor, or several that differ in the numbers in their names. These count as one
 * tensor whose first n_index axes are the indices that make the numbers; the other axes are those
 * of each tensor in the file. Row-major. */
typedef struct DtFileTensor {
    const char *pattern; /* "model.layers.#.mlp.up_proj.weight" */
    uint32_t n_index, n_axes;
    int64_t extent[DT_MAX_RANK];
    DT_VEC(DtFileHole) holes; /* of each # */
    DT_VEC(DtFilePart) parts;
    DtSpan span;
} DtFileTensor;

/* IGNORE: tensors of the file whose names match `key` are not used. INITIAL: parameters whose paths
 * match it are not in the file. CONFIG: member `key` of config.json, or the first that is there
 * of several (", " between), has one of the values in the JSON array `value`. */
typedef enum DtFileRuleKind { DT_FILE_IGNORE, DT_FILE_INITIAL, DT_FILE_CONFIG } DtFileRuleKind;
typedef struct DtFileRule {
    DtFileRuleKind kind;
    const char *key, *value;
    DtSpan span;
} DtFileRule;

typedef struct DtFileNames {
    const char *name;
    DT_VEC(DtFileTensor) tensors;
    DT_VEC(DtFileRule) rules;
    DtSpan span;
    bool adapters; /* the program's adapters as peft's files have them (config_adapters.c) */
    const char *label; /* of the instance of the model whose parameters it has; "": it has none */
} DtFileNames;

/* An instance of a model: `teacher:net(x)`, whose parameters' paths begin with its label; "" for
 * `net(x)`. */
typedef struct DtLabelled {
    const char *label, *model;
} DtLabelled;

/* A weight to which an adapter can be added (frontend/lower_merge.c): the result is that of the
 * program without the adapter and with the weight w + scale a b. Each is a matrix, row-major: the
 * axes of w after the loops are those of `a` without the last, then those of b without the
 * first. */
typedef struct DtAdapted {
    const DtStore *weight, *a, *b;
    double scale;
} DtAdapted;

/* ---- a whole program ---- */

/* A dim of the program's files, or of the library. */
typedef struct DtDim {
    const char *name;
    int64_t extent;
    bool is_number;  /* written as a number, not computed from other dims */
    bool is_given;   /* -D of the command line sets it */
} DtDim;

typedef struct DtProgram {
    DtModule *module;              /* entries "loss" (of each objective; training = true: loss, then
                                    * state writes), "eval", "predict" */
    DT_VEC(DtTrainConfig *) trains;
    DT_VEC(DtClusterConfig *) clusters;
    DT_VEC(DtParallelConfig *) parallels;
    DtTrainConfig *train;          /* the blocks that were chosen */
    DtClusterConfig *cluster;      /* NULL: no cluster, this machine */
    DtParallelConfig *parallel;    /* NULL: no layout, one rank */
    /* all blocks of the program, and those of the library that it names */
    DT_VEC(const DtDevice *) devices;
    DT_VEC(const DtStack *) stacks;
    DT_VEC(DtDim) dims;            /* the dims that have an extent */
    DT_VEC(DtFileNames) names;     /* the names blocks, once for each instance of their model */
    DT_VEC(DtLabelled) labelled;   /* the instances of models in the train block */
    DT_VEC(DtAdapted) adapted;     /* weights to which adapters can be added */
} DtProgram;

#endif
