/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's libraries are opened when they are needed, so that everything builds and runs without them. */
#ifndef DT_BASE_CUDALIB_H
#define DT_BASE_CUDALIB_H

#include "base/arena.h"
#include "base/status.h"

/* What a table of functions is filled by: a row of it is F(Name, type of the result, (arguments)). */
typedef struct DtCudaLib {
    const char *name;            /* "cublasLt" of libcublasLt.so.13 */
    const char *const *versions; /* "13", "12", NULL: of the soname, the best one first */
    const char *packages;        /* where it comes from, for who has none */
} DtCudaLib;

/* A handle for dlsym, never closed. Looks where the loader looks, in $CUDA_HOME and /usr/local/cuda, and in the
 * Python packages of $VIRTUAL_ENV and the user. The error says where it looked, and the packages. */
DtStatus dt_cudalib_open(DtArena *arena, const DtCudaLib *library, void **ret_handle);

/* The function of that name. */
DtStatus dt_cudalib_find(void *handle, const DtCudaLib *library, const char *name, void **ret_function);

#endif
