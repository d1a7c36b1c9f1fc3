/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/logical.h"

#include "base/compress.h"
#include "base/digest.h"

#include <string.h>

enum { TEXTS = 4, MOST = 1 << 30 };

_Static_assert(sizeof((DtPlanLogical *)0)->code == DT_DIGEST_BYTES, "a digest");

static void add_text(DtDigest *digest, const char *text)
{
    dt_digest_add(digest, text, strlen(text));
}

static void add_number(DtDigest *digest, uint32_t number)
{
    /* plans, and the machines that read them, are little-endian */
    dt_digest_add(digest, &number, sizeof number);
}

void dt_logical_code(const DtPlan *plan, uint64_t ret_code[4])
{
    DtDigest digest;
    uint8_t bytes[DT_DIGEST_BYTES];
    dt_digest_begin(&digest);
    add_number(&digest, plan->n_kernels);
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
        const DtPlanKernel *kernel = &plan->kernels[i];
        add_text(&digest, dt_plan_str(plan, kernel->symbol));
        add_number(&digest, kernel->code);
        add_number(&digest, kernel->n_pointers);
        add_number(&digest, kernel->n_integers);
    }
    for (uint32_t i = 0; i < plan->n_launches; i++) {
        add_number(&digest, plan->launches[i].blocks);
        add_number(&digest, plan->launches[i].threads);
        add_number(&digest, plan->launches[i].shared);
        add_number(&digest, plan->launches[i].finish);
        add_number(&digest, plan->launches[i].workspace);
    }
    for (uint32_t i = 0; i < plan->n_codes; i++) {
        const DtPlanCode *code = &plan->codes[i];
        add_text(&digest, dt_plan_str(plan, code->target));
        add_text(&digest, dt_plan_str(plan, code->compiler));
        dt_digest_add(&digest, plan->blob ? plan->blob + code->source : NULL, code->source_len);
        dt_digest_add(&digest, plan->blob ? plan->blob + code->binary : NULL, code->binary_len);
    }
    dt_digest_end(&digest, bytes);
    memcpy(ret_code, bytes, sizeof bytes);
}

bool dt_logical_write(DtPlanBuilder *builder, const DtLogicalTexts *texts, const DtText *notes)
{
    const char *const all[TEXTS] = {texts->serial, texts->facts, texts->placed, texts->final};
    DtPlanLogical record = {.notes_len = notes->len};
    const DtPlan plan = {.kernels = builder->kernels.at, .n_kernels = builder->kernels.n,
                         .launches = builder->launches.at, .n_launches = builder->launches.n,
                         .codes = builder->codes.at, .n_codes = builder->codes.n,
                         .strings = builder->strings.at, .blob = builder->blob.at};
    DtText joined = {0};
    uint8_t *bytes;
    size_t len = 0;
    for (int i = 0; i < TEXTS; i++)
        dt_text_add_n(&joined, all[i], strlen(all[i]) + 1);
    bool fits = joined.len <= MOST;
    if (fits) {
        dt_compress(builder->arena, joined.at, joined.len, &bytes, &len);
        dt_logical_code(&plan, record.code);
        record.programs_len = len;
        record.programs = dt_write_blob(builder, bytes, len);
        record.notes = dt_write_blob(builder, notes->at, notes->len);
        DT_PUSH(builder->arena, builder->logical, record);
    }
    dt_text_free(&joined);
    return fits;
}

bool dt_logical_read(DtArena *arena, const DtPlan *plan, DtLogicalTexts *ret_texts)
{
    const char *text[TEXTS];
    uint8_t *bytes;
    size_t len;
    if (!plan->n_logical ||
        !dt_decompress(arena, plan->blob ? plan->blob + plan->logical->programs : NULL,
                       plan->logical->programs_len, MOST, &bytes, &len))
        return false;
    const char *at = (const char *)bytes, *end = at + len;
    for (int i = 0; i < TEXTS; i++) {
        const char *nul = memchr(at, 0, (size_t)(end - at));
        if (!nul)
            return false;
        text[i] = at;
        at = nul + 1;
    }
    *ret_texts = (DtLogicalTexts){.serial = text[0], .facts = text[1], .placed = text[2],
                                  .final = text[3]};
    return at == end;
}
