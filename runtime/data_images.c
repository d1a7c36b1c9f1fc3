/* SPDX-License-Identifier: Apache-2.0 */
/* A reader of images: a sample is an image, and the number of its class if a second input takes
 * it. Files are found when the reader is opened, and read when their sample is, by threads ahead of
 * the step (data_ahead.c). What becomes of an image depends on the seed, the epoch and the sample,
 * so every layout trains on the same values. */
#include "runtime/data_images.h"

#include "base/apart.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MOST_THREADS = 16,
    MOST_FILE = 1 << 28,   /* bytes of a file of one image */
    LOOK_PIXELS = 1 << 24, /* that are decoded before the run */
    PIECES = 256,          /* of the files that a checkpoint's digest knows */
    PIECE = 4096
};

/* What each of the threads works with, and the one that waits for them. */
struct Works {
    DtImageWork at[MOST_THREADS + 1];
};

/* ---- the form of the input ---- */

/* Where the pixels of the input are: [height, width, channel], [channel, height, width] or
 * [height, width]; an axis of colours has 1 or 3 elements. False: it is none of these. */
static bool find_axes(const DtData *data, DtImageForm *form)
{
    const DtPlanInput *input = &data->inputs[0];
    const DtPlanAxis *axes = &data->plan->axes[input->first_axis + 1];
    const uint32_t n = input->n_axes - 1;
    const int64_t last = n == 3 ? axes[2].extent : 1;
    const bool is_last = n == 2 || last == 1 || last == 3;
    if (n < 2 || n > 3 || (!is_last && axes[0].extent != 1 && axes[0].extent != 3))
        return false;
    const int64_t height = axes[is_last ? 0 : 1].extent, width = axes[is_last ? 1 : 2].extent;
    const int64_t channels = is_last ? last : axes[0].extent;
    if (height < 1 || width < 1 || height > UINT32_MAX / 4 || width > UINT32_MAX / 4)
        return false;
    form->height = (uint32_t)height;
    form->width = (uint32_t)width;
    form->channels = (uint32_t)channels;
    form->channel_step = is_last ? 1 : height * width;
    form->column_step = is_last ? channels : 1;
    form->row_step = width * form->column_step;
    return true;
}

static DtStatus find_form(const DtData *data, DtImageForm *form)
{
    const DtPlanReader *reader = data->reader;
    *form = (DtImageForm){.resize = (uint32_t)reader->resize,
                          .pad = (uint32_t)reader->pad,
                          .crop = (DtImageCrop)reader->crop,
                          .stretch = reader->image & DT_PLAN_IMAGE_STRETCH,
                          .flip = reader->image & DT_PLAN_IMAGE_FLIP};
    dt_imageform_values(form, reader->mean, reader->std);
    for (int c = 0; c < 3; c++) {
        const int64_t bad = dt_data_too_large(&data->inputs[0], form->values[c], 256);
        if (bad >= 0)
            return dt_status_fail(DT_EXIT_IO,
                                  "`mean` and `std` make %g of some pixels, which is infinite in "
                                  "%s, the dtype of `%.60s`",
                                  (double)form->values[c][bad],
                                  dt_kinds_name(data->inputs[0].dtype),
                                  dt_plan_str(data->plan, data->inputs[0].name));
    }
    if (find_axes(data, form))
        return DT_OK;
    return dt_status_fail(DT_EXIT_FAILED,
                          "input `%s` is no image: [batch, height, width], [batch, height, width, "
                          "colour] or [batch, colour, height, width], of 1 or 3 colours",
                          dt_plan_str(data->plan, data->inputs[0].name));
}

static DtStatus check_inputs(const DtData *data)
{
    const DtPlanReader *reader = data->reader;
    if (reader->n_inputs < 1 || reader->n_inputs > 2)
        return dt_status_fail(DT_EXIT_FAILED, "images fills 1 or 2 inputs, not %u",
                              reader->n_inputs);
    if (!dt_kinds_is_float(data->inputs[0].dtype))
        return dt_status_fail(DT_EXIT_FAILED, "input `%s` must be f32, f16 or bf16 for images",
                              dt_plan_str(data->plan, data->inputs[0].name));
    if (reader->n_inputs == 2 &&
        (data->inputs[1].dtype != DT_PLAN_I32 || data->inputs[1].row_elements != 1))
        return dt_status_fail(DT_EXIT_FAILED, "input `%s` must be i32[batch] for classes",
                              dt_plan_str(data->plan, data->inputs[1].name));
    return DT_OK;
}

/* ---- classes ---- */

/* Fails at the first class that the program cannot use as an index. */
static DtStatus check_labels(const DtData *data)
{
    const DtImageList *list = &data->images->list;
    for (uint32_t i = 0; i < list->items.n; i++) {
        const DtImageItem *item = &list->items.at[i];
        const int32_t label = item->label;
        if (dt_data_outside(&data->inputs[1], &label, 1) < 0)
            continue;
        char path[4096];
        dt_imagelist_path(list, item, path);
        return dt_status_fail(
            DT_EXIT_IO,
            "%.200s is of class %d%s%.60s%s: outside `%.40s` of %lld, which "
            "`%.40s` indexes",
            path, label, list->classes ? " (`" : "", list->classes ? list->classes[label] : "",
            list->classes ? "`)" : "", dt_plan_str(data->plan, data->inputs[1].indexed),
            (long long)data->inputs[1].extent, dt_plan_str(data->plan, data->inputs[1].name));
    }
    return DT_OK;
}

/* The reader of the training data that fills the same inputs; NULL: none does. */
static const DtPlanReader *trained(const DtData *data)
{
    const DtPlan *plan = data->plan;
    for (uint32_t i = 0; i < plan->n_readers; i++) {
        const DtPlanReader *other = &plan->readers[i];
        if (!other->is_eval && other->source == DT_PLAN_IMAGES && other->n_inputs == 2 &&
            plan->inputs[other->first_input + 1].name == data->inputs[1].name)
            return other;
    }
    return NULL;
}

/* Numbers the classes of held-out data as those of the training data: a folder that lacks one would
 * number the others otherwise. */
static DtStatus share_classes(DtData *data, const DtRunOptions *options)
{
    DtImages *images = data->images;
    const DtPlanReader *other = data->reader->is_eval ? trained(data) : NULL;
    DtImageList list;
    DtDataPlace place;
    if (!other || !images->list.classes)
        return DT_OK;
    DtStatus status = dt_datapaths_place(data->memory, options, data->plan,
                                         (uint32_t)(other - data->plan->readers), &place);
    if (!dt_status_ok(&status) || place.synthetic)
        return status;
    status = dt_imagelist_find(data->memory, &place, true, &list);
    images->own_classes = !dt_status_ok(&status) || !list.classes;
    return images->own_classes ? DT_OK : dt_imagelist_rename(&images->list, &list, data->name);
}

/* ---- parts ---- */

/* Keeps the part `from` to `to` of items first .. end - 1, and writes them at *n. */
static void keep_part(const DtPlanReader *reader, DtImageItems *items, uint32_t first, uint32_t end,
                      uint32_t *n)
{
    const double all = end - first;
    const uint32_t from = first + (uint32_t)(reader->from * all);
    const uint32_t to = reader->to < 1 ? first + (uint32_t)(reader->to * all) : end;
    for (uint32_t i = from; i < to; i++)
        items->at[(*n)++] = items->at[i];
}

/* Keeps the part of each class, if there are classes of folders: else a part of the whole would
 * lack some. */
static DtStatus cut(DtData *data)
{
    DtImageList *list = &data->images->list;
    const uint32_t all = list->items.n;
    const bool by_class = list->classes && data->images->has_labels;
    uint32_t n = 0, first = 0;
    for (uint32_t i = 1; i <= all; i++)
        if (i == all || (by_class && list->items.at[i].label != list->items.at[first].label)) {
            keep_part(data->reader, &list->items, first, i, &n);
            first = i;
        }
    list->items.n = n;
    if (n == 0)
        return dt_status_fail(DT_EXIT_IO, "%.200s has %u images, and none between %g and %g",
                              data->name, all, data->reader->from, data->reader->to);
    data->row = 1;
    data->windows = n;
    data->offsets = 1;
    return DT_OK;
}

DtStatus dt_dataimages_open(DtData *data, const DtRunOptions *options, const DtDataPlace *place)
{
    DtImages *images = DT_NEW(data->memory, DtImages);
    *images = (DtImages){.most = (uint64_t)data->reader->pixels,
                         .key = dt_hash_text("images", data->key),
                         .has_labels = data->reader->n_inputs == 2};
    const int64_t nodes = options->nodes > 0 ? options->nodes : 1;
    const int64_t ranks = data->plan->meta->n_ranks / nodes;
    const int64_t threads = dt_apart_processors() / (ranks > 0 ? ranks : 1);
    images->threads = threads < 1 ? 1 : threads < MOST_THREADS ? (uint32_t)threads : MOST_THREADS;
    data->images = images;
    DtStatus status = check_inputs(data);
    if (dt_status_ok(&status))
        status = find_form(data, &images->form);
    if (dt_status_ok(&status))
        status = dt_imagelist_find(data->memory, place, images->has_labels, &images->list);
    if (dt_status_ok(&status) && images->has_labels)
        status = share_classes(data, options);
    if (dt_status_ok(&status) && images->has_labels)
        status = check_labels(data);
    return dt_status_ok(&status) ? cut(data) : status;
}

/* The reader of images that fills the input, that of held-out data if there is one. */
static const DtPlanReader *filled_by(const DtPlan *plan, const DtPlanInput *input)
{
    const DtPlanReader *found = NULL;
    for (uint32_t i = 0; i < plan->n_readers; i++) {
        const DtPlanReader *reader = &plan->readers[i];
        if (reader->source == DT_PLAN_IMAGES && reader->n_inputs > 0 &&
            strcmp(dt_plan_str(plan, plan->inputs[reader->first_input].name),
                   dt_plan_str(plan, input->name)) == 0 &&
            (!found || reader->is_eval))
            found = reader;
    }
    return found;
}

/* Takes from the reader what is by chance: the part in the middle, and no mirror images. */
static void settle(DtPlanReader *reader)
{
    reader->image &= ~(uint32_t)DT_PLAN_IMAGE_FLIP;
    reader->pad = 0;
    if (reader->crop == DT_PLAN_CROP_ZOOM)
        reader->image |= DT_PLAN_IMAGE_STRETCH;
    if (reader->crop != DT_PLAN_CROP_WHOLE)
        reader->crop = DT_PLAN_CROP_CENTRE;
}

DtStatus dt_dataimages_open_input(const DtRunOptions *options, const DtPlan *plan,
                                  const DtPlanInput *input, const char *path, DtData **ret_data)
{
    const DtPlanReader *found = filled_by(plan, input);
    const size_t len = strlen(path);
    *ret_data = NULL;
    if (!found || (len > 4 && strcmp(path + len - 4, ".npy") == 0))
        return DT_OK;
    DtArena *memory = dt_arena_new();
    DtData *data = DT_NEW(memory, DtData);
    DtPlanReader *reader = DT_NEW(memory, DtPlanReader);
    const DtDataPlace place = {.pattern = path, .literal = path};
    *reader = *found;
    if (!found->is_eval)
        settle(reader);
    reader->n_inputs = 1;
    reader->is_eval = 1;
    reader->from = 0;
    reader->to = 1;
    reader->span = UINT32_MAX;
    *data =
        (DtData){.memory = memory, .plan = plan, .reader = reader, .inputs = input, .name = path};
    DtStatus status = dt_dataimages_open(data, options, &place);
    data->samples = data->windows;
    if (!dt_status_ok(&status))
        dt_data_close(data);
    else
        *ret_data = data;
    return status;
}

void dt_dataimages_close(DtData *data)
{
    DtImages *images = data->images;
    if (!images)
        return;
    dt_ahead_free(images->ahead);
    for (uint32_t i = 0; images->works && i < DT_COUNT(images->works->at); i++)
        dt_imageform_free(&images->works->at[i]);
    free(images->works);
}

/* ---- one image ---- */

static DtStatus read_whole(const char *path, DtImageBuffer *buffer, size_t *ret_len)
{
    struct stat stat_of;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    DtStatus status = DT_OK;
    size_t n = 0;
    if (fd < 0 || fstat(fd, &stat_of) != 0)
        status = dt_status_fail(DT_EXIT_IO, "cannot read %.300s: %s", path, strerror(errno));
    else if (!S_ISREG(stat_of.st_mode) || stat_of.st_size > MOST_FILE)
        status = dt_status_fail(DT_EXIT_IO, "%.300s is no file of at most 256 MiB", path);
    else
        status = dt_image_room(buffer, (uint64_t)stat_of.st_size + 1);
    for (ssize_t got = 1; dt_status_ok(&status) && n < (size_t)stat_of.st_size && got > 0;) {
        got = read(fd, buffer->at + n, (size_t)stat_of.st_size - n);
        n += got > 0 ? (size_t)got : 0;
        if (got < 0 && errno != EINTR)
            status = dt_status_fail(DT_EXIT_IO, "cannot read %.300s: %s", path, strerror(errno));
        got = got < 0 ? 1 : got;
    }
    if (fd >= 0)
        close(fd);
    *ret_len = n;
    return status;
}

/* Reads an image of a pack. */
static DtStatus read_packed(const DtImagePack *pack, int64_t number, DtImageWork *work,
                            DtPixels *ret_pixels)
{
    const size_t plane = (size_t)pack->width * pack->height, bytes = plane * pack->channels;
    DtStatus status = dt_image_room(&work->file, bytes);
    if (dt_status_ok(&status))
        status = dt_image_room(&work->decoded, bytes);
    if (!dt_status_ok(&status))
        return status;
    const int fd = open(pack->path, O_RDONLY | O_CLOEXEC);
    const off_t at = pack->skip + number * pack->stride;
    const bool good = fd >= 0 && pread(fd, work->file.at, bytes, at) == (ssize_t)bytes;
    if (fd >= 0)
        close(fd);
    if (!good)
        return dt_status_fail(DT_EXIT_IO, "cannot read image %lld of %.300s: was it cut short?",
                              (long long)number, pack->path);
    const uint8_t *from = work->file.at;
    for (size_t i = 0; pack->planes && i < plane; i++)
        for (uint32_t c = 0; c < pack->channels; c++)
            work->decoded.at[i * pack->channels + c] = from[c * plane + i];
    *ret_pixels =
        (DtPixels){pack->planes ? work->decoded.at : from, (size_t)pack->width * pack->channels,
                   pack->width, pack->height, pack->channels};
    return DT_OK;
}

/* Reads item number `index`, and makes its values as of sample `sample`. */
static DtStatus make(const DtImages *images, int64_t index, int64_t sample, DtImageWork *work,
                     float *ret_values, int32_t *ret_label, uint64_t *ret_pixels)
{
    const DtImageItem *item = &images->list.items.at[index];
    char path[4096];
    DtPixels pixels;
    size_t len = 0;
    DtStatus status;
    dt_imagelist_path(&images->list, item, path);
    if (item->name) {
        status = read_whole(path, &work->file, &len);
        const DtImageFile file = {work->file.at, len, path, images->most};
        if (dt_status_ok(&status))
            status = dt_image_decode(&file, &work->decoded, &pixels);
    } else {
        status = read_packed(&images->list.packs.at[item->of], item->number, work, &pixels);
    }
    *ret_label = item->label;
    if (!dt_status_ok(&status))
        return status;
    *ret_pixels = (uint64_t)pixels.width * pixels.height;
    return dt_imageform_make(&images->form, &pixels, path, images->key, (uint64_t)sample, work,
                             ret_values);
}

/* ---- samples ---- */

static size_t values_of(const DtData *data) { return (size_t)data->inputs[0].row_elements; }

/* The values of a sample as f32, and then its label. */
static DtStatus read_ahead(void *context, uint32_t thread, int64_t sample, char *ret_row)
{
    const DtData *data = context;
    uint64_t pixels;
    float *values = (float *)(void *)ret_row;
    int32_t *label = (int32_t *)(void *)(ret_row + values_of(data) * sizeof *values);
    return make(data->images, dt_data_start(data, sample), sample, &data->images->works->at[thread],
                values, label, &pixels);
}

static DtStatus begin(DtData *data)
{
    DtImages *images = data->images;
    if (!images->works) /* it stays after a failure to begin threads */
        images->works = calloc(1, sizeof *images->works);
    if (images->works)
        images->ahead =
            dt_ahead_new(images->threads, (values_of(data) + 1) * sizeof(float), read_ahead, data);
    return images->ahead ? DT_OK : dt_status_fail(DT_EXIT_RETRY, "no memory to read images");
}

/* Samples of all ranks that are read at a time: a batch, or a micro-batch. */
static int64_t pass_of(const DtData *data)
{
    const DtPlanAxis *axis = &data->plan->axes[data->inputs[0].first_axis];
    int64_t pass = axis->local;
    for (uint32_t i = 0; i < DT_PLAN_SPLITS && axis->split[i]; i++)
        pass *= data->plan->mesh[axis->split[i] - 1].size;
    return pass < axis->extent ? pass : axis->extent;
}

/* The batches after this one: as many as a step has. After the last of held-out data the first
 * comes again. */
static DtAheadWishes wishes_of(const DtData *data, int64_t first)
{
    DtAheadWishes wishes = {.n = 0};
    const int64_t pass = pass_of(data), batch = data->plan->meta->batch;
    for (int64_t next = first + pass;
         pass > 0 && wishes.n < DT_AHEAD_WISHES && next <= first + batch; next += pass) {
        const bool again = data->reader->is_eval && next >= data->samples;
        wishes.first[wishes.n++] = again ? first % pass : next;
        if (again)
            break;
    }
    return wishes;
}

DtStatus dt_dataimages_read(DtData *data, int64_t first, int64_t rows, char *const *inputs)
{
    const size_t n = values_of(data), size = (size_t)dt_kinds_size(data->inputs[0].dtype);
    const DtAheadWishes wishes = wishes_of(data, first);
    const char *from = NULL;
    DtStatus status = data->images->ahead ? DT_OK : begin(data);
    if (dt_status_ok(&status))
        status = dt_ahead_take(data->images->ahead, first, rows, &wishes, &from);
    for (int64_t row = 0; row < rows && dt_status_ok(&status); row++) {
        dt_data_narrow(&data->inputs[0], (const int32_t *)(const void *)from, (int64_t)n,
                       inputs[0] + (size_t)row * n * size);
        from += n * sizeof(float);
        if (data->images->has_labels)
            memcpy(inputs[1] + (size_t)row * sizeof(int32_t), from, sizeof(int32_t));
        from += sizeof(int32_t);
    }
    return status;
}

/* ---- before the run ---- */

static void note_images(const DtData *data, DtText *ret_notes)
{
    enum { SHOWN = 3 };
    const DtImageList *list = &data->images->list;
    dt_data_begin_note(data, ret_notes);
    dt_text_printf(ret_notes, "%u image%s", list->items.n, list->items.n == 1 ? "" : "s");
    if (data->images->has_labels && list->classes) {
        dt_text_printf(ret_notes, " of %u class%s:", list->n_classes,
                       list->n_classes == 1 ? "" : "es");
        for (uint32_t i = 0; i < list->n_classes; i++)
            if (i < SHOWN || i + 1 == list->n_classes)
                dt_text_printf(ret_notes, "%s%s `%.40s` is %u", i ? "," : "",
                               i >= SHOWN && i > SHOWN ? " ..," : "", list->classes[i], i);
    }
    if (list->skipped > 0)
        dt_text_printf(
            ret_notes, "; %llu file%s (the first: %.200s)", (unsigned long long)list->skipped,
            list->skipped == 1 ? " is no image" : "s are no images", list->first_skipped);
    if (data->images->own_classes) {
        dt_data_begin_note(data, ret_notes);
        dt_text_add(ret_notes, "warning: the training data cannot be read, so the classes here are "
                               "numbered by themselves: if one is missing, the others are wrong");
    }
}

/* Says how many images are of classes that the program accepts, but that are none of the axis that
 * the label indexes. */
static void note_aside(const DtData *data, DtText *ret_notes)
{
    const DtImageList *list = &data->images->list;
    const DtPlanInput *input = &data->inputs[1];
    const DtImageItem *first = NULL;
    uint32_t n = 0;
    if (!data->images->has_labels || input->draw_lo >= input->draw_hi)
        return;
    for (uint32_t i = 0; i < list->items.n; i++) {
        const DtImageItem *item = &list->items.at[i];
        if (item->label >= input->draw_lo && item->label < input->draw_hi)
            continue;
        first = n++ == 0 || item->label < first->label ? item : first;
    }
    if (n == 0)
        return;
    dt_data_begin_note(data, ret_notes);
    dt_text_printf(ret_notes, "warning: %u image%s of class %d", n, n == 1 ? "" : "s",
                   first->label);
    if (list->classes)
        dt_text_printf(ret_notes, " (`%.60s`)", list->classes[first->label]);
    dt_text_printf(ret_notes,
                   " or above %s outside %lld .. %lld, where `%s` is an index; the program says "
                   "what happens to them",
                   n == 1 ? "is" : "are", (long long)input->draw_lo, (long long)input->draw_hi - 1,
                   dt_plan_str(data->plan, input->name));
}

/* Makes images in a random order until so many pixels were decoded: all of a small source. */
DtStatus dt_dataimages_look(const DtData *data, DtText *ret_notes)
{
    const DtImages *images = data->images;
    const DtPermutation order = {0, 0, images->list.items.n};
    DtImageWork work = {0};
    float *values = malloc((values_of(data) + 1) * sizeof *values);
    DtStatus status = values ? DT_OK : dt_status_fail(DT_EXIT_RETRY, "no memory for an image");
    uint64_t pixels = 0, all = 0;
    int32_t label;
    note_images(data, ret_notes);
    note_aside(data, ret_notes);
    for (uint64_t i = 0; i < order.n && all < LOOK_PIXELS && dt_status_ok(&status); i++) {
        status =
            make(images, (int64_t)dt_permutation_at(&order, i), 0, &work, values, &label, &pixels);
        all += pixels;
    }
    dt_imageform_free(&work);
    free(values);
    return status;
}

/* ---- what a checkpoint says ---- */

/* Adds the bytes in the middle of a file, or of an image in a pack. */
static DtStatus add_piece(const DtImages *images, const DtImageItem *item, const char *path,
                          int64_t size, uint64_t *digest)
{
    uint8_t bytes[PIECE];
    int64_t at = 0;
    if (!item->name) {
        const DtImagePack *pack = &images->list.packs.at[item->of];
        at = pack->skip + item->number * pack->stride;
        size = pack->stride;
    }
    const size_t n = size < PIECE ? (size_t)size : PIECE;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t got = fd >= 0 ? pread(fd, bytes, n, at + (size - (int64_t)n) / 2) : -1;
    if (fd >= 0)
        close(fd);
    if (got < 0)
        return dt_status_fail(DT_EXIT_IO, "cannot read %.300s: %s", path, strerror(errno));
    *digest = dt_hash_bytes(bytes, (size_t)got, *digest);
    return DT_OK;
}

DtStatus dt_dataimages_fact(const DtData *data, DtDataFact *fact)
{
    const DtImages *images = data->images;
    const uint32_t n = images->list.items.n;
    uint32_t piece = 0, pieces = n < PIECES ? n : PIECES;
    DtStatus status = DT_OK;
    fact->values = data->inputs[0].row_elements;
    for (uint32_t i = 0; i < n && dt_status_ok(&status); i++) {
        const DtImageItem *item = &images->list.items.at[i];
        char path[4096];
        struct stat stat_of;
        dt_imagelist_path(&images->list, item, path);
        const bool is_new = item->name || i == 0 || images->list.items.at[i - 1].of != item->of;
        if (is_new && stat(path, &stat_of) != 0)
            return dt_status_fail(DT_EXIT_IO, "cannot read %.300s: %s", path, strerror(errno));
        const int64_t size = is_new ? stat_of.st_size : 0;
        const int64_t numbers[2] = {size, item->label};
        fact->bytes += size;
        fact->digest = dt_hash_bytes(numbers, sizeof numbers, fact->digest);
        if (i != (uint32_t)((uint64_t)piece * n / pieces))
            continue;
        piece++;
        status = add_piece(images, item, path, size, &fact->digest);
    }
    for (uint32_t i = 0; images->has_labels && i < images->list.n_classes; i++)
        fact->digest = dt_hash_text(images->list.classes[i], fact->digest);
    return status;
}
