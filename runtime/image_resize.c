/* SPDX-License-Identifier: Apache-2.0 */
/* Other sizes of images, along one axis after the other: a pixel of the result is the mean of those
 * under a triangle around its centre. The triangle reaches one pixel to each side; of the result,
 * if that is the smaller image, so that no pixel is left out (antialias). Weights have 22 bits
 * after the point, and each axis rounds to bytes: the sums of Pillow (libImaging/Resample.c), whose
 * bytes these are. */
#include "runtime/image.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BITS = 22 };

/* The weights of one axis: of pixel i of the result, `size` apart, those of pixels first[i] ..
 * first[i] + n[i] - 1. */
typedef struct Weights {
    int32_t *at, *first, *n;
    size_t size;
} Weights;

static double triangle(double x)
{
    const double away = fabs(x);
    return away < 1 ? 1 - away : 0;
}

/* The weights of one pixel, whose centre is at `centre` of an axis of `from` pixels. */
static void weigh(double centre, double wide, int64_t from, int32_t *ret_weights,
                  int32_t *ret_first, int32_t *ret_n)
{
    int64_t first = (int64_t)(centre - wide + 0.5), end = (int64_t)(centre + wide + 0.5);
    first = first > 0 ? first : 0;
    end = end < from ? end : from;
    double sum = 0;
    for (int64_t x = first; x < end; x++)
        sum += triangle(((double)x - centre + 0.5) * (1 / wide));
    for (int64_t x = first; x < end; x++) {
        const double weight = triangle(((double)x - centre + 0.5) * (1 / wide));
        const double part = sum != 0 ? weight / sum : weight;
        ret_weights[x - first] = (int32_t)(part * (1 << BITS) + 0.5);
    }
    *ret_first = (int32_t)first;
    *ret_n = (int32_t)(end - first);
}

static DtStatus make_weights(uint32_t from, uint32_t to, Weights *ret_weights)
{
    const double scale = (double)from / to, wide = scale > 1 ? scale : 1;
    Weights *w = ret_weights;
    w->size = (size_t)ceil(wide) * 2 + 1;
    w->at = calloc((size_t)to * (w->size + 2), sizeof *w->at);
    if (!w->at)
        return dt_status_fail(DT_EXIT_RETRY, "no memory to scale an image");
    w->first = w->at + (size_t)to * w->size;
    w->n = w->first + to;
    for (uint32_t i = 0; i < to; i++)
        weigh(((double)i + 0.5) * scale, wide, from, w->at + i * w->size, &w->first[i], &w->n[i]);
    return DT_OK;
}

/* The byte that the weighted sum of bytes `step` apart is nearest to. */
static uint8_t mean(const uint8_t *at, size_t step, const int32_t *weights, int32_t n)
{
    int32_t sum = 1 << (BITS - 1);
    for (int32_t i = 0; i < n; i++)
        sum += at[(size_t)i * step] * weights[i];
    sum >>= BITS;
    return (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* Scales rows to another width. */
static void scale_rows(const DtPixels *from, const Weights *weights, const DtPixels *to,
                       uint8_t *out)
{
    const uint32_t channels = from->channels;
    for (uint32_t y = 0; y < to->height; y++)
        for (uint32_t x = 0; x < to->width; x++)
            for (uint32_t c = 0; c < channels; c++)
                *out++ =
                    mean(from->at + y * from->stride + (size_t)weights->first[x] * channels + c,
                         channels, weights->at + x * weights->size, weights->n[x]);
}

/* Scales columns to another height. */
static void scale_columns(const DtPixels *from, const Weights *weights, const DtPixels *to,
                          uint8_t *out)
{
    const size_t bytes = (size_t)to->width * to->channels;
    for (uint32_t y = 0; y < to->height; y++)
        for (size_t x = 0; x < bytes; x++)
            *out++ = mean(from->at + (size_t)weights->first[y] * from->stride + x, from->stride,
                          weights->at + y * weights->size, weights->n[y]);
}

/* Scales along one axis, into the buffer. */
static DtStatus scale(const DtPixels *from, uint32_t width, uint32_t height, DtImageBuffer *buffer,
                      DtPixels *ret_pixels)
{
    Weights weights;
    const size_t stride = (size_t)width * from->channels;
    DtStatus status = dt_image_room(buffer, (uint64_t)stride * height);
    if (!dt_status_ok(&status))
        return status;
    const DtPixels to = {buffer->at, stride, width, height, from->channels};
    const bool rows = width != from->width;
    status = rows ? make_weights(from->width, width, &weights)
                  : make_weights(from->height, height, &weights);
    if (!dt_status_ok(&status))
        return status;
    if (rows)
        scale_rows(from, &weights, &to, buffer->at);
    else
        scale_columns(from, &weights, &to, buffer->at);
    free(weights.at);
    *ret_pixels = to;
    return DT_OK;
}

DtStatus dt_image_resize(const DtPixels *from, uint32_t width, uint32_t height,
                         DtImageBuffer *between, DtImageBuffer *buffer, DtPixels *ret_pixels)
{
    DtPixels pixels = *from;
    DtStatus status = DT_OK;
    if (width != pixels.width)
        status = scale(&pixels, width, pixels.height, between, &pixels);
    if (dt_status_ok(&status) && height != pixels.height)
        status = scale(&pixels, width, height, buffer, &pixels);
    *ret_pixels = pixels;
    return status;
}
