/* SPDX-License-Identifier: Apache-2.0 */
/* `--set block.key=value` from the command line: rewrites the syntax tree before anything is read
 * from it, so that a value set there is checked and reported exactly like one that is written in
 * the file.
 *
 *   train.steps=100             replaces or adds an entry
 *   train.optimizer.lr=1e-3     replaces or adds an argument of the entry's call
 *   parallel.mesh.data=2        the number after an operand of a directive
 *   parallel.micro=4            the same, if the directive has one operand
 *   parallel.pipeline.chunks=2  an option of a directive
 *
 * `--add LINE` puts whole lines into the parallel block; a line takes the place of those that say
 * the same thing. */
#include "frontend/config_internal.h"
#include "frontend/lower_train.h"

#include "base/intern.h"

#include <string.h>

/* One --set option, split into its parts. */
typedef struct Setting {
    DtArena *arena;
    DtDiags *diags;
    const DtLowerOptions *options;
    DtConfigItems items;
    const char *name;    /* whole left side */
    const char *part[8]; /* interned segments */
    uint32_t n_parts;
    const char *text; /* right side */
    DtExpr *value;
} Setting;

static DtDiag *refuse(const Setting *s, const char *why)
{
    return dt_diag_report(s->diags, E0002, (DtSpan){0}, "--set %s: %s", s->name, why);
}

static bool split_name(Setting *s)
{
    const char *at = s->name;
    for (;;) {
        const char *dot = strchr(at, '.');
        size_t len = dot ? (size_t)(dot - at) : strlen(at);
        if (!len || s->n_parts == DT_COUNT(s->part))
            return false;
        s->part[s->n_parts++] = dt_intern_n(at, len);
        if (!dot)
            return s->n_parts >= 2;
        at = dot + 1;
    }
}

/* ---- the value ---- */

/* Whether the key takes words such as "1f1b" or "h100-sxm", which need no quotes in an option
 * though the language would not read them as names. */
static bool wants_word(const char *key)
{
    for (int k = 0; k < DT_KEY_COUNT; k++) {
        DtConfigKind kind = dt_config_keys[k].kind;
        if (strcmp(dt_config_keys[k].name, key))
            continue;
        if (kind == DT_KIND_GPU || kind == DT_KIND_STRING || kind == DT_KIND_CHOICE_SCHEDULE)
            return true;
    }
    return false;
}

static bool parse_value(Setting *s)
{
    bool quote = wants_word(s->part[s->n_parts - 1]) && !strpbrk(s->text, "\"\\\n");
    const char *source = dt_arena_printf(
        s->arena, quote ? "train {\n  value = \"%s\"\n}\n" : "train {\n  value = %s\n}\n", s->text);
    const char *path = dt_arena_printf(s->arena, "--set %s", s->name);
    uint32_t errors = dt_diag_errors(s->diags);
    uint32_t file = dt_diag_add_file(s->diags, path, source, strlen(source));
    DtAst *ast = dt_parse(s->arena, s->diags, file);
    if (dt_diag_errors(s->diags) != errors)
        return false;
    bool one = ast->items.n == 1 && ast->items.at[0]->kind == DT_ITEM_TRAIN &&
               ast->items.at[0]->entries.n == 1 && !ast->items.at[0]->entries.at[0]->is_directive &&
               ast->items.at[0]->entries.at[0]->value;
    if (!one) {
        refuse(s, "the value is not one expression");
        return false;
    }
    s->value = ast->items.at[0]->entries.at[0]->value;
    return true;
}

/* ---- the block ---- */

static bool is_block(const DtItem *item)
{
    return item->kind == DT_ITEM_TRAIN || item->kind == DT_ITEM_CLUSTER ||
           item->kind == DT_ITEM_PARALLEL;
}

static DtItem *find_block(const Setting *s)
{
    static const struct {
        const char *word;
        DtItemKind kind;
    } kinds[] = {
        {"train", DT_ITEM_TRAIN}, {"cluster", DT_ITEM_CLUSTER}, {"parallel", DT_ITEM_PARALLEL}};
    const char *chosen[] = {s->options->train, s->options->cluster, s->options->parallel};
    const char **names = DT_NEW_ARRAY(s->arena, const char *, s->items.n + DT_COUNT(kinds));
    size_t n_names = 0;
    for (uint32_t i = 0; i < s->items.n; i++) {
        if (!is_block(s->items.at[i]) || !s->items.at[i]->name.text)
            continue;
        if (s->items.at[i]->name.text == s->part[0])
            return s->items.at[i];
        names[n_names++] = s->items.at[i]->name.text;
    }
    for (size_t k = 0; k < DT_COUNT(kinds); k++) {
        names[n_names++] = kinds[k].word;
        if (strcmp(kinds[k].word, s->part[0]))
            continue;
        DtItem *found = NULL;
        uint32_t n = 0;
        for (uint32_t i = 0; i < s->items.n; i++) {
            DtItem *item = s->items.at[i];
            if (item->kind != kinds[k].kind)
                continue;
            if (chosen[k] && (!item->name.text || strcmp(item->name.text, chosen[k])))
                continue;
            found = item;
            n++;
        }
        if (n == 1)
            return found;
        refuse(s, n ? dt_arena_printf(s->arena,
                                      "there are %u %s blocks; name one, or choose it with --%s", n,
                                      kinds[k].word, kinds[k].word)
                    : dt_arena_printf(s->arena, "the program has no such %s block", kinds[k].word));
        return NULL;
    }
    DtDiag *d = refuse(s, dt_arena_printf(s->arena, "there is no block `%s`", s->part[0]));
    const char *nearest = dt_text_nearest(s->part[0], names, n_names);
    if (nearest)
        dt_diag_help(d, "did you mean `%s`?", nearest);
    return NULL;
}

/* ---- settings ---- */

/* Returns the position of a setting among the arguments of an optimizer or schedule written in the
 * language; -1 if it has no such setting. Only settings count, as calls in programs give no other
 * arguments. */
static int formal_position(const Setting *s, const char *function, const char *key)
{
    for (uint32_t i = 0; i < s->items.n; i++) {
        const DtDef *def = s->items.at[i]->kind == DT_ITEM_DEF ? s->items.at[i]->def : NULL;
        int position = 0;
        if (!def || def->name.text != function)
            continue;
        for (uint32_t k = 0; k < def->formals.n; k++) {
            const DtFormal *formal = &def->formals.at[k];
            if (formal->name.text == key)
                return position;
            position += dt_optimizer_is_setting(formal);
        }
    }
    return -1;
}

/* Returns the position of a key among the positional arguments of a function of that name; -1 if it
 * has no such key. */
static int key_position(const Setting *s, const char *function, const char *key)
{
    for (int i = 0; i < DT_SCHEMA_COUNT; i++) {
        if (strcmp(dt_config_schemas[i].name, function))
            continue;
        int position = 0;
        for (int k = 0; k < DT_KEY_COUNT; k++) {
            if (dt_config_keys[k].schema != (DtSchemaId)i)
                continue;
            if (!strcmp(dt_config_keys[k].name, key))
                return position;
            position++;
        }
    }
    return formal_position(s, function, key);
}

/* Replaces the argument of the call that part[at] names by the option's value, or one within that
 * argument if there are further parts. Adds it if it is not written. */
static void set_argument(const Setting *s, DtExpr *call, uint32_t at)
{
    while (call->kind == DT_EXPR_PAREN)
        call = call->a;
    const char *callee = dt_configargs_callee(call);
    const char *key = s->part[at];
    if (!callee) {
        refuse(s, dt_arena_printf(s->arena, "`%s` is not a call, so it has no `%s`",
                                  s->part[at - 1], key));
        return;
    }
    int position = key_position(s, callee, key), seen = 0;
    DtArg *found = NULL;
    for (uint32_t i = 0; i < call->args.n; i++) {
        bool named = call->args.at[i].name.text != NULL;
        if (named ? call->args.at[i].name.text == key : seen == position)
            found = &call->args.at[i];
        seen += !named;
    }
    if (at + 1 < s->n_parts) {
        if (found)
            set_argument(s, found->value, at + 1);
        else
            refuse(s, dt_arena_printf(s->arena, "`%s` has no `%s`", callee, key));
        return;
    }
    if (found) {
        found->value = s->value;
        return;
    }
    DtArg arg = {.name = {key, s->value->span}, .value = s->value};
    DT_PUSH(s->arena, call->args, arg);
}

/* Removes `epochs` from the block if the option sets `steps`, and the other way round. */
static void leave_out_other(const Setting *s, DtItem *item)
{
    const char *other = !strcmp(s->part[1], "steps")    ? "epochs"
                        : !strcmp(s->part[1], "epochs") ? "steps"
                                                        : "";
    uint32_t n = 0;
    for (uint32_t i = 0; i < item->entries.n; i++) {
        DtEntry *entry = item->entries.at[i];
        const char *name =
            !entry->is_directive && entry->targets.n == 1 ? entry->targets.at[0].name.text : NULL;
        if (item->kind != DT_ITEM_TRAIN || !name || strcmp(name, other) != 0)
            item->entries.at[n++] = entry;
    }
    item->entries.n = n;
}

static void set_entry(const Setting *s, DtItem *item)
{
    for (uint32_t i = 0; i < item->entries.n; i++) {
        DtEntry *entry = item->entries.at[i];
        if (entry->is_directive || entry->targets.n != 1 ||
            entry->targets.at[0].name.text != s->part[1])
            continue;
        if (s->n_parts == 2)
            entry->value = s->value;
        else if (entry->value)
            set_argument(s, entry->value, 2);
        return;
    }
    if (s->n_parts > 2) {
        refuse(s, dt_arena_printf(s->arena, "the block does not set `%s`", s->part[1]));
        return;
    }
    leave_out_other(s, item);
    DtEntry *entry = DT_NEW(s->arena, DtEntry);
    DtTarget target = {.name = {s->part[1], s->value->span}, .span = s->value->span};
    DT_PUSH(s->arena, entry->targets, target);
    entry->value = s->value;
    entry->span = s->value->span;
    DT_PUSH(s->arena, item->entries, entry);
}

/* ---- directives ---- */

static DtEntry *find_directive(const Setting *s, DtItem *item)
{
    DtEntry *found = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < item->entries.n; i++)
        if (item->entries.at[i]->is_directive && item->entries.at[i]->verb.text == s->part[1]) {
            found = item->entries.at[i];
            n++;
        }
    if (n == 1)
        return found;
    if (n)
        refuse(s, dt_arena_printf(s->arena, "the block has %u `%s` lines; edit the file", n,
                                  s->part[1]));
    return NULL;
}

static DtEntry *add_directive(const Setting *s, DtItem *item)
{
    DtEntry *entry = DT_NEW(s->arena, DtEntry);
    entry->is_directive = true;
    entry->verb = (DtName){s->part[1], s->value->span};
    entry->span = s->value->span;
    DT_PUSH(s->arena, item->entries, entry);
    return entry;
}

static void set_operand(const Setting *s, DtOperand *operand)
{
    if (operand->path.n) {
        operand->value = s->value;
        return;
    }
    const DtExpr *bare = dt_configargs_bare(s->value);
    if (bare->kind == DT_EXPR_INT)
        operand->integer = bare->integer;
    else
        refuse(s, "the value must be an integer");
    operand->span = s->value->span;
}

static void add_operand(const Setting *s, DtEntry *entry, const char *name)
{
    DtOperand operand = {.value = s->value, .span = s->value->span};
    DtName path = {dt_intern(name), s->value->span};
    DT_PUSH(s->arena, operand.path, path);
    DT_PUSH(s->arena, entry->operands, operand);
}

/* Sets what part[2] names in a line: an operand, or an option of the line. */
static void set_part(const Setting *s, DtEntry *entry)
{
    for (uint32_t i = 0; i < entry->operands.n; i++) {
        DtOperand *operand = &entry->operands.at[i];
        if (operand->path.n != 1 || operand->path.at[0].text != s->part[2] || !operand->value)
            continue;
        set_operand(s, operand);
        return;
    }
    if (!strcmp(s->part[1], "mesh")) {
        add_operand(s, entry, s->part[2]);
        return;
    }
    for (uint32_t i = 0; i < entry->args.n; i++)
        if (entry->args.at[i].name.text == s->part[2]) {
            entry->args.at[i].value = s->value;
            return;
        }
    DtArg arg = {.name = {s->part[2], s->value->span}, .value = s->value};
    DT_PUSH(s->arena, entry->args, arg);
}

static void set_directive(const Setting *s, DtItem *item)
{
    uint32_t errors = dt_diag_errors(s->diags);
    DtEntry *entry = find_directive(s, item);
    if (dt_diag_errors(s->diags) != errors)
        return;
    bool micro = !strcmp(s->part[1], "micro"), mesh = !strcmp(s->part[1], "mesh");
    if (s->n_parts > 3) {
        refuse(s, "directives have no parts so deep");
        return;
    }
    if (!entry && dt_configargs_find(DT_CONFIG_VERB, s->part[1]) == DT_SCHEMA_COUNT) {
        DtDiag *d = refuse(s, dt_arena_printf(s->arena, "there is no directive `%s`", s->part[1]));
        dt_diag_note(d, "a directive is %s", dt_configargs_list(s->arena, DT_CONFIG_VERB));
        return;
    }
    if (!entry && !micro && !(mesh && s->n_parts == 3)) {
        refuse(s, dt_arena_printf(s->arena, "the block has no `%s` line", s->part[1]));
        return;
    }
    if (!entry) {
        add_operand(s, add_directive(s, item), s->n_parts == 3 ? s->part[2] : "batch");
        return;
    }
    if (s->n_parts == 3)
        set_part(s, entry);
    else if (entry->operands.n == 1)
        set_operand(s, &entry->operands.at[0]);
    else
        refuse(s, dt_arena_printf(s->arena, "`%s` has several parts; name one", s->part[1]));
}

/* ---- lines ---- */

/* Whether lines a and b are of the same kind, so that a block can have only one of them. Different
 * loops may each have a remat line, and different mesh axes a zero line. */
static bool say_the_same(const DtEntry *a, const DtEntry *b)
{
    if (!a->is_directive || a->verb.text != b->verb.text || !strcmp(a->verb.text, "shard"))
        return false;
    if (!strcmp(a->verb.text, "zero")) {
        for (uint32_t i = 0; i < a->on.n; i++)
            for (uint32_t k = 0; k < b->on.n; k++)
                if (a->on.at[i].text == b->on.at[k].text)
                    return true;
        return false;
    }
    if (strcmp(a->verb.text, "remat") || !a->operands.n || !b->operands.n)
        return true;
    const DtNames *x = &a->operands.at[0].path, *y = &b->operands.at[0].path;
    return x->n && y->n && x->at[x->n - 1].text == y->at[y->n - 1].text;
}

static void add_line(Setting *s, const char *line)
{
    const char *source = dt_arena_printf(s->arena, "parallel it on it {\n  %s\n}\n", line);
    const uint32_t errors = dt_diag_errors(s->diags);
    DtItem *item = find_block(s);
    if (!item)
        return;
    const char *name = dt_arena_printf(s->arena, "--add %s", line);
    const uint32_t file = dt_diag_add_file(s->diags, name, source, strlen(source));
    const DtAst *ast = dt_parse(s->arena, s->diags, file);
    if (dt_diag_errors(s->diags) != errors)
        return;
    const bool one = ast->items.n == 1 && ast->items.at[0]->kind == DT_ITEM_PARALLEL &&
                     ast->items.at[0]->entries.n == 1 &&
                     ast->items.at[0]->entries.at[0]->is_directive;
    if (!one) {
        dt_diag_report(s->diags, E0002, (DtSpan){0},
                       "--add %s: this is not one line of a parallel block", line);
        return;
    }
    DtEntry *entry = ast->items.at[0]->entries.at[0];
    uint32_t n = 0;
    for (uint32_t i = 0; i < item->entries.n; i++)
        if (!say_the_same(item->entries.at[i], entry))
            item->entries.at[n++] = item->entries.at[i];
    item->entries.n = n;
    DT_PUSH(s->arena, item->entries, entry);
}

static void add_lines(DtArena *arena, DtDiags *diags, const DtLowerOptions *options,
                      DtConfigItems items)
{
    for (uint32_t i = 0; i < options->n_lines; i++) {
        Setting s = {.arena = arena, .diags = diags, .options = options, .items = items,
                     .name = "(a line of the parallel block)", .part = {dt_intern("parallel")},
                     .n_parts = 1};
        add_line(&s, options->lines[i]);
    }
}

/* Replaces the chosen parallel block by the one that `auto` found, whose text the options have. */
static void replace_block(DtArena *arena, DtDiags *diags, const DtLowerOptions *options,
                          DtConfigItems items)
{
    Setting s = {.arena = arena, .diags = diags, .options = options, .items = items,
                 .name = "(the block that auto chose)", .part = {dt_intern("parallel")},
                 .n_parts = 1};
    DtItem *item = find_block(&s);
    if (!item)
        return;
    const char *name = dt_arena_printf(arena, "%s (auto)", item->name.text);
    const DtAst *ast = dt_parse(
        arena, diags, dt_diag_add_file(diags, name, options->block, strlen(options->block)));
    if (ast->items.n == 1 && ast->items.at[0]->kind == DT_ITEM_PARALLEL)
        *item = *ast->items.at[0];
}

/* ---- a block that the command line does not name ---- */

/* Returns the line of the block that says `default`; NULL: there is none. */
static const DtEntry *default_line(const DtItem *item)
{
    for (uint32_t i = 0; item->kind == DT_ITEM_PARALLEL && i < item->entries.n; i++) {
        const DtEntry *entry = item->entries.at[i];
        if (entry->is_directive && entry->verb.text && !strcmp(entry->verb.text, "default"))
            return entry;
    }
    return NULL;
}

const char *dt_configset_default(DtDiags *diags, DtConfigItems items)
{
    const DtItem *first = NULL;
    for (uint32_t i = 0; i < items.n; i++) {
        const DtEntry *line = default_line(items.at[i]);
        if (line && first) {
            DtDiag *d = dt_diag_report(diags, E0511, line->span, "a second block says `default`");
            dt_diag_label(d, default_line(first)->span, "the first one");
        } else if (line)
            first = items.at[i];
    }
    return first ? first->name.text : NULL;
}

static const char *only_cluster(DtArena *arena, DtDiags *diags, DtConfigItems items)
{
    const char *name = NULL;
    uint32_t n = 0;
    for (uint32_t i = 0; i < items.n; i++)
        if (items.at[i]->kind == DT_ITEM_CLUSTER && items.at[i]->name.text) {
            name = items.at[i]->name.text;
            n++;
        }
    if (n == 1)
        return name;
    DtDiag *d = dt_diag_report(diags, E0003, (DtSpan){0},
                               "--parallel auto needs a cluster, and the program has %s",
                               n ? dt_arena_printf(arena, "%u of them", n) : "none");
    for (uint32_t i = 0; n && i < items.n; i++)
        if (items.at[i]->kind == DT_ITEM_CLUSTER && items.at[i]->name.text)
            dt_diag_help(d, "--cluster %s", items.at[i]->name.text);
    if (!n)
        dt_diag_help(
            d, "say what there is: `cluster pod { nodes = 2; gpus = 8; gpu = \"h100-sxm\" }`");
    return NULL;
}

DtItem *dt_configset_auto(DtArena *arena, DtDiags *diags, const DtLowerOptions *options,
                          DtConfigItems items)
{
    if (!options->parallel || strcmp(options->parallel, "auto"))
        return NULL;
    for (uint32_t i = 0; i < items.n; i++)
        if (items.at[i]->kind == DT_ITEM_PARALLEL && items.at[i]->name.text &&
            !strcmp(items.at[i]->name.text, "auto"))
            return NULL;
    const char *cluster = options->cluster ? options->cluster : only_cluster(arena, diags, items);
    if (!cluster)
        return NULL;
    const char *source = dt_arena_printf(arena, "parallel auto on %s { auto }\n", cluster);
    const DtAst *ast =
        dt_parse(arena, diags, dt_diag_add_file(diags, "--parallel auto", source, strlen(source)));
    return ast->items.n == 1 ? ast->items.at[0] : NULL;
}

void dt_configset_apply(DtArena *arena, DtDiags *diags, const DtLowerOptions *options,
                        DtConfigItems items)
{
    for (uint32_t i = 0; i < options->n_sets; i++) {
        Setting s = {.arena = arena,
                     .diags = diags,
                     .options = options,
                     .items = items,
                     .name = options->sets[i].name,
                     .text = options->sets[i].value};
        if (!split_name(&s)) {
            DtDiag *d = refuse(&s, "this is not `block.key=value`");
            dt_diag_help(
                d, "for example `--set train.steps=100`; a `dim` is set with `-D name=value`");
            continue;
        }
        DtItem *item = find_block(&s);
        if (!item || !parse_value(&s))
            continue;
        if (item->kind != DT_ITEM_PARALLEL)
            set_entry(&s, item);
        else if (!options->block)
            set_directive(&s, item);
    }
    if (options->block)
        replace_block(arena, diags, options, items);
    else
        add_lines(arena, diags, options, items);
}
