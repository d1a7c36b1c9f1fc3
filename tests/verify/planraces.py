#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which operations of a plan are in progress at a time, and which instructions access their memory:
planraces.py DTC PLAN...

Runs the schedules of a plan's text (`dtc dump`), item by item, on ranks at the corners of the mesh,
and knows of each instruction which bytes it touches and of each event what was started under it. Up
to the wait nothing may write where a start reads or writes, or read where it writes; an event that
is waited for stands for one start; entries end with nothing on its way. It shares nothing with the
certificate of plans, whose verdicts on events it judges: ranks that run in the order of their
instructions compute the same whatever events say.
"""
import itertools
import re
import subprocess
import sys

RINGBUF, MOST_RANKS = 7, 4


class Race(Exception):
    pass


def tables(text):
    """Returns tag -> records, each a dictionary"""
    found = {}
    for line in text.split("\n"):
        head = re.match(r"([A-Z]{4}) (.*?)(?: # \d+)?$", line)
        record = {}
        for key, word in re.findall(r'(\w+)=(\([^)]*\)|"(?:[^"\\]|\\.)*"|\S+)', head[2]) if head else []:
            if re.fullmatch(r"\([-\d\s,]*\)", word):
                word = [int(part) for part in word[1:-1].split(",")]
            record[key] = int(word) if isinstance(word, str) and re.fullmatch(r"-?\d+", word) else word
        if head:
            found.setdefault(head[1], []).append(record)
    return found


class Rank:
    def __init__(self, plan, coords):
        self.plan, self.coords, self.started, self.n = plan, coords, {}, 0

    def range_of(self, arg):
        at = arg.get("base", 0) + sum(step * self.reg[r] for r, step in enumerate(arg.get("reg", [])))
        axes = arg.get("coord_axis", [])
        at += sum(step * self.coords[axes[c] if c < len(axes) else 0] for c, step in enumerate(arg.get("coord", [])))
        return arg.get("arena", 0), at, at + arg.get("bytes", 0)

    def inst(self, number):
        inst = self.plan["INST"][number]
        event = inst.get("event", 0) and inst["event"] + inst.get("event_step", 0) * self.reg[RINGBUF]
        if inst.get("kind") == "wait":
            self.started.pop(event, None)
            return
        first = inst.get("first_arg", 0)
        args = [arg for arg in self.plan["ARGS"][first:first + inst.get("n_args", 0)] if arg.get("kind") == "address"]
        ranges = [(self.range_of(arg), arg.get("written", 0)) for arg in args]
        for to, of, other in self.started.values():
            for (arena, lo, hi), written in ranges:
                for it, what in ((to, "result"),) + (((of, "operand"),) if written else ()):
                    if it and arena == it[0] and lo < it[2] and it[1] < hi:
                        raise Race("instruction %d touches the %s of %d, which is not done" % (number, what, other))
        if event and event in self.started:
            raise Race("instruction %d starts event %d, which is on its way" % (number, event))
        if event:
            to = None if inst.get("kind") == "send" else ranges[0][0]
            self.started[event] = to, ranges[-1][0], number
            self.n += 1

    def items(self, at, end):
        """Runs items up to the end, or up to that of the loop that contains them; returns where that
        is."""
        while at < end:
            item = self.plan["SCHD"][at]
            kind, reg, body = item["kind"], item.get("reg", 0), item.get("body", 0)
            first, step, count = (item.get(name, 0) for name in ("first", "step", "count"))
            if kind == "end":
                return at
            if kind == "run":
                run = self.plan["BODY"][body]
                for i in range(run.get("n_insts", 0)):
                    self.inst(run.get("first_inst", 0) + i)
            elif kind == "set":
                value = step * self.reg[body] + (self.reg[item["plus"]] if item.get("plus") else 0) + first
                self.reg[reg] = value % count if count else value
            elif kind == "when":
                at += 0 if 0 <= self.reg[reg] - first < count else body
            elif kind == "call":
                self.entry(self.plan["ENTR"][body])
            elif kind == "loop":
                for i in range(count):
                    self.reg[reg] = first + i * step
                    close = self.items(at + 1, end)
                self.reg[reg], at = 0, close
            at += 1
        return at

    def entry(self, entry):
        self.items(entry.get("first", 0), entry.get("first", 0) + entry.get("count", 0))

    def run(self, stage):
        called = {item.get("body", 0) for item in self.plan["SCHD"] if item["kind"] == "call"}
        for i, entry in enumerate(self.plan["ENTR"]):
            if i in called or entry.get("stage", 0) not in (-1, stage):
                continue
            self.reg, self.started = [0] * 16, {}
            self.entry(entry)
            if self.started:
                raise Race("%s ends, and event %d is on its way" % (entry["name"], min(self.started)))


def starts(dtc, path):
    """The number of collectives that are started and waited for; raises a Race if they do not
    match."""
    dump = subprocess.run([dtc, "dump", path], capture_output=True, text=True, check=True).stdout
    plan, n = tables(dump), 0
    mesh, pipeline = [axis.get("size", 1) for axis in plan.get("MESH", [])], plan["META"][0].get("pipeline", 0)
    ranks = list(itertools.product(*(range(size) for size in mesh)))
    for coords in ranks if len(ranks) <= MOST_RANKS else (ranks[0], ranks[len(ranks) // 2], ranks[-1]):
        rank = Rank(plan, list(coords) + [0] * 8)
        rank.run(coords[pipeline - 1] if pipeline else 0)
        n += rank.n
    return n


def main(dtc, *paths):
    failed = 0
    for path in paths:
        try:
            print("%s: %d starts" % (path, starts(dtc, path)))
        except Race as race:
            failed += 1
            print("%s: %s" % (path, race))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
