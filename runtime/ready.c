/* SPDX-License-Identifier: Apache-2.0 */
/* What a user can have got wrong and one look tells: a device that this program has not, data that is not there or
 * is something else, a place where nothing can be written. The supervisor looks before any rank starts, so that it
 * is said once, at once, and by nobody's name. Nothing is made or written here, and no library is opened; the ranks
 * look again, since files may change meanwhile. */
#include "runtime/runtime.h"

#include "base/file.h"

bool dt_ready_reads(const DtRunOptions *options, const DtPlanMeta *meta, const DtPlanReader *reader)
{
    if (options->generate)
        return false;
    return options->eval ? reader->is_eval : !reader->is_eval || meta->eval_every > 0;
}

static DtStatus check_names(const DtRunOptions *options)
{
    const DtDeviceOps *device;
    const DtCommOps *comm;
    return dt_load_choose(options, &device, &comm);
}

static DtStatus check_data(const DtRunOptions *options, const DtPlan *plan, const DtPlanMeta *meta, DtText *ret_notes)
{
    DtStatus status = DT_OK;
    for (uint32_t i = 0; i < plan->n_readers && dt_status_ok(&status); i++) {
        DtData *data;
        if (!dt_ready_reads(options, meta, &plan->readers[i]))
            continue;
        status = dt_data_open(options, plan, i, &data);
        if (dt_status_ok(&status)) {
            status = dt_data_look(data, ret_notes);
            dt_data_close(data);
        }
    }
    return status;
}

static DtStatus check_outputs(const DtRunOptions *options)
{
    const struct { const char *option, *path; bool folder; } outputs[] = {
        {"--save", options->save, true},
        {"--log", options->log, false},
        {"--trace", options->trace, false},
    };
    for (size_t i = 0; i < DT_COUNT(outputs); i++) {
        DtStatus status = outputs[i].path ? dt_file_may_make(outputs[i].path, outputs[i].folder) : DT_OK;
        if (!dt_status_ok(&status))
            return dt_status_fail(status.code, "%s %.450s", outputs[i].option, status.message);
    }
    return DT_OK;
}

DtStatus dt_ready_check(const DtRunOptions *options, const DtPlan *plan, const DtPlanMeta *meta, DtText *ret_notes)
{
    DtStatus status = check_names(options);
    if (dt_status_ok(&status))
        status = check_data(options, plan, meta, ret_notes);
    return dt_status_ok(&status) ? check_outputs(options) : status;
}
