/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors with pseudo-random elements that are the same in every run. */
#ifndef DT_TESTS_RANDOM_ELEMENTS_H
#define DT_TESTS_RANDOM_ELEMENTS_H

#include "base/hash.h"
#include "ir/interp.h"

/* A number for an element, computed from its named coordinates, so that it is the same in every
 * axis order. */
static inline uint64_t element_hash(const DtType *type, int64_t offset, int seed)
{
    uint64_t sum = (uint64_t)seed;
    for (int i = type->rank - 1; i >= 0; i--) {
        int64_t at = offset % type->axes[i].extent;
        offset /= type->axes[i].extent;
        sum += dt_hash_text(type->axes[i].name, (uint64_t)(at * 1000 + seed));
    }
    return dt_hash_bytes(&sum, sizeof sum, 7);
}

/* Bools, integers from -32, or quarters from -8: exact in every dtype. */
static inline DtTensor *random_elements(DtArena *arena, const DtType *type, int seed)
{
    DtTensor *tensor = dt_interp_tensor(arena, type);
    for (int64_t i = 0; i < dt_type_elements(type); i++) {
        int64_t quarters = (int64_t)(element_hash(type, i, seed) % 64) - 32;
        tensor->at[i] = type->dtype == DT_BOOL           ? (double)(quarters & 1)
                        : dt_dtype_is_float(type->dtype) ? (double)quarters / 4
                                                         : (double)quarters;
    }
    return tensor;
}

#endif
