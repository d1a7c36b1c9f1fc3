/* SPDX-License-Identifier: Apache-2.0 */
/* A module for tests in which every operation, attribute and kind of reference occurs. */
#ifndef DT_TESTS_IR_SAMPLE_H
#define DT_TESTS_IR_SAMPLE_H

#include "ir/ir.h"

DtAxis sample_axis(const char *name, int64_t extent);
DtAxis sample_split(const char *name, int64_t extent, uint8_t mesh); /* split by one mesh axis */
/* Up to 16 axes. */
const DtType *sample_type(DtDtype dtype, uint32_t rank, const DtAxis *axes);
DtStore *sample_store(DtModule *module, DtStoreKind kind, const char *path, const char *pattern,
                      const DtType *type, DtStore *of);
/* mesh: micro=2 (time), data=2, tensor=2; entries "grad" and "update". The verifier accepts it. */
DtModule *sample_module(DtArena *arena);

#endif
