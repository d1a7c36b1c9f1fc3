/* SPDX-License-Identifier: Apache-2.0 */
/* Images as a source.
 *
 *   data_images.c       a reader of images
 *   data_images_list.c  folders of classes: files and their labels
 *   data_images_pack.c  many images in one file: CIFAR's and MNIST's
 *   data_ahead.c        threads that read ahead of the step
 *   image*.c            pixels */
#ifndef DT_RUNTIME_DATA_IMAGES_H
#define DT_RUNTIME_DATA_IMAGES_H

#include "runtime/data.h"
#include "runtime/image.h"

/* A file of many images of one size, one after the other. */
typedef struct DtImagePack {
    const char *path;
    int64_t skip, stride; /* bytes before the first image, and from one to the next */
    int64_t n;
    uint32_t width, height, channels;
    bool planes; /* one colour after the other */
} DtImagePack;

/* An image: a file of a folder, or one of a pack. */
typedef struct DtImageItem {
    const char *name; /* NULL: of a pack */
    uint32_t of;      /* number of its folder or pack */
    int32_t label;    /* number of its class */
    int64_t number;   /* in the pack */
} DtImageItem;

typedef DT_VEC(DtImageItem) DtImageItems;

typedef struct DtImageList {
    DtImageItems items;
    DT_VEC(const char *) folders;
    DT_VEC(DtImagePack) packs;
    const char **classes; /* their names in order; NULL: those of a pack, which have none */
    uint32_t n_classes;
    uint64_t skipped; /* files of folders that are no images */
    const char *first_skipped;
} DtImageList;

typedef struct DtImages {
    DtImageList list;
    DtImageForm form;
    uint64_t most, key;
    bool has_labels;
    bool own_classes; /* held-out data: the training data cannot be read, so they are numbered by
                       * themselves */
    uint32_t threads;
    struct DtAhead *ahead; /* NULL until the first read */
    struct Works *works;   /* what its threads work with */
} DtImages;

/* data_images_list.c: finds the images that the place names, sorted by class and name. Files found
 * in folders have classes; labels: also packs must. */
DtStatus dt_imagelist_find(DtArena *memory, const DtDataPlace *place, bool labels,
                           DtImageList *ret_list);
/* Numbers the classes as another list does; fails if that lacks one. */
DtStatus dt_imagelist_rename(DtImageList *list, const DtImageList *as, const char *path);
/* Writes the path of an item. */
void dt_imagelist_path(const DtImageList *list, const DtImageItem *item, char ret_path[4096]);

/* data_images_pack.c: adds the images of a file that is one of CIFAR's or MNIST's. Fails if it is
 * none, and says what to do with it. */
DtStatus dt_imagepack_add(DtArena *memory, const char *path, bool labels, DtImageList *list);

/* data_images.c */
/* Opens the images that the place names. options: how many ranks share this machine, and where the
 * training data are. */
DtStatus dt_dataimages_open(DtData *data, const DtRunOptions *options, const DtDataPlace *place);
/* Opens images at `path` for an input that a reader of images fills, as held-out data are read, or
 * else training data without what is by chance. ret_data NULL: no such reader fills it, or the path
 * is one of an array. */
DtStatus dt_dataimages_open_input(const DtRunOptions *options, const DtPlan *plan,
                                  const DtPlanInput *input, const char *path, DtData **ret_data);
void dt_dataimages_close(DtData *data);
/* Reads samples first .. first + rows - 1 of the order into the inputs. */
DtStatus dt_dataimages_read(DtData *data, int64_t first, int64_t rows, char *const *inputs);
DtStatus dt_dataimages_look(const DtData *data, DtText *ret_notes);
/* Fills what a checkpoint says of the files. */
DtStatus dt_dataimages_fact(const DtData *data, DtDataFact *fact);

/* ---- reading ahead (data_ahead.c) ---- */

/* Makes a sample: `bytes` bytes at ret_row. thread: which of the threads calls, from 0 on. */
typedef DtStatus DtAheadRead(void *context, uint32_t thread, int64_t sample, char *ret_row);

typedef struct DtAhead DtAhead;
/* Begins threads, as many as they may be, that call `read`. NULL: no memory, or no thread. */
DtAhead *dt_ahead_new(uint32_t threads, size_t bytes, DtAheadRead *read, void *context);
/* Ends them. */
void dt_ahead_free(DtAhead *ahead);
/* Batches of as many rows that will be taken later: their first samples. */
enum { DT_AHEAD_WISHES = 32 };
typedef struct DtAheadWishes {
    int64_t first[DT_AHEAD_WISHES];
    uint32_t n;
} DtAheadWishes;
/* Waits until samples first .. first + rows - 1 are made, helping with them, and returns their
 * rows, which stay until the next call. Those that are wished for are made meanwhile, and later. */
DtStatus dt_ahead_take(DtAhead *ahead, int64_t first, int64_t rows, const DtAheadWishes *wishes,
                       const char **ret_rows);

#endif
