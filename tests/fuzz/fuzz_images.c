/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target of images: any bytes are an image or are refused. Checksums and lengths of PNG's
 * chunks are made right half the time, else few inputs would get behind them. */
#include "runtime/image.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const char *const fuzz_corpus[];
const char *const fuzz_corpus[] = {"tests/fuzz/corpus/*.png", "tests/fuzz/corpus/*.jpg", NULL};

static uint32_t crc_of(const uint8_t *at, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void put(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Makes the checksums of the chunks right, as far as their lengths fit. */
static void mend(uint8_t *bytes, size_t size)
{
    size_t at = 8;
    while (size >= 12 && at <= size - 12) {
        const size_t len = (size_t)bytes[at] << 24 | (size_t)bytes[at + 1] << 16 |
                           (size_t)bytes[at + 2] << 8 | bytes[at + 3];
        if (len > size - at - 12)
            return;
        put(bytes + at + 8 + len, crc_of(bytes + at + 4, len + 4));
        at += 12 + len;
    }
}

static void use(const uint8_t *data, size_t size)
{
    enum { SIDE = 16 };
    static float values[3 * SIDE * SIDE];
    DtImageWork work = {0};
    DtPixels pixels;
    DtImageForm form = {.width = SIDE,
                        .height = SIDE,
                        .channels = size % 2 ? 3 : 1,
                        .row_step = SIDE,
                        .column_step = 1,
                        .channel_step = SIDE * SIDE,
                        .resize = size % 3 ? SIDE : 0,
                        .pad = (uint32_t)(size % 5),
                        .crop = (DtImageCrop)(size % DT_IMAGE_CROPS),
                        .flip = true};
    const DtImageFile file = {data, size, "fuzz.png", 1 << 16};
    dt_imageform_values(&form, (double[]){0, 0, 0}, (double[]){1, 1, 1});
    DtStatus status = dt_image_decode(&file, &work.decoded, &pixels);
    if (dt_status_ok(&status))
        status = dt_imageform_make(&form, &pixels, "fuzz.png", size, size, &work, values);
    for (size_t i = 0; i < sizeof values / sizeof *values && dt_status_ok(&status); i++)
        if (!(values[i] >= 0 && values[i] <= 1))
            abort();
    dt_imageform_free(&work);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1); /* of its own size, so that a sanitizer sees its end */
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    use(copy, size);
    mend(copy, size);
    use(copy, size);
    free(copy);
    return 0;
}
