/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the program of the library that has a model, by its config.json. There is no table of
 * models: each program in models/ of the library says in its names block what config.json must be.
 *
 *   config "model_type" = "qwen3"        the program is a candidate for such a model
 *   config "hidden_size" = embed         dim `embed` of the program gets the number of config.json
 *   config "head_dim" = (head, none)     the same; without the member `head` stays as it is
 *   config "hidden_act" = "silu"         compared
 *
 * A constant that is true or false and that no key sets (`if scaled then 8.0 else none`) is tried
 * with both. The compiler evaluates each candidate with these values, so that expressions are
 * compared as `dtrun --import` compares them. The candidate that nothing contradicts is the one. */
#include "cli/init.h"

#include "base/file.h"
#include "base/intern.h"
#include "base/modelconfig.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    MAX_SOURCE = 1 << 20,
    MOST_FILES = 1024,
    MOST_DEEP = 16,   /* files that include each other */
    MOST_POSITIONS = 1024,
    MOST_CHOICES = 5, /* constants that are tried with both values */
    SHOWN = 12,
    COLUMNS = 96
};

#define FOLDER "models"

/* A dim or constant of a program's files. */
typedef struct Declared {
    const char *name;
    const DtExpr *value;
    bool is_constant;
} Declared;

/* A program of the library. */
typedef struct Family {
    const DtInitCommand *init;
    const char *file;
    const DtItem *names;
    const DtDef *def; /* of the model */
    DT_VEC(Declared) declared;
    DtInitValues values;
    DT_VEC(const char *) wrong; /* lines about what contradicts config.json */
    DT_VEC(const char *) keys;  /* of members that cannot be values */
    DtProgram *program;
} Family;
typedef DT_VEC(Family) Families;

static DtArena *arena_of(const Family *f) { return f->init->cli->arena; }

static const DtExpr *bare(const DtExpr *expr)
{
    while (expr && expr->kind == DT_EXPR_PAREN)
        expr = expr->a;
    return expr;
}

/* ---- files ---- */

static const DtAst *parse(const DtInitCommand *init, const char *path, const char *shown)
{
    char *text;
    size_t len;
    DtStatus status = dt_file_read(init->cli->arena, path, MAX_SOURCE, &text, &len);
    if (!dt_status_ok(&status))
        return NULL;
    return dt_parse(init->cli->arena, init->cli->diags,
                    dt_diag_add_file(init->cli->diags, shown, text, len));
}

static bool is_declared(const Family *f, const char *name)
{
    for (uint32_t i = 0; i < f->declared.n; i++)
        if (f->declared.at[i].name == name)
            return true;
    return false;
}

/* Adds the dims and constants of a file, then those of the files that it includes, whose lines of
 * the same name do not count. Finds the definition of the model. */
static void declare(Family *f, const DtAst *ast, const char *path, uint32_t depth)
{
    for (uint32_t i = 0; i < ast->items.n; i++) {
        const DtItem *item = ast->items.at[i];
        for (uint32_t k = 0; k < item->binds.n; k++) {
            const DtBind *bind = &item->binds.at[k];
            const Declared line = {bind->name.text, bind->value, item->kind == DT_ITEM_CONSTANT};
            if (!is_declared(f, line.name))
                DT_PUSH(arena_of(f), f->declared, line);
        }
        if (!f->def && item->kind == DT_ITEM_DEF && item->def &&
            item->def->name.text == f->names->on.text)
            f->def = item->def;
    }
    for (uint32_t i = 0; i < ast->items.n && depth < MOST_DEEP; i++) {
        const DtItem *item = ast->items.at[i];
        if (item->kind != DT_ITEM_INCLUDE)
            continue;
        const char *name = dt_arena_strndup(arena_of(f), item->include, item->include_len);
        const char *at = dt_file_beside(arena_of(f), path, name);
        if (access(at, R_OK))
            at = dt_arena_printf(arena_of(f), "%s/%s", f->init->library, name);
        const DtAst *inner = strcmp(name, "std.dsl") ? parse(f->init, at, name) : NULL;
        if (inner)
            declare(f, inner, at, depth + 1);
    }
}

/* ---- the names block ---- */

static bool is_config(const DtEntry *entry)
{
    return entry->is_directive && entry->value && entry->targets.n && entry->verb.text &&
           !strcmp(entry->verb.text, "config");
}

/* Returns the keys of a `config` line, in the form that dt_modelconfig_find takes. */
static const char *keys_of(DtArena *arena, const DtEntry *entry)
{
    const char *keys = "";
    for (uint32_t i = 0; i < entry->targets.n; i++)
        keys = dt_arena_printf(arena, "%s%s%.*s", keys, i ? ", " : "",
                               (int)entry->targets.at[i].string_len, entry->targets.at[i].string);
    return keys;
}

/* Returns the line about the kind of model; NULL: the block has none. */
static const DtEntry *type_line(const DtItem *names)
{
    for (uint32_t i = 0; i < names->entries.n; i++) {
        const DtEntry *entry = names->entries.at[i];
        if (is_config(entry) && entry->targets.at[0].string_len == strlen("model_type") &&
            !memcmp(entry->targets.at[0].string, "model_type", strlen("model_type")))
            return entry;
    }
    return NULL;
}

/* Calls visit with each alternative of a value: items of a tuple, branches of an `if`. */
static void each_alternative(const DtExpr *expr, void (*visit)(void *context, const DtExpr *expr),
                             void *context)
{
    expr = bare(expr);
    if (!expr)
        return;
    if (expr->kind == DT_EXPR_IF) {
        each_alternative(expr->b, visit, context);
        each_alternative(expr->c, visit, context);
    } else if (expr->kind == DT_EXPR_TUPLE) {
        for (uint32_t i = 0; i < expr->items.n; i++)
            each_alternative(expr->items.at[i], visit, context);
    } else
        visit(context, expr);
}

typedef struct Types {
    DtArena *arena;
    DT_VEC(const char *) at;
} Types;

static void add_type(void *context, const DtExpr *expr)
{
    Types *types = context;
    if (expr->kind == DT_EXPR_STRING)
        DT_PUSH(types->arena, types->at, dt_intern_n(expr->string, expr->string_len));
}

/* ---- numbers ---- */

/* Writes a whole number as the language does: 1024, 151_936. */
static const char *whole_text(DtArena *arena, int64_t whole)
{
    char digits[32];
    DtText text = {0};
    const int n = snprintf(digits, sizeof digits, "%" PRId64, whole < 0 ? -whole : whole);
    dt_text_add(&text, whole < 0 ? "-" : "");
    for (int i = 0; i < n; i++) {
        if (i && n > 4 && (n - i) % 3 == 0)
            dt_text_add(&text, "_");
        dt_text_add_n(&text, &digits[i], 1);
    }
    const char *copy = dt_arena_strndup(arena, text.at, text.len);
    dt_text_free(&text);
    return copy;
}

/* Writes a float with as few digits as read back as the same one: 1e6, 0.02, 8.0. */
static const char *float_text(DtArena *arena, double number)
{
    char buf[64];
    int digits = 0;
    do
        snprintf(buf, sizeof buf, "%.*e", digits, number);
    while (strtod(buf, NULL) != number && digits++ < 17);
    char *e = strchr(buf, 'e');
    const int exponent = atoi(e + 1);
    *e = 0;
    if (exponent < -3 || exponent > 3)
        return dt_arena_printf(arena, "%se%d", buf, exponent);
    const int behind = digits - exponent;
    return dt_arena_printf(arena, "%.*f", behind > 1 ? behind : 1, number);
}

/* Why a member cannot be the value of the dim or constant; NULL: it is, and ret_text has it. */
static const char *read_value(DtArena *arena, const Declared *line, const json_t *found,
                              const char **ret_text)
{
    const DtExpr *written = bare(line->value);
    const bool is_truth = written && written->kind == DT_EXPR_BOOL;
    if (json_is_boolean(found) && line->is_constant && (is_truth || !written)) {
        *ret_text = json_is_true(found) ? "true" : "false";
        return NULL;
    }
    if (line->is_constant && is_truth)
        return "is true or false";
    const int64_t numbered = dt_modelconfig_numbered(found);
    if (!json_is_number(found) && numbered < 0)
        return "is a number";
    const double number = numbered < 0 ? json_number_value(found) : (double)numbered;
    const bool is_whole = number == floor(number) && fabs(number) < 1e15;
    if (!line->is_constant && (!is_whole || number < 1 || number > INT32_MAX))
        return "is a whole number from 1 to 2,147,483,647";
    const bool as_float = line->is_constant && (!is_whole || json_is_real(found) ||
                                                (written && written->kind == DT_EXPR_FLOAT));
    *ret_text = as_float ? float_text(arena, number) : whole_text(arena, (int64_t)number);
    return NULL;
}

/* ---- values of config.json ---- */

static void contradict(Family *f, const char *line) { DT_PUSH(arena_of(f), f->wrong, line); }

static const Declared *find_declared(const Family *f, const char *name)
{
    for (uint32_t i = 0; i < f->declared.n; i++)
        if (f->declared.at[i].name == name)
            return &f->declared.at[i];
    return NULL;
}

static const DtInitValue *find_value(const Family *f, const char *name)
{
    for (uint32_t i = 0; i < f->values.n; i++)
        if (f->values.at[i].name == name)
            return &f->values.at[i];
    return NULL;
}

/* A line of the block, and the member that it is about. */
typedef struct Line {
    Family *f;
    const char *keys;
    const json_t *found;
    bool is_literal; /* one of the alternatives is the member's value itself */
} Line;

static void look_for_literal(void *context, const DtExpr *expr)
{
    Line *line = context;
    const double number = expr->kind == DT_EXPR_INT ? (double)expr->integer : expr->number;
    if (expr->kind == DT_EXPR_STRING)
        line->is_literal |= json_is_string(line->found) &&
                            json_string_length(line->found) == expr->string_len &&
                            !memcmp(json_string_value(line->found), expr->string, expr->string_len);
    else if (expr->kind == DT_EXPR_BOOL)
        line->is_literal |=
            json_is_boolean(line->found) && json_is_true(line->found) == (expr->integer != 0);
    else if (expr->kind == DT_EXPR_INT || expr->kind == DT_EXPR_FLOAT)
        line->is_literal |= json_is_number(line->found) && json_number_value(line->found) == number;
}

/* Gives the dim or constant that an alternative names the member's value. */
static void take(void *context, const DtExpr *expr)
{
    const Line *line = context;
    Family *f = line->f;
    const Declared *declared =
        expr->kind == DT_EXPR_NAME && !expr->label.text ? find_declared(f, expr->name.text) : NULL;
    const char *text = "", *shown = dt_modelconfig_text(arena_of(f), line->found);
    if (!declared)
        return;
    const char *why = read_value(arena_of(f), declared, line->found, &text);
    const DtInitValue *old = find_value(f, declared->name);
    if (why)
        DT_PUSH(arena_of(f), f->keys, line->keys);
    if (why)
        contradict(f, dt_arena_printf(arena_of(f), "`%.100s` is %s, and `%s` of the program %s",
                                      line->keys, shown, declared->name, why));
    else if (!old)
        DT_PUSH(arena_of(f), f->values,
                ((DtInitValue){declared->name, declared->is_constant, text, line->keys}));
    else if (strcmp(old->text, text))
        contradict(f, dt_arena_printf(arena_of(f),
                                      "`%.100s` is %s and `%.100s` is %s, and the program has one "
                                      "`%s` for both",
                                      old->keys, old->text, line->keys, shown, old->name));
}

static void take_values(Family *f)
{
    for (uint32_t i = 0; i < f->names->entries.n; i++) {
        const DtEntry *entry = f->names->entries.at[i];
        if (!is_config(entry))
            continue;
        Line line = {.f = f, .keys = keys_of(arena_of(f), entry)};
        line.found = dt_modelconfig_find(arena_of(f), f->init->config, line.keys);
        if (json_is_array(line.found) && json_array_size(line.found) == 1)
            line.found = json_array_get(line.found, 0);
        if (!line.found)
            continue;
        each_alternative(entry->value, look_for_literal, &line);
        if (!line.is_literal)
            each_alternative(entry->value, take, &line);
    }
}

/* ---- constants that no key sets ---- */

/* Adds the constants that the expression mentions, that are true or false in the library, and that
 * config.json has given no value. */
static void add_choices(const Family *f, const DtExpr *expr, const Declared **choices, uint32_t *n)
{
    for (; expr; expr = expr->a) {
        const Declared *line =
            expr->kind == DT_EXPR_NAME ? find_declared(f, expr->name.text) : NULL;
        const DtExpr *written = line ? bare(line->value) : NULL;
        bool is_new = line && line->is_constant && written && written->kind == DT_EXPR_BOOL &&
                      !find_value(f, line->name) && *n < MOST_CHOICES;
        for (uint32_t i = 0; i < *n; i++)
            is_new = is_new && choices[i] != line;
        if (is_new)
            choices[(*n)++] = line;
        add_choices(f, expr->b, choices, n);
        add_choices(f, expr->c, choices, n);
        for (uint32_t i = 0; i < expr->items.n; i++)
            add_choices(f, expr->items.at[i], choices, n);
    }
}

void dt_initlibrary_lines(DtArena *arena, const DtInitValues *values, DtText *ret_text)
{
    for (int constants = 0; constants < 2; constants++) {
        const char *word = constants ? "constant" : "dim";
        size_t column = 0;
        for (uint32_t i = 0; i < values->n; i++) {
            const char *bind =
                dt_arena_printf(arena, "%s = %s", values->at[i].name, values->at[i].text);
            if (values->at[i].is_constant != (constants == 1))
                continue;
            const bool is_full = column + strlen(bind) > COLUMNS;
            const size_t before = ret_text->len;
            dt_text_printf(ret_text, "%s%s %s",
                           is_full  ? "\n"
                           : column ? ","
                                    : "",
                           column && !is_full ? "" : word, bind);
            column = (is_full ? 0 : column) + ret_text->len - before;
        }
        if (column)
            dt_text_add(ret_text, "\n");
    }
}

/* ---- what the compiler says ---- */

static bool was_reported(const Family *f, const char *keys)
{
    for (uint32_t i = 0; i < f->keys.n; i++)
        if (!strcmp(f->keys.at[i], keys))
            return true;
    return false;
}

/* Adds the lines of the block that differ from config.json with the values of this program. */
static void compare(Family *f, const DtDiags *diags)
{
    for (uint32_t i = 0; i < f->program->names.n; i++) {
        const DtFileNames *block = &f->program->names.at[i];
        if (strcmp(block->name, f->names->name.text))
            continue;
        for (uint32_t r = 0; r < block->rules.n; r++) {
            const DtFileRule *rule = &block->rules.at[r];
            uint32_t line = 0, column;
            const char *differs =
                rule->kind == DT_FILE_CONFIG && !was_reported(f, rule->key)
                    ? dt_modelconfig_differs(arena_of(f), f->init->config, rule->key, rule->value)
                    : NULL;
            if (!differs)
                continue;
            dt_diag_position(diags, rule->span, &line, &column);
            contradict(f, dt_arena_printf(arena_of(f), "%s (%s:%u)", differs,
                                          dt_diag_path(diags, rule->span.file), line));
        }
    }
}

/* Evaluates the program with its values. */
static void evaluate(Family *f)
{
    DtArena *arena = arena_of(f);
    DtDiags *diags = dt_diag_new(arena);
    DtText text = {0};
    const int64_t positions = dt_initprogram_positions(f->init, MOST_POSITIONS);
    dt_text_printf(&text, "include \"%s\"\n", f->file);
    if (positions && is_declared(f, dt_intern("seq")))
        dt_text_printf(&text, "dim seq = %" PRId64 "\n", positions);
    dt_initlibrary_lines(arena, &f->values, &text);
    f->program = dt_initprogram_lower(f->init, arena, diags,
                                      dt_arena_strndup(arena, text.at, text.len), NULL);
    dt_text_free(&text);
    if (f->program) {
        compare(f, diags);
        return;
    }
    const DtDiagFirst first = dt_diag_first(diags);
    contradict(f, dt_arena_printf(arena, "with these values: %s (%s)", first.message,
                                  dt_diag_path(diags, first.span.file)));
}

/* Returns a copy whose lists may grow apart from those of the family. */
static Family copy_of(const Family *f)
{
    Family copy = *f;
    copy.values = (DtInitValues){0};
    copy.wrong.at = NULL;
    copy.wrong.n = copy.wrong.cap = 0;
    for (uint32_t i = 0; i < f->values.n; i++)
        DT_PUSH(arena_of(f), copy.values, f->values.at[i]);
    for (uint32_t i = 0; i < f->wrong.n; i++)
        DT_PUSH(arena_of(f), copy.wrong, f->wrong.at[i]);
    return copy;
}

/* Evaluates the program with each choice of the constants that no key sets, and keeps the one that
 * config.json contradicts least; of equals the first, in which they are as the library says. */
static void try_choices(Family *f)
{
    const Declared *choices[MOST_CHOICES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->names->entries.n; i++)
        if (is_config(f->names->entries.at[i]))
            add_choices(f, f->names->entries.at[i]->value, choices, &n);
    const Family before = *f;
    for (uint32_t bits = 0; bits < 1u << n; bits++) {
        Family trial = copy_of(&before);
        for (uint32_t i = 0; i < n; i++)
            if (bits >> i & 1)
                DT_PUSH(arena_of(f), trial.values,
                        ((DtInitValue){choices[i]->name, true,
                                       bare(choices[i]->value)->integer ? "false" : "true", NULL}));
        evaluate(&trial);
        if (!bits || trial.wrong.n < f->wrong.n)
            *f = trial;
    }
}

/* ---- the choice ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the programs in models/ of the library, in the order of their names. */
static uint32_t list_files(DtArena *arena, const char *folder, const char *ret_names[MOST_FILES])
{
    uint32_t n = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && n < MOST_FILES && (entry = readdir(dir)) != NULL;) {
        const size_t len = strlen(entry->d_name);
        if (len > 4 && !strcmp(entry->d_name + len - 4, ".dsl"))
            ret_names[n++] = dt_arena_strndup(arena, entry->d_name, len);
    }
    if (dir)
        closedir(dir);
    qsort(ret_names, n, sizeof *ret_names, by_name);
    return n;
}

/* Adds each names block of the file that has the kind of model to ret_families, and its kinds to
 * ret_types. */
static void add_families(DtInitCommand *init, const char *name, Families *ret_families,
                         Types *ret_types)
{
    DtArena *arena = init->cli->arena;
    const char *path = dt_arena_printf(arena, "%s/" FOLDER "/%s", init->library, name);
    const char *file = dt_arena_printf(arena, FOLDER "/%s", name);
    const DtAst *ast = parse(init, path, file);
    for (uint32_t i = 0; ast && i < ast->items.n; i++) {
        const DtItem *item = ast->items.at[i];
        const DtEntry *line = item->kind == DT_ITEM_NAMES ? type_line(item) : NULL;
        Types types = {.arena = arena};
        bool fits = false;
        if (!line)
            continue;
        each_alternative(line->value, add_type, &types);
        for (uint32_t k = 0; k < types.at.n; k++) {
            fits |= !strcmp(types.at.at[k], init->type);
            DT_PUSH(arena, ret_types->at, types.at.at[k]);
        }
        Family f = {.init = init, .file = file, .names = item};
        if (!fits)
            continue;
        declare(&f, ast, path, 0);
        DT_PUSH(arena, *ret_families, f);
    }
}

static int no_such_type(const DtInitCommand *init, Types *types)
{
    const char *list = "";
    if (!types->at.n)
        return dt_cli_fail(DT_EXIT_IO,
                           "%s has no models (%s/" FOLDER "); --library DIR names "
                           "another library",
                           init->library, init->library);
    qsort(types->at.at, types->at.n, sizeof *types->at.at, by_name);
    for (uint32_t i = 0; i < types->at.n; i++)
        if (!i || strcmp(types->at.at[i - 1], types->at.at[i]))
            list = dt_arena_printf(init->cli->arena, "%s%s%s", list, *list ? ", " : "",
                                   types->at.at[i]);
    return dt_cli_fail(DT_EXIT_USAGE,
                       "the library has no program for `model_type` \"%.60s\" of %.200s; it has "
                       "programs for %s. docs/import.md says how to write one: a model and a "
                       "`names` block",
                       init->type, init->config_path, list);
}

/* Adds the files that fit, each once: it may have several blocks for one kind of model. */
static void add_fitting(const Families *families, DtText *text)
{
    const char *last = NULL;
    for (uint32_t i = 0; i < families->n; i++) {
        const Family *f = &families->at[i];
        if (f->wrong.n || f->file == last)
            continue;
        dt_text_printf(text, "%s %s", last ? "," : "", f->file);
        last = f->file;
    }
}

/* Prints why no program fits, or that several do. */
static int refuse(const DtInitCommand *init, const Families *families, const Family *best,
                  uint32_t fitting)
{
    DtText text = {0};
    if (fitting > 1) {
        dt_text_printf(&text, "several programs of the library fit %.200s:", init->config_path);
        add_fitting(families, &text);
    } else
        dt_text_printf(&text,
                       "no program of the library fits %.200s. The nearest is %s, and differs:",
                       init->config_path, best->file);
    fputs("dtc: ", stderr);
    dt_text_say(stderr, text.at);
    dt_text_free(&text);
    for (uint32_t i = 0; fitting == 0 && i < best->wrong.n && i < SHOWN; i++)
        dt_text_say(stderr, dt_arena_printf(init->cli->arena, "  %s", best->wrong.at[i]));
    if (fitting == 0 && best->wrong.n > SHOWN)
        fprintf(stderr, "  and %u more\n", best->wrong.n - SHOWN);
    if (fitting == 0)
        dt_text_say(stderr, dt_arena_printf(init->cli->arena,
                                            "To change the program where they differ, copy %s/%s "
                                            "to " FOLDER "/ beside your own",
                                            init->library, best->file));
    return DT_EXIT_FAILED;
}

static double count_parameters(const DtModule *module)
{
    double total = 0;
    for (uint32_t i = 0; i < module->stores.n; i++)
        if (module->stores.at[i]->kind == DT_STORE_PARAM)
            total += (double)dt_type_elements(module->stores.at[i]->type);
    return total;
}

int dt_initlibrary_choose(DtInitCommand *init)
{
    DtArena *arena = init->cli->arena;
    const char **names = DT_NEW_ARRAY(arena, const char *, MOST_FILES);
    const char *folder = dt_arena_printf(arena, "%s/" FOLDER, init->library);
    const uint32_t n = list_files(arena, folder, names);
    Families families = {0};
    Types types = {.arena = arena};
    init->cli->diags = dt_diag_new(arena);
    for (uint32_t i = 0; i < n; i++)
        add_families(init, names[i], &families, &types);
    if (dt_diag_errors(init->cli->diags))
        return dt_cli_report(init->cli);
    if (!families.n)
        return no_such_type(init, &types);
    const Family *best = NULL;
    uint32_t fitting = 0;
    for (uint32_t i = 0; i < families.n; i++) {
        Family *f = &families.at[i];
        /* a program may have several blocks for one kind, which name tensors differently */
        if (best && !best->wrong.n && best->file == f->file)
            continue;
        take_values(f);
        try_choices(f);
        fitting += !f->wrong.n;
        best = !best || f->wrong.n < best->wrong.n ? f : best;
    }
    if (fitting != 1)
        return refuse(init, &families, best, fitting);
    init->file = best->file;
    init->model = best->names->on.text;
    init->def = best->def;
    init->values = best->values;
    init->program = best->program;
    init->parameters = count_parameters(best->program->module);
    return DT_EXIT_OK;
}
