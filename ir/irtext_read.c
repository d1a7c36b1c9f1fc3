/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of IR text (irtext.c has the form). One pass: stores before the functions that use
 * them, a value before its uses; functions may be named before they are defined. The text may be
 * hostile: counts are bounded by what types can hold or by the length of the text, nothing
 * recurses, and the first problem ends the reading with a diagnostic. What the parser leaves
 * open (arity, shapes, attributes) the verifier then checks. */
#include "ir/irtext_read.h"

#include "ir/irtext.h"

#include <string.h>

/* ---- references ---- */

/* Returns the function of that name, which it adds if its definition comes later. */
static DtFunc *func_named(DtIrReader *p, const char *name)
{
    if (!name)
        return NULL;
    DtFunc *func = dt_map_find(&p->funcs, name, strlen(name));
    if (func)
        return func;
    func = DT_NEW(p->module->arena, DtFunc);
    func->name = name;
    dt_map_add(&p->funcs, name, strlen(name), func);
    DT_PUSH(p->module->arena, p->named, func);
    return func;
}

bool dt_irread_func_key(DtIrReader *p, const char *key, DtFunc **ret_func)
{
    const char *name = NULL;
    if (!dt_irlex_name_key(&p->lex, key, &name))
        return false;
    *ret_func = func_named(p, name);
    return true;
}

bool dt_irread_store_key(DtIrReader *p, DtStore **ret_store)
{
    uint32_t number;
    if (!dt_irlex_key(&p->lex, "store") || !dt_irlex_u32(&p->lex, &number))
        return false;
    if (number >= p->module->stores.n)
        return dt_irlex_fail(&p->lex, "store %u is not defined above", number);
    *ret_store = p->module->stores.at[number];
    return true;
}

/* ---- functions ---- */

static bool parse_u8_key(DtIrReader *p, const char *key, uint8_t *ret_count)
{
    int64_t number;
    if (!dt_irlex_key(&p->lex, key) || !dt_irlex_integer(&p->lex, 0, UINT8_MAX, &number))
        return false;
    *ret_count = (uint8_t)number;
    return true;
}

static bool parse_input(DtIrReader *p, bool is_param)
{
    DtFunc *func = p->func;
    if (func->ops.n || (!is_param && func->params.n))
        return dt_irlex_fail(&p->lex, "arguments come first, then parameters, then operations");
    DtValue *value = dt_irread_define(p, NULL, func->inputs.n);
    if (!value || !dt_irlex_expect(&p->lex, ':') ||
        !(value->type = dt_irread_type(&p->lex, &p->module->mesh)))
        return false;
    if (dt_irlex_key(&p->lex, "means") && !dt_irlex_u32(&p->lex, &value->means))
        return false;
    int64_t final = 0;
    if (dt_irlex_key(&p->lex, "final") && dt_irlex_integer(&p->lex, 0, INT32_MAX, &final))
        value->final = (uint32_t)final + 1;
    DT_PUSH(p->module->arena, func->inputs, value);
    if (!is_param) {
        func->n_args++;
        return true;
    }
    DtFormalParam param = {0};
    param.is_state = dt_irlex_take_word(&p->lex, "state");
    dt_irlex_name_key(&p->lex, "path", &param.path);
    dt_irlex_name_key(&p->lex, "pattern", &param.pattern);
    parse_u8_key(p, "loops", &param.n_loops);
    parse_u8_key(p, "rank", &param.written_rank);
    dt_irread_init(&p->lex, &param.init);
    dt_irread_span(&p->lex, &param.span);
    DT_PUSH(p->module->arena, func->params, param);
    return !p->lex.failed;
}

static bool parse_return(DtIrReader *p)
{
    DtIrValues values = {0};
    if (p->func->results.n)
        return dt_irlex_fail(&p->lex, "a function returns once, before its writes");
    if (!dt_irread_values(p, '}', &values))
        return false;
    p->func->results.at = values.at;
    p->func->results.n = p->func->n_returns = values.n;
    p->func->results.cap = values.cap;
    return true;
}

static bool parse_write(DtIrReader *p)
{
    uint32_t param;
    if (!dt_irlex_u32(&p->lex, &param) || !dt_irlex_expect(&p->lex, '='))
        return false;
    DtValue *value = dt_irread_use(p);
    if (!value)
        return false;
    DT_PUSH(p->module->arena, p->func->results, value);
    DT_PUSH(p->module->arena, p->func->writes, param);
    return true;
}

static bool parse_gradient(DtIrReader *p, bool is_surrogate)
{
    DtIrValues values = {0};
    DtCustomGradient *stated = DT_NEW(p->module->arena, DtCustomGradient);
    const char *name = dt_irlex_name(&p->lex);
    if (p->func->gradient || p->func->results.n)
        return dt_irlex_fail(&p->lex, "a function states its gradient once, before it returns");
    if (!name || !dt_irlex_expect(&p->lex, '(') || !dt_irread_values(p, ')', &values) ||
        !dt_irlex_expect(&p->lex, ')'))
        return false;
    stated->func = func_named(p, name);
    stated->is_surrogate = is_surrogate;
    stated->captured.at = values.at;
    stated->captured.n = values.n;
    p->func->gradient = stated;
    return true;
}

static bool parse_line(DtIrReader *p)
{
    if (dt_irlex_take_word(&p->lex, "arg"))
        return parse_input(p, false);
    if (dt_irlex_take_word(&p->lex, "param"))
        return parse_input(p, true);
    if (dt_irlex_take_word(&p->lex, "gradient"))
        return parse_gradient(p, false);
    if (dt_irlex_take_word(&p->lex, "surrogate"))
        return parse_gradient(p, true);
    if (dt_irlex_take_word(&p->lex, "return"))
        return parse_return(p);
    if (dt_irlex_take_word(&p->lex, "write"))
        return parse_write(p);
    if (p->func->results.n)
        return dt_irlex_fail(&p->lex, "expected `}` after the results");
    return dt_irread_op(p);
}

static bool parse_stream(DtIrReader *p)
{
    DtStream *stream = DT_NEW(p->module->arena, DtStream);
    int64_t number;
    if (!dt_irlex_name_key(&p->lex, "stream", &stream->axis))
        return true;
    p->func->stream = stream;
    stream->is_ordered = dt_irlex_take_word(&p->lex, "ordered");
    if (dt_irlex_key(&p->lex, "product")) {
        if (!dt_irlex_integer(&p->lex, 1, UINT32_MAX, &number))
            return false;
        stream->product = (uint32_t)number;
    }
    dt_irread_func_key(p, "part", &stream->part);
    dt_irread_func_key(p, "merge", &stream->merge);
    dt_irread_func_key(p, "finish", &stream->finish);
    if (dt_irlex_key(&p->lex, "given") && dt_irlex_expect(&p->lex, '('))
        while (!dt_irlex_take(&p->lex, ')')) {
            if (!dt_irlex_integer(&p->lex, 0, UINT32_MAX, &number))
                return false;
            DT_PUSH(p->module->arena, stream->given, (uint32_t)number);
        }
    if (dt_irlex_key(&p->lex, "takes") && dt_irlex_expect(&p->lex, '('))
        while (!dt_irlex_take(&p->lex, ')')) {
            if (!dt_irlex_integer(&p->lex, INT32_MIN, INT32_MAX, &number))
                return false;
            DT_PUSH(p->module->arena, stream->takes, (int32_t)number);
        }
    return !p->lex.failed;
}

static bool parse_func(DtIrReader *p)
{
    unsigned kind;
    DtFunc *func = p->func = func_named(p, dt_irlex_name(&p->lex));
    if (!func)
        return false;
    if (func->module)
        return dt_irlex_fail(&p->lex, "function `%s` is defined twice", func->name);
    func->module = p->module;
    DT_PUSH(p->module->arena, p->module->funcs, func);
    if (!dt_irlex_expect(&p->lex, ':') ||
        !dt_irlex_choice(&p->lex, "a kind of function", dt_irtext_func_kinds,
                         DT_COUNT(dt_irtext_func_kinds), &kind))
        return false;
    func->kind = (DtFuncKind)kind;
    dt_irlex_name_key(&p->lex, "library", &func->library);
    dt_irread_func_key(p, "fwd", &func->fwd);
    dt_irread_func_key(p, "bwd", &func->bwd);
    dt_irread_func_key(p, "bwd_x", &func->bwd_x);
    dt_irread_func_key(p, "bwd_w", &func->bwd_w);
    dt_irread_func_key(p, "fused", &func->fused);
    if (!parse_stream(p))
        return false;
    if (dt_irlex_key(&p->lex, "frame"))
        dt_irlex_integer(&p->lex, 1, INT64_MAX, &func->frame);
    dt_irread_span(&p->lex, &func->span);
    p->values = (DtMap){.arena = p->module->arena};
    if (!dt_irlex_expect(&p->lex, '{'))
        return false;
    while (!p->lex.failed && !dt_irlex_is(&p->lex, '}'))
        parse_line(p);
    return dt_irlex_expect(&p->lex, '}');
}

/* ---- the rest of a module ---- */

static bool parse_stage_key(DtIrReader *p, int32_t *ret_stage, uint32_t *ret_more)
{
    int64_t stage = -1, last;
    *ret_stage = -1;
    *ret_more = 0;
    if (dt_irlex_key(&p->lex, "stage") &&
        !dt_irlex_integer(&p->lex, 0, DT_PIPELINE_STAGES - 1, &stage))
        return false;
    *ret_stage = (int32_t)stage;
    if (stage < 0 || !dt_irlex_key(&p->lex, "to"))
        return true;
    if (!dt_irlex_integer(&p->lex, stage, DT_PIPELINE_STAGES - 1, &last))
        return false;
    *ret_more = (uint32_t)(last - stage);
    return true;
}

/* Reads the slots on each stage of a class, as runs (first, step, stages). */
static bool parse_depths(DtIrReader *p, DtStore *store)
{
    const int64_t n = (int64_t)store->more + 1;
    int64_t *depths, depth, step, count, at = 0;
    if (!dt_irlex_key(&p->lex, "depths"))
        return true;
    store->depths = depths = DT_NEW_ARRAY(p->module->arena, int64_t, n);
    if (!dt_irlex_expect(&p->lex, '('))
        return false;
    do {
        if (!dt_irlex_integer(&p->lex, 0, INT32_MAX, &depth) ||
            !dt_irlex_integer(&p->lex, -INT32_MAX, INT32_MAX, &step) ||
            !dt_irlex_integer(&p->lex, 1, n - at, &count))
            return false;
        for (; count > 0; count--, depth += step)
            depths[at++] = depth;
    } while (at < n && dt_irlex_expect(&p->lex, ','));
    return dt_irlex_expect(&p->lex, ')');
}

static bool parse_mesh(DtIrReader *p)
{
    DtMesh *mesh = &p->module->mesh;
    if (mesh->n || p->module->stores.n || p->module->funcs.n)
        return dt_irlex_fail(&p->lex, "the mesh comes first, and once");
    do {
        DtMeshAxis axis = {.name = dt_irlex_name(&p->lex)};
        if (mesh->n == DT_MAX_MESH)
            return dt_irlex_fail(&p->lex, "a mesh has more than %d axes", DT_MAX_MESH);
        if (!dt_irlex_expect(&p->lex, '=') || !dt_irlex_integer(&p->lex, 1, INT32_MAX, &axis.size))
            return false;
        axis.is_time = dt_irlex_take_word(&p->lex, "time");
        mesh->axes[mesh->n++] = axis;
    } while (dt_irlex_take(&p->lex, ','));
    return true;
}

static bool parse_padded(DtIrReader *p)
{
    DtPadded padded = {.name = dt_irlex_name(&p->lex)};
    if (!dt_irlex_expect(&p->lex, '=') ||
        !dt_irlex_integer(&p->lex, 1, INT64_MAX - 1, &padded.logical))
        return false;
    if (!dt_irlex_take_word(&p->lex, "of"))
        return dt_irlex_fail(&p->lex, "expected `of` and the extent with padding");
    if (!dt_irlex_integer(&p->lex, padded.logical + 1, INT64_MAX, &padded.physical))
        return false;
    DT_PUSH(p->module->arena, p->module->padded, padded);
    return true;
}

static bool parse_crossing(DtIrReader *p)
{
    DtDtype *dtype = &p->module->crossing;
    if (p->lex.token != DT_IR_NAME || p->lex.quoted || !dt_dtype_parse(p->lex.name, dtype) ||
        !dt_dtype_is_float(*dtype))
        return dt_irlex_fail(&p->lex, "expected the dtype in which gradients cross ranks");
    dt_irlex_next(&p->lex);
    return true;
}

/* Reads how long the label of a copy is, which the path and the pattern must begin with. */
static void parse_copy(DtIrReader *p, DtStore *store)
{
    int64_t n = 0;
    if (!dt_irlex_key(&p->lex, "copy") || !dt_irlex_integer(&p->lex, 1, UINT32_MAX, &n))
        return;
    if (!store->path || !store->pattern || strlen(store->path) <= (size_t)n ||
        strncmp(store->path, store->pattern, (size_t)n) != 0 || store->path[n - 1] != '.')
        dt_irlex_fail(&p->lex, "the path of a copy begins with its label");
    store->copy = (uint32_t)n;
}

static bool parse_store(DtIrReader *p)
{
    DtStore *store = DT_NEW(p->module->arena, DtStore);
    unsigned kind;
    int64_t of = -1, within = -1, bucket = -1;
    if (!dt_irlex_u32(&p->lex, &store->index))
        return false;
    if (store->index != p->module->stores.n)
        return dt_irlex_fail(&p->lex, "stores are numbered 0, 1, ...");
    if (!dt_irlex_expect(&p->lex, ':') ||
        !dt_irlex_choice(&p->lex, "a kind of store", dt_irtext_store_kinds,
                         DT_COUNT(dt_irtext_store_kinds), &kind))
        return false;
    store->kind = (DtStoreKind)kind;
    store->type = dt_irread_type(&p->lex, &p->module->mesh);
    if (!store->type)
        return false;
    dt_irlex_name_key(&p->lex, "path", &store->path);
    dt_irlex_name_key(&p->lex, "pattern", &store->pattern);
    parse_u8_key(p, "loops", &store->n_loops);
    parse_u8_key(p, "rank", &store->written_rank);
    store->frozen = dt_irlex_take_word(&p->lex, "frozen");
    store->in_adapter = dt_irlex_take_word(&p->lex, "adapter");
    parse_copy(p, store);
    dt_irread_init(&p->lex, &store->init);
    if (dt_irlex_key(&p->lex, "of"))
        dt_irlex_integer(&p->lex, 0, UINT32_MAX, &of);
    if (dt_irlex_key(&p->lex, "within"))
        dt_irlex_integer(&p->lex, 0, UINT32_MAX, &within);
    parse_stage_key(p, &store->stage, &store->more);
    if (dt_irlex_key(&p->lex, "depth"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &store->depth);
    parse_depths(p, store);
    if (dt_irlex_key(&p->lex, "first"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &store->first);
    if (dt_irlex_key(&p->lex, "step"))
        dt_irlex_integer(&p->lex, -INT32_MAX, INT32_MAX, &store->first_step);
    if (dt_irlex_key(&p->lex, "whole"))
        dt_irlex_integer(&p->lex, 0, INT32_MAX, &store->whole);
    if (dt_irlex_key(&p->lex, "bucket"))
        dt_irlex_integer(&p->lex, 0, UINT32_MAX, &bucket);
    if (dt_irlex_key(&p->lex, "at"))
        dt_irlex_integer(&p->lex, 0, INT64_MAX, &store->bucket_offset);
    store->terms = dt_irlex_take_word(&p->lex, "terms");
    dt_irread_span(&p->lex, &store->span);
    DT_PUSH(p->module->arena, p->module->stores, store);
    DT_PUSH(p->module->arena, p->of, of);
    DT_PUSH(p->module->arena, p->within, within);
    DT_PUSH(p->module->arena, p->bucket, bucket);
    return !p->lex.failed;
}

static bool parse_entry(DtIrReader *p)
{
    DtEntryPoint entry;
    const char *name = dt_irlex_name(&p->lex);
    if (name && !dt_entry_read(name, &entry))
        return dt_irlex_fail(&p->lex, "`%s` is the name of no entry point", name);
    if (!name || !dt_irlex_expect(&p->lex, ':'))
        return false;
    entry.func = func_named(p, dt_irlex_name(&p->lex));
    parse_stage_key(p, &entry.stage, &entry.more);
    if (!dt_irlex_expect(&p->lex, '{'))
        return false;
    while (dt_irlex_take_word(&p->lex, "result")) {
        DtEntryResult result = {0};
        dt_irread_store_key(p, &result.store);
        dt_irlex_name_key(&p->lex, "name", &result.name);
        result.accumulate = dt_irlex_take_word(&p->lex, "accumulate");
        DT_PUSH(p->module->arena, entry.results, result);
    }
    DT_PUSH(p->module->arena, p->module->entries, entry);
    return dt_irlex_expect(&p->lex, '}');
}

/* Sets *ret_link to the store with this number, for store i; number -1: leaves it NULL. False after
 * a failure. */
static bool resolve_store(DtIrReader *p, uint32_t i, int64_t number, DtStore **ret_link)
{
    if (number < 0)
        return true;
    if (number >= p->module->stores.n)
        return dt_irlex_fail(&p->lex, "store %u belongs to one that does not exist", i);
    *ret_link = p->module->stores.at[number];
    return true;
}

/* Checks that named functions were defined, and sets the owners and buckets of stores. */
static bool resolve(DtIrReader *p)
{
    for (uint32_t i = 0; i < p->named.n; i++) {
        if (!p->named.at[i]->module)
            return dt_irlex_fail(&p->lex, "function `%s` is named but not defined",
                                 p->named.at[i]->name);
    }
    for (uint32_t i = 0; i < p->module->stores.n; i++) {
        DtStore *store = p->module->stores.at[i];
        if (!resolve_store(p, i, p->of.at[i], &store->of) ||
            !resolve_store(p, i, p->within.at[i], &store->within) ||
            !resolve_store(p, i, p->bucket.at[i], &store->bucket))
            return false;
    }
    return true;
}

static bool parse_module(DtIrReader *p)
{
    while (!p->lex.failed && p->lex.token != DT_IR_END) {
        if (dt_irlex_take_word(&p->lex, "mesh"))
            parse_mesh(p);
        else if (dt_irlex_take_word(&p->lex, "padded"))
            parse_padded(p);
        else if (dt_irlex_take_word(&p->lex, "crossing"))
            parse_crossing(p);
        else if (dt_irlex_take_word(&p->lex, "store"))
            parse_store(p);
        else if (dt_irlex_take_word(&p->lex, "func"))
            parse_func(p);
        else if (dt_irlex_take_word(&p->lex, "entry"))
            parse_entry(p);
        else if (dt_irlex_take_word(&p->lex, "pipeline"))
            dt_irtext_read_pipeline(&p->lex, p->module);
        else
            dt_irlex_fail(
                &p->lex,
                "expected `mesh`, `padded`, `crossing`, `store`, `func`, `entry` or `pipeline`");
    }
    return !p->lex.failed && resolve(p);
}

DtModule *dt_irtext_parse(DtArena *arena, DtDiags *diags, const char *text, size_t len)
{
    DtIrReader p = {.module = dt_graph_module(arena, diags)};
    p.funcs.arena = p.values.arena = p.kinds.arena = arena;
    for (int i = 0; i < DT_OP_COUNT; i++)
        dt_map_add(&p.kinds, dt_op_info[i].text, strlen(dt_op_info[i].text),
                   (void *)(uintptr_t)&dt_op_info[i]);
    bool fits = len < INT32_MAX;
    const char *copy = dt_arena_strndup(arena, text, fits ? len : 0);
    dt_irlex_start(&p.lex, diags, copy, fits ? len : 0);
    if (!fits)
        dt_irlex_fail(&p.lex, "the text is longer than 2 GiB");
    return parse_module(&p) ? p.module : NULL;
}

/* Every violation that the verifier finds becomes one diagnostic. */
static void report_problems(DtDiags *diags, const char *problems)
{
    for (const char *line = problems; diags && *line;) {
        size_t n = strcspn(line, "\n");
        dt_diag_report(diags, E0951, (DtSpan){0}, "%.*s", (int)(n < 1000 ? n : 1000), line);
        line += n + (line[n] == '\n');
    }
}

DtModule *dt_irtext_read(DtArena *arena, DtDiags *diags, const char *text, size_t len)
{
    DtModule *module = dt_irtext_parse(arena, diags, text, len);
    DtText problems = {0};
    if (module && !dt_verify_module(module, &problems)) {
        report_problems(diags, problems.at);
        module = NULL;
    }
    dt_text_free(&problems);
    return module;
}
