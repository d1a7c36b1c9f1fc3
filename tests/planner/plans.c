/* SPDX-License-Identifier: Apache-2.0 */
/* plans PLAN...: asks cuDNN to plan the SDPA records of the plans, each form of attention once:
 * forward for an H200, backward also for an A100 and a B200. A line each: version, capability,
 * plan, record, and the workspace or why there is no graph. Exit status 77: there is no cuDNN. */
#include "devices.h"

#include "plan/read.h"

#include <stdio.h>
#include <string.h>

enum { MOST_FORMS = 64, FORWARD_FOR = 90 };
typedef struct Seen {
    DtPlanSdpa form[MOST_FORMS];
    uint32_t n;
} Seen;

static void print_record(const DtCudnn *cudnn, DtArena *arena, const DtCudnnDevice *device,
                         const DtPlanSdpa *record)
{
    DtCudnnDescs descs = {.cudnn = cudnn, .arena = arena};
    DtSdpaGraph graph;
    const char *why = "";
    if (dt_sdpa_graph(&descs, device, record, &graph, &why))
        printf("%s %llu of %llu bytes\n", record->backward ? "backward" : "forward",
               (unsigned long long)(graph.workspace + graph.sums),
               (unsigned long long)record->workspace);
    else
        printf("%s none: %s\n", record->backward ? "backward" : "forward", why);
    dt_cudnn_descs_free(&descs);
}

/* Returns the parts of the record on which the library's plan depends. */
static DtPlanSdpa form_of(const DtPlanSdpa *record)
{
    DtPlanSdpa form = *record;
    form.kernel = 0;
    form.scale = 0;
    memset(form.pointer, 0, sizeof form.pointer);
    memset(form.offset, 0, sizeof form.offset);
    return form;
}

/* Whether the form is seen for the first time. */
static bool is_new(Seen *seen, const DtPlanSdpa *record)
{
    const DtPlanSdpa form = form_of(record);
    for (uint32_t i = 0; i < seen->n; i++)
        if (memcmp(&seen->form[i], &form, sizeof form) == 0)
            return false;
    if (seen->n < MOST_FORMS)
        seen->form[seen->n++] = form;
    return true;
}

static bool print_plan(const DtCudnn *cudnn, DtArena *arena, const PlannerDevice *of, Seen *seen,
                       const char *path)
{
    const DtCudnnDevice device = {.properties = planner_properties(cudnn, of),
                                  .capability = of->capability};
    DtPlanFile file;
    const DtStatus status = dt_read_file(path, &file);
    if (!dt_status_ok(&status) || !device.properties) {
        fprintf(stderr, "%s: %s\n", path, status.message);
        return false;
    }
    for (uint32_t i = 0; i < file.plan.n_sdpas; i++) {
        if ((!file.plan.sdpas[i].backward && of->capability != FORWARD_FOR) ||
            !is_new(seen, &file.plan.sdpas[i]))
            continue;
        printf("%zu\t%d\t%s\t%u\t", cudnn->version(), of->capability, path, i);
        print_record(cudnn, arena, &device, &file.plan.sdpas[i]);
    }
    dt_read_close(&file);
    cudnn->desc_free(device.properties);
    return true;
}

int main(int argc, char **argv)
{
    enum { SKIPPED = 77, DATACENTER = 3 };
    DtArena *arena = dt_arena_new();
    DtCudnn cudnn;
    int status = planner_open(arena, &cudnn) ? 0 : SKIPPED;
    for (int d = 0; d < DATACENTER && status == 0; d++) {
        Seen seen = {.n = 0};
        for (int i = 1; i < argc && status == 0; i++)
            status = print_plan(&cudnn, arena, &planner_devices[d], &seen, argv[i]) ? 0 : 1;
    }
    dt_arena_free(arena);
    return status;
}
