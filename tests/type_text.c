/* SPDX-License-Identifier: Apache-2.0 */
/* Makes types for tests from short texts. */
#include "tests/type_text.h"

#include "base/intern.h"

#include <stdlib.h>
#include <string.h>

DtAxis axis_of(const char *name, int64_t extent)
{
    return (DtAxis){.name = dt_intern(name), .extent = extent};
}

const DtType *type_of(DtDtype dtype, const char *axes)
{
    DtAxis made[DT_MAX_RANK];
    uint32_t rank = 0;
    while (*axes) {
        size_t length = strcspn(axes, "=");
        char *end;
        made[rank] = (DtAxis){.name = dt_intern_n(axes, length)};
        made[rank++].extent = strtol(axes + length + 1, &end, 10);
        axes = end + strspn(end, " ");
    }
    return dt_type_plain(dtype, rank, made);
}

void print_placement(const DtType *type, const DtMesh *mesh, DtText *text)
{
    DtText whole = {0};
    dt_type_print_extents(type, mesh, &whole);
    for (const char *at = whole.at; *at; at += *at == '=' ? 1 + strspn(at + 1, "0123456789") : 1)
        if (*at != '=')
            dt_text_add_n(text, at, 1);
    dt_text_free(&whole);
}

const DtType *reordered(const DtType *type, int k)
{
    DtAxis left[DT_MAX_RANK], made[DT_MAX_RANK];
    memcpy(left, type->axes, sizeof left[0] * type->rank);
    for (int i = 0; i < type->rank; i++) {
        int n = type->rank - i, pick = k % n;
        k /= n;
        made[i] = left[pick];
        memmove(left + pick, left + pick + 1, sizeof left[0] * (size_t)(n - 1 - pick));
    }
    return dt_type_plain(type->dtype, type->rank, made);
}
