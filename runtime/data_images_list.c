/* SPDX-License-Identifier: Apache-2.0 */
/* Which images a source has, and their classes. A place names folders or files. Of a folder all
 * images count, in whatever folder below it they are, by the ends of their names. The class of an
 * image is the name of the folder that it is in: "train", "train/x" and "train/x/y.png" all give
 * y.png the class x. Classes are numbered in byte order of their names. */
#include "runtime/data_images.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { MOST_DEPTH = 16 }; /* of folders in folders: a link may lead in a circle */

typedef struct Finder {
    DtArena *memory;
    DtImageList *list;
    bool labels;
} Finder;

typedef enum Ending { IS_IMAGE, IS_OTHER_IMAGE, IS_SOMETHING } Ending;

static Ending ending_of(const char *name)
{
    static const char *const read[] = {".png", ".jpg", ".jpeg", ".jpe", ".jfif"},
                             *const others[] = {".webp", ".gif",  ".bmp",  ".tif", ".tiff", ".ppm",
                                                ".pgm",  ".avif", ".heic", ".jp2", ".jxl"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < DT_COUNT(read); i++)
        if (strcasecmp(dot, read[i]) == 0)
            return IS_IMAGE;
    for (size_t i = 0; dot && i < DT_COUNT(others); i++)
        if (strcasecmp(dot, others[i]) == 0)
            return IS_OTHER_IMAGE;
    return IS_SOMETHING;
}

void dt_imagelist_path(const DtImageList *list, const DtImageItem *item, char ret_path[4096])
{
    if (item->name)
        snprintf(ret_path, 4096, "%s/%s", list->folders.at[item->of], item->name);
    else
        snprintf(ret_path, 4096, "%s", list->packs.at[item->of].path);
}

static void add_file(Finder *f, uint32_t folder, const char *name)
{
    const DtImageItem item = {.name = dt_arena_strndup(f->memory, name, strlen(name)),
                              .of = folder};
    DT_PUSH(f->memory, f->list->items, item);
}

static DtStatus refuse_format(const char *folder, const char *name)
{
    return dt_status_fail(
        DT_EXIT_IO,
        "%.200s/%.100s is of a format that cannot be read, only PNG and JPEG can: "
        "PIL.Image.open(FILE).convert('RGB').save('NEW.png')",
        folder, name);
}

/* ---- folders ---- */

static DtStatus add_folder(Finder *f, const char *path, int depth);

/* Adds what a name of a folder stands for. */
static DtStatus add_entry(Finder *f, uint32_t folder, const struct dirent *entry, int depth)
{
    const char *at = f->list->folders.at[folder], *name = entry->d_name;
    const Ending ending = ending_of(name);
    struct stat stat_of;
    if (name[0] == '.')
        return DT_OK;
    if (ending == IS_IMAGE && entry->d_type == DT_REG) {
        add_file(f, folder, name);
        return DT_OK;
    }
    const char *path = dt_arena_printf(f->memory, "%s/%s", at, name);
    if (stat(path, &stat_of) != 0)
        return dt_status_fail(DT_EXIT_IO, "cannot read %.300s: %s", path, strerror(errno));
    if (S_ISDIR(stat_of.st_mode))
        return add_folder(f, path, depth + 1);
    if (S_ISREG(stat_of.st_mode) && ending == IS_OTHER_IMAGE)
        return refuse_format(at, name);
    if (S_ISREG(stat_of.st_mode) && ending == IS_IMAGE)
        add_file(f, folder, name);
    else if (f->list->skipped++ == 0)
        f->list->first_skipped = path;
    return DT_OK;
}

static DtStatus add_folder(Finder *f, const char *path, int depth)
{
    DIR *folder = depth < MOST_DEPTH ? opendir(path) : NULL;
    if (!folder)
        return dt_status_fail(DT_EXIT_IO, "cannot read the folder %.300s: %s", path,
                              depth < MOST_DEPTH ? strerror(errno) : "folders in too many folders");
    const uint32_t number = f->list->folders.n;
    DtStatus status = DT_OK;
    DT_PUSH(f->memory, f->list->folders, path);
    for (struct dirent *entry; dt_status_ok(&status) && (entry = readdir(folder)) != NULL;)
        status = add_entry(f, number, entry, depth);
    closedir(folder);
    return status;
}

/* ---- names ---- */

/* The number of the folder that a file is in. Files of a pattern come folder by folder. */
static uint32_t folder_of(Finder *f, const char *path, size_t len)
{
    DtImageList *list = f->list;
    const char *last = list->folders.n ? list->folders.at[list->folders.n - 1] : "";
    if (list->folders.n == 0 || strlen(last) != len || strncmp(last, path, len) != 0)
        DT_PUSH(f->memory, list->folders, dt_arena_strndup(f->memory, path, len));
    return list->folders.n - 1;
}

static DtStatus add_name(Finder *f, const char *name)
{
    struct stat stat_of;
    if (stat(name, &stat_of) != 0)
        return dt_status_fail(DT_EXIT_IO, "cannot read %.300s: %s", name, strerror(errno));
    if (S_ISDIR(stat_of.st_mode))
        return add_folder(f, dt_arena_strndup(f->memory, name, strlen(name)), 0);
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *folder = slash ? name : ".";
    const size_t len = slash ? (size_t)(slash - name) : 1;
    if (ending_of(base) == IS_OTHER_IMAGE)
        return refuse_format(len < 200 ? dt_arena_strndup(f->memory, folder, len) : ".", base);
    if (ending_of(base) == IS_SOMETHING)
        return dt_imagepack_add(f->memory, name, f->labels, f->list);
    add_file(f, folder_of(f, len ? folder : "/", len ? len : 1), base);
    return DT_OK;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static DtStatus add_all(Finder *f, const DtDataPlace *place)
{
    struct stat stat_of;
    glob_t found = {0};
    if (stat(place->literal, &stat_of) == 0)
        return add_name(f, place->literal);
    const int error = glob(place->pattern, GLOB_NOSORT, NULL, &found);
    DtStatus status =
        error == GLOB_NOSPACE ? dt_status_fail(DT_EXIT_RETRY, "no memory for names") : DT_OK;
    if (error == 0) {
        const char **names = (const char **)(void *)found.gl_pathv;
        qsort(names, found.gl_pathc, sizeof *names, by_bytes);
        for (size_t i = 0; i < found.gl_pathc && dt_status_ok(&status); i++)
            status = add_name(f, names[i]);
    }
    globfree(&found);
    return status;
}

/* ---- classes ---- */

/* The name of a folder without those above it. "." is the working folder. */
static const char *class_of(const DtImageList *list, uint32_t folder)
{
    const char *path = list->folders.at[folder];
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        len--;
    while (len > 0 && path[len - 1] != '/')
        len--;
    return path + len;
}

static uint32_t find_class(const DtImageList *list, const char *name)
{
    const char **found =
        bsearch(&name, list->classes, list->n_classes, sizeof *list->classes, by_bytes);
    return found ? (uint32_t)(found - list->classes) : UINT32_MAX;
}

/* Lists the names of the classes, and gives each image the number of its own. */
static void number_classes(DtArena *memory, DtImageList *list)
{
    bool *used = DT_NEW_ARRAY(memory, bool, list->folders.n + 1);
    uint32_t *numbers = DT_NEW_ARRAY(memory, uint32_t, list->folders.n + 1);
    list->classes = DT_NEW_ARRAY(memory, const char *, list->folders.n + 1);
    for (uint32_t i = 0; i < list->items.n; i++)
        used[list->items.at[i].of] = true;
    uint32_t n = 0, kept = 0;
    for (uint32_t i = 0; i < list->folders.n; i++)
        if (used[i])
            list->classes[n++] = class_of(list, i);
    qsort(list->classes, n, sizeof *list->classes, by_bytes);
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || strcmp(list->classes[kept - 1], list->classes[i]) != 0)
            list->classes[kept++] = list->classes[i];
    list->n_classes = kept;
    for (uint32_t i = 0; i < list->folders.n; i++)
        numbers[i] = find_class(list, class_of(list, i));
    for (uint32_t i = 0; i < list->items.n; i++)
        list->items.at[i].label = (int32_t)numbers[list->items.at[i].of];
}

DtStatus dt_imagelist_rename(DtImageList *list, const DtImageList *as, const char *path)
{
    int32_t *numbers = malloc((list->n_classes + 1) * sizeof *numbers);
    DtStatus status = numbers ? DT_OK : dt_status_fail(DT_EXIT_RETRY, "no memory for classes");
    for (uint32_t i = 0; i < list->n_classes && dt_status_ok(&status); i++) {
        const uint32_t number = find_class(as, list->classes[i]);
        numbers[i] = (int32_t)number;
        if (number == UINT32_MAX)
            status = dt_status_fail(DT_EXIT_IO,
                                    "%.200s has the class `%.100s`, and the training data has none "
                                    "of that name",
                                    path, list->classes[i]);
    }
    for (uint32_t i = 0; i < list->items.n && dt_status_ok(&status); i++)
        list->items.at[i].label = numbers[list->items.at[i].label];
    free(numbers);
    if (dt_status_ok(&status)) {
        list->classes = as->classes;
        list->n_classes = as->n_classes;
    }
    return status;
}

/* ---- order ---- */

static int by_class_and_path(const void *a, const void *b, void *context)
{
    const DtImageItem *x = a, *y = b;
    const DtImageList *list = context;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    const int folders =
        x->of == y->of ? 0 : strcmp(list->folders.at[x->of], list->folders.at[y->of]);
    return folders ? folders : strcmp(x->name, y->name);
}

DtStatus dt_imagelist_find(DtArena *memory, const DtDataPlace *place, bool labels,
                           DtImageList *ret_list)
{
    Finder finder = {memory, ret_list, labels};
    *ret_list = (DtImageList){0};
    DtStatus status = add_all(&finder, place);
    if (!dt_status_ok(&status))
        return status;
    if (ret_list->packs.n > 0 && ret_list->folders.n > 0)
        return dt_status_fail(
            DT_EXIT_IO,
            "%.200s has images in files of their own and %.200s, which holds many: "
            "a source has either",
            place->literal, ret_list->packs.at[0].path);
    DtDataFiles none;
    if (ret_list->folders.n == 0 && ret_list->packs.n == 0) /* says why */
        return dt_datapaths_list(memory, place, &none);
    if (ret_list->items.n == 0)
        return dt_status_fail(
            DT_EXIT_IO, "%.200s has no images: no file in it ends with .png, .jpg or .jpeg%s%.150s",
            place->literal, ret_list->first_skipped ? ", as " : "",
            ret_list->first_skipped ? ret_list->first_skipped : "");
    if (ret_list->packs.n > 0)
        return DT_OK;
    number_classes(memory, ret_list);
    qsort_r(ret_list->items.at, ret_list->items.n, sizeof *ret_list->items.at, by_class_and_path,
            ret_list);
    return DT_OK;
}
