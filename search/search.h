/* SPDX-License-Identifier: Apache-2.0 */
/* What `auto` chooses: a layout of a program on a cluster.
 *
 * Four steps. What can be laid out is found from the program: which axis counts samples, which axes of parameters can
 * be split, which positions, which loops a pipeline can cut (space.c). For each *class* of layouts that rank by rank
 * compute the same, the program is compiled for the ranks that share a replica, without a pipeline, and what its parts
 * take is read off the plan: its *card* (the host's work). Every layout of the class is then priced from the card by
 * closed forms: time, memory, and a bound that no schedule goes below (estimate.c). The best few are compiled and
 * simulated as any program, and the fastest of those that fit is taken (search.c).
 *
 * So the forms only order the candidates. What is printed of the winner was simulated from its own plan. */
#ifndef DT_SEARCH_SEARCH_H
#define DT_SEARCH_SEARCH_H

#include "base/text.h"
#include "cost/cost.h"
#include "ir/config.h"

/* What the ranks along a mesh axis share, from the slowest link to the fastest. */
typedef enum DtRole {
    DT_ROLE_PIPE,    /* stages of a pipeline */
    DT_ROLE_DATA,    /* samples */
    DT_ROLE_CONTEXT, /* positions */
    DT_ROLE_EXPERT,  /* experts, and samples wherever there are none */
    DT_ROLE_TENSOR,  /* axes of parameters, and positions wherever there are none */
    DT_ROLES
} DtRole;

/* ---- what there is to choose (space.c) ---- */

enum { DT_SPACE_AXES = 24, DT_SPACE_LOOPS = 8, DT_SPACE_REMATS = 12, DT_SPACE_SHARDS = 64 };

typedef struct DtSpaceAxis { const char *name; int64_t extent; } DtSpaceAxis;
typedef struct DtSpaceLoop {
    const char *path;      /* labels, as a pipeline line names it */
    int64_t count;
    double carried;        /* bytes of all samples that go from one iteration to the next */
} DtSpaceLoop;

typedef struct DtSpaceShard { const char *axis; DtRole role; } DtSpaceShard;

/* again: share of the products of forward passes that is computed again, of those that calls with names do. */
typedef struct DtSpaceRemat { const char *lines; double again; } DtSpaceRemat; /* lines "": none */

typedef struct DtSpace {
    const char *name, *cluster;              /* of the block */
    int64_t devices, node;                   /* of the cluster; of one of its nodes */
    DtSpaceAxis samples;
    DtSpaceAxis positions[DT_SPACE_LOOPS]; uint32_t n_positions; /* axes that layers keep */
    DtSpaceAxis keys[DT_SPACE_LOOPS]; uint32_t n_keys; /* axes that functions stream over, in any order */
    DtSpaceAxis split[DT_SPACE_AXES]; uint32_t n_split; /* axes of parameters */
    DtSpaceAxis experts;                     /* name NULL: there are none */
    DtSpaceLoop loops[DT_SPACE_LOOPS]; uint32_t n_loops;
    DtSpaceRemat remats[DT_SPACE_REMATS]; uint32_t n_remats; /* from none to all */
    double parameters;                       /* elements */
    double parameter_bytes;                  /* of each, with its gradient and the optimizer's part, as `train` says */
    double memory;                           /* bytes of a device, of several kinds the largest, that may be used; 0: no
                                              * limit is known */
    bool wants_memory;                       /* the fewest bytes are best, not the least time */
    const char *mesh[DT_ROLES];              /* names of mesh axes */
    /* What the block says already. A kept line is not chosen. */
    const char *kept;                        /* its `shard` and `remat` lines, each with its end; "": none */
    const char *pipeline_line, *zero_line;   /* NULL: there is none */
    const DtPipeline *pipeline;
    bool has_mesh, has_remat;
    bool in_mesh[DT_ROLES];
    int64_t size[DT_ROLES];                  /* if has_mesh */
    DtSpaceShard shards[DT_SPACE_SHARDS]; uint32_t n_shards; /* what lines for all places split over what */
    int64_t micro;                           /* 0: there is no such line */
    int zero;                                /* level, if there is zero_line */
    bool waits;                              /* zero_line gathers nothing ahead */
} DtSpace;

/* False after a diagnostic: the block asks for something that the search cannot give. text_of: the source of a span of
 * the block, for lines that it says already. */
typedef const char *DtSpaceSource(void *context, DtSpan span);
bool dt_space_find(DtArena *arena, DtDiags *diags, const DtProgram *program, DtSpaceSource *text_of, void *context,
                   DtSpace *ret_space);

/* ---- layouts (layout.c) ---- */

typedef enum DtSearchSchedule {
    DT_SEARCH_1F1B,
    DT_SEARCH_INTERLEAVED,
    DT_SEARCH_ZB_H1,
    DT_SEARCH_ZB_V,
    DT_SEARCH_OTHER, /* a line of the block names it */
    DT_SEARCH_SCHEDULES
} DtSearchSchedule;

typedef struct DtLayout {
    int64_t size[DT_ROLES];
    int64_t micro;             /* micro-batches */
    int64_t chunks;
    DtSearchSchedule schedule; /* if size[PIPE] > 1 */
    int zero;                  /* 0: there is no such line */
    uint32_t remat;            /* in DtSpace.remats */
} DtLayout;

/* Samples of a micro-batch on a rank. */
int64_t dt_layout_local(const DtSpace *space, const DtLayout *layout);
/* Ranks over which `zero` splits. */
int64_t dt_layout_replicas(const DtLayout *layout);
/* The block's text, `parallel NAME on CLUSTER { ... }`. */
void dt_layout_print(const DtSpace *space, const DtLayout *layout, DtText *ret_text);
/* The same in one line: "pipe 4, data 2, tensor 8, 32 micro-batches, 1f1b, zero 1". */
const char *dt_layout_say(DtArena *arena, const DtSpace *space, const DtLayout *layout);

/* How much there is to it: mesh axes, a pipeline, levels of zero, what is computed again. Of fewer parts: simpler. */
int dt_layout_parts(const DtLayout *layout);

bool dt_layout_same(const DtLayout *a, const DtLayout *b);
/* Whether two layouts have one card: the same work on each rank of a replica. */
bool dt_layout_same_class(const DtSpace *space, const DtLayout *a, const DtLayout *b);
/* The member of the class that is compiled for its card: no pipeline, nothing split by `zero`, and one replica that
 * goes through all samples in micro-batches (alone), or as many replicas and micro-batches as the layout has. */
DtLayout dt_layout_of_class(const DtSpace *space, const DtLayout *layout, bool alone);

enum { DT_LAYOUTS_MOST = 1 << 20 };
typedef DT_VEC(DtLayout) DtLayouts;
/* All of a space, those of one class one behind the other; of more than DT_LAYOUTS_MOST the first. */
void dt_layout_list(DtArena *arena, const DtSpace *space, DtLayouts *ret_layouts);

/* ---- cards ---- */

/* Time of a part of the program for one micro-batch on one rank, in seconds. */
typedef struct DtCardTime {
    double forward, backward; /* with what the rank waits for */
    double weights;           /* of backward, what only the weights' gradients need */
    double work;              /* products, attention and most kernels of both: no schedule does without them */
    double slower[DT_COST_NODE_KINDS]; /* if nodes are of several kinds: what it takes on each, to these times, which
                                        * are those of the first */
} DtCardTime;

typedef struct DtCard {
    DtCardTime loops[DT_SPACE_LOOPS]; /* of an iteration */
    DtCardTime front, back;           /* in front of the first loop, behind the last one and between them */
    double once, update;              /* of a step, however many micro-batches; of the optimizer; on the slowest
                                       * nodes */
    double least[DT_COST_NODE_KINDS]; /* if nodes are of several kinds: no part's work takes less of what it does on the
                                       * first */
    /* bytes on a rank; state[]: parameters, gradients, optimizer */
    double saved[DT_SPACE_LOOPS];     /* that an iteration keeps for its backward pass */
    double saved_back;                /* the same of what is behind all loops; part of temporaries */
    double late[DT_SPACE_LOOPS], late_front, late_back; /* that gradients of weights need, if these are put off */
    double state[DT_SPACE_LOOPS][3];  /* of an iteration */
    double rest[3];                   /* of what is in no loop */
    double tied[3];                   /* of rest, what is read both in front of the first loop and behind it */
    double experts[DT_SPACE_LOOPS][3], rest_experts[3]; /* of both, what ranks of experts split already */
    double temporaries;               /* activations beside those that are saved */
    double beside;                    /* all else: inputs, workspace, what the device takes */
    double communicator;              /* of that, for a group of ranks */
    bool has_parts;                   /* loops can be told apart; else all is in back, and nothing can be cut */
} DtCard;

/* ---- closed forms (estimate.c) ---- */

typedef struct DtEstimate {
    double seconds; /* of a step */
    double bound;   /* that no plan of this layout goes below, if card and simulation agree */
    double bytes;   /* of the rank with most; on a smaller device than the largest as much of that as of its own */
} DtEstimate;

DtEstimate dt_estimate(const DtSpace *space, const DtCostModel *model, const DtLayout *layout, const DtCard *card);
/* The bound alone, which is a hundredth of the work. */
double dt_estimate_bound(const DtSpace *space, const DtCostModel *model, const DtLayout *layout, const DtCard *card);

/* Micro-batches that are in flight at a time in a chunk of a stage of interleaved_1f1b (passes/pipeline/schedule.c);
 * all of them if they are not more than the stages. Exact if these divide them. */
int64_t dt_estimate_in_flight(const DtLayout *layout, int64_t stage, int64_t chunk);

/* ---- the search (search.c) ---- */

enum { DT_SEARCH_SPENT = 16 };
#define DT_SEARCH_ALIKE 1.005 /* step times this near cannot be told apart: the simplest layout wins */

/* A layout that was to be compiled as it is. */
typedef struct DtTrial {
    DtLayout layout;
    DtEstimate estimate;
    double seconds, low, high, bytes; /* as simulated, as laid out; seconds 0: there is no such plan */
    double spent[DT_SEARCH_SPENT];    /* of seconds, the mean over stages: by what they go to, as the host counts */
    double larger;                    /* so much more memory than that rank's device has the largest */
    const char *why;                  /* NULL, or why it will not do: it does not compile, does not fit */
} DtTrial;

/* What compiles. Both return NULL, or why there is no such plan. */
typedef struct DtSearchHost {
    void *context;
    const char *(*card)(void *context, const DtLayout *layout, DtCard *ret_card);
    const char *(*simulate)(void *context, const DtLayout *layout, DtTrial *ret_trial);
} DtSearchHost;

typedef struct DtSearch {
    DtTrial best;             /* seconds 0: none fits */
    DT_VEC(DtTrial) trials;   /* in the order of their cost, whether they fit or not */
    uint32_t n_layouts, n_cards, n_fit; /* that there are; compilations for cards; that may fit as estimated */
    double bound;             /* least bound of those that may fit and were not simulated; INFINITY: there are none; 0:
                               * of some nothing is known */
    DtEstimate smallest; DtLayout smallest_layout; /* with least memory */
    DtEstimate larger; DtLayout larger_layout; /* that would be faster and needs least memory more; seconds 0: none */
    const char *why;          /* of the first card that there is none of; NULL: there were all */
} DtSearch;

/* Of the winner's time, what another layout may be faster by at most: 1 - bound / seconds, at least 0. */
double dt_search_gap(const DtSearch *search);

void dt_search_run(DtArena *arena, const DtSpace *space, const DtCostModel *model, const DtSearchHost *host,
                   DtSearch *ret_search);

/* The best one has no plan after all; why: for people. The next of those that were simulated is best then, if there is
 * one. */
void dt_search_refuse(const DtSpace *space, DtSearch *search, const char *why);

#endif
