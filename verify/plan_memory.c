/* SPDX-License-Identifier: Apache-2.0 */
/* The index of memory regions: written regions go into lists by arena. For an arena with many
 * regions a table of equal cells tells which of them may be near an address, so that a write
 * visits few. A region whose address depends on a register, or that covers many cells, is near
 * everything. */
#include "verify/plan_internal.h"

#include <string.h>

enum { FEW = 64, CELLS = 1 << 13, COVERED = 16 };

/* The range of bytes of the place over all coordinates and all values of the registers of open
 * loops. */
void dt_certplan_hull(const PlanWalk *walk, const PlanPlace *place, int64_t *ret_lo,
                      int64_t *ret_hi)
{
    int64_t lo = place->base, hi = place->base + place->bytes;
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++) {
        const int64_t most = place->reg[r] * (walk->count[r] > 0 ? walk->count[r] - 1 : 0);
        *(most < 0 ? &lo : &hi) += most;
    }
    for (uint32_t m = 0; m < walk->plan->n_mesh; m++) {
        const int64_t most = place->coord[m] * (walk->plan->mesh[m].size - 1);
        *(most < 0 ? &lo : &hi) += most;
    }
    *ret_lo = lo;
    *ret_hi = hi;
}

static bool is_moving(const PlanPlace *place)
{
    bool moves = false;
    for (uint32_t r = 0; r < DT_PLAN_ARG_REGS; r++)
        moves = moves || place->reg[r] != 0;
    return moves;
}

/* The cells from *ret_first to *ret_last that contain the bytes. Bytes outside of the arena belong
 * to the first or the last cell. */
static void cells_of(const PlanCells *cells, int64_t lo, int64_t hi, int64_t *ret_first,
                     int64_t *ret_last)
{
    const int64_t most = CELLS - 1;
    *ret_first = lo < 0 ? 0 : lo >> cells->shift;
    *ret_last = hi <= 0 ? 0 : (hi - 1) >> cells->shift;
    *ret_first = *ret_first > most ? most : *ret_first;
    *ret_last = *ret_last > most ? most : *ret_last < *ret_first ? *ret_first : *ret_last;
}

static void add_to_cells(PlanWalk *walk, PlanCells *cells, PlanRegion *region)
{
    int64_t first, last;
    cells_of(cells, region->lo, region->hi, &first, &last);
    if (is_moving(&region->place) || last - first >= COVERED) {
        DT_PUSH(walk->scratch, cells->everywhere, region);
        return;
    }
    for (int64_t c = first; c <= last; c++)
        DT_PUSH(walk->scratch, cells->cell[c], region);
}

static void make_cells(PlanWalk *walk, uint32_t arena)
{
    PlanCells *cells = walk->cells[arena] ? walk->cells[arena] : DT_NEW(walk->scratch, PlanCells);
    int64_t end = 1;
    if (!cells->cell)
        cells->cell = DT_NEW_ARRAY(walk->scratch, PlanList, CELLS);
    for (uint32_t c = 0; c < CELLS; c++)
        cells->cell[c].n = 0;
    cells->everywhere.n = cells->shift = 0;
    cells->most = 2 * walk->memory[arena].n;
    for (uint32_t i = 0; i < walk->memory[arena].n; i++) {
        end = walk->memory[arena].at[i]->hi > end ? walk->memory[arena].at[i]->hi : end;
    }
    while (end >> cells->shift >= CELLS)
        cells->shift++;
    for (uint32_t i = 0; i < walk->memory[arena].n; i++)
        if (walk->memory[arena].at[i]->alive)
            add_to_cells(walk, cells, walk->memory[arena].at[i]);
    walk->cells[arena] = cells;
}

/* Removes dead regions from the list. */
static void compact(PlanList *list)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i]->alive)
            list->at[n++] = list->at[i];
    list->n = n;
}

void dt_certplan_push_region(PlanWalk *walk, PlanRegion *region)
{
    const uint32_t arena = region->place.arena;
    if (arena >= DT_COUNT(walk->memory))
        return;
    PlanList *all = &walk->memory[arena];
    PlanCells *cells = walk->cells[arena];
    dt_certplan_hull(walk, &region->place, &region->lo, &region->hi);
    if (all->n == all->cap)
        compact(all);
    DT_PUSH(walk->arena, *all, region);
    if (cells ? all->n > cells->most : all->n > FEW) /* with more regions the table may take more
                                                      * memory */
        make_cells(walk, arena);
    else if (cells)
        add_to_cells(walk, cells, region);
}

void dt_certplan_forget_regions(PlanWalk *walk)
{
    for (uint32_t a = 0; a < DT_COUNT(walk->memory); a++)
        walk->memory[a].n = 0;
    memset(walk->cells, 0, sizeof walk->cells);
    walk->near = (PlanList){0};
}

static void add_near(PlanWalk *walk, PlanList *list, int64_t lo, int64_t hi)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        PlanRegion *region = list->at[i];
        if (!region->alive)
            continue;
        list->at[n++] = region;
        if (region->lo < hi && lo < region->hi && region->met != walk->meeting) {
            region->met = walk->meeting;
            DT_PUSH(walk->scratch, walk->near, region);
        }
    }
    list->n = n;
}

const PlanList *dt_certplan_near(PlanWalk *walk, const PlanPlace *place)
{
    static const PlanList none;
    if (place->arena >= DT_COUNT(walk->memory))
        return &none;
    PlanCells *cells = walk->cells[place->arena];
    int64_t lo, hi, first, last;
    dt_certplan_hull(walk, place, &lo, &hi);
    walk->near.n = 0;
    walk->meeting++;
    if (!cells) {
        add_near(walk, &walk->memory[place->arena], lo, hi);
        return &walk->near;
    }
    cells_of(cells, lo, hi, &first, &last);
    add_near(walk, &cells->everywhere, lo, hi);
    for (int64_t c = first; c <= last; c++)
        if (cells->cell[c].n)
            add_near(walk, &cells->cell[c], lo, hi);
    return &walk->near;
}

/* Widens each hole in zeroed memory to all bytes that it covers for any value of the register, on
 * which it then no longer depends. */
void dt_certplan_widen(PlanWalk *walk, uint32_t reg)
{
    for (uint32_t i = 0; i < walk->holes.n; i++) {
        PlanPlace *place = &walk->holes.at[i]->place;
        const int64_t most = place->reg[reg] * (walk->count[reg] - 1);
        place->base += most < 0 ? most : 0;
        place->bytes += most < 0 ? -most : most;
        place->rank = most ? 0 : place->rank;
        place->reg[reg] = 0;
    }
}
