/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a run: what the command line of dtrun says. dtrun.c fills them in; everybody else
 * only reads them. */
#ifndef DT_RUNTIME_RUN_OPTIONS_H
#define DT_RUNTIME_RUN_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum DtGemmKind {
    DT_GEMM_DEFAULT,
    DT_GEMM_ONEDNN,
    DT_GEMM_OPENBLAS,
    DT_GEMM_PLAIN,
    DT_GEMM_KINDS
} DtGemmKind;
extern const char *const dt_gemm_names[DT_GEMM_KINDS]; /* gemm.c: "onednn"; NULL for the default */

/* What computes attention: the faster one on this GPU (TIMED), the library, or the plan's own
 * kernels. */
typedef enum DtAttention {
    DT_ATTENTION_TIMED,
    DT_ATTENTION_CUDNN,
    DT_ATTENTION_GENERATED
} DtAttention;

/* What computes epilogues of products that have two forms: the library, kernels, or the faster one
 * on this GPU. */
typedef enum DtEpilogueWish {
    DT_EPILOGUES_TIMED,
    DT_EPILOGUES_FUSED,
    DT_EPILOGUES_APART
} DtEpilogueWish;

typedef struct DtRedirect {
    const char *from, *to;
} DtRedirect; /* --data OLD=NEW */

/* How a text is continued. generate_sample.c has the names and ranges of these numbers. */
typedef struct DtSampling {
    int64_t tokens;     /* the most that are chosen */
    double temperature; /* 0: the largest logit */
    int64_t top_k;      /* 0: all */
    double top_p, min_p, repetition_penalty;
    int64_t seed;
} DtSampling;
enum { DT_MOST_STOPS = 16 }; /* texts before which a text ends */
#define DT_SAMPLING_DEFAULTS \
    {.tokens = 200, .temperature = 0.8, .top_p = 1, .repetition_penalty = 1}

/* The command line of dtrun (runtime/options.def). Folders and files as the user wrote them. */
typedef struct DtRunOptions {
    const char *plan_path;
    int64_t steps;             /* -1: the number in the plan */
    const char *device;        /* "cpu", "cuda", "apart" */
    bool share_gpu;            /* several ranks may use the same GPU */
    bool windows;              /* the memory that collectives access is registered with NCCL as
                                * windows */
    bool algorithms_first;     /* take the GPU library's first proposals, without timing */
    /* the command line has these options, also with their defaults, which a checkpoint's choice
     * would overrule silently */
    bool algorithms_given, attention_given, epilogues_given;
    bool graph;                /* capture instructions once and start them as graphs */
    bool sync;                 /* wait for each instruction before the next one begins */
    const char *comm;          /* "shm", "nccl"; NULL: by device */
    const char *save, *resume; /* folders, or NULL */
    bool or_start;             /* start at step 0 if there is no checkpoint to resume */
    const char *import, *names; /* folder of another program's tensors, names block; or NULL */
    const char *imports[8];    /* LABEL=DIR: the same for instances of models that have labels */
    uint32_t n_imports;
    const char *adapters;      /* folder of adapters that peft wrote, or NULL */
    bool no_average;           /* evaluate and export parameters, not their averages */
    bool peft;                 /* the export has adapters alone, as files of peft */
    const char *export;        /* folder for another program's tensors, or NULL */
    int export_dtype;          /* DtPlanDtype of all its floats; -1: none is named */
    const char *like;          /* folder that the export resembles, "none", or NULL */
    const char *weights;       /* folder of checkpoints whose weights are the initial values */
    const char *only[16];      /* with `weights`: patterns of paths */
    uint32_t n_only;
    const char *prune[16];     /* with `weights` or `resume`: what becomes zero (prune.h) */
    uint32_t n_prune;
    bool overwrite;            /* remove files of other runs in `save` and `log` */
    const char *log, *trace;   /* files, or NULL */
    bool profile, json;        /* --profile, and as JSON */
    const char *record, *compare; /* files, or NULL */
    bool eval;                 /* only evaluates */
    bool quantized;            /* with `eval`: also with weights as codes */
    bool data_synthetic;       /* --data=synthetic */
    bool data_changed; /* with `resume`: continue although the data differs from the checkpoint's */
    DtRedirect redirects[16];
    uint32_t n_redirects;
    int64_t restarts;
    int64_t elastic; /* > 0: go on without ranks that are lost, with at least so many */
    int64_t nodes, node;  /* number of machines, 0: one; number of this machine */
    int64_t spares;       /* how many of the machines wait until another is lost */
    const char *meet;     /* "host:port" where they meet */
    const char *launch;   /* which launcher's variables count (launch.h); NULL: any one's */
    const char *hosts;    /* file of hosts on which agents start, or NULL (remote.h) */
    const char *shell;    /* the command that runs a text on a host; NULL: ssh */
    bool leash;           /* a program elsewhere has started this one, and holds its input */
    bool dry_run;         /* only say what would be done */
    bool launched;        /* a launcher has started this process */
    char data[48];        /* with several nodes: bytes and digest of all files of data, which nodes
                           * compare; "": the run reads none */
    int64_t max_ranks;    /* a plan with more ranks is not started; 0: the default limit */
    int64_t check_replicas; /* compare copies of parameters every so many steps; 0: at saves only */
    bool unproved;        /* starts a plan that was not proved (dtrun.c) */
    double timeout;       /* seconds without progress of a rank that end the run; 0: no limit */
    const char *generate; /* prompt, or NULL */
    const char *reference; /* file of tokens and logits to compare with, or NULL */
    const char *predict[16], *out[16]; /* [INPUT=]FILE, [NUMBER=]FILE */
    uint32_t n_predict, n_out;
    const char *prompts; /* file of prompts, or NULL */
    const char *stop[DT_MOST_STOPS];
    uint32_t n_stop;
    bool ignore_end; /* end tokens end no text */
    bool raw; /* prompts are no turns of a conversation */
    DtSampling sampling; /* of --generate and --prompts */
    DtGemmKind gemm;
    DtAttention attention; /* options of device "cuda" */
    DtEpilogueWish epilogues;
    bool rebuild;         /* compile kernels from the plan's C text */
    bool quiet;
    const char *trial;    /* file of a trial (plan/trial.h), or NULL */
    const char *settings[16]; /* --set block.key=value */
    uint32_t n_settings;
} DtRunOptions;

/* Whether the run has results of the model instead of training. */
static inline bool dt_run_predicts(const DtRunOptions *options)
{
    return options->generate != NULL || options->prompts != NULL || options->reference != NULL ||
           options->n_predict > 0;
}

/* Whether the run reads weights as codes, if the plan has codes. */
static inline bool dt_run_reads_codes(const DtRunOptions *options)
{
    return dt_run_predicts(options) || options->quantized;
}

#endif
