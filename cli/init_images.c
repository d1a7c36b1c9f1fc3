/* SPDX-License-Identifier: Apache-2.0 */
/* Data of a program that `dtc init` writes for a model that classifies images: files in folders of
 * classes, made as preprocessor_config.json says.
 *
 *   model vit(pixel_values[batch, rgb, height = image, width = image]) -> [batch, classes]
 *
 *   pixel_values[batch, rgb, height = 224, width = 224], i32 labels[batch] =
 *     images("mine", to = 0.9, stretch = true, mean = 0.5, std = 0.5)
 *
 * An image processor of transformers computes (value of 0 to 255 * rescale_factor - image_mean) /
 * image_std; `images` computes (value of 0 to 1 - mean) / std. */
#include "cli/init.h"

#include "base/modelconfig.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define FOLDER "mine"
#define FILE_NAME "preprocessor_config.json"
enum { MOST_CHANNELS = 3, BILINEAR = 2 /* as Pillow numbers its filters */ };
static const double highest = 255; /* value of a pixel */

/* ---- the model's input ---- */

/* Returns the extents of the input's colours and of its shorter and longer side. False: it is no
 * image, which has the form that dtrun's reader takes (runtime/data_images.c). */
static bool find_form(const DtInitCommand *init, int64_t *ret_channels, int64_t *ret_longer)
{
    const DtDef *def = init->def;
    const DtFormal *input = def->formals.n == 1 ? &def->formals.at[0] : NULL;
    const DtType *type = input ? dt_initarrays_type(init, input->name.text) : NULL;
    if (!type || type->rank != 4 || !dt_dtype_is_float(type->dtype) || def->results.n != 1 ||
        def->results.at[0].axes.n != 2)
        return false;
    const int64_t first = type->axes[1].extent, last = type->axes[3].extent;
    const bool is_last = last == 1 || last == MOST_CHANNELS;
    const int64_t height = type->axes[is_last ? 1 : 2].extent,
                  width = type->axes[is_last ? 2 : 3].extent;
    *ret_channels = is_last ? last : first;
    *ret_longer = height > width ? height : width;
    return *ret_channels == 1 || *ret_channels == MOST_CHANNELS;
}

bool dt_initimages_fit(const DtInitCommand *init)
{
    int64_t channels, longer;
    return find_form(init, &channels, &longer);
}

/* ---- preprocessor_config.json ---- */

/* How images become values. */
typedef struct Form {
    const char *scale; /* ", resize = 256, crop = centre" */
    double mean[MOST_CHANNELS], std[MOST_CHANNELS];
} Form;

static int wrong(const DtInitCommand *init, const char *key, const json_t *value, const char *wants)
{
    return dt_cli_fail(DT_EXIT_IO, "%.200s/" FILE_NAME ": `%s` is %s, and should be %s",
                       init->folder, key, dt_modelconfig_text(init->cli->arena, value), wants);
}

/* Reads a number, or one for each colour. Returns an exit code, after a message if it fails. */
static int read_numbers(const DtInitCommand *init, const json_t *config, const char *key,
                        double least, double ret_numbers[MOST_CHANNELS])
{
    const json_t *found = json_object_get(config, key);
    const size_t n = json_array_size(found);
    if (json_is_null(found) || !found)
        return DT_EXIT_OK;
    for (size_t i = 0; i < MOST_CHANNELS; i++) {
        const json_t *one = json_is_array(found) ? json_array_get(found, n == 1 ? 0 : i) : found;
        if (!json_is_number(one) || json_number_value(one) <= least || n > MOST_CHANNELS)
            return wrong(init, key, found, least < 0 ? "a number, or three" : "above 0");
        ret_numbers[i] = json_number_value(one);
    }
    return DT_EXIT_OK;
}

/* Sets the mean and the deviation of values from 0 to 1. */
static int read_values(const DtInitCommand *init, const json_t *config, Form *form)
{
    const bool rescales = !json_is_false(json_object_get(config, "do_rescale"));
    const json_t *given = json_object_get(config, "rescale_factor");
    const double factor = !rescales ? 1 : given ? json_number_value(given) : 1 / highest;
    int code = DT_EXIT_OK;
    if (!(factor > 0))
        return wrong(init, "rescale_factor", given, "above 0");
    if (json_is_false(json_object_get(config, "do_normalize"))) {
        for (size_t i = 0; i < MOST_CHANNELS; i++)
            form->mean[i] = 0, form->std[i] = 1;
    } else {
        code = read_numbers(init, config, "image_mean", -INFINITY, form->mean);
        if (code == DT_EXIT_OK)
            code = read_numbers(init, config, "image_std", 0, form->std);
    }
    const double per_unit = factor * highest;
    for (size_t i = 0; i < MOST_CHANNELS && fabs(per_unit - 1) > 1e-6; i++)
        form->mean[i] /= per_unit, form->std[i] /= per_unit;
    return code;
}

/* Sets how an image gets the input's size. `size` is the shorter side, or both sides, whatever
 * their ratio was; one number means either, by whether the middle is cut out then. */
static int read_size(const DtInitCommand *init, const json_t *config, int64_t longer, Form *form)
{
    const bool crops = json_is_true(json_object_get(config, "do_center_crop"));
    const json_t *size = json_object_get(config, "size");
    const json_t *shortest =
        json_is_object(size) ? json_object_get(size, "shortest_edge") : crops ? size : NULL;
    const json_int_t side = json_integer_value(shortest);
    if (shortest && (!json_is_integer(shortest) || side < 1 || side > UINT32_MAX / 4))
        return wrong(init, "size", size, "a number of pixels");
    if (json_is_false(json_object_get(config, "do_resize")))
        form->scale = crops ? ", crop = centre" : "";
    else if (side >= longer)
        form->scale = dt_arena_printf(init->cli->arena, ", resize = %lld%s", (long long)side,
                                      crops || side > longer ? ", crop = centre" : "");
    return DT_EXIT_OK;
}

/* Notes what the program does otherwise than the file says. */
static void note_filter(DtInitCommand *init, const json_t *config)
{
    const json_t *filter = json_object_get(config, "resample");
    if (json_is_integer(filter) && json_integer_value(filter) != BILINEAR &&
        !json_is_false(json_object_get(config, "do_resize")))
        init->note = "dtc: " FILE_NAME " scales images by another filter than the program, which "
                     "does so bilinearly: their values differ a little";
}

static int read_form(DtInitCommand *init, int64_t longer, Form *form)
{
    json_t *config = NULL;
    DtArena *arena = init->cli->arena;
    const char *path = dt_arena_printf(arena, "%s/" FILE_NAME, init->folder);
    *form = (Form){.scale = ", stretch = true", .mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}};
    if (access(path, F_OK) != 0) {
        init->note = "dtc: there is no " FILE_NAME ": values become -1 to 1, as for most models";
        return DT_EXIT_OK;
    }
    const DtStatus status = dt_modelconfig_read(arena, path, &config);
    if (!dt_status_ok(&status))
        return dt_cli_fail(status.code, "%s", status.message);
    int code = read_values(init, config, form);
    if (code == DT_EXIT_OK)
        code = read_size(init, config, longer, form);
    note_filter(init, config);
    json_decref(config);
    return code;
}

/* ---- lines ---- */

/* Returns ", mean = 0.5", or with one number for each colour. */
static const char *numbers(DtArena *arena, const char *key, const double *at, int64_t channels)
{
    bool alike = true;
    for (int64_t i = 1; i < channels; i++)
        alike = alike && at[i] == at[0];
    return alike ? dt_arena_printf(arena, ", %s = %.9g", key, at[0])
                 : dt_arena_printf(arena, ", %s = (%.9g, %.9g, %.9g)", key, at[0], at[1], at[2]);
}

int dt_initimages_read(DtInitCommand *init)
{
    DtArena *arena = init->cli->arena;
    int64_t channels = 1, longer = 1;
    Form form;
    if (init->cli->text)
        return dt_cli_fail(DT_EXIT_USAGE,
                           "--text: `%s` of %s reads images. Without --text init writes a program "
                           "that reads PNG and JPEG files in the folder " FOLDER
                           ", in a folder for each class",
                           init->model, init->file);
    find_form(init, &channels, &longer);
    const int code = read_form(init, longer, &form);
    init->images = dt_arena_printf(arena, "%s%s%s", form.scale,
                                   numbers(arena, "mean", form.mean, channels),
                                   numbers(arena, "std", form.std, channels));
    return code;
}

const char *dt_initimages_source(const DtInitCommand *init, const char *side, double part)
{
    return dt_arena_printf(init->cli->arena, "images(\"" FOLDER "\", %s = %g%s)", side, part,
                           init->images);
}

const char *dt_initimages_train(const DtInitCommand *init, double to)
{
    const DtFormal *input = &init->def->formals.at[0];
    const DtAstType *result = &init->def->results.at[0];
    const char *samples = result->axes.at[0].name.text, *classes = result->axes.at[1].name.text;
    DtArena *arena = init->cli->arena;
    return dt_arena_printf(arena,
                           "  %s, i32 labels[%s] =\n    %s\n"
                           "  loss = mean[%s](xent[%s](%s(%s), labels))\n",
                           dt_initarrays_input(init, input), samples,
                           dt_initimages_source(init, "to", to), samples, classes, init->model,
                           input->name.text);
}

const char *dt_initimages_files(void) { return FOLDER "/CLASS/*.png"; }
