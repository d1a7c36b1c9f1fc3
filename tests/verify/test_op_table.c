/* SPDX-License-Identifier: Apache-2.0 */
/* The certificate has its own table of ops, written independently of the compiler's; what both
 * tables say must agree, op by op. */
#include "ir/ir.h"
#include "verify/internal.h"

#include <criterion/criterion.h>

static const CertRule *rule_of(DtOpKind kind)
{
    static const CertRule none = {.kinds = "fused"};
    /* ops that only exist after the programs that it reads: its table does not have them */
    if (dt_op_info[kind].traits & DT_TRAIT_LOWERED) {
        cr_expect_null(dt_certrule_find(dt_op_info[kind].text));
        return &none;
    }
    const CertRule *rule = dt_certrule_find(dt_op_info[kind].text);
    cr_assert_not_null(rule, "the certificate has no rule for `%s`", dt_op_info[kind].text);
    return rule;
}

/* Sources and structure have no operands that a table could describe: the certificate looks into
 * functions instead. */
static bool has_operands(DtOpKind kind)
{
    const DtOpClass kinds = dt_op_info[kind].op_class;
    return kinds != DT_CLASS_SOURCE && kinds != DT_CLASS_STRUCT;
}

Test(op_table, operands)
{
    for (DtOpKind kind = 0; kind < DT_OP_COUNT; kind++) {
        const DtOpInfo *info = &dt_op_info[kind];
        const CertRule *rule = rule_of(kind);
        if (!has_operands(kind))
            continue;
        cr_expect_eq(rule->more, info->inputs < 0, "`%s`: any number of operands", info->text);
        if (info->inputs >= 0)
            cr_expect_eq(rule->n_in, (uint32_t)info->inputs, "`%s`: number of operands",
                         info->text);
    }
}

Test(op_table, maps)
{
    for (DtOpKind kind = 0; kind < DT_OP_COUNT; kind++)
        cr_expect_eq(rule_of(kind)->map, dt_op_is_pointwise(kind), "`%s`: element by element",
                     dt_op_info[kind].text);
}

/* A sum may be pending in exactly those operands in which the op is linear. */
Test(op_table, linear)
{
    for (DtOpKind kind = 0; kind < DT_OP_COUNT; kind++) {
        const DtOpInfo *info = &dt_op_info[kind];
        const CertRule *rule = rule_of(kind);
        if (!has_operands(kind))
            continue;
        bool takes = rule->moves || rule->pending != P_NONE;
        cr_expect_eq(takes, info->linear != 0, "`%s`: whether it is linear", info->text);
        for (uint32_t i = 0; takes && i < 8; i++) {
            bool given = rule->complete >> i & 1, linear = info->linear >> i & 1;
            if (info->inputs < 0 || i < (uint32_t)info->inputs)
                cr_expect_neq(given, linear, "`%s`: whether it is linear in operand %u", info->text,
                              i);
        }
    }
}

/* The certificate knows about more zeros in padding than passes use. */
Test(op_table, zeros)
{
    for (DtOpKind kind = 0; kind < DT_OP_COUNT; kind++)
        if (dt_op_info[kind].traits & DT_TRAIT_ZERO)
            cr_expect_neq(rule_of(kind)->pads, F_ANY, "`%s`: zero where its operands are",
                          dt_op_info[kind].text);
}
