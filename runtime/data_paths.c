/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files that a reader reads. A relative pattern is relative to the folder of the source
 * file that contains it, as seen from the plan's folder. --data OLD=NEW replaces a file, pattern or
 * folder of the source by another one. */
#include "runtime/data.h"

#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- folders and redirects ---- */

static const char *join(DtArena *memory, const char *folder, const char *name)
{
    if (name[0] == '/' || folder[0] == '\0' || strcmp(folder, ".") == 0)
        return name;
    if (name[0] == '\0' || strcmp(name, ".") == 0)
        return folder;
    return dt_arena_printf(memory, "%s%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/",
                           name);
}

/* The name of the folder for glob(3), with the characters that have a meaning there quoted. */
static const char *quoted(DtArena *memory, const char *folder)
{
    char *copy = dt_arena_alloc(memory, 2 * strlen(folder) + 1), *to = copy;
    for (; *folder; folder++) {
        if (strchr("*?[]\\", *folder) != NULL)
            *to++ = '\\';
        *to++ = *folder;
    }
    return copy;
}

static const char *plan_folder(DtArena *memory, const DtRunOptions *options)
{
    const char *path = options->plan_path ? options->plan_path : "", *slash = strrchr(path, '/');
    if (slash == NULL)
        return ".";
    return slash == path ? "/" : dt_arena_strndup(memory, path, (size_t)(slash - path));
}

static bool has_files(const DtPlanReader *reader) { return reader->source != DT_PLAN_SYNTHETIC; }

/* The part of name after `from`: "" if they are equal, the rest after the slash if `from` is a
 * parent folder; NULL otherwise. */
static const char *rest_behind(const char *name, const char *from)
{
    size_t len = strlen(from);
    while (len > 1 && from[len - 1] == '/')
        len--;
    if (strncmp(name, from, len) != 0)
        return NULL;
    if (name[len] == '\0')
        return "";
    return name[len] == '/' ? name + len + 1 : NULL;
}

/* The part after OLD of a name that the reader has: of its files, or of its tokenizer. NULL: OLD
 * does not begin the name. */
static const char *rest_of_redirect(DtArena *memory, const DtRunOptions *options,
                                    const DtPlan *plan, const DtPlanReader *reader,
                                    const char *name, const DtRedirect *redirect)
{
    if (!has_files(reader) || !*name)
        return NULL;
    const char *rest = rest_behind(name, redirect->from);
    if (rest != NULL)
        return rest;
    const char *folder =
        join(memory, plan_folder(memory, options), dt_plan_str(plan, reader->folder));
    return rest_behind(join(memory, folder, name), redirect->from);
}

static DtStatus unused_redirect(const DtPlan *plan, const DtRedirect *redirect)
{
    DtText list = {0};
    for (uint32_t r = 0; r < plan->n_readers; r++) {
        const char *name = dt_plan_str(plan, plan->readers[r].glob);
        const char *tokenizer = dt_plan_str(plan, plan->readers[r].tokenizer);
        if (has_files(&plan->readers[r]) && (list.at == NULL || strstr(list.at, name) == NULL))
            dt_text_printf(&list, "%s`%s`", list.len ? ", " : "", name);
        if (*tokenizer && strstr(list.at, tokenizer) == NULL)
            dt_text_printf(&list, ", `%s`", tokenizer);
    }
    DtStatus status = dt_status_fail(
        DT_EXIT_USAGE, "--data %.100s=%.100s: the plan reads no `%.100s`, only %.200s",
        redirect->from, redirect->to, redirect->from, list.at ? list.at : "random numbers");
    dt_text_free(&list);
    return status;
}

static DtStatus check_redirects(DtArena *memory, const DtRunOptions *options, const DtPlan *plan)
{
    for (uint32_t i = 0; i < options->n_redirects; i++) {
        bool used = false;
        const DtRedirect *redirect = &options->redirects[i];
        for (uint32_t r = 0; r < plan->n_readers && !used; r++) {
            const DtPlanReader *reader = &plan->readers[r];
            used = rest_of_redirect(memory, options, plan, reader, dt_plan_str(plan, reader->glob),
                                    redirect) != NULL ||
                   rest_of_redirect(memory, options, plan, reader,
                                    dt_plan_str(plan, reader->tokenizer), redirect) != NULL;
        }
        if (!used)
            return unused_redirect(plan, &options->redirects[i]);
    }
    return DT_OK;
}

/* Where a name of the reader is found, with redirects taken into account. */
static void place_name(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                       const DtPlanReader *reader, const char *name, DtDataPlace *ret_place)
{
    for (uint32_t i = 0; i < options->n_redirects; i++) {
        const char *to = options->redirects[i].to;
        const char *rest =
            rest_of_redirect(memory, options, plan, reader, name, &options->redirects[i]);
        if (rest == NULL)
            continue;
        ret_place->synthetic = strcmp(to, "synthetic") == 0;
        ret_place->literal = *rest ? join(memory, to, rest) : to;
        ret_place->pattern = *rest ? join(memory, quoted(memory, to), rest) : to;
        return;
    }
    const char *folder =
        join(memory, plan_folder(memory, options), dt_plan_str(plan, reader->folder));
    ret_place->literal = join(memory, folder, name);
    ret_place->pattern = join(memory, quoted(memory, folder), name);
}

DtStatus dt_datapaths_place(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                            uint32_t number, DtDataPlace *ret_place)
{
    const DtPlanReader *reader = &plan->readers[number];
    *ret_place = (DtDataPlace){.synthetic = options->data_synthetic || !has_files(reader)};
    DtStatus status = check_redirects(memory, options, plan);
    if (dt_status_ok(&status) && !ret_place->synthetic)
        place_name(memory, options, plan, reader, dt_plan_str(plan, reader->glob), ret_place);
    return status;
}

DtStatus dt_datapaths_tokenizer(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                                uint32_t number, const char **ret_path)
{
    const DtPlanReader *reader = &plan->readers[number];
    const char *name = dt_plan_str(plan, reader->tokenizer);
    DtDataPlace place = {0};
    *ret_path = NULL;
    DtStatus status = check_redirects(memory, options, plan);
    if (!dt_status_ok(&status) || !*name)
        return status;
    place_name(memory, options, plan, reader, name, &place);
    if (place.synthetic)
        return dt_status_fail(DT_EXIT_USAGE,
                              "--data %.200s=synthetic: a tokenizer is no source, which random "
                              "numbers could replace",
                              name);
    *ret_path = place.literal;
    return DT_OK;
}

/* ---- names of files ---- */

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_file(const char *path, struct stat *ret_stat)
{
    return stat(path, ret_stat) == 0 && S_ISREG(ret_stat->st_mode);
}

typedef struct FileId {
    dev_t device;
    ino_t number;
    uint32_t order;
} FileId;

static int by_id(const void *a, const void *b)
{
    const FileId *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Keeps the names of regular files, and each file only once, under the first of its names. `names`
 * is sorted. Folders and other things that are no regular files are dropped. */
static void keep_files(DtArena *memory, const char **names, size_t n, DtDataFiles *ret_files)
{
    FileId *ids = DT_NEW_ARRAY(memory, FileId, n + 1);
    bool *keep = DT_NEW_ARRAY(memory, bool, n + 1);
    size_t n_ids = 0;
    struct stat stat_of;
    for (size_t i = 0; i < n; i++)
        if (is_file(names[i], &stat_of))
            ids[n_ids++] = (FileId){stat_of.st_dev, stat_of.st_ino, (uint32_t)i};
    qsort(ids, n_ids, sizeof *ids, by_id);
    for (size_t i = 0; i < n_ids; i++)
        keep[ids[i].order] =
            i == 0 || ids[i].device != ids[i - 1].device || ids[i].number != ids[i - 1].number;
    *ret_files = (DtDataFiles){DT_NEW_ARRAY(memory, const char *, n_ids + 1), 0};
    for (size_t i = 0; i < n; i++)
        if (keep[i])
            ret_files->at[ret_files->n++] = dt_arena_strndup(memory, names[i], strlen(names[i]));
}

static DtStatus nothing_found(const DtDataPlace *place)
{
    struct stat stat_of;
    bool pattern = strpbrk(place->pattern, "*?[") != NULL;
    if (!pattern && stat(place->literal, &stat_of) != 0)
        return dt_status_fail(DT_EXIT_IO, "cannot read %.250s: %s", place->literal,
                              strerror(errno));
    if (!pattern && S_ISDIR(stat_of.st_mode))
        return dt_status_fail(DT_EXIT_IO,
                              "%.200s is a folder; '%.200s/*' names the files in it",
                              place->literal, place->literal);
    return dt_status_fail(DT_EXIT_IO,
                          pattern ? "no file matches %.250s" : "%.250s is no regular file",
                          place->literal);
}

DtStatus dt_datapaths_list(DtArena *memory, const DtDataPlace *place, DtDataFiles *ret_files)
{
    struct stat stat_of;
    glob_t found = {0};
    *ret_files = (DtDataFiles){0};
    if (is_file(place->literal, &stat_of)) {
        keep_files(memory, (const char *[]){place->literal}, 1, ret_files);
        return DT_OK;
    }
    int error = glob(place->pattern, GLOB_NOSORT, NULL, &found);
    if (error == GLOB_NOSPACE || found.gl_pathc > UINT32_MAX / 2)
        return dt_status_fail(DT_EXIT_IO, "%.250s matches too many files", place->literal);
    if (error == 0) {
        const char **names = (const char **)(void *)found.gl_pathv;
        qsort(names, found.gl_pathc, sizeof *names, by_bytes);
        keep_files(memory, names, found.gl_pathc, ret_files);
    }
    globfree(&found);
    return ret_files->n > 0 ? DT_OK : nothing_found(place);
}
