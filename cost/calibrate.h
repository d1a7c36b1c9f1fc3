/* SPDX-License-Identifier: Apache-2.0 */
/* A device's constants from times that were measured on it, and its block of the language (docs/cost.md). */
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
} DtTiming;

typedef struct DtCalibration {
    size_t products, kernels;       /* timings of each that were used */
    double product_off, kernel_off; /* root mean square of relative errors */
} DtCalibration;

/* Sets peaks, bandwidth, and the constants of products and kernels of a processor (is_gpu false) such that relative
 * errors are least; what there are too few timings for (8 of a kind) stays. beside: seconds of a step in which none
 * runs. False: of neither kind there are enough. */
bool dt_calibrate(DtDevice *device, const DtTiming *timings, size_t n, double beside,
                  DtCalibration *ret_calibration);

/* `device "NAME" { .. }`: what reads back as the same device. */
void dt_device_print(const DtDevice *device, DtText *ret_text);

#endif
