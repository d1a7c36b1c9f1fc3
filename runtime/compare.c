/* SPDX-License-Identifier: Apache-2.0 */
/* --record FILE keeps everything that each instruction of a run writes. --compare FILE runs the
 * same plan elsewhere and names the instructions that write other values. So one step of a small
 * model shows which kernels of a GPU are wrong: each gets the recorded inputs, even after a
 * mismatch, and must write the same bytes.
 *
 * Products differ by the library's order of additions. In both runs each is computed a second time,
 * in plain loops on the host, from the operands on the device. The library's result must be within
 * the bound of rounding. The plain one then replaces it, so that later instructions read the same
 * bytes everywhere. Attention in 16 bits must be within the bound of rounding of the recorded one
 * (plan.h, ATTN). Data that host code writes (initial values, scalars of the step) is recorded too,
 * since mathematical libraries of hosts differ in last bits.
 *
 * The file: "DTRECORD", a hash of the plan's instructions; then pieces, each a number of an
 * instruction (or ENTRY), 0, the length, and the bytes of all places that it writes. */
#include "runtime/device.h"
#include "runtime/compare.h"
#include "runtime/gemm.h"
#include "runtime/rank.h"

#include "base/file.h"
#include "base/half.h"
#include "base/hash.h"
#include "plan/report/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY UINT32_MAX
enum { MOST_SAID = 20 };
/* Indices of buffers: the operands of a product before it runs (DT_GEMM_A ..), then its written
 * result, C of the plain loops, and the sums of these before the epilogue, as contiguous f32
 * rows. */
enum { WRITTEN = DT_GEMM_OPERANDS, PLAIN, SUMS, BUFFERS };

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
    size_t at;            /* bytes of the piece in the file */
    char *buffers[BUFFERS]; /* allocated memory; grows as needed */
    uint64_t room[BUFFERS];
    uint64_t n, n_products, n_attentions, n_different, n_said;
    double worst, worst_attention; /* largest errors, relative to the bound of rounding */
    DtText said;
};

static uint64_t hash_of(const DtPlan *plan)
{
    const uint64_t insts = dt_hash_bytes(plan->insts, plan->n_insts * sizeof *plan->insts, 1);
    return dt_hash_bytes(plan->args, plan->n_args * sizeof *plan->args, insts);
}

static char *room(DtCompare *compare, int which, int64_t bytes)
{
    const uint64_t wanted = (uint64_t)bytes + 1;
    if (compare->room[which] < wanted) {
        free(compare->buffers[which]);
        compare->buffers[which] = malloc(wanted);
        compare->room[which] = compare->buffers[which] ? wanted : 0;
    }
    return compare->buffers[which];
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
        return dt_status_fail(DT_EXIT_USAGE,
                              "--record and --compare are for plans of one rank; this one has %u",
                              rank->n_ranks);
    DtStatus status = compare->compares ? dt_file_map(options->compare, &compare->file)
                                       : dt_file_writer_open(&compare->writer, options->record);
    if (!dt_status_ok(&status))
        return status;
    *ret_compare = compare;
    if (!compare->compares)
        return dt_file_writer_append(&compare->writer, &head, sizeof head);
    if (compare->file.len < sizeof head || memcmp(compare->file.at, &head, sizeof head) != 0)
        return dt_status_fail(DT_EXIT_USAGE, "%.300s is no record of a run of this plan",
                              options->compare);
    compare->at = sizeof head;
    return DT_OK;
}

/* ---- pieces ---- */

/* Reads the bytes of the next piece of the file; NULL after dt_rank_fail. */
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
                 left < sizeof has
                     ? "the recorded run ends before this one: record it with as many steps"
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
    return dt_rank_fail(compare->rank, DT_EXIT_RETRY, "no memory to look at %s",
                        dt_text_bytes(size, (double)bytes));
}

/* Records the bytes at these places in the file or, when comparing, overwrites them with the
 * recorded bytes. */
static bool copy_host(DtCompare *compare, uint32_t n, const DtPlaceAt *places)
{
    const DtRank *rank = compare->rank;
    Piece piece = {.inst = ENTRY};
    for (uint32_t i = 0; i < n; i++)
        piece.bytes += (uint64_t)places[i].bytes;
    char *bytes = compare->compares ? NULL : room(compare, WRITTEN, (int64_t)piece.bytes);
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
        places[a] = dt_device_place(rank, a, 0,
                                    (int64_t)dt_rank_arena(rank->options, plan, a, rank->stage));
    if (!compare->began)
        good = copy_host(compare, plan->n_arenas, places);
    for (uint32_t s = 0; s < plan->n_scalars; s++)
        places[s] = dt_device_place(rank, plan->scalars[s].arena, plan->scalars[s].offset,
                                    (int64_t)sizeof(float));
    good = good && copy_host(compare, plan->n_scalars, places);
    compare->began = true;
    dt_arena_free(scratch);
    return good;
}

/* ---- products ---- */

/* A matrix, and optionally a second one that is subtracted from it. */
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
            const double value = dt_gemm_get(v->at, at, v->dtype) -
                                 (v->minus ? dt_gemm_get(v->minus, at, v->dtype) : 0);
            sum += value * value;
        }
    return sqrt(sum);
}

static double unit_of(uint32_t dtype)
{
    return dtype == DT_PLAN_F32 ? 0x1p-23 : dtype == DT_PLAN_F16 ? 0x1p-10 : 0x1p-7;
}

static double larger(double a, double b) { return isnan(a) || a > b ? a : b; }

/* Whether the result C is more than the plain product: it has an epilogue, or adds to C. */
static bool changes_c(const DtPlanGemm *g)
{
    return g->epilogue != DT_PLAN_EPILOGUE_NONE &&
           dt_kinds_epilogues[g->epilogue].vector != DT_EPILOGUE_WRITE;
}

static bool is_gelu(const DtPlanGemm *g)
{
    return g->epilogue == DT_PLAN_EPILOGUE_GELU || g->epilogue == DT_PLAN_EPILOGUE_BIAS_GELU ||
           g->epilogue == DT_PLAN_EPILOGUE_GELU_AUX ||
           g->epilogue == DT_PLAN_EPILOGUE_BIAS_GELU_AUX || g->epilogue == DT_PLAN_EPILOGUE_DGELU;
}

static View view_of(const DtCompare *compare, const DtPlanGemm *g, int which)
{
    const int64_t elements = g->epilogue == DT_PLAN_EPILOGUE_SUM_A ? g->m : g->n;
    const char *at = compare->buffers[which];
    switch (which) {
    case DT_GEMM_A: return (View){at, NULL, 0, g->m, g->k, g->a_row, g->a_col, g->dtype_a};
    case DT_GEMM_B: return (View){at, NULL, 0, g->k, g->n, g->b_row, g->b_col, g->dtype_b};
    case DT_GEMM_VECTOR: return (View){at, NULL, 0, 1, elements, 0, 1, g->dtype_c};
    case DT_GEMM_MATRIX: return (View){at, NULL, 0, g->m, g->n, g->matrix_row, g->matrix_col,
                                       g->dtype_c};
    case SUMS: return (View){at, NULL, 0, g->m, g->n, g->n, 1, DT_PLAN_F32};
    default: return (View){at, NULL, 0, g->m, g->n, g->c_row, g->c_col, g->dtype_c};
    }
}

static double norm_of(const DtCompare *compare, const DtPlanGemm *g, int which)
{
    const View view = view_of(compare, g, which);
    return norm(&view);
}

/* Returns the norm of the error divided by `bound` plus the rounding of both results to their
 * dtype; above 1 rounding does not explain it. */
static double ratio_of(View wanted, const char *written, double bound)
{
    View off = wanted;
    off.minus = written;
    const double error = norm(&off);
    return error == 0 ? 0 : error / (unit_of(wanted.dtype) * norm(&wanted) + bound);
}

/* Returns the bound of the roundings before an epilogue, apart from those of the sums of products:
 * the sums, and those with a matrix added, may be rounded to C's type first; a vector is added in
 * f32. */
static double before_epilogue(const DtCompare *compare, const DtPlanGemm *g)
{
    const bool adds =
        g->epilogue == DT_PLAN_EPILOGUE_ADD || g->epilogue == DT_PLAN_EPILOGUE_BIAS_ADD;
    double bound = 0;
    if (changes_c(g))
        bound += unit_of(g->dtype_c) * norm_of(compare, g, SUMS);
    if (adds)
        bound += unit_of(g->dtype_c) * norm_of(compare, g, DT_GEMM_MATRIX);
    if (dt_kinds_epilogues[g->epilogue].vector == DT_EPILOGUE_READ)
        bound += 0x1p-23 * sqrt((double)g->m) * norm_of(compare, g, DT_GEMM_VECTOR);
    return bound;
}

/* Returns the bound of the rounding error of a sum of k products, relative to |A| |B|: in f32, in
 * any order; with tf32 also for operands of 10 bits of mantissa, rounded or truncated. */
static double error_of_sum(const DtCompare *compare, const DtPlanGemm *g)
{
    return (double)g->k * 0x1p-23 +
           (dt_kinds_tf32(compare->rank->plan, g) ? 2 * 0x1p-10 + 0x1p-20 : 0);
}

/* Returns the error of C in its norm, divided by the most that rounding explains: both results are
 * rounded to their type, and sums of k products in f32 have an error of at most k 2^-23 |A| |B|, in
 * any order. GELU and its slope grow an error by at most 1.13. */
static double error_of_c(const DtCompare *compare, const DtPlanGemm *g)
{
    const double grows = is_gelu(g) ? 1.13 : 1, before = before_epilogue(compare, g);
    DtGemmBatch at = dt_gemm_batch(g, g->n_batch);
    double worst = 0;
    do {
        View a = view_of(compare, g, DT_GEMM_A), b = view_of(compare, g, DT_GEMM_B);
        View c = view_of(compare, g, DT_GEMM_C), wanted = view_of(compare, g, PLAIN);
        a.first = at.a;
        b.first = at.b;
        c.first = wanted.first = at.c;
        const double bound = grows * (error_of_sum(compare, g) * norm(&a) * norm(&b) + before) +
                             (g->accumulate ? 0x1p-23 * norm(&c) : 0);
        worst = larger(ratio_of(wanted, compare->buffers[WRITTEN], bound), worst);
    } while (!isnan(worst) && dt_gemm_batch_next(&at));
    return worst;
}

/* Returns the relative error of the epilogue's second result: either sums of A or B (computed as
 * products with ones), or the input of GELU. */
static double error_of_operand(const DtCompare *compare, const DtPlanGemm *g, int which)
{
    const double k = (double)g->k;
    const double a = which == DT_GEMM_VECTOR && g->epilogue == DT_PLAN_EPILOGUE_SUM_B
                         ? sqrt(k)
                         : norm_of(compare, g, DT_GEMM_A);
    const double b = which == DT_GEMM_VECTOR && g->epilogue == DT_PLAN_EPILOGUE_SUM_A
                         ? sqrt(k)
                         : norm_of(compare, g, DT_GEMM_B);
    const double before = which == DT_GEMM_VECTOR ? 0 : before_epilogue(compare, g);
    return ratio_of(view_of(compare, g, which), compare->buffers[WRITTEN],
                    error_of_sum(compare, g) * a * b + before);
}

/* Returns which argument of the product an operand is; -1: it is none. */
static int argument_of(const DtPlanGemm *g, int which)
{
    const DtEpilogueInfo *epilogue = &dt_kinds_epilogues[g->epilogue];
    if (which == DT_GEMM_VECTOR)
        return epilogue->vector ? DT_GEMM_C + 1 : -1;
    if (which == DT_GEMM_MATRIX)
        return epilogue->matrix ? DT_GEMM_C + 1 + (epilogue->vector ? 1 : 0) : -1;
    return which;
}

static bool fetch(DtCompare *compare, int buffer, DtPlaceAt place)
{
    char *to = room(compare, buffer, place.bytes);
    if (!to)
        return no_memory(compare, place.bytes);
    dt_device_get(compare->rank, to, place, place.bytes);
    return true;
}

bool dt_compare_before(DtCompare *compare, uint32_t index, uint32_t n, const DtPlaceAt *places)
{
    const DtPlan *plan = compare->rank->plan;
    if (plan->insts[index].kind != DT_INST_GEMM)
        return true;
    for (int which = 0; which < DT_GEMM_OPERANDS; which++) {
        const int arg = argument_of(&plan->gemms[plan->insts[index].ref], which);
        if (arg >= 0 && (uint32_t)arg < n && !fetch(compare, which, places[arg]))
            return false;
    }
    return true;
}

/* Computes the product in plain loops: fills PLAIN, SUMS if C is more than the product, and the
 * operands that the epilogue writes. */
static bool run_plain(DtCompare *compare, const DtPlanGemm *g, int64_t bytes)
{
    char *const *buffers = compare->buffers;
    const int64_t sums = changes_c(g) ? g->m * g->n * (int64_t)sizeof(float) : 0;
    if (!room(compare, PLAIN, bytes) || !room(compare, SUMS, sums))
        return no_memory(compare, bytes + sums);
    memcpy(buffers[PLAIN], buffers[DT_GEMM_C], (size_t)bytes);
    if (!changes_c(g)) {
        dt_gemm_plain_join(g, buffers[DT_GEMM_A], buffers[DT_GEMM_B], buffers[PLAIN],
                           buffers[DT_GEMM_VECTOR], buffers[DT_GEMM_MATRIX]);
        return true;
    }
    DtPlanGemm inner = *g;
    inner.epilogue = DT_PLAN_EPILOGUE_NONE;
    inner.dtype_c = DT_PLAN_F32;
    inner.c_row = g->n;
    inner.matrix_row = inner.matrix_col = 0;
    dt_gemm_plain_run(&inner, buffers[DT_GEMM_A], buffers[DT_GEMM_B], buffers[SUMS]);
    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->n; j++) {
            const double sum = dt_gemm_get(buffers[SUMS], i * g->n + j, DT_PLAN_F32);
            dt_gemm_put(buffers[PLAIN], i * g->c_row + j, g->dtype_c,
                        (float)dt_gemm_epilogue_of(g, sum, i, j, buffers[DT_GEMM_VECTOR],
                                                   buffers[DT_GEMM_MATRIX]));
        }
    return true;
}

/* ---- written bytes ---- */

static void say(DtCompare *compare, uint32_t index, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
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
    dt_text_printf(&compare->said, "different: step %lld, instruction %u, %s %s, ",
                   (long long)compare->rank->step + 1, index, dt_kinds_inst(inst->kind), name);
    if (inst->span < plan->n_spans)
        dt_text_printf(&compare->said, "%s:%u: ", dt_plan_str(plan, plan->spans[inst->span].file),
                       plan->spans[inst->span].line);
    va_start(args, format);
    dt_text_vprintf(&compare->said, format, args);
    va_end(args);
    dt_text_add(&compare->said, "\n");
}

static bool check_product(DtCompare *compare, uint32_t index, const DtPlaceAt *places)
{
    const DtPlanGemm *g = &compare->rank->plan->gemms[compare->rank->plan->insts[index].ref];
    if (!run_plain(compare, g, places[DT_GEMM_C].bytes) ||
        !fetch(compare, WRITTEN, places[DT_GEMM_C]))
        return false;
    double error = error_of_c(compare, g);
    for (int which = DT_GEMM_VECTOR; which <= DT_GEMM_MATRIX; which++) {
        const DtEpilogueInfo *epilogue = &dt_kinds_epilogues[g->epilogue];
        if ((which == DT_GEMM_VECTOR ? epilogue->vector : epilogue->matrix) != DT_EPILOGUE_WRITE)
            continue;
        const DtPlaceAt place = places[argument_of(g, which)];
        if (!fetch(compare, WRITTEN, place))
            return false;
        error = larger(error_of_operand(compare, g, which), error);
        dt_device_put(compare->rank, place, compare->buffers[which], place.bytes);
    }
    if (!(error <= 1))
        say(compare, index, "%.3g times as far off as rounding explains", error);
    compare->worst = error > compare->worst ? error : compare->worst;
    compare->n_products++;
    dt_device_put(compare->rank, places[DT_GEMM_C], compare->buffers[PLAIN],
                  places[DT_GEMM_C].bytes);
    return true;
}

/* The places that an instruction writes, and which of its arguments these are. */
typedef struct Written {
    DtPlaceAt place[256];
    uint32_t arg[256], n;
    uint64_t bytes;
} Written;

/* Returns the record of the attention in 16 bits that the instruction computes; NULL: it computes
 * none. */
static const DtPlanAttention *attention_of(const DtPlan *plan, const DtPlanInst *inst)
{
    for (uint32_t i = 0; inst->kind == DT_INST_KERNEL && plan->n_launches && i < plan->n_attentions;
         i++)
        if (plan->attentions[i].kernel == inst->ref)
            return plan->attentions[i].dtype == DT_PLAN_F32 ? NULL : &plan->attentions[i];
    return NULL;
}

/* Writes the recorded values over the computed ones, so that the next instruction reads them. */
static void put_back(const DtCompare *compare, const Written *written, const uint8_t *wanted)
{
    for (uint32_t i = 0; i < written->n; wanted += written->place[i++].bytes)
        dt_device_put(compare->rank, written->place[i], wanted, written->place[i].bytes);
}

static void check_attention(DtCompare *compare, uint32_t index, const DtPlanAttention *attention,
                            const Written *written, const uint8_t *wanted)
{
    const uint8_t *got = (const uint8_t *)compare->buffers[WRITTEN];
    double error = 0;
    uint64_t at = 0;
    for (uint32_t i = 0; i < written->n; at += (uint64_t)written->place[i++].bytes)
        error = larger(dt_compare_attention(attention, written->arg[i], wanted + at, got + at,
                                            written->place[i].bytes), error);
    if (!(error <= 1))
        say(compare, index, "%.3g times as far from what was recorded as rounding explains", error);
    compare->n_attentions++;
    compare->worst_attention = larger(error, compare->worst_attention);
    put_back(compare, written, wanted);
}

static bool check_bytes(DtCompare *compare, uint32_t index, const Written *written)
{
    const uint64_t bytes = written->bytes;
    const Piece piece = {.inst = index, .bytes = bytes};
    const uint8_t *wanted = next_piece(compare, &piece),
                  *got = (const uint8_t *)compare->buffers[WRITTEN];
    const DtPlan *plan = compare->rank->plan;
    const DtPlanAttention *attention = attention_of(plan, &plan->insts[index]);
    uint64_t different = 0, first = 0;
    if (wanted && attention)
        check_attention(compare, index, attention, written, wanted);
    if (!wanted || attention || memcmp(wanted, got, bytes) == 0)
        return wanted != NULL;
    for (uint64_t i = bytes; i-- > 0;)
        if (wanted[i] != got[i]) {
            different++;
            first = i;
        }
    const uint64_t word = first / 4 * 4, len = bytes - word < 4 ? bytes - word : 4;
    uint32_t was = 0, is = 0;
    memcpy(&was, wanted + word, len);
    memcpy(&is, got + word, len);
    say(compare, index,
        "%llu of %llu bytes differ; the first word, at %llu, is %08x (%g as f32), recorded %08x "
        "(%g)",
        (unsigned long long)different, (unsigned long long)bytes, (unsigned long long)word, is,
        (double)dt_half_float_of_bits(is), was, (double)dt_half_float_of_bits(was));
    put_back(compare, written, wanted);
    return true;
}

bool dt_compare_after(DtCompare *compare, uint32_t index, uint32_t n, const DtPlaceAt *places)
{
    const DtPlanInst *inst = &compare->rank->plan->insts[index];
    Written written = {.n = 0};
    uint64_t at = 0;
    if (inst->kind == DT_INST_GEMM && !check_product(compare, index, places))
        return false;
    for (uint32_t i = 0; i < n && written.n < DT_COUNT(written.arg); i++)
        if (compare->rank->plan->args[inst->first_arg + i].written) {
            written.arg[written.n] = i;
            written.place[written.n++] = places[i];
            written.bytes += (uint64_t)places[i].bytes;
        }
    char *all = room(compare, WRITTEN, (int64_t)written.bytes);
    if (!all)
        return no_memory(compare, (int64_t)written.bytes);
    for (uint32_t i = 0; i < written.n; at += (uint64_t)written.place[i++].bytes)
        dt_device_get(compare->rank, all + at, written.place[i], written.place[i].bytes);
    compare->n++;
    return compare->compares ? check_bytes(compare, index, &written)
                            : keep(compare, &(Piece){.inst = index, .bytes = written.bytes}, all);
}

/* ---- end ---- */

bool dt_compare_end(DtCompare *compare, FILE *out)
{
    DtRank *rank = compare->rank;
    if (compare->compares && compare->at != compare->file.len)
        return dt_rank_fail(rank, DT_EXIT_FAILED,
                            "the recorded run goes on behind this one: compare as many steps");
    DtStatus status = compare->compares ? DT_OK : dt_file_writer_commit(&compare->writer);
    if (!dt_status_ok(&status))
        return dt_rank_fail_status(rank, &status);
    fprintf(out,
            "%s%llu instructions %s, %llu of them products, whose errors are at most %.2f of what "
            "rounding explains",
            compare->said.len ? compare->said.at : "", (unsigned long long)compare->n,
            compare->compares ? "compared" : "recorded", (unsigned long long)compare->n_products,
            compare->worst);
    if (compare->n_attentions)
        fprintf(out, ", and %llu attention in 16 bits, at most %.2g",
                (unsigned long long)compare->n_attentions, compare->worst_attention);
    fprintf(out, "\n");
    fflush(out);
    return compare->n_different == 0 ||
           dt_rank_fail(rank, DT_EXIT_FAILED,
                        "%llu of %llu instructions wrote something else than %s",
                        (unsigned long long)compare->n_different, (unsigned long long)compare->n,
                        compare->compares ? "recorded" : "plain products");
}

void dt_compare_close(DtCompare *compare)
{
    if (compare->compares)
        dt_file_unmap(&compare->file);
    else
        dt_file_writer_abandon(&compare->writer);
    for (int i = 0; i < BUFFERS; i++)
        free(compare->buffers[i]);
    dt_text_free(&compare->said);
}
