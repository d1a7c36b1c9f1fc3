/* SPDX-License-Identifier: Apache-2.0 */
/* Reads plan files in place. Nothing is followed before it was bounded: the header against the
 * file's length, the digest, each section against the file, then every record (check.c). Sections
 * of unknown tags are skipped unless they are marked critical. */
#include "plan/read.h"

#include "base/hash.h"
#include "plan/fields.h"

#include <string.h>

enum { MAX_SECTIONS = 64 };

#define FAIL(...) return dt_status_fail(DT_EXIT_IO, __VA_ARGS__)

static DtStatus check_header(const uint8_t *bytes, size_t len, DtPlanHeader *ret_header)
{
    static const uint8_t zeros[sizeof ret_header->reserved];
    DtPlanHeader *header = ret_header;
    if (((uintptr_t)bytes & 7) != 0)
        FAIL("the plan's bytes are not aligned to 8");
    if (len < sizeof *header || memcmp(bytes, DT_PLAN_MAGIC, sizeof header->magic) != 0)
        FAIL("not a plan: it does not start with the plan's signature (`dtc FILE.dsl -o PLAN` "
             "writes one)");
    memcpy(header, bytes, sizeof *header);
    if (header->version != DT_PLAN_VERSION)
        FAIL("the plan has version %u, this program reads version %d: compile it again",
             header->version, DT_PLAN_VERSION);
    if (header->length != len)
        FAIL("the plan should have %llu bytes but has %zu: it was cut or extended; compile or copy "
             "it again",
             (unsigned long long)header->length, len);
    if (memcmp(header->reserved, zeros, sizeof zeros) != 0)
        FAIL("the plan's header has unknown contents");
    if (header->n_sections > MAX_SECTIONS ||
        header->n_sections * sizeof(DtPlanSection) > len - sizeof(DtPlanHeader))
        FAIL("the plan's section table (%u sections) does not fit the file", header->n_sections);
    if (header->digest != dt_hash_bytes(bytes + sizeof *header, len - sizeof *header, 0))
        FAIL("the plan is damaged: its digest does not match; compile or copy it again");
    return DT_OK;
}

/* Checks that a section has the expected version and record size and is inside of the file. from:
 * the end of the table of sections. */
static DtStatus check_section(const uint8_t *bytes, size_t from, size_t len,
                              const DtPlanSection *section, uint32_t record_size)
{
    char tag[5] = {0};
    memcpy(tag, section->tag, 4);
    if (section->version != 1 || section->record_size != record_size)
        FAIL("plan section %s has version %u and records of %u bytes; this program knows version 1 "
             "of %u bytes: compile it again",
             tag, section->version, section->record_size, record_size);
    if (section->offset % DT_PLAN_ALIGN != 0 || section->offset < from || section->offset > len ||
        section->length > len - section->offset ||
        section->length != (uint64_t)section->record_size * section->count)
        FAIL("plan section %s does not lie within the file", tag);
    if (section->checksum != dt_hash_bytes(bytes + section->offset, section->length, 0))
        FAIL("plan section %s is damaged: its checksum does not match", tag);
    return DT_OK;
}

/* Sets the pointer and the count of one section in the plan. */
static DtStatus take_section(const uint8_t *bytes, size_t from, size_t len,
                             const DtPlanSection *section, uint64_t *seen, DtPlan *plan)
{
    const DtPlanRecord *record = dt_fields_find(section->tag);
    bool strings = memcmp(section->tag, "STRS", 4) == 0,
         blob = memcmp(section->tag, "BLOB", 4) == 0;
    if (record == NULL && !strings && !blob) {
        if (section->critical)
            FAIL("the plan has a section that this program does not know: it was made by a newer "
                 "compiler");
        return DT_OK;
    }
    uint64_t bit = UINT64_C(1) << (record    ? (uint32_t)(record - dt_fields_records)
                          : strings ? DT_RECORDS
                                    : DT_RECORDS + 1);
    if (*seen & bit)
        FAIL("the plan has a section twice");
    *seen |= bit;
    DtStatus status = check_section(bytes, from, len, section, record ? record->size : 1);
    if (!dt_status_ok(&status))
        return status;
    const uint8_t *at = bytes + section->offset;
    if (strings) {
        plan->strings = (const char *)at;
        plan->n_strings = section->count;
    } else if (blob) {
        plan->blob = at;
        plan->n_blob = section->length;
    } else {
        memcpy((char *)plan + record->at, &at, sizeof at);
        memcpy((char *)plan + record->n, &section->count, sizeof section->count);
    }
    return DT_OK;
}

_Static_assert(DT_RECORDS + 2 <= 64, "a bit per section");

DtStatus dt_read_bytes(const uint8_t *bytes, size_t len, DtPlan *ret_plan)
{
    DtPlanHeader header;
    DtPlan plan = {0};
    uint64_t seen = 0;
    DtStatus status = check_header(bytes, len, &header);
    for (uint32_t s = 0; dt_status_ok(&status) && s < header.n_sections; s++) {
        DtPlanSection section;
        memcpy(&section, bytes + sizeof header + s * sizeof section, sizeof section);
        status = take_section(bytes, sizeof header + header.n_sections * sizeof section, len,
                              &section, &seen, &plan);
    }
    if (!dt_status_ok(&status))
        return status;
    plan.digest = header.digest;
    status = dt_check_plan(&plan);
    if (dt_status_ok(&status))
        *ret_plan = plan;
    return status;
}

DtStatus dt_read_file(const char *path, DtPlanFile *ret_file)
{
    DtPlanFile file = {0};
    DtStatus status = dt_file_map(path, &file.view);
    if (!dt_status_ok(&status))
        return status;
    status = dt_read_bytes(file.view.at, file.view.len, &file.plan);
    if (!dt_status_ok(&status)) {
        dt_file_unmap(&file.view);
        return dt_status_fail(status.code, "%.200s: %.280s", path, status.message);
    }
    *ret_file = file;
    return DT_OK;
}

void dt_read_close(DtPlanFile *file)
{
    dt_file_unmap(&file->view);
    *file = (DtPlanFile){0};
}
