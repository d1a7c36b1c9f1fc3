/* SPDX-License-Identifier: Apache-2.0 */
#include "base/gpucode.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *const dt_gpucode_targets[DT_GPUCODE_TARGETS] = {"sm_100a", "sm_100f", "sm_120",
                                                            "sm_90a",  "sm_80",   "compute_80"};

bool dt_gpucode_read(const char *name, int *ret_capability, char *ret_letter, bool *ret_is_text)
{
    int length = 0;
    *ret_is_text = strncmp(name, "compute_", 8) == 0;
    if (sscanf(name, *ret_is_text ? "compute_%d%n" : "sm_%d%n", ret_capability, &length) != 1)
        return false;
    const char *rest = name + length;
    *ret_letter = *rest == '-' ? '\0' : *rest;
    rest += *ret_letter != '\0';
    return *ret_capability >= 10 && (*rest == '\0' || strcmp(rest, "-interpreted") == 0);
}

int dt_gpucode_suits(const char *name, int major, int minor)
{
    int capability;
    char letter;
    bool is_text;
    if (!dt_gpucode_read(name, &capability, &letter, &is_text))
        return 0;
    const int own = 10 * major + minor;
    if (is_text)
        return letter == '\0' && capability <= own ? 1 : 0;
    if (capability == own)
        return 3;
    return capability / 10 == major && capability < own && letter != 'a' ? 2 : 0;
}

const char *dt_gpucode_for(int major, int minor)
{
    const char *best = NULL;
    int most = 0;
    for (int i = 0; i < DT_GPUCODE_TARGETS; i++) {
        const int suits = dt_gpucode_suits(dt_gpucode_targets[i], major, minor);
        best = suits > most ? dt_gpucode_targets[i] : best;
        most = suits > most ? suits : most;
    }
    return best;
}
