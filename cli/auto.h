/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a layout. It compiles candidates with dtc's own passes (auto_compile.c). */
#ifndef DT_CLI_AUTO_H
#define DT_CLI_AUTO_H

#include "cli/cli.h"
#include "plan/plan.h"
#include "search/search.h"

typedef struct DtAutoCard {
    DtLayout of;  /* a class, as dt_layout_of_class gives it */
    DtCard card;
    const char *why; /* the plan, or NULL; and the reason why there is none */
} DtAutoCard;

/* A simulated plan of a layout for all devices, kept since it may win. */
typedef struct DtAutoKept {
    DtLayout of;
    double seconds;
    uint8_t *bytes;
    size_t len;
} DtAutoKept;

typedef struct DtAuto {
    DtCli *cli;      /* with a target */
    DtArena *arena;
    const char *path;
    DtSpace space;
    DtCostModel model;
    DT_VEC(DtAutoCard) cards; /* shared by searches for different numbers of devices */
    DT_VEC(DtAutoKept) kept;
} DtAuto;

/* Begins the search for a program whose chosen parallel block says `auto`. False after a
 * diagnostic. */
bool dt_auto_begin(DtCli *cli, const DtProgram *program, const char *path, DtAuto *ret_auto);

/* The functions of DtSearchHost; context: the DtAuto. */
const char *dt_auto_card(void *context, const DtLayout *layout, DtCard *ret_card);
const char *dt_auto_simulate(void *context, const DtLayout *layout, DtTrial *ret_trial);

/* Seconds of a step of the layout if links inside nodes, or links between nodes, were twice as
 * fast; 0: there are no such links, or no plan. */
void dt_auto_links(DtAuto *a, const DtLayout *layout, double *ret_inside, double *ret_between);

/* The layout that `auto` would choose for the program's cluster if the block were empty. False: the
 * search is not possible. */
typedef struct DtAutoWould {
    const char *line; /* the block, NULL: nothing fits */
    double seconds;   /* of a step */
    /* bytes of parameters, gradients and optimizer state over all ranks, each counted once */
    double state;
    int64_t devices, least; /* devices of the cluster; fewest devices that hold the state */
} DtAutoWould;
bool dt_auto_would(DtCli *cli, const DtProgram *program, const char *path, DtAutoWould *ret_would);

/* The fewest devices that hold parameters, gradients and optimizer state, each once. */
int64_t dt_auto_least(const DtAuto *a);

/* auto_say.c: on stderr, and as one line {"auto": ..} with --json. took: seconds. */
void dt_auto_say(DtAuto *a, const DtSearch *search, double took);
/* Why there is no layout; returns the exit code. */
int dt_auto_refuse(const DtAuto *a, const DtProgram *program, const DtSearch *search);

/* auto_card.c: the card of a class, read off the plan of one replica without a pipeline. */
void dt_auto_read_card(DtArena *arena, const DtPlan *plan, const DtCostModel *model,
                       const DtSpace *space, DtCard *ret_card);

/* auto_delayed.c: the bytes of a card for delayed weight gradients. */
void dt_auto_read_delayed(DtArena *arena, const DtPlan *plan, const DtSpace *space, DtCard *card);

#endif
