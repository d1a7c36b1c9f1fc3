/* SPDX-License-Identifier: Apache-2.0 */
/* The orientation of a photograph: cameras write the pixels as the sensor has them, and in EXIF
 * (JEITA CP-3451, tag 0x0112) how they are meant to be turned. EXIF is a TIFF file in a segment of
 * the JPEG file: "II" or "MM" for the order of bytes, 42, and where a table of entries begins, 12
 * bytes each. Every place in it comes from the file, so each is compared with its end before it is
 * read. */
#include "runtime/image.h"

#include <string.h>

enum { ENTRY = 12, TAG = 0x0112, TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_LONG = 4 };

typedef struct Exif {
    const uint8_t *at;
    size_t len;
    bool big; /* the first byte of a number is the highest */
} Exif;

/* The number of n bytes at a place; 0 beyond the end. */
static uint32_t number(const Exif *exif, size_t at, size_t n)
{
    uint32_t value = 0;
    if (at > exif->len || n > exif->len - at)
        return 0;
    for (size_t i = 0; i < n; i++)
        value |= (uint32_t)exif->at[at + i] << 8 * (exif->big ? n - 1 - i : i);
    return value;
}

DtImageTurn dt_imageexif_turn(const uint8_t *tiff, size_t len)
{
    Exif exif = {.at = tiff, .len = len};
    uint32_t found = DT_IMAGE_UPRIGHT;
    if (len < 8 || (memcmp(tiff, "II\x2a\0", 4) != 0 && memcmp(tiff, "MM\0\x2a", 4) != 0))
        return DT_IMAGE_UPRIGHT;
    exif.big = tiff[0] == 'M';
    const size_t table = number(&exif, 4, 4);
    const uint32_t n = number(&exif, table, 2);
    for (uint32_t i = 0; i < n; i++) {
        const size_t at = table + 2 + (size_t)i * ENTRY;
        if (at > len || ENTRY > len - at)
            break;
        const uint32_t type = number(&exif, at + 2, 2);
        const size_t size = type == TYPE_BYTE    ? 1
                            : type == TYPE_SHORT ? 2
                            : type == TYPE_LONG  ? 4
                                                 : 0;
        if (number(&exif, at, 2) == TAG && number(&exif, at + 4, 4) == 1 && size > 0)
            found = number(&exif, at + 8, size);
    }
    return found >= DT_IMAGE_UPRIGHT && found <= DT_IMAGE_LEFT ? (DtImageTurn)found
                                                               : DT_IMAGE_UPRIGHT;
}

DtImageSteps dt_imageexif_steps(DtImageTurn turn, uint32_t width, uint32_t height)
{
    const bool swaps = turn >= DT_IMAGE_TRANSPOSED;
    const bool flips_x = turn == DT_IMAGE_MIRRORED || turn == DT_IMAGE_HALF ||
                         turn == DT_IMAGE_TRANSVERSE || turn == DT_IMAGE_LEFT;
    const bool flips_y = turn == DT_IMAGE_HALF || turn == DT_IMAGE_FLIPPED ||
                         turn == DT_IMAGE_RIGHT || turn == DT_IMAGE_TRANSVERSE;
    const int64_t row = swaps ? height : width; /* pixels of a row of the result */
    const int64_t x = swaps ? row : 1, y = swaps ? 1 : row;
    return (DtImageSteps){.width = swaps ? height : width,
                          .height = swaps ? width : height,
                          .first = (flips_x ? x * ((int64_t)width - 1) : 0) +
                                   (flips_y ? y * ((int64_t)height - 1) : 0),
                          .x = flips_x ? -x : x,
                          .y = flips_y ? -y : y};
}
