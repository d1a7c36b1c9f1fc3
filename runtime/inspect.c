/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/inspect.h"

#include "runtime/checkpoint.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What is known of one file. */
typedef struct File {
    const DtManifestFile *said;
    uint32_t tensors;
    int64_t elements;
    const char *digests; /* "not compared", "right", or "damaged" */
} File;

typedef struct Inspected {
    const char *path;
    DtManifest manifest;
    File *files;
    uint32_t n; /* files that were looked at */
} Inspected;

static int64_t elements_of(const DtTensor *tensor)
{
    int64_t n = 1;
    for (uint32_t a = 0; a < tensor->n_axes; a++)
        n *= tensor->extents[a];
    return n;
}

/* Chooses the checkpoint: the path itself, or the newest whole one in the folder. */
static DtStatus choose(DtArena *memory, const char *path, const char **ret_path)
{
    DtCheckpointList list;
    DtStatus status = dt_checkpointlist_read(memory, path, true, &list);
    if (!dt_status_ok(&status))
        return status;
    const DtCheckpointEntry *newest = dt_checkpointlist_newest(&list);
    if (newest) {
        *ret_path = newest->path;
        return DT_OK;
    }
    return list.n ? list.at[0].why
                  : dt_status_fail(DT_EXIT_IO, "there is no checkpoint in %.300s", path);
}

/* Looks at the files of a kind, and at all of their bytes if it verifies. */
static DtStatus look_at(DtArena *memory, Inspected *all, DtSavedFile kind, bool verifies)
{
    DtCheckpointFiles files;
    DtStatus status = dt_checkpointfiles_open(memory, all->path, &all->manifest, kind, &files);
    if (!dt_status_ok(&status))
        return status;
    for (uint32_t f = 0; f < files.n; f++) {
        File *file = &all->files[all->n++];
        DtStatus found = DT_OK;
        *file = (File){.said = files.said[f], .digests = "not compared"};
        for (int64_t c = 0; verifies && c < file->said->n_chunks && dt_status_ok(&found); c++)
            found = dt_checkpointfiles_check_chunk(&files, f, c);
        for (uint32_t i = 0; i < files.all.n; i++) {
            const DtTensor *tensor = &files.all.tensors[i];
            if (tensor->file != f)
                continue;
            file->tensors++;
            file->elements += elements_of(tensor);
            if (verifies && dt_status_ok(&found)) /* all of it was compared, but in format 1 */
                found = dt_checkpointfiles_check(&files, tensor);
        }
        if (verifies)
            file->digests = dt_status_ok(&found) ? "right" : "damaged";
        if (dt_status_ok(&status))
            status = found;
    }
    dt_checkpointfiles_close(&files);
    return status;
}

/* ---- text ---- */

static void add_time(const DtManifest *m, DtText *text)
{
    const time_t seconds = (time_t)(m->serial / 1000000000);
    struct tm at;
    char shown[40];
    if (gmtime_r(&seconds, &at) && strftime(shown, sizeof shown, "%Y-%m-%d %H:%M:%S UTC", &at))
        dt_text_printf(text, "saved       %s\n", shown);
}

static void add_updates(const DtManifest *m, DtText *text)
{
    dt_text_printf(text, "updates     ");
    for (uint32_t i = 0; i < m->n_updates; i++) {
        dt_text_printf(text, "%s%lld", i ? ", " : "", (long long)m->updates[i].n);
        if (m->updates[i].loss)
            dt_text_printf(text, " of `%s`", m->updates[i].loss);
    }
    dt_text_add(text, "\n");
}

static void add_files(const Inspected *all, DtText *text)
{
    static const char *const kinds[] = {"parameters and states", "moments and averages"};
    char size[32];
    for (int kind = 0; kind < DT_SAVED_FILES; kind++) {
        int64_t elements = 0, tensors = 0;
        for (uint32_t i = 0; i < all->n; i++)
            if (all->files[i].said->kind == (DtSavedFile)kind) {
                elements += all->files[i].elements;
                tensors += all->files[i].tensors;
            }
        dt_text_printf(text, "%s: %lld elements in %lld tensors\n", kinds[kind],
                       (long long)elements, (long long)tensors);
        for (uint32_t i = 0; i < all->n; i++)
            if (all->files[i].said->kind == (DtSavedFile)kind)
                dt_text_printf(text, "  %-36s %10s   digests %s\n", all->files[i].said->name,
                               dt_text_bytes(size, (double)all->files[i].said->bytes),
                               all->files[i].digests);
    }
}

static void print(const Inspected *all, DtText *text)
{
    const DtManifest *m = &all->manifest;
    dt_text_printf(text, "%s\n", all->path);
    dt_text_printf(text, "program     %s, compiled by %s, plan %016" PRIx64 "\n", m->model,
                   m->compiler, m->plan);
    dt_text_printf(text, "step        %lld, after %lld samples in batches of %lld, seed %" PRIu64
                         "\n",
                   (long long)m->steps, (long long)m->samples, (long long)m->batch, m->seed);
    add_updates(m, text);
    add_time(m, text);
    if (m->scale.is_dynamic)
        dt_text_printf(text, "loss scale  %g, %lld updates skipped\n", m->scale.factor,
                       (long long)m->scale.skipped);
    if (m->best.any)
        dt_text_printf(text, "best loss   %.4f after step %lld\n", m->best.loss,
                       (long long)m->best.steps);
    if (m->imported)
        dt_text_printf(text, "began with  %s\n", m->imported);
    for (uint32_t i = 0; i < m->n_data; i++)
        dt_text_printf(text, "data        %s: %lld samples\n", m->data[i].input,
                       (long long)m->data[i].samples);
    add_files(all, text);
    if (m->format < 2)
        dt_text_add(text, "written by an older version: its digests are XXH3-64, of each tensor\n");
}

/* ---- JSON ---- */

static json_t *file_json(const File *file)
{
    char root[DT_DIGEST_TEXT];
    uint8_t digest[DT_DIGEST_BYTES];
    json_t *object = json_pack(
        "{s:s, s:I, s:i, s:I, s:I, s:s}", "name", file->said->name, "bytes",
        (json_int_t)file->said->bytes, "tensors", (int)file->tensors, "elements",
        (json_int_t)file->elements, "chunks", (json_int_t)file->said->n_chunks, "digests",
        file->digests);
    if (object && file->said->chunks) {
        dt_manifest_root(file->said, digest);
        dt_digest_text(digest, root);
        json_object_set_new(object, "digest", json_string(root));
    }
    return object;
}

static json_t *updates_json(const DtManifest *m)
{
    json_t *updates = json_object();
    for (uint32_t i = 0; i < m->n_updates; i++)
        json_object_set_new(updates, m->updates[i].loss ? m->updates[i].loss : "loss",
                            json_integer((json_int_t)m->updates[i].n));
    return updates;
}

static DtStatus print_json(const Inspected *all, const DtStatus *status, DtText *text)
{
    const DtManifest *m = &all->manifest;
    char plan[20];
    json_t *files = json_array(), *data = json_array();
    for (uint32_t i = 0; i < all->n; i++)
        json_array_append_new(files, file_json(&all->files[i]));
    for (uint32_t i = 0; i < m->n_data; i++)
        json_array_append_new(data, json_pack("{s:s, s:I}", "input", m->data[i].input, "samples",
                                              (json_int_t)m->data[i].samples));
    snprintf(plan, sizeof plan, "%016" PRIx64, m->plan);
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:b}", "path", all->path,
        "model", m->model, "compiler", m->compiler, "plan", plan, "format", (json_int_t)m->format,
        "steps", (json_int_t)m->steps, "samples", (json_int_t)m->samples, "batch",
        (json_int_t)m->batch, "seed", (json_int_t)m->seed, "serial", (json_int_t)m->serial,
        "updates", updates_json(m), "data", data, "files", files, "damaged",
        !dt_status_ok(status));
    if (root && !dt_status_ok(status))
        json_object_set_new(root, "why", json_string(status->message));
    char *out = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (out == NULL)
        return dt_status_fail(DT_EXIT_FAILED, "%.300s: a name in it is no UTF-8", all->path);
    dt_text_printf(text, "%s\n", out);
    free(out);
    return *status;
}

DtStatus dt_inspect(const char *path, bool verifies, bool json, DtText *ret_text)
{
    DtArena *memory = dt_arena_new();
    Inspected all = {0};
    DtStatus status = choose(memory, path, &all.path);
    if (dt_status_ok(&status))
        status = dt_manifest_read(
            memory, dt_arena_printf(memory, "%s/" DT_MANIFEST_NAME, all.path), &all.manifest);
    if (dt_status_ok(&status)) {
        all.files = DT_NEW_ARRAY(memory, File, all.manifest.n_files + 1);
        for (int kind = 0; kind < DT_SAVED_FILES; kind++) {
            const DtStatus found = look_at(memory, &all, kind, verifies);
            if (dt_status_ok(&status))
                status = found;
        }
        if (json)
            status = print_json(&all, &status, ret_text);
        else
            print(&all, ret_text);
    }
    dt_arena_free(memory);
    return status;
}
