/* SPDX-License-Identifier: Apache-2.0 */
/* The layouts of a space, and their text. */
#include "search/search.h"

#include <string.h>

enum { MOST_LOCAL = 64, MOST_CHUNKS = 8, MOST_STAGES = 64 };

/* ---- numbers ---- */

int64_t dt_layout_local(const DtSpace *space, const DtLayout *layout)
{
    return space->samples.extent / layout->size[DT_ROLE_DATA] / layout->size[DT_ROLE_EXPERT] /
           layout->micro;
}

int64_t dt_layout_replicas(const DtLayout *layout)
{
    return layout->size[DT_ROLE_DATA] * layout->size[DT_ROLE_CONTEXT] *
           layout->size[DT_ROLE_EXPERT];
}

bool dt_layout_same_class(const DtSpace *space, const DtLayout *a, const DtLayout *b)
{
    return a->size[DT_ROLE_CONTEXT] == b->size[DT_ROLE_CONTEXT] &&
           a->size[DT_ROLE_EXPERT] == b->size[DT_ROLE_EXPERT] &&
           a->size[DT_ROLE_TENSOR] == b->size[DT_ROLE_TENSOR] && a->remat == b->remat &&
           dt_layout_local(space, a) == dt_layout_local(space, b);
}

DtLayout dt_layout_of_class(const DtSpace *space, const DtLayout *layout, bool alone)
{
    DtLayout ret = *layout;
    ret.size[DT_ROLE_PIPE] = 1;
    ret.zero = 0;
    ret.chunks = 1;
    ret.schedule = DT_SEARCH_1F1B;
    if (alone) {
        ret.size[DT_ROLE_DATA] = 1;
        ret.micro =
            space->samples.extent / layout->size[DT_ROLE_EXPERT] / dt_layout_local(space, layout);
    }
    return ret;
}

/* ---- text ---- */

typedef struct Printer {
    const DtSpace *space;
    const DtLayout *layout;
    DtText *text;
} Printer;

static bool is_kept(const DtSpace *s, const char *axis, DtRole role)
{
    for (uint32_t i = 0; i < s->n_shards; i++)
        if (s->shards[i].role == role && (!axis || s->shards[i].axis == axis))
            return true;
    return false;
}

/* Whether the search must choose a line that splits the axis over ranks of that role. */
static bool is_cut(const Printer *p, const char *axis, DtRole role)
{
    return axis && p->layout->size[role] > 1 && !is_kept(p->space, axis, role);
}

/* Whether the ranks along an axis of parameters can split it into n parts. A long axis that the
 * ranks do not divide is padded. */
static bool divides(const DtSpaceAxis *axis, int64_t n) { return axis->extent % n == 0; }
static bool can_be_padded(const DtSpaceAxis *axis, int64_t n) { return axis->extent >= 128 * n; }

static void print_mesh(const Printer *p)
{
    const char *between = "  mesh ";
    for (int r = 0; r < DT_ROLES; r++)
        if (p->layout->size[r] > 1 || p->space->in_mesh[r]) {
            dt_text_printf(p->text, "%s%s = %lld", between, p->space->mesh[r],
                           (long long)p->layout->size[r]);
            between = ", ";
        }
    if (*between == ' ')
        dt_text_printf(p->text, "  mesh %s = 1", p->space->mesh[DT_ROLE_DATA]);
    dt_text_add(p->text, "\n");
}

static void print_parameters(const Printer *p)
{
    const DtSpace *s = p->space;
    const int64_t n = p->layout->size[DT_ROLE_TENSOR];
    const char *between = "  shard ", *tensor = s->mesh[DT_ROLE_TENSOR];
    if (is_cut(p, s->experts.name, DT_ROLE_EXPERT))
        dt_text_printf(p->text, "  shard %s on %s\n", s->experts.name, s->mesh[DT_ROLE_EXPERT]);
    for (uint32_t i = 0; i < s->n_split; i++)
        if (is_cut(p, s->split[i].name, DT_ROLE_TENSOR) && divides(&s->split[i], n)) {
            dt_text_printf(p->text, "%s%s", between, s->split[i].name);
            between = ", ";
        }
    if (*between == ',')
        dt_text_printf(p->text, " on %s\n", tensor);
    for (uint32_t i = 0; i < s->n_split; i++)
        if (is_cut(p, s->split[i].name, DT_ROLE_TENSOR) && !divides(&s->split[i], n) &&
            can_be_padded(&s->split[i], n))
            dt_text_printf(p->text, "  shard %s on %s (pad = 128)\n", s->split[i].name, tensor);
}

/* Prints a line for the axes that ranks of both roles split, for those of the first role alone, and
 * for those of the second alone. */
static void print_positions(const Printer *p)
{
    const DtSpace *s = p->space;
    for (int which = 0; which < 3; which++) {
        const bool first = which < 2, second = which != 1;
        const int64_t *size = p->layout->size;
        const int64_t n = (first ? size[DT_ROLE_CONTEXT] : 1) * (second ? size[DT_ROLE_TENSOR] : 1);
        const char *between = "  shard ";
        for (uint32_t i = 0; i < s->n_positions; i++)
            if (is_cut(p, s->positions[i].name, DT_ROLE_CONTEXT) == first &&
                is_cut(p, s->positions[i].name, DT_ROLE_TENSOR) == second &&
                divides(&s->positions[i], n)) {
                dt_text_printf(p->text, "%s%s", between, s->positions[i].name);
                between = ", ";
            }
        if (*between == ',')
            dt_text_printf(p->text, " on %s%s%s\n", first ? s->mesh[DT_ROLE_CONTEXT] : "",
                           first && second ? ", " : "", second ? s->mesh[DT_ROLE_TENSOR] : "");
    }
    for (uint32_t i = 0; i < s->n_keys; i++)
        if (is_cut(p, s->keys[i].name, DT_ROLE_CONTEXT))
            dt_text_printf(p->text, "  shard %s on %s (ring = true)\n", s->keys[i].name,
                           s->mesh[DT_ROLE_CONTEXT]);
}

static void print_samples(const Printer *p)
{
    const DtSpace *s = p->space;
    const bool data = is_cut(p, s->samples.name, DT_ROLE_DATA),
               expert = is_cut(p, s->samples.name, DT_ROLE_EXPERT);
    if (data || expert)
        dt_text_printf(p->text, "  shard %s on %s%s%s\n", s->samples.name,
                       data ? s->mesh[DT_ROLE_DATA] : "", data && expert ? ", " : "",
                       expert ? s->mesh[DT_ROLE_EXPERT] : "");
}

static const char *const schedule_names[DT_SEARCH_SCHEDULES] = {"1f1b", "interleaved_1f1b", "zb_h1",
                                                                "zb_v", NULL};

static void print_pipeline(const Printer *p)
{
    const DtSpace *s = p->space;
    const DtLayout *l = p->layout;
    if (l->size[DT_ROLE_PIPE] == 1)
        return;
    if (s->pipeline_line) {
        dt_text_printf(p->text, "  %s\n", s->pipeline_line);
        return;
    }
    for (uint32_t i = 0; i < s->n_loops; i++)
        dt_text_printf(p->text, "%s%s", i ? ", " : "  pipeline ", s->loops[i].path);
    dt_text_printf(p->text, " on %s (schedule = \"%s\"", s->mesh[DT_ROLE_PIPE],
                   schedule_names[l->schedule]);
    if (l->chunks > 1)
        dt_text_printf(p->text, ", chunks = %lld", (long long)l->chunks);
    dt_text_add(p->text, ")\n");
}

static void print_zero(const Printer *p)
{
    static const DtRole over[] = {DT_ROLE_DATA, DT_ROLE_CONTEXT, DT_ROLE_EXPERT};
    const char *between = " on ";
    if (!p->layout->zero)
        return;
    if (p->space->zero_line) {
        dt_text_printf(p->text, "  %s\n", p->space->zero_line);
        return;
    }
    dt_text_printf(p->text, "  zero %d", p->layout->zero);
    for (size_t i = 0; i < DT_COUNT(over); i++)
        if (p->layout->size[over[i]] > 1) {
            dt_text_printf(p->text, "%s%s", between, p->space->mesh[over[i]]);
            between = ", ";
        }
    dt_text_add(p->text, p->layout->zero == 3 && p->space->prefetches ? " (prefetch = 1)\n" : "\n");
}

void dt_layout_print(const DtSpace *space, const DtLayout *layout, DtText *ret_text)
{
    const Printer p = {space, layout, ret_text};
    dt_text_printf(ret_text, "parallel %s on %s {\n", space->name, space->cluster);
    print_mesh(&p);
    dt_text_add(ret_text, space->kept);
    print_parameters(&p);
    print_positions(&p);
    print_samples(&p);
    print_pipeline(&p);
    if (layout->micro > 1)
        dt_text_printf(ret_text, "  micro %s = %lld\n", space->samples.name,
                       (long long)layout->micro);
    print_zero(&p);
    if (*space->remats[layout->remat].lines)
        dt_text_printf(ret_text, "  %s\n", space->remats[layout->remat].lines);
    dt_text_add(ret_text, "}\n");
}

static const char *and(DtArena *arena, const char *list, const char *part)
{
    return dt_arena_printf(arena, "%s%s%s", list, *list ? ", " : "", part);
}

const char *dt_layout_say(DtArena *arena, const DtSpace *space, const DtLayout *layout)
{
    const char *text = "", *remat = space->remats[layout->remat].lines;
    for (int r = 0; r < DT_ROLES; r++)
        if (layout->size[r] > 1)
            text =
                and(arena, text,
                    dt_arena_printf(arena, "%s %lld", space->mesh[r], (long long)layout->size[r]));
    if (!*text)
        text = "one rank";
    if (layout->size[DT_ROLE_PIPE] > 1)
        text = and(arena, text,
                   space->pipeline ? space->pipeline->schedule : schedule_names[layout->schedule]);
    if (layout->chunks > 1)
        text = dt_arena_printf(arena, "%s of %lld chunks", text, (long long)layout->chunks);
    if (layout->micro > 1)
        text = and(arena, text,
                   dt_arena_printf(arena, "%lld micro-batches of %lld", (long long)layout->micro,
                                   (long long)dt_layout_local(space, layout)));
    if (layout->zero)
        text = and(arena, text, dt_arena_printf(arena, "zero %d", layout->zero));
    while (*remat) { /* lines of the block, each with an indent */
        remat += strspn(remat, " \n");
        const size_t n = strcspn(remat, "\n");
        text = and(arena, text, dt_arena_strndup(arena, remat, n));
        remat += n;
    }
    return text;
}

int dt_layout_parts(const DtLayout *layout)
{
    int n = layout->zero + (layout->remat ? 2 : 0) + (layout->micro > 1) + (layout->chunks > 1);
    for (int r = 0; r < DT_ROLES; r++)
        n += layout->size[r] > 1 ? 4 : 0;
    return n;
}

bool dt_layout_same(const DtLayout *a, const DtLayout *b)
{
    bool same = a->micro == b->micro && a->chunks == b->chunks && a->schedule == b->schedule &&
                a->zero == b->zero && a->remat == b->remat;
    for (int r = 0; r < DT_ROLES; r++)
        same = same && a->size[r] == b->size[r];
    return same;
}

/* ---- all of them ---- */

typedef struct Lister {
    DtArena *arena;
    const DtSpace *space;
    DtLayouts *layouts;
    DtLayout at; /* the layout that is being completed */
} Lister;

static int64_t iterations(const DtSpace *s)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < s->n_loops; i++)
        n += s->loops[i].count;
    return n;
}

static bool is_open(const Lister *x, DtRole role, int64_t n)
{
    return !x->space->has_mesh || x->space->size[role] == n;
}

static void add(Lister *x)
{
    if (x->layouts->n < DT_LAYOUTS_MOST)
        DT_PUSH(x->arena, *x->layouts, x->at);
}

/* Lists the levels of `zero` that split something: a level that splits nothing more would draw a
 * lint. If the optimizer has state, each rank updates only its part, at least. */
static void list_zero(Lister *x)
{
    const DtSpace *s = x->space;
    const int64_t replicas = dt_layout_replicas(&x->at);
    const bool staged = x->at.size[DT_ROLE_PIPE] > 1;
    if (x->space->zero_line || replicas == 1) {
        x->at.zero = replicas > 1 ? x->space->zero : 0;
        add(x);
        return;
    }
    const int last = !s->has_axes ? 0 : staged ? 2 : 3;
    for (x->at.zero = s->has_axes && s->has_state ? 1 : 0; x->at.zero <= last; x->at.zero++)
        if (x->at.zero != 1 || s->has_state)
            add(x);
}

static void list_schedules(Lister *x)
{
    const DtSpace *s = x->space;
    const int64_t stages = x->at.size[DT_ROLE_PIPE], n = iterations(s);
    x->at.schedule = DT_SEARCH_1F1B;
    x->at.chunks = 1;
    if (stages > 1 && s->pipeline) {
        x->at.chunks = s->pipeline->chunks;
        x->at.schedule = DT_SEARCH_OTHER;
        for (int i = 0; i < DT_SEARCH_OTHER; i++)
            if (!strcmp(s->pipeline->schedule, schedule_names[i]))
                x->at.schedule = (DtSearchSchedule)i;
        list_zero(x);
        return;
    }
    if (stages > 1 && x->at.micro < stages) /* most of the pipeline would be idle */
        return;
    list_zero(x);
    if (stages == 1)
        return;
    x->at.schedule = DT_SEARCH_ZB_H1;
    list_zero(x);
    x->at.schedule = DT_SEARCH_ZB_V;
    x->at.chunks = 2;
    if (2 * stages <= n && x->at.micro >= 2 * stages - 1) /* with fewer micro-batches there are
                                                           * bubbles */
        list_zero(x);
    x->at.schedule = DT_SEARCH_INTERLEAVED;
    for (x->at.chunks = 2; x->at.chunks <= MOST_CHUNKS && stages * x->at.chunks <= n + 2;
         x->at.chunks++) /* the first and the last piece may have the table and the head alone */
        if (x->at.micro % stages == 0)
            list_zero(x);
}

/* Lists the layouts for all numbers of stages and replicas that fit; the layout's other sizes are
 * given. */
static void list_replicas(Lister *x, int64_t local)
{
    const DtSpace *s = x->space;
    const int64_t *size = x->at.size;
    const int64_t rest =
        s->devices / size[DT_ROLE_TENSOR] / size[DT_ROLE_CONTEXT] / size[DT_ROLE_EXPERT];
    const int64_t most = iterations(s) < MOST_STAGES ? iterations(s) : MOST_STAGES;
    for (int64_t stages = 1; stages <= rest && (stages == 1 || stages <= most); stages++) {
        const int64_t data = rest / stages,
                      samples = s->samples.extent / x->at.size[DT_ROLE_EXPERT];
        if (rest % stages || samples % (data * local) || !is_open(x, DT_ROLE_PIPE, stages) ||
            !is_open(x, DT_ROLE_DATA, data))
            continue;
        x->at.size[DT_ROLE_PIPE] = stages;
        x->at.size[DT_ROLE_DATA] = data;
        x->at.micro = samples / data / local;
        const bool is_power = (local & (local - 1)) == 0 && local <= MOST_LOCAL;
        if (s->micro ? s->micro == x->at.micro : is_power || x->at.micro == 1)
            list_schedules(x);
    }
}

/* Lists the layouts for all numbers of samples in a micro-batch that divide those of a replica, and
 * for all choices of recomputation. */
static void list_local(Lister *x)
{
    const int64_t samples = x->space->samples.extent / x->at.size[DT_ROLE_EXPERT];
    for (int64_t local = 1; local <= samples; local++)
        for (x->at.remat = 0; samples % local == 0 && x->at.remat < x->space->n_remats;
             x->at.remat++)
            list_replicas(x, local);
}

/* Whether the ranks can split parameters n ways: some axis of parameters has an extent that n
 * divides, or the block's own lines split them. */
static bool can_split(const DtSpace *s, int64_t n)
{
    bool some = n == 1 || is_kept(s, NULL, DT_ROLE_TENSOR);
    for (uint32_t i = 0; i < s->n_split; i++)
        some = some || divides(&s->split[i], n);
    return some;
}

static bool can_cut_positions(const DtSpace *s, int64_t n)
{
    return n == 1 || is_kept(s, NULL, DT_ROLE_CONTEXT) ||
           (s->n_positions == 1 && s->n_keys == 1 && divides(&s->positions[0], n) &&
            /* fewer positions are not worth a ring */
            (s->has_mesh || s->positions[0].extent >= 1024 * n));
}

static bool can_cut_experts(const DtSpace *s, int64_t n)
{
    return n == 1 || is_kept(s, NULL, DT_ROLE_EXPERT) ||
           (s->experts.name && divides(&s->experts, n) && s->samples.extent % n == 0);
}

void dt_layout_list(DtArena *arena, const DtSpace *space, DtLayouts *ret_layouts)
{
    Lister x = {.arena = arena, .space = space, .layouts = ret_layouts};
    *ret_layouts = (DtLayouts){0};
    for (int64_t context = 1; context <= space->devices; context++)
        for (int64_t expert = space->devices / context;
             is_open(&x, DT_ROLE_CONTEXT, context) && can_cut_positions(space, context) &&
             expert >= 1;
             expert--)
            for (int64_t tensor = 1; is_open(&x, DT_ROLE_EXPERT, expert) &&
                                     can_cut_experts(space, expert) && tensor <= space->node;
                 tensor++) {
                if (!is_open(&x, DT_ROLE_TENSOR, tensor) || !can_split(space, tensor) ||
                    space->node % tensor || space->devices % (context * expert * tensor))
                    continue;
                x.at.size[DT_ROLE_CONTEXT] = context;
                x.at.size[DT_ROLE_EXPERT] = expert;
                x.at.size[DT_ROLE_TENSOR] = tensor;
                list_local(&x);
            }
}
