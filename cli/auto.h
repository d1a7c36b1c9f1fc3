/* SPDX-License-Identifier: Apache-2.0 */
/* The search for a layout, with the compiler behind it (auto_compile.c). */
#ifndef DT_CLI_AUTO_H
#define DT_CLI_AUTO_H

#include "cli/cli.h"
#include "plan/plan.h"
#include "search/search.h"

typedef struct DtAutoCard {
    DtLayout of;  /* a class, as dt_layout_of_class gives it */
    DtCard card;
    const char *why; /* NULL, or why there is none */
} DtAutoCard;

/* The plan of a layout for all devices; one of those that may win. */
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
    DT_VEC(DtAutoCard) cards; /* numbers of devices have them in common */
    DT_VEC(DtAutoKept) kept;
} DtAuto;

/* Of a program whose chosen block says `auto`. False after a diagnostic. */
bool dt_auto_begin(DtCli *cli, const DtProgram *program, const char *path, DtAuto *ret_auto);

/* What a DtSearchHost has; context: the DtAuto. */
const char *dt_auto_card(void *context, const DtLayout *layout, DtCard *ret_card);
const char *dt_auto_simulate(void *context, const DtLayout *layout, DtTrial *ret_trial);

/* Seconds of a step of the layout if links inside nodes, and those between nodes, had twice the rate; 0: there are none
 * of that sort, or no plan. */
void dt_auto_links(DtAuto *a, const DtLayout *layout, double *ret_inside, double *ret_between);

/* What `auto` would choose for the cluster of the program if its block said nothing else. False: it can't search. */
typedef struct DtAutoWould {
    const char *line; /* the block, NULL: nothing fits */
    double seconds;   /* of a step */
    double state;     /* bytes of parameters, gradients and optimizer, all ranks together */
    int64_t devices, least; /* that there are, and that hold these */
} DtAutoWould;
bool dt_auto_would(DtCli *cli, const DtProgram *program, const char *path, DtAutoWould *ret_would);

/* How many devices hold parameters, gradients and optimizer at least, each once. */
int64_t dt_auto_least(const DtAuto *a);

/* auto_say.c: on stderr, and as one line {"auto": ..} with --json. took: seconds. */
void dt_auto_say(DtAuto *a, const DtSearch *search, double took);
/* Why there is no layout; returns the exit code. */
int dt_auto_refuse(const DtAuto *a, const DtProgram *program, const DtSearch *search);

/* auto_card.c: the card of a class, read off the plan of one replica without a pipeline. */
void dt_auto_read_card(DtArena *arena, const DtPlan *plan, const DtCostModel *model, const DtSpace *space,
                       DtCard *ret_card);

/* auto_late.c: its `late` bytes. */
void dt_auto_read_late(DtArena *arena, const DtPlan *plan, const DtSpace *space, DtCard *card);

#endif
