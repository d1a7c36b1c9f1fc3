/* SPDX-License-Identifier: Apache-2.0 */
/* Images: the pixels of JPEG and PNG files, and how they become the values of an input.
 *
 *   image.c         which format a file has; grey and colour
 *   image_jpeg.c    libjpeg
 *   image_exif.c    how a photograph is meant to be turned
 *   image_png.c     libpng
 *   image_resize.c  other sizes
 *   image_form.c    sizes, parts, mirror images, floats
 *
 * Nothing here knows plans or readers. All functions may run in several threads at once, each with
 * buffers of its own. */
#ifndef DT_RUNTIME_IMAGE_H
#define DT_RUNTIME_IMAGE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that grow and are used again; free `at`. */
typedef struct DtImageBuffer {
    uint8_t *at;
    size_t cap;
} DtImageBuffer;

/* Makes room for so many bytes, whose contents are then undefined. */
DtStatus dt_image_room(DtImageBuffer *buffer, uint64_t bytes);

/* Pixels of somebody else's memory: rows from the top, `stride` bytes apart, of bytes that are grey
 * (1 channel) or red, green, blue (3). */
typedef struct DtPixels {
    const uint8_t *at;
    size_t stride;
    uint32_t width, height, channels;
} DtPixels;

/* The bytes of a file. */
typedef struct DtImageFile {
    const uint8_t *at;
    size_t len;
    const char *path; /* for messages */
    uint64_t most;    /* images of more pixels are refused before they are decoded */
} DtImageFile;

/* Fails for an image that has no pixels, or more than `most`. */
DtStatus dt_image_check(const DtImageFile *file, uint32_t width, uint32_t height);
/* Decodes the file into the buffer. Fails, with the file's name, for a file that is damaged, cut
 * short, or none of these. */
DtStatus dt_image_decode(const DtImageFile *file, DtImageBuffer *buffer, DtPixels *ret_pixels);
DtStatus dt_imagejpeg_decode(const DtImageFile *file, DtImageBuffer *buffer, DtPixels *ret_pixels);
DtStatus dt_imagepng_decode(const DtImageFile *file, DtImageBuffer *buffer, DtPixels *ret_pixels);

/* What becomes of the pixels of a photograph, by the numbers of EXIF. */
typedef enum DtImageTurn {
    DT_IMAGE_UPRIGHT = 1,
    DT_IMAGE_MIRRORED,   /* left to right */
    DT_IMAGE_HALF,       /* half a turn */
    DT_IMAGE_FLIPPED,    /* top to bottom */
    DT_IMAGE_TRANSPOSED, /* rows become columns; so in all that follow */
    DT_IMAGE_RIGHT,      /* a quarter turn to the right */
    DT_IMAGE_TRANSVERSE, /* columns and rows from the other end */
    DT_IMAGE_LEFT        /* a quarter turn to the left */
} DtImageTurn;
/* The turn that the TIFF part of EXIF data names; upright if it names none. */
DtImageTurn dt_imageexif_turn(const uint8_t *tiff, size_t len);

/* Where pixel (x, y) of a file goes: pixel number first + x * step x + y * step y of the turned
 * image, which has this size. */
typedef struct DtImageSteps {
    uint32_t width, height;
    int64_t first, x, y;
} DtImageSteps;
/* width, height: of the file, both above 0. */
DtImageSteps dt_imageexif_steps(DtImageTurn turn, uint32_t width, uint32_t height);

/* Gives pixels 1 or 3 channels, in the buffer if they have others. The grey of a colour is that of
 * ITU-R 601: 0.299 red + 0.587 green + 0.114 blue. */
DtStatus dt_image_channels(DtPixels *pixels, uint32_t channels, DtImageBuffer *buffer);

/* Scales to another size: bilinear, and where that is smaller the mean under a triangle as wide as
 * the pixels of the result (what Pillow and torchvision call bilinear with antialias). between:
 * memory that it needs meanwhile. */
DtStatus dt_image_resize(const DtPixels *from, uint32_t width, uint32_t height,
                         DtImageBuffer *between, DtImageBuffer *buffer, DtPixels *ret_pixels);

typedef enum DtImageCrop {
    DT_IMAGE_WHOLE,  /* the image must have the input's size */
    DT_IMAGE_CENTRE, /* the part in the middle */
    DT_IMAGE_RANDOM, /* a part anywhere */
    DT_IMAGE_ZOOM,   /* a part of random place, size and ratio, scaled to the input's size */
    DT_IMAGE_CROPS
} DtImageCrop;

/* How an image becomes the values of an input, in this order: its channels, its size, the part of
 * it, mirrored or not, (value / 255 - mean) / std. */
typedef struct DtImageForm {
    uint32_t width, height, channels;            /* of the input */
    int64_t row_step, column_step, channel_step; /* between its elements */
    uint32_t resize;                             /* the shorter side becomes so long; 0: as it is */
    bool stretch; /* scaled to the input's size, whatever the ratio */
    uint32_t pad; /* zeros around it before a part is taken */
    DtImageCrop crop;
    bool flip;            /* every second one is mirrored, by chance */
    float values[3][256]; /* of each byte, by channel */
} DtImageForm;

/* Fills the table of values. mean, std: of each channel. */
void dt_imageform_values(DtImageForm *form, const double mean[3], const double std[3]);

typedef struct DtImageWork {
    DtImageBuffer file, decoded, coloured, between, sized;
} DtImageWork;
void dt_imageform_free(DtImageWork *work);

/* Makes the values of an image. key, sample: what its random numbers depend on. */
DtStatus dt_imageform_make(const DtImageForm *form, const DtPixels *pixels, const char *path,
                           uint64_t key, uint64_t sample, DtImageWork *work, float *ret_values);

#endif
