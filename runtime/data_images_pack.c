/* SPDX-License-Identifier: Apache-2.0 */
/* Files of many images. CIFAR-10: records of a label and 32 x 32 pixels, one colour after the
 * other; CIFAR-100: two labels, of which the second counts
 * (https://www.cs.toronto.edu/~kriz/cifar.html, the binary version). MNIST: idx files of three
 * axes, or four; their labels are in another file, whose name has "labels-idx1" where that of the
 * images has "images-idx3". */
#include "runtime/data_images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 32, PIXELS = 3 * SIDE * SIDE, MOST_SIDE = 1 << 16 };

typedef struct Open {
    const char *path;
    int fd;
    int64_t bytes;
} Open;

static DtStatus open_file(const char *path, Open *ret_file)
{
    struct stat stat_of;
    *ret_file = (Open){path, open(path, O_RDONLY | O_CLOEXEC), 0};
    if (ret_file->fd >= 0 && fstat(ret_file->fd, &stat_of) == 0) {
        ret_file->bytes = stat_of.st_size;
        return DT_OK;
    }
    return dt_status_fail(DT_EXIT_IO, "cannot read %.300s: %s", path, strerror(errno));
}

static bool read_at(const Open *file, int64_t at, uint8_t *to, size_t n)
{
    return pread(file->fd, to, n, at) == (ssize_t)n;
}

/* ---- CIFAR ---- */

/* Adds a label for each record: the byte `which` of it. False: one of the `labels` bytes before its
 * pixels is no class of `most`. */
static bool add_records(DtArena *memory, const Open *file, const DtImagePack *pack, int labels,
                        const uint8_t *most, DtImageList *list)
{
    const uint32_t before = list->items.n;
    uint8_t label[2];
    for (int64_t i = 0; i < pack->n; i++) {
        bool good = read_at(file, i * pack->stride, label, (size_t)labels);
        for (int k = 0; k < labels; k++)
            good = good && label[k] < most[k];
        if (!good) {
            list->items.n = before;
            return false;
        }
        const DtImageItem item = {.of = list->packs.n, .label = label[labels - 1], .number = i};
        DT_PUSH(memory, list->items, item);
    }
    DT_PUSH(memory, list->packs, *pack);
    return true;
}

/* Whether the file is one of CIFAR's; if so, its images are added. */
static bool add_cifar(DtArena *memory, const Open *file, DtImageList *list)
{
    static const uint8_t most[2][2] = {{10}, {20, 100}};
    for (int labels = 1; labels <= 2; labels++) {
        const int64_t stride = labels + PIXELS;
        const DtImagePack pack = {.path = file->path,
                                  .skip = labels,
                                  .stride = stride,
                                  .n = file->bytes / stride,
                                  .width = SIDE,
                                  .height = SIDE,
                                  .channels = 3,
                                  .planes = true};
        if (file->bytes > 0 && file->bytes % stride == 0 &&
            add_records(memory, file, &pack, labels, most[labels - 1], list))
            return true;
    }
    return false;
}

/* ---- MNIST ---- */

/* Reads the header of an idx file of bytes with so many axes; false: it has none, or the elements
 * do not fill the file. */
static bool read_idx(const Open *file, uint32_t n_axes, uint64_t ret_extents[4])
{
    uint8_t head[4 + 4 * 4];
    const size_t bytes = 4 + 4 * (size_t)n_axes;
    uint64_t all = 1;
    bool over = false;
    if (!read_at(file, 0, head, bytes) || head[0] || head[1] || head[2] != 8 || head[3] != n_axes)
        return false;
    for (uint32_t a = 0; a < n_axes; a++) {
        const uint8_t *at = head + 4 + 4 * (size_t)a;
        ret_extents[a] =
            (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3];
        over |= __builtin_mul_overflow(all, ret_extents[a], &all);
    }
    return !over && all == (uint64_t)file->bytes - bytes;
}

/* The name of the file of labels; NULL: the name does not tell. */
static const char *labels_path(DtArena *memory, const char *path)
{
    static const char images[] = "images";
    const char *slash = strrchr(path, '/'), *at = strstr(slash ? slash : path, images);
    if (!at || !at[6] || strncmp(at + 7, "idx3", 4) != 0)
        return NULL;
    return dt_arena_printf(memory, "%.*slabels%cidx1%s", (int)(at - path), path, at[6], at + 11);
}

/* Reads the labels of n images. */
static DtStatus read_labels(DtArena *memory, const char *images, int64_t n, uint8_t *ret_labels)
{
    const char *path = labels_path(memory, images);
    Open file;
    uint64_t extents[4];
    if (!path)
        return dt_status_fail(DT_EXIT_IO,
                              "%.200s has no labels, and its name no `images-idx3`, in place of "
                              "which `labels-idx1` would name their file: read them as "
                              "`i32 label[batch] = bin(\"FILE\", u8)`",
                              images);
    DtStatus status = open_file(path, &file);
    if (dt_status_ok(&status)) {
        if (!read_idx(&file, 1, extents) || extents[0] != (uint64_t)n)
            status = dt_status_fail(DT_EXIT_IO,
                                    "%.200s is no idx file of %lld labels, which %.200s has images",
                                    path, (long long)n, images);
        else if (!read_at(&file, 8, ret_labels, (size_t)n))
            status = dt_status_fail(DT_EXIT_IO, "%.300s was cut short", path);
    }
    if (file.fd >= 0)
        close(file.fd);
    return status;
}

static DtStatus add_idx(DtArena *memory, const Open *file, const DtImagePack *pack, bool labels,
                        DtImageList *list)
{
    uint8_t *of = labels ? calloc((size_t)pack->n + 1, 1) : NULL;
    if (labels && !of)
        return dt_status_fail(DT_EXIT_RETRY, "no memory for %lld labels", (long long)pack->n);
    DtStatus status = labels ? read_labels(memory, file->path, pack->n, of) : DT_OK;
    for (int64_t i = 0; i < pack->n && dt_status_ok(&status); i++) {
        const DtImageItem item = {.of = list->packs.n, .label = labels ? of[i] : 0, .number = i};
        DT_PUSH(memory, list->items, item);
    }
    free(of);
    DT_PUSH(memory, list->packs, *pack);
    return status;
}

/* Whether the file is an idx file of images. */
static bool is_idx(const Open *file, DtImagePack *ret_pack)
{
    uint64_t extents[4] = {0, 0, 0, 1};
    uint32_t axes = 3;
    while (axes <= 4 && !read_idx(file, axes, extents))
        axes++;
    const uint64_t channels = axes == 3 ? 1 : extents[3];
    if (axes > 4 || extents[0] == 0 || extents[1] == 0 || extents[2] == 0 ||
        extents[1] > MOST_SIDE || extents[2] > MOST_SIDE || (channels != 1 && channels != 3))
        return false;
    *ret_pack = (DtImagePack){.path = file->path,
                              .skip = 4 + 4 * (int64_t)axes,
                              .stride = (int64_t)(extents[1] * extents[2] * channels),
                              .n = (int64_t)extents[0],
                              .width = (uint32_t)extents[2],
                              .height = (uint32_t)extents[1],
                              .channels = (uint32_t)channels};
    return true;
}

/* ---- any file ---- */

/* Refuses a file by what it begins with. */
static DtStatus refuse(const char *path)
{
    DtTokenFile file = {.path = path};
    DtStatus status = dt_file_map(path, &file.view);
    if (!dt_status_ok(&status))
        return status;
    uint8_t head[512] = {0};
    const size_t n = file.view.len < sizeof head ? file.view.len : sizeof head;
    if (n > 0)
        memcpy(head, file.view.at, n);
    dt_file_unmap(&file.view);
    file.view = (DtFileView){head, n};
    status = dt_dataknown_refuse(false, &file);
    return !dt_status_ok(&status)
               ? status
               : dt_status_fail(DT_EXIT_IO,
                                "%.200s is no image and no file of images: PNG and JPEG files end "
                                "with .png, .jpg or .jpeg, CIFAR's binary files have records of "
                                "3,073 or 3,074 bytes, MNIST's a header of idx files",
                                path);
}

DtStatus dt_imagepack_add(DtArena *memory, const char *path, bool labels, DtImageList *list)
{
    Open file;
    DtImagePack pack;
    const char *copy = dt_arena_strndup(memory, path, strlen(path));
    DtStatus status = open_file(copy, &file);
    if (dt_status_ok(&status)) {
        if (is_idx(&file, &pack))
            status = add_idx(memory, &file, &pack, labels, list);
        else if (!add_cifar(memory, &file, list))
            status = refuse(copy);
    }
    if (file.fd >= 0)
        close(file.fd);
    return status;
}
