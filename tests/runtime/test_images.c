/* SPDX-License-Identifier: Apache-2.0 */
/* Images: files of every kind, damaged ones, sizes against a plain reference, and what becomes of
 * an image by chance. */
#include "runtime/data_images.h"

#include "base/file.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 17, HEIGHT = 13, MOST = 1 << 20 };

static DtArena *arena;
static DtImageWork work;

static void setup(void) { arena = dt_arena_new(); }
static void teardown(void)
{
    dt_imageform_free(&work);
    dt_arena_free(arena);
}

TestSuite(images, .init = setup, .fini = teardown);

static DtImageFile file_of(const char *name)
{
    char *bytes;
    size_t len;
    const char *path = dt_arena_printf(arena, "tests/fuzz/corpus/%s", name);
    DtStatus status = dt_file_read(arena, path, 1 << 20, &bytes, &len);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    return (DtImageFile){(const uint8_t *)bytes, len, name, MOST};
}

static DtPixels decode(const char *name)
{
    DtPixels pixels = {0};
    const DtImageFile file = file_of(name);
    DtStatus status = dt_image_decode(&file, &work.decoded, &pixels);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(pixels.width == WIDTH && pixels.height == HEIGHT, "%s", name);
    return pixels;
}

static void refused(const DtImageFile *file, const char *said)
{
    DtPixels pixels;
    DtStatus status = dt_image_decode(file, &work.decoded, &pixels);
    cr_assert(!dt_status_ok(&status), "decoded; expected: %s", said);
    cr_assert(strstr(status.message, said), "said: %s\nexpected: %s", status.message, said);
}

/* ---- files ---- */

/* The picture of the corpus (tests/fuzz/corpus): red x * 14, green y * 18, blue (x + y) * 8. */
static int colour_at(int x, int y, int c)
{
    return c == 0 ? x * 14 : c == 1 ? y * 18 : (x + y) * 8;
}

static void expect_colours(const char *name, int off)
{
    const DtPixels p = decode(name);
    cr_assert_eq(p.channels, 3, "%s", name);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < 3; c++) {
                const int value = p.at[(size_t)y * p.stride + (size_t)(3 * x + c)];
                cr_assert(abs(value - colour_at(x, y, c)) <= off, "%s: %d at %d, %d, %d", name,
                          value, x, y, c);
            }
}

Test(images, of_every_kind)
{
    expect_colours("colour.png", 0);
    expect_colours("alpha.png", 0);
    expect_colours("palette.png", 64);
    expect_colours("full.jpg", 12);
    expect_colours("colour.jpg", 60); /* colours of half the size */
    expect_colours("progressive.jpg", 60);
    const DtPixels wide = decode("wide.png");
    cr_assert_eq(wide.channels, 1);
    for (int x = 0; x < WIDTH; x++)
        cr_assert_eq(wide.at[x], lround(x * 4000 / 257.0), "16 bits to 8");
    const DtPixels interlaced = decode("interlaced.png");
    for (int x = 0; x < WIDTH; x++)
        for (int y = 0; y < HEIGHT; y++)
            cr_assert_eq(interlaced.at[(size_t)y * interlaced.stride + (size_t)(3 * x + 1)],
                         lround(y * 4000 / 257.0));
    const DtPixels bits = decode("bits.png");
    cr_assert_eq(bits.channels, 1);
    for (size_t i = 0; i < WIDTH * HEIGHT; i++)
        cr_assert(bits.at[i] == 0 || bits.at[i] == 255);
}

/* ---- EXIF ---- */

/* A TIFF file whose only table has the orientation, after another entry. */
static size_t tiff_of(uint32_t turn, bool big, uint8_t to[64])
{
    static const uint8_t little[] = {'I', 'I', 42, 0, 8, 0,   0,   0,   2, 0,  0x0f, 1, 2,
                                     0,   4,   0,  0, 0, 'a', 'b', 'c', 0, 18, 1,    3, 0,
                                     1,   0,   0,  0, 0, 0,   0,   0,   0, 0,  0,    0},
                         great[] = {'M', 'M', 0, 42, 0, 0,   0,   8,   0, 2, 1,  0x0f, 0,
                                    2,   0,   0, 0,  4, 'a', 'b', 'c', 0, 1, 18, 0,    3,
                                    0,   0,   0, 1,  0, 0,   0,   0,   0, 0, 0,  0};
    memcpy(to, big ? great : little, sizeof little);
    to[big ? 31 : 30] = (uint8_t)turn;
    return sizeof little;
}

/* Where Pillow's exif_transpose takes pixel (x, y) of the result from. */
static void taken_from(uint32_t turn, int x, int y, int *from_x, int *from_y)
{
    const int right = WIDTH - 1, low = HEIGHT - 1;
    const int all[8][2] = {{x, y}, {right - x, y}, {right - x, low - y}, {x, low - y},
                           {y, x}, {y, low - x},   {right - y, low - x}, {right - y, x}};
    *from_x = all[turn - 1][0];
    *from_y = all[turn - 1][1];
}

Test(images, are_turned_as_exif_says)
{
    const DtImageFile plain = file_of("full.jpg");
    const DtPixels whole = decode("full.jpg");
    for (uint32_t turn = 1; turn <= 8; turn++) {
        uint8_t tiff[64];
        DtPixels p;
        DtImageBuffer buffer = {0};
        const size_t n = tiff_of(turn, turn % 2, tiff), len = n + 6 + 2;
        uint8_t *bytes = dt_arena_alloc(arena, plain.len + len + 2);
        memcpy(bytes, plain.at, 2);
        memcpy(bytes + 2, (uint8_t[]){0xff, 0xe1, (uint8_t)(len >> 8), (uint8_t)len}, 4);
        memcpy(bytes + 6, "Exif\0", 6);
        memcpy(bytes + 12, tiff, n);
        memcpy(bytes + 12 + n, plain.at + 2, plain.len - 2);
        const DtImageFile file = {bytes, plain.len + len + 2, "turned.jpg", MOST};
        DtStatus status = dt_image_decode(&file, &buffer, &p);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        cr_assert_eq(p.width, turn >= 5 ? HEIGHT : WIDTH);
        cr_assert_eq(p.height, turn >= 5 ? WIDTH : HEIGHT);
        for (int y = 0; y < (int)p.height; y++)
            for (int x = 0; x < (int)p.width; x++) {
                int from_x, from_y;
                taken_from(turn, x, y, &from_x, &from_y);
                cr_assert_arr_eq(p.at + (size_t)y * p.stride + 3 * (size_t)x,
                                 whole.at + (size_t)from_y * whole.stride + 3 * (size_t)from_x, 3,
                                 "turn %u, pixel %d, %d", turn, x, y);
            }
        free(buffer.at);
    }
}

Test(images, exif_that_is_damaged_turns_nothing)
{
    uint8_t tiff[64];
    for (int big = 0; big < 2; big++) {
        const size_t n = tiff_of(6, big, tiff);
        cr_assert_eq(dt_imageexif_turn(tiff, n), DT_IMAGE_RIGHT);
        for (size_t len = 0; len < n - 4;
             len++) { /* of its own size, so that a sanitizer sees its end */
            uint8_t *cut = malloc(len + 1);
            memcpy(cut, tiff, len);
            cr_assert_eq(dt_imageexif_turn(cut, len), DT_IMAGE_UPRIGHT, "%zu bytes", len);
            free(cut);
        }
        for (uint32_t turn = 0; turn < 256; turn += turn == 0 ? 9 : 1) {
            tiff_of(turn, big, tiff);
            cr_assert_eq(dt_imageexif_turn(tiff, n), DT_IMAGE_UPRIGHT, "turn %u", turn);
        }
        tiff_of(6, big, tiff);
        memset(tiff + 4, 0xff, 4); /* the table is elsewhere */
        cr_assert_eq(dt_imageexif_turn(tiff, n), DT_IMAGE_UPRIGHT);
    }
}

Test(images, grey_and_colour)
{
    DtPixels grey = decode("colour.png"), same;
    DtStatus status = dt_image_channels(&grey, 1, &work.coloured);
    cr_assert(dt_status_ok(&status) && grey.channels == 1);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            const double right = 0.299 * colour_at(x, y, 0) + 0.587 * colour_at(x, y, 1) +
                                 0.114 * colour_at(x, y, 2);
            cr_assert_float_eq(grey.at[(size_t)y * grey.stride + (size_t)x], right, 0.51);
        }
    DtImageBuffer colours = {0};
    same = grey;
    status = dt_image_channels(&same, 3, &colours);
    cr_assert(dt_status_ok(&status) && same.channels == 3 && same.at[3 * 5 + 2] == grey.at[5]);
    free(colours.at);
}

Test(images, too_many_pixels_are_refused)
{
    static const char *const names[] = {"colour.png", "colour.jpg"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        DtImageFile file = file_of(names[i]);
        file.most = WIDTH * HEIGHT - 1;
        refused(&file, "has 17 x 13 pixels, more than the 220 that the source allows");
        file.len = 200 < file.len ? 200 : 50; /* what comes after the header is not needed for it */
        if (i == 0)
            refused(&file, "more than the 220");
    }
    const DtImageFile print = file_of("print.jpg");
    refused(&print, "print.jpg has 4 colours of print");
    const DtImageFile text = {(const uint8_t *)"GIF89a ..", 9, "a.png", MOST};
    refused(&text, "a.png is no JPEG and no PNG file");
}

Test(images, files_that_are_cut_short_are_refused)
{
    static const char *const names[] = {"colour.png",     "interlaced.png", "wide.png",
                                        "bits.png",       "colour.jpg",     "grey.jpg",
                                        "progressive.jpg"};
    for (size_t i = 0; i < DT_COUNT(names); i++) {
        const bool png = strstr(names[i], ".png") != NULL;
        DtImageFile file = file_of(names[i]);
        const size_t whole = file.len - (png ? 4 + 12 : 2); /* the rest says only that it ends */
        for (file.len = 0; file.len < whole - 4; file.len++)
            refused(&file, names[i]);
    }
}

/* ---- sizes ---- */

/* The value of a pixel of the smaller or larger image along one axis, in double precision. */
static double weighted(const double *from, int n, int to, int i)
{
    const double scale = (double)n / to, wide = scale > 1 ? scale : 1, centre = (i + 0.5) * scale;
    double sum = 0, weights = 0;
    for (int x = 0; x < n; x++) {
        const double away = fabs((x + 0.5 - centre) / wide), weight = away < 1 ? 1 - away : 0;
        sum += weight * from[x];
        weights += weight;
    }
    return sum / weights;
}

static void check_size(const DtPixels *from, int width, int height)
{
    DtPixels to;
    DtStatus status =
        dt_image_resize(from, (uint32_t)width, (uint32_t)height, &work.between, &work.sized, &to);
    cr_assert(dt_status_ok(&status), "%s", status.message);
    cr_assert(to.width == (uint32_t)width && to.height == (uint32_t)height);
    for (uint32_t c = 0; c < from->channels; c++)
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++) {
                double column[HEIGHT], row[WIDTH];
                for (int v = 0; v < HEIGHT; v++) {
                    for (int u = 0; u < WIDTH; u++)
                        row[u] =
                            from->at[(size_t)v * from->stride + (size_t)u * from->channels + c];
                    column[v] = weighted(row, WIDTH, width, x);
                }
                const double right = weighted(column, HEIGHT, height, y);
                const int value = to.at[(size_t)y * to.stride + (size_t)x * to.channels + c];
                cr_assert_float_eq(value, right, 1.01, "%d x %d: %d, not %g, at %d, %d", width,
                                   height, value, right, x, y);
            }
}

Test(images, sizes_are_those_of_the_reference)
{
    static const int sizes[][2] = {{17, 13}, {8, 8}, {1, 1}, {40, 31}, {16, 13}, {17, 5}, {5, 29}};
    static uint8_t noise[3 * WIDTH * HEIGHT];
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)((i * 2654435761u) >> 13);
    for (size_t i = 0; i < DT_COUNT(sizes); i++)
        for (uint32_t channels = 1; channels <= 3; channels += 2) {
            const DtPixels from = {noise, (size_t)WIDTH * channels, WIDTH, HEIGHT, channels};
            check_size(&from, sizes[i][0], sizes[i][1]);
        }
}

/* ---- the form of an input ---- */

enum { SIDE = 8 };

static DtImageForm form_of(uint32_t side)
{
    DtImageForm form = {.width = side,
                        .height = side,
                        .channels = 3,
                        .row_step = 3 * (int64_t)side,
                        .column_step = 3,
                        .channel_step = 1};
    dt_imageform_values(&form, (double[]){0.5, 0, 0.25}, (double[]){0.5, 1, 2});
    return form;
}

static DtStatus make(const DtImageForm *form, const DtPixels *pixels, uint64_t sample, float *to)
{
    return dt_imageform_make(form, pixels, "a.png", 7, sample, &work, to);
}

/* Whether the values are those of the picture from x, y on, which may lie outside. */
static bool is_part(const float *values, int x, int y, bool mirrored)
{
    static const double mean[] = {0.5, 0, 0.25}, std[] = {0.5, 1, 2};
    bool same = true;
    for (int v = 0; v < SIDE; v++)
        for (int u = 0; u < SIDE; u++)
            for (int c = 0; c < 3; c++) {
                const int at = x + (mirrored ? SIDE - 1 - u : u), down = y + v;
                const bool inside = at >= 0 && at < WIDTH && down >= 0 && down < HEIGHT;
                const double right =
                    ((inside ? colour_at(at, down, c) / 255.0 : 0) - mean[c]) / std[c];
                same = same && values[(v * SIDE + u) * 3 + c] == (float)right;
            }
    return same;
}

Test(images, parts_and_values)
{
    const DtPixels pixels = decode("colour.png");
    float values[3 * SIDE * SIDE], other[3 * SIDE * SIDE];
    DtImageForm form = form_of(SIDE);
    DtStatus status = make(&form, &pixels, 0, values);
    cr_assert(strstr(status.message, "a.png has 17 x 13 pixels, and the input takes 8 x 8: `crop"));
    form.crop = DT_IMAGE_CENTRE;
    status = make(&form, &pixels, 0, values);
    cr_assert(dt_status_ok(&status) && is_part(values, 4, 2, false)); /* 9 / 2 and 5 / 2, to even */
    form.channel_step = SIDE * SIDE;                                  /* colours first */
    form.row_step = SIDE;
    form.column_step = 1;
    status = make(&form, &pixels, 0, other);
    for (int i = 0; i < SIDE * SIDE; i++)
        for (int c = 0; c < 3; c++)
            cr_assert_eq(other[c * SIDE * SIDE + i], values[3 * i + c]);
    form = form_of(20);
    form.crop = DT_IMAGE_RANDOM;
    status = make(&form, &pixels, 0, values);
    cr_assert(strstr(status.message, "`resize = N` makes its shorter side N"));
    form.resize = 1u << 30;
    status = make(&form, &pixels, 0, values);
    cr_assert(strstr(status.message, "after `resize`"));
}

Test(images, random_parts_and_mirror_images)
{
    const DtPixels pixels = decode("colour.png");
    float values[3 * SIDE * SIDE], again[3 * SIDE * SIDE];
    int seen[WIDTH + 4][HEIGHT + 4] = {{0}}, mirrored = 0, places = 0;
    DtImageForm form = form_of(SIDE);
    form.crop = DT_IMAGE_RANDOM;
    form.flip = true;
    form.pad = 2;
    for (uint64_t sample = 0; sample < 2000; sample++) {
        DtStatus status = make(&form, &pixels, sample, values);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        int found = 0;
        for (int x = -2; x <= WIDTH + 2 - SIDE; x++)
            for (int y = -2; y <= HEIGHT + 2 - SIDE; y++)
                for (int flip = 0; flip < 2; flip++)
                    if (is_part(values, x, y, flip)) {
                        found++;
                        mirrored += flip;
                        places += seen[x + 2][y + 2]++ == 0;
                    }
        cr_assert_eq(found, 1, "sample %d", (int)sample);
        status = make(&form, &pixels, sample, again);
        cr_assert_arr_eq(values, again, sizeof values, "a sample is the same each time");
    }
    cr_assert(abs(mirrored - 1000) < 150, "%d of 2000 are mirrored", mirrored);
    cr_assert_eq(places, (WIDTH + 4 - SIDE + 1) * (HEIGHT + 4 - SIDE + 1), "each place occurs");
}

Test(images, zoomed_parts_have_the_size_of_the_input)
{
    const DtPixels pixels = decode("colour.png");
    float values[3 * SIDE * SIDE];
    double least = 1, most = 0;
    DtImageForm form = form_of(SIDE);
    dt_imageform_values(&form, (double[]){0, 0, 0}, (double[]){1, 1, 1});
    form.crop = DT_IMAGE_ZOOM;
    for (uint64_t sample = 0; sample < 500; sample++) {
        DtStatus status = make(&form, &pixels, sample, values);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        /* red grows from left to right by the part's width, green by its height */
        const double wide = (values[3 * (SIDE - 1)] - values[0]) * 255 / 14 / (SIDE - 1) * SIDE,
                     high = (values[3 * SIDE * (SIDE - 1) + 1] - values[1]) * 255 / 18 /
                            (SIDE - 1) * SIDE,
                     area = wide * high / (WIDTH * HEIGHT);
        least = fmin(least, area);
        most = fmax(most, area);
    }
    cr_assert(least < 0.15 && most > 0.75, "areas from %g to %g", least, most);
}

/* ---- reading ahead ---- */

typedef struct Made {
    int64_t fails; /* this sample */
    _Atomic int n;
} Made;

static DtStatus make_row(void *context, uint32_t thread, int64_t sample, char *ret_row)
{
    Made *made = context;
    (void)thread;
    made->n++;
    memcpy(ret_row, &sample, sizeof sample);
    if (sample % 7 == 3)
        usleep(100);
    return sample >= made->fails ? dt_status_fail(DT_EXIT_IO, "sample %d", (int)sample) : DT_OK;
}

static DtStatus take(DtAhead *ahead, int64_t first, int64_t rows, int64_t next,
                     const char **ret_rows)
{
    const DtAheadWishes wishes = {{next, next + 5}, next < 0 ? 0 : 1 + (uint32_t)(first % 20 == 0)};
    return dt_ahead_take(ahead, first, rows, &wishes, ret_rows);
}

Test(images, rows_made_ahead_are_those_asked_for)
{
    for (uint32_t threads = 0; threads <= 4; threads += 2) {
        Made made = {.fails = INT64_MAX};
        DtAhead *ahead = dt_ahead_new(threads, sizeof(int64_t), make_row, &made);
        for (int64_t step = 0; step < 50; step++)
            for (int64_t part = 0; part < 3; part++) {
                const char *rows;
                const int64_t first = step * 30 + part * 10, n = step % 5 == 4 ? 7 : 10;
                DtStatus status = take(ahead, first, n, first + 30, &rows);
                cr_assert(dt_status_ok(&status), "%s", status.message);
                for (int64_t i = 0; i < n; i++)
                    cr_assert_eq(((const int64_t *)(const void *)rows)[i], first + i);
            }
        dt_ahead_free(ahead);
        cr_assert_lt(made.n, 2 * 50 * 30, "wishes that are never asked for are few");
    }
}

/* With more wishes than there is memory for, those that are needed first stay. */
Test(images, a_large_batch_is_made_once)
{
    enum { BATCHES = 20, AHEAD = 12 }; /* of 256 MiB, of which few bytes are touched */
    Made made = {.fails = INT64_MAX};
    DtAhead *ahead = dt_ahead_new(1, (size_t)1 << 27, make_row, &made);
    for (int64_t first = 0; first < 2 * BATCHES; first += 2) {
        const char *rows;
        DtAheadWishes wishes = {.n = 0};
        for (int64_t next = first + 2; next < 2 * BATCHES && wishes.n < AHEAD; next += 2)
            wishes.first[wishes.n++] = next;
        DtStatus status = dt_ahead_take(ahead, first, 2, &wishes, &rows);
        cr_assert(dt_status_ok(&status), "%s", status.message);
        cr_assert_eq(*(const int64_t *)(const void *)rows, first);
    }
    dt_ahead_free(ahead);
    cr_assert_eq(made.n, 2 * BATCHES);
}

Test(images, a_failure_is_that_of_the_first_sample)
{
    Made made = {.fails = 45};
    const char *rows;
    DtAhead *ahead = dt_ahead_new(3, sizeof(int64_t), make_row, &made);
    for (int64_t first = 0; first < 40; first += 10) {
        DtStatus status = take(ahead, first, 10, first + 10, &rows);
        cr_assert(dt_status_ok(&status), "%s", status.message);
    }
    DtStatus status = take(ahead, 40, 10, -1, &rows);
    cr_assert_str_eq(status.message, "sample 45");
    dt_ahead_free(ahead);
}
