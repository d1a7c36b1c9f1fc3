/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a folder of safetensors files as published checkpoints have them: one file, or several
 * with an index. The index is {"weight_map": {"tensor": "file.safetensors", ...}, ...}; each tensor
 * is in the file that it names and in no other. */
#include "runtime/foreign.h"

#include "base/file.h"
#include "base/modelconfig.h"
#include "base/tryread.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_FILES = 1 << 14, MAX_NAME = 255 };

#define SUFFIX ".safetensors"

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* ---- formats that are refused ---- */

static const char *const tensor_to_file =
    "python3 -c 'import sys, torch, safetensors.torch as s; t = torch.load(sys.argv[1], "
    "map_location=\"cpu\", weights_only=True); s.save_file({k: v.clone().contiguous() for k, v in "
    "t.items()}, sys.argv[2])' %.120s model.safetensors";

static DtStatus refuse_format(const char *path)
{
    if (ends_with(path, ".gguf"))
        return dt_status_fail(
            DT_EXIT_USAGE,
            "%.200s is quantised for llama.cpp: import the safetensors files that "
            "it was made from",
            path);
    char command[400];
    snprintf(command, sizeof command, tensor_to_file, path);
    return dt_status_fail(DT_EXIT_USAGE,
                          "%.100s is a pickle, whose reader runs code. Convert it: %.380s", path,
                          command);
}

/* Whether the name is that of a file of another format. In a folder, .bin files may be data. */
static bool is_refused(const char *name)
{
    static const char *const ends[] = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".gguf"};
    for (size_t i = 0; i < DT_COUNT(ends); i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* What the file says it is, if that is not what its name says. */
static DtStatus check_magic(const char *path, const DtFileView *view)
{
    static const char pointer[] = "version https://git-lfs";
    char at[32] = "";
    if (view->len == 0 ||
        dt_tryread_copy(view, at, view->at, view->len < sizeof at ? view->len : sizeof at))
        return DT_OK; /* opening the file says what is wrong with it */
    if (memcmp(at, pointer, sizeof pointer - 1) == 0)
        return dt_status_fail(DT_EXIT_IO,
                              "%.300s is a pointer of Git LFS, not the file: `git lfs pull` in its "
                              "folder fetches it",
                              path);
    if (memcmp(at, "PK\3\4", 4) == 0 || memcmp(at, "\x80\2}q", 4) == 0)
        return refuse_format(path);
    if (memcmp(at, "GGUF", 4) == 0)
        return refuse_format(".gguf");
    return DT_OK;
}

/* ---- config.json ---- */

static DtStatus read_config(DtArena *memory, const char *path, DtForeign *foreign)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return DT_OK;
    DtStatus status = dt_modelconfig_read(memory, path, &foreign->config);
    const char *quantised =
        dt_status_ok(&status)
            ? dt_modelconfig_quantised(memory, foreign->config, foreign->folder)
            : NULL;
    return quantised ? dt_status_fail(DT_EXIT_USAGE, "%s", quantised) : status;
}

/* ---- files ---- */

static DtStatus open_tensors(DtArena *memory, const char *path, DtForeign *foreign)
{
    DtFileView view;
    DtStatus status = dt_file_map(path, &view);
    if (!dt_status_ok(&status))
        return status;
    status = check_magic(path, &view);
    dt_file_unmap(&view);
    if (!dt_status_ok(&status))
        return status;
    foreign->paths[foreign->n_files] = path;
    status = dt_safetensors_open_foreign(memory, path, &foreign->files[foreign->n_files]);
    foreign->n_files += dt_status_ok(&status);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const DtForeignTensor *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

/* All tensors in the order of their names, of which no two are equal. */
static DtStatus join(DtArena *memory, DtForeign *foreign)
{
    uint64_t n = 0;
    for (uint32_t f = 0; f < foreign->n_files; f++)
        n += foreign->files[f].n;
    if (n > UINT32_MAX / 2)
        return dt_status_fail(DT_EXIT_IO, "%.300s has too many tensors", foreign->folder);
    foreign->tensors = DT_NEW_ARRAY(memory, DtForeignTensor, n + 1);
    for (uint32_t f = 0; f < foreign->n_files; f++)
        for (uint32_t i = 0; i < foreign->files[f].n; i++)
            foreign->tensors[foreign->n++] = (DtForeignTensor){&foreign->files[f].tensors[i], f};
    qsort(foreign->tensors, foreign->n, sizeof *foreign->tensors, by_name);
    for (uint32_t i = 1; i < foreign->n; i++)
        if (by_name(&foreign->tensors[i - 1], &foreign->tensors[i]) == 0)
            return dt_status_fail(DT_EXIT_IO, "tensor `%.100s` is in %.150s and in %.150s",
                                  foreign->tensors[i].tensor->name,
                                  foreign->paths[foreign->tensors[i - 1].file],
                                  foreign->paths[foreign->tensors[i].file]);
    return DT_OK;
}

const DtForeignTensor *dt_foreign_find(const DtForeign *foreign, const char *name)
{
    DtTensor wanted = {.name = name};
    const DtForeignTensor key = {&wanted, 0};
    return foreign->n ? bsearch(&key, foreign->tensors, foreign->n, sizeof key, by_name) : NULL;
}

/* ---- an index ---- */

/* A name that stays in the folder. */
static bool is_file_name(const char *name)
{
    return name && name[0] != '.' && name[0] != '\0' && strlen(name) <= MAX_NAME &&
           strchr(name, '/') == NULL && ends_with(name, SUFFIX);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that the index names, each once. */
static DtStatus list_files(DtArena *memory, const char *path, json_t *map, const char ***ret_names,
                           uint32_t *ret_n)
{
    const char *tensor;
    json_t *value;
    const char **names = DT_NEW_ARRAY(memory, const char *, json_object_size(map) + 1);
    uint32_t n = 0, unique = 0;
    json_object_foreach(map, tensor, value)
    {
        const char *name = json_string_value(value);
        if (!is_file_name(name))
            return dt_status_fail(DT_EXIT_IO,
                                  "%.200s is damaged: tensor `%.100s` is in no file of this folder "
                                  "that ends with " SUFFIX,
                                  path, tensor);
        names[n++] = name;
    }
    qsort(names, n, sizeof *names, by_text);
    for (uint32_t i = 0; i < n; i++)
        if (unique == 0 || strcmp(names[unique - 1], names[i]) != 0)
            names[unique++] = names[i];
    if (unique == 0 || unique > MAX_FILES)
        return dt_status_fail(DT_EXIT_IO, "%.300s is damaged: it names %u files", path, unique);
    *ret_names = names;
    *ret_n = unique;
    return DT_OK;
}

/* Each tensor is where the index says, and the index has each. */
static DtStatus compare_index(const char *path, json_t *map, const DtForeign *foreign)
{
    const char *name;
    json_t *value;
    for (uint32_t i = 0; i < foreign->n; i++) {
        const DtForeignTensor *found = &foreign->tensors[i];
        const char *said = json_string_value(json_object_get(map, found->tensor->name));
        const char *file = strrchr(foreign->paths[found->file], '/') + 1;
        if (said == NULL || strcmp(said, file) != 0)
            return dt_status_fail(
                DT_EXIT_IO,
                "%.150s and the files differ: tensor `%.100s` is in %.80s, and the index %s%.80s",
                path, found->tensor->name, file, said ? "says " : "does not have it",
                said ? said : "");
    }
    json_object_foreach(map, name, value)
    {
        if (dt_foreign_find(foreign, name) == NULL)
            return dt_status_fail(DT_EXIT_IO,
                                  "%.150s and the files differ: tensor `%.100s` is not in %.100s",
                                  path, name, json_string_value(value));
    }
    return DT_OK;
}

static DtStatus open_index(DtArena *memory, const char *path, DtForeign *foreign)
{
    json_t *index = NULL;
    const char **names;
    uint32_t n = 0;
    DtStatus status = dt_modelconfig_read(memory, path, &index);
    if (!dt_status_ok(&status))
        return status;
    json_t *map = json_object_get(index, "weight_map");
    if (!json_is_object(map))
        status = dt_status_fail(DT_EXIT_IO, "%.300s is damaged: it has no weight_map", path);
    if (dt_status_ok(&status))
        status = list_files(memory, path, map, &names, &n);
    foreign->files = DT_NEW_ARRAY(memory, DtTensorFile, n + 1);
    foreign->paths = DT_NEW_ARRAY(memory, const char *, n + 1);
    for (uint32_t i = 0; i < n && dt_status_ok(&status); i++)
        status = open_tensors(memory, dt_arena_printf(memory, "%s/%s", foreign->folder, names[i]),
                              foreign);
    if (dt_status_ok(&status))
        status = join(memory, foreign);
    if (dt_status_ok(&status))
        status = compare_index(path, map, foreign);
    json_decref(index);
    return status;
}

/* ---- a folder ---- */

/* The names in a folder that decide how it is read. */
typedef struct Found {
    bool model, index, ours, refused, adapters;
    uint32_t n_tensors; /* files of tensors */
    char tensors[MAX_NAME + 1], other[MAX_NAME + 1];
} Found;

static bool look(const char *folder, Found *ret_found)
{
    DIR *dir = opendir(folder);
    *ret_found = (Found){.model = false};
    for (const struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        const char *name = entry->d_name;
        ret_found->model |= strcmp(name, "model" SUFFIX) == 0;
        ret_found->index |= strcmp(name, "model" SUFFIX ".index.json") == 0;
        ret_found->adapters |= strcmp(name, "adapter_config.json") == 0;
        ret_found->ours |= strcmp(name, "manifest.json") == 0 || strncmp(name, "step-", 5) == 0;
        if (is_file_name(name)) {
            ret_found->n_tensors++;
            snprintf(ret_found->tensors, sizeof ret_found->tensors, "%s", name);
        }
        const bool is_data = ends_with(name, ".bin") && strstr(name, "model") == NULL;
        if (is_refused(name) && !is_data &&
            (!ret_found->refused || strcmp(name, ret_found->other) < 0)) {
            ret_found->refused = true;
            snprintf(ret_found->other, sizeof ret_found->other, "%s", name);
        }
    }
    if (dir)
        closedir(dir);
    return dir != NULL;
}

bool dt_foreign_is(const char *folder)
{
    Found found;
    return look(folder, &found) && !found.ours &&
           (found.model || found.index || found.n_tensors > 0);
}

static DtStatus open_one(DtArena *memory, const char *path, DtForeign *foreign)
{
    foreign->files = DT_NEW(memory, DtTensorFile);
    foreign->paths = DT_NEW(memory, const char *);
    DtStatus status = open_tensors(memory, path, foreign);
    return dt_status_ok(&status) ? join(memory, foreign) : status;
}

static DtStatus open_folder(DtArena *memory, DtForeign *foreign)
{
    Found found;
    const char *folder = foreign->folder;
    if (!look(folder, &found))
        return dt_status_fail(DT_EXIT_IO, "cannot open the folder %.300s", folder);
    if (found.ours)
        return dt_status_fail(
            DT_EXIT_USAGE,
            "%.200s has checkpoints of dtrun: --resume goes on from them, --weights "
            "takes their parameters",
            folder);
    if (found.adapters && !found.model && !found.index)
        return dt_status_fail(DT_EXIT_USAGE,
                              "%.200s has adapters alone, which peft wrote: --adapters reads them, "
                              "over the parameters of --import or --weights",
                              folder);
    DtStatus status =
        read_config(memory, dt_arena_printf(memory, "%s/config.json", folder), foreign);
    if (!dt_status_ok(&status))
        return status;
    if (found.model || (!found.index && found.n_tensors == 1))
        return open_one(
            memory,
            dt_arena_printf(memory, "%s/%s", folder, found.model ? "model" SUFFIX : found.tensors),
            foreign);
    if (found.index)
        return open_index(memory, dt_arena_printf(memory, "%s/model" SUFFIX ".index.json", folder),
                          foreign);
    if (found.n_tensors > 1)
        return dt_status_fail(DT_EXIT_IO,
                              "%.300s has %u " SUFFIX " files and no model" SUFFIX
                              ".index.json, which "
                              "says what is in them",
                              folder, found.n_tensors);
    if (found.refused)
        return refuse_format(dt_arena_printf(memory, "%s/%s", folder, found.other));
    return dt_status_fail(DT_EXIT_IO, "%.300s has no " SUFFIX " file", folder);
}

DtStatus dt_foreign_open_adapters(DtArena *memory, const char *folder, DtForeign *ret_foreign)
{
    const char *const tensors = "adapter_model" SUFFIX, *const config = "adapter_config.json";
    *ret_foreign = (DtForeign){.folder = folder};
    const char *path = dt_arena_printf(memory, "%s/%s", folder, tensors);
    const char *pickle = dt_arena_printf(memory, "%s/adapter_model.bin", folder);
    if (access(path, F_OK) != 0)
        return access(pickle, F_OK) == 0
                   ? refuse_format(pickle)
                   : dt_status_fail(DT_EXIT_IO, "%.300s has no %s, which peft writes", folder,
                                    tensors);
    DtStatus status =
        read_config(memory, dt_arena_printf(memory, "%s/%s", folder, config), ret_foreign);
    if (dt_status_ok(&status))
        status = open_one(memory, path, ret_foreign);
    if (!dt_status_ok(&status))
        dt_foreign_close(ret_foreign);
    return status;
}

DtStatus dt_foreign_open(DtArena *memory, const char *folder, DtForeign *ret_foreign)
{
    struct stat about;
    *ret_foreign = (DtForeign){.folder = folder};
    DtStatus status;
    if (stat(folder, &about) == 0 && S_ISREG(about.st_mode))
        status =
            is_refused(folder)
                ? refuse_format(folder)
                : read_config(memory, dt_file_beside(memory, folder, "config.json"), ret_foreign);
    else
        status = open_folder(memory, ret_foreign);
    if (dt_status_ok(&status) && ret_foreign->n_files == 0)
        status = open_one(memory, folder, ret_foreign);
    if (!dt_status_ok(&status))
        dt_foreign_close(ret_foreign);
    return status;
}

void dt_foreign_close(DtForeign *foreign)
{
    for (uint32_t f = 0; f < foreign->n_files; f++)
        dt_safetensors_close(&foreign->files[f]);
    json_decref(foreign->config);
    foreign->config = NULL;
    foreign->n_files = foreign->n = 0;
}
