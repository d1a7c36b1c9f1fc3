/* SPDX-License-Identifier: Apache-2.0 */
/* The files of a prediction: which inputs and results of the plan they belong to
 * (predict_files.c). */
#ifndef DT_RUNTIME_PREDICT_FILES_H
#define DT_RUNTIME_PREDICT_FILES_H

#include "base/file.h"
#include "runtime/data.h"

/* An input that the model reads, and the array that fills it. */
typedef struct DtColumn {
    const DtPlanInput *input;
    const char *path;
    DtData *data;
    char *rows; /* of this rank, for one pass */
} DtColumn;

/* A result of the model, and the array that it becomes: [samples, its other axes ...]. */
typedef struct DtResult {
    const DtPlanMetric *metric;
    const char *path;
    uint32_t batch; /* which of its axes counts samples */
    int64_t width;  /* bytes of an element in the file: floats of 16 bits become f32 */
    bool is_open;
    DtFileWriter writer;
} DtResult;

typedef struct DtPredict {
    const DtPlan *plan;
    DtColumn *columns;
    uint32_t n_columns;
    DtResult *results;
    uint32_t n_results;
    int64_t samples; /* of the files */
    int64_t pass;    /* samples at a time */
    int64_t *piece;  /* of a result, while the ranks add it */
} DtPredict;

/* Whether the model reads the input, on any stage. */
bool dt_predictfiles_reads(const DtPlan *plan, const DtPlanInput *input);
/* The input of the entry "predict" for an input that a reader fills: one of fewer samples, or the
 * same. */
const DtPlanInput *dt_predictfiles_input(const DtPlan *plan, const DtPlanInput *input);
/* The input's name in the program. */
const char *dt_predictfiles_name(const DtPlan *plan, const DtPlanInput *input);
/* The samples that the inputs of all ranks hold. */
int64_t dt_predictfiles_pass(const DtPlan *plan, const DtPlanInput *input);

/* Opens the inputs and finds the results. Fails if the files do not fit them. The caller closes it
 * in any case. */
DtStatus dt_predictfiles_open(DtArena *memory, const DtRunOptions *options, const DtPlan *plan,
                              DtPredict *ret_predict);
/* Also removes results that were not finished. */
void dt_predictfiles_close(DtPredict *predict);
/* Begins the files of the results with their headers. */
DtStatus dt_predictfiles_create(DtPredict *predict);
/* Gives the files of the results their names. */
DtStatus dt_predictfiles_commit(DtPredict *predict);
void dt_predictfiles_say(const DtPredict *predict);

#endif
