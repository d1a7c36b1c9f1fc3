/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's libraries are opened when they are needed, so that everything builds and runs without
 * them. */
#ifndef DT_BASE_CUDALIB_H
#define DT_BASE_CUDALIB_H

#include "base/arena.h"
#include "base/status.h"

typedef struct DtCudaLib {
    const char *name;            /* "cublasLt" of libcublasLt.so.13 */
    const char *const *versions; /* "13", "12", NULL: of the soname, the best one first */
    const char *packages;        /* the packages that contain it, for users who lack it */
} DtCudaLib;

/* Opens the library, for as long as the process lives, and finds its functions: n pointers to
 * functions, by name. Looks where the loader looks, in $CUDA_HOME and /usr/local/cuda, in
 * $CONDA_PREFIX, and in the Python packages of $VIRTUAL_ENV, $CONDA_PREFIX, the user and the
 * machine; only in the folders of $DT_CUDA_LIBRARIES if that is set. The error says where it looked
 * and the packages, or which function is missing. */
DtStatus dt_cudalib_open(DtArena *arena, const DtCudaLib *library, uint32_t n,
                         const char *const *names, void **ret_functions);

/* Looks for the library as dt_cudalib_open does; *ret_path becomes its file. */
DtStatus dt_cudalib_find(DtArena *arena, const DtCudaLib *library, const char **ret_path);

#endif
