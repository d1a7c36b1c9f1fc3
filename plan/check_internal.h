/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the checker: structure (check.c), single records (check_record.c; those
 * of kernels and products: check_kernel.c), names blocks (check_names.c), schedules (check_run.c),
 * their instructions (check_inst.c), second forms of instructions (check_instead.c), and reports of
 * wrong records (check_fail.c). */
#ifndef DT_PLAN_CHECK_INTERNAL_H
#define DT_PLAN_CHECK_INTERNAL_H

#include "base/stages.h"
#include "base/status.h"
#include "plan/plan.h"

/* Sums and products of a plan's numbers are computed in 128 bits. */
__extension__ typedef __int128 DtWide;

/* Limits that keep arithmetic on plan numbers far from overflow. */
enum {
    DT_CHECK_MAX_ARGS = 256, /* the most pointers or integers of a kernel */
    DT_CHECK_MAX_MESH = 16,
};
#define DT_CHECK_MAX_RUNS  1000000000         /* the most bodies that one entry runs */
#define DT_CHECK_MAX_ITEMS 50000000           /* the most items of schedules; those of a called
                                               * entry count once per call */
#define DT_CHECK_MAX_COPIES (1 << 20)         /* the most records into which records of several
                                               * stages expand (stages.c) */

typedef struct Check {
    const DtPlan *plan;
    DtStatus status; /* text about the first wrong record */
    int64_t events;  /* the largest event number in instructions so far */
} Check;

/* Reports "plan record INST 12: ..." and returns false. */
bool dt_check_fail(Check *check, const char *tag, uint32_t index, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Checks that [first, first + count) is within n. */
bool dt_check_range(Check *check, const char *tag, uint32_t index, const char *what, uint64_t first,
                    uint64_t count, uint64_t n);

/* Checks that stage is -1 or a stage of the plan. */
bool dt_check_stage(Check *check, const char *tag, uint32_t index, int32_t stage);

/* Checks the number of a span. 0 is always right: a plan may have no spans at all. */
bool dt_check_span(Check *check, const char *tag, uint32_t index, uint32_t span);

/* Whether the entry of that name is "predict", or a piece of it: memory that only it uses exists
 * only in runs that predict. */
bool dt_check_predicts(const DtPlan *plan, DtPlanStr name);

/* check_sdpa.c. sdpa: checks record i. attention: checks a kernel instruction whose arguments
 * are valid by themselves. False: ret_why says why not. */
enum { DT_CHECK_WHY = 120 };
bool dt_check_sdpa(const DtPlan *plan, uint32_t i, char ret_why[DT_CHECK_WHY]);
bool dt_check_attention(const DtPlan *plan, const DtPlanInst *inst, char ret_why[DT_CHECK_WHY]);

/* check_names.c: checks the records of names blocks. False: which record is wrong, and why. */
bool dt_check_names(const DtPlan *plan, const char **ret_tag, uint32_t *ret_index,
                    char ret_why[DT_CHECK_WHY]);

typedef struct CheckRange {
    int64_t lo, hi;
} CheckRange;
typedef struct CheckWide {
    DtWide lo, hi;
} CheckWide;

/* For a body: the range of each register over all its runs on one stage. unset: bits of registers
 * that have no value in some run. trains: some run is part of training. */
typedef struct CheckHull {
    bool runs, trains;
    uint32_t unset;
    CheckRange reg[DT_PLAN_REGS];
} CheckHull;

/* An instruction being checked. */
typedef struct CheckInst {
    Check *check;
    const DtPlanInst *inst;
    uint32_t index, stage;
    const CheckHull *hull;
    bool is_second; /* part of the second form of a product: it may access arena INSTEAD */
} CheckInst;

bool dt_check_records(Check *check);
/* check_kernel.c: checks kernels, their launches and registers, attention that a library may
 * compute, and matrix products. */
bool dt_check_kernels(Check *check);
/* Checks schedules, bodies and instructions; all other records must be checked before. */
bool dt_check_run(Check *check);
bool dt_check_inst(const CheckInst *at);
/* check_instead.c: checks the second form of a valid product; the arguments of its body's
 * instructions are valid. */
bool dt_check_instead(const DtPlan *plan, const DtPlanInst *product, char ret_why[DT_CHECK_WHY]);

#endif
