/* SPDX-License-Identifier: Apache-2.0 */
/* The HTML page that reports on a run (page.c). */
#ifndef DT_RUNTIME_PAGE_H
#define DT_RUNTIME_PAGE_H

#include "base/status.h"
#include "plan/plan.h"
#include "runtime/run_options.h"

enum { DT_PAGE_PATH = 4096 };

/* The name of the page's file: the log's name followed by ".html". Returns false if no page is
 * written: the run does not train, it has no log, the log is a pipe or a device, or the name would
 * be too long. */
bool dt_page_path(const DtRunOptions *options, char ret_path[DT_PAGE_PATH]);

/* Fails, naming the file, if a file with the page's name exists that is not such a page: the run
 * would overwrite it. */
DtStatus dt_page_check(const DtRunOptions *options);

/* Writes the page from the plan and the log, once the ranks have ended. A run that ended before its
 * first step has nothing to show: the page of an earlier run under that name is removed. Succeeds
 * without a page if dt_page_path says that there is none. */
DtStatus dt_page_write(const DtRunOptions *options, const DtPlan *plan);

#endif
