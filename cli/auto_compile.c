/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles for the search of `auto` (search/search.h): plans for cards, plans to be simulated. */
#include "cli/auto.h"
#include "cli/fit.h"

#include "plan/read.h"
#include "plan/report/nodes.h"
#include "plan/report/simulate.h"

#include <string.h>

static const char *source_of(void *context, DtSpan span)
{
    const DtAuto *a = context;
    size_t len;
    const char *text = dt_diag_source(a->cli->diags, span.file, &len);
    return text && span.hi <= len ? dt_arena_strndup(a->arena, text + span.lo, span.hi - span.lo)
                                  : "";
}

typedef struct Image {
    uint8_t *bytes;
    size_t len;
} Image;

/* Compiles the plan of a layout on nodes x gpus devices: all of the cluster, or nodes of its first
 * kind. Returns NULL, or why there is no plan. */
static const char *compile(const DtAuto *a, DtArena *arena, const DtLayout *layout, int64_t nodes,
                           int64_t gpus, Image *ret_image, DtPlan *ret_plan)
{
    DtLowerOptions options = dt_cli_lowering(a->cli, a->path);
    DtOption *sets = DT_NEW_ARRAY(arena, DtOption, options.n_sets + 3);
    DtText text = {0};
    for (uint32_t i = 0; i < options.n_sets; i++)
        sets[i] = options.sets[i];
    const char *cluster = a->space.cluster;
    sets[options.n_sets++] = (DtOption){dt_arena_printf(arena, "%s.nodes", cluster),
                                        dt_arena_printf(arena, "%lld", (long long)nodes)};
    sets[options.n_sets++] = (DtOption){dt_arena_printf(arena, "%s.gpus", cluster),
                                        dt_arena_printf(arena, "%lld", (long long)gpus)};
    if (a->model.n_kinds && nodes * gpus != a->space.devices)
        sets[options.n_sets++] = (DtOption){dt_arena_printf(arena, "%s.gpu", cluster),
                                            a->model.device->name};
    else if (a->model.n_kinds)
        options.n_sets -= 2; /* the block has these settings */
    options.sets = sets;
    dt_layout_print(&a->space, layout, &text);
    options.block = dt_arena_strndup(arena, text.at, text.len);
    dt_text_free(&text);
    DtStatus status = dt_cli_variant(a->cli, arena, &options, DT_VARIANT_STEP, &ret_image->bytes,
                                     &ret_image->len);
    if (dt_status_ok(&status))
        status = dt_read_bytes(ret_image->bytes, ret_image->len, ret_plan);
    return dt_status_ok(&status)
               ? NULL
               : dt_arena_strndup(a->arena, status.message, strlen(status.message));
}

static const char *make_card(const DtAuto *a, const DtLayout *layout, DtCard *ret_card)
{
    DtArena *arena = dt_arena_child(a->cli->arena);
    int64_t ranks = 1, node = a->space.node;
    DtPlan plan;
    Image image;
    for (int r = 0; r < DT_ROLES; r++)
        ranks *= layout->size[r];
    while (node > ranks || ranks % node)
        node--;
    const char *why = compile(a, arena, layout, ranks / node, node, &image, &plan);
    if (!why)
        dt_auto_read_card(arena, &plan, &a->model, &a->space, ret_card);
    dt_arena_free(arena);
    return why;
}

const char *dt_auto_card(void *context, const DtLayout *layout, DtCard *ret_card)
{
    DtAuto *a = context;
    uint32_t i = 0;
    while (i < a->cards.n && !dt_layout_same(&a->cards.at[i].of, layout))
        i++;
    if (i == a->cards.n) {
        DtAutoCard made = {.of = *layout};
        made.why = make_card(a, layout, &made.card);
        DT_PUSH(a->arena, a->cards, made);
    }
    *ret_card = a->cards.at[i].card;
    return a->cards.at[i].why;
}


/* Keeps the plan of a trial that may win, since the winner's plan is needed once more. Plans that
 * are clearly slower than the fastest one are dropped. */
static void keep(DtAuto *a, const DtLayout *layout, double seconds, const Image *image)
{
    double fastest = seconds;
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->kept.n; i++)
        fastest = a->kept.at[i].seconds < fastest ? a->kept.at[i].seconds : fastest;
    for (uint32_t i = 0; i < a->kept.n; i++)
        if (a->kept.at[i].seconds <= fastest * DT_SEARCH_ALIKE)
            a->kept.at[n++] = a->kept.at[i];
    a->kept.n = n;
    if (seconds > fastest * DT_SEARCH_ALIKE)
        return;
    DtAutoKept one = {.of = *layout, .seconds = seconds, .len = image->len,
                      .bytes = dt_arena_alloc(a->arena, image->len)};
    memcpy(one.bytes, image->bytes, image->len);
    DT_PUSH(a->arena, a->kept, one);
}

_Static_assert((int)DT_TIMES <= (int)DT_SEARCH_SPENT, "a trial says where all of its time goes");

const char *dt_auto_simulate(void *context, const DtLayout *layout, DtTrial *ret_trial)
{
    DtAuto *a = context;
    DtArena *arena = dt_arena_child(a->cli->arena);
    const DtSimulateOptions options = {.objective = UINT32_MAX};
    DtSimulation sim;
    DtMemory memory;
    DtPlan plan;
    Image image;
    const char *why =
        compile(a, arena, layout, a->space.devices / a->space.node, a->space.node, &image, &plan);
    if (!why) {
        dt_simulate(arena, &plan, &a->model, dt_price_plan(arena, &plan, &a->model), &options,
                    &sim);
        dt_nodes_worst(&plan, &a->model, a->model.device->is_gpu, &memory);
        ret_trial->seconds = sim.seconds;
        ret_trial->low = sim.low;
        ret_trial->high = sim.high;
        for (uint32_t i = 0; i < sim.n_stages; i++)
            for (int k = 0; k < DT_TIMES; k++)
                ret_trial->spent[k] += sim.stages[i].time[k] / sim.n_stages;
        ret_trial->larger = dt_cost_larger(&a->model, dt_nodes_of(&plan, &a->model, memory.stage));
        ret_trial->bytes = (double)memory.reserved * ret_trial->larger;
        why = sim.stuck ? "its stages wait for each other" : NULL;
        if (!why && (a->space.memory == 0 || ret_trial->bytes <= a->space.memory))
            keep(a, layout, sim.seconds, &image);
    }
    dt_arena_free(arena);
    return why;
}

/* Gives the plan of a layout that has been tried: the one that `keep` kept, or else compiled
 * again. */
static bool recompile(const DtAuto *a, DtArena *arena, const DtLayout *layout, DtPlan *ret_plan)
{
    Image image;
    for (uint32_t i = 0; i < a->kept.n; i++)
        if (dt_layout_same(&a->kept.at[i].of, layout)) {
            const DtStatus status = dt_read_bytes(a->kept.at[i].bytes, a->kept.at[i].len, ret_plan);
            return dt_status_ok(&status);
        }
    return !compile(a, arena, layout, a->space.devices / a->space.node, a->space.node, &image,
                    ret_plan);
}

/* Doubles the rate of the links inside nodes, or of those between them, in the model. False: it has
 * no such links. */
static bool double_links(DtArena *arena, bool between, DtCostModel *model)
{
    DtCostLink *own = between ? &model->nic : &model->link;
    if (dt_cost_link(model, between).bytes_per_second <= 0)
        return false;
    own->bytes_per_second *= 2;
    for (uint32_t k = 0; k < dt_cost_kinds(model); k++) {
        DtDevice *device = DT_NEW(arena, DtDevice);
        *device = *dt_cost_on(model, k).device;
        (between ? &device->nic : &device->link)->bytes_per_second *= 2;
        model->kinds[k].device = device;
        model->device = k == 0 ? device : model->device;
    }
    return true;
}

static double seconds_with(DtArena *arena, const DtPlan *plan, const DtCostModel *model)
{
    const DtSimulateOptions options = {.objective = UINT32_MAX};
    DtSimulation sim;
    dt_simulate(arena, plan, model, dt_price_plan(arena, plan, model), &options, &sim);
    return sim.seconds;
}

void dt_auto_links(DtAuto *a, const DtLayout *layout, double *ret_inside, double *ret_between)
{
    DtArena *arena = dt_arena_child(a->cli->arena);
    DtCostModel inside = a->model, between = a->model;
    DtPlan plan;
    *ret_inside = *ret_between = 0;
    if (recompile(a, arena, layout, &plan)) {
        *ret_inside = double_links(arena, false, &inside) ? seconds_with(arena, &plan, &inside) : 0;
        *ret_between = a->space.devices > a->space.node && double_links(arena, true, &between)
                           ? seconds_with(arena, &plan, &between) : 0;
    }
    dt_arena_free(arena);
}

bool dt_auto_begin(DtCli *cli, const DtProgram *program, const char *path, DtAuto *ret_auto)
{
    *ret_auto = (DtAuto){.cli = cli, .arena = dt_arena_child(cli->arena), .path = path};
    if (!dt_space_find(ret_auto->arena, cli->diags, program, source_of, ret_auto,
                       &ret_auto->space) ||
        !dt_fit_model(program, &ret_auto->model))
        return false;
    if (!ret_auto->model.device->is_gpu) /* processors receive while they compute nothing */
        ret_auto->space.prefetches = false;
    return true;
}
