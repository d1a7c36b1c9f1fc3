/* SPDX-License-Identifier: Apache-2.0 */
/* PNG files by libpng, of every kind of pixels: palettes are looked up, grey of fewer bits is
 * spread to 0 .. 255, 16 bits are rounded to 8, alpha is dropped. The library ends a decoding that
 * fails by a longjmp to this file. What a file says besides its pixels is bounded: a text or a
 * colour profile of a few bytes can be packed gigabytes. */
#include "runtime/image.h"

#include <png.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CHUNK = 8 << 20, MOST_CHUNKS = 128 };

typedef struct Decoder {
    png_structp png;
    png_infop info;
    const DtImageFile *file;
    size_t at; /* bytes of the file that have been read */
    char why[160];
    DtStatus status; /* another failure than the library's */
} Decoder;

static void fail(png_structp png, png_const_charp why)
{
    Decoder *decoder = png_get_error_ptr(png);
    snprintf(decoder->why, sizeof decoder->why, "%s", why);
    png_longjmp(png, 1);
}

static void warn(png_structp png, png_const_charp why)
{
    (void)png;
    (void)why;
}

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
    Decoder *decoder = png_get_io_ptr(png);
    if (n > decoder->file->len - decoder->at)
        png_error(png, "the file ends before the image does");
    memcpy(to, decoder->file->at + decoder->at, n);
    decoder->at += n;
}

/* Asks the library for grey, or red, green and blue, of 8 bits. Returns the passes over the
 * rows. */
static int ask(png_structp png, png_infop info)
{
    const int type = png_get_color_type(png, info);
    if (png_get_bit_depth(png, info) == 16)
        png_set_scale_16(png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY)
        png_set_expand_gray_1_2_4_to_8(png);
    png_set_strip_alpha(png);
    const int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    return passes;
}

static void decode(Decoder *decoder, DtImageBuffer *buffer, DtPixels *ret_pixels)
{
    png_structp png = decoder->png;
    png_set_read_fn(png, decoder, read_bytes);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(png, MOST_CHUNK);
    png_set_chunk_cache_max(png, MOST_CHUNKS);
    png_read_info(png, decoder->info);
    const uint32_t width = png_get_image_width(png, decoder->info),
                   height = png_get_image_height(png, decoder->info);
    decoder->status = dt_image_check(decoder->file, width, height);
    if (!dt_status_ok(&decoder->status))
        return;
    const int passes = ask(png, decoder->info);
    const uint32_t channels = png_get_channels(png, decoder->info);
    const size_t stride = (size_t)width * channels;
    if ((channels != 1 && channels != 3) || png_get_rowbytes(png, decoder->info) != stride)
        png_error(png, "its pixels have another form than its header says");
    decoder->status = dt_image_room(buffer, (uint64_t)stride * height);
    if (!dt_status_ok(&decoder->status))
        return;
    *ret_pixels = (DtPixels){buffer->at, stride, width, height, channels};
    for (int pass = 0; pass < passes; pass++)
        for (uint32_t y = 0; y < height; y++)
            png_read_row(png, buffer->at + y * stride, NULL);
}

DtStatus dt_imagepng_decode(const DtImageFile *file, DtImageBuffer *buffer, DtPixels *ret_pixels)
{
    Decoder decoder = {.file = file, .status = DT_OK};
    decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, fail, warn);
    if (decoder.png)
        decoder.info = png_create_info_struct(decoder.png);
    if (!decoder.info)
        decoder.status = dt_status_fail(DT_EXIT_RETRY, "no memory for a PNG file");
    else if (setjmp(png_jmpbuf(decoder.png)) == 0)
        decode(&decoder, buffer, ret_pixels);
    else
        decoder.status =
            dt_status_fail(DT_EXIT_IO, "%.250s cannot be decoded: %.180s", file->path, decoder.why);
    png_destroy_read_struct(&decoder.png, &decoder.info, NULL);
    return decoder.status;
}
