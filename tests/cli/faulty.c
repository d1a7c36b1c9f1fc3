/* SPDX-License-Identifier: Apache-2.0 */
/* dtc with a bug, for refused.sh: linked with --wrap, so that calls of a pass and of the code
 * generator come here. DT_FAULT_IN says where the bug is: "pass" (the placed program is not the
 * serial one), "code" (the plan is not the placed program), or nowhere. It is that two parameters
 * of one type take each other's place, which no check of shapes or addresses can see. */
#include "codegen/codegen.h"
#include "passes/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __real_dt_pass_reduce(DtModule *module, const DtPassContext *context);
void __wrap_dt_pass_reduce(DtModule *module, const DtPassContext *context);
DtStatus __real_dt_codegen_plan(const DtProgram *program, const DtCodegenOptions *options,
                                DtPlanBuilder *builder);
DtStatus __wrap_dt_codegen_plan(const DtProgram *program, const DtCodegenOptions *options,
                                DtPlanBuilder *builder);

static bool is_fault_in(const char *place)
{
    const char *wanted = getenv("DT_FAULT_IN");
    return wanted && strcmp(wanted, place) == 0;
}

/* Whether the op is a parameter that the function only reads. If an overwritten one were changed,
 * code generation itself would notice. */
static bool is_parameter(const DtFunc *func, const DtOp *op)
{
    bool is_written = false;
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            is_written = is_written || (op->n_out && func->ops.at[i]->out[k]->over == op->out[0]);
    return op->kind == DT_OP_PARAM && op->store->kind == DT_STORE_PARAM && !is_written;
}

/* Finds two parameters of the same type that the function reads. False: there are none. */
static bool swap_two(const DtFunc *func)
{
    for (uint32_t i = 0; i < func->ops.n; i++)
        for (uint32_t k = 0; k < i; k++) {
            DtOp *a = func->ops.at[k], *b = func->ops.at[i];
            if (!is_parameter(func, a) || !is_parameter(func, b) || a->store == b->store ||
                a->out[0]->type != b->out[0]->type)
                continue;
            DtStore *store = a->store;
            const char *path = a->text;
            a->store = b->store, a->text = b->text;
            b->store = store, b->text = path;
            return true;
        }
    return false;
}

static void swap_parameters(const DtModule *module)
{
    bool any = false;
    for (uint32_t f = 0; f < module->funcs.n; f++)
        any = swap_two(module->funcs.at[f]) || any;
    if (!any) {
        fputs("faulty: the program has no two parameters of one type\n", stderr);
        abort();
    }
}

void __wrap_dt_pass_reduce(DtModule *module, const DtPassContext *context)
{
    __real_dt_pass_reduce(module, context);
    if (is_fault_in("pass"))
        swap_parameters(module);
}

DtStatus __wrap_dt_codegen_plan(const DtProgram *program, const DtCodegenOptions *options,
                                DtPlanBuilder *builder)
{
    if (is_fault_in("code"))
        swap_parameters(program->module);
    return __real_dt_codegen_plan(program, options, builder);
}
