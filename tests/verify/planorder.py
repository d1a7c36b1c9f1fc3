#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether the stages of a plan wait for each other for ever: planorder.py DTC PLAN...

From a plan's text (`dtc dump`) each stage's messages and collectives are listed in the order in which it begins them,
and all stages go through their lists together, one thing at a time: as devices whose work is done in the order in which
it was begun. A message goes when both ends have come to it, and if its channel has places on the way when there is one
for what is sent, and something has come that is received; a collective when all stages of its group have. It shares
nothing with the certificate of plans, whose verdicts on the order of messages it judges: ranks on processors keep
messages in places, and notice nothing."""
import sys
from collections import Counter

import planraces

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift", "shift_back", "reduce", "broadcast")
RUNS = ("step", "eval", "predict", "update")


class Lister(planraces.Rank):
    """The operations that a stage begins: (channel, whether it sends) and (group,)."""

    def __init__(self, plan, coords):
        super().__init__(plan, coords)
        self.list = []

    def inst(self, number):
        inst = self.plan["INST"][number]
        kind, ref = inst.get("kind"), inst.get("ref", 0)
        if kind in ("send", "recv"):
            self.list.append((ref, kind == "send"))
        elif kind in COLLECTIVES and self.plan["GRUP"][ref].get("stages"):
            self.list.append((ref,))


def stages_of(text):
    return {number for part in str(text).replace(" ", "").split(",") for bounds in [part.split("to")]
            for number in range(int(bounds[0]), int(bounds[-1]) + 1)}


def lists_of(plan, run, n_stages):
    axis, lists = plan["META"][0]["pipeline"] - 1, []
    for stage in range(n_stages):
        coords = [0] * len(plan["MESH"]) + [0] * 8
        coords[axis] = stage
        lister = Lister(plan, coords)
        for entry in plan["ENTR"]:
            if entry["name"].strip('"') == run and entry.get("stage", 0) in (-1, stage):
                lister.reg, lister.started = [0] * 16, {}
                lister.entry(entry)
        lists.append(lister.list)
    return lists


def stuck(plan, lists):
    """Where each stage that does not reach its end stops."""
    at, begun, counted = [0] * len(lists), Counter(), set()
    moved = True
    while moved:
        moved = False
        for stage, steps in enumerate(lists):
            if at[stage] == len(steps):
                continue
            step = steps[at[stage]]
            if (stage, at[stage]) not in counted:
                counted.add((stage, at[stage]))
                begun[step] += 1
                moved = True
            if len(step) == 1:
                members = stages_of(plan["GRUP"][step[0]]["stages"].strip('"'))
                if all(at[s] < len(lists[s]) and lists[s][at[s]] == step for s in members):
                    for s in members:
                        counted.add((s, at[s]))
                        at[s] += 1
                    moved = True
                continue
            channel = plan["CHAN"][step[0]]
            room = channel["slots"] if step[1] and not channel.get("direct") else 0
            if begun[(step[0], not step[1])] + room >= begun[step]:
                at[stage], moved = at[stage] + 1, True
    return {stage: step for stage, step in enumerate(at) if step < len(lists[stage])}


def waits(dtc, path):
    """The stages of a run that wait for ever, or None."""
    plan = planraces.tables(planraces.subprocess.run([dtc, "dump", path], capture_output=True, text=True, check=True).stdout)
    if not plan["META"][0].get("pipeline"):
        return None
    n = plan["MESH"][plan["META"][0]["pipeline"] - 1].get("size", 1)
    for run in RUNS:
        found = stuck(plan, lists_of(plan, run, n))
        if found:
            return "stages of %s wait for each other: %s" % (run, found)
    return None


def main(dtc, *paths):
    found = {path: waits(dtc, path) for path in paths}
    for path, what in found.items():
        print("%s: %s" % (path, what or "all stages end"))
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
