/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that need not be there, for which cuDNN itself plans: it wants their properties and a
 * driver that agrees (driver.c). */
#ifndef DT_TESTS_PLANNER_DEVICES_H
#define DT_TESTS_PLANNER_DEVICES_H

#include "runtime/cuda_attend_graph.h"

typedef struct PlannerDevice {
    const char *name;
    int capability, processors, shared; /* 90: 9.0; bytes */
    size_t in_order, linear;            /* versions from which backward adds in one order, and does
                                         * without the gradients of all scores; 0: none */
} PlannerDevice;

enum { PLANNER_DEVICES = 4, PLANNER_OLDEST = 91600 };
extern const PlannerDevice planner_devices[PLANNER_DEVICES];

/* False: there is no libcudnn.so.9 of version 9.16 or later. */
bool planner_open(DtArena *arena, DtCudnn *ret_cudnn);
DtCudnnDesc *planner_properties(const DtCudnn *cudnn, const PlannerDevice *device);

#endif
