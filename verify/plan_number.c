/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/plan_number.h"

#include <string.h>

const DtResidue dt_plannumber_unknown = {.p = DT_RESIDUE_UNDEFINED, .q = DT_RESIDUE_NONE};

DtResidues *dt_plannumber_begin(PlanWalk *walk)
{
    if (walk->numbers)
        return walk->numbers;
    DtResidues *r = DT_NEW(walk->arena, DtResidues);
    if (!dt_residue_begin(r)) {
        dt_certplan_fail(
            walk, "the system gives no random numbers (getentropy), with which ops are compared");
        return NULL;
    }
    return walk->numbers = r;
}

DtResidue dt_plannumber_map(const DtResidues *r, const char *kind, DtResidue x, DtResidue y)
{
    return strcmp(kind, "add") == 0    ? dt_residue_add(r, x, y)
           : strcmp(kind, "sub") == 0  ? dt_residue_add(r, x, dt_residue_neg(r, y))
           : strcmp(kind, "mul") == 0  ? dt_residue_mul(r, x, y)
           : strcmp(kind, "div") == 0  ? dt_residue_mul(r, x, dt_residue_inverse(r, y, true))
           : strcmp(kind, "neg") == 0  ? dt_residue_neg(r, x)
           : strcmp(kind, "exp") == 0  ? dt_residue_exp(r, x)
           : strcmp(kind, "tanh") == 0 ? dt_residue_function(r, kind, x, x)
           : strcmp(kind, "stop") == 0 ? x
                                       : dt_plannumber_unknown;
}

bool dt_plannumber_same(DtResidue x, DtResidue y)
{
    return !dt_residue_is_symbol(x) && !dt_residue_is_symbol(y) && dt_residue_same(x, y);
}

bool dt_plannumber_is_low(const CertOp *const *ops, uint32_t n)
{
    enum { MOST = 32 };
    uint32_t products = 0;
    for (uint32_t i = 0; i < n; i++)
        products += strcmp(ops[i]->kind, "mul") == 0 || strcmp(ops[i]->kind, "div") == 0;
    return products <= MOST;
}

bool dt_plannumber_is_real(const char *dtype)
{
    return strcmp(dtype, "f32") == 0 || strcmp(dtype, "bf16") == 0 || strcmp(dtype, "f16") == 0;
}
