/* SPDX-License-Identifier: Apache-2.0 */
/* Names for the numbers that plan records carry. They equal the compiler's own enumerations of the
 * same things, which this layer must not see; tests/plan/test_kinds.c compares them. */
#ifndef DT_PLAN_KINDS_H
#define DT_PLAN_KINDS_H

#include "plan/plan.h"

#include <stdbool.h>
#include <stdint.h>

/* Dtypes of elements. A bool has one byte. */
typedef enum DtPlanDtype {
    DT_PLAN_BOOL,
    DT_PLAN_U8,
    DT_PLAN_U16,
    DT_PLAN_U32,
    DT_PLAN_I32,
    DT_PLAN_I64,
    DT_PLAN_F16,
    DT_PLAN_BF16,
    DT_PLAN_F32,
    DT_PLAN_F64,
    DT_PLAN_DTYPES
} DtPlanDtype;

typedef enum DtPlanReduce { DT_PLAN_SUM, DT_PLAN_MAX, DT_PLAN_MIN, DT_PLAN_REDUCES } DtPlanReduce;

typedef enum DtPlanStoreKind {
    DT_PLAN_PARAM,
    DT_PLAN_STATE,
    DT_PLAN_GRAD,
    DT_PLAN_MOMENT1,
    DT_PLAN_MOMENT2,
    DT_PLAN_MOMENT3,
    DT_PLAN_MOMENT4,
    DT_PLAN_SAVED,
    DT_PLAN_CHANNEL,
    DT_PLAN_MASTER,
    DT_PLAN_AVERAGE,
    DT_PLAN_NEXT,
    DT_PLAN_CACHE,
    DT_PLAN_CODES,
    DT_PLAN_SCALES,
    DT_PLAN_STORES
} DtPlanStoreKind;

typedef enum DtPlanInitKind {
    DT_PLAN_CONST,
    DT_PLAN_NORMAL,
    DT_PLAN_UNIFORM,
    DT_PLAN_INITS
} DtPlanInitKind;

typedef enum DtPlanSource {
    DT_PLAN_TEXT,
    DT_PLAN_BIN,
    DT_PLAN_NPY,
    DT_PLAN_IMAGES,
    DT_PLAN_SYNTHETIC,
    DT_PLAN_CHAT,
    DT_PLAN_MEGATRON,
    DT_PLAN_CSV,
    DT_PLAN_SOURCES
} DtPlanSource;

/* DtPlanReader.chat: several documents in a sample; prompts are trained as well; documents that are
 * longer than a sample are left out; a sample is the chosen and the rejected document of a
 * preference. */
enum {
    DT_PLAN_CHAT_PACK = 1,
    DT_PLAN_CHAT_ALL = 2,
    DT_PLAN_CHAT_DROP = 4,
    DT_PLAN_CHAT_PAIRS = 8,
    DT_PLAN_CHAT_BITS = 15
};

/* The part of an image that fills the input; DtPlanReader.image. */
typedef enum DtPlanCrop {
    DT_PLAN_CROP_WHOLE,
    DT_PLAN_CROP_CENTRE,
    DT_PLAN_CROP_RANDOM,
    DT_PLAN_CROP_ZOOM,
    DT_PLAN_CROPS
} DtPlanCrop;
enum { DT_PLAN_IMAGE_FLIP = 1, DT_PLAN_IMAGE_STRETCH = 2, DT_PLAN_IMAGE_BITS = 3 };

/* RAW: the source itself, element for element. */
typedef enum DtPlanSample {
    DT_PLAN_NEXT_TOKEN,
    DT_PLAN_MLM,
    DT_PLAN_SPAN_CORRUPTION,
    DT_PLAN_SAMPLE_IMAGES,
    DT_PLAN_RAW,
    DT_PLAN_SAMPLE_CHAT,
    DT_PLAN_SAMPLES
} DtPlanSample;

/* The epilogue of a product (epilogues.def): the function of its result, and of its fourth and
 * fifth operand. */
typedef enum DtPlanEpilogue {
#define DT_PLAN_EPILOGUE(NAME, text, vector, matrix) DT_PLAN_EPILOGUE_##NAME,
#include "plan/epilogues.def"
#undef DT_PLAN_EPILOGUE
    DT_PLAN_EPILOGUES
} DtPlanEpilogue;

typedef enum DtEpilogueUse { DT_EPILOGUE_NO, DT_EPILOGUE_READ, DT_EPILOGUE_WRITE } DtEpilogueUse;
typedef struct DtEpilogueInfo {
    const char *name;
    DtEpilogueUse vector, matrix;
} DtEpilogueInfo;
extern const DtEpilogueInfo dt_kinds_epilogues[DT_PLAN_EPILOGUES];

/* Bytes of an element; 0: the number is no dtype. */
int64_t dt_kinds_size(uint32_t dtype);
const char *dt_kinds_name(uint32_t dtype);
bool dt_kinds_is_float(uint32_t dtype);
/* Whether the product rounds its operands to tf32. */
bool dt_kinds_tf32(const DtPlan *plan, const DtPlanGemm *gemm);
/* Name of an instruction (DtPlanInstKind): "all_reduce". */
const char *dt_kinds_inst(uint32_t kind);

#endif
