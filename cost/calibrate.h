/* SPDX-License-Identifier: Apache-2.0 */
/* A device's constants from times that were measured on it (calibrate.c, of a GPU calibrate_gpu.c),
 * and its block of the language (docs/cost.md). */
#ifndef DT_COST_CALIBRATE_H
#define DT_COST_CALIBRATE_H

#include "base/text.h"
#include "cost/cost.h"

/* One instruction, and how long it took: the median of several times. */
typedef struct DtTiming {
    bool is_product;
    DtCostProduct product;
    DtCostKernel kernel;
    double seconds;
    double weight; /* weight of its relative error; 0 means 1 */
} DtTiming;

typedef struct DtCalibration {
    size_t products, kernels;       /* how many timings of products and of kernels were used */
    double product_off, kernel_off; /* root mean square of log(predicted / measured), weighted */
} DtCalibration;

/* Fits peaks, bandwidth, and the constants of products and kernels of a processor (is_gpu false,
 * l2_bytes unchanged), with the least relative errors. A constant with too few timings (8 of a
 * kind) stays. beside: seconds of a step in which neither products nor kernels run. False: neither
 * kind has enough timings. */
bool dt_calibrate(DtDevice *device, const DtTiming *timings, size_t n, double beside,
                  DtCalibration *ret_calibration);

/* ---- a GPU ---- */

/* Time of a GPU for an operation, the mean over steps, by events before and after it. */
typedef struct DtGpuTiming {
    DtCostOp op;
    double seconds;
} DtGpuTiming;

/* Measures a step without events, whose operations are so small that it takes the time of starting
 * them. */
typedef struct DtGpuStep {
    double seconds, operations;
} DtGpuStep;

typedef struct DtGpuCalibration {
    size_t n[DT_COST_OPS];   /* timings of each kind; the constants of a kind with too few timings
                              * stay unchanged */
    double off[DT_COST_OPS]; /* root mean square of relative errors */
    double start;            /* seconds of an operation that does nothing, as events see it */
} DtGpuCalibration;

/* Fits constants of kernels, products and attention with the least relative errors; `launch` and
 * `step` from two steps, the second with more operations. units and memory_rate must be set. A peak
 * of 0 becomes the highest measured rate, and memory_rate grows to the measured one. Constants on
 * which no timing depends stay. False: there are too few kernels, or products. */
bool dt_calibrate_gpu(DtDevice *device, const DtGpuTiming *timings, size_t n,
                      const DtGpuStep steps[2], DtGpuCalibration *ret_calibration);

/* ---- as text ---- */

/* `device "NAME" { .. }`: text that reads back as the same device. */
void dt_device_print(const DtDevice *device, DtText *ret_text);

#endif
