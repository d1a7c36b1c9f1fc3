/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/image.h"

#include <stdlib.h>
#include <string.h>

DtStatus dt_image_room(DtImageBuffer *buffer, uint64_t bytes)
{
    if (bytes <= buffer->cap)
        return DT_OK;
    if (bytes > SIZE_MAX / 2)
        return dt_status_fail(DT_EXIT_RETRY, "no memory for an image");
    free(buffer->at);
    buffer->at = malloc((size_t)bytes);
    buffer->cap = buffer->at ? (size_t)bytes : 0;
    return buffer->at ? DT_OK
                      : dt_status_fail(DT_EXIT_RETRY, "no memory for %llu bytes of an image",
                                       (unsigned long long)bytes);
}

DtStatus dt_image_check(const DtImageFile *file, uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0)
        return dt_status_fail(DT_EXIT_IO, "%.250s has no pixels", file->path);
    if ((uint64_t)width * height <= file->most)
        return DT_OK;
    return dt_status_fail(DT_EXIT_IO,
                          "%.250s has %u x %u pixels, more than the %llu that the source allows: "
                          "`pixels = %llu` would allow them",
                          file->path, width, height, (unsigned long long)file->most,
                          (unsigned long long)width * height);
}

DtStatus dt_image_decode(const DtImageFile *file, DtImageBuffer *buffer, DtPixels *ret_pixels)
{
    if (file->len >= 8 && memcmp(file->at, "\x89PNG\r\n\x1a\n", 8) == 0)
        return dt_imagepng_decode(file, buffer, ret_pixels);
    if (file->len >= 3 && memcmp(file->at, "\xff\xd8\xff", 3) == 0)
        return dt_imagejpeg_decode(file, buffer, ret_pixels);
    return dt_status_fail(DT_EXIT_IO,
                          "%.250s is no JPEG and no PNG file%s: "
                          "PIL.Image.open(FILE).convert('RGB').save('NEW.png') writes one of what "
                          "Pillow can read",
                          file->path, file->len == 0 ? " but empty" : "");
}

/* As Pillow rounds it: sums of 16 bits. */
static uint8_t grey_of(const uint8_t *rgb)
{
    return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

DtStatus dt_image_channels(DtPixels *pixels, uint32_t channels, DtImageBuffer *buffer)
{
    const DtPixels from = *pixels;
    if (from.channels == channels)
        return DT_OK;
    const size_t stride = (size_t)from.width * channels;
    DtStatus status = dt_image_room(buffer, (uint64_t)stride * from.height);
    if (!dt_status_ok(&status))
        return status;
    for (uint32_t y = 0; y < from.height; y++) {
        const uint8_t *in = from.at + y * from.stride;
        uint8_t *out = buffer->at + y * stride;
        for (uint32_t x = 0; x < from.width; x++)
            if (channels == 1)
                out[x] = grey_of(in + 3 * (size_t)x);
            else
                memset(out + 3 * (size_t)x, in[x], 3);
    }
    *pixels = (DtPixels){buffer->at, stride, from.width, from.height, channels};
    return DT_OK;
}
