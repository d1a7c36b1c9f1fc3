/* SPDX-License-Identifier: Apache-2.0 */
/* Checks, before any rank starts, for mistakes of the user: a device that this program does not
 * support, data that are missing or have another format, a place where nothing can be written. The
 * supervisor runs these checks, so that each mistake is reported once and at once, and not as the
 * failure of a rank. Nothing is created or written here, and no library is loaded. The ranks check
 * again, since files may change meanwhile. */
#include "runtime/checkpoint.h"
#include "runtime/cluster.h"
#include "runtime/data_same.h"
#include "runtime/export.h"
#include "runtime/foreign.h"
#include "runtime/import.h"
#include "runtime/predict.h"
#include "runtime/reference.h"

#include "base/file.h"
#include "base/hash.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* Whether the run only exports the parameters that it begins with, and saves nothing that would
 * have a record of the data. */
static bool converts(const DtRunOptions *options, const DtPlanMeta *meta)
{
    return options->export && meta->steps == 0 && !(meta->epochs > 0) && !options->save &&
           !options->or_start && options->restarts == 0 && options->elastic == 0;
}

bool dt_preflight_reads(const DtRunOptions *options, const DtPlanMeta *meta, bool is_eval)
{
    if (dt_run_predicts(options) || converts(options, meta))
        return false;
    return options->eval ? is_eval : !is_eval || meta->eval_every > 0;
}

static DtStatus check_names(const DtRunOptions *options, const DtPlan *plan)
{
    const DtDeviceOps *device;
    const DtCommOps *comm;
    return dt_load_choose(options, plan, &device, &comm);
}

/* The checkpoint from which a run continues, as far as the folder tells before ranks start. */
typedef struct Resumed {
    const char *path; /* NULL: there is no checkpoint, or its data do not matter */
    DtManifest manifest;
} Resumed;

/* Finds that checkpoint. A damaged folder is not reported here: the ranks report it, since they
 * also read the tensors. */
static void find_resumed(DtArena *memory, const DtRunOptions *options, Resumed *ret_resumed)
{
    DtCheckpointList list;
    const bool trains = !options->eval && !dt_run_predicts(options) && !options->trial;
    *ret_resumed = (Resumed){.path = NULL};
    if (!trains || !options->resume || options->data_changed)
        return;
    DtStatus status = dt_checkpointlist_read(memory, options->resume, false, &list);
    const DtCheckpointEntry *newest =
        dt_status_ok(&status) ? dt_checkpointlist_newest(&list) : NULL;
    if (!newest)
        return;
    status = dt_manifest_read(memory, dt_arena_printf(memory, "%s/" DT_MANIFEST_NAME, newest->path),
                              &ret_resumed->manifest);
    if (dt_status_ok(&status))
        ret_resumed->path = newest->path;
}

/* All data that the run reads. */
typedef struct Print {
    bool any;
    int64_t bytes;
    uint64_t digest;
} Print;

static void add_fact(Print *print, const DtDataFact *fact)
{
    const int64_t numbers[] = {fact->samples, fact->values, fact->first,
                               fact->bytes,   fact->share,  (int64_t)fact->digest};
    print->any = true;
    print->bytes += fact->bytes;
    print->digest = dt_hash_text(fact->input, print->digest);
    print->digest = dt_hash_bytes(numbers, sizeof numbers, print->digest);
}

static DtStatus check_reader(DtArena *memory, const DtRunOptions *options, const DtData *data,
                             const Resumed *resumed, Print *print, DtText *ret_notes)
{
    DtDataFact fact;
    DtStatus status = dt_data_look(data, ret_notes);
    if (!dt_status_ok(&status) || (!resumed->path && !dt_cluster_several(options)))
        return status;
    status = dt_data_fact(memory, data, &fact);
    if (!dt_status_ok(&status))
        return status;
    add_fact(print, &fact);
    if (!resumed->path)
        return DT_OK;
    status =
        dt_datasame_check(resumed->manifest.data, resumed->manifest.n_data, &fact, resumed->path);
    return dt_status_ok(&status) ? status : dt_datasame_refuse(&status);
}

static DtStatus check_block(const DtRunOptions *options, const DtPlan *plan, bool is_eval,
                            Print *print, DtText *ret_notes)
{
    DtArena *memory = dt_arena_new();
    DtData **readers = DT_NEW_ARRAY(memory, DtData *, plan->n_readers + 1);
    Resumed resumed;
    DtStatus status = dt_data_open_block(options, plan, is_eval, readers);
    find_resumed(memory, options, &resumed);
    for (uint32_t i = 0; i < plan->n_readers && dt_status_ok(&status); i++)
        if (readers[i])
            status = check_reader(memory, options, readers[i], &resumed, print, ret_notes);
    for (uint32_t i = 0; i < plan->n_readers; i++)
        if (readers[i])
            dt_data_close(readers[i]);
    dt_arena_free(memory);
    return status;
}

static DtStatus check_data(DtRunOptions *options, const DtPlan *plan, const DtPlanMeta *meta,
                           DtText *ret_notes)
{
    DtStatus status = DT_OK;
    Print print = {.any = false};
    for (int is_eval = 0; is_eval < 2 && dt_status_ok(&status); is_eval++)
        if (dt_preflight_reads(options, meta, is_eval))
            status = check_block(options, plan, is_eval, &print, ret_notes);
    if (print.any && dt_status_ok(&status)) /* else this node tells the others what is wrong */
        snprintf(options->data, sizeof options->data, "%lld bytes, %016llx",
                 (long long)print.bytes, (unsigned long long)print.digest);
    return status;
}

/* Checks what an evaluation, predictions or the generation of text need from the plan. */
static DtStatus check_question(const DtRunOptions *options, const DtPlan *plan,
                               DtText *ret_notes)
{
    bool held_out = false, shows = false;
    for (uint32_t i = 0; i < plan->n_readers; i++)
        held_out |= plan->readers[i].is_eval;
    for (uint32_t i = 0; i < plan->n_shows; i++)
        shows |= !strcmp(dt_plan_str(plan, plan->shows[i].entry), "eval");
    if (options->eval && (!held_out || !shows))
        return dt_status_fail(DT_EXIT_USAGE, "--eval: the plan has no held-out data: write "
                                             "`eval = every(200, data = ...)` in `train`");
    bool codes = false;
    for (uint32_t i = 0; i < plan->n_entries; i++)
        codes |= !strcmp(dt_plan_str(plan, plan->entries[i].name), "quantize");
    if (options->quantized && !codes)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--quantized: the plan has no codes of weights: write `quantize = "
                              "int8(\"h.*.w\")` in `train`");
    if (options->reference)
        return dt_reference_check(plan, options->reference);
    if (options->n_predict > 0)
        return dt_predict_check(options, plan, ret_notes);
    return options->generate || options->prompts ? dt_generate_check(options, plan, ret_notes)
                                                 : DT_OK;
}

/* Checks that the folder of --resume can be read. If the run may begin without a checkpoint, the
 * folder may be missing. */
static DtStatus check_resumed(const DtRunOptions *options)
{
    const bool may_lack = options->or_start || options->restarts > 0 || options->elastic > 0;
    DIR *folder = options->resume ? opendir(options->resume) : NULL;
    if (!options->resume || folder ||
        (errno == ENOENT && may_lack && !dt_checkpoint_is_name(options->resume))) {
        if (folder)
            closedir(folder);
        return DT_OK;
    }
    return dt_status_fail(DT_EXIT_IO, "cannot open the folder %.300s: %s", options->resume,
                          strerror(errno));
}

/* Whether the folder has a whole checkpoint. weights_only: its moments do not matter. */
static bool has_checkpoint(const char *folder, bool weights_only)
{
    DtCheckpointList list;
    DtArena *memory = dt_arena_new();
    DtStatus status = dt_checkpointlist_read(memory, folder, weights_only, &list);
    const bool has = dt_status_ok(&status) && dt_checkpointlist_newest(&list) != NULL;
    dt_arena_free(memory);
    return has;
}

/* Prints lines, and frees them. */
static void say_list(DtText *list)
{
    if (list->len) {
        list->at[list->len - 1] = '\0';
        dt_text_say(stderr, list->at);
    }
    dt_text_free(list);
}

/* Checks the folders of --import and --weights, unless the run goes on from a checkpoint. All that
 * does not fit is listed in one message. */
static DtStatus check_initial(const DtRunOptions *options, const DtPlan *plan)
{
    DtText list = {0};
    const char *const ours = options->weights ? options->weights : options->resume;
    /* A folder step-N is a checkpoint of ours that lacks its manifest. */
    if (ours && dt_foreign_is(ours) && !dt_checkpoint_is_name(ours))
        return dt_status_fail(DT_EXIT_USAGE,
                              "%.200s has parameters that another program wrote: --import reads "
                              "them",
                              ours);
    if (options->weights && !has_checkpoint(options->weights, true))
        return dt_status_fail(DT_EXIT_IO, "there is no whole checkpoint in %.300s",
                              options->weights);
    if (options->resume &&
        has_checkpoint(options->resume, options->eval || dt_run_predicts(options)))
        return DT_OK;
    DtStatus status = DT_OK;
    const DtPlanNames *names;
    if (options->import)
        status = dt_importnames_check(plan, options->import, "", options->names, false, &list);
    DtArena *memory = dt_arena_new();
    for (uint32_t i = 0; i < options->n_imports && dt_status_ok(&status); i++) {
        const char *folder, *label = dt_import_label(memory, options->imports[i], &folder);
        status = dt_importnames_check(plan, folder, label, NULL, false, &list);
    }
    dt_arena_free(memory);
    if (dt_status_ok(&status) && options->adapters)
        status = dt_importnames_adapters(plan, NULL, "--adapters", &names);
    if (dt_status_ok(&status) && options->adapters)
        status = dt_importnames_check(plan, options->adapters, "", options->names, true, &list);
    say_list(&list);
    return status;
}

/* The folder of another program from which the run's parameters come, by way of the checkpoint that
 * it begins with; NULL: the run begins with none, or that one does not say. */
static const char *imported_by(DtArena *memory, const DtRunOptions *options)
{
    DtCheckpointList list;
    DtManifest manifest;
    const bool resumes = options->resume && has_checkpoint(options->resume, false);
    const char *folder = resumes           ? options->resume
                         : options->n_only ? NULL
                                           : options->weights;
    if (folder == NULL)
        return NULL;
    DtStatus status = dt_checkpointlist_read(memory, folder, !resumes, &list);
    const DtCheckpointEntry *newest =
        dt_status_ok(&status) ? dt_checkpointlist_newest(&list) : NULL;
    if (newest == NULL)
        return NULL;
    status = dt_manifest_read(memory, dt_arena_printf(memory, "%s/" DT_MANIFEST_NAME, newest->path),
                              &manifest);
    return dt_status_ok(&status) ? manifest.imported : NULL;
}

/* Appends a note if the disk has less room than the export needs now: it may have more when the run
 * ends. */
static void note_room(const char *folder, int64_t bytes, DtText *ret_notes)
{
    char need[32], have[32];
    int64_t room;
    if (dt_file_free_above(folder, &room) && room < bytes)
        dt_text_printf(ret_notes, "%snote: the export will have %s, and its disk has room for %s",
                       ret_notes->len > 0 ? "\ndtrun: " : "", dt_text_bytes(need, (double)bytes),
                       dt_text_bytes(have, (double)room));
}

/* Checks that what the run exports has names and a folder to resemble, as it will be at its end.
 * Only the machine of rank 0 writes it. */
static DtStatus check_export(const DtRunOptions *options, const DtPlan *plan, DtText *ret_notes)
{
    DtExport export;
    DtText list = {0};
    if (!options->export || options->node > 0)
        return DT_OK;
    DtArena *memory = dt_arena_new();
    DtStatus status = dt_exportlist_open(memory, options, plan, imported_by(memory, options),
                                         &export, &list);
    if (dt_status_ok(&status))
        dt_exportlist_note(plan, &export, ret_notes);
    if (dt_status_ok(&status))
        note_room(options->export, export.bytes, ret_notes);
    say_list(&list);
    dt_exportlist_close(&export);
    dt_arena_free(memory);
    return status;
}

static DtStatus check_outputs(const DtRunOptions *options)
{
    const bool trains = !options->eval && !dt_run_predicts(options);
    const struct { const char *option, *path; bool folder; } outputs[] = {
        {"--save", options->save, true},
        {"--resume", trains && !options->save ? options->resume : NULL, true},
        {"--log", options->log, false},
        {"--trace", options->trace, false},
        {"--record", options->record, false},
    };
    for (size_t i = 0; i < DT_COUNT(outputs); i++) {
        DtStatus status =
            outputs[i].path ? dt_file_may_make(outputs[i].path, outputs[i].folder) : DT_OK;
        if (!dt_status_ok(&status))
            return dt_status_fail(status.code, "%s %.450s", outputs[i].option, status.message);
    }
    return DT_OK;
}

DtStatus dt_preflight_check(DtRunOptions *options, const DtPlan *plan, const DtPlanMeta *meta,
                            DtText *ret_notes)
{
    if ((options->record || options->compare) && options->attention == DT_ATTENTION_CUDNN)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "--attention cudnn and --%s exclude each other: bytes are compared with "
            "those of the plan's own kernels",
            options->record ? "record" : "compare");
    DtStatus status = dt_cluster_check(options, plan);
    if (dt_status_ok(&status))
        status = check_names(options, plan);
    if (dt_status_ok(&status))
        status = check_question(options, plan, ret_notes);
    if (dt_status_ok(&status))
        status = check_resumed(options);
    if (dt_status_ok(&status))
        status = check_initial(options, plan);
    if (dt_status_ok(&status))
        status = check_data(options, plan, meta, ret_notes);
    if (dt_status_ok(&status))
        status = check_export(options, plan, ret_notes);
    return dt_status_ok(&status) ? check_outputs(options) : status;
}
