/* SPDX-License-Identifier: Apache-2.0 */
/* Devices for which cuDNN makes plans although they are not present. It needs their properties, and
 * a driver that accepts them (driver.c). */
#ifndef DT_TESTS_PLANNER_DEVICES_H
#define DT_TESTS_PLANNER_DEVICES_H

#include "runtime/cuda_attend_graph.h"

typedef struct PlannerDevice {
    const char *name;
    int capability, processors, shared; /* compute capability times 10: 90 is 9.0; bytes of
                                         * memory */
    /* versions of cuDNN from which the backward pass adds in one order, and from which it does
     * without the gradients of all scores; 0: none */
    size_t in_order, linear;
} PlannerDevice;

enum { PLANNER_DEVICES = 4, PLANNER_OLDEST = 91600 };
extern const PlannerDevice planner_devices[PLANNER_DEVICES];

/* False: there is no libcudnn.so.9 of version 9.16 or later on this machine. */
bool planner_open(DtArena *arena, DtCudnn *ret_cudnn);
DtCudnnDesc *planner_properties(const DtCudnn *cudnn, const PlannerDevice *device);

#endif
