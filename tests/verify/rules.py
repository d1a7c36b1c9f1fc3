#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate's local rules on programs of a line or two: rules.py PROVE. Each row says what a rank does with its
part of what the serial program has whole, and whether that may hold."""
import os
import re
import subprocess
import sys
import tempfile

MESH = "mesh m=2, n=2\n"
X = "  %x.0 = input() : f32[{0}] text=x @1:1-2\n"
ROWS = [  # whether it holds, type of the input, the op, type of its result
    (True, "b=4/m, h=8", "window[h, w](%x.0)", "f32[b=4/m, h=8, w=3]", "ranges=(1 1 1 3)"),
    (False, "b=4, h=8/m", "window[h, w](%x.0)", "f32[b=4, h=8/m, w=3]", "ranges=(1 1 1 3)"),
    (False, "b=4, h=8/m", "window[h, w](%x.0)", "f32[b=4, h=8/m, w=3]", "ranges=(0 2 1 3)"),
    (True, "b=4, h=8/m", "window[h, w](%x.0)", "f32[b=4, h=8/m, w=1]", "ranges=(0 0 1 1)"),
    (True, "b=4/m, h=8, w=3", "fold[h, w](%x.0)", "f32[b=4/m, h=8]", "ranges=(1 1 1 3)"),
    (False, "h=8/m, w=3", "fold[h, w](%x.0)", "f32[h=8/m]", "ranges=(1 1 1 3)"),
    (False, "b=4, h=8/m", "scan[h](%x.0)", "f32[b=4, h=8/m]", ""),
    (True, "h=8/m~", "relabel(%x.0)", "f32[s=8/m~]", "relabel(h -> s=8)"),
    (False, "h=8/m~", "relabel(%x.0)", "f32[s=8/m]", "relabel(h -> s=8)"),
    (False, "h=8/m", "relabel(%x.0)", "f32[s=8/m~]", "relabel(h -> s=8)"),
    (True, "h=8/m", "relabel(%x.0)", "f32[s=2/m, t=4]", "relabel(h -> s=2, t=4)"),
    (False, "h=8/m~", "relabel(%x.0)", "f32[s=2/m, t=4]", "relabel(h -> s=2, t=4)"),
    (False, "s=2/m, t=4", "relabel(%x.0)", "f32[h=8/m~]", "relabel(s, t -> h=8)"),
    (True, "h=16/m.n", "all_gather(%x.0)", "f32[h=16/m]", "mesh={n}"),
    (False, "h=16/m.n", "all_gather(%x.0)", "f32[h=16/m~]", "mesh={n}"),
    (False, "h=16/m.n~", "all_gather(%x.0)", "f32[h=16/m]", "mesh={n}"),
    (True, "h=16/m~", "all_gather(%x.0)", "f32[h=16]", "mesh={m}"),
    (True, "h=16/m.n~", "all_gather(%x.0)", "f32[h=16/m~]", "mesh={n}"),
    (True, "h=16/m~", "shard(%x.0)", "f32[h=16/m.n~]", "mesh={n}"),
    (False, "h=16/m.n~", "all_gather(%x.0)", "f32[h=16/n~]", "mesh={m}"),
    (False, "h=16/m.n~", "all_gather(%x.0)", "f32[h=16/m~]", "mesh={m}"),
    (False, "h=16/m", "shard(%x.0)", "f32[h=16/m.n~]", "mesh={n}"),
    (True, "b=4/m, h=8", "topk[h, k](%x.0)", "f32[b=4/m, k=2], i32[b=4/m, k=2]", ""),
    (False, "b=4, h=8", "topk[h, k](%x.0)", "f32[b=4, k=2], i32[b=4/m, k=2]", ""),
]
PARTS = """  %x.0 = input() : f32[b=4, e=3] text=x @1:1-2
  %y.1 = input() : f32[b=4, e=3] text=y @1:1-2
  %z.2 = input() : f32[b=4, e=3] text=z @1:1-2
  %s.3 = input() : f32[e=3] text=s @1:1-2
  %a.4 = scan[b](%x.0) : f32[b=4, e=3] @1:1-2
  %c.5 = scan[b](%y.1) : f32[b=4, e=3] @1:1-2
  %d.6 = scan[e](%s.3) : f32[e=3] @1:1-2
"""
LINEAR = [  # whether it holds, an op of a sum, its type, the op of the terms; {0} is the operand
    (True, "reduce[b]({0})", "f32[e=3]", "", "c"),
    (False, "reduce[b]({0})", "f32[e=3]", "reduce=max", "c"),
    # a term that lacks the axis counts once for each element along it
    (False, "reduce[b]({0})", "f32[e=3]", "", "d"),
    (True, "relabel({0})", "f32[f=4, e=3]", "relabel(b -> f=4)", "c"),
    (True, "expand({0})", "f32[b=4, e=3, f=2]", "", "c"),
    (True, "neg({0})", "f32[b=4, e=3]", "", "c"),
    (False, "exp({0})", "f32[b=4, e=3]", "", "c"),
    (True, "mul({0}, %z.2)", "f32[b=4, e=3]", "", "c"),
    (True, "mul(%s.3, {0})", "f32[b=4, e=3]", "", "c"),
    (False, "pow({0}, %z.2)", "f32[b=4, e=3]", "", "c"),
    (True, "div({0}, %z.2)", "f32[b=4, e=3]", "", "c"),
    (False, "div(%z.2, {0})", "f32[b=4, e=3]", "", "c"),
    (True, "where(%8, {0}, %7)", "f32[b=4, e=3]", "", "c"),
    (True, "where(%8, %7, {0})", "f32[b=4, e=3]", "", "c"),
    (False, "where(%8, {0}, %z.2)", "f32[b=4, e=3]", "", "c"),
]
# Several ops differ only in one operand, and the serial program has one of the terms, too.
B, E = "f32[b=4, e=3]", "f32[e=3]"
# whether it holds, ops of the serial program, its results, ops of the other one, its results; %7 is
# the first value
TERMS = [
    (True, ["mul(%z.2, %c.5)", "add(%a.4, %c.5)", "mul(%z.2, %8)"], [7, 9], ["mul(%z.2, %c.5)", "mul(%z.2, %a.4)", "add(%8, %7)"], [7, 9]),
    (False, ["mul(%z.2, %c.5)", "add(%a.4, %c.5)", "mul(%z.2, %8)"], [7, 9], ["mul(%z.2, %c.5)", "mul(%z.2, %a.4)", "add(%8, %8)"], [7, 9]),
    (False, ["mul(%z.2, %c.5)", "add(%a.4, %c.5)", "mul(%z.2, %8)"], [7, 9], ["mul(%z.2, %c.5)", "mul(%x.0, %a.4)", "add(%8, %7)"], [7, 9]),
    (True, ["add(%a.4, %c.5)", "reduce[b](%7)", "add(%a.4, %y.1)", "reduce[b](%9)"], [8, 10],
     ["reduce[b](%a.4)", "reduce[b](%c.5)", "add(%7, %8)", "reduce[b](%y.1)", "add(%10, %7)"], [9, 11]),
    (False, ["add(%a.4, %c.5)", "reduce[b](%7)", "add(%a.4, %y.1)", "reduce[b](%9)"], [8, 10],
     ["reduce[b](%a.4)", "reduce[b](%c.5)", "add(%7, %8)", "reduce[b](%y.1)", "add(%10, %7)"], [11, 9]),
    (False, ["add(%a.4, %c.5)", "reduce[b](%7)", "add(%a.4, %y.1)", "reduce[b](%9)"], [8, 10],
     ["reduce[b](%a.4)", "reduce[b](%c.5)", "add(%7, %8)", "reduce[b](%y.1)", "add(%10, %8)"], [9, 11]),
    (True, ["mul(%z.2, %a.4)", "mul(%z.2, %c.5)", "add(%7, %8)"], [9], ["add(%a.4, %c.5)", "mul(%z.2, %7)"], [8]),
    (False, ["mul(%z.2, %a.4)", "mul(%z.2, %c.5)", "add(%7, %8)"], [9], ["add(%a.4, %a.4)", "mul(%z.2, %7)"], [8]),
    (False, ["mul(%z.2, %a.4)", "mul(%x.0, %c.5)", "add(%7, %8)"], [9], ["add(%a.4, %c.5)", "mul(%z.2, %7)"], [8]),
    # True, but the certificate does not know that much algebra.
    (False, ["neg(%a.4)", "neg(%7)", "sin(%8)"], [9], ["sin(%a.4)"], [7]),
    (False, ["max(%a.4, %a.4)", "sin(%7)"], [8], ["sin(%a.4)"], [7]),
]
MANY = list(range(300))
LONG_SUMS = [  # whether it holds, the terms of the serial program's sum, those of the other one's
    (True, MANY, MANY[::-1]),
    (True, MANY, MANY[::2] + MANY[1::2]),
    (True, MANY[:256], MANY[255::-1]),
    (True, MANY[:257], MANY[256::-1]),
    (False, MANY, MANY[1:]),
    (False, MANY, MANY + [7]),
    (False, MANY, MANY[:7] + [8] + MANY[8:]),
    (False, MANY[:257], MANY[:256]),
    (True, MANY + MANY, [n // 2 for n in range(600)]),  # each term twice
    (False, MANY + MANY, [n // 2 for n in range(599)] + [7]),
    (False, MANY + MANY, MANY),
    (True, [0] * 300, [0] * 300),
    (False, [0] * 300, [0] * 299),
    (False, [0] * 300, [0] * 299 + [1]),
]
LOOP = """func first : body @1:1-2 {
  arg %i.0 : i32[]
  arg %x.1 : f32[e=3]
  %2 = sin(%x.1) : f32[e=3] @1:1-2
  %3 = add(%x.1, %2) : f32[e=3] @1:1-2
  return %3, %x.1, %2
}
func again : body @1:1-2 {
  arg %i.0 : i32[]
  arg %x.1 : f32[e=3]
  arg %f.2 : f32[e=3]
BODY  return %3, %x.1
}
func predict : entry @1:1-2 {
  %x.0 = input() : f32[e=3] text=x @1:1-2
  %1, %2, %3 = loop(%x.0) : f32[e=3], f32[h=5, e=3], f32[h=5, e=3] func=first loop(label=h COUNT stacked_out=2) @1:1-2
  %4 = neg(%x.0) : f32[e=3] @1:1-2
  %5, %6 = loop(START, %3) : f32[e=3], f32[h=5, e=3] func=again loop(LABEL COUNT stacked=1 stacked_out=1) @1:1-2
  return RETURN
}
entry predict : predict {
  result name=y
  result name=z
}
"""
# whether it holds, the body of a loop that reads the values of sin that the first loop stacked, its
# first value, its label
AGAIN = [
    (True, "  %3 = add(%x.1, %f.2) : f32[e=3] @1:1-2\n", "%x.0", "label=h"),
    (False, "  %3 = sub(%x.1, %f.2) : f32[e=3] @1:1-2\n", "%x.0", "label=h"),
    (False, "  %3 = add(%f.2, %f.2) : f32[e=3] @1:1-2\n", "%x.0", "label=h"),
    (False, "  %3 = add(%x.1, %x.1) : f32[e=3] @1:1-2\n", "%x.0", "label=h"),
    (False, "  %3 = add(%x.1, %f.2) : f32[e=3] @1:1-2\n", "%4", "label=h"),
    (False, "  %3 = add(%x.1, %f.2) : f32[e=3] @1:1-2\n", "%x.0", "label=g"),
    (False, "  %3 = add(%x.1, %f.2) : f32[e=3] @1:1-2\n", "%x.0", "label=h reverse"),
]
# A loop of four iterations equals two loops of two; also what is computed from the values that
# these loops stack.
RANGE = """func first : body @1:1-2 {
  arg %i.0 : i32[]
  arg %x.1 : f32[e=3]
  %2 = sin(%x.1) : f32[e=3] @1:1-2
  return %2, %2
}
func predict : entry @1:1-2 {
  %x.0 = input() : f32[e=3] text=x @1:1-2
LOOPS}
entry predict : predict {
  result name=y
}
"""
ALL = "  %1, %2 = loop(%x.0) : f32[e=3], f32[h=4, e=3] func=first loop(label=h axis=h count=4 carried=1 stacked_out=1) @1:1-2\n"
HALVES = """  %1, %2 = loop(%x.0) : f32[e=3], f32[h=2, e=3] func=first loop(label=h axis=h count=2 carried=1 stacked_out=1) @1:1-2
  %3, %4 = loop(%1) : f32[e=3], f32[h=2, e=3] func=first loop(label=h axis=h count=2 first=2 carried=1 stacked_out=1) @1:1-2
"""
TO_S = "relabel({}) : f32[s={}, e=3] relabel(h -> s={}) @1:1-2"
CUT = "slice[h](%2) : f32[h=2, e=3] ranges=({} {} 1 2) @1:1-2"
JOIN = "concat[h]({}) : f32[h=4, e=3] @1:1-2"
MOST = "reduce[h]({}) : f32[e=3] {} @1:1-2"
RANGES = [  # whether it holds, ops on %2, ops on %2 and %4
    (True, [TO_S.format("%2", 4, 4)], [JOIN.format("%2, %4"), TO_S.format("%5", 4, 4)]),
    (False, [TO_S.format("%2", 4, 4)], [JOIN.format("%4, %2"), TO_S.format("%5", 4, 4)]),
    (False, [TO_S.format("%2", 4, 4)], [JOIN.format("%2, %2"), TO_S.format("%5", 4, 4)]),
    (True, [CUT.format(0, 2), TO_S.format("%3", 2, 2)], [TO_S.format("%2", 2, 2)]),
    (True, [CUT.format(2, 0), TO_S.format("%3", 2, 2)], [TO_S.format("%4", 2, 2)]),
    (False, [CUT.format(1, 1), TO_S.format("%3", 2, 2)], [TO_S.format("%2", 2, 2)]),
    (False, [CUT.format(2, 0), TO_S.format("%3", 2, 2)], [TO_S.format("%2", 2, 2)]),
    (True, [MOST.format("%2", "")], [MOST.format("%2", ""), MOST.format("%4", ""), "add(%5, %6) : f32[e=3] @1:1-2"]),
    (False, [MOST.format("%2", "reduce=max")],
     [MOST.format("%2", "reduce=max"), MOST.format("%4", "reduce=max"), "add(%5, %6) : f32[e=3] @1:1-2"]),
    (True, [MOST.format("%2", "reduce=max")], [JOIN.format("%2, %4"), MOST.format("%5", "reduce=max")]),
]
# The values that a loop of eight iterations stacks, as buckets of which each rank has some, or a
# part of all. Columns: whether it holds, how the stack is distributed, the bucket's type then, its
# type after the exchange, what is taken out of it, and the mesh axis.
DEAL = """  %1, %2 = loop(%x.0) : f32[e=3], f32[h=8, e=3] func=first loop(label=h axis=h count=8 carried=1 stacked_out=1) @1:1-2
"""
DEALT = """  %3 = shard(%2) : f32[{0}, e=3] mesh={{m}} @1:1-2
  %4 = pack[h](%3) : f32[{1}, "@bucket"=4] @1:1-2
  %5 = all_to_all(%4) : f32[h=8, "@bucket"=4/m] mesh={{m}} @1:1-2
  %6 = all_to_all(%5) : f32[{2}] mesh={{m}} @1:1-2
  %7 = unpack[h](%6) : f32[{3}, e=3] @1:1-2
  %8 = reduce[e](%7) : f32[{3}] @1:1-2
  %9 = all_gather(%8) : f32[h=8] mesh={{{4}}} @1:1-2
  return %9
"""
DEALS = [
    (True, "h=8/m", "h=8/m", 'h=8/m, "@bucket"=4', "h=8/m", "m"),
    (False, "h=8/m", "h=8", 'h=8/m, "@bucket"=4', "h=8/m", "m"),
    (False, "h=8/m", "h=8/n", 'h=8/m, "@bucket"=4', "h=8/m", "m"),
    (False, "h=8/m~", "h=8/m", 'h=8/m, "@bucket"=4', "h=8/m", "m"),
    (False, "h=8/m", "h=8/m", 'h=8, "@bucket"=4/m', "h=8", "m"),
    (False, "h=8/m", "h=8/m", 'h=8/m, "@bucket"=4', "h=8/n", "n"),
    (False, "h=8/m", "h=8/m", 'h=8/m, "@bucket"=4', "h=8/m~", "m"),
    (False, "h=8/m", "h=8/m", 'h=8/m, "@bucket"=4', "h=8/m.n", "m n"),
]
# A constant along an axis over which a loop iterates is the same in any range; a value that a loop
# computes from it is not.
GROWN = """func along : body @1:1-2 {
  arg %i.0 : i32[]
  arg %x.1 : f32[]
  return %x.1
}
func grows : body @1:1-2 {
  arg %i.0 : i32[]
  arg %x.1 : f32[e=4]
  arg %y.2 : f32[e=4]
  %3 = add(%x.1, %y.2) : f32[e=4] @1:1-2
  %4 = slice[e](OF) : f32[e=2] ranges=(CUT) @1:1-2
  return %3, %4
}
func predict : entry @1:1-2 {
  %y.0 = input() : f32[e=4] text=y @1:1-2
  %1 = const() : f32[] number=3 @1:1-2
  %2 = expand(%1) : f32[e=4] @1:1-2
  %3 = loop(%1) : f32[] func=along loop(label=e axis=e count=4 carried=1) @1:1-2
  %4, %5 = loop(%2, %y.0) : f32[e=4], f32[h=5, e=2] func=grows loop(label=h axis=h count=5 carried=1 invariant=1 stacked_out=1) @1:1-2
  return %5, %3
}
entry predict : predict {
  result name=z
  result name=w
}
"""
GROWS = [  # whether it holds, what is cut, where
    (True, "%x.1", "0 2 1 2"),
    (False, "%x.1", "2 0 1 2"),
    (False, "%3", "2 0 1 2"),
]
# An axis over which another loop iterates: values that are computed from parts along it. %y.0 has
# it, %z.1 has it and another one, %3 is 3 everywhere, %4 is what the second loop stacks: also 3
# everywhere.
PARTS_OF = """func along : body @1:1-2 {
  arg %i.0 : i32[]
  arg %x.1 : f32[]
  return %x.1
}
func grows : body @1:1-2 {
  arg %i.0 : i32[]
  arg %x.1 : f32[]
  %2 = expand(%x.1) : f32[e=COUNT] @1:1-2
  return %x.1, %2
}
func predict : entry @1:1-2 {
  %y.0 = input() : f32[e=4] text=y @1:1-2
  %z.1 = input() : f32[e=4, f=4] text=z @1:1-2
  %2 = const() : f32[] number=3 @1:1-2
  %3 = expand(%2) : f32[e=4] @1:1-2
  %4 = loop(%2) : f32[] func=along loop(label=e axis=e count=4 carried=1) @1:1-2
  %5 = loop(%2) : f32[] func=along loop(label=f axis=f count=4 carried=1) @1:1-2
  %6, %7 = loop(%2) : f32[], f32[h=5, e=COUNT] func=grows loop(label=h axis=h count=5 carried=1 stacked_out=1) @1:1-2
OPS  return RESULT, %4, %5, %6
}
entry predict : predict {
  result name=a
  result name=b
  result name=c
  result name=d
}
"""

# A sum of zeros, which the other program has as a single zero: a value computed from it is taken
# for what it says that it means, if the serial program has a similar value for both.
ZERO = """func predict : entry @1:1-2 {
  %x.0 = input() : f32[b=4] text=x @1:1-2
  %1 = const() : f32[] number=0 @1:1-2
  %2 = expand(%1) : f32[b=4] @1:1-2
  %3 = reduce[b](%2) : f32[] @1:1-2
  %4 = reduce[b](%x.0) : f32[] @1:1-2
  %5 = sqrt(%3) : f32[] @1:1-2
  %6 = sqrt(%1) : f32[] @1:1-2
  %7 = sqrt(%4) : f32[] @1:1-2
  %8 = sin(%5) : f32[] @1:1-2
  %9 = sin(%6) : f32[] @1:1-2
  %10 = sin(%7) : f32[] @1:1-2
  return %8, %9, %10
}
entry predict : predict {
  result name=a
  result name=b
  result name=c
}
"""
# whether it holds; in the other program: operands and numbers of the roots, in place of %5 and %7
ZEROS = [
    (True, "%3", 6, "%4", 8), (True, "%1", 6, "%4", 8), (False, "%1", 8, "%4", 8), (False, "%3", 6, "%1", 8),
    (False, "%3", 6, "%3", 8), (False, "%4", 6, "%4", 8), (False, "%4", 8, "%4", 8),
    (False, "%1", 7, "%4", 8),  # true, but the certificate does not know that much algebra
]


def zeros(row):
    text = re.sub("( @1:1-2)", "", ZERO)
    for old, (operand, number) in (("%5 = sqrt(%3) : f32[]", row[1:3]), ("%7 = sqrt(%4) : f32[]", row[3:5])):
        text = text.replace(old, "%s = sqrt(%s) : f32[] means=%d" % (old[:2], operand, number))
    return re.sub(r"( %(8|9|10) = sin.*)", lambda m: m.group(1) + " means=%d" % (int(m.group(2)) + 1), text)


def part(x, first, axis="e", type_="e=2"):
    return "slice[%s](%s) : f32[%s] ranges=(%d %d 1 2)" % (axis, x, type_, first, 2 - first)


MUL, ADD = "mul(%s, %s) : f32[e=2]", "add(%s, %s) : f32[]"
TWICE = "mul(%y.0, %3) : f32[e=4]"
SUM = "reduce[e](%s) : f32[]"
CROSS = "reduce[e, f](%s) : f32[]"
# whether it holds, ops of the serial program, ops of the other one; the extent of %7 there
PARTS_ROWS = [
    (True, [part("%y.0", 0)], [part("%y.0", 0)]),
    (False, [part("%y.0", 0)], [part("%y.0", 2)]),
    (False, [part("%y.0", 0)], ["stop(%y.0) : f32[e=4]"]),
    (False, ["stop(%y.0) : f32[e=4]"], ["stop(%y.0) : f32[e=4]", part("%8", 0)]),
    (False, ["stop(%3) : f32[e=4]"], ["stop(%3) : f32[e=4]", part("%8", 0)]),
    (True, [TWICE, part("%8", 0)], [part("%y.0", 0), part("%3", 2), MUL % ("%8", "%9")]),
    # values that are the same number everywhere, beside values that are not
    (False, [TWICE, part("%8", 0)], [TWICE, part("%8", 2)]),
    (False, [TWICE, part("%8", 2)], [TWICE, part("%8", 0)]),
    (False, ["scan[e](%3) : f32[e=4]", part("%8", 0)], ["scan[e](%3) : f32[e=4]", part("%8", 2)]),
    # iterations next to others
    (True, [part("%y.0", 1), part("%y.0", 0), MUL % ("%8", "%9")], [part("%y.0", 1), part("%y.0", 0), MUL % ("%8", "%9")]),
    (False, [part("%y.0", 1), part("%y.0", 0), MUL % ("%8", "%9")], [part("%y.0", 2), part("%y.0", 1), MUL % ("%8", "%9")]),
    (False, [part("%y.0", 1), part("%y.0", 0), MUL % ("%8", "%9")], [part("%y.0", 1), part("%y.0", 1), MUL % ("%8", "%9")]),
    (False, [part("%y.0", 1), part("%y.0", 0), MUL % ("%8", "%9"), SUM % "%10"],
     [part("%y.0", 2), part("%y.0", 1), MUL % ("%8", "%9"), SUM % "%10"]),
    # sums of parts, and of all
    (True, [SUM % "%y.0"], [part("%y.0", 0), part("%y.0", 2), SUM % "%8", SUM % "%9", ADD % ("%10", "%11")]),
    (True, [SUM % "%y.0"], [part("%y.0", 2), part("%y.0", 0), SUM % "%8", SUM % "%9", ADD % ("%10", "%11")]),
    (False, [SUM % "%y.0"], [part("%y.0", 0), part("%y.0", 0), SUM % "%8", SUM % "%9", ADD % ("%10", "%11")]),
    (False, [SUM % "%y.0"], [part("%y.0", 0), part("%y.0", 1), SUM % "%8", SUM % "%9", ADD % ("%10", "%11")]),
    (False, [SUM % "%y.0"], [part("%y.0", 0), SUM % "%8"]),
    (False, [SUM % "%y.0"], [part("%y.0", 2), SUM % "%8"]),
    (True, [SUM % "%y.0", "mul(%8, %2) : f32[]"],
     [part("%y.0", 0), part("%y.0", 2), SUM % "%8", SUM % "%9", "mul(%10, %2) : f32[]", "mul(%11, %2) : f32[]",
      ADD % ("%12", "%13")]),
    # parts of one factor, and of the other factor
    (False, [SUM % "%y.0", SUM % "%3", "mul(%8, %9) : f32[]"],
     [part("%y.0", 0), SUM % "%8", SUM % "%3", "mul(%9, %10) : f32[]", SUM % "%y.0", part("%3", 2), SUM % "%13",
      "mul(%12, %14) : f32[]", ADD % ("%11", "%15")]),
    (True, [CROSS % "%z.1"], [part("%z.1", 0, "e", "e=2, f=4"), part("%z.1", 2, "e", "e=2, f=4"), CROSS % "%8",
                              CROSS % "%9", ADD % ("%10", "%11")]),
    (False, [CROSS % "%z.1"], [part("%z.1", 0, "e", "e=2, f=4"), part("%z.1", 2, "f", "e=4, f=2"), CROSS % "%8",
                               CROSS % "%9", ADD % ("%10", "%11")]),
    # the extent of a value that is one number everywhere
    (True, ["reduce[e](%7) : f32[h=5]"], ["reduce[e](%7) : f32[h=5]"], 4),
    (False, ["reduce[e](%7) : f32[h=5]"], ["reduce[e](%7) : f32[h=5]"], 3),
    (False, ["reduce[e](%7) : f32[h=5]"], ["reduce[e](%7) : f32[h=5]"], 8),
]
# Rings: queries p, keys q, and what the function makes of them, a result and a gradient of keys. holds, how keys,
# values, and the gradient lie, how queries do, what is pending in the function, the ring's mesh axes, and whether m is
# time
RINGS = [
    (True, "q=8/m.n", "q=8/m.n", "q=8/m.n", "p=8/m.n", "m n", "m n", False),
    (True, "q=8/n.m", "q=8/n.m", "q=8/n.m", "p=8/m.n", "m n", "m n", False),
    (True, "q=8/n.m~", "q=8/n.m~", "q=8/n.m~", "p=8/m.n", "m n", "m n", False),
    (True, "q=8/m", "q=8", "q=8/m", "p=8/m", "m", "m", False),
    # pending over a part of the ring only
    (True, "q=8/m.n", "q=8/m.n", "q=8]{sum m", "p=8/m", "m", "m n", False),
    (False, "q=8/m.n", "q=8/m.n", "q=8/m.n", "p=8/m", "m", "m n", False),
    (False, "q=8/n.m", "q=8/n.m", "q=8/m.n", "p=8/m.n", "m n", "m n", False),
    (False, "q=8/m.n", "q=8/n.m", "q=8/m.n", "p=8/m.n", "m n", "m n", False),
    (False, "q=8/m.n~", "q=8/m.n", "q=8/m.n", "p=8/m.n", "m n", "m n", False),
    (False, "q=8/m.n~", "q=8/m.n~", "q=8/m.n", "p=8/m.n", "m n", "m n", False),
    (False, "q=8/m.n", "q=8/m.n", "q=8/m.n", "p=8/m.n", "m n", "m", False),
    (False, "q=8/m.n", "q=8/m.n", "q=8/m", "p=8/m.n", "m n", "m n", False),
    (False, "q=8/m", "q=8/m", "q=8/m", "p=8/m", "m", "m n", False),
    (False, "q=8/m.n", "q=8/m.n", "q=8/m.n", "p=8/m.n", "m n", "m n", True),
]
RING = """func ring : fn @1:1-2 {{
  arg %x.0 : f32[{p}]
  arg %y.1 : f32[q=8]
  arg %v.2 : f32[q=8]
  %3 = mul(%y.1, %v.2) : f32[q=8] @1:1-2
  %4 = mul(%x.0, %3) : f32[{p}, q=8] @1:1-2
  %5 = reduce[q](%4) : f32[{p}] @1:1-2
  %6 = reduce[p](%4) : f32[q=8]{{sum {pending}}} @1:1-2
  return %5, %6
}}
func predict : entry @1:1-2 {{
  %x.0 = input() : f32[{p}] text=x @1:1-2
  %y.1 = input() : f32[{keys}] text=y @1:1-2
  %v.2 = input() : f32[{values}] text=v @1:1-2
  %3, %4 = call[q](%x.0, %y.1, %v.2) : f32[{p}], f32[{made}] func=ring mesh={{{mesh}}} @1:1-2
  return %3, %4
}}
entry predict : predict {{
  result name=o
  result name=g
}}
"""
BF, F = "bf16[e=3]", "f32[e=3]"
WIDE_BESIDE = [("add(%a.2, %b.3)", BF), ("cast(%4)", F), ("cast(%b.3)", F), ("add(%6, %5)", F)]
# whether it holds, ops of the serial program, of the other one; %x.0 and %y.1 are f32, %a.2 and
# %b.3 bf16
ROUNDS = [
    (True, [("cast(%x.0)", BF), ("cast(%4)", F), ("sin(%5)", F)], [("cast(%x.0)", BF), ("cast(%4)", F), ("sin(%5)", F)]),
    (False, [("cast(%x.0)", BF), ("cast(%4)", F), ("sin(%5)", F)], [("sin(%x.0)", F)]),
    (False, [("sin(%x.0)", F)], [("cast(%x.0)", BF), ("cast(%4)", F), ("sin(%5)", F)]),
    (False, [("cast(%x.0)", BF), ("cast(%4)", F), ("sin(%5)", F)],
     [("cast(%x.0)", "f16[e=3]"), ("cast(%4)", F), ("sin(%5)", F)]),
    (False, [("sin(%x.0)", F), ("mul(%4, %x.0)", F)], [("sin(%x.0)", F), ("cast(%4)", BF), ("cast(%5)", F), ("mul(%6, %x.0)", F)]),
    # Terms may be added up in a wider dtype, but not in a narrower one.
    (True, [("add(%a.2, %b.3)", BF), ("cast(%4)", F)], [("cast(%a.2)", F), ("cast(%b.3)", F), ("add(%4, %5)", F)]),
    (False, [("cast(%a.2)", F), ("cast(%b.3)", F), ("add(%4, %5)", F)], [("add(%a.2, %b.3)", BF), ("cast(%4)", F)]),
    (False, [("add(%x.0, %y.1)", F), ("cast(%4)", BF)], [("cast(%x.0)", BF), ("cast(%y.1)", BF), ("add(%4, %5)", BF)]),
    # A value that was converted to a wider dtype and back is the same value, in both programs; a
    # value that was rounded is not.
    (True, [("sin(%a.2)", BF)], [("cast(%a.2)", F), ("cast(%4)", BF), ("sin(%5)", BF)]),
    (True, [("cast(%a.2)", F), ("cast(%4)", BF), ("sin(%5)", BF)], [("sin(%a.2)", BF)]),
    (False, [("sin(%a.2)", BF)], [("cast(%a.2)", "f16[e=3]"), ("cast(%4)", BF), ("sin(%5)", BF)]),
    (False, [("sin(%a.2)", BF)], [("cast(%a.2)", F), ("cast(%4)", "f16[e=3]"), ("cast(%5)", BF), ("sin(%6)", BF)]),
    # The program also uses the cast of a term alone.
    (True, WIDE_BESIDE, [("cast(%a.2)", F), ("cast(%b.3)", F), ("add(%4, %5)", F), ("add(%5, %6)", F)]),
    (True, WIDE_BESIDE, [("cast(%b.3)", F), ("add(%a.2, %b.3)", BF), ("cast(%5)", F), ("add(%6, %4)", F)]),
    (False, WIDE_BESIDE, [("cast(%a.2)", F), ("cast(%b.3)", F), ("add(%4, %5)", F), ("add(%4, %6)", F)]),
    (False, WIDE_BESIDE, [("add(%b.3, %b.3)", BF), ("cast(%4)", F), ("cast(%a.2)", F), ("add(%5, %6)", F)]),
    (False, WIDE_BESIDE, [("add(%a.2, %b.3)", BF), ("add(%b.3, %4)", BF), ("cast(%5)", F), ("add(%6, %7)", F)]),
    (False, [("cast(%a.2)", F), ("cast(%b.3)", F), ("add(%4, %5)", F), ("add(%5, %6)", F)], WIDE_BESIDE),
    (False, [("add(%x.0, %y.1)", F), ("cast(%4)", BF), ("cast(%y.1)", BF), ("add(%6, %5)", BF)],
     [("cast(%x.0)", BF), ("cast(%y.1)", BF), ("add(%4, %5)", BF), ("add(%5, %6)", BF)]),
]
# A gradient on two ranks, which is exchanged in another dtype if the program says so.
CROSSES = """store 0 : param f32[h=8] path=p
store 1 : grad f32[h=8] path=p of=0
func grad : entry @1:1-2 {
  %x.0 = input() : f32[b=4, h=8] text=x @1:1-2
  %1 = reduce[b](%x.0) : f32[h=8] @1:1-2
  return %1
}
func update : entry @1:1-2 {
  %0 = param() : f32[h=8] text=p store=1 @1:1-2
  %1 = neg(%0) : f32[h=8] @1:1-2
  return %1
}
entry grad : grad {
  result store=1
}
entry update : update {
  result store=0
}
"""
CROSSINGS = [  # whether it holds, what the program says, how the gradient is exchanged
    (True, "bf16", "bf16"), (False, "bf16", "f16"), (False, "f16", "bf16"), (False, "", "bf16"), (False, "", "i32"),
    (False, "bf16", "i32"), (True, "bf16", "f32"), (True, "", "f32"),
]
# An activation that ranks add up, and from which a gradient is computed: it may not be rounded,
# whatever its sum is marked as. The same for a value that the gradient adds, in the loop that adds
# it.
ACTIVATION = """store 0 : param f32[h=8] path=p
store 1 : grad f32[h=8] path=p of=0
func body : body @1:1-2 {
  arg %0 : i32[]
  arg %1 : f32[h=8] means=2
  arg %2 : f32[b=4, h=8]
  %3 = reduce[b](%2) : f32[h=8] means=4 @1:1-2
  %4 = add(%1, %3) : f32[h=8] means=5 @1:1-2
  return %4
}
func grad : entry @1:1-2 {
  %x.0 = input() : f32[b=4, k=6] text=x @1:1-2
  %y.1 = input() : f32[k=6, h=8] text=y @1:1-2
  %2 = dot[k](%x.0, %y.1) : f32[b=4, h=8] means=8 @1:1-2
  %3 = sin(%2) : f32[b=4, h=8] means=9 @1:1-2
  %4 = reduce[b](%2) : f32[h=8] means=10 @1:1-2
  %5 = loop(%4, %3) : f32[h=8] func=body loop(label=l axis=a count=2 carried=1 invariant=1) @1:1-2
  return %5
}
func update : entry @1:1-2 {
  %0 = param() : f32[h=8] text=p store=1 @1:1-2
  %1 = neg(%0) : f32[h=8] @1:1-2
  return %1
}
entry grad : grad {
  result store=1
}
entry update : update {
  result store=0
}
"""
SUMMED = """  %N = cast(%X) : bf16[A]{sum m} @1:1-2
  %M = all_reduce(%N) : bf16[A] gradients mesh={m} @1:1-2
  %L = cast(%M) : f32[A] @1:1-2
"""
# whether it holds, what is exchanged in 16 bits
ACTIVATIONS = [(False, "the activation, marked"), (True, "the gradient"), (True, "nothing")]
STATE = """store 0 : state f32[h=8] path=s
store 1 : next f32[h=8] path=s of=0
func grad : entry @1:1-2 {
  %0 = param() : f32[h=8] text=s store=0 @1:1-2
  %1 = exp(%0) : f32[h=8] @1:1-2
  return %1
}
func update : entry @1:1-2 {
  %0 = param() : f32[h=8] text=s store=1 @1:1-2
  return %0
}
entry grad : grad {
  result store=1
}
entry update : update {
  result store=0
}
"""
STATE_STAGES = """mesh pipe=2
store 0 : state f32[h=8] path=s stage=0
store 1 : state f32[h=8] path=s stage=1
store 2 : next f32[h=8] path=s of=1 stage=1
func grad.f0 : entry @1:1-2 {
}
func grad.f1 : entry @1:1-2 {
  %0 = param() : f32[h=8] text=s store=1 @1:1-2
  %1 = exp(%0) : f32[h=8] @1:1-2
  return %1
}
func update.0 : entry @1:1-2 {
  %0 = param() : f32[h=8] text=s store=0 @1:1-2
  %1 = const() : f32[] @1:1-2
  %2 = expand(%1) : f32[h=8] @1:1-2
  %3 = all_reduce(%2) : f32[h=8] mesh={pipe} stages=(0, 1) @1:1-2
  return %3
}
func update.1 : entry @1:1-2 {
  %0 = param() : f32[h=8] text=s store=2 @1:1-2
  %1 = all_reduce(%0) : f32[h=8] mesh={pipe} stages=(0, 1) @1:1-2
  return %1
}
entry grad.f0 : grad.f0 stage=0 {
}
entry grad.f1 : grad.f1 stage=1 {
  result store=2
}
entry update.0 : update.0 stage=0 {
  result store=0
}
entry update.1 : update.1 stage=1 {
  result store=1
}
pipeline "1f1b" mesh=pipe stages=(0, 1) micro=1 {
  run grad {
    piece 0 : f=grad.f0
    piece 1 : f=grad.f1
    stage 0 : "0F0"
    stage 1 : "1F0"
  }
}
"""
STATES = [  # what the test is about, in the stages' update of a state, and the change that is made
    ("holds",),
    ("stored on 1 of 2 stages", "  return %3\n", "", "stage=0 {\n  result store=0\n", "stage=0 {\n"),
    ("stored on 1 of 2 stages", "  return %1\n}\nentry", "}\nentry",
     "stage=1 {\n  result store=1\n", "stage=1 {\n"),
    # stage 0 keeps its old value, uses 0, or adds something
    ("is not what", "return %3", "return %0"),
    ("is not what", "return %3", "return %2"),  # takes 0,
    ("is not what", "all_reduce(%2)", "all_reduce(%0)"),  # or adds something
    ("is not what", "%1 = all_reduce(%0) : f32[h=8]", "%1 = exp(%0) : f32[h=8] @1:1-2\n  %2 = all_reduce(%1) : f32[h=8]",
     "  return %1\n}\nentry", "  return %2\n}\nentry"),
    ("before all of the step", "  result store=2", "  result store=1", "  return %1\n}\nentry", "}\nentry",
     "update.1 stage=1 {\n  result store=1\n", "update.1 stage=1 {\n"),
    ("reads what no entry leaves", "  return %1\n}\nfunc update.0", "}\nfunc update.0", "  result store=2\n", ""),
]
STORE = "store 0 : param f32[h=8] path=p\n"
OWN_TERMS = """func predict : entry @1:1-2 {
  %x.0 = input() : f32[b=4, h=8] text=x @1:1-2
  %1 = reduce[b](%x.0) : f32[h=8] @1:1-2
  %2 = terms[w](%1) : f32[w=2, h=8] @1:1-2
  %3 = reduce[w](%2) : f32[h=8] @1:1-2
  return %3
}
entry predict : predict {
  result name=y
}
"""
OWN_TERMS_ROWS = [  # whether it holds; the splits of b and of w; what is pending after sum and terms; changes of the text
    (True, "m", "w=2/m", "{sum m}", "", ()),
    (True, "m.n", "w=4/m.n", "{sum m n}", "", ()),
    (True, "m.n", "w=2/m", "{sum m n}", "{sum n}", ()),
    (False, "m", "w=2/n", "{sum m}", "", ()),         # not the ranks that have terms
    (False, "m", "w=2", "{sum m}", "", ()),           # nothing has all terms
    (False, "m", "w=4/m", "{sum m}", "", ()),         # two terms on a rank
    (False, "m", "w=2/m", "{sum m}", "{sum m}", ()),  # still pending
    (False, "m.n", "w=2/m", "{sum m n}", "", ()),     # forgets the other sum
    (False, "", "w=2", "", "", ()),                   # there are ranks, and no terms
    # more than that they add up to the sum is not known of terms: not that all are equal
    (False, "m", "w=2/m", "{sum m}", "", (("reduce[w](%2)", "expand(%1)"),)),
    (False, "m", "w=2/m", "{sum m}", "", (("terms[w](%1) : f32[", "expand(%1) : f32["),)),
]


def program(row, mesh):
    _, operand, op, types, attributes = row
    results = types.count("[")
    names = ", ".join("%%%d" % (1 + i) for i in range(results))
    body = X.format(operand) + "  %s = %s : %s %s @1:1-2\n" % (names, op, types, attributes)
    text = "func predict : entry @1:1-2 {\n%s  return %%%d\n}\n" % (body, results)
    return mesh + text + "entry predict : predict {\n  result name=y\n}\n"


def serial(text):
    """The same program without placement."""
    return re.sub(r"/[mn.]+~?", "", text) if "mesh={" not in text else re.sub(
        r" = (?:all_gather|shard)\(", " = stop(", re.sub(r"/[mn.]+~?| mesh=\{\w\}", "", text))


def own_terms(row):
    """The terms of a sum, and what ranks have of them."""
    _, split, axis, pending, left, changes = row
    extent = axis.split("/")[0]
    first = OWN_TERMS.replace("w=2", extent)
    final = first.replace("b=4", "b=4/" + split if split else "b=4").replace("  %1 = reduce[b](%x.0) : f32[h=8]",
                                                                           "  %1 = reduce[b](%x.0) : f32[h=8]" + pending)
    final = final.replace(extent + ", h=8]", axis + ", h=8]" + left)
    mesh = re.findall("[mn]", (axis.split("/") + [""])[1])
    over = " ".join(sorted(mesh + re.findall("[mn]", left.replace("sum", ""))))
    final = final.replace("reduce[w](%2) : f32[h=8]", "reduce[w](%2) : f32[h=8]" + ("{sum %s}" % over if over else ""))
    final = final.replace("  return %3", "  %%4 = all_reduce(%%3) : f32[h=8] mesh={%s} @1:1-2\n  return %%4" % over if over else "  return %3")
    for old, new in changes:
        assert old in final
        final = final.replace(old, new)
    return first, MESH + final


def ring(row):
    """A ring call, and the serial program for it."""
    _, keys, values, made, p, pending, mesh, is_time = row
    made += "" if "{" not in made else "}"
    body = RING.format(keys=keys, values=values, made=made, p=p, pending=pending, mesh=mesh).replace("}]", "}")
    serial = re.sub(r"/[mn.]+~?|\{sum [mn ]+\}| mesh=\{[mn ]+\}", "", body).replace("call[q]", "call")
    return serial, (MESH.replace("m=2", "m=2 time") if is_time else MESH) + body


def ops(text):
    """For each op: function, number in the text, kind with attributes, operands."""
    number, func, found = 1, "", []
    for line in text.split("\n"):
        func = line.split()[1] if line.startswith("func ") else func
        number += bool(re.match(r"  (?:arg|param) %", line))
        if line.startswith("  %"):
            results, rest = line.strip().split(" = ", 1)
            op = re.match(r"(\w+(?:\[[^]]*\])?)\((.*?)\) : (.*)", rest)
            attributes = re.sub(r"(bool|[a-z]+\d+)\[[^]]*\](\{[^}]*\})?,? ?| mesh=\{[^}]*\}|@\S+", "", op.group(3))
            kind = op.group(1).replace("call[q]", "call") + " " + attributes.strip()
            found.append((func, number, kind, op.group(2)))
            number += results.count("%")
    return found


LIKE = {"again": "first"}  # a body that runs another one again


def meant(first, final):
    """The text `final`, in which each op says that it means an equal op of `first`: one of the same
    function, with these operands, if there is one."""
    lines, mine, serial, func = [], iter(ops(final)), ops(first), ""
    carried = {}  # the numbers of carried values of loops, by function and place
    number = 1
    for line in first.split("\n"):
        func = line.split()[1] if line.startswith("func ") else func
        if re.match(r"  (?:arg|param) %", line):
            carried.setdefault(func, []).append(number)
        number += line.split(" = ")[0].count("%") if line.startswith("  %") else bool(re.match(r"  (arg|param) %", line))
    bodies = dict(re.findall(r" func=(\w+) loop\(.* carried=(\d+)", final))
    for line in final.split("\n"):
        func = line.split()[1] if line.startswith("func ") else func
        arg = re.match(r"  arg %\w+\.(\d+) : [^@]*$", line)
        if arg and func in bodies and func in carried and 1 <= int(arg.group(1)) <= int(bodies[func]):
            line += " means=%d" % carried[LIKE.get(func, func)][int(arg.group(1))]
        if line.startswith("  %"):
            here, _, kind, operands = next(mine)
            here = LIKE.get(here, here)
            same = [op for op in serial if op[2] == kind]
            same = [op for op in same if op[0] == here] or same
            same = [op for op in same if op[3] == operands] or same
            if same and operands and not kind.startswith("loop"):
                line = re.sub(r"( @1:1-2|)$", r" means=%d\1" % same[0][1], line, count=1)
        lines.append(line)
    return "\n".join(lines)


def prove(prover, folder, first, final):
    """The verdict of the certificate when values say what they mean."""
    return verdict_of([prover], folder, first, meant(first, final))


def verdict_of(command, folder, first, final):
    paths = [os.path.join(folder, name) for name in ("serial.ir", "final.ir")]
    for path, text in zip(paths, (first, final)):
        with open(path, "w") as file:
            file.write(text)
    return subprocess.run(command + paths, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def sums(row):
    """The op of a sum; the sum of the op's results."""
    _, op, type_, attributes, term = row
    head = "func predict : entry @1:1-2 {\n" + PARTS
    head += "  %7 = const() : f32[] number=0 @1:1-2\n  %8 = lt(%7, %s.3) : bool[e=3] @1:1-2\n"
    tail = "  return %{0}\n}}\nentry predict : predict {{\n  result name=y\n}}\n"
    second = {"c": "%c.5", "d": "%d.6"}[term]
    line = "  %%%d = %s : %s %s @1:1-2\n"
    whole = "  %%9 = add(%%a.4, %s) : f32[b=4, e=3] @1:1-2\n" % second + line % (10, op.format("%9"), type_, attributes)
    apart = line % (9, op.format("%a.4"), type_, attributes)
    if term == "c":
        apart += line % (10, op.format(second), type_, attributes)
    last, other = (11, "%10") if term == "c" else (10, second)
    apart += "  %%%d = add(%%9, %s) : %s @1:1-2\n" % (last, other, type_)
    return head + whole + tail.format(10), head + apart + tail.format(last)


def terms(ops, results):
    lines, axes = [], {}
    for n, op in enumerate(ops):
        operand = re.search(r"%(\d+)[,)]", op)
        axes[7 + n] = E if "reduce" in op or (operand and axes[int(operand.group(1))] == E) else B
        lines.append("  %%%d = %s : %s @1:1-2\n" % (7 + n, op, axes[7 + n]))
    return "func predict : entry @1:1-2 {\n" + PARTS + "".join(lines) + "  return %s\n}\nentry predict : predict {\n%s}\n" % (
        ", ".join("%%%d" % n for n in results), "".join("  result name=y%d\n" % n for n, _ in enumerate(results)))


def long_sum(terms, halves):
    """A sum of a chain of sines that adds one term after the other, or halves of halves."""
    lines = ["func predict : entry @1:1-2 {", "  %x.0 = input() : f32[b=4] text=x @1:1-2"]
    lines += ["  %%%d = sin(%%%s) : f32[b=4] @1:1-2" % (n, n - 1 if n > 1 else "x.0") for n in range(1, 302)]
    operands = ["%%%d" % (n + 1) for n in terms]
    while len(operands) > 1:
        sums = []
        for n in range(0, len(operands) - 1 if halves else 1, 2):
            sums.append("%%%d" % (len(lines) - 1))
            lines.append("  %s = add(%s, %s) : f32[b=4] @1:1-2" % (sums[-1], operands[n], operands[n + 1]))
        operands = sums + operands[2 * len(sums):]
    tail = "  return %s\n}\nentry predict : predict {\n  result name=y\n}\n" % operands[0]
    return "\n".join(lines) + "\n" + tail


def loops(row):
    """What the first loop computes; and what the second loop computes, which reads the first one's
    results."""
    text = LOOP.replace("BODY", row[1]).replace("START", row[2]).replace("LABEL", row[3])
    text = text.replace("COUNT", "axis=h count=5 carried=1")
    return text.replace("RETURN", "%1, %2"), text.replace("RETURN", "%5, %6")


# A window of two over an axis that two ranks share. On the second rank it begins with the first
# rank's last row. Given is what the second rank has in place of that row, plus a sum of a number
# over each rank's own last row.
HALO = MESH + """func predict : entry @1:1-2 {
  %x.0 = input() : f32[h=8/m] text=x @1:1-2
  %1 = relabel(%x.0) : f32["@h"=2/m, "@h.part"=4] relabel(h -> "@h"=2, "@h.part"=4) @1:1-2
  %2 = slice["@h.part"](%1) : f32["@h"=2/m, "@h.part"=1] ranges=(3 0 1 1) @1:1-2
  %3 = iota["@h"]() : i32["@h"=2/m] @1:1-2
  %4 = const() : i32[] @1:1-2
  %5 = eq(%3, %4) : bool["@h"=2/m] @1:1-2
  %6 = const() : f32[] @1:1-2
  EDGE
  %8 = where(%5, %6, %7) : f32["@h"=2/m, "@h.part"=1] @1:1-2
  %9 = concat["@h.part"](%8, %1) : f32["@h"=2/m, "@h.part"=5] @1:1-2
  %10 = window["@h.part", w](%9) : f32["@h"=2/m, "@h.part"=4, w=2] ranges=(0 0 1 2) @1:1-2
  %11 = relabel(%10) : f32[h=8/m, w=2] relabel("@h", "@h.part" -> h=8) means=2 @1:1-2
  return %11
}
entry predict : predict {
  result name=y
}
"""
HALOS = [  # whether it holds, what the edge is, without its result
    (True, 'shift(%2) : f32["@h"=2/m, "@h.part"=1] mesh={m}'),
    (False, "stop(%2) : f32[\"@h\"=2/m, \"@h.part\"=1]"),
    (False, 'neg(%2) : f32["@h"=2/m, "@h.part"=1]'),
    # a number that stood for that row when everybody knew the numbers with which the proof tries
    # values
    (False, 'where(%5, %2, %7) : f32["@h"=2/m, "@h.part"=1]', "const() : f32[] number=800276656075170769"),
]


def halos(row):
    """The window over the whole axis, and what ranks have for it."""
    edge = "%%7 = %s @1:1-2" % row[1]
    if len(row) > 2:
        edge = "%%7 = %s @1:1-2\n  %%8 = %s @1:1-2" % (row[2], row[1])
    final = HALO.replace("EDGE", edge)
    if len(row) > 2:  # one more value: later values have numbers that are one higher
        head, tail = final.split(edge)
        final = head + edge + re.sub(r"%(7|8|9|10|11)\b", lambda m: "%%%d" % (int(m.group(1)) + 1), tail)
    whole = """func predict : entry @1:1-2 {
  %x.0 = input() : f32[h=8] text=x @1:1-2
  %1 = window[h, w](%x.0) : f32[h=8, w=2] ranges=(1 0 1 2) @1:1-2
  return %1
}
entry predict : predict {
  result name=y
}
"""
    return whole, final


def nested(levels, turns):
    """Loops in loops, twice: what two loops carry begins alike at every level, and what they are given differs. Every
    second one may go the other way."""
    lines, firsts, number = [], [], 1
    loop = "%%%d = loop(%s, %s) : f32[e=3] func=n%d loop(label=h%d axis=h%d count=2 carried=1 invariant=1%s) @1:1-2"
    zero = ["  %{0} = const() : f32[] number=0 @1:1-2", "  %{1} = expand(%{0}) : f32[e=3] @1:1-2"]
    for k in range(levels):
        firsts.append(number + 1)
        body = ["  %3 = mul(%x.2, %c.1) : f32[e=3] @1:1-2"] + [line.format(4, 5) for line in zero]
        body += ["  " + loop % (6, "%5", "%3", k + 1, k + 1, k + 1, " reverse" if turns and k % 2 else "")]
        if k == levels - 1:
            body = body[:-1] + ["  %6 = sin(%x.2) : f32[e=3] @1:1-2"]
        lines += ["func n%d : body @1:1-2 {" % k, "  arg %i.0 : i32[]", "  arg %%c.1 : f32[e=3] means=%d" % firsts[k],
                  "  arg %x.2 : f32[e=3]"] + body + ["  %7 = mul(%c.1, %6) : f32[e=3] @1:1-2", "  return %7", "}"]
        number += 8
    lines += ["func predict : entry @1:1-2 {", X.format("e=3")[:-1], "  %1 = neg(%x.0) : f32[e=3] @1:1-2"]
    lines += [line.format(2, 3) for line in zero]
    lines += ["  " + loop % (4 + i, "%3", x, 0, 0, 0, "") for i, x in enumerate(("%x.0", "%1"))]
    lines += ["  %6 = sub(%4, %5) : f32[e=3] @1:1-2", "  return %6", "}", "entry predict : predict {", "  result name=y", "}", ""]
    return "\n".join(lines)


def doubled(levels):
    """Functions each of which calls the next one twice."""
    lines = []
    for k in range(levels):
        calls = ["  %1 = sin(%x.0) : f32[e=3] @1:1-2", "  return %1"]
        if k < levels - 1:
            calls = ["  %%1 = call(%%x.0) : f32[e=3] func=d%d @1:1-2" % (k + 1),
                     "  %%2 = call(%%1) : f32[e=3] func=d%d @1:1-2" % (k + 1), "  return %2"]
        lines += ["func d%d : fn @1:1-2 {" % k, "  arg %x.0 : f32[e=3]"] + calls + ["}"]
    lines += ["func predict : entry @1:1-2 {", X.format("e=3")[:-1], "  %1 = call(%x.0) : f32[e=3] func=d0 @1:1-2",
              "  return %1", "}", "entry predict : predict {", "  result name=y", "}", ""]
    return "\n".join(lines)


def deep(prover, folder):
    """Returns the failures: cases that must take no time, cases that are refused in the end, and the
    same with another innermost op."""
    failed = 0
    for turns in (False, True):
        text = nested(40, turns)
        verdicts = [verdict_of([prover], folder, re.sub(" means=[0-9]+", "", text), final)
                    for final in (text, text.replace("sin(", "cos("))]
        if verdicts[0] != "holds" or not verdicts[1].startswith("fails: "):
            failed += 1
            print("FAIL loops in loops: %s" % verdicts)
    verdict = verdict_of([prover], folder, doubled(40), doubled(40))
    if "so often are not followed" not in verdict:
        failed += 1
        print("FAIL functions that call twice: %s" % verdict)
    return failed


def rounded(ops):
    lines = ["func predict : entry @1:1-2 {"]
    lines += ["  %%%s = input() : %s text=%s @1:1-2" % (name, type_, name[0])
              for name, type_ in (("x.0", F), ("y.1", F), ("a.2", BF), ("b.3", BF))]
    lines += ["  %%%d = %s : %s @1:1-2" % (4 + i, op, type_) for i, (op, type_) in enumerate(ops)]
    return "\n".join(lines + ["  return %%%d" % (3 + len(ops)), "}", "entry predict : predict {", "  result name=y", "}", ""])


def summed(x, n, axes):
    """Lines that sum value x over ranks in 16 bits; they make values n and, for the sum, n + 2."""
    return (SUMMED.replace("%X", "%%%d" % x).replace("%N", "%%%d" % n).replace("%M", "%%%d" % (n + 1))
            .replace("%L", "%%%d" % (n + 2)).replace("[A]", "[%s]" % axes))


def activation(row):
    """Both texts. In the placed program ranks share the samples, or the axis over which the activation
    sums."""
    serial = "crossing bf16\n" + re.sub(r" means=\d+", "", ACTIVATION)
    if row[1] == "the gradient":
        placed = ACTIVATION.replace("[b=4", "[b=4/m").replace("reduce[b](%2) : f32[h=8]", "reduce[b](%2) : f32[h=8]{sum m}")
        placed = placed.replace("  %4 = add(%1, %3) ", summed(3, 4, "h=8") + "  %7 = add(%1, %6) ").replace("return %4", "return %7")
        placed = placed.replace("  %5 = loop(%4, %3)", summed(4, 5, "h=8") + "  %8 = loop(%7, %3)")
        return serial, MESH + placed.replace("return %5", "return %8")
    sums = summed(2, 3, "b=4, h=8") if row[1] != "nothing" else (
        "  %3 = neg(%2) : f32[b=4, h=8]{sum m} @1:1-2\n"
        "  %4 = neg(%3) : f32[b=4, h=8]{sum m} @1:1-2\n"
        "  %5 = all_reduce(%2) : f32[b=4, h=8] mesh={m} @1:1-2\n")
    placed = ACTIVATION.replace("k=6", "k=6/m").replace("f32[b=4, h=8] means=8", "f32[b=4, h=8]{sum m} means=8")
    placed = placed.replace("  %3 = sin(%2)", sums + "  %6 = sin(%5)").replace("  %4 = reduce[b](%2) : f32[h=8] means=10",
                                                                            "  %7 = reduce[b](%5) : f32[h=8] means=10")
    placed = placed.replace("  %5 = loop(%4, %3)", "  %8 = loop(%7, %6)").replace("return %5", "return %8")
    return serial, MESH + placed


def crossing(row):
    _, said, dtype = row
    serial = ("crossing %s\n" % said if said else "") + CROSSES
    placed = serial.replace("b=4, h=8", "b=4/m, h=8").replace("  %1 = reduce[b](%x.0) : f32[h=8]",
                                                              "  %1 = reduce[b](%x.0) : f32[h=8]{sum m}")
    placed = placed.replace("grad f32[h=8]", "grad f32[h=8]{sum m}")
    sums = """  %0 = param() : f32[h=8]{sum m} text=p store=1 @1:1-2
  %1 = cast(%0) : DTYPE[h=8]{sum m} @1:1-2
  %2 = all_reduce(%1) : DTYPE[h=8] text=gradients gradients mesh={m} @1:1-2
  %3 = cast(%2) : f32[h=8] @1:1-2
  %4 = neg(%3) : f32[h=8] @1:1-2
  return %4""".replace("DTYPE", dtype)
    old = "  %0 = param() : f32[h=8] text=p store=1 @1:1-2\n  %1 = neg(%0) : f32[h=8] @1:1-2\n  return %1"
    assert old in placed
    return serial, MESH + placed.replace(old, sums)


def parts_of(ops, count=4):
    lines = "".join("  %%%d = %s @1:1-2\n" % (8 + i, op) for i, op in enumerate(ops))
    return PARTS_OF.replace("OPS", lines).replace("RESULT", "%%%d" % (7 + len(ops))).replace("COUNT", str(count))


def ranges(row):
    """One loop, and two loops that share its iterations."""
    texts = []
    for head, number, ops in ((ALL, 3, row[1]), (HALVES, 5, row[2])):
        lines = "".join("  %%%d = %s\n" % (number + i, op) for i, op in enumerate(ops))
        texts.append(RANGE.replace("LOOPS", "%s%s  return %%%d\n" % (head, lines, number + len(ops) - 1)))
    return texts


def main(prover):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            first, final = program(row, ""), program(row, MESH)
            if "mesh={" in final:  # a value that is only moved
                first = re.sub(r"return %1", "return %x.0", serial(first))
            verdict = prove(prover, folder, serial(first), final)
            if (verdict == "holds") != row[0]:
                failed += 1
                print("FAIL %s of %s: %s" % (row[2], row[1], verdict))
        for row in LINEAR + AGAIN:
            verdict = prove(prover, folder, *(sums if row in LINEAR else loops)(row))
            refused = re.search("is not what|does not become what|no loop of the serial program|does not begin with", verdict)
            if (verdict == "holds") != row[0] or (refused is not None) == row[0]:
                failed += 1
                print("FAIL %s: %s" % (" ".join(row[1:]), verdict))
        for row in TERMS:
            verdict = prove(prover, folder, terms(*row[1:3]), terms(*row[3:5]))
            if (verdict == "holds") != row[0] or (not row[0] and "is not what" not in verdict):
                failed += 1
                print("FAIL %s for %s: %s" % ("; ".join(row[3]), "; ".join(row[1]), verdict))
        for row in OWN_TERMS_ROWS:
            verdict = prove(prover, folder, *own_terms(row))
            if (verdict == "holds") != row[0]:
                failed += 1
                print("FAIL terms %s: %s" % (", ".join(map(str, row[1:])), verdict))
        for row in ZEROS:
            verdict = verdict_of([prover], folder, ZERO, zeros(row))
            if (verdict == "holds") != row[0] or (not row[0] and "is not what" not in verdict):
                failed += 1
                print("FAIL roots %s: %s" % (row, verdict))
        for row in HALOS:
            verdict = prove(prover, folder, *halos(row))
            if (verdict == "holds") != row[0]:
                failed += 1
                print("FAIL halo of %s: %s" % (row[1], verdict))
        whole, final = halos(HALOS[0])
        for text, old, new, message in (
            (final, "means=2 @", "means=4294967297 @", "smaller number"),
            (STATE_STAGES, "stages=(0, 1) @", "stages=(64, 65) @", "a stage that is not one of them"),
            (STATE_STAGES, "stages=(0, 1) @", "stages=(0 to 2) @", "a stage that is not one of them"),
            (STATE_STAGES, "stages=(0, 1) @", "stages=(0 to 1024) @", "smaller number"),
        ):
            verdict = verdict_of([prover], folder, whole, text.replace(old, new))
            if old not in text or message not in verdict:
                failed += 1
                print("FAIL %s: %s" % (new.strip(), verdict))
        for holds, first, final in LONG_SUMS:
            for halves in (False, True):
                verdict = prove(prover, folder, long_sum(first, False), long_sum(final, halves))
                if (verdict == "holds") != holds or (not holds and "is not what" not in verdict):
                    failed += 1
                    print("FAIL sums of %d and %d terms: %s" % (len(first), len(final), verdict))
        for row in RANGES:
            verdict = prove(prover, folder, *ranges(row))
            refused = "is not what" in verdict or "of different iterations" in verdict
            if (verdict == "holds") != row[0] or refused == row[0]:
                failed += 1
                print("FAIL %s for %s: %s" % ("; ".join(row[2]), "; ".join(row[1]), verdict))
        for row in PARTS_ROWS:
            verdict = prove(prover, folder, parts_of(row[1]), parts_of(*row[2:]))
            refused = re.search("is not what|it should|not for all iterations", verdict)
            if (verdict == "holds") != row[0] or (refused is not None) == row[0]:
                failed += 1
                print("FAIL %s for %s: %s" % ("; ".join(row[2]), "; ".join(row[1]), verdict))
        for row in GROWS:
            text = GROWN.replace("OF", row[1])
            verdict = prove(prover, folder, *(text.replace("CUT", cut) for cut in ("0 2 1 2", row[2])))
            if (verdict == "holds") != row[0] or (not row[0] and "is not what" not in verdict):
                failed += 1
                print("FAIL a cut at %s of %s, which a loop carries: %s" % (row[2], row[1], verdict))
        for row in RINGS:
            verdict = prove(prover, folder, *ring(row))
            if (verdict == "holds") != row[0]:
                failed += 1
                print("FAIL ring of %s: %s" % (", ".join(map(str, row[1:])), verdict))
        for row in DEALS:
            first = RANGE.replace("LOOPS", DEAL + "  %3 = reduce[e](%2) : f32[h=8] @1:1-2\n  return %3\n")
            final = MESH + RANGE.replace("LOOPS", DEAL + DEALT.format(*row[1:]))
            verdict = prove(prover, folder, first, final)
            if (verdict == "holds") != row[0]:
                failed += 1
                print("FAIL buckets dealt out as %s: %s" % (", ".join(row[1:]), verdict))
        for row in STATES:
            text = STATE_STAGES
            for old, new in zip(row[1::2], row[2::2]):
                assert text.count(old) == 1, old
                text = text.replace(old, new)
            verdict = prove(prover, folder, STATE, text)
            if row[0] not in verdict:
                failed += 1
                print("FAIL state on two stages, %s: %s" % (row, verdict))
        for row in ROUNDS + CROSSINGS + ACTIVATIONS:
            texts = (rounded(row[1]), rounded(row[2])) if row in ROUNDS else (crossing if row in CROSSINGS else activation)(row)
            verdict = prove(prover, folder, *texts)
            if (verdict == "holds") != row[0]:
                failed += 1
                print("FAIL %s: %s" % (" as ".join(map(str, row[1:])), verdict))
        failed += deep(prover, folder)
        keeps = STORE + program(ROWS[0], "")
        writes = keeps.replace("  return %1", "  %2 = param() : f32[h=8] text=p store=0 @1:1-2\n  %3 = neg(%2) : f32[h=8] @1:1-2\n"
                               "  return %1, %3").replace("name=y\n", "name=y\n  result store=0\n")
        verdict = prove(prover, folder, serial(keeps), serial(writes))
        if "is stored before all of the step have read it" not in verdict:
            failed += 1
            print("FAIL a parameter is overwritten: %s" % verdict)
    print("%d passed, %d failed" % (len(ROWS + LINEAR + AGAIN + TERMS + OWN_TERMS_ROWS + ZEROS + 2 * LONG_SUMS + RANGES + PARTS_ROWS + GROWS + RINGS + DEALS + STATES + ROUNDS + CROSSINGS + ACTIVATIONS) + 4 - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
