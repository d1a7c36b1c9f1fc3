/* SPDX-License-Identifier: Apache-2.0 */
/* Which hosts a run has, and how many ranks each can have, as node 0 knows it: the basis for its
 * choice of hosts and ranks when the run begins, and when it goes on without a host or a rank, or
 * with another one (--elastic, --spares). No sockets, no files. */
#ifndef DT_RUNTIME_ROSTER_H
#define DT_RUNTIME_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

/* A host, by the number that --node gave it when the run began. Node 0 is seat 0 for ever. */
typedef struct DtSeat {
    bool is_there;
    uint32_t slots; /* the most ranks that it can have */
    bool is_taken;  /* while seats are given to nodes */
} DtSeat;

typedef struct DtRoster {
    uint32_t n, slots;  /* seats; ranks that a host has at first */
    DtSeat *seats;
    uint32_t multiple;  /* of ranks, as the plan's layout allows */
    uint32_t least, most;
    uint32_t ceiling;   /* at most so many, since a rank was lost */
    bool *is_bad;       /* [most + 1]: no plan can be made for that number of ranks */
} DtRoster;

/* Hosts and ranks of a part of a run: ranks spread over nodes as spread.h says, and node number i
 * is seat seats[i]. */
typedef struct DtFormation {
    uint32_t nodes, ranks;
    uint32_t *seats; /* room for all seats */
} DtFormation;

/* n seats, of which only number 0 is there. False: no memory. */
bool dt_roster_open(DtRoster *roster, uint32_t n, uint32_t slots, uint32_t most);
void dt_roster_close(DtRoster *roster);
/* A host has come, with all of its slots. */
void dt_roster_come(DtRoster *roster, uint32_t seat);
void dt_roster_go(DtRoster *roster, uint32_t seat);
/* The formation has lost a rank on its node; so there will be fewer slots on that host, and fewer
 * ranks. Node 0 keeps one slot. */
void dt_roster_lose_rank(DtRoster *roster, const DtFormation *formation, uint32_t node);
/* Chooses the most ranks that are possible, and for them the fewest hosts, those with the lowest
 * numbers first. False: there are not enough. */
bool dt_roster_choose(DtRoster *roster, DtFormation *ret_formation);
/* How many ranks there could be if one host more were gone, that which leaves the fewest; 0: not
 * enough, or there is no host but node 0. room: is overwritten. */
uint32_t dt_roster_without_one(DtRoster *roster, DtFormation *room);

#endif
