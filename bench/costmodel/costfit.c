/* SPDX-License-Identifier: Apache-2.0 */
/* costfit [--write | --check] TREE: fits the constants to the published rows again. --write puts
 * them into cost/constants.def and lib/devices.dsl; --check ends with status 1 if these files have
 * other values. */
#include "bench/costmodel/costmodel.h"

#include "base/file.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(DtArena *arena, const char *path)
{
    char *text;
    size_t len;
    DtStatus status = dt_file_read(arena, path, 1 << 22, &text, &len);
    if (!dt_status_ok(&status)) {
        fprintf(stderr, "costfit: %s\n", status.message);
        exit(1);
    }
    return text;
}

/* Replaces the text between two texts that follow each other after `after`. */
static char *replace(DtArena *arena, char *text, const char *after, const char *from,
                     const char *to, const char *by)
{
    char *at = strstr(text, after);
    at = at ? strstr(at, from) : NULL;
    char *end = at ? strstr(at + strlen(from), to) : NULL;
    if (!end) {
        fprintf(stderr, "costfit: no %s%s\n", after, from);
        exit(1);
    }
    at += strlen(from);
    return dt_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, by, end);
}

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) == EOF || fclose(file)) {
        perror(path);
        exit(1);
    }
}

static void write_all(DtArena *arena, const char *tree, const Known *fit)
{
    const char *constants_path = dt_arena_printf(arena, "%s/cost/constants.def", tree);
    const char *devices_path = dt_arena_printf(arena, "%s/lib/devices.dsl", tree);
    char *constants = read_text(arena, constants_path), *devices = read_text(arena, devices_path);
    for (size_t i = 0; i < n_fitted; i++) {
        const Fitted *f = &fitted[i];
        const DtCostEstimate e = fitted_value(fit, f);
        const char *device =
            dt_arena_printf(arena, "\ndevice \"%s\" {", f->device ? f->device : "");
        for (int both = 0; both < (f->id == f->also ? 1 : 2); both++) {
            const char *name = dt_cost_constants[both ? f->also : f->id].name;
            if (f->device)
                devices = replace(arena, devices, device,
                                  dt_arena_printf(arena, "\n  %s = about(", name), ", source",
                                  dt_arena_printf(arena, "%.3g, within = %.2g", e.value, e.within));
            else
                constants = replace(arena, constants, "",
                                    dt_arena_printf(arena, "DT_COST_CONSTANT(%s, ", name), ", \"",
                                    dt_arena_printf(arena, "%.3g, %.2g", e.value, e.within));
        }
    }
    write_text(constants_path, constants);
    write_text(devices_path, devices);
}

int main(int argc, char **argv)
{
    const char *option = argc == 3 ? argv[1] : "", *tree = argc > 1 ? argv[argc - 1] : ".";
    DtArena *arena = dt_arena_new();
    const Known known = known_read(arena, tree);
    Known fit = known_copy(arena, &known);
    fit_constants(&fit, rows_read(arena, dt_arena_printf(arena, "%s/bench/published", tree)),
                  SOURCES, NOTHING);
    bool differs = false;
    printf("%-12s %-16s %10s %7s %10s %7s %10s\n", "device", "constant", "before", "within",
           "fitted", "within", "in files");
    for (size_t i = 0; i < n_fitted; i++) {
        const DtCostEstimate e = fitted_value(&fit, &fitted[i]),
                             old = fitted_value(&known, &fitted[i]);
        printf("%-12s %-16s %10.4g %6.0f%% %10.4g %6.1f%% %10.4g\n",
               fitted[i].device ? fitted[i].device : "a100", dt_cost_constants[fitted[i].id].name,
               fitted[i].prior, 100 * fitted[i].within, e.value, 100 * e.within, old.value);
        differs |= fabs(log(e.value / old.value)) > 0.01;
    }
    printf("%zu constants are fitted, of 30 at the most\n", n_fitted);
    if (!strcmp(option, "--write"))
        write_all(arena, tree, &fit);
    dt_arena_free(arena);
    return !strcmp(option, "--check") && differs;
}
