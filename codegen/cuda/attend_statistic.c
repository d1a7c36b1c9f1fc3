/* SPDX-License-Identifier: Apache-2.0 */
/* Converts between a library's statistic of a row, s = m + log l, and the maximum m and sum l that
 * functions hand on. Forward, the kernel stores s as the maximum and 1 as the sum, since exp(s) * 1
 * = exp(m) * l. Backward, the kernel combines whatever m and l it reads to one s, also those that
 * other kernels stored. */
#include "codegen/cuda/cuda.h"
#include "codegen/print.h"

#define line dt_print_line

static const char *element(DtPrint *c, const DtPlanSdpa *s, const char *name, uint32_t part)
{
    return dt_arena_printf(c->arena, "%s[%lld + b * %lld + h * %lld + i * %lld]", name,
                           (long long)s->offset[part], (long long)s->of_batch[part],
                           (long long)s->of_head[part], (long long)s->of_row[part]);
}

void dt_cuda_statistic_print(DtPrint *c)
{
    enum { THREADS = DT_PLAN_STATISTIC_THREADS };
    const DtPlanSdpa *s = c->k->sdpa;
    const long long rows = (long long)(s->batch * s->heads * s->queries);
    const long long blocks = (rows + THREADS - 1) / THREADS;
    const char *m = element(c, s, "m", DT_SDPA_MAX), *l = element(c, s, "l", DT_SDPA_SUM);
    c->depth = 0;
    line(c, "DT_KERNEL(%s%s, %lld, %d, 3, 1)", c->k->symbol, DT_PLAN_STATISTIC,
         blocks < 1024 ? blocks : 1024, THREADS);
    line(c, "{");
    line(c, "    DT_ARGUMENTS");
    line(c, "    float *s = (float *)p[0], *m = (float *)p[1], *l = (float *)p[2];");
    line(c, "    (void)q;");
    line(c, "    for (int64_t r = DT_BLOCK * %d + DT_THREAD; r < %lld; r += DT_BLOCKS * %d) {",
         THREADS, rows, THREADS);
    line(c, "        const int64_t i = r %% %lld, h = r / %lld %% %lld, b = r / %lld;",
         (long long)s->queries, (long long)s->queries, (long long)s->heads,
         (long long)(s->heads * s->queries));
    if (s->backward) {
        line(c, "        s[r] = %s + dt_log(%s);", m, l);
    } else {
        line(c, "        %s = s[r];", m);
        line(c, "        %s = 1.0f;", l);
    }
    line(c, "    }");
    line(c, "}");
}
