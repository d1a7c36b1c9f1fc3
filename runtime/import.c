/* SPDX-License-Identifier: Apache-2.0 */
/* Copies parameters from files of another program: each rank reads from the mapped files the
 * elements that it holds and no others. The plan says for each parameter at which element of which
 * tensor each of its elements stands (PART in plan/plan.h). A parameter that several tensors have
 * is read from the one that has most of its elements, and what that one lacks from the others. What
 * two have must be equal. */
#include "runtime/import.h"

#include "runtime/checkpoint.h"
#include "runtime/foreign.h"
#include "runtime/rank.h"
#include "runtime/reduce.h"

#include "base/tryread.h"
#include "plan/kinds.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 512, COLUMNS = 32 };

/* One parameter in one tensor of the block, on its way to, or compared with, this rank's memory. */
typedef struct Feed {
    const DtRank *rank;
    const DtPlanStore *store;
    int64_t iteration;
    const DtPlanFilePart *part;
    const DtForeignTensor **of;
    int64_t size;                    /* elements of each tensor in the file */
    int64_t loops[DT_PLAN_MAX_RANK]; /* indices of the iteration */
    bool compares, is_finite;
    const DtTensor *read;             /* the first tensor of the file that was read */
    const DtTensor *differs, *spoilt; /* the first that is not equal, that is not finite */
} Feed;

/* ---- elements ---- */

/* n elements that are `step` apart, as bytes that are adjacent. */
static void gather(char *to, const uint8_t *from, int64_t n, int64_t step, int64_t size)
{
    if (step == 1) {
        memcpy(to, from, (size_t)(n * size));
        return;
    }
    if (size == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 2 * i, from + 2 * step * i, 2);
    else if (size == 4)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + 4 * i, from + 4 * step * i, 4);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + size * i, from + size * step * i, (size_t)size);
}

/* The same as elements of the store's dtype. n is at most BLOCK. */
static void convert(char *to, uint32_t to_dtype, const uint8_t *from, uint32_t dtype, int64_t n,
                    int64_t step)
{
    _Alignas(8) char some[BLOCK * 8];
    const bool equal = dtype == to_dtype;
    gather(equal ? to : some, from, n, step, dt_kinds_size(dtype));
    if (!equal)
        dt_reduce_convert(to, to_dtype, some, dtype, n);
}

/* At most BLOCK elements of one tensor. */
static void feed_block(Feed *feed, const DtTensor *tensor, int64_t first, int64_t step, int64_t n,
                       char *at)
{
    _Alignas(8) char some[BLOCK * 8];
    const uint32_t dtype = feed->store->dtype;
    const int64_t size = dt_kinds_size(dtype);
    char *to = feed->compares ? some : at;
    feed->read = feed->read ? feed->read : tensor;
    convert(to, dtype, tensor->at + first * dt_kinds_size(tensor->dtype), tensor->dtype, n, step);
    if (feed->compares && !feed->differs && memcmp(some, at, (size_t)(n * size)) != 0)
        feed->differs = tensor;
    if (feed->is_finite && !feed->spoilt && dt_kinds_is_float(dtype) &&
        dt_wanted_is_spoilt(dtype, to, n))
        feed->spoilt = tensor;
}

static void feed_run(void *context, const int64_t *index, int64_t n, char *at)
{
    Feed *feed = context;
    const DtPlanFilePart *part = feed->part;
    const uint32_t loops = feed->store->n_loops, axes = part->n_axes - loops;
    int64_t element = part->first, step = axes ? part->stride[part->n_axes - 1] : 0;
    for (uint32_t a = 0; a < part->n_axes; a++) {
        const int64_t i = a < loops ? feed->loops[a] : index[a - loops];
        if (i >= part->count[a])
            return;
        element += part->stride[a] * i;
    }
    if (axes && n > part->count[part->n_axes - 1] - index[axes - 1])
        n = part->count[part->n_axes - 1] - index[axes - 1];
    while (n > 0) {
        const int64_t first = element % feed->size;
        int64_t some = step ? (feed->size - 1 - first) / step + 1 : n;
        some = some < n ? some : n;
        some = some < BLOCK ? some : BLOCK;
        feed_block(feed, feed->of[element / feed->size]->tensor, first, step, some, at);
        at += some * dt_kinds_size(feed->store->dtype);
        element += some * step;
        n -= some;
    }
}

/* ---- parameters ---- */

static void walk(void *context)
{
    Feed *feed = context;
    /* Where the file has the axes in another order, the lines of its memory that a block of columns
     * reads stay in the cache for the next rows. */
    const int64_t step = feed->part->n_axes ? feed->part->stride[feed->part->n_axes - 1] : 0;
    dt_pack_walk(feed->rank, feed->store, feed->iteration, !feed->compares, step > 1 ? COLUMNS : 0,
                 feed_run, feed);
}

/* A view of all memory from the first mapped file to the last. */
static DtFileView whole_view(const DtForeign *foreign)
{
    const uint8_t *from = NULL, *to = NULL;
    for (uint32_t f = 0; f < foreign->n_files; f++) {
        const DtFileView *view = &foreign->files[f].view;
        from = from == NULL || view->at < from ? view->at : from;
        to = view->at + view->len > to ? view->at + view->len : to;
    }
    return (DtFileView){from, (size_t)(to - from)};
}

static DtStatus cut_short(const DtForeign *foreign, const uint8_t *missing)
{
    for (uint32_t f = 0; f < foreign->n_files; f++) {
        const DtFileView *view = &foreign->files[f].view;
        if (missing >= view->at && missing < view->at + view->len)
            return dt_safetensors_cut(foreign->paths[f], &foreign->files[f], missing);
    }
    return dt_status_fail(DT_EXIT_IO, "%.300s cannot be read", foreign->folder);
}

static DtStatus feed_store(Feed *feed, const DtForeign *foreign)
{
    const DtFileView view = whole_view(foreign);
    int64_t left = feed->iteration;
    for (uint32_t a = feed->store->n_loops; a-- > 0;) {
        const DtPlanAxis *axis = &feed->rank->plan->axes[feed->store->first_axis + a];
        feed->loops[a] = axis->first + left % axis->local;
        left /= axis->local;
    }
    const uint8_t *missing = dt_tryread(&view, walk, feed);
    return missing ? cut_short(foreign, missing) : DT_OK;
}

/* The parameter that a master copy or an average belongs to, or the store itself. */
static const DtPlanStore *param_of(const DtPlan *plan, const DtPlanStore *store)
{
    return store->kind == DT_PLAN_MASTER || store->kind == DT_PLAN_AVERAGE
               ? &plan->stores[store->of]
               : store;
}

/* The store that has the axes of files: of replicas their average. */
static const DtPlanStore *like_files(const DtPlan *plan, const DtPlanStore *store)
{
    return dt_wanted_is_mean(plan, store) ? store : param_of(plan, store);
}

static bool keeps_initial(const DtPlan *plan, const DtPlanNames *names, const char *path)
{
    for (uint32_t r = 0; r < names->n_rules; r++) {
        const DtPlanRule *rule = &plan->rules[names->first_rule + r];
        if (rule->kind == DT_RULE_INITIAL &&
            fnmatch(dt_plan_str(plan, rule->key), path, FNM_NOESCAPE) == 0)
            return true;
    }
    return false;
}

/* The path under which files have the parameter: of a copy, that of the original. */
static const char *path_in_files(const DtPlan *plan, const DtPlanStore *param)
{
    return dt_plan_str(plan, param->path) + param->copy;
}

/* What a rank found about one tensor of its parameters. */
static DtStatus judge(const Feed *feed, const DtTensor *first, const char *name)
{
    if (feed->spoilt)
        return dt_status_fail(DT_EXIT_FAILED,
                              "`%.200s` has numbers that are not finite, or are not in %s, which "
                              "the program gives `%.100s`",
                              feed->spoilt->name, dt_kinds_name(feed->store->dtype), name);
    if (feed->differs)
        return dt_status_fail(
            DT_EXIT_FAILED,
            "`%.100s` is in the file twice, and `%.100s` and `%.100s` differ: the "
            "weights are not tied",
            name, first->name, feed->differs->name);
    return DT_OK;
}

/* One copy of a parameter in the file. */
typedef struct Source {
    const DtPlanFileTensor *tensor;
    const DtPlanFilePart *part; /* NULL: the file has no copy */
    const DtForeignTensor **of;
} Source;

/* The next copy of the parameter. *tensor, *part: where the search begins, and goes on. */
static bool next_source(const DtPlan *plan, const DtImport *import, const DtPlanStore *param,
                        uint32_t *tensor, uint32_t *part, Source *ret_source)
{
    for (; *tensor < import->names->n_tensors; (*tensor)++, *part = 0) {
        const DtPlanFileTensor *of = &plan->tensors[import->names->first_tensor + *tensor];
        while (import->of[*tensor] && *part < of->n_parts) {
            const DtPlanFilePart *here = &plan->parts[of->first_part + (*part)++];
            *ret_source = (Source){of, here, import->of[*tensor]};
            if (strcmp(dt_plan_str(plan, here->path), path_in_files(plan, param)) == 0)
                return true;
        }
    }
    return false;
}

/* The copy of the store's parameter that has most elements, and of equal ones the first. */
static Source largest_source(const DtPlan *plan, const DtImport *import, const DtPlanStore *store)
{
    const DtPlanStore *param = param_of(plan, store), *like = like_files(plan, store);
    Source largest = {0}, source;
    double most = 0;
    for (uint32_t t = 0, p = 0; next_source(plan, import, param, &t, &p, &source);) {
        double n = 1;
        for (uint32_t a = 0; a < source.part->n_axes && a < like->n_axes; a++) {
            const int64_t extent = plan->axes[like->first_axis + a].extent;
            n *= (double)(source.part->count[a] < extent ? source.part->count[a] : extent);
        }
        if (n > most) {
            most = n;
            largest = source;
        }
    }
    return largest;
}

/* Copies a tensor of this rank from one copy in the file, or compares it with another. */
static DtStatus feed_one(Feed *feed, const DtImport *import, const Source *from)
{
    if (from->part->n_axes != feed->store->n_axes)
        return dt_status_fail(DT_EXIT_FAILED, "the plan is broken: `%.200s` has %u axes",
                              dt_plan_str(feed->rank->plan, from->part->path), from->part->n_axes);
    feed->part = from->part;
    feed->of = from->of;
    feed->size = 1;
    for (uint32_t a = from->tensor->n_index; a < from->tensor->n_axes; a++)
        feed->size *= from->tensor->extent[a];
    return feed_store(feed, &import->foreign);
}

/* Whether a copy has elements that the largest lacks. */
static bool adds(const Source *source, const Source *largest)
{
    for (uint32_t a = 0; a < source->part->n_axes; a++)
        if (source->part->count[a] > largest->part->count[a])
            return true;
    return false;
}

/* Copies a tensor of this rank from all copies in the file that have elements of their own, from
 * the largest last, so that feed->read is its tensor. */
static DtStatus feed_copies(Feed *feed, const DtImport *import, const DtPlanStore *param,
                            const Source *largest, const char *name)
{
    DtStatus status = DT_OK;
    Source source;
    for (uint32_t t = 0, p = 0; dt_status_ok(&status) &&
                                next_source(feed->rank->plan, import, param, &t, &p, &source);)
        if (source.part != largest->part && adds(&source, largest))
            status = feed_one(feed, import, &source);
    feed->read = NULL;
    if (dt_status_ok(&status))
        status = feed_one(feed, import, largest);
    return dt_status_ok(&status) ? judge(feed, NULL, name) : status;
}

/* One tensor of this rank, with the parameter that is its rounding; then all copies must be equal
 * to it. */
static DtStatus import_one(DtRank *rank, const DtImport *import, const DtHome *home,
                           const char *name)
{
    const DtPlan *plan = rank->plan;
    const DtPlanStore *param = param_of(plan, home->store);
    const char *path = path_in_files(plan, param);
    const Source largest = largest_source(plan, import, home->store);
    Source source = largest;
    Feed feed = {.rank = rank,
                 .store = param,
                 .iteration = home->iteration,
                 .is_finite = param->kind == DT_PLAN_PARAM};
    if (largest.part == NULL)
        return keeps_initial(plan, import->names, path)
                   ? DT_OK
                   : dt_status_fail(DT_EXIT_FAILED, "the names block does not have `%.200s`", path);
    DtStatus status = DT_OK;
    if (home->store->kind == DT_PLAN_MASTER)
        status = feed_copies(&feed, import, param, &largest, name);
    feed.store = home->store;
    if (dt_status_ok(&status))
        status = feed_copies(&feed, import, param, &largest, name);
    const DtTensor *first = feed.read ? feed.read : largest.of[0]->tensor;
    feed.compares = true;
    for (uint32_t t = 0, p = 0;
         dt_status_ok(&status) && next_source(plan, import, param, &t, &p, &source);)
        if (source.part != largest.part) {
            status = feed_one(&feed, import, &source);
            if (dt_status_ok(&status))
                status = judge(&feed, first, name);
        }
    return status;
}

static bool is_below(const char *path, const char *label)
{
    const size_t len = strlen(label);
    return len > 0 && strncmp(path, label, len) == 0 && path[len] == '.';
}

/* Whether the import is for the instance of a model that has the store. */
static bool is_of(const DtPlan *plan, const DtImport *import, const DtPlanStore *store)
{
    const char *path = path_in_files(plan, param_of(plan, store));
    bool other = false;
    if (*import->label)
        return is_below(path, import->label);
    for (uint32_t i = 0; i < plan->n_names; i++)
        other = other || is_below(path, dt_plan_str(plan, plan->names[i].label));
    return !other;
}

static DtStatus import_all(DtRank *rank, DtArena *memory, const DtImport *import)
{
    DtWanted wanted;
    DtStatus status = dt_wanted_list(rank, memory, DT_SAVED_MODEL, &wanted);
    if (dt_status_ok(&status))
        status = dt_wanted_averages(rank, memory, &wanted);
    for (uint32_t i = 0; i < wanted.n && dt_status_ok(&status); i++) {
        const DtPlanStore *store = wanted.homes[i].store;
        if (!dt_plan_on_stage(store->stage, rank->stage) || !is_of(rank->plan, import, store) ||
            (import->adapters && !param_of(rank->plan, store)->adapter))
            continue;
        status = import_one(rank, import, &wanted.homes[i], wanted.tensors[i].name);
        atomic_fetch_add(&rank->slot->progress, 1);
    }
    return status;
}

/* What a run imports: without a label, then with labels. */
typedef struct Imports {
    DtImport at[1 + DT_COUNT(((DtRunOptions *)0)->imports)];
    const char *folders[1 + DT_COUNT(((DtRunOptions *)0)->imports)];
    uint32_t n;
} Imports;

/* Whether an import replaces every element of the store. */
static bool fills(const void *context, const DtRank *rank, const DtPlanStore *store)
{
    const Imports *imports = context;
    const DtPlan *plan = rank->plan;
    const DtPlanStore *like = like_files(plan, store);
    bool any = false;
    for (uint32_t i = 0; i < imports->n && !any; i++) {
        const DtPlanFilePart *part = largest_source(plan, &imports->at[i], store).part;
        bool whole = part != NULL && part->n_axes == like->n_axes;
        for (uint32_t a = 0; whole && a < part->n_axes; a++)
            whole = part->count[a] >= plan->axes[like->first_axis + a].extent;
        any = whole;
    }
    return any;
}

/* Ends an import; an error is one of the files, not of a rank. */
static bool finish(DtRank *rank, DtArena *memory, Imports *imports, DtText *list, DtStatus *status)
{
    for (uint32_t i = 0; i < imports->n; i++)
        dt_foreign_close(&imports->at[i].foreign);
    dt_text_free(list);
    dt_arena_free(memory);
    if (!dt_status_ok(status))
        atomic_store(&rank->slot->by_data, 1);
    return dt_status_ok(status) || dt_rank_fail_status(rank, status);
}

const char *dt_import_label(DtArena *memory, const char *import, const char **ret_folder)
{
    const char *equals = strchr(import, '=');
    *ret_folder = equals + 1;
    return dt_arena_strndup(memory, import, (size_t)(equals - import));
}

/* Opens a folder, and chooses the names block that fits it. */
static DtStatus open_one(DtRank *rank, DtArena *memory, Imports *imports, const char *folder,
                         const char *label, DtText *list)
{
    const char *names = *label ? NULL : rank->options->names;
    DtImport *import = &imports->at[imports->n];
    *import = (DtImport){.label = label};
    imports->folders[imports->n++] = folder;
    DtStatus status = dt_foreign_open(memory, folder, &import->foreign);
    return dt_status_ok(&status) ? dt_importnames_choose(memory, rank->plan, names, import, list)
                                 : status;
}

bool dt_import_load(DtRank *rank, bool initialises)
{
    const DtRunOptions *options = rank->options;
    DtArena *memory = dt_arena_new();
    Imports imports = {.n = 0};
    DtText list = {0};
    DtStatus status = DT_OK;
    if (options->import)
        status = open_one(rank, memory, &imports, options->import, "", &list);
    for (uint32_t i = 0; i < options->n_imports && dt_status_ok(&status); i++) {
        const char *folder, *label = dt_import_label(memory, options->imports[i], &folder);
        status = open_one(rank, memory, &imports, folder, label, &list);
    }
    if (dt_status_ok(&status) && initialises)
        dt_init_others(rank, fills, &imports);
    for (uint32_t i = 0; i < imports.n && dt_status_ok(&status); i++)
        status = import_all(rank, memory, &imports.at[i]);
    char *path =
        dt_status_ok(&status) && options->import ? realpath(options->import, NULL) : NULL;
    if (path)
        rank->imported = dt_arena_printf(rank->memory, "%s", path);
    free(path);
    return finish(rank, memory, &imports, &list, &status);
}

bool dt_import_adapters(DtRank *rank)
{
    const DtRunOptions *options = rank->options;
    DtArena *memory = dt_arena_new();
    Imports imports = {.at = {{.adapters = true, .label = ""}}, .n = 1};
    DtText list = {0};
    DtImport *import = &imports.at[0];
    DtStatus status = dt_foreign_open_adapters(memory, options->adapters, &import->foreign);
    if (dt_status_ok(&status))
        status = dt_importnames_choose(memory, rank->plan, options->names, import, &list);
    if (dt_status_ok(&status))
        status = import_all(rank, memory, import);
    return finish(rank, memory, &imports, &list, &status);
}
