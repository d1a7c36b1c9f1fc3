/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG files by libjpeg (libjpeg-turbo). The library ends a decoding that fails by a longjmp to
 * this file; all that it has allocated belongs to the decoder, which is destroyed on either way.
 * Its warnings of data that are cut short or damaged are failures here: it would go on with grey.
 * The image is turned as EXIF says. A file may promise a large image, or thousands of passes over
 * one: both are bounded. */
#include "runtime/image.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum {
    MOST_SCANS = 200, /* of a progressive file; encoders write about ten */
    MOST_SEGMENT = 0xffff
};

typedef struct Decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char why[JMSG_LENGTH_MAX];
    DtStatus status; /* another failure than the library's */
} Decoder;

static void fail(j_common_ptr common)
{
    Decoder *decoder = common->client_data;
    if (!decoder->why[0])
        common->err->format_message(common, decoder->why);
    longjmp(decoder->back, 1);
}

static void warn(j_common_ptr common, int level)
{
    const int code = common->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER ||
                      code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC))
        fail(common);
}

static void show(j_common_ptr common) { (void)common; }

static void count_scans(j_common_ptr common)
{
    Decoder *decoder = common->client_data;
    if (common->is_decompressor && decoder->jpeg.input_scan_number > MOST_SCANS) {
        snprintf(decoder->why, sizeof decoder->why, "it has more than %d scans", MOST_SCANS);
        fail(common);
    }
}

static DtStatus check_header(const DtImageFile *file, const struct jpeg_decompress_struct *jpeg)
{
    if (jpeg->num_components != 1 && jpeg->num_components != 3)
        return dt_status_fail(DT_EXIT_IO,
                              "%.250s has %d colours of print, no red, green and blue: "
                              "PIL.Image.open(FILE).convert('RGB').save(NEW) writes them",
                              file->path, jpeg->num_components);
    return dt_image_check(file, jpeg->image_width, jpeg->image_height);
}

/* The turn that the first EXIF segment names. */
static DtImageTurn turn_of(const struct jpeg_decompress_struct *jpeg)
{
    static const char mark[6] = "Exif\0";
    for (jpeg_saved_marker_ptr at = jpeg->marker_list; at; at = at->next)
        if (at->data_length >= sizeof mark && memcmp(at->data, mark, sizeof mark) == 0)
            return dt_imageexif_turn(at->data + sizeof mark, at->data_length - sizeof mark);
    return DT_IMAGE_UPRIGHT;
}

/* Puts row y of the file where it goes in the turned image. */
static void put_row(const DtImageSteps *steps, const uint8_t *row, uint32_t width, uint32_t y,
                    uint32_t channels, uint8_t *image)
{
    for (uint32_t x = 0; x < width; x++)
        memcpy(image + (steps->first + x * steps->x + y * steps->y) * channels,
               row + (size_t)x * channels, channels);
}

/* Decodes; false: with a failure in decoder->status. The library's own come by longjmp. */
static bool decode(Decoder *decoder, const DtImageFile *file, DtImageBuffer *buffer,
                   DtPixels *ret_pixels)
{
    struct jpeg_decompress_struct *jpeg = &decoder->jpeg;
    jpeg_create_decompress(jpeg);
    jpeg->progress = &decoder->progress;
    jpeg_mem_src(jpeg, (unsigned char *)file->at, (unsigned long)file->len);
    jpeg_save_markers(jpeg, JPEG_APP0 + 1, MOST_SEGMENT);
    jpeg_read_header(jpeg, TRUE);
    decoder->status = check_header(file, jpeg);
    if (!dt_status_ok(&decoder->status))
        return false;
    jpeg->out_color_space = jpeg->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(jpeg);
    const uint32_t channels = (uint32_t)jpeg->output_components;
    const size_t stride = (size_t)jpeg->output_width * channels;
    const uint64_t bytes = (uint64_t)stride * jpeg->output_height;
    const DtImageTurn turn = turn_of(jpeg);
    const DtImageSteps steps = dt_imageexif_steps(turn, jpeg->output_width, jpeg->output_height);
    decoder->status = dt_image_room(buffer, bytes + (turn != DT_IMAGE_UPRIGHT ? stride : 0));
    if (!dt_status_ok(&decoder->status))
        return false;
    *ret_pixels =
        (DtPixels){buffer->at, (size_t)steps.width * channels, steps.width, steps.height, channels};
    while (jpeg->output_scanline < jpeg->output_height) {
        const uint32_t y = jpeg->output_scanline;
        JSAMPROW row = buffer->at + (turn == DT_IMAGE_UPRIGHT ? y * stride : bytes);
        jpeg_read_scanlines(jpeg, &row, 1);
        if (turn != DT_IMAGE_UPRIGHT)
            put_row(&steps, row, jpeg->output_width, y, channels, buffer->at);
    }
    return true;
}

DtStatus dt_imagejpeg_decode(const DtImageFile *file, DtImageBuffer *buffer, DtPixels *ret_pixels)
{
    Decoder decoder;
    memset(&decoder, 0, sizeof decoder);
    decoder.jpeg.err = jpeg_std_error(&decoder.errors);
    decoder.jpeg.client_data = &decoder;
    decoder.errors.error_exit = fail;
    decoder.errors.emit_message = warn;
    decoder.errors.output_message = show;
    decoder.progress.progress_monitor = count_scans;
    if (setjmp(decoder.back) == 0)
        decode(&decoder, file, buffer, ret_pixels);
    else
        decoder.status =
            dt_status_fail(DT_EXIT_IO, "%.250s cannot be decoded: %.180s", file->path, decoder.why);
    jpeg_destroy_decompress(&decoder.jpeg);
    return decoder.status;
}
