/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/roster.h"

#include "runtime/spread.h"

#include <stdlib.h>

bool dt_roster_open(DtRoster *r, uint32_t n, uint32_t slots, uint32_t most)
{
    *r = (DtRoster){.n = n, .slots = slots, .multiple = 1, .least = 1, .most = most,
                    .ceiling = most, .seats = calloc(n, sizeof *r->seats),
                    .is_bad = calloc((size_t)most + 1, sizeof *r->is_bad)};
    if (!r->seats || !r->is_bad) {
        dt_roster_close(r);
        return false;
    }
    dt_roster_come(r, 0);
    return true;
}

void dt_roster_close(DtRoster *r)
{
    free(r->seats);
    free(r->is_bad);
    *r = (DtRoster){0};
}

void dt_roster_come(DtRoster *r, uint32_t seat)
{
    r->seats[seat] = (DtSeat){.is_there = true, .slots = r->slots};
    r->ceiling = r->most;
}

void dt_roster_go(DtRoster *r, uint32_t seat) { r->seats[seat].is_there = false; }

void dt_roster_lose_rank(DtRoster *r, const DtFormation *f, uint32_t node)
{
    const uint32_t seat = f->seats[node], had = dt_spread_count(f->ranks, f->nodes, node);
    r->seats[seat].slots = had > 1 ? had - 1 : seat == 0;
    if (seat == 0)
        r->ceiling = f->ranks - 1;
}

/* The slots of a seat that can take part. */
static uint32_t slots_of(const DtRoster *r, uint32_t seat)
{
    return r->seats[seat].is_there ? r->seats[seat].slots : 0;
}

/* Whether the ranks fit on so many nodes: each has `share` ranks, or, node 0 and `more` others, one
 * more. */
static bool fits(const DtRoster *r, uint32_t ranks, uint32_t nodes)
{
    const uint32_t share = ranks / nodes, more = ranks % nodes ? ranks % nodes - 1 : 0;
    uint32_t large = 0, small = 0;
    for (uint32_t i = 1; i < r->n; i++) {
        large += slots_of(r, i) > share;
        small += slots_of(r, i) == share;
    }
    return slots_of(r, 0) >= dt_spread_count(ranks, nodes, 0) && large >= more &&
           large + small >= nodes - 1;
}

/* Fills in the nodes whose number of ranks is more than `share`, or not, by seats that are not
 * taken, in order. */
static void fill(DtRoster *r, DtFormation *f, uint32_t share, bool is_large)
{
    uint32_t seat = 1;
    for (uint32_t node = 1; node < f->nodes; node++) {
        const uint32_t count = dt_spread_count(f->ranks, f->nodes, node);
        if ((count > share) != is_large)
            continue;
        while (r->seats[seat].is_taken || slots_of(r, seat) < count)
            seat++;
        r->seats[seat].is_taken = true;
        f->seats[node] = seat;
    }
}

static void seat_all(DtRoster *r, DtFormation *f)
{
    const uint32_t share = f->ranks / f->nodes;
    for (uint32_t i = 0; i < r->n; i++)
        r->seats[i].is_taken = false;
    f->seats[0] = 0;
    fill(r, f, share, true); /* first, since fewer hosts can have that many */
    fill(r, f, share, false);
}

bool dt_roster_choose(DtRoster *r, DtFormation *ret_formation)
{
    uint64_t slots = 0;
    uint32_t hosts = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        slots += slots_of(r, i);
        hosts += slots_of(r, i) > 0;
    }
    uint32_t ranks = slots < r->ceiling ? (uint32_t)slots : r->ceiling;
    for (ranks -= ranks % r->multiple; ranks >= r->least && ranks > 0; ranks -= r->multiple) {
        if (r->is_bad[ranks])
            continue;
        for (uint32_t n = (ranks + r->slots - 1) / r->slots; n <= hosts && n <= ranks; n++) {
            if (!fits(r, ranks, n))
                continue;
            ret_formation->ranks = ranks;
            ret_formation->nodes = n;
            seat_all(r, ret_formation);
            return true;
        }
    }
    return false;
}

uint32_t dt_roster_without_one(DtRoster *r, DtFormation *room)
{
    uint32_t fewest = UINT32_MAX, seen = 0;
    for (uint32_t i = 1; i < r->n; i++) {
        if (!r->seats[i].is_there || r->seats[i].slots == seen)
            continue; /* one with as many slots as the last one would leave as many */
        seen = r->seats[i].slots;
        r->seats[i].is_there = false;
        const uint32_t ranks = dt_roster_choose(r, room) ? room->ranks : 0;
        r->seats[i].is_there = true;
        fewest = ranks < fewest ? ranks : fewest;
    }
    return fewest == UINT32_MAX ? 0 : fewest;
}
