/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of an export. If the parameters were imported, the export has the tensors of that
 * folder, each with its dtype: also which copies of tied weights there are, and tensors that the
 * names block ignores. Otherwise it has those of the names block, without copies of parameters that
 * an earlier tensor has.
 *
 * Files have at most LIMIT bytes each, or one tensor. In a file, tensors with larger elements come
 * first, so that every tensor is aligned. */
#include "runtime/export.h"

#include "plan/kinds.h"
#include "plan/report/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int64_t LIMIT =
    5000000000; /* bytes of a file's tensors, as transformers writes them */

/* The tensors being listed. */
typedef struct List {
    DtArena *memory;
    const DtRunOptions *options;
    const DtPlan *plan;
    DtExport *export;
    struct Item {
        DtTensor tensor;
        DtExportFrom from;
    } * items;
} List;

/* ---- the folder and the names block ---- */

/* The folder that the export resembles; NULL: none. */
static DtStatus find_folder(const DtRunOptions *options, const char *imported,
                            const char **ret_folder)
{
    *ret_folder = options->like ? options->like : imported ? imported : options->import;
    if (options->like && strcmp(options->like, "none") == 0)
        *ret_folder = NULL;
    if (*ret_folder == NULL || options->like || access(*ret_folder, F_OK) == 0)
        return DT_OK;
    return dt_status_fail(
        DT_EXIT_IO,
        "the parameters began as those in %.200s, which is gone: --like DIR names "
        "a copy of it, whose config.json and tokenizer the export takes over "
        "(--like none: it does without)",
        *ret_folder);
}

/* The block of that name, or the only one. */
static DtStatus choose_names(const DtRunOptions *options, const DtPlan *plan,
                             const DtPlanNames **ret_names)
{
    *ret_names = NULL;
    for (uint32_t i = 0; i < plan->n_names; i++) {
        const char *name = dt_plan_str(plan, plan->names[i].name);
        if (plan->names[i].adapters || *dt_plan_str(plan, plan->names[i].label) ||
            (options->names && strcmp(name, options->names) != 0))
            continue;
        if (*ret_names)
            return dt_status_fail(
                DT_EXIT_USAGE,
                "the program has the names blocks `%.60s` and `%.60s`: --names says by which the "
                "export calls its tensors",
                dt_plan_str(plan, (*ret_names)->name), dt_plan_str(plan, plan->names[i].name));
        *ret_names = &plan->names[i];
    }
    if (*ret_names)
        return DT_OK;
    return options->names
               ? dt_status_fail(DT_EXIT_USAGE, "the plan has no names block `%.100s`",
                                options->names)
               : dt_status_fail(
                     DT_EXIT_USAGE,
                     "--export: the plan has no names block, which says what the tensors are "
                     "called "
                     "for other programs: write one (`names huggingface on MODEL { .. }`)");
}

/* ---- tensors ---- */

static const DtPlanFileTensor *record_of(const List *list, uint32_t t)
{
    return &list->plan->tensors[list->export->names->first_tensor + t];
}

/* Whether some elements of the record's tensors are of no parameter. */
static bool has_rest(const DtPlan *plan, const DtPlanFileTensor *record)
{
    double all = 1, covered = 0;
    for (uint32_t a = 0; a < record->n_axes; a++)
        all *= (double)record->extent[a];
    for (uint32_t p = 0; p < record->n_parts; p++) {
        double n = 1;
        for (uint32_t a = 0; a < plan->parts[record->first_part + p].n_axes; a++)
            n *= (double)plan->parts[record->first_part + p].count[a];
        covered += n;
    }
    return covered < all;
}

/* The dtype of a tensor of the record. like: the folder's tensor, or NULL. */
static DtStatus choose_dtype(const List *list, const DtPlanFileTensor *record, const char *name,
                             const DtTensor *like, uint32_t *ret_dtype)
{
    const DtPlanFilePart *parts = &list->plan->parts[record->first_part];
    const uint32_t own =
        record->n_parts ? dt_importnames_dtype(list->plan, &parts[0]) : (uint32_t)DT_PLAN_F32;
    *ret_dtype = like ? like->dtype : own;
    if (list->options->export_dtype >= 0 && dt_kinds_is_float(*ret_dtype))
        *ret_dtype = (uint32_t)list->options->export_dtype;
    for (uint32_t p = 0; p < record->n_parts; p++) {
        const uint32_t dtype = dt_importnames_dtype(list->plan, &parts[p]);
        if (dtype != *ret_dtype && !(dt_kinds_is_float(dtype) && dt_kinds_is_float(*ret_dtype)))
            return dt_status_fail(DT_EXIT_USAGE,
                                  "--export: `%.200s` would have elements in %s and in %s", name,
                                  dt_kinds_name(*ret_dtype), dt_kinds_name(dtype));
    }
    return DT_OK;
}

static DtStatus add(List *list, DtExportFrom from)
{
    const DtTensor *like = from.like ? from.like->tensor : NULL;
    struct Item *item = &list->items[list->export->n];
    DtStatus status = DT_OK;
    item->from = from;
    if (from.record) {
        const uint32_t n_index = from.record->n_index;
        DtTensor *tensor = &item->tensor;
        tensor->name = dt_importnames_name(list->memory, list->plan, from.record, from.number);
        tensor->n_axes = from.record->n_axes - n_index;
        memcpy(tensor->extents, from.record->extent + n_index,
               tensor->n_axes * sizeof *tensor->extents);
        status = choose_dtype(list, from.record, tensor->name, like, &tensor->dtype);
        tensor->bytes = dt_safetensors_bytes(tensor->dtype, tensor->extents, tensor->n_axes);
    } else
        item->tensor = *like;
    if (dt_status_ok(&status) &&
        (item->tensor.bytes < 0 ||
         __builtin_add_overflow(list->export->bytes, item->tensor.bytes, &list->export->bytes)))
        status =
            dt_status_fail(DT_EXIT_USAGE, "--export: `%.200s` is too large", item->tensor.name);
    list->export->n++;
    return status;
}

/* The tensors of the folder. */
static DtStatus list_like(List *list)
{
    const DtImport *like = &list->export->like;
    DtExportFrom *from = DT_NEW_ARRAY(list->memory, DtExportFrom, like->foreign.n + 1);
    DtStatus status = DT_OK;
    list->items = DT_NEW_ARRAY(list->memory, struct Item, like->foreign.n + 1);
    for (uint32_t t = 0; t < like->names->n_tensors; t++) {
        const DtPlanFileTensor *record = record_of(list, t);
        for (int64_t i = 0; like->of[t] && i < dt_importnames_count(record); i++)
            from[like->of[t][i] - like->foreign.tensors] =
                (DtExportFrom){record, i, NULL, has_rest(list->plan, record)};
    }
    for (uint32_t i = 0; i < like->foreign.n && dt_status_ok(&status); i++) {
        from[i].like = &like->foreign.tensors[i];
        status = add(list, from[i]);
    }
    return status;
}

/* Whether a record has all elements of the part. */
static bool has_part(const DtPlan *plan, const DtPlanFileTensor *record, const DtPlanFilePart *part)
{
    for (uint32_t p = 0; p < record->n_parts; p++) {
        const DtPlanFilePart *other = &plan->parts[record->first_part + p];
        bool has = other->path == part->path;
        for (uint32_t a = 0; has && a < part->n_axes; a++)
            has = other->count[a] >= part->count[a];
        if (has)
            return true;
    }
    return false;
}

/* Whether earlier records have all elements of this one. */
static bool is_copy(const List *list, uint32_t number)
{
    const DtPlanFileTensor *record = record_of(list, number);
    for (uint32_t p = 0; p < record->n_parts; p++) {
        bool has = false;
        for (uint32_t t = 0; !has && t < number; t++)
            has = has_part(list->plan, record_of(list, t),
                           &list->plan->parts[record->first_part + p]);
        if (!has)
            return false;
    }
    return true;
}

/* The tensors of the names block. */
static DtStatus list_names(List *list)
{
    const DtPlanNames *names = list->export->names;
    DtStatus status = DT_OK;
    int64_t n = 0;
    for (uint32_t t = 0; t < names->n_tensors; t++)
        n += is_copy(list, t) ? 0 : dt_importnames_count(record_of(list, t));
    if (n > UINT32_MAX / 2)
        return dt_status_fail(DT_EXIT_USAGE, "--export: %lld tensors are too many", (long long)n);
    list->items = DT_NEW_ARRAY(list->memory, struct Item, n + 1);
    for (uint32_t t = 0; t < names->n_tensors; t++) {
        const DtPlanFileTensor *record = record_of(list, t);
        if (is_copy(list, t))
            continue;
        if (has_rest(list->plan, record))
            return dt_status_fail(
                DT_EXIT_USAGE,
                "--export: `%.200s` has elements (say, of more positions or tokens) that no "
                "parameter of the program has: --like DIR names a folder to take them from",
                dt_importnames_name(list->memory, list->plan, record, 0));
        for (int64_t i = 0; i < dt_importnames_count(record) && dt_status_ok(&status); i++)
            status = add(list, (DtExportFrom){record, i, NULL, false});
    }
    return status;
}

/* ---- files ---- */

static int by_alignment(const void *a, const void *b)
{
    const struct Item *x = a, *y = b;
    const int64_t wide_x = dt_kinds_size(x->tensor.dtype), wide_y = dt_kinds_size(y->tensor.dtype);
    return wide_x != wide_y ? (wide_x > wide_y ? -1 : 1) : strcmp(x->tensor.name, y->tensor.name);
}

/* Cuts the list into files. DT_EXPORT_BYTES=1000:64 lets tests have files of 1000 bytes, and pieces
 * of 64. */
static void cut(List *list)
{
    DtExport *export = list->export;
    const char *said = getenv("DT_EXPORT_BYTES");
    const bool is_one_file = export->names->adapters;
    long long limit = LIMIT, piece = DT_SAVE_BYTES / 4 * 3;
    int64_t used = 0;
    if (said && (sscanf(said, "%lld:%lld", &limit, &piece) != 2 || piece < 8))
        limit = LIMIT, piece = DT_SAVE_BYTES / 4 * 3;
    export->piece = piece / 8 * 8;
    qsort(list->items, export->n, sizeof *list->items, by_alignment);
    export->tensors = DT_NEW_ARRAY(list->memory, DtTensor, export->n + 1);
    export->from = DT_NEW_ARRAY(list->memory, DtExportFrom, export->n + 1);
    export->files = DT_NEW_ARRAY(list->memory, uint32_t, export->n + 2);
    for (uint32_t i = 0; i < export->n; i++) {
        export->tensors[i] = list->items[i].tensor;
        export->from[i] = list->items[i].from;
        if (i == 0 ||
            (!is_one_file && used > 0 && export->tensors[i].bytes > limit - used)) {
            export->files[export->n_files++] = i;
            used = 0;
        }
        used += export->tensors[i].bytes;
    }
    export->files[export->n_files] = export->n;
}

const char *dt_exportlist_file(DtArena *memory, const DtExport *export, uint32_t file)
{
    return export->names->adapters ? "adapter_model.safetensors"
           : export->n_files == 1  ? "model.safetensors"
                                   : dt_arena_printf(memory, "model-%05u-of-%05u.safetensors",
                                                  file + 1, export->n_files);
}

/* ---- the whole ---- */

bool dt_exportlist_has(const DtPlan *plan, const DtPlanNames *names, DtPlanStr path)
{
    for (uint32_t t = 0; t < names->n_tensors; t++) {
        const DtPlanFileTensor *record = &plan->tensors[names->first_tensor + t];
        for (uint32_t p = 0; p < record->n_parts; p++)
            if (plan->parts[record->first_part + p].path == path)
                return true;
    }
    return false;
}

/* The adapter's record, if the export adds it to a weight; else NULL. */
static const DtPlanAdapted *merged_into(const DtPlan *plan, const DtPlanNames *names,
                                        const DtPlanStore *store)
{
    for (uint32_t i = 0; i < plan->n_adapted; i++) {
        const DtPlanAdapted *adapted = &plan->adapted[i];
        const bool is_it = adapted->a == store->path || adapted->b == store->path;
        if (is_it && dt_exportlist_has(plan, names, adapted->weight) &&
            !dt_exportlist_has(plan, names, adapted->a) &&
            !dt_exportlist_has(plan, names, adapted->b))
            return adapted;
    }
    return NULL;
}

/* Without its adapters the model is another one. Counts those that are added to weights. */
static DtStatus check_adapters(const DtPlan *plan, DtExport *export)
{
    const DtPlanNames *names = export->names;
    for (uint32_t s = 0; s < plan->n_stores; s++)
        if (plan->stores[s].kind == DT_PLAN_PARAM && plan->stores[s].adapter &&
            plan->stores[s].copy == 0 &&
            !dt_exportlist_has(plan, names, plan->stores[s].path) &&
            !merged_into(plan, names, &plan->stores[s]))
            return dt_status_fail(
                DT_EXIT_USAGE,
                "--export: `%.100s` is of an adapter that cannot be added to a weight, and has no "
                "tensor in `names %.60s`: the export would be the model without it",
                dt_plan_str(plan, plan->stores[s].path), dt_plan_str(plan, names->name));
    for (uint32_t i = 0; i < plan->n_adapted; i++)
        export->n_merged += dt_exportlist_has(plan, names, plan->adapted[i].weight) &&
                            !dt_exportlist_has(plan, names, plan->adapted[i].a) &&
                            !dt_exportlist_has(plan, names, plan->adapted[i].b);
    return DT_OK;
}

DtStatus dt_exportlist_open(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                            const char *imported, DtExport *ret_export, DtText *ret_list)
{
    const char *folder;
    List list = {.memory = memory, .options = options, .plan = plan, .export = ret_export};
    *ret_export = (DtExport){.n = 0, .like.label = ""};
    DtStatus status = find_folder(options, imported, &folder);
    if (!dt_status_ok(&status))
        return status;
    if (folder) {
        DtImport *like = &ret_export->like;
        status = dt_foreign_open(memory, folder, &like->foreign);
        if (dt_status_ok(&status))
            status = dt_importnames_choose(memory, plan, options->names, like, ret_list);
        ret_export->names = like->names;
    } else
        status = choose_names(options, plan, &ret_export->names);
    ret_export->base = ret_export->names;
    if (dt_status_ok(&status) && options->peft)
        status =
            dt_importnames_adapters(plan, ret_export->base, "--peft", &ret_export->names);
    else if (dt_status_ok(&status))
        status = check_adapters(plan, ret_export);
    if (dt_status_ok(&status))
        status = folder && !options->peft ? list_like(&list) : list_names(&list);
    if (dt_status_ok(&status))
        cut(&list);
    return status;
}

void dt_exportlist_close(DtExport *export) { dt_foreign_close(&export->like.foreign); }

/* Whether an earlier store, of another stage, is the same parameter. */
static bool is_seen(const DtPlan *plan, uint32_t number)
{
    for (uint32_t s = 0; s < number; s++)
        if (plan->stores[s].path == plan->stores[number].path &&
            plan->stores[s].kind == plan->stores[number].kind)
            return true;
    return false;
}

/* Notes that parameters train which are of no adapter: peft's files do not have them. */
static void note_trained(const DtPlan *plan, DtText *ret_notes)
{
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        const DtPlanStore *of = plan->stores[s].of < 0 ? NULL : &plan->stores[plan->stores[s].of];
        if (of == NULL || of->kind != DT_PLAN_PARAM || of->adapter)
            continue;
        dt_text_printf(ret_notes,
                       "%snote: `%s`, which is of no adapter, trains too; the files of --peft do "
                       "not have it",
                       ret_notes->len > 0 ? "\ndtrun: " : "", dt_plan_str(plan, of->path));
        return;
    }
}

void dt_exportlist_note(const DtPlan *plan, const DtExport *export, DtText *ret_notes)
{
    uint32_t n = 0;
    if (export->names->adapters) {
        note_trained(plan, ret_notes);
        return;
    }
    for (uint32_t s = 0; s < plan->n_stores; s++) {
        const DtPlanStore *store = &plan->stores[s];
        const bool counts =
            store->kind == DT_PLAN_PARAM || (store->kind == DT_PLAN_STATE && store->saved);
        if (!counts || store->copy > 0 || is_seen(plan, s) ||
            dt_exportlist_has(plan, export->names, store->path) ||
            merged_into(plan, export->names, store))
            continue;
        if (n == 0)
            dt_text_printf(ret_notes, "%snote: the export leaves out ",
                           ret_notes->len > 0 ? "\ndtrun: " : "");
        if (n++ < 3)
            dt_text_printf(ret_notes, "%s`%s`", n > 1 ? ", " : "", dt_plan_str(plan, store->path));
    }
    if (n > 3)
        dt_text_printf(ret_notes, " and %u more", n - 3);
    if (n)
        dt_text_printf(ret_notes, ": `names %s` has no tensor for %s",
                       dt_plan_str(plan, export->names->name), n > 1 ? "them" : "it");
}
