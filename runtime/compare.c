/* SPDX-License-Identifier: Apache-2.0 */
/* --record FILE keeps what each instruction of a run writes, --compare FILE runs the same plan elsewhere and says which
 * instruction writes something else. So a GPU shows in one step of a small model which of its kernels is wrong: each is
 * given what was recorded, also behind one that was wrong, and has to give the same bytes.
 *
 * Products differ by the order in which a library adds. In both runs each is computed a second time, in plain loops on
 * the host, from the operands that the device has; the library's has to lie within what rounding explains, and the
 * plain one takes its place, so that whatever reads it sees the same bytes everywhere. What host code puts into memory
 * (initial values, scalars of the step) is recorded too: mathematical libraries of hosts differ in last bits.
 *
 * The file: "DTRECORD", a hash of the plan's instructions; then pieces, each a number of an instruction (or ENTRY), 0,
 * the length, and the bytes of all places that it writes. */
#include "runtime/device.h"
#include "runtime/gemm.h"
#include "runtime/compare.h"

#include "base/file.h"
#include "base/half.h"
#include "base/hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY UINT32_MAX
enum { MOST_SAID = 20 };

typedef struct Head {
    char magic[8];
    uint64_t plan;
} Head;
typedef struct Piece {
    uint32_t inst, zero;
    uint64_t bytes;
} Piece;

struct DtCompare {
    DtRank *rank;
    bool compares, began;
    DtFileWriter writer;
    DtFileView file;
    size_t at;            /* in file */
    char *operands[3];    /* of a product, before it; grown as needed */
    char *written, *plain;
    uint64_t room[5];
    uint64_t n, n_products, n_different, n_said;
    double worst;         /* of a product's error, over what rounding explains */
    DtText said;
};

static uint64_t hash_of(const DtPlan *plan)
{
    const uint64_t insts = dt_hash_bytes(plan->insts, plan->n_insts * sizeof *plan->insts, 1);
    return dt_hash_bytes(plan->args, plan->n_args * sizeof *plan->args, insts);
}

static char *room(DtCompare *compare, int which, int64_t bytes)
{
    char **const all[] = {&compare->operands[0], &compare->operands[1], &compare->operands[2], &compare->written,
                          &compare->plain};
    const uint64_t wanted = (uint64_t)bytes + 1;
    if (compare->room[which] < wanted) {
        free(*all[which]);
        *all[which] = malloc(wanted);
        compare->room[which] = *all[which] ? wanted : 0;
    }
    return *all[which];
}

/* ---- begin ---- */

DtStatus dt_compare_open(DtRank *rank, DtCompare **ret_compare)
{
    const DtRunOptions *options = rank->options;
    DtCompare *compare = DT_NEW(rank->memory, DtCompare);
    Head head = {.plan = hash_of(rank->plan)};
    memcpy(head.magic, "DTRECORD", sizeof head.magic);
    *compare = (DtCompare){.rank = rank, .compares = options->compare != NULL};
    if (rank->n_ranks > 1)
        return dt_status_fail(DT_EXIT_USAGE, "--record and --compare are for plans of one rank; this one has %u",
                              rank->n_ranks);
    DtStatus status = compare->compares ? dt_file_map(options->compare, &compare->file)
                                       : dt_file_writer_open(&compare->writer, options->record);
    if (!dt_status_ok(&status))
        return status;
    *ret_compare = compare;
    if (!compare->compares)
        return dt_file_writer_append(&compare->writer, &head, sizeof head);
    if (compare->file.len < sizeof head || memcmp(compare->file.at, &head, sizeof head) != 0)
        return dt_status_fail(DT_EXIT_USAGE, "%.300s is no record of a run of this plan", options->compare);
    compare->at = sizeof head;
    return DT_OK;
}

/* ---- pieces ---- */

/* The next piece's bytes in the file; NULL after dt_rank_fail. */
static const uint8_t *next_piece(DtCompare *compare, const Piece *piece)
{
    Piece has;
    const size_t left = compare->file.len - compare->at;
    if (left >= sizeof has) {
        memcpy(&has, compare->file.at + compare->at, sizeof has);
        if (memcmp(&has, piece, sizeof has) == 0 && left - sizeof has >= has.bytes) {
            const uint8_t *bytes = compare->file.at + compare->at + sizeof has;
            compare->at += sizeof has + has.bytes;
            return bytes;
        }
    }
    dt_rank_fail(compare->rank, DT_EXIT_FAILED,
                 left < sizeof has ? "the recorded run ends before this one: record it with as many steps"
                                   : "this run has other instructions than the recorded one");
    return NULL;
}

static bool keep(DtCompare *compare, const Piece *piece, const char *bytes)
{
    DtStatus status = dt_file_writer_append(&compare->writer, piece, sizeof *piece);
    if (dt_status_ok(&status))
        status = dt_file_writer_append(&compare->writer, bytes, piece->bytes);
    return dt_status_ok(&status) || dt_rank_fail_status(compare->rank, &status);
}

static bool no_memory(DtCompare *compare, int64_t bytes)
{
    char size[32];
    return dt_rank_fail(compare->rank, DT_EXIT_RETRY, "no memory to look at %s", dt_text_bytes(size, (double)bytes));
}

/* What lies at the places is kept, or made what was kept. */
static bool copy_host(DtCompare *compare, uint32_t n, const DtPlaceAt *places)
{
    const DtRank *rank = compare->rank;
    Piece piece = {.inst = ENTRY};
    for (uint32_t i = 0; i < n; i++)
        piece.bytes += (uint64_t)places[i].bytes;
    char *bytes = compare->compares ? NULL : room(compare, 3, (int64_t)piece.bytes);
    const uint8_t *from = compare->compares ? next_piece(compare, &piece) : NULL;
    if (compare->compares ? !from : !bytes && !no_memory(compare, (int64_t)piece.bytes))
        return false;
    uint64_t at = 0;
    for (uint32_t i = 0; i < n; at += (uint64_t)places[i++].bytes) {
        if (from)
            dt_device_put(rank, places[i], from + at, places[i].bytes);
        else
            dt_device_get(rank, bytes + at, places[i], places[i].bytes);
    }
    return from || keep(compare, &piece, bytes);
}

bool dt_compare_entry(DtCompare *compare)
{
    const DtRank *rank = compare->rank;
    const DtPlan *plan = rank->plan;
    const uint32_t n = plan->n_arenas > plan->n_scalars ? plan->n_arenas : plan->n_scalars;
    DtArena *scratch = dt_arena_new();
    DtPlaceAt *places = DT_NEW_ARRAY(scratch, DtPlaceAt, n + 1);
    bool good = true;
    for (uint32_t a = 0; a < plan->n_arenas; a++)
        places[a] = dt_device_place(rank, a, 0, dt_plan_arena_bytes(plan, a, rank->stage));
    if (!compare->began)
        good = copy_host(compare, plan->n_arenas, places);
    for (uint32_t s = 0; s < plan->n_scalars; s++)
        places[s] = dt_device_place(rank, plan->scalars[s].arena, plan->scalars[s].offset, (int64_t)sizeof(float));
    good = good && copy_host(compare, plan->n_scalars, places);
    compare->began = true;
    dt_arena_free(scratch);
    return good;
}

/* ---- products ---- */

static double value_of(const char *matrix, int64_t at, uint32_t dtype)
{
    float wide;
    uint16_t half;
    if (dtype == DT_PLAN_F32) {
        memcpy(&wide, matrix + at * 4, sizeof wide);
        return (double)wide;
    }
    memcpy(&half, matrix + at * 2, sizeof half);
    return (double)(dtype == DT_PLAN_F16 ? dt_half_from_f16(half) : dt_half_from_bf16(half));
}

/* A matrix, and one that is taken from it, or NULL. */
typedef struct View {
    const char *at, *minus;
    int64_t first, rows, columns, row, column;
    uint32_t dtype;
} View;

static double norm(const View *v)
{
    double sum = 0;
    for (int64_t i = 0; i < v->rows; i++)
        for (int64_t j = 0; j < v->columns; j++) {
            const int64_t at = v->first + i * v->row + j * v->column;
            const double value =
                value_of(v->at, at, v->dtype) - (v->minus ? value_of(v->minus, at, v->dtype) : 0);
            sum += value * value;
        }
    return sqrt(sum);
}

/* The error of a product in its norm, over the most that rounding explains: both results are rounded once to their
 * type, and sums of k products in f32 have an error of at most k 2^-23 |A| |B|, in any order. */
static double error_of(const DtCompare *compare, const DtPlanGemm *g)
{
    const double unit = g->dtype_c == DT_PLAN_F32 ? 0x1p-23 : g->dtype_c == DT_PLAN_F16 ? 0x1p-10 : 0x1p-7;
    DtGemmBatch at = dt_gemm_batch(g, g->n_batch);
    double worst = 0;
    do {
        const View a = {compare->operands[0], NULL, at.a, g->m, g->k, g->a_row, g->a_col, g->dtype_a};
        const View b = {compare->operands[1], NULL, at.b, g->k, g->n, g->b_row, g->b_col, g->dtype_b};
        const View before = {compare->operands[2], NULL, at.c, g->m, g->n, g->c_row, g->c_col, g->dtype_c};
        const View wanted = {compare->plain, NULL, at.c, g->m, g->n, g->c_row, g->c_col, g->dtype_c};
        const View off = {compare->plain, compare->written, at.c, g->m, g->n, g->c_row, g->c_col, g->dtype_c};
        const double bound = unit * norm(&wanted) + (double)g->k * 0x1p-23 * norm(&a) * norm(&b) +
                             (g->accumulate ? 0x1p-23 * norm(&before) : 0);
        const double error = norm(&off);
        const double ratio = error == 0 ? 0 : error / bound;
        worst = ratio > worst || isnan(ratio) ? ratio : worst;
    } while (!isnan(worst) && dt_gemm_batch_next(&at));
    return worst;
}

bool dt_compare_before(DtCompare *compare, uint32_t index, uint32_t n, const DtPlaceAt *places)
{
    if (compare->rank->plan->insts[index].kind != DT_INST_GEMM)
        return true;
    for (uint32_t i = 0; i < 3 && i < n; i++) {
        char *operand = room(compare, (int)i, places[i].bytes);
        if (!operand)
            return no_memory(compare, places[i].bytes);
        dt_device_get(compare->rank, operand, places[i], places[i].bytes);
    }
    return true;
}

/* ---- what was written ---- */

static void say(DtCompare *compare, uint32_t index, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void say(DtCompare *compare, uint32_t index, const char *format, ...)
{
    const DtPlan *plan = compare->rank->plan;
    const DtPlanInst *inst = &plan->insts[index];
    char name[DT_INST_NAME];
    va_list args;
    compare->n_different++;
    if (compare->n_said++ >= MOST_SAID)
        return;
    dt_trace_name(plan, inst, name);
    dt_text_printf(&compare->said, "different: step %lld, instruction %u, %s %s, ", (long long)compare->rank->step + 1,
                   index, dt_kinds_inst(inst->kind), name);
    if (inst->span < plan->n_spans)
        dt_text_printf(&compare->said, "%s:%u: ", dt_plan_str(plan, plan->spans[inst->span].file),
                       plan->spans[inst->span].line);
    va_start(args, format);
    dt_text_vprintf(&compare->said, format, args);
    va_end(args);
    dt_text_add(&compare->said, "\n");
}

static bool check_product(DtCompare *compare, uint32_t index, DtPlaceAt place)
{
    const DtPlanGemm *g = &compare->rank->plan->gemms[compare->rank->plan->insts[index].ref];
    char *written = room(compare, 3, place.bytes), *plain = room(compare, 4, place.bytes);
    if (!written || !plain)
        return no_memory(compare, place.bytes);
    dt_device_get(compare->rank, written, place, place.bytes);
    memcpy(plain, compare->operands[2], (size_t)place.bytes);
    dt_gemm_plain_run(g, compare->operands[0], compare->operands[1], plain);
    const double error = error_of(compare, g);
    if (!(error <= 1))
        say(compare, index, "%.3g times as far off as rounding explains", error);
    compare->worst = error > compare->worst ? error : compare->worst;
    compare->n_products++;
    dt_device_put(compare->rank, place, plain, place.bytes);
    return true;
}

/* written: the places that it writes, one behind the other. */
static bool check_bytes(DtCompare *compare, uint32_t index, uint32_t n, const DtPlaceAt *places, uint64_t bytes)
{
    const Piece piece = {.inst = index, .bytes = bytes};
    const uint8_t *wanted = next_piece(compare, &piece), *got = (const uint8_t *)compare->written;
    if (!wanted)
        return false;
    uint64_t different = 0, first = 0, at = 0;
    if (memcmp(wanted, got, bytes) == 0)
        return true;
    for (uint64_t i = bytes; i-- > 0;)
        if (wanted[i] != got[i]) {
            different++;
            first = i;
        }
    const uint64_t word = first / 4 * 4, len = bytes - word < 4 ? bytes - word : 4;
    uint32_t was = 0, is = 0;
    memcpy(&was, wanted + word, len);
    memcpy(&is, got + word, len);
    say(compare, index, "%llu of %llu bytes differ; the first word, at %llu, is %08x (%g as f32), recorded %08x (%g)",
        (unsigned long long)different, (unsigned long long)bytes, (unsigned long long)word, is,
        (double)dt_half_float_of_bits(is), was, (double)dt_half_float_of_bits(was));
    for (uint32_t i = 0; i < n; at += (uint64_t)places[i++].bytes)
        dt_device_put(compare->rank, places[i], wanted + at, places[i].bytes);
    return true;
}

bool dt_compare_after(DtCompare *compare, uint32_t index, uint32_t n, const DtPlaceAt *places)
{
    const DtPlanInst *inst = &compare->rank->plan->insts[index];
    DtPlaceAt written[256];
    uint32_t n_written = 0;
    uint64_t bytes = 0, at = 0;
    if (inst->kind == DT_INST_GEMM && !check_product(compare, index, places[2]))
        return false;
    for (uint32_t i = 0; i < n && n_written < 256; i++)
        if (compare->rank->plan->args[inst->first_arg + i].written) {
            written[n_written++] = places[i];
            bytes += (uint64_t)places[i].bytes;
        }
    char *all = room(compare, 3, (int64_t)bytes);
    if (!all)
        return no_memory(compare, (int64_t)bytes);
    for (uint32_t i = 0; i < n_written; at += (uint64_t)written[i++].bytes)
        dt_device_get(compare->rank, all + at, written[i], written[i].bytes);
    compare->n++;
    return compare->compares ? check_bytes(compare, index, n_written, written, bytes)
                            : keep(compare, &(Piece){.inst = index, .bytes = bytes}, all);
}

/* ---- end ---- */

bool dt_compare_end(DtCompare *compare, FILE *out)
{
    DtRank *rank = compare->rank;
    if (compare->compares && compare->at != compare->file.len)
        return dt_rank_fail(rank, DT_EXIT_FAILED, "the recorded run goes on behind this one: compare as many steps");
    DtStatus status = compare->compares ? DT_OK : dt_file_writer_commit(&compare->writer);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    fprintf(out,
            "%s%llu instructions %s, %llu of them products, whose errors are at most %.2f of what rounding explains\n",
            compare->said.len ? compare->said.at : "", (unsigned long long)compare->n,
            compare->compares ? "compared" : "recorded", (unsigned long long)compare->n_products, compare->worst);
    fflush(out);
    return compare->n_different == 0 ||
           dt_rank_fail(rank, DT_EXIT_FAILED, "%llu of %llu instructions wrote something else than %s",
                        (unsigned long long)compare->n_different, (unsigned long long)compare->n,
                        compare->compares ? "recorded" : "plain products");
}

void dt_compare_close(DtCompare *compare)
{
    if (compare->compares)
        dt_file_unmap(&compare->file);
    else
        dt_file_writer_abandon(&compare->writer);
    for (int i = 0; i < 3; i++)
        free(compare->operands[i]);
    free(compare->written);
    free(compare->plain);
    dt_text_free(&compare->said);
}
