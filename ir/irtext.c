/* SPDX-License-Identifier: Apache-2.0 */
/* IR as text. One op a line, everything that a module holds is in it, and irtext_read.c reads it
 * back:
 *
 *   mesh micro=4 time, data=2
 *   padded vocab=50257 of 50304
 *   crossing bf16
 *   store 0 : param f32[layers=12, embed=64] path=h.g pattern=h.#.g loops=1 init=const(1, 0)
 *   func block : layer {
 *     arg %x.0 : f32[batch=8/data, embed=64]
 *     param %w.1 : f32[embed=64, ffn=256] path=up.w pattern=up.w rank=2 init=normal(0.02, 0)
 *     %2 = dot[embed](%x.0, %w.1) : f32[batch=8/data, ffn=256] path=up @1:120-134
 *     gradient block.gradient(%x.0)
 *     return %2
 *   }
 *   entry grad : main {
 *     result store=0 accumulate
 *     result name=loss
 *   }
 *
 * Attributes of an op:
 *
 *   means=N         the value of an earlier program that the result must equal (means.c); of
 *                   several results, N is the first of consecutive numbers, or there is a list in
 *                   parentheses; communication without `means` has that of its operand
 *   start           in front of communication: it runs while later ops compute, until the `done` of
 *                   its result
 *   over(%2=%1)     result %2 takes the memory of %1 (pass `memory`)
 *   lies(%2=[b, a]) the order of the result's axes in memory of its own, outermost first; in
 *                   lies(%2=[a; b 52]) the axes after the semicolon form rows that begin 52
 *                   elements apart
 *   at(%2=64)       byte at which the result begins in the function's frame; the head of the
 *                   function has the frame's bytes, frame= (frame.h)
 *   base=512        byte of the frame at which the frame of the op's function begins
 *   holds(0, 2)     operands that are computed at their places in the result
 *   copies          the op copies although its kind is a view; or it is a product or exchange that
 *                   copies operands first if it cannot read their layouts
 *   anew            readers compute the value, a draw or made of one, themselves; it is not in
 *                   memory (pass `fuse`)
 *   @file:lo-hi     the span in the source
 *
 * In the head of a function `gradient` (or `surrogate`) names the function that is its gradient,
 * and the values which that reads in addition; `stream=` and what follows it is DtStream. Values
 * are numbered by definition, so that text depends on structure alone; a value prints as
 * %name.number or %number. Fields that are zero are not printed. A value that its function does not
 * define prints as %?, which cannot be read back. */
#include "ir/ir.h"

#include "ir/irtext.h"
#include "ir/quote.h"
#include "ir/shape.h"

#include <stdlib.h>
#include <string.h>

const char *const dt_irtext_func_kinds[] = {"fn", "layer", "model", "body", "entry", "kernel",
                                            "branch"};
const char *const dt_irtext_store_kinds[] = {"param", "state", "grad", "moment1", "moment2",
                                             "moment3", "moment4", "saved", "channel", "master",
                                             "average", "next", "cache", "codes", "scales",
                                             "ringbuf"};
const char *const dt_irtext_reduces[] = {"sum", "max", "min"};
const char *const dt_irtext_inits[] = {"const", "normal", "uniform"};

typedef struct Numbers {
    const DtValue **value; /* by id */
    uint32_t *number;
    uint32_t n, next;
} Numbers;

typedef struct Printer {
    DtText *text;
    const DtMesh *mesh;
    Numbers numbers;
} Printer;

static const char *word(const char *const *words, size_t n, unsigned i)
{
    return i < n ? words[i] : "?";
}
#define WORD(words, i) word((words), DT_COUNT(words), (unsigned)(i))

static void define(Numbers *numbers, const DtValue *value)
{
    uint32_t number = numbers->next++;
    if (!value || value->id >= numbers->n || numbers->value[value->id])
        return;
    numbers->value[value->id] = value;
    numbers->number[value->id] = number;
}

static void number_values(Numbers *numbers, const DtFunc *func)
{
    *numbers = (Numbers){.n = func->n_values};
    numbers->value = calloc((size_t)func->n_values + 1, sizeof numbers->value[0]);
    numbers->number = calloc((size_t)func->n_values + 1, sizeof numbers->number[0]);
    if (!numbers->value || !numbers->number)
        dt_arena_exhausted(((size_t)func->n_values + 1) * sizeof numbers->value[0]);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        define(numbers, func->inputs.at[i]);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        for (uint32_t k = 0; k < func->ops.at[i]->n_out; k++)
            define(numbers, func->ops.at[i]->out[k]);
    }
}

/* ---- pieces ---- */

static void print_value(Printer *p, const DtValue *value)
{
    if (!value || value->id >= p->numbers.n || p->numbers.value[value->id] != value) {
        dt_text_add(p->text, "%?");
        return;
    }
    dt_text_add(p->text, "%");
    if (value->name) {
        dt_quote_add(p->text, value->name);
        dt_text_add(p->text, ".");
    }
    dt_text_integer(p->text, p->numbers.number[value->id]);
}

static void print_values(Printer *p, DtValue *const *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            dt_text_add(p->text, ", ");
        print_value(p, values[i]);
    }
}

static void print_type(Printer *p, const DtType *type)
{
    if (type)
        dt_type_print_extents(type, p->mesh, p->text);
    else
        dt_text_add(p->text, "?");
}

static void print_names(Printer *p, const char *const *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            dt_text_add(p->text, ", ");
        dt_quote_add(p->text, names ? names[i] : NULL);
    }
}

static void add_key(DtText *text, const char *key)
{
    dt_text_add(text, " ");
    dt_text_add(text, key);
    dt_text_add(text, "=");
}

static void print_key(Printer *p, const char *key, const char *name)
{
    if (!name)
        return;
    add_key(p->text, key);
    dt_quote_add(p->text, name);
}

static void print_count(Printer *p, const char *key, int64_t count)
{
    if (!count)
        return;
    add_key(p->text, key);
    dt_text_integer(p->text, count);
}

static void print_flag(Printer *p, const char *flag, bool set)
{
    if (!set)
        return;
    dt_text_add(p->text, " ");
    dt_text_add(p->text, flag);
}

static void print_span(Printer *p, DtSpan span)
{
    if (!span.file && !span.lo && !span.hi)
        return;
    dt_text_add(p->text, " @");
    dt_text_integer(p->text, span.file);
    dt_text_add(p->text, ":");
    dt_text_integer(p->text, span.lo);
    dt_text_add(p->text, "-");
    dt_text_integer(p->text, span.hi);
}

static void print_init(Printer *p, const DtInit *init)
{
    dt_text_printf(p->text, " init=%s(", WORD(dt_irtext_inits, init->kind));
    dt_text_double(p->text, init->a);
    dt_text_add(p->text, ", ");
    dt_text_double(p->text, init->b);
    dt_text_add(p->text, ")");
}

static void print_number(Printer *p, const char *key, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    if (!bits)
        return;
    add_key(p->text, key);
    dt_text_double(p->text, number);
}

/* ---- ops ---- */

static void print_ranges(Printer *p, const DtOp *op)
{
    if (!op->ranges)
        return;
    uint32_t n = dt_shape_ranges(op);
    dt_text_add(p->text, " ranges=(");
    for (uint32_t i = 0; i < n; i++) {
        const DtRange *r = &op->ranges[i];
        dt_text_printf(p->text, "%s%lld %lld %lld %lld", i ? ", " : "", (long long)r->lo,
                       (long long)r->hi, (long long)r->step, (long long)r->n);
    }
    dt_text_add(p->text, ")");
}

static void print_relabel(Printer *p, const DtRelabel *r)
{
    uint32_t n_from = r->n_from < DT_COUNT(r->from) ? r->n_from : DT_COUNT(r->from);
    uint32_t n_to = r->n_to < DT_COUNT(r->to) ? r->n_to : DT_COUNT(r->to);
    dt_text_add(p->text, " relabel(");
    print_names(p, r->from, n_from);
    dt_text_add(p->text, n_from ? " ->" : "->");
    for (uint32_t i = 0; i < n_to; i++) {
        dt_text_add(p->text, i ? ", " : " ");
        dt_quote_add(p->text, r->to[i]);
        dt_text_printf(p->text, "=%lld", (long long)r->to_extent[i]);
    }
    dt_text_add(p->text, ")");
}

static void print_loop(Printer *p, const DtLoop *loop)
{
    dt_text_add(p->text, " loop(label=");
    dt_quote_add(p->text, loop->label);
    print_key(p, "axis", loop->axis);
    print_count(p, "count", loop->count);
    print_count(p, "first", loop->first);
    print_count(p, "step", loop->first_step);
    print_flag(p, "reverse", loop->reverse);
    print_count(p, "carried", loop->n_carried);
    print_count(p, "invariant", loop->n_invariant);
    print_count(p, "stacked", loop->n_stacked);
    print_count(p, "stacked_out", loop->n_stacked_out);
    dt_text_add(p->text, ")");
}

static void print_mesh_set(Printer *p, uint16_t bits)
{
    if (!bits)
        return;
    dt_text_add(p->text, " mesh={");
    const char *gap = "";
    for (uint32_t i = 0; i < DT_MAX_MESH; i++) {
        if (!(bits & 1u << i))
            continue;
        dt_text_add(p->text, gap);
        if (p->mesh && i < p->mesh->n && p->mesh->axes[i].name)
            dt_quote_add_part(p->text, p->mesh->axes[i].name);
        else
            dt_text_printf(p->text, "%u", i);
        gap = " ";
    }
    dt_text_add(p->text, "}");
}

static void print_stages(Printer *p, const char *stages)
{
    if (stages)
        dt_text_printf(p->text, " stages=(%s)", stages);
}

/* Prints the pipeline stage, or the class of stages, of a store or an entry. */
static void print_stage(Printer *p, const DtModule *module, int32_t stage, uint32_t more)
{
    if (!module->pipeline || stage < 0)
        return;
    dt_text_printf(p->text, " stage=%d", stage);
    print_count(p, "to", more ? (int64_t)stage + more : 0);
}

/* Prints the number of slots on each stage of a class, as runs (first, step, stages). */
static void print_depths(Printer *p, const DtStore *store)
{
    const int64_t *depths = store->depths;
    const char *gap = " depths=(";
    for (uint32_t i = 0, n; depths && i <= store->more; i += n) {
        const int64_t step = i < store->more ? depths[i + 1] - depths[i] : 0;
        for (n = 1; i + n <= store->more && depths[i + n] - depths[i + n - 1] == step;)
            n++;
        dt_text_printf(p->text, "%s%lld %lld %u", gap, (long long)depths[i], (long long)step, n);
        gap = ", ";
    }
    dt_text_add(p->text, depths ? ")" : "");
}

uint32_t dt_irtext_means(const DtOp *op)
{
    return dt_op_info[op->kind].op_class == DT_CLASS_COMM && op->n_in == 1 ? op->in[0]->means : 0;
}

/* Prints the numbers of serial values: only the first if those of the results are consecutive; none
 * if a collective has its operand's. */
static void print_means(Printer *p, const DtOp *op)
{
    const uint32_t usual = dt_irtext_means(op);
    bool follow = true, any = false;
    for (uint32_t i = 0; i < op->n_out; i++) {
        any = any || op->out[i]->means != usual;
        follow = follow && op->out[i]->means == op->out[0]->means + i;
    }
    if (!any)
        return;
    add_key(p->text, "means");
    for (uint32_t i = 0; i < (follow ? 1 : op->n_out); i++) {
        dt_text_add(p->text, follow ? "" : i ? " " : "(");
        dt_text_integer(p->text, op->out[i]->means);
    }
    dt_text_add(p->text, follow ? "" : ")");
}

static uint32_t final_of(const Printer *p, const DtValue *value)
{
    return value->final ? value->final - 1 : p->numbers.number[value->id];
}

/* Prints the numbers that the reference program has for results, where they differ from those of
 * this text. */
static void print_final(Printer *p, const DtOp *op)
{
    bool follow = true, any = false;
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (!op->out[i] || op->out[i]->id >= p->numbers.n)
            return;
        any = any || final_of(p, op->out[i]) != p->numbers.number[op->out[i]->id];
        follow = follow && final_of(p, op->out[i]) == final_of(p, op->out[0]) + i;
    }
    if (!any)
        return;
    add_key(p->text, "final");
    for (uint32_t i = 0; i < (follow ? 1 : op->n_out); i++) {
        dt_text_add(p->text, follow ? "" : i ? " " : "(");
        dt_text_integer(p->text, final_of(p, op->out[i]));
    }
    dt_text_add(p->text, follow ? "" : ")");
}

static void print_over(Printer *p, const DtOp *op)
{
    const char *gap = " over(";
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (!op->out[i] || !op->out[i]->over)
            continue;
        dt_text_add(p->text, gap);
        print_value(p, op->out[i]);
        dt_text_add(p->text, "=");
        print_value(p, op->out[i]->over);
        gap = ", ";
    }
    dt_text_add(p->text, gap[0] == ',' ? ")" : "");
}

/* Prints the layouts of results that have memory of their own. */
static void print_lies(Printer *p, const DtOp *op)
{
    const char *gap = " lies(";
    for (uint32_t i = 0; i < op->n_out; i++) {
        const DtLies *lies = op->out[i] ? op->out[i]->lies : NULL;
        if (!lies)
            continue;
        dt_text_add(p->text, gap);
        print_value(p, op->out[i]);
        dt_text_add(p->text, "=[");
        for (uint32_t d = 0; d < op->out[i]->type->rank; d++) {
            dt_text_add(p->text, d == 0 ? "" : lies->row && d == lies->first ? "; " : ", ");
            dt_quote_add(p->text, op->out[i]->type->axes[lies->order[d]].name);
        }
        if (lies->row)
            dt_text_printf(p->text, " %lld", (long long)lies->row);
        dt_text_add(p->text, "]");
        gap = ", ";
    }
    dt_text_add(p->text, gap[0] == ',' ? ")" : "");
}

/* Prints the offsets of results in the function's frame, and that of the frame of the function that
 * op runs. */
static void print_at(Printer *p, const DtOp *op)
{
    const char *gap = " at(";
    for (uint32_t i = 0; i < op->n_out; i++) {
        if (!op->out[i] || !op->out[i]->at)
            continue;
        dt_text_add(p->text, gap);
        print_value(p, op->out[i]);
        dt_text_add(p->text, "=");
        dt_text_integer(p->text, op->out[i]->at - 1);
        gap = ", ";
    }
    dt_text_add(p->text, gap[0] == ',' ? ")" : "");
    if (op->base)
        dt_text_printf(p->text, " base=%lld", (long long)op->base);
}

static void print_holds(Printer *p, const DtOp *op)
{
    const char *gap = "";
    if (!op->holds)
        return;
    dt_text_add(p->text, " holds(");
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!op->holds[i])
            continue;
        dt_text_add(p->text, gap);
        dt_text_integer(p->text, i);
        gap = ", ";
    }
    dt_text_add(p->text, ")");
}

/* Whether pass `fuse` decided that readers draw the value themselves; operands do not show this. */
static bool is_drawn_anew(const DtOp *op)
{
    if (op->n_out != 1 || !op->out[0] || op->out[0]->made_anew != 2)
        return false;
    bool anew = op->kind == DT_OP_RNG;
    for (uint32_t i = 0; dt_op_is_pointwise(op->kind) && i < op->n_in; i++) {
        const DtValue *in = op->in[i];
        const bool number =
            in && in->op && (in->op->kind == DT_OP_CONST || in->op->kind == DT_OP_IOTA);
        anew = anew || (in && !number && in->made_anew != 2);
    }
    return anew;
}

/* Prints the loop whose gathers a `when` performs. */
static void print_of(Printer *p, const DtAheadOf *of)
{
    const char *gap = "";
    if (!of)
        return;
    const int64_t numbers[] = {(int64_t)of->loop - 1, of->turn, (int64_t)of->piece - 1,
                               of->piece ? (int64_t)of->kind : -1};
    static const char *const keys[] = {"loop", "turn", "piece", "kind"};
    dt_text_add(p->text, " of(");
    for (size_t i = 0; i < DT_COUNT(keys); i++) {
        if (numbers[i] < 0)
            continue;
        dt_text_printf(p->text, "%s%s=%lld", gap, keys[i], (long long)numbers[i]);
        gap = " ";
    }
    dt_text_add(p->text, ")");
}

static void print_attributes(Printer *p, const DtOp *op)
{
    print_ranges(p, op);
    for (uint32_t i = 0; op->relabels && i < op->n_relabels; i++)
        print_relabel(p, &op->relabels[i]);
    print_number(p, "number", op->number);
    print_count(p, "draws", op->draws);
    if (op->reduce != DT_REDUCE_SUM)
        print_key(p, "reduce", WORD(dt_irtext_reduces, op->reduce));
    print_flag(p, "reverse", op->reverse);
    print_flag(p, "gradients", op->gradients);
    print_count(p, "ahead", op->ahead);
    print_key(p, "text", op->text);
    if (op->store)
        dt_text_printf(p->text, " store=%u", op->store->index);
    if (op->func)
        print_key(p, "func", op->func->name);
    if (op->loop)
        print_loop(p, op->loop);
    print_mesh_set(p, op->mesh);
    print_stages(p, op->stages);
    print_of(p, op->of);
    print_means(p, op);
    print_final(p, op);
    print_over(p, op);
    print_lies(p, op);
    print_at(p, op);
    print_holds(p, op);
    print_flag(p, "copies", op->copies);
    print_flag(p, "anew", is_drawn_anew(op));
    print_key(p, "path", op->path);
    print_span(p, op->span);
}

static void print_op(Printer *p, const DtOp *op)
{
    if (op->n_out)
        print_values(p, op->out, op->n_out);
    else
        dt_text_add(p->text, "()");
    dt_text_add(p->text, op->late ? " = start late " : op->starts ? " = start " : " = ");
    dt_text_add(p->text, (unsigned)op->kind < DT_OP_COUNT ? dt_op_info[op->kind].text : "?");
    if (op->n_axes || op->n_axes2) {
        dt_text_add(p->text, "[");
        print_names(p, op->axes, op->n_axes);
        if (op->n_axes2)
            dt_text_add(p->text, op->n_axes ? "; " : ";");
        print_names(p, op->axes2, op->n_axes2);
        dt_text_add(p->text, "]");
    }
    dt_text_add(p->text, "(");
    print_values(p, op->in, op->n_in);
    dt_text_add(p->text, ")");
    for (uint32_t i = 0; i < op->n_out; i++) {
        dt_text_add(p->text, i ? ", " : " : ");
        print_type(p, op->out[i] ? op->out[i]->type : NULL);
    }
    print_attributes(p, op);
}

/* ---- functions ---- */

static void print_input(Printer *p, const DtFunc *func, uint32_t i)
{
    bool is_param = i >= func->n_args && i - func->n_args < func->params.n;
    dt_text_add(p->text, is_param ? "  param " : "  arg ");
    print_value(p, func->inputs.at[i]);
    dt_text_add(p->text, " : ");
    print_type(p, func->inputs.at[i] ? func->inputs.at[i]->type : NULL);
    print_count(p, "means", func->inputs.at[i] ? func->inputs.at[i]->means : 0);
    if (func->inputs.at[i] && func->inputs.at[i]->final && func->inputs.at[i]->final - 1 != i)
        dt_text_printf(p->text, " final=%u", func->inputs.at[i]->final - 1);
    if (is_param) {
        const DtFormalParam *param = &func->params.at[i - func->n_args];
        print_flag(p, "state", param->is_state);
        print_key(p, "path", param->path);
        print_key(p, "pattern", param->pattern);
        print_count(p, "loops", param->n_loops);
        print_count(p, "rank", param->written_rank);
        print_init(p, &param->init);
        print_span(p, param->span);
    }
    dt_text_add(p->text, "\n");
}

static void print_stream(Printer *p, const DtStream *stream)
{
    print_key(p, "stream", stream->axis);
    print_flag(p, "ordered", stream->is_ordered);
    print_count(p, "product", stream->product);
    print_key(p, "part", stream->part ? stream->part->name : NULL);
    print_key(p, "merge", stream->merge ? stream->merge->name : NULL);
    print_key(p, "finish", stream->finish ? stream->finish->name : NULL);
    for (uint32_t i = 0; i < stream->given.n; i++)
        dt_text_printf(p->text, "%s%u", i ? " " : " given=(", stream->given.at[i]);
    for (uint32_t i = 0; i < stream->takes.n; i++)
        dt_text_printf(p->text, "%s%d",
                       i                 ? " "
                       : stream->given.n ? ") takes=("
                                         : " takes=(",
                       stream->takes.at[i]);
    dt_text_add(p->text, stream->takes.n ? ")" : "");
}

static void print_header(Printer *p, const DtFunc *func)
{
    dt_text_add(p->text, "func ");
    dt_quote_add(p->text, func->name);
    dt_text_printf(p->text, " : %s", WORD(dt_irtext_func_kinds, func->kind));
    print_key(p, "library", func->library);
    print_key(p, "fwd", func->fwd ? func->fwd->name : NULL);
    print_key(p, "bwd", func->bwd ? func->bwd->name : NULL);
    print_key(p, "bwd_x", func->bwd_x ? func->bwd_x->name : NULL);
    print_key(p, "bwd_w", func->bwd_w ? func->bwd_w->name : NULL);
    print_key(p, "fused", func->fused ? func->fused->name : NULL);
    if (func->stream)
        print_stream(p, func->stream);
    if (func->frame)
        dt_text_printf(p->text, " frame=%lld", (long long)func->frame);
    print_span(p, func->span);
    dt_text_add(p->text, " {\n");
}

static void print_gradient(Printer *p, const DtCustomGradient *stated)
{
    dt_text_add(p->text, stated->is_surrogate ? "  surrogate " : "  gradient ");
    dt_quote_add(p->text, stated->func->name);
    dt_text_add(p->text, "(");
    print_values(p, stated->captured.at, stated->captured.n);
    dt_text_add(p->text, ")\n");
}

static void print_results(Printer *p, const DtFunc *func)
{
    if (func->gradient)
        print_gradient(p, func->gradient);
    uint32_t n_returns = func->n_returns < func->results.n ? func->n_returns : func->results.n;
    if (n_returns) {
        dt_text_add(p->text, "  return ");
        print_values(p, func->results.at, n_returns);
        dt_text_add(p->text, "\n");
    }
    for (uint32_t i = 0; i < func->writes.n && n_returns + i < func->results.n; i++) {
        dt_text_printf(p->text, "  write %u = ", func->writes.at[i]);
        print_value(p, func->results.at[n_returns + i]);
        dt_text_add(p->text, "\n");
    }
}

static void print_func(Printer *p, const DtFunc *func)
{
    number_values(&p->numbers, func);
    print_header(p, func);
    for (uint32_t i = 0; i < func->inputs.n; i++)
        print_input(p, func, i);
    for (uint32_t i = 0; i < func->ops.n; i++) {
        dt_text_add(p->text, "  ");
        print_op(p, func->ops.at[i]);
        dt_text_add(p->text, "\n");
    }
    print_results(p, func);
    dt_text_add(p->text, "}\n");
    free(p->numbers.value);
    free(p->numbers.number);
}

void dt_irtext_print_func(const DtFunc *func, DtText *ret_text)
{
    Printer p = {.text = ret_text, .mesh = func->module ? &func->module->mesh : NULL};
    print_func(&p, func);
}

/* Appends op as text, as it is in func, without newline. */
void dt_irtext_print_op(const DtFunc *func, const DtOp *op, DtText *ret_text)
{
    Printer p = {.text = ret_text, .mesh = func->module ? &func->module->mesh : NULL};
    number_values(&p.numbers, func);
    print_op(&p, op);
    free(p.numbers.value);
    free(p.numbers.number);
}

/* ---- modules ---- */

static void print_mesh(Printer *p, const DtMesh *mesh)
{
    if (!mesh->n)
        return;
    dt_text_add(p->text, "mesh ");
    for (uint32_t i = 0; i < mesh->n && i < DT_MAX_MESH; i++) {
        if (i)
            dt_text_add(p->text, ", ");
        dt_quote_add(p->text, mesh->axes[i].name);
        dt_text_printf(p->text, "=%lld", (long long)mesh->axes[i].size);
        print_flag(p, "time", mesh->axes[i].is_time);
    }
    dt_text_add(p->text, "\n");
}

static void print_padded(Printer *p, const DtModule *module)
{
    for (uint32_t i = 0; i < module->padded.n; i++) {
        const DtPadded *padded = &module->padded.at[i];
        dt_text_add(p->text, "padded ");
        dt_quote_add(p->text, padded->name);
        dt_text_printf(p->text, "=%lld of %lld\n", (long long)padded->logical,
                       (long long)padded->physical);
    }
}

static void print_store(Printer *p, const DtModule *module, const DtStore *store)
{
    dt_text_printf(p->text, "store %u : %s ", store->index,
                   WORD(dt_irtext_store_kinds, store->kind));
    print_type(p, store->type);
    print_key(p, "path", store->path);
    print_key(p, "pattern", store->pattern);
    print_count(p, "loops", store->n_loops);
    print_count(p, "rank", store->written_rank);
    print_flag(p, "frozen", store->frozen);
    print_flag(p, "adapter", store->in_adapter);
    print_count(p, "copy", store->copy);
    print_init(p, &store->init);
    if (store->of)
        dt_text_printf(p->text, " of=%u", store->of->index);
    if (store->within)
        dt_text_printf(p->text, " within=%u", store->within->index);
    print_stage(p, module, store->stage, store->more);
    print_count(p, "depth", store->depth);
    print_depths(p, store);
    print_count(p, "first", store->first);
    print_count(p, "step", store->first_step);
    print_count(p, "whole", store->whole);
    if (store->bucket) {
        dt_text_printf(p->text, " bucket=%u", store->bucket->index);
        print_count(p, "at", store->bucket_offset);
    }
    print_flag(p, "terms", store->terms);
    print_span(p, store->span);
    dt_text_add(p->text, "\n");
}

static void print_entry(Printer *p, const DtModule *module, const DtEntryPoint *entry)
{
    dt_text_add(p->text, "entry ");
    dt_quote_add(p->text, entry->name);
    dt_text_add(p->text, " : ");
    dt_quote_add(p->text, entry->func ? entry->func->name : NULL);
    print_stage(p, module, entry->stage, entry->more);
    dt_text_add(p->text, " {\n");
    for (uint32_t i = 0; i < entry->results.n; i++) {
        const DtEntryResult *result = &entry->results.at[i];
        dt_text_add(p->text, "  result");
        if (result->store)
            dt_text_printf(p->text, " store=%u", result->store->index);
        print_key(p, "name", result->name);
        print_flag(p, "accumulate", result->accumulate);
        dt_text_add(p->text, "\n");
    }
    dt_text_add(p->text, "}\n");
}

void dt_irtext_print(const DtModule *module, DtText *ret_text)
{
    Printer p = {.text = ret_text, .mesh = &module->mesh};
    print_mesh(&p, &module->mesh);
    print_padded(&p, module);
    if (dt_dtype_is_float(module->crossing))
        dt_text_printf(p.text, "crossing %s\n", dt_dtype_name(module->crossing));
    for (uint32_t i = 0; i < module->stores.n; i++)
        print_store(&p, module, module->stores.at[i]);
    for (uint32_t i = 0; i < module->funcs.n; i++)
        print_func(&p, module->funcs.at[i]);
    for (uint32_t i = 0; i < module->entries.n; i++)
        print_entry(&p, module, &module->entries.at[i]);
    dt_irtext_print_pipeline(module, ret_text);
}
