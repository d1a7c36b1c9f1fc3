/* SPDX-License-Identifier: Apache-2.0 */
/* How `auto` chooses a layout of a program on a cluster.
 *
 * Four steps. From the program it finds what can be laid out: which axis counts samples, which
 * axes of parameters and which positions can be split, which loops a pipeline can cut (space.c).
 * Layouts whose ranks compute the same form a *class*. For each class the program is compiled
 * for the ranks of one replica, without a pipeline, and the time and memory of its parts are
 * read off the plan: the *card* of the class (the host does that). Every layout of the class is
 * then priced from the card by closed forms: time, memory, and a lower bound for all schedules
 * (estimate.c). The best few are compiled and simulated like any program, and the fastest of
 * those that fit is chosen (search.c).
 *
 * So the closed forms only order the candidates. The numbers printed for the winner were
 * simulated from its own plan. */
#ifndef DT_SEARCH_SEARCH_H
#define DT_SEARCH_SEARCH_H

#include "base/text.h"
#include "cost/cost.h"
#include "ir/config.h"

/* What the ranks along a mesh axis split, from the slowest link to the fastest. */
typedef enum DtRole {
    DT_ROLE_PIPE,    /* stages of a pipeline */
    DT_ROLE_DATA,    /* samples */
    DT_ROLE_CONTEXT, /* positions */
    DT_ROLE_EXPERT,  /* experts, and samples in layers without experts */
    DT_ROLE_TENSOR,  /* axes of parameters, and positions in layers without any */
    DT_ROLES
} DtRole;

/* ---- what there is to choose (space.c) ---- */

enum { DT_SPACE_AXES = 24, DT_SPACE_LOOPS = 8, DT_SPACE_REMATS = 12, DT_SPACE_SHARDS = 64 };

typedef struct DtSpaceAxis { const char *name; int64_t extent; } DtSpaceAxis;
typedef struct DtSpaceLoop {
    const char *path;      /* labels, as in a `pipeline` line */
    int64_t count;
    double carried;        /* bytes of all samples that one iteration hands to the next */
} DtSpaceLoop;

typedef struct DtSpaceShard { const char *axis; DtRole role; } DtSpaceShard;

/* again: the fraction of forward products that is recomputed, among those in named calls. */
/* lines "": none */
typedef struct DtSpaceRemat { const char *lines; double recomputed; } DtSpaceRemat;

typedef struct DtSpace {
    const char *name, *cluster;              /* of the parallel block */
    int64_t devices, node;                   /* devices of the cluster; of one of its nodes */
    DtSpaceAxis samples;
    /* axes of positions, which layers keep */
    DtSpaceAxis positions[DT_SPACE_LOOPS]; uint32_t n_positions;
    /* axes along which functions stream, in any order */
    DtSpaceAxis keys[DT_SPACE_LOOPS]; uint32_t n_keys;
    DtSpaceAxis split[DT_SPACE_AXES]; uint32_t n_split; /* axes of parameters */
    DtSpaceAxis experts;                     /* name NULL: the program has no experts */
    DtSpaceLoop loops[DT_SPACE_LOOPS]; uint32_t n_loops;
    DtSpaceRemat remats[DT_SPACE_REMATS]; uint32_t n_remats; /* from no recomputation to all */
    double parameters;                       /* elements */
    /* bytes per element, with its gradient and the optimizer's state, as `train` says */
    double parameter_bytes;
    /* usable bytes of a device, the largest if there are several kinds; 0: no limit is known */
    double memory;
    bool wants_memory;                       /* the goal is the least memory, not the least time */
    const char *mesh[DT_ROLES];              /* names of mesh axes */
    /* Lines that the block has already. They are kept, and not chosen. */
    /* its `shard` and `remat` lines, each with a newline; "": none */
    const char *kept;
    const char *pipeline_line, *zero_line;   /* NULL: the block has no such line */
    const DtPipeline *pipeline;
    bool has_mesh, has_remat;
    bool in_mesh[DT_ROLES];
    int64_t size[DT_ROLES];                  /* if has_mesh */
    /* what lines for all places split over which role */
    DtSpaceShard shards[DT_SPACE_SHARDS]; uint32_t n_shards;
    int64_t micro;                           /* 0: the block has no `micro` line */
    int zero;                                /* its level, if there is a zero_line */
    bool waits;                              /* zero_line does not prefetch */
    bool has_state, has_axes;                /* the optimizer has state; a parameter is no scalar */
    bool prefetches;                         /* a loop can prefetch parameters */
} DtSpace;

/* False after a diagnostic: the block asks for something that the search cannot do. text_of: the
 * source text of a span of the block, for lines that it has already. */
typedef const char *DtSpaceSource(void *context, DtSpan span);
bool dt_space_find(DtArena *arena, DtDiags *diags, const DtProgram *program, DtSpaceSource *text_of,
                   void *context, DtSpace *ret_space);

/* ---- layouts (layout.c) ---- */

typedef enum DtSearchSchedule {
    DT_SEARCH_1F1B,
    DT_SEARCH_INTERLEAVED,
    DT_SEARCH_ZB_H1,
    DT_SEARCH_ZB_V,
    DT_SEARCH_OTHER, /* a line of the block names the schedule */
    DT_SEARCH_SCHEDULES
} DtSearchSchedule;

typedef struct DtLayout {
    int64_t size[DT_ROLES];
    int64_t micro;             /* micro-batches */
    int64_t chunks;
    DtSearchSchedule schedule; /* if size[PIPE] > 1 */
    int zero;                  /* 0: no `zero` line */
    uint32_t remat;            /* number in DtSpace.remats */
} DtLayout;

/* Samples of a micro-batch on a rank. */
int64_t dt_layout_local(const DtSpace *space, const DtLayout *layout);
/* The number of ranks over which `zero` splits. */
int64_t dt_layout_replicas(const DtLayout *layout);
/* The block's text, `parallel NAME on CLUSTER { ... }`. */
void dt_layout_print(const DtSpace *space, const DtLayout *layout, DtText *ret_text);
/* The same on one line: "pipe 4, data 2, tensor 8, 32 micro-batches, 1f1b, zero 1". */
const char *dt_layout_say(DtArena *arena, const DtSpace *space, const DtLayout *layout);

/* The complexity of a layout: mesh axes, a pipeline, levels of zero, recomputation. Fewer parts
 * are simpler. */
int dt_layout_parts(const DtLayout *layout);

bool dt_layout_same(const DtLayout *a, const DtLayout *b);
/* Whether two layouts share a card: their ranks do the same work in a replica. */
bool dt_layout_same_class(const DtSpace *space, const DtLayout *a, const DtLayout *b);
/* The layout of the class that is compiled for its card: no pipeline, no `zero`, and either one
 * replica that goes through all samples in micro-batches (alone), or as many replicas and
 * micro-batches as the layout has. */
DtLayout dt_layout_of_class(const DtSpace *space, const DtLayout *layout, bool alone);

enum { DT_LAYOUTS_MOST = 1 << 20 };
typedef DT_VEC(DtLayout) DtLayouts;
/* All layouts of a space, those of one class adjacent; the first DT_LAYOUTS_MOST if there are
 * more. */
void dt_layout_list(DtArena *arena, const DtSpace *space, DtLayouts *ret_layouts);

/* ---- cards ---- */

/* Seconds of a part of the program for one micro-batch on one rank. */
typedef struct DtCardTime {
    double forward, backward; /* including waits for communication */
    double weights;           /* the part of `backward` that only weight gradients need */
    /* products, attention and most kernels of both directions: a lower bound for every schedule */
    double work;
    /* with nodes of several kinds: by kind, the factor by which it is slower than on the first
     * kind */
    double slower[DT_COST_NODE_KINDS];
} DtCardTime;

typedef struct DtCard {
    DtCardTime loops[DT_SPACE_LOOPS]; /* of one iteration */
    /* front: before the first loop; back: after the last loop and between loops */
    DtCardTime front, back;
    /* once: per step, however many micro-batches; update: of the optimizer. Both on the slowest
     * nodes */
    double once, update;
    /* with nodes of several kinds: by kind, the smallest factor of any part's work compared with
     * the first kind */
    double least[DT_COST_NODE_KINDS];
    /* bytes on a rank; state[]: parameters, gradients, optimizer */
    double saved[DT_SPACE_LOOPS];     /* saved by an iteration for its backward pass */
    /* the same for the part after all loops; counted among temporaries */
    double saved_back;
    /* kept for weight gradients if these are delayed */
    double delayed[DT_SPACE_LOOPS], delayed_front, delayed_back;
    double state[DT_SPACE_LOOPS][3];  /* of an iteration */
    double rest[3];                   /* outside of loops */
    /* the part of `rest` that is read both before the first loop and after it */
    double tied[3];
    /* the part of both that is split over ranks of experts already */
    double experts[DT_SPACE_LOOPS][3], rest_experts[3];
    double temporaries;               /* activations that are not saved */
    /* everything else: inputs, workspace, the device's own memory */
    double beside;
    /* the part of `beside` for the communicator of one group of ranks */
    double communicator;
    /* loops were told apart; otherwise everything is in `back`, and a pipeline cannot cut */
    bool has_parts;
} DtCard;

/* ---- closed forms (estimate.c) ---- */

typedef struct DtEstimate {
    double seconds; /* of a step */
    double bound;   /* no plan of this layout is faster, if card and simulation agree */
    /* memory of the rank that needs most; on a device smaller than the largest, scaled up by the
     * ratio of their memory */
    double bytes;
} DtEstimate;

DtEstimate dt_estimate(const DtSpace *space, const DtCostModel *model, const DtLayout *layout,
                       const DtCard *card);
/* The bound alone, at a hundredth of the work. */
double dt_estimate_bound(const DtSpace *space, const DtCostModel *model, const DtLayout *layout,
                         const DtCard *card);

/* How many micro-batches are in flight at once in a chunk of a stage of interleaved_1f1b
 * (passes/pipeline/schedule.c); all of them if there are no more than stages. Exact if the
 * number of stages divides them. */
int64_t dt_estimate_in_flight(const DtLayout *layout, int64_t stage, int64_t chunk);

/* ---- the search (search.c) ---- */

enum { DT_SEARCH_SPENT = 16 };
#define DT_SEARCH_ALIKE 1.005 /* step times this near cannot be told apart: the simplest layout
                               * wins */

/* A layout that was compiled and simulated. */
typedef struct DtTrial {
    DtLayout layout;
    DtEstimate estimate;
    /* seconds as simulated, bytes as laid out; seconds 0: there is no such plan */
    double seconds, low, high, bytes;
    /* what the seconds are spent on, the mean over stages, in the categories of the host */
    double spent[DT_SEARCH_SPENT];
    /* bytes by which the worst rank exceeds its device's memory */
    double larger;
    /* NULL, or why the layout is rejected: it does not compile, or does not fit */
    const char *why;
} DtTrial;

/* The compiler behind the search. Both functions return NULL, or why there is no such plan. */
typedef struct DtSearchHost {
    void *context;
    const char *(*card)(void *context, const DtLayout *layout, DtCard *ret_card);
    const char *(*simulate)(void *context, const DtLayout *layout, DtTrial *ret_trial);
} DtSearchHost;

typedef struct DtSearch {
    DtTrial best;             /* seconds 0: no layout fits */
    DT_VEC(DtTrial) trials;   /* in order of estimated cost, whether they fit or not */
    /* number of layouts; of compilations for cards; of layouts that fit by their estimates */
    uint32_t n_layouts, n_cards, n_fit;
    /* least bound of the layouts that may fit and were not simulated; INFINITY: none are left;
     * 0: for some nothing is known */
    double bound;
    DtEstimate smallest; DtLayout smallest_layout; /* the layout with the least memory */
    /* the faster layout that needs least additional memory; seconds 0: none */
    DtEstimate larger; DtLayout larger_layout;
    /* why the first missing card could not be made; NULL: all were made */
    const char *why;
} DtSearch;

/* By how much another layout may be faster at most, as a fraction of the winner's time: 1 -
 * bound / seconds, at least 0. */
double dt_search_gap(const DtSearch *search);

void dt_search_run(DtArena *arena, const DtSpace *space, const DtCostModel *model,
                   const DtSearchHost *host, DtSearch *ret_search);

/* Rejects the best layout after all, since it has no plan; why: for the user. The next best of
 * the simulated ones takes its place, if there is one. */
void dt_search_refuse(const DtSpace *space, DtSearch *search, const char *why);

#endif
