/* SPDX-License-Identifier: Apache-2.0 */
/* The program's adapters as the files of peft have them. No line of the program says it: it follows
 * from the names block, which has the tensor of the weight that an adapter is added to, such as
 *
 *     "model.layers.{h}.mlp.up_proj.weight"[ffn, embed] = h.mlp.up.w
 *
 * with from = embed and to = ffn. The files of an adapter of rank r then have
 *
 *     "base_model.model.model.layers.{h}.mlp.up_proj.lora_A.weight"[r, embed]
 *     "base_model.model.model.layers.{h}.mlp.up_proj.lora_B.weight"[ffn, r]
 *
 * whether the weight is [to, from] in its file (Linear of PyTorch) or [from, to] (Conv1D of GPT-2).
 * So each names block gets a second one, of its adapters, whose rules are those of
 * adapter_config.json. An adapter is left out if its weight is only a part of a tensor: peft adapts
 * whole tensors. */
#include "frontend/config_internal.h"

#include "base/intern.h"

#include <math.h>
#include <string.h>

#define WEIGHT ".weight"
#define PREFIX "base_model.model."

/* A weight in its file: a matrix of the axes `from` and `to`. */
typedef struct Place {
    const DtFileTensor *tensor;
    const DtFilePart *part;
    uint32_t first, middle, end; /* its axes: from the first on `from`, from the middle on `to` */
    int64_t from, to, size;      /* elements of these, and of the tensor */
    bool is_turned;              /* the file has it as [from, to] */
} Place;

/* ---- weights ---- */

/* Whether axes first .. end - 1 of the part, each `unit` apart or a multiple of that, have numbers
 * 0 .. n - 1 of the units. */
static bool fills(const DtFilePart *part, uint32_t first, uint32_t end, int64_t unit, int64_t n)
{
    int64_t last = 0, all = 1;
    for (uint32_t a = first; a < end; a++) {
        if (part->count[a] != part->store->type->axes[a].extent ||
            (part->count[a] > 1 && part->stride[a] % unit))
            return false;
        last += part->stride[a] / unit * (part->count[a] - 1);
        all *= part->count[a];
    }
    return last == n - 1 && all == n;
}

/* Whether the tensor is the whole weight and nothing else. */
static bool has_weight(const DtFileTensor *tensor, const DtAdapted *adapted, Place *ret_place)
{
    const DtFilePart *part = tensor->parts.n == 1 ? &tensor->parts.at[0] : NULL;
    const size_t len = strlen(tensor->pattern), ending = strlen(WEIGHT);
    if (!part || part->store != adapted->weight || tensor->n_axes - tensor->n_index != 2 ||
        len <= ending || strcmp(tensor->pattern + len - ending, WEIGHT))
        return false;
    const uint32_t loops = part->store->n_loops;
    const int64_t rows = tensor->extent[tensor->n_index],
                  columns = tensor->extent[tensor->n_index + 1];
    Place place = {.tensor = tensor,
                   .part = part,
                   .first = loops,
                   .middle = adapted->a->type->rank - 1,
                   .end = part->store->type->rank,
                   .size = rows * columns};
    bool fits = part->first % place.size == 0;
    for (uint32_t a = 0; a < loops; a++)
        fits = fits && part->stride[a] % place.size == 0 &&
               part->count[a] == part->store->type->axes[a].extent;
    for (int turn = 0; fits && turn < 2; turn++) {
        place.is_turned = turn == 1;
        place.from = turn ? rows : columns;
        place.to = turn ? columns : rows;
        *ret_place = place;
        if (fills(part, place.first, place.middle, turn ? columns : 1, place.from) &&
            fills(part, place.middle, place.end, turn ? 1 : columns, place.to))
            return true;
    }
    return false;
}

static bool find_weight(const DtFileNames *names, const DtAdapted *adapted, Place *ret_place)
{
    for (uint32_t t = 0; t < names->tensors.n; t++)
        if (has_weight(&names->tensors.at[t], adapted, ret_place))
            return true;
    return false;
}

static int64_t rank_of(const DtAdapted *adapted)
{
    return adapted->a->type->axes[adapted->a->type->rank - 1].extent;
}

/* ---- tensors ---- */

/* One matrix of an adapter, rows x columns in its file. It has the loops of the weight, and the
 * weight's axes from number `first` on: their elements are multiples of `unit` apart in the file of
 * the weight, and as many multiples of `own` here. Axis number `at` is the adapter's own, whose
 * elements are `rank` apart. */
typedef struct Matrix {
    const DtStore *store;
    const char *part; /* "lora_A" */
    int64_t rows, columns, unit, own, rank;
    uint32_t first, at;
} Matrix;

static void add_matrix(const DtConfigHost *host, const Place *place, const Matrix *m,
                       DtFileNames *made)
{
    const DtFilePart *weight = place->part;
    const uint32_t loops = m->store->n_loops;
    const int64_t size = m->rows * m->columns;
    DtFileTensor tensor = *place->tensor;
    DtFilePart part = {.store = m->store, .first = weight->first / place->size * size};
    tensor.pattern =
        dt_intern_printf(PREFIX "%.*s.%s" WEIGHT, (int)(strlen(tensor.pattern) - strlen(WEIGHT)),
                         tensor.pattern, m->part);
    tensor.extent[tensor.n_index] = m->rows;
    tensor.extent[tensor.n_index + 1] = m->columns;
    for (uint32_t a = 0, from = m->first; a < m->store->type->rank; a++) {
        part.count[a] = m->store->type->axes[a].extent;
        if (a < loops)
            part.stride[a] = weight->stride[a] / place->size * size;
        else if (a == m->at)
            part.stride[a] = m->rank;
        else
            part.stride[a] = weight->stride[from++] / m->unit * m->own;
    }
    tensor.parts.at = NULL;
    tensor.parts.n = tensor.parts.cap = 0;
    DT_PUSH(host->arena, tensor.parts, part);
    DT_PUSH(host->arena, made->tensors, tensor);
}

static void add_adapter(const DtConfigHost *host, const DtAdapted *adapted, const Place *place,
                        DtFileNames *made)
{
    const int64_t r = rank_of(adapted);
    const Matrix a = {.store = adapted->a,
                      .part = "lora_A",
                      .rows = r,
                      .columns = place->from,
                      .unit = place->is_turned ? place->to : 1,
                      .own = 1,
                      .rank = place->from,
                      .first = place->first,
                      .at = adapted->a->type->rank - 1};
    const Matrix b = {.store = adapted->b,
                      .part = "lora_B",
                      .rows = place->to,
                      .columns = r,
                      .unit = place->is_turned ? 1 : place->from,
                      .own = r,
                      .rank = 1,
                      .first = place->middle,
                      .at = adapted->b->n_loops};
    add_matrix(host, place, &a, made);
    add_matrix(host, place, &b, made);
}

/* ---- adapter_config.json ---- */

static void add_rule(const DtConfigHost *host, DtFileNames *made, const char *key,
                     const char *values)
{
    const DtFileRule rule = {DT_FILE_CONFIG, key, values, made->span};
    DT_PUSH(host->arena, made->rules, rule);
}

/* An adapter that has tensors in the files, and its module's name there, with # for numbers. */
typedef struct Module {
    const DtAdapted *adapted;
    const char *name;
} Module;
typedef DT_VEC(Module) Modules;

static double alpha_of(const DtAdapted *adapted)
{
    const double alpha = adapted->scale * (double)rank_of(adapted);
    return fabs(alpha - round(alpha)) < 1e-9 * fabs(alpha) ? round(alpha) : alpha;
}

static const char *last_part(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Adds the key by which peft finds the module, to text of JSON: its last name, if all modules of
 * that name are alike; else an expression for its whole name. */
static void add_key(const Modules *modules, const Module *module, DtText *text)
{
    const char *last = last_part(module->name);
    bool alike = !strchr(last, '#');
    for (uint32_t i = 0; i < modules->n; i++) {
        const Module *other = &modules->at[i];
        alike = alike && (strcmp(last_part(other->name), last) != 0 ||
                          (rank_of(other->adapted) == rank_of(module->adapted) &&
                           other->adapted->scale == module->adapted->scale));
    }
    for (const char *at = alike ? last : module->name; *at; at++)
        if (*at == '#')
            dt_text_add(text, "\\\\d+");
        else if (*at == '.')
            dt_text_add(text, "\\\\.");
        else
            dt_text_add_n(text, at, 1);
}

/* Returns what rank_pattern, or alpha_pattern, says of the modules that differ from the first. */
static const char *patterns(const Modules *modules, bool ranks)
{
    DtText text = {0};
    const DtAdapted *first = modules->at[0].adapted;
    dt_text_add(&text, "[{");
    uint32_t n = 0;
    for (uint32_t i = 1; i < modules->n; i++) {
        const Module *module = &modules->at[i];
        const double number = ranks ? (double)rank_of(module->adapted) : alpha_of(module->adapted);
        if (number == (ranks ? (double)rank_of(first) : alpha_of(first)))
            continue;
        DtText key = {0};
        add_key(modules, module, &key);
        if (!text.at || !strstr(text.at, dt_intern_printf("\"%s\":", key.at))) {
            dt_text_printf(&text, "%s\"%s\": ", n++ ? ", " : "", key.at);
            dt_text_double(&text, number);
        }
        dt_text_free(&key);
    }
    dt_text_add(&text, n ? "}]" : "}, null]");
    const char *values = dt_intern_n(text.at, text.len);
    dt_text_free(&text);
    return values;
}

/* The first of the values is written, all of them can be read. */
static void add_rules(const DtConfigHost *host, const Modules *modules, bool is_turned,
                      DtFileNames *made)
{
    const DtAdapted *adapted = modules->at[0].adapted;
    DtText text = {0};
    dt_text_double(&text, alpha_of(adapted));
    add_rule(host, made, "peft_type", "[\"LORA\"]");
    add_rule(host, made, "r", dt_intern_printf("[%lld]", (long long)rank_of(adapted)));
    add_rule(host, made, "lora_alpha", dt_intern_printf("[%s]", text.at));
    add_rule(host, made, "rank_pattern", patterns(modules, true));
    add_rule(host, made, "alpha_pattern", patterns(modules, false));
    add_rule(host, made, "fan_in_fan_out",
             is_turned ? "[true, false, null]" : "[false, true, null]");
    add_rule(host, made, "bias", "[\"none\", null]");
    add_rule(host, made, "lora_bias", "[false, null]");
    add_rule(host, made, "use_rslora", "[false, null]");
    add_rule(host, made, "use_dora", "[false, null]");
    dt_text_free(&text);
}

static void derive(const DtConfigHost *host, DtProgram *program, uint32_t number)
{
    const DtFileNames *names = &program->names.at[number];
    DtFileNames made = {.name = names->name, .span = names->span, .adapters = true,
                        .label = names->label};
    bool is_turned = false;
    Modules modules = {0};
    for (uint32_t i = 0; i < program->adapted.n; i++) {
        const DtAdapted *adapted = &program->adapted.at[i];
        Place place;
        if (!find_weight(names, adapted, &place))
            continue;
        is_turned = is_turned || place.is_turned;
        add_adapter(host, adapted, &place, &made);
        const char *pattern = place.tensor->pattern;
        DT_PUSH(host->arena, modules,
                ((Module){adapted, dt_intern_n(pattern, strlen(pattern) - strlen(WEIGHT))}));
    }
    if (made.tensors.n == 0)
        return;
    add_rules(host, &modules, is_turned, &made);
    DT_PUSH(host->arena, program->names, made);
}

void dt_configadapters_derive(const DtConfigHost *host, DtProgram *program)
{
    const uint32_t n = program->names.n;
    for (uint32_t i = 0; i < n && program->adapted.n; i++)
        derive(host, program, i);
}
