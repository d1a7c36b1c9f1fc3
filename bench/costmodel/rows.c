/* SPDX-License-Identifier: Apache-2.0 */
/* The published tables as rows. This file decides which software ran a row, and how, according to
 * the papers; all numbers come from the files. */
#include "bench/costmodel/costmodel.h"

#include "base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef DT_VEC(char *) Cells;
typedef struct Table {
    Cells names;
    DT_VEC(Cells) lines;
} Table;

/* Reads a line of comma-separated cells; cells that contain commas are quoted. Returns the start of
 * the next line. */
static char *read_line(DtArena *arena, char *at, Cells *ret_cells)
{
    for (;;) {
        char *cell, *end;
        if (*at == '"') {
            cell = ++at;
            end = at;
            while (*at && !(*at == '"' && at[1] != '"')) {
                at += *at == '"';
                *end++ = *at++;
            }
            at += *at == '"';
        } else {
            cell = at;
            at += strcspn(at, ",\n");
            end = at;
        }
        const char last = *at;
        *end = 0;
        DT_PUSH(arena, *ret_cells, cell);
        if (last)
            at++;
        if (last != ',')
            return at;
    }
}

static Table read_table(DtArena *arena, const char *folder, const char *file)
{
    Table table = {0};
    char *text = NULL;
    size_t len;
    DtStatus status =
        dt_file_read(arena, dt_arena_printf(arena, "%s/%s", folder, file), 1 << 22, &text, &len);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "costmodel: %s\n", status.message);
        exit(1);
    }
    char *at = read_line(arena, text, &table.names);
    while (*at) {
        Cells cells = {0};
        at = read_line(arena, at, &cells);
        if (cells.n == table.names.n)
            DT_PUSH(arena, table.lines, cells);
    }
    return table;
}

static const char *cell_of(const Table *table, uint32_t line, const char *name)
{
    for (uint32_t i = 0; i < table->names.n; i++)
        if (!strcmp(table->names.at[i], name))
            return table->lines.at[line].at[i];
    fprintf(stderr, "costmodel: no column %s\n", name);
    exit(1);
}

static double number_of(const Table *table, uint32_t line, const char *name)
{
    return atof(cell_of(table, line, name));
}

/* Columns that all files have. */
static Row read_row(const Table *t, uint32_t i)
{
    Row row = {.model = cell_of(t, i, "model")};
    row.layers = (int64_t)number_of(t, i, "layers");
    row.hidden = (int64_t)number_of(t, i, "hidden");
    row.heads = (int64_t)number_of(t, i, "heads");
    row.kv_heads = (int64_t)number_of(t, i, "kv_heads");
    row.ffn = (int64_t)number_of(t, i, "ffn");
    row.vocab = (int64_t)number_of(t, i, "vocab");
    row.seq = (int64_t)number_of(t, i, "seq");
    row.batch = (int64_t)number_of(t, i, "global_batch");
    row.micro = (int64_t)number_of(t, i, "micro_batch");
    row.gpus = (int64_t)number_of(t, i, "gpus");
    row.tensor = (int64_t)number_of(t, i, "tp");
    row.stages = (int64_t)number_of(t, i, "pp");
    row.chunks = (int64_t)number_of(t, i, "virtual_stages");
    row.data = (int64_t)number_of(t, i, "dp");
    row.zero = (int64_t)number_of(t, i, "zero_stage");
    row.measured = number_of(t, i, "measured_step_s");
    row.sequence_parallel = !strcmp(cell_of(t, i, "sequence_parallel"), "yes");
    row.kv_heads = row.kv_heads ? row.kv_heads : row.heads;
    row.ffn = row.ffn ? row.ffn : 4 * row.hidden;
    row.chunks = row.chunks ? row.chunks : 1;
    row.data = row.data ? row.data : 1;
    row.device = "a100-80g";
    return row;
}

/* Computes times from TFLOP/s by the paper's formula, which counts a complete recomputation. */
static void add_sc21(DtArena *arena, const char *folder, Rows *rows)
{
    const Table t = read_table(arena, folder, "megatron_sc21_table1.csv");
    for (uint32_t i = 0; i < t.lines.n; i++) {
        Row row = read_row(&t, i);
        if (strcmp(cell_of(&t, i, "table"), "Table 1"))
            continue;
        const double h = (double)row.hidden, s = (double)row.seq, l = (double)row.layers,
                     v = (double)row.vocab;
        const double flops =
            96 * (double)row.batch * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
        row.source = SC21;
        row.stack = "megatron_2021";
        row.recompute = WHOLE;
        row.measured =
            flops / (number_of(&t, i, "measured_tflops_per_gpu") * 1e12 * (double)row.gpus);
        DT_PUSH(arena, *rows, row);
    }
}

/* Reads "forward 7.7 ms" in the notes. */
static double noted(const char *notes, const char *word)
{
    const char *at = strstr(notes, word);
    return at ? atof(at + strlen(word)) * 1e-3 : 0;
}

static void add_recomputation(DtArena *arena, const char *folder, Rows *rows)
{
    const Table t = read_table(arena, folder, "activation_recompute.csv");
    for (uint32_t i = 0; i < t.lines.n; i++) {
        Row row = read_row(&t, i);
        const char *how = cell_of(&t, i, "recompute");
        row.stack = "megatron_2022";
        row.recompute = !strcmp(how, "full") ? WHOLE : !strcmp(how, "selective") ? CORE : NONE;
        row.source = strcmp(cell_of(&t, i, "table"), "Table 4") ? RECOMPUTE : LAYER;
        if (row.source == RECOMPUTE && row.measured > 0) {
            /* section 6.3: for each replica the same as in the row without data parallelism */
            if (!row.micro) {
                row.micro = 1;
                row.batch = 280 * row.data;
            }
            DT_PUSH(arena, *rows, row);
        }
        for (int pass = 0; row.source == LAYER && pass < 2; pass++) {
            row.what = pass ? BACKWARD : FORWARD;
            row.measured = noted(cell_of(&t, i, "notes"), pass ? "backward " : "forward ");
            DT_PUSH(arena, *rows, row);
        }
    }
}

static void add_zero_bubble(DtArena *arena, const char *folder, Rows *rows)
{
    const Table t = read_table(arena, folder, "zero_bubble.csv");
    for (uint32_t i = 0; i < t.lines.n; i++) {
        Row row = read_row(&t, i);
        const char *notes = cell_of(&t, i, "notes");
        const bool plain = !strncmp(notes, "1F1B;", 5), memory = !strncmp(notes, "ZB-1p;", 6);
        if (!plain && !memory && strncmp(notes, "1F1B-I;", 7))
            continue;
        row.source = plain ? ZERO_BUBBLE : OTHER_SCHEDULES;
        row.schedule = memory ? ZB_H1 : ONE_F_ONE_B; /* its bubbles are those of ZB-H1 in all
                                                      * profiles */
        row.stack = "zero_bubble";
        /* the paper does not give it; this is what remains of 14.6 and 28.3 billion parameters
         * without the layers */
        row.vocab = 32000;
        row.trims_ends = true;
        const double tokens = number_of(&t, i, "measured_tokens_per_s_per_gpu");
        row.measured = (double)(row.batch * row.seq) / (tokens * (double)row.gpus);
        DT_PUSH(arena, *rows, row);
    }
}

static void add_torchtitan(DtArena *arena, const char *folder, Rows *rows)
{
    const Table t = read_table(arena, folder, "torchtitan.csv");
    for (uint32_t i = 0; i < t.lines.n; i++) {
        Row row = read_row(&t, i);
        const char *gpu = cell_of(&t, i, "gpu"), *notes = cell_of(&t, i, "notes"),
                   *how = cell_of(&t, i, "recompute");
        const double tokens = number_of(&t, i, "measured_tokens_per_s_per_gpu");
        const bool a100 = !strncmp(gpu, "A100", 4), h100 = !strncmp(gpu, "H100", 4);
        if (strcmp(cell_of(&t, i, "precision"), "bf16") || tokens <= 0 || !(a100 || h100))
            continue;
        row.source = a100 ? TITAN_A100 : TITAN_H100;
        row.device = a100 ? "a100-80g" : "h100-500w";
        row.is_llama = true;
        row.stack = strstr(notes, "async TP")        ? "torchtitan_async"
                    : strstr(notes, "torch.compile") ? "torchtitan_compiled"
                                                     : "torchtitan_eager";
        row.recompute = !strcmp(how, "full")                    ? WHOLE
                        : !strcmp(how, "none")                  ? NONE
                        : strstr(notes, "\"selective layer\"") ? EVERY_OTHER
                                                                : PRODUCTS;
        row.sequence_parallel = row.tensor > 1;
        row.vocab = row.vocab ? row.vocab : 32000; /* Llama 2 */
        row.measured = (double)(row.batch * row.seq) / (tokens * (double)row.gpus);
        DT_PUSH(arena, *rows, row);
    }
}

Rows rows_read(DtArena *arena, const char *folder)
{
    Rows rows = {0};
    add_sc21(arena, folder, &rows);
    add_recomputation(arena, folder, &rows);
    add_zero_bubble(arena, folder, &rows);
    add_torchtitan(arena, folder, &rows);
    return rows;
}

Profiles profiles_read(DtArena *arena, const char *folder)
{
    Profiles profiles = {0};
    const Table t = read_table(arena, folder, "zero_bubble_profiles.csv");
    for (uint32_t i = 0; i < t.lines.n; i++) {
        Profile p = {.model = cell_of(&t, i, "model")};
        p.stages = (int64_t)number_of(&t, i, "pp");
        p.micro_batches = (int64_t)number_of(&t, i, "num_microbatches");
        /* the first and the last stage have one layer fewer */
        const int64_t pieces = (int64_t)number_of(&t, i, "layers") + 2;
        p.chunks = pieces / p.stages;
        p.forward = number_of(&t, i, "t_f_ms") * 1e-3;
        p.backward = number_of(&t, i, "t_b_ms") * 1e-3;
        p.weight = number_of(&t, i, "t_w_ms") * 1e-3;
        p.message = number_of(&t, i, "t_comm_ms") * 1e-3;
        p.bubble_1f1b = number_of(&t, i, "bubble_1f1b");
        p.bubble_interleaved = number_of(&t, i, "bubble_1f1b_i");
        p.bubble_zb_h1 = number_of(&t, i, "bubble_zb_h1");
        if (p.forward > 0)
            DT_PUSH(arena, profiles, p);
    }
    return profiles;
}
