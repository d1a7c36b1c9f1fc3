/* SPDX-License-Identifier: Apache-2.0 */
/* How an image becomes the values of an input. Sizes and places are those of torchvision's
 * transforms: Resize, CenterCrop, RandomCrop, RandomResizedCrop, RandomHorizontalFlip, ToTensor,
 * Normalize. Random numbers are those of the counter generator, one call for each image and try, so
 * an image of an epoch is the same in every layout. */
#include "runtime/image.h"

#include "base/philox.h"

#include <math.h>
#include <stdlib.h>

enum { TRIES = 10 }; /* for a part of random ratio that fits into the image */

void dt_imageform_values(DtImageForm *form, const double mean[3], const double std[3])
{
    for (int c = 0; c < 3; c++)
        for (int byte = 0; byte < 256; byte++)
            form->values[c][byte] = (float)((byte / 255.0 - mean[c]) / std[c]);
}

void dt_imageform_free(DtImageWork *work)
{
    free(work->file.at);
    free(work->decoded.at);
    free(work->coloured.at);
    free(work->between.at);
    free(work->sized.at);
    *work = (DtImageWork){0};
}

/* ---- random numbers ---- */

/* Call number `call` for the image: 0 is for places and mirror images, the others for tries. */
static DtPhilox draw(uint64_t key, uint64_t sample, uint64_t call)
{
    return dt_philox(key, call, (uint32_t)sample, (uint32_t)(sample >> 32));
}

/* One of 0 .. n - 1. */
static uint32_t choose(uint32_t word, uint64_t n) { return (uint32_t)(word * n >> 32); }

/* ---- sizes ---- */

/* A part of the image. */
static DtPixels part(const DtPixels *pixels, uint32_t x, uint32_t y, uint32_t width,
                     uint32_t height)
{
    DtPixels of = *pixels;
    of.at += y * pixels->stride + (size_t)x * pixels->channels;
    of.width = width;
    of.height = height;
    return of;
}

/* Half of what is left over; of an odd number the even one, as Python rounds. */
static uint32_t half(uint32_t over) { return over / 2 + (over % 4 == 3); }

/* A random part: 8 to 100 % of the image, with a ratio of 3 to 4 to 4 to 3. If ten are too large,
 * the largest part in the middle that has such a ratio. */
static DtPixels zoom(const DtPixels *pixels, uint64_t key, uint64_t sample)
{
    const double widest = 4.0 / 3, area = (double)pixels->width * pixels->height;
    for (uint64_t i = 1; i <= TRIES; i++) {
        const DtPhilox r = draw(key, sample, i);
        const double wanted = area * (0.08 + 0.92 * dt_philox_unit(r.word[0]));
        const double ratio = exp(log(widest) * (2 * dt_philox_unit(r.word[1]) - 1));
        const double w = nearbyint(sqrt(wanted * ratio)), h = nearbyint(sqrt(wanted / ratio));
        if (w < 1 || h < 1 || w > pixels->width || h > pixels->height)
            continue;
        const uint32_t width = (uint32_t)w, height = (uint32_t)h;
        return part(pixels, choose(r.word[2], pixels->width - width + 1),
                    choose(r.word[3], pixels->height - height + 1), width, height);
    }
    const double ratio = (double)pixels->width / pixels->height;
    uint32_t width = pixels->width, height = pixels->height;
    if (ratio < 1 / widest)
        height = (uint32_t)fmin(height, nearbyint(width * widest));
    else if (ratio > widest)
        width = (uint32_t)fmin(width, nearbyint(height * widest));
    return part(pixels, (pixels->width - width) / 2, (pixels->height - height) / 2, width, height);
}

/* The longer side when the shorter one becomes `shorter`. */
static uint32_t longer(uint32_t shorter, uint32_t old_shorter, uint32_t old_longer)
{
    const uint64_t side = (uint64_t)shorter * old_longer / old_shorter;
    return side < UINT32_MAX ? (uint32_t)side : UINT32_MAX;
}

static DtStatus resize(const DtImageForm *form, const char *path, DtImageWork *work,
                       DtPixels *pixels)
{
    enum { MOST_SIDE = 1 << 20 };
    uint32_t width = pixels->width, height = pixels->height;
    if (form->stretch || form->crop == DT_IMAGE_ZOOM) {
        width = form->width;
        height = form->height;
    } else if (form->resize > 0 && width <= height) {
        height = longer(form->resize, width, height);
        width = form->resize;
    } else if (form->resize > 0) {
        width = longer(form->resize, height, width);
        height = form->resize;
    }
    if (width > MOST_SIDE || height > MOST_SIDE)
        return dt_status_fail(DT_EXIT_IO, "%.250s would have %u x %u pixels after `resize`", path,
                              width, height);
    return dt_image_resize(pixels, width, height, &work->between, &work->sized, pixels);
}

/* ---- places ---- */

/* Finds where the input's part begins, in the image with zeros around it. */
static DtStatus place(const DtImageForm *form, const DtPixels *pixels, const char *path,
                      const DtPhilox *r, uint32_t *ret_x, uint32_t *ret_y)
{
    const uint64_t width = pixels->width + 2 * (uint64_t)form->pad,
                   height = pixels->height + 2 * (uint64_t)form->pad;
    const bool fits = width >= form->width && height >= form->height,
               same = width == form->width && height == form->height;
    if (!fits || (!same && form->crop == DT_IMAGE_WHOLE))
        return dt_status_fail(
            DT_EXIT_IO, "%.200s has %llu x %llu pixels%s, and the input takes %u x %u: %s", path,
            (unsigned long long)width, (unsigned long long)height,
            form->resize ? " after `resize`"
            : form->pad  ? " with `pad`"
                         : "",
            form->width, form->height,
            fits ? "`crop = centre` or `crop = random` takes a part"
                 : "`resize = N` makes its shorter side N, `stretch` makes it the input's size");
    const uint64_t x = width - form->width, y = height - form->height;
    const bool random = form->crop == DT_IMAGE_RANDOM;
    *ret_x = random ? choose(r->word[0], x + 1) : half((uint32_t)x);
    *ret_y = random ? choose(r->word[1], y + 1) : half((uint32_t)y);
    return DT_OK;
}

/* Writes the part that begins at x, y of the padded image. */
static void write_part(const DtImageForm *form, const DtPixels *pixels, uint32_t x, uint32_t y,
                       bool mirrored, float *ret_values)
{
    for (uint32_t row = 0; row < form->height; row++)
        for (uint32_t column = 0; column < form->width; column++) {
            const int64_t down = (int64_t)y + row - form->pad;
            const int64_t across =
                (int64_t)x + (mirrored ? form->width - 1 - column : column) - form->pad;
            const bool inside =
                down >= 0 && down < pixels->height && across >= 0 && across < pixels->width;
            const uint8_t *at =
                pixels->at +
                (inside ? (size_t)down * pixels->stride + (size_t)across * pixels->channels : 0);
            float *to = ret_values + row * form->row_step + column * form->column_step;
            for (uint32_t c = 0; c < form->channels; c++)
                to[c * form->channel_step] = form->values[c][inside ? at[c] : 0];
        }
}

DtStatus dt_imageform_make(const DtImageForm *form, const DtPixels *pixels, const char *path,
                           uint64_t key, uint64_t sample, DtImageWork *work, float *ret_values)
{
    DtPixels image = *pixels;
    const DtPhilox r = draw(key, sample, 0);
    uint32_t x = 0, y = 0;
    DtStatus status = dt_image_channels(&image, form->channels, &work->coloured);
    if (!dt_status_ok(&status))
        return status;
    if (form->crop == DT_IMAGE_ZOOM)
        image = zoom(&image, key, sample);
    status = resize(form, path, work, &image);
    if (dt_status_ok(&status))
        status = place(form, &image, path, &r, &x, &y);
    if (dt_status_ok(&status))
        write_part(form, &image, x, y, form->flip && (r.word[2] >> 31), ret_values);
    return status;
}
