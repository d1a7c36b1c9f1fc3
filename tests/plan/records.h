/* SPDX-License-Identifier: Apache-2.0 */
/* Shorthands for writing plans by hand, in functions with the variables `arena` and `b`, the
 * builder. */
#ifndef DT_TESTS_RECORDS_H
#define DT_TESTS_RECORDS_H

#include "plan/write.h"

#define ADD(section, ...) DT_PUSH(arena, b->section, ((__typeof__(b->section.at[0]))__VA_ARGS__))
#define STR(text)         dt_write_str(b, text)
#define AT(arena_, base_, ...)                                                       \
    {                                                                                \
        .kind = DT_ARG_ADDRESS, .arena = arena_, .base = base_, .bytes = __VA_ARGS__ \
    }
#define NUMBER(...)                                 \
    {                                               \
        .kind = DT_ARG_INTEGER, .base = __VA_ARGS__ \
    }
#define INST(inst, ...)                                                 \
    do {                                                                \
        const DtPlanArg args_[] = {__VA_ARGS__};                        \
        add_inst(arena, b, (DtPlanInst)inst, args_, DT_COUNT(args_));   \
    } while (0)
#define SET(...)    \
    {               \
        __VA_ARGS__ \
    }

/* Appends an instruction with its arguments. */
static inline void add_inst(DtArena *arena, DtPlanBuilder *b, DtPlanInst inst,
                            const DtPlanArg *args, size_t n_args)
{
    inst.first_arg = b->args.n;
    inst.n_args = (uint16_t)n_args;
    for (size_t i = 0; i < n_args; i++)
        DT_PUSH(arena, b->args, args[i]);
    DT_PUSH(arena, b->insts, inst);
}

#endif
