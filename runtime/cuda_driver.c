/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cuda_driver.h"

#include "base/cudalib.h"

enum { OLDEST = 12000 };

const char *dt_cuda_driver_error(const DtCudaDriver *driver, int error)
{
    const char *text = NULL;
    return driver->error_string(error, &text) == 0 && text ? text : "an unknown error";
}

const char *const *dt_cuda_driver_libraries(const DtCudaDriver *driver)
{
    static const char *const versions[] = {"13", "12", NULL};
    return &versions[driver->version < 13000 ? 1 : 0];
}

DtStatus dt_cuda_driver_open(DtArena *arena, DtCudaDriver *ret_driver)
{
    static const char *const versions[] = {"1", NULL};
    static const DtCudaLib library = {"cuda", versions,
                                      "the driver of the GPU (package nvidia-driver)"};
#define NAME(MEMBER, SYMBOL, ARGUMENTS) SYMBOL,
    static const char *const names[] = {DT_CUDA_DRIVER(NAME)};
#undef NAME
    DtCudaDriver *driver = ret_driver;
    DtStatus status =
        dt_cudalib_open(arena, &library, sizeof names / sizeof names[0], names, (void **)driver);
    if (!dt_status_ok(&status))
        return status;
    driver->version = 0;
    const int unknown = driver->driver_version(&driver->version);
    if (unknown == DT_CUDA_STUB)
        return dt_status_fail(
            DT_EXIT_FAILED,
            "libcuda.so.1 is the stub of the CUDA toolkit, which is for linking alone: take its "
            "folder out of LD_LIBRARY_PATH, so that the driver's own is found");
    if (unknown)
        return dt_status_fail(DT_EXIT_FAILED, "the driver of the GPU does not say its version: %s",
                              dt_cuda_driver_error(driver, unknown));
    if (driver->version < OLDEST)
        return dt_status_fail(
            DT_EXIT_FAILED,
            "the driver of the GPU knows CUDA %d.%d, and %d.%d is the oldest that will do",
            driver->version / 1000, driver->version % 1000 / 10, OLDEST / 1000, OLDEST % 1000 / 10);
    const int error = driver->init(0);
    return error == 0 ? DT_OK
                      : dt_status_fail(DT_EXIT_FAILED, "the driver of the GPU does not begin: %s",
                                       dt_cuda_driver_error(driver, error));
}
