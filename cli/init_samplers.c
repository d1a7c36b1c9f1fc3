/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples `dtc init` makes of text, by the arguments of the model, and its lines about them:
 *
 *   model gpt2(i32 tokens[batch, seq])                              next_token
 *   model bert(i32 tokens[batch, seq], i32 kind[..], bool valid[..])   mlm
 *   model t5(i32 source[batch, src], i32 target[batch, seq], ..)    span_corruption
 *
 * The last two need a token of tokenizer.json: the mask, the first sentinel. Without it, and for
 * all other models, the program reads images (init_images.c) or arrays of NumPy (init_arrays.c). */
#include "cli/init.h"

#include "base/modelconfig.h"
#include "base/spans.h"

#include <string.h>

enum { MOST_SPECIAL = 8 };
static const double rate = 0.15, mean_span = 3;

/* ---- the model ---- */

static bool is_formal(const DtFormal *formal, const char *name, const char *dtype)
{
    return !strcmp(formal->name.text, name) && formal->type.dtype &&
           !strcmp(formal->type.dtype, dtype) && formal->type.axes.n == 2;
}

static bool are_masked(const DtDef *model)
{
    bool good = model->formals.n >= 2 && is_formal(&model->formals.at[0], "tokens", "i32");
    for (uint32_t i = 1; i < model->formals.n; i++)
        good = good && (is_formal(&model->formals.at[i], "kind", "i32") ||
                        is_formal(&model->formals.at[i], "valid", "bool"));
    return good;
}

static bool are_spans(const DtDef *model)
{
    bool good = model->formals.n >= 2 && is_formal(&model->formals.at[0], "source", "i32") &&
                is_formal(&model->formals.at[1], "target", "i32");
    for (uint32_t i = 2; i < model->formals.n; i++)
        good = good && model->formals.at[i].init;
    return good;
}

static DtInitData kind_of(const DtDef *model)
{
    const DtFormal *first = model->formals.n ? model->formals.at : NULL;
    if (!first || model->results.n != 1 || model->results.at[0].axes.n != 3)
        return DT_INIT_ARRAYS;
    if (model->formals.n == 1 && first->type.dtype && !strcmp(first->type.dtype, "i32") &&
        first->type.axes.n == 2)
        return DT_INIT_NEXT;
    return are_masked(model) ? DT_INIT_MASKED : are_spans(model) ? DT_INIT_SPANS : DT_INIT_ARRAYS;
}

/* ---- tokens of tokenizer.json ---- */

/* Sets the token that the sampler needs, and lists the special ones that are not it. */
static void take_tokens(DtInitCommand *init, const json_t *added)
{
    DtArena *arena = init->cli->arena;
    const char *list = "";
    uint32_t n = 0;
    for (size_t i = 0; i < json_array_size(added); i++) {
        const json_t *token = json_array_get(added, i);
        const char *content = json_string_value(json_object_get(token, "content"));
        const json_t *id = json_object_get(token, "id");
        const json_int_t number = json_integer_value(id);
        if (!content || !json_is_integer(id) || number < 0 || number > INT32_MAX)
            continue;
        if (init->data == DT_INIT_SPANS ? !strcmp(content, "<extra_id_0>")
                                        : !strcmp(content, "[MASK]") || !strcmp(content, "<mask>"))
            init->token = (int64_t)number;
        else if (json_is_true(json_object_get(token, "special")) && n++ < MOST_SPECIAL)
            list = dt_arena_printf(arena, "%s%s%lld", list, *list ? ", " : "", (long long)number);
    }
    init->special = n <= MOST_SPECIAL ? list : "";
}

void dt_initsamplers_choose(DtInitCommand *init)
{
    json_t *file = NULL;
    init->data = kind_of(init->def);
    init->token = -1;
    init->special = "";
    if (init->data == DT_INIT_ARRAYS && dt_initimages_fit(init))
        init->data = DT_INIT_IMAGES;
    if (init->data != DT_INIT_MASKED && init->data != DT_INIT_SPANS)
        return;
    const char *path = dt_arena_printf(init->cli->arena, "%s/tokenizer.json", init->folder);
    const DtStatus status = dt_modelconfig_read(init->cli->arena, path, &file);
    if (dt_status_ok(&status))
        take_tokens(init, json_object_get(file, "added_tokens"));
    json_decref(file);
    init->lacks_token = init->token < 0;
    if (init->lacks_token)
        init->data = DT_INIT_ARRAYS;
}

/* ---- lines ---- */

int64_t dt_initsamplers_target(const DtInitCommand *init, int64_t source)
{
    DtSpanNumbers n;
    return init->data == DT_INIT_SPANS && dt_spans_fit(source, rate, mean_span, &n) ? n.target : 0;
}

static bool has(const DtDef *model, const char *name)
{
    for (uint32_t i = 0; i < model->formals.n; i++)
        if (!strcmp(model->formals.at[i].name.text, name))
            return true;
    return false;
}

/* Returns a special token that config.json names. */
static long long token_of(const DtInitCommand *init, const char *key, long long otherwise)
{
    const json_t *found = dt_modelconfig_find(init->cli->arena, init->config, key);
    return json_is_integer(found) && json_integer_value(found) >= 0 &&
                   json_integer_value(found) <= INT32_MAX
               ? json_integer_value(found)
               : otherwise;
}

const char *dt_initsamplers_call(const DtInitCommand *init, const char *source, bool is_text)
{
    DtArena *arena = init->cli->arena;
    if (init->data == DT_INIT_NEXT)
        return dt_arena_printf(arena, "next_token(%s)", source);
    if (init->data == DT_INIT_SPANS)
        return dt_arena_printf(
            arena, "span_corruption(%s, sentinel = %lld, start_id = %lld, end_id = %lld)", source,
            (long long)init->token, token_of(init, "decoder_start_token_id", 0),
            token_of(init, "eos_token_id", 1));
    return is_text || !*init->special
               ? dt_arena_printf(arena, "mlm(%s, mask_id = %lld)", source, (long long)init->token)
               : dt_arena_printf(arena, "mlm(%s, mask_id = %lld, special = (%s))", source,
                                 (long long)init->token, init->special);
}

const char *dt_initsamplers_train(const DtInitCommand *init, const char *call)
{
    DtArena *arena = init->cli->arena;
    if (init->data == DT_INIT_NEXT)
        return dt_arena_printf(arena,
                               "  i32 tokens[batch, seq], i32 labels[batch, seq] = %s\n"
                               "  loss = mean[batch, seq](xent[vocab](%s(tokens), labels))\n",
                               call, init->model);
    if (init->data == DT_INIT_SPANS)
        return dt_arena_printf(
            arena,
            "  i32 source[batch, src], i32 target[batch, seq], i32 labels[batch, seq], "
            "bool learned[batch, seq] =\n    %s\n"
            "  each = where(learned, xent[vocab](%s(source, target), labels), 0)\n"
            "  loss = sum[batch, seq](each) / max(sum[batch, seq](f32(learned)), 1)\n",
            call, init->model);
    const bool kind = has(init->def, "kind"), valid = has(init->def, "valid");
    return dt_arena_printf(
        arena,
        "  i32 tokens[batch, seq], i32 %skind[batch, seq], bool %svalid[batch, seq], "
        "i32 labels[batch, seq],\n    bool masked[batch, seq] = %s\n"
        "  each = where(masked, xent[vocab](%s(tokens%s%s), labels), 0)\n"
        "  loss = sum[batch, seq](each) / max(sum[batch, seq](f32(masked)), 1)\n",
        kind ? "" : "_", valid ? "" : "_", call, init->model, kind ? ", kind = kind" : "",
        valid ? ", valid = valid" : "");
}
