/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products. The result is cut into tiles, one for each multiprocessor at a time; a wave of
 * tiles takes as long for one as for all, so that extents which leave the last wave nearly empty
 * are slow. Where tiles are too few, k is split over several of them, which costs the traffic of
 * partial sums. A library chooses the best of the tiles; so does the model. Bytes over bandwidth is
 * a lower bound. */
#include "cost/cost.h"

enum { LARGEST = DT_COST_CONSTANTS }; /* the largest tile, whose rate is 1 by definition */

typedef struct Tile {
    int64_t m, n;
    /* the tile's rate relative to the largest tile, which reads less memory for each operation */
    int rate;
} Tile;

static const Tile tiles[] = {
    {256, 128, LARGEST},
    {128, 256, LARGEST},
    {128, 128, DT_COST_tile_128_128},
    {256, 64, DT_COST_tile_256_64},
    {128, 64, DT_COST_tile_128_64},
    {64, 128, DT_COST_tile_128_64},
    {64, 64, DT_COST_tile_64_64},
};

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static double larger(double a, double b) { return a > b ? a : b; }

/* Returns the operations per second of the multiprocessors for products of a dtype. Devices without
 * tensor cores for the dtype use their other units. */
static double peak_of(const DtDevice *device, DtCostDtype dtype)
{
    static const DtCostDtype next[DT_COST_DTYPES] = {
        [DT_COST_F8] = DT_COST_F16, [DT_COST_F16] = DT_COST_F32,
        [DT_COST_TF32] = DT_COST_F32, [DT_COST_F32] = DT_COST_F32};
    while (device->flops[dtype] <= 0 && next[dtype] != dtype)
        dtype = next[dtype];
    return larger(device->flops[dtype], 1);
}

double dt_cost_product_bytes(DtCostProduct op)
{
    const double in = dt_cost_dtype_bytes(op.dtype),
                 result = op.result_bytes > 0 ? op.result_bytes : in;
    const double m = (double)op.m, n = (double)op.n, k = (double)op.k;
    const double one = (m + n) * k * in + m * n * result * (op.accumulates ? 2 : 1);
    return (double)(op.batch > 0 ? op.batch : 1) * one + op.extra_bytes;
}

double dt_cost_product_copies(DtCostProduct op)
{
    const bool is_short = op.dtype == DT_COST_F16;
    const double in = dt_cost_dtype_bytes(op.dtype),
                 out = op.result_bytes > 0 ? op.result_bytes : in;
    const double m = (double)op.m, n = (double)op.n, k = (double)op.k, f32 = 4;
    const double operand = 2 * f32 + (is_short ? in + f32 : 0);
    const double result =
        is_short ? 3 * f32 + f32 + out * (op.accumulates ? 2 : 1) : (op.accumulates ? 2 : 3) * f32;
    return (double)(op.batch > 0 ? op.batch : 1) * ((m + n) * k * operand + m * n * result) +
           op.extra_bytes;
}

/* Returns the seconds of a product with one kind of tile and k split over `split` tiles. rate:
 * operations a second of the whole device. */
static double tiled(const DtCostModel *model, const DtCostProduct *op, const Tile *tile,
                    int64_t split, double rate)
{
    const double units = model->device->units;
    const double relative =
        tile->rate == LARGEST ? 1 : dt_cost_constant(model, (DtCostConstantId)tile->rate);
    const double count =
        (double)(ceil_div(op->m, tile->m) * ceil_div(op->n, tile->n)) * (double)(op->batch * split);
    const double waves = (double)(int64_t)((count + units - 1) / units);
    const double work = 2.0 * (double)tile->m * (double)tile->n * (double)ceil_div(op->k, split);
    double seconds =
        waves * (work / (rate * relative / units) + dt_cost_constant(model, DT_COST_wave));
    if (split > 1) { /* partial sums in f32, written and read */
        const double bytes =
            8.0 * (double)split * (double)op->m * (double)op->n * (double)op->batch;
        seconds += bytes / (dt_cost_constant(model, DT_COST_memory) * model->device->memory_rate);
    }
    return seconds;
}

static double best_tiles(const DtCostModel *model, const DtCostProduct *op, double rate)
{
    double best = 0;
    for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
        for (int64_t split = 1; split <= 8 && (split == 1 || op->k / split >= 64); split *= 2) {
            const double seconds = tiled(model, op, &tiles[i], split, rate);
            if (best == 0 || seconds < best)
                best = seconds;
        }
    return best;
}

static bool is_aligned(const DtCostProduct *op)
{
    return !op->is_unaligned && op->m % 8 == 0 && op->n % 8 == 0 && op->k % 8 == 0;
}

double dt_cost_product(const DtCostModel *model, DtCostProduct op)
{
    op.batch = op.batch > 0 ? op.batch : 1;
    if (op.m <= 0 || op.n <= 0 || op.k <= 0)
        return 0;
    const DtDevice *device = model->device;
    double rate = peak_of(device, op.dtype) * dt_cost_constant(model, DT_COST_product);
    const double bandwidth = larger(device->memory_rate, 1);
    if (!device->is_gpu) { /* blocks of a core are small: no waves, and traffic is not hidden */
        const double work = 2.0 * (double)op.m * (double)op.n * (double)op.k * (double)op.batch;
        return work / rate +
               dt_cost_product_copies(op) /
                   (dt_cost_constant(model, DT_COST_product_memory) * bandwidth) +
               dt_cost_constant(model, DT_COST_product_launch);
    }
    const double traffic =
        dt_cost_product_bytes(op) / (dt_cost_constant(model, DT_COST_memory) * bandwidth);
    const double launch = dt_cost_constant(model, DT_COST_launch);
    if (op.batch > 1)
        rate *= dt_cost_constant(model, DT_COST_small);
    if (op.dtype != DT_COST_F32 && !is_aligned(&op))
        rate *= dt_cost_constant(model, op.batch > 1 ? DT_COST_unaligned_small : DT_COST_unaligned);
    return larger(best_tiles(model, &op, rate), traffic) + launch;
}
