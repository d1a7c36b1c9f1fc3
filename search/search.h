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

/* What the ranks along a mesh axis split, in order from the axis with the slowest links to that
 * with the fastest. */
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
    const char *path;      /* labels of the loops, as in a `pipeline` line */
    int64_t count;
    double carried;        /* bytes that one iteration passes to the next, of all samples */
} DtSpaceLoop;

typedef struct DtSpaceShard { const char *axis; DtRole role; } DtSpaceShard;

/* again: the fraction of the forward products that is recomputed, of those in calls with a name. */
/* lines "": nothing is recomputed */
typedef struct DtSpaceRemat { const char *lines; double recomputed; } DtSpaceRemat;

typedef struct DtSpace {
    const char *name, *cluster;              /* parallel block's name and that of its cluster */
    int64_t devices, node;                   /* number of devices of the cluster; of one of its
                                              * nodes */
    DtSpaceAxis samples;
    /* axes of positions that layers keep */
    DtSpaceAxis positions[DT_SPACE_LOOPS]; uint32_t n_positions;
    /* axes along which functions stream, in any order */
    DtSpaceAxis keys[DT_SPACE_LOOPS]; uint32_t n_keys;
    DtSpaceAxis split[DT_SPACE_AXES]; uint32_t n_split; /* axes of parameters */
    DtSpaceAxis experts;                     /* name NULL: the program has no experts */
    DtSpaceLoop loops[DT_SPACE_LOOPS]; uint32_t n_loops;
    /* choices of recomputation, from nothing to everything */
    DtSpaceRemat remats[DT_SPACE_REMATS]; uint32_t n_remats;
    double parameters;                       /* elements of all parameters */
    /* bytes per element of a parameter, with its gradient and the optimizer's state, according to
     * `train` */
    double parameter_bytes;
    /* usable bytes of a device, the largest if there are several kinds; 0: no limit is known */
    double memory;
    bool wants_memory;                       /* minimises memory, not time */
    const char *mesh[DT_ROLES];              /* names of mesh axes */
    /* What the block already fixes by its own lines. The search keeps these. */
    /* its `shard` and `remat` lines, each with a newline; "": none */
    const char *kept;
    const char *pipeline_line, *zero_line;   /* NULL: the block has no such line */
    const DtPipeline *pipeline;
    bool has_mesh, has_remat;
    bool in_mesh[DT_ROLES];
    int64_t size[DT_ROLES];                  /* valid if has_mesh */
    /* what the block's lines for all places split over which role */
    DtSpaceShard shards[DT_SPACE_SHARDS]; uint32_t n_shards;
    int64_t micro;                           /* micro-batches; 0: the block has no `micro` line */
    int zero;                                /* the level of its `zero` line, if it has one */
    bool waits;                              /* the zero line says that nothing is prefetched */
    bool has_state, has_axes;                /* whether the optimizer has state; whether a parameter
                                              * is no scalar */
    bool prefetches;                         /* whether some loop can prefetch parameters */
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
    DT_SEARCH_OTHER, /* another schedule, which a line of the block names */
    DT_SEARCH_SCHEDULES
} DtSearchSchedule;

typedef struct DtLayout {
    int64_t size[DT_ROLES];
    int64_t micro;             /* micro-batches */
    int64_t chunks;
    DtSearchSchedule schedule; /* valid if size[PIPE] > 1 */
    int zero;                  /* 0: no `zero` line */
    uint32_t remat;            /* number in DtSpace.remats */
} DtLayout;

/* The number of samples of a micro-batch on a rank. */
int64_t dt_layout_local(const DtSpace *space, const DtLayout *layout);
/* The number of ranks over which `zero` splits state. */
int64_t dt_layout_replicas(const DtLayout *layout);
/* Prints the layout as a block of the language, `parallel NAME on CLUSTER { ... }`. */
void dt_layout_print(const DtSpace *space, const DtLayout *layout, DtText *ret_text);
/* Describes the layout on one line: "pipe 4, data 2, tensor 8, 32 micro-batches, 1f1b, zero 1". */
const char *dt_layout_say(DtArena *arena, const DtSpace *space, const DtLayout *layout);

/* How complex a layout is: it counts mesh axes, a pipeline, levels of zero, recomputation. Of two
 * equally fast layouts the less complex is chosen. */
int dt_layout_parts(const DtLayout *layout);

bool dt_layout_same(const DtLayout *a, const DtLayout *b);
/* Whether two layouts are of one class, so that they can use the same card (measured times): within
 * a replica their ranks do the same work. */
bool dt_layout_same_class(const DtSpace *space, const DtLayout *a, const DtLayout *b);
/* The layout of the class that is compiled for its card: no pipeline, no `zero`, and either one
 * replica that goes through all samples in micro-batches (alone), or as many replicas and
 * micro-batches as the layout has. */
DtLayout dt_layout_of_class(const DtSpace *space, const DtLayout *layout, bool alone);

enum { DT_LAYOUTS_MOST = 1 << 20 };
typedef DT_VEC(DtLayout) DtLayouts;
/* Lists all layouts of a space, those of one class adjacent to each other; only the first
 * DT_LAYOUTS_MOST if there are more. */
void dt_layout_list(DtArena *arena, const DtSpace *space, DtLayouts *ret_layouts);

/* ---- cards ---- */

/* Seconds that one rank takes for a part of the program, for one micro-batch. */
typedef struct DtCardTime {
    double forward, backward; /* including waits for communication */
    double weights;           /* the part of `backward` that only weight gradients need */
    /* products, attention and most kernels of both directions; no schedule takes less time */
    double work;
    /* if nodes are of several kinds: by kind, the factor by which it is slower than the first
     * kind */
    double slower[DT_COST_NODE_KINDS];
} DtCardTime;

typedef struct DtCard {
    DtCardTime loops[DT_SPACE_LOOPS]; /* times of one iteration */
    /* front: before the first loop; back: after the last loop and between loops */
    DtCardTime front, back;
    /* once: once per step, whatever the number of micro-batches; update: the optimizer. Both on the
     * slowest nodes */
    double once, update;
    /* with nodes of several kinds: by kind, the smallest factor of any part's work compared with
     * the first kind */
    double least[DT_COST_NODE_KINDS];
    /* bytes on a rank; state[]: parameters, gradients, optimizer */
    double saved[DT_SPACE_LOOPS];     /* bytes that an iteration saves for its backward pass */
    /* the same for the part after all loops; it is also counted among the temporaries */
    double saved_back;
    /* bytes kept for gradients of weights, if these are computed later */
    double delayed[DT_SPACE_LOOPS], delayed_front, delayed_back;
    double state[DT_SPACE_LOOPS][3];  /* gradients of one iteration */
    double rest[3];                   /* gradients outside of loops */
    /* the part of `rest` that is read both before the first loop and after it */
    double tied[3];
    /* the part of both that is already split over ranks of experts */
    double experts[DT_SPACE_LOOPS][3], rest_experts[3];
    double temporaries;               /* activations of a micro-batch that are not saved */
    double updating;                  /* temporaries of the update of all parameters */
    /* everything else: inputs, workspace, the device's own memory */
    double beside;
    /* the part of `beside` for the communicator of one group of ranks */
    double communicator;
    /* whether the loops could be told apart; otherwise everything is in `back`, and a pipeline
     * cannot be cut */
    bool has_parts;
} DtCard;

/* ---- closed forms (estimate.c) ---- */

typedef struct DtEstimate {
    double seconds; /* seconds of a step */
    double bound;   /* a lower bound of the step time for all plans of this layout, if card and
                     * simulation agree */
    /* memory of the rank that needs most; on a device smaller than the largest, scaled up by the
     * ratio of their memory */
    double bytes;
} DtEstimate;

DtEstimate dt_estimate(const DtSpace *space, const DtCostModel *model, const DtLayout *layout,
                       const DtCard *card);
/* Returns the lower bound of the step time (DtEstimate.bound) alone, which takes a hundredth of the
 * time of an estimate. */
double dt_estimate_bound(const DtSpace *space, const DtCostModel *model, const DtLayout *layout,
                         const DtCard *card);

/* How many micro-batches a chunk of a stage has in flight at once with interleaved_1f1b
 * (passes/pipeline/schedule.c); all of them if there are no more micro-batches than stages. The
 * number is exact if the micro-batches are a multiple of the stages. */
int64_t dt_estimate_in_flight(const DtLayout *layout, int64_t stage, int64_t chunk);

/* ---- the search (search.c) ---- */

enum { DT_SEARCH_SPENT = 16 };
#define DT_SEARCH_ALIKE 1.005 /* step times that differ by less than this cannot be told apart: of
                               * such layouts the simplest is chosen */

/* A layout that was compiled and simulated. */
typedef struct DtTrial {
    DtLayout layout;
    DtEstimate estimate;
    /* seconds from the simulation, bytes from the memory plan; seconds 0: the layout has no plan */
    double seconds, low, high, bytes;
    /* what the seconds are spent on, averaged over stages, in the host's categories */
    double spent[DT_SEARCH_SPENT];
    /* bytes by which the worst rank exceeds its device's memory */
    double larger;
    /* NULL, or why the layout is rejected: it does not compile, or does not fit */
    const char *why;
} DtTrial;

/* What the search needs from the compiler. Both functions return NULL, or the reason why there is
 * no such plan. */
typedef struct DtSearchHost {
    void *context;
    const char *(*card)(void *context, const DtLayout *layout, DtCard *ret_card);
    const char *(*simulate)(void *context, const DtLayout *layout, DtTrial *ret_trial);
} DtSearchHost;

typedef struct DtSearch {
    DtTrial best;             /* seconds 0: no layout fits */
    DT_VEC(DtTrial) trials;   /* the compiled layouts by simulated cost, also those that
                               * do not fit; those without a plan last */
    /* number of layouts; of compilations for cards; of layouts that fit by their estimates */
    uint32_t n_layouts, n_cards, n_fit;
    /* the smallest bound of all layouts that may fit and were not simulated; INFINITY: there is
     * none; 0: for some, nothing is known */
    double bound;
    DtEstimate smallest; DtLayout smallest_layout; /* the layout with the least memory */
    /* the fastest layout among those that need the least additional memory; seconds 0: there is
     * none */
    DtEstimate larger; DtLayout larger_layout;
    /* why the first missing card could not be made; NULL: all were made */
    const char *why;
} DtSearch;

/* By how much another layout may be faster at most, as a fraction of the winner's time: 1 -
 * bound / seconds, at least 0. */
double dt_search_gap(const DtSearch *search);

void dt_search_run(DtArena *arena, const DtSpace *space, const DtCostModel *model,
                   const DtSearchHost *host, DtSearch *ret_search);

/* Rejects the winner, which turned out to have no plan; why: the reason for the user. The next best
 * of the simulated layouts becomes the winner, if there is one. */
void dt_search_refuse(const DtSpace *space, DtSearch *search, const char *why);

#endif
