/* SPDX-License-Identifier: Apache-2.0 */
/* dtc --params: every parameter with its path, shape, dtype and elements, and the exact total.
 * Parameters of a loop are one row: "h.#.attention.wq.w", 12 times. */
#include "cli/cli.h"
#include "ir/live.h"

#include <jansson.h>
#include <string.h>

/* Writes n with commas between groups of three digits, such as 124,439,808. */
static const char *grouped(char ret_buf[32], int64_t n)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n), out = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            ret_buf[out++] = ',';
        ret_buf[out++] = digits[i];
    }
    ret_buf[out] = 0;
    return ret_buf;
}

static int64_t loop_count(const DtStore *store)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < store->n_loops && i < store->type->rank; i++)
        n *= store->type->axes[i].extent;
    return n;
}

static void add_shape(const DtStore *store, DtText *text)
{
    dt_text_add(text, "[");
    for (uint32_t i = store->n_loops; i < store->type->rank; i++)
        dt_text_printf(text, "%s%s=%lld", i > store->n_loops ? ", " : "", store->type->axes[i].name,
                       (long long)store->type->axes[i].extent);
    dt_text_add(text, "]");
}

static size_t widest(const DtModule *module, bool shapes)
{
    size_t most = 4;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        DtText text = {0};
        if (shapes)
            add_shape(module->stores.at[i], &text);
        else
            dt_text_add(&text, module->stores.at[i]->pattern);
        if (text.len > most)
            most = text.len;
        dt_text_free(&text);
    }
    return most;
}

static void add_row(const DtStore *store, bool live, size_t path_width, size_t shape_width,
                    DtText *text)
{
    DtText shape = {0};
    char elements[32], count[32] = "";
    if (store->n_loops)
        snprintf(count, sizeof count, "%lld x", (long long)loop_count(store));
    add_shape(store, &shape);
    dt_text_printf(text, "%-*s  %7s  %-*s  %-5s %16s%s\n", (int)path_width, store->pattern, count,
                   (int)shape_width, shape.at, dt_dtype_name(store->type->dtype),
                   grouped(elements, dt_type_elements(store->type)),
                   !live           ? "  (unused)"
                   : store->frozen ? "  (frozen)"
                                   : "");
    dt_text_free(&shape);
}

/* Adds a row for each store of that kind; returns the sum of their elements. */
static int64_t add_rows(const DtModule *module, const bool *live, DtStoreKind kind, DtText *text)
{
    size_t path_width = widest(module, false), shape_width = widest(module, true);
    int64_t total = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        if (module->stores.at[i]->kind != kind)
            continue;
        add_row(module->stores.at[i], live[i], path_width, shape_width, text);
        total += dt_type_elements(module->stores.at[i]->type);
    }
    return total;
}

static int64_t frozen_elements(const DtModule *module)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == DT_STORE_PARAM && module->stores.at[i]->frozen)
            n += dt_type_elements(module->stores.at[i]->type);
    return n;
}

static json_t *json_row(const DtStore *store, bool live)
{
    json_t *shape = json_array();
    for (uint32_t i = store->n_loops; i < store->type->rank; i++)
        json_array_append_new(shape, json_pack("{s:s, s:I}", "axis", store->type->axes[i].name,
                                               "extent", (json_int_t)store->type->axes[i].extent));
    return json_pack("{s:s, s:s, s:s, s:I, s:o, s:s, s:I, s:b, s:b}", "path", store->path,
                     "pattern", store->pattern, "kind",
                     store->kind == DT_STORE_STATE ? "state" : "param", "count",
                     (json_int_t)loop_count(store), "shape", shape, "dtype",
                     dt_dtype_name(store->type->dtype), "elements",
                     (json_int_t)dt_type_elements(store->type), "unused", !live, "frozen",
                     store->frozen);
}

static void print_json(const DtModule *module, const bool *live, DtText *ret_text)
{
    json_t *list = json_array();
    int64_t total = 0;
    for (uint32_t i = 0; i < module->stores.n; i++) {
        const DtStore *store = module->stores.at[i];
        if (store->kind != DT_STORE_PARAM && store->kind != DT_STORE_STATE)
            continue;
        json_array_append_new(list, json_row(store, live[i]));
        if (store->kind == DT_STORE_PARAM)
            total += dt_type_elements(store->type);
    }
    json_t *root = json_pack("{s:o, s:I}", "parameters", list, "total", (json_int_t)total);
    char *text = json_dumps(root, JSON_INDENT(2));
    dt_text_printf(ret_text, "%s\n", text);
    free(text);
    json_decref(root);
}

void dt_cli_params(const DtProgram *program, bool json, DtText *ret_text)
{
    char total[32];
    DtText states = {0};
    const bool *live = dt_live_stores(program->module, program->module->arena);
    if (json) {
        print_json(program->module, live, ret_text);
        return;
    }
    int64_t n = add_rows(program->module, live, DT_STORE_PARAM, ret_text);
    const int64_t n_frozen = frozen_elements(program->module);
    dt_text_printf(ret_text, "%s parameters", grouped(total, n));
    if (n_frozen)
        dt_text_printf(ret_text, ", %s of which are trained", grouped(total, n - n_frozen));
    dt_text_add(ret_text, "\n");
    int64_t n_states = add_rows(program->module, live, DT_STORE_STATE, &states);
    if (states.len)
        dt_text_printf(ret_text, "\n%s%s elements of state\n", states.at, grouped(total, n_states));
    dt_text_free(&states);
}
