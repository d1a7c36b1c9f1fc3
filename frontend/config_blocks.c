/* SPDX-License-Identifier: Apache-2.0 */
/* All blocks of a program: reads each, and chooses the train, cluster and parallel block that the
 * command line names, or the only one there is. */
#include "frontend/config_internal.h"

#include <string.h>

static const char *kind_name(DtItemKind kind)
{
    return kind == DT_ITEM_TRAIN     ? "train"
           : kind == DT_ITEM_CLUSTER ? "cluster"
           : kind == DT_ITEM_DEVICE  ? "device"
           : kind == DT_ITEM_STACK   ? "stack"
                                     : "parallel";
}

/* Returns the item of that kind and name; NULL if there is none. */
static const DtItem *find_item(DtConfigItems items, DtItemKind kind, const char *name)
{
    for (uint32_t i = 0; i < items.n; i++)
        if (items.at[i]->kind == kind && items.at[i]->name.text &&
            !strcmp(items.at[i]->name.text, name))
            return items.at[i];
    return NULL;
}

/* Reports that the command line chose a block that does not exist. */
static void no_such_block(const DtConfigHost *host, DtConfigItems items, DtItemKind kind,
                          const char *name, DtSpan span)
{
    const char **names = DT_NEW_ARRAY(host->arena, const char *, items.n + 1);
    size_t n = 0;
    const char *list = "";
    for (uint32_t i = 0; i < items.n; i++)
        if (items.at[i]->kind == kind && items.at[i]->name.text) {
            list = dt_arena_printf(host->arena, "%s%s`%s`", list, n ? ", " : "",
                                   items.at[i]->name.text);
            names[n++] = items.at[i]->name.text;
        }
    DtDiag *d = dt_diag_report(host->diags, span.file ? E0515 : E0003, span,
                               "there is no %s block `%s`", kind_name(kind), name);
    if (n)
        dt_diag_note(d, "there %s %s", n == 1 ? "is" : "are", list);
    else
        dt_diag_note(d, "the program has no %s block at all", kind_name(kind));
    const char *nearest = dt_text_nearest(name, names, n);
    if (nearest && span.file)
        dt_diag_fix(d, span, nearest, "did you mean `%s`?", nearest);
    else if (nearest)
        dt_diag_help(d, "did you mean `%s`?", nearest);
}

/* Whether both items are devices or stacks of the program's own files, of which there may be only
 * one per name. Redefining one of the library is allowed. */
static bool is_hardware(const DtConfigHost *host, const DtItem *a, const DtItem *b)
{
    return (a->kind == DT_ITEM_DEVICE || a->kind == DT_ITEM_STACK) &&
           !host->in_library(host->context, a->span) && !host->in_library(host->context, b->span);
}

static void check_twice(const DtConfigHost *host, DtConfigItems items)
{
    for (uint32_t i = 0; i < items.n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const DtItem *a = items.at[k], *b = items.at[i];
            if (a->kind != b->kind || (a->kind != DT_ITEM_TRAIN && a->kind != DT_ITEM_CLUSTER &&
                                       a->kind != DT_ITEM_PARALLEL && !is_hardware(host, a, b)))
                continue;
            if (a->name.text != b->name.text)
                continue;
            DtSpan span = b->name.text ? b->name.span : b->span;
            DtDiag *d =
                b->name.text
                    ? dt_diag_report(host->diags, E0466, span, "two %s blocks are called `%s`",
                                     kind_name(b->kind), b->name.text)
                    : dt_diag_report(host->diags, E0466, span, "two train blocks without a name");
            dt_diag_label(d, a->name.text ? a->name.span : a->span, "the first one");
            break;
        }
}

static void read_all(const DtConfigHost *host, DtConfigItems items, DtProgram *program)
{
    for (uint32_t i = 0; i < items.n; i++) {
        const DtItem *item = items.at[i];
        if (item->kind == DT_ITEM_CLUSTER)
            DT_PUSH(host->arena, program->clusters, dt_configcluster_read(host, item));
        if (item->kind == DT_ITEM_PARALLEL)
            DT_PUSH(host->arena, program->parallels, dt_configparallel_read(host, item));
    }
}

static DtClusterConfig *find_cluster(const DtProgram *program, const char *name)
{
    for (uint32_t i = 0; name && i < program->clusters.n; i++)
        if (!strcmp(program->clusters.at[i]->name, name))
            return program->clusters.at[i];
    return NULL;
}

static const DtItem *choose_train(const DtConfigHost *host, DtConfigItems items)
{
    const char *wanted = host->options->train;
    const DtItem *first = NULL;
    if (wanted) {
        const DtItem *item = find_item(items, DT_ITEM_TRAIN, wanted);
        if (!item)
            no_such_block(host, items, DT_ITEM_TRAIN, wanted, (DtSpan){0});
        return item;
    }
    for (uint32_t i = 0; i < items.n; i++) {
        if (items.at[i]->kind != DT_ITEM_TRAIN)
            continue;
        if (!first) {
            first = items.at[i];
            continue;
        }
        DtDiag *d = dt_diag_report(host->diags, E0461, items.at[i]->span, "a second train block");
        dt_diag_label(d, first->span, "the first one");
        dt_diag_help(d, "choose one with `--train NAME`");
        break;
    }
    return first;
}

static void choose_parallel(const DtConfigHost *host, DtConfigItems items, DtProgram *program)
{
    const char *wanted = host->options->parallel;
    if (wanted && !strcmp(wanted, "none"))
        return;
    if (wanted && !find_item(items, DT_ITEM_PARALLEL, wanted)) {
        if (strcmp(wanted, "auto")) /* for `auto`, dt_configset_auto has reported the reason */
            no_such_block(host, items, DT_ITEM_PARALLEL, wanted, (DtSpan){0});
        return;
    }
    if (!wanted && program->parallels.n == 1)
        program->parallel = program->parallels.at[0];
    for (uint32_t i = 0; wanted && i < program->parallels.n; i++)
        if (!strcmp(program->parallels.at[i]->name, wanted))
            program->parallel = program->parallels.at[i];
}

/* Sets the program's cluster: the one that the command line names, else the one that the layout
 * names, else the only one. Reports a name that does not exist. */
static void choose_cluster(const DtConfigHost *host, DtConfigItems items, DtProgram *program)
{
    const char *wanted = host->options->cluster;
    if (wanted && !find_item(items, DT_ITEM_CLUSTER, wanted)) {
        no_such_block(host, items, DT_ITEM_CLUSTER, wanted, (DtSpan){0});
        return;
    }
    if (wanted)
        program->cluster = find_cluster(program, wanted);
    else if (program->parallel)
        program->cluster = find_cluster(program, program->parallel->cluster);
    else if (program->clusters.n == 1)
        program->cluster = program->clusters.at[0];
}

static void check_clusters(const DtConfigHost *host, DtConfigItems items, DtProgram *program)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < items.n; i++) {
        const DtItem *item = items.at[i];
        if (item->kind != DT_ITEM_PARALLEL)
            continue;
        DtParallelConfig *parallel = program->parallels.at[n++];
        DtClusterConfig *cluster = find_cluster(program, parallel->cluster);
        if (!cluster && item->on.text)
            no_such_block(host, items, DT_ITEM_CLUSTER, item->on.text, item->on.span);
        if (parallel == program->parallel && program->cluster)
            cluster = program->cluster;
        /* if one layout was chosen, only that one has to fit */
        const bool other = host->options->parallel || host->options->block || host->options->resize;
        if (!other || parallel == program->parallel)
            dt_configparallel_check(host, parallel, cluster);
    }
}

void dt_configblocks_read(const DtConfigHost *host, DtConfigItems items, DtProgram *program,
                          const DtItem **ret_train_item, DtOptimizerCalls *ret_calls)
{
    check_twice(host, items);
    dt_confighardware_read(host);
    read_all(host, items, program);
    const DtItem *chosen = choose_train(host, items);
    *ret_train_item = chosen;
    *ret_calls = (DtOptimizerCalls){0};
    for (uint32_t i = 0; i < items.n; i++) {
        if (items.at[i]->kind != DT_ITEM_TRAIN)
            continue;
        DtOptimizerCalls calls = {0};
        DtTrainConfig *train = dt_configtrain_read(host, items.at[i], &calls);
        DT_PUSH(host->arena, program->trains, train);
        if (items.at[i] != chosen)
            continue;
        program->train = train;
        *ret_calls = calls;
    }
    choose_parallel(host, items, program);
    choose_cluster(host, items, program);
    check_clusters(host, items, program);
}
