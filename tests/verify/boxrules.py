#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which functions the proof of boxes considers equal: boxrules.py BOXED

Pairs of functions of a few lines, each with the verdict that is right. Those that differ do so only
where a test with few positions, few integers or random numbers might not look: a writer who wants
to be believed would write them.
"""
import os
import re
import subprocess
import sys
import tempfile

# arguments: x a float with a long axis, y one number, n one integer, i integers along a long axis,
# p with few ranks
TYPES = {
    "x": "f32[s=4096]", "y": "f32[]", "z": "f32[]", "n": "i32[]", "k": "i32[]", "i": "i32[b=64]", "t": "f32[s=4096/m]",
    "u": "f32[s=64]", "l": "f32[s=9000]", "f": "f32[s=64, w=3]", "b": "bool[s=4096]", "v": "f32[s=4096, e=3]",
    "r": "bf16[]", "o": "bf16[d=1]", "g": "f32[c=6, e=2]", "h": "f32[c=64, e=2]",
    "a": "bool[q=8]", "c": "bool[q=8]", "m": "f32[b=8, h=8]", "d": "f32[b=8]", "p": "f32[b=8/n, h=8]",
    "q": "f32[s=500000000]", "e": "f32[g=2]", "w": "f32[b=64]", "j": "i32[b=8]",
}
LESS = """func {0} : fn @1:1-2 {{
  arg %a.0 : f32[s=4096]
  arg %b.1 : f32[]
  %2 = {0}(%a.0, %b.1) : bool[s=4096] @1:1-2
  return %2
}}
"""
ADDS = """func adds : body @1:1-2 {
  arg %step.0 : i32[]
  arg %sum.1 : f32[]
  arg %x.2 : f32[]
  %3 = add(%sum.1, %x.2) : f32[] @1:1-2
  return %3, %3
}
"""
# name, right, arguments, type of the result, functions that both have, the lines of each. A line is "OP : TYPE ATTRIBUTES",
# whose value is the next number behind the arguments, or "N OP : TYPES ATTRIBUTES" with N of them; the last one is left.
ROWS = [
    ("the same", True, "x", "f32[]", "", ["reduce[s](%0) : f32[]"], ["reduce[s](%0) : f32[]"]),
    ("a sum of products", True, "x", "f32[]", "",
     ["mul(%0, %0) : f32[s=4096]", "reduce[s](%1) : f32[]"], ["dot[s](%0, %0) : f32[]"]),
    # S1: the number of places at which the proof looks
    ("a count, of two places", False, "y", "f32[]", "",
     ["expand(%0) : f32[s=4096]", "reduce[s](%1) : f32[]"], ["const() : f32[] number=2", "mul(%0, %1) : f32[]"]),
    ("a count, rightly", True, "y", "f32[]", "",
     ["expand(%0) : f32[s=4096]", "reduce[s](%1) : f32[]"], ["const() : f32[] number=4096", "mul(%0, %1) : f32[]"]),
    ("a count of integers, of two places", False, "n", "i32[]", "",
     ["expand(%0) : i32[s=4096]", "reduce[s](%1) : i32[]"], ["const() : i32[] number=2", "mul(%0, %1) : i32[]"]),
    ("a count of integers, rightly", True, "n", "i32[]", "",
     ["expand(%0) : i32[s=4096]", "reduce[s](%1) : i32[]"], ["const() : i32[] number=4096", "mul(%0, %1) : i32[]"]),
    ("a count of positions, of those looked at", False, "y", "f32[]", "",
     ["iota[s]() : i32[s=4096]", "expand(%0) : f32[s=4096]", "reduce[s](%2) : f32[]"],
     ["iota[s]() : i32[s=4096]", "const() : f32[] number=5", "mul(%0, %2) : f32[]"]),
    ("the mean of a sum, twice weighted", False, "x y", "f32[]", "",
     ["expand(%1) : f32[s=4096]", "dot[s](%0, %2) : f32[]"],
     ["reduce[s](%0) : f32[]", "mul(%2, %1) : f32[]", "expand(%1) : f32[s=4096]", "reduce[s](%4) : f32[]",
      "add(%3, %5) : f32[]", "sub(%6, %5) : f32[]", "const() : f32[] number=2", "mul(%7, %8) : f32[]"]),
    ("rows added up at one place", True, "v", "f32[e=3]", "",
     ["reduce[s](%0) : f32[e=3]"],
     ["const() : i32[] number=0", "scatter_add[w; s](%0, %1) : f32[w=1, e=3]", "relabel(%2) : f32[e=3] relabel(w -> )"]),
    ("rows counted at one place, of two", False, "y", "f32[]", "",
     ["expand(%0) : f32[s=4096]", "const() : i32[] number=0", "scatter_add[w; s](%1, %2) : f32[w=1]",
      "relabel(%3) : f32[] relabel(w -> )"],
     ["const() : f32[] number=2", "mul(%0, %1) : f32[]"]),
    ("rows added up at one place or another", False, "y", "f32[s=4096]", "",
     ["const() : i32[] number=1717", "scatter_add[s; ](%0, %1) : f32[s=4096]"],
     ["const() : i32[] number=2718", "scatter_add[s; ](%0, %1) : f32[s=4096]"]),
    ("rows added up at one of few places or another", False, "e", "f32[s=4096]", "",
     ["iota[g]() : i32[g=2]", "const() : i32[] number=200", "add(%1, %2) : i32[g=2]",
      "scatter_add[s; g](%0, %3) : f32[s=4096]"],
     ["iota[g]() : i32[g=2]", "const() : i32[] number=300", "add(%1, %2) : i32[g=2]",
      "scatter_add[s; g](%0, %3) : f32[s=4096]"]),
    # integers as operands: some are equal at every place
] + [
    ("what has the same number, " + name, False, "%s %s" % of, "f32[%s]" % axis, "",
     ["relabel(%%0) : i32[t=%d] relabel(%s -> t=%d)" % (n, axis[0], n), "eq(%%0, %%2) : bool[%s, t=%d]" % (axis, n),
      "cast(%%3) : f32[%s, t=%d]" % (axis, n), "relabel(%%1) : f32[t=%d] relabel(%s -> t=%d)" % (n, axis[0], n),
      "dot[t](%%4, %%5) : f32[%s]" % axis],
     ["relabel(%%0) : i32[t=%d] relabel(%s -> t=%d)" % (n, axis[0], n), "eq(%%0, %%2) : bool[%s, t=%d]" % (axis, n),
      "iota[%s]() : i32[%s]" % (axis[0], axis), "iota[t]() : i32[t=%d]" % n, kind + "(%%5, %%4) : bool[%s, t=%d]" % (axis, n),
      "and(%%3, %%6) : bool[%s, t=%d]" % (axis, n), "cast(%%7) : f32[%s, t=%d]" % (axis, n),
      "relabel(%%1) : f32[t=%d] relabel(%s -> t=%d)" % (n, axis[0], n), "dot[t](%%8, %%9) : f32[%s]" % axis])
    for name, of, axis, n, kind in (("itself only", ("i", "w"), "b=64", 64, "eq"), ("before it only", ("i", "w"), "b=64", 64, "le"),
                                    ("itself only, of few", ("j", "d"), "b=8", 8, "eq"),
                                    ("before it only, of few", ("j", "d"), "b=8", 8, "le"))
] + [
    # refused at few positions, not evaluated at many
    ("the largest, but for one place", False, "x", "f32[]", "",
     ["reduce[s](%0) : f32[] reduce=max"],
     ["iota[s]() : i32[s=4096]", "const() : i32[] number=1717", "eq(%1, %2) : bool[s=4096]",
      "const() : f32[] number=-inf", "where(%3, %4, %0) : f32[s=4096]", "reduce[s](%5) : f32[] reduce=max"]),
    # lookups whose index grows faster than the position
    ("every second one", True, "u", "f32[w=64]", "",
     ["iota[w]() : i32[w=64]", "const() : i32[] number=2", "mul(%1, %2) : i32[w=64]", "gather[s](%0, %3) : f32[w=64]"],
     ["iota[w]() : i32[w=64]", "add(%1, %1) : i32[w=64]", "gather[s](%0, %2) : f32[w=64]"]),
    ("every second one, and the one behind", False, "u", "f32[w=64]", "",
     ["iota[w]() : i32[w=64]", "const() : i32[] number=2", "mul(%1, %2) : i32[w=64]", "gather[s](%0, %3) : f32[w=64]"],
     ["iota[w]() : i32[w=64]", "add(%1, %1) : i32[w=64]", "const() : i32[] number=1", "add(%2, %3) : i32[w=64]",
      "gather[s](%0, %4) : f32[w=64]"]),
    ("every third one for every second", False, "u", "f32[w=64]", "",
     ["iota[w]() : i32[w=64]", "const() : i32[] number=2", "mul(%1, %2) : i32[w=64]", "gather[s](%0, %3) : f32[w=64]"],
     ["iota[w]() : i32[w=64]", "const() : i32[] number=3", "mul(%1, %2) : i32[w=64]", "gather[s](%0, %3) : f32[w=64]"]),
    # axes that get another name, which a single place would not show
    ("two axes of one length exchanged", False, "m", "f32[b=8, h=8]", "",
     ["stop(%0) : f32[b=8, h=8]"],
     ["relabel(%0) : f32[h=8, b=8] relabel(b -> h=8) relabel(h -> b=8)", "stop(%1) : f32[b=8, h=8]"]),
    ("along the other axis", False, "d", "f32[b=8, h=8]", "",
     ["expand(%0) : f32[b=8, h=8]"], ["relabel(%0) : f32[h=8] relabel(b -> h=8)", "expand(%1) : f32[b=8, h=8]"]),
    # random numbers: which number an element gets depends on the names of axes
    ("numbers drawn, the axes in another order", True, "m", "f32[b=8, h=8]", "",
     ["rng() : f32[b=8, h=8] draws=4 text=site", "mul(%0, %1) : f32[b=8, h=8]"],
     ["rng() : f32[h=8, b=8] draws=4 text=site", "mul(%0, %1) : f32[b=8, h=8]"]),
    ("numbers drawn, the axes under other names", False, "m", "f32[b=8, h=8]", "",
     ["rng() : f32[b=8, h=8] draws=4 text=site", "mul(%0, %1) : f32[b=8, h=8]"],
     ["rng() : f32[y=8, x=8] draws=4 text=site", "relabel(%1) : f32[b=8, h=8] relabel(y -> b=8) relabel(x -> h=8)",
      "mul(%0, %2) : f32[b=8, h=8]"]),
    ("numbers drawn, one of a call instead of four", False, "m", "f32[b=8, h=8]", "",
     ["rng() : f32[b=8, h=8] draws=4 text=site", "mul(%0, %1) : f32[b=8, h=8]"],
     ["rng() : f32[b=8, h=8] draws=1 text=site", "mul(%0, %1) : f32[b=8, h=8]"]),
    ("numbers drawn, by all ranks the first one's", False, "p", "f32[b=8/n, h=8]", "",
     ["rng() : f32[b=8/n, h=8] draws=4 text=site", "mul(%0, %1) : f32[b=8/n, h=8]"],
     ["rng() : f32[b=4, h=8] draws=4 text=site", "mul(%0, %1) : f32[b=8/n, h=8]"]),
    # an attribute that boxes do not know
    ("a running sum without the element itself", False, "u", "f32[s=64]", "",
     ["scan[s](%0) : f32[s=64]"], ["scan[s](%0) : f32[s=64] exclusive"]),
    ("a product that says how it is reduced", False, "x", "f32[]", "",
     ["dot[s](%0, %0) : f32[]"], ["dot[s](%0, %0) : f32[] reduce=max"]),
    # booleans: a draw gives one bit of a decision for all elements together, by another number;
    # other draws show a difference, other elements do not
    ("the sign of another number", False, "y z", "f32[]", "",
     ["const() : f32[]", "lt(%2, %0) : bool[]", "where(%3, %1, %2) : f32[]"],
     ["const() : f32[]", "lt(%2, %1) : bool[]", "where(%3, %1, %2) : f32[]"]),
    ("the larger of two, and the first", False, "y z", "f32[]", "", ["max(%0, %1) : f32[]"], ["bind(%0) : f32[]"]),
    ("the larger of two, made as large as others", False, "y z x", "f32[s=4096]", "",
     ["expand(%0) : f32[s=4096]", "expand(%1) : f32[s=4096]", "max(%3, %4) : f32[s=4096]", "mul(%5, %2) : f32[s=4096]"],
     ["expand(%0) : f32[s=4096]", "mul(%3, %2) : f32[s=4096]"]),
    ("the larger of two, rightly", True, "y z", "f32[]", "", ["max(%0, %1) : f32[]"],
     ["lt(%0, %1) : bool[]", "where(%2, %1, %0) : f32[]"]),
    ("a mask with one element in another's place", False, "a", "bool[w=8]", "",
     ["iota[w]() : i32[w=8]", "gather[q](%0, %1) : bool[w=8]"],
     ["iota[w]() : i32[w=8]", "const() : i32[] number=6", "min(%1, %2) : i32[w=8]", "gather[q](%0, %3) : bool[w=8]"]),
    ("a mask, looked up at its own places", True, "a", "bool[w=8]", "",
     ["iota[w]() : i32[w=8]", "gather[q](%0, %1) : bool[w=8]"],
     ["iota[w]() : i32[w=8]", "const() : i32[] number=7", "min(%1, %2) : i32[w=8]", "gather[q](%0, %3) : bool[w=8]"]),
    ("one of two masks for both", False, "a c", "bool[q=8]", "",
     ["and(%0, %1) : bool[q=8]"], ["and(%0, %0) : bool[q=8]"]),
    # S2: undefined on one side only
    ("undefined where it is not, everywhere", False, "x", "f32[s=4096]", "",
     ["neg(%0) : f32[s=4096]"],
     ["const() : f32[] number=0", "mul(%0, %1) : f32[s=4096]", "div(%2, %2) : f32[s=4096]", "add(%0, %3) : f32[s=4096]"]),
    ("undefined where integers are a constant", False, "x i n", "f32[s=4096]", "",
     ["neg(%0) : f32[s=4096]"],
     ["const() : i32[] number=3", "eq(%2, %3) : bool[]", "const() : f32[] number=0", "const() : f32[] number=1",
      "where(%4, %5, %6) : f32[]", "div(%7, %7) : f32[]", "neg(%0) : f32[s=4096]", "mul(%9, %8) : f32[s=4096]"]),
    ("undefined where masks hide", False, "x b", "f32[s=4096]", "",
     ["neg(%0) : f32[s=4096]"],
     ["const() : f32[] number=0", "const() : f32[] number=1", "where(%1, %3, %2) : f32[s=4096]",
      "div(%4, %4) : f32[s=4096]", "neg(%0) : f32[s=4096]", "mul(%6, %5) : f32[s=4096]"]),
    # S3: a float that is converted to an integer
    ("a float as an integer", True, "y", "i32[]", "", ["cast(%0) : i32[]"], ["cast(%0) : i32[]"]),
    ("a float as an integer, at most 1000", False, "y", "i32[]", "",
     ["cast(%0) : i32[]"], ["cast(%0) : i32[]", "const() : i32[] number=1000", "min(%1, %2) : i32[]"]),
    ("a float as an integer, at least -5", False, "y", "i32[]", "",
     ["cast(%0) : i32[]"], ["cast(%0) : i32[]", "const() : i32[] number=-5", "max(%1, %2) : i32[]"]),
    ("a float as an integer modulo 64", False, "y", "i32[]", "",
     ["cast(%0) : i32[]"],
     ["cast(%0) : i32[]", "const() : i32[] number=2", "add(%1, %2) : i32[]", "const() : i32[] number=64",
      "mod(%3, %4) : i32[]", "sub(%5, %2) : i32[]"]),
    ("another float as an integer", False, "y z", "i32[]", "", ["cast(%0) : i32[]"], ["cast(%1) : i32[]"]),
    ("a float and a half as an integer", False, "y", "i32[]", "",
     ["cast(%0) : i32[]"], ["const() : f32[] number=0.5", "add(%0, %1) : f32[]", "cast(%2) : i32[]"]),
    ("floats as one integer, none as another", False, "x", "bool[s=4096]", "",
     ["cast(%0) : i32[s=4096]", "const() : i32[] number=70", "lt(%1, %2) : bool[s=4096]"],
     ["const() : bool[] number=1", "expand(%1) : bool[s=4096]"]),
    # S4: integers that depend on no position, limits
    ("an integer, at most 1000", False, "n", "i32[]", "",
     ["stop(%0) : i32[]"], ["const() : i32[] number=1000", "min(%0, %1) : i32[]"]),
    ("another integer", False, "n k", "i32[]", "", ["stop(%0) : i32[]"], ["stop(%1) : i32[]"]),
    ("two integers that are equal", False, "n k", "bool[]", "",
     ["const() : bool[] number=0", "and(%2, %2) : bool[]"], ["eq(%0, %1) : bool[]"]),
    ("an integer that is 12345", False, "n", "bool[]", "",
     ["const() : bool[] number=0", "const() : bool[] number=1", "and(%1, %2) : bool[]"],
     ["const() : i32[] number=12345", "eq(%0, %1) : bool[]"]),
    ("integers, one of which is 777", False, "i", "i32[b=64]", "",
     ["stop(%0) : i32[b=64]"],
     ["const() : i32[] number=777", "eq(%0, %1) : bool[b=64]", "const() : i32[] number=778",
      "where(%2, %3, %0) : i32[b=64]"]),
    ("an integer that a called function compares", False, "n", "i32[]",
     "func least : fn @1:1-2 {\n  arg %a.0 : i32[]\n  arg %b.1 : i32[]\n  %2 = min(%a.0, %b.1) : i32[] @1:1-2\n"
     "  return %2\n}\n",
     ["stop(%0) : i32[]"], ["const() : i32[] number=5000", "call(%0, %1) : i32[] func=least"]),
    ("positions that 70 constants meet, the last one", False, "u", "f32[s=64]", "",
     ["neg(%0) : f32[s=64]"],
     ["iota[s]() : i32[s=64]"] + [line for k in range(70) for line in (
         "const() : i32[] number=%d" % (4000000 + k), "ne(%%1, %%%d) : bool[s=64]" % (2 + 2 * k))] +
     ["const() : i32[] number=33", "ne(%1, %142) : bool[s=64]", "neg(%0) : f32[s=64]",
      "where(%143, %144, %0) : f32[s=64]"]),
    ("a float that 40 constants are compared with, the last one", False, "y", "f32[]", "",
     ["neg(%0) : f32[]"],
     [line for k in range(40) for line in ("const() : f32[] number=%d" % (2 * k + 3),
                                           "lt(%%0, %%%d) : bool[]" % (1 + 2 * k))] +
     ["const() : f32[] number=81", "const() : f32[] number=82", "le(%81, %0) : bool[]", "le(%0, %82) : bool[]",
      "and(%83, %84) : bool[]", "neg(%0) : f32[]", "where(%85, %0, %86) : f32[]"]),
    # S6: a float that equals a constant
    ("a float, but 0.5 is another", False, "y", "f32[]", "",
     ["neg(%0) : f32[]"],
     ["const() : f32[] number=0.5", "eq(%0, %1) : bool[]", "neg(%0) : f32[]", "where(%2, %1, %3) : f32[]"]),
    ("floats below 3, or at most", False, "x", "bool[s=4096]", "",
     ["const() : f32[] number=3", "lt(%0, %1) : bool[s=4096]"],
     ["const() : f32[] number=3", "le(%0, %1) : bool[s=4096]"]),
    ("a float that is not 0", False, "y", "bool[]", "",
     ["const() : bool[] number=1", "and(%1, %1) : bool[]"], ["cast(%0) : bool[]"]),
    ("two floats that are equal", False, "y z", "bool[]", "",
     ["const() : bool[] number=0", "and(%2, %2) : bool[]"], ["eq(%0, %1) : bool[]"]),
    ("a float by itself, which may be 0", True, "y", "f32[]", "",
     ["const() : f32[] number=7", "lt(%0, %1) : bool[]", "div(%0, %0) : f32[]", "where(%2, %3, %0) : f32[]"],
     ["const() : f32[] number=7", "lt(%0, %1) : bool[]", "div(%0, %0) : f32[]", "where(%2, %3, %0) : f32[]"]),
] + [
    ("floats below 3, or at most, " + name, False, "x", "bool[s=4096]", LESS.format("lt") + LESS.format("le"),
     lines + ["call(%%0, %%%d) : bool[s=4096] func=lt" % len(lines)] if called else
     lines + ["lt(%%0, %%%d) : bool[s=4096]" % len(lines)],
     lines + ["call(%%0, %%%d) : bool[s=4096] func=le" % len(lines)] if called else
     lines + ["le(%%0, %%%d) : bool[s=4096]" % len(lines)])
    for name, called, lines in (
        ("in a function", True, ["const() : f32[] number=3"]),
        ("made as large", False, ["const() : f32[] number=3", "expand(%1) : f32[s=4096]"]),
        ("the other sign", False, ["const() : f32[] number=-3", "neg(%1) : f32[]"]),
        ("with few digits", False, ["const() : bf16[] number=3", "cast(%1) : f32[]"]),
        ("an integer", False, ["const() : i32[] number=3", "cast(%1) : f32[]"]))
    # S5: positions that depend on several constants
] + [
    ("positions, " + name, False, "x", "f32[s=4096]", "",
     ["neg(%0) : f32[s=4096]"],
     ["iota[s]() : i32[s=4096]"] + lines + ["neg(%0) : f32[s=4096]",
                                             "where(%%%d, %%0, %%%d) : f32[s=4096]" % (len(lines) + 1, len(lines) + 2)])
    for name, lines in (
        ("a sum of two constants", ["const() : i32[] number=1000", "add(%1, %2) : i32[s=4096]",
                                    "const() : i32[] number=2717", "eq(%3, %4) : bool[s=4096]"]),
        ("a sum of three", ["const() : i32[] number=1000", "add(%1, %2) : i32[s=4096]", "const() : i32[] number=333",
                            "sub(%3, %4) : i32[s=4096]", "const() : i32[] number=2717", "eq(%5, %6) : bool[s=4096]"]),
        ("a product of two", ["const() : i32[] number=100", "floordiv(%1, %2) : i32[s=4096]",
                              "const() : i32[] number=37", "eq(%3, %4) : bool[s=4096]"]),
        ("one in seven of one hundred", ["const() : i32[] number=700", "mod(%1, %2) : i32[s=4096]",
                                         "const() : i32[] number=37", "eq(%3, %4) : bool[s=4096]"]),
        ("twice of which is a constant", ["const() : i32[] number=2", "mul(%1, %2) : i32[s=4096]",
                                          "const() : i32[] number=5002", "eq(%3, %4) : bool[s=4096]"]),
        ("behind which are few", ["const() : i32[] number=3000", "sub(%2, %1) : i32[s=4096]",
                                  "const() : i32[] number=1234", "max(%3, %4) : i32[s=4096]",
                                  "const() : i32[] number=1235", "eq(%5, %6) : bool[s=4096]"]),
        ("as floats", ["cast(%1) : f32[s=4096]", "const() : f32[] number=1717", "eq(%2, %3) : bool[s=4096]"]),
        ("a product of them", ["mul(%1, %1) : i32[s=4096]", "const() : i32[] number=1000000",
                               "eq(%2, %3) : bool[s=4096]"]),
        ("one of which less a constant is not 0", ["const() : i32[] number=1717", "sub(%1, %2) : i32[s=4096]",
                                                   "not(%3) : bool[s=4096]"]),
        ("as booleans", ["const() : i32[] number=1717", "sub(%1, %2) : i32[s=4096]", "cast(%3) : bool[s=4096]",
                         "not(%4) : bool[s=4096]"]),
        ("as floats and as booleans", ["const() : i32[] number=1717", "sub(%1, %2) : i32[s=4096]", "cast(%3) : f32[s=4096]",
                                       "cast(%4) : bool[s=4096]", "not(%5) : bool[s=4096]"]),
        ("as floats, less a constant", ["cast(%1) : f32[s=4096]", "const() : f32[] number=1717", "sub(%2, %3) : f32[s=4096]",
                                        "const() : f32[]", "eq(%4, %5) : bool[s=4096]"]),
        ("as floats, half of them", ["cast(%1) : f32[s=4096]", "const() : f32[] number=0.5", "mul(%2, %3) : f32[s=4096]",
                                     "const() : f32[] number=858.5", "eq(%4, %5) : bool[s=4096]"]),
        ("as floats, of which the larger is the smaller",
         ["cast(%1) : f32[s=4096]", "const() : f32[] number=1717", "max(%2, %3) : f32[s=4096]",
          "min(%2, %3) : f32[s=4096]", "eq(%4, %5) : bool[s=4096]"]),
        ("as floats, twice", ["cast(%1) : f32[s=4096]", "add(%2, %2) : f32[s=4096]", "const() : f32[] number=3434",
                              "eq(%3, %4) : bool[s=4096]"]),
        ("as floats, a quarter of them less than a constant",
         ["cast(%1) : f32[s=4096]", "const() : f32[] number=0.25", "mul(%3, %2) : f32[s=4096]",
          "const() : f32[] number=500", "sub(%5, %4) : f32[s=4096]", "const() : f32[] number=70.75",
          "eq(%6, %7) : bool[s=4096]"]),
        ("as floats, some of them", ["cast(%1) : f32[s=4096]", "const() : i32[]", "lt(%3, %1) : bool[s=4096]",
                                     "where(%4, %2, %2) : f32[s=4096]", "const() : f32[] number=1717",
                                     "eq(%5, %6) : bool[s=4096]"]),
        ("by two of their rests", ["const() : i32[] number=17", "mod(%1, %2) : i32[s=4096]", "const() : i32[] number=19",
                                   "mod(%1, %4) : i32[s=4096]", "const() : i32[] number=3", "eq(%3, %6) : bool[s=4096]",
                                   "eq(%5, %6) : bool[s=4096]", "and(%7, %8) : bool[s=4096]", "lt(%6, %1) : bool[s=4096]",
                                   "and(%9, %10) : bool[s=4096]"]),
        ("by a quotient and the rest", ["const() : i32[] number=5", "mod(%1, %2) : i32[s=4096]",
                                        "floordiv(%1, %2) : i32[s=4096]", "const() : i32[] number=307",
                                        "eq(%4, %5) : bool[s=4096]", "const() : i32[] number=3",
                                        "eq(%3, %7) : bool[s=4096]", "and(%6, %8) : bool[s=4096]"]),
        ("by a rest, between two constants", ["const() : i32[] number=5", "mod(%1, %2) : i32[s=4096]",
                                              "const() : i32[] number=1536", "le(%4, %1) : bool[s=4096]",
                                              "const() : i32[] number=1540", "lt(%1, %6) : bool[s=4096]",
                                              "const() : i32[] number=3", "eq(%3, %8) : bool[s=4096]",
                                              "and(%5, %7) : bool[s=4096]", "and(%9, %10) : bool[s=4096]"]),
        ("by a rest, between two of many constants",
         ["const() : i32[] number=5", "mod(%1, %2) : i32[s=4096]", "const() : i32[] number=1536", "le(%4, %1) : bool[s=4096]",
          "const() : i32[] number=1540", "lt(%1, %6) : bool[s=4096]", "const() : i32[] number=3", "eq(%3, %8) : bool[s=4096]"] +
         [line for k in range(10) for line in ("const() : i32[] number=%d" % (2000 + 100 * k),
                                               "lt(%%1, %%%d) : bool[s=4096]" % (10 + 2 * k))] +
         ["and(%5, %7) : bool[s=4096]", "and(%9, %30) : bool[s=4096]"]),
        ("six fifths of which, rounded down, they are", ["const() : i32[] number=5", "floordiv(%1, %2) : i32[s=4096]",
                                                         "const() : i32[] number=6", "mul(%3, %4) : i32[s=4096]",
                                                         "eq(%5, %1) : bool[s=4096]", "const() : i32[] number=6",
                                                         "lt(%7, %1) : bool[s=4096]", "and(%6, %8) : bool[s=4096]"]),
        ("counted", ["const() : i32[] number=777", "lt(%1, %2) : bool[s=4096]", "cast(%3) : i32[s=4096]",
                     "scan[s](%4) : i32[s=4096]", "const() : i32[] number=555", "eq(%5, %6) : bool[s=4096]"]),
    )
] + [
    ("positions, behind which there are no integers", False, "l", "f32[s=9000]", "",
     ["neg(%0) : f32[s=9000]"],
     ["iota[s]() : i32[s=9000]", "const() : i32[] number=2147481921", "add(%1, %2) : i32[s=9000]",
      "const() : i32[] number=2147481920", "add(%1, %4) : i32[s=9000]", "const() : i32[]", "lt(%3, %6) : bool[s=9000]",
      "le(%6, %5) : bool[s=9000]", "and(%7, %8) : bool[s=9000]", "neg(%0) : f32[s=9000]", "where(%9, %0, %10) : f32[s=9000]"]),
    ("positions, eight times of which are no integers", False, "q", "f32[s=500000000]", "",
     ["neg(%0) : f32[s=500000000]"],
     ["iota[s]() : i32[s=500000000]", "const() : i32[] number=8", "mul(%1, %2) : i32[s=500000000]",
      "const() : i32[] number=-2147483640", "eq(%3, %4) : bool[s=500000000]", "neg(%0) : f32[s=500000000]",
      "where(%5, %0, %6) : f32[s=500000000]"]),
    ("a distance of two positions, of two constants", False, "u", "f32[s=4096]", "",
     ["reduce[s](%0) : f32[]", "expand(%1) : f32[s=4096]"],
     ["reduce[s](%0) : f32[]", "iota[s]() : i32[s=4096]", "iota[t]() : i32[t=4096]", "const() : i32[] number=1111",
      "sub(%2, %4) : i32[s=4096]", "sub(%5, %3) : i32[s=4096, t=4096]", "const() : i32[] number=222",
      "eq(%6, %7) : bool[s=4096, t=4096]", "const() : f32[] number=1", "const() : f32[] number=0",
      "where(%8, %9, %10) : f32[s=4096, t=4096]", "reduce[t](%11) : f32[s=4096]", "add(%12, %1) : f32[s=4096]"]),
    # ops along whole axes
    ("slices joined", True, "u", "f32[s=64]", "",
     ["stop(%0) : f32[s=64]"],
     ["slice[s](%0) : f32[s=24] ranges=(0 0 1 24)", "slice[s](%0) : f32[s=40] ranges=(24 0 1 40)",
      "concat[s](%1, %2) : f32[s=64]"]),
    ("parts of a long axis, one of which is turned", True, "l", "f32[s=9000]", "",
     ["iota[s]() : i32[s=9000]", "const() : i32[] number=5000", "lt(%1, %2) : bool[s=9000]", "neg(%0) : f32[s=9000]",
      "where(%3, %0, %4) : f32[s=9000]"],
     ["slice[s](%0) : f32[s=5000] ranges=(0 0 1 5000)", "slice[s](%0) : f32[s=4000] ranges=(5000 0 1 4000)",
      "neg(%2) : f32[s=4000]", "concat[s](%1, %3) : f32[s=9000]"]),
    ("slices joined the wrong way", False, "u", "f32[s=64]", "",
     ["stop(%0) : f32[s=64]"],
     ["slice[s](%0) : f32[s=32] ranges=(0 0 1 32)", "slice[s](%0) : f32[s=32] ranges=(32 0 1 32)",
      "concat[s](%2, %1) : f32[s=64]"]),
    ("every other element, and zeros between", True, "u", "f32[s=64]", "",
     ["iota[s]() : i32[s=64]", "const() : i32[] number=2", "mod(%1, %2) : i32[s=64]", "const() : i32[] number=0",
      "eq(%3, %4) : bool[s=64]", "const() : f32[] number=0", "where(%5, %0, %6) : f32[s=64]"],
     ["slice[s](%0) : f32[s=32] ranges=(0 0 2 32)", "pad[s](%1) : f32[s=64] ranges=(0 1 2 0) number=0"]),
    ("every other element, the wrong ones", False, "u", "f32[s=64]", "",
     ["iota[s]() : i32[s=64]", "const() : i32[] number=2", "mod(%1, %2) : i32[s=64]", "const() : i32[] number=0",
      "eq(%3, %4) : bool[s=64]", "const() : f32[] number=0", "where(%5, %0, %6) : f32[s=64]"],
     ["slice[s](%0) : f32[s=32] ranges=(1 0 2 32)", "pad[s](%1) : f32[s=64] ranges=(1 0 2 0) number=0"]),
    ("a pad of ones", False, "u", "f32[s=66]", "",
     ["pad[s](%0) : f32[s=66] ranges=(1 1 1 0) number=0"], ["pad[s](%0) : f32[s=66] ranges=(1 1 1 0) number=1"]),
    ("a pad on one side", False, "u", "f32[s=66]", "",
     ["pad[s](%0) : f32[s=66] ranges=(1 1 1 0) number=0"], ["pad[s](%0) : f32[s=66] ranges=(2 0 1 0) number=0"]),
] + [
    ("a window, " + name, right, "u", "f32[s=64, w=3]", "",
     ["window[s, w](%%0) : f32[s=64, w=3] ranges=(1 1 1 3) number=%d" % fill],
     ["pad[s](%0) : f32[s=66] ranges=(1 1 1 0) number=0"] + [line for k, at in enumerate(order) for line in (
         "slice[s](%%1) : f32[s=64] ranges=(%d 0 1 64)" % at,
         "relabel(%%%d) : f32[s=64, w=1] relabel( -> w=1)" % (2 + 2 * k))] + ["concat[w](%3, %5, %7) : f32[s=64, w=3]"])
    for name, right, order, fill in (("put together", True, (0, 1, 2), 0), ("turned", False, (2, 1, 0), 0),
                                     ("filled otherwise", False, (0, 1, 2), 1))
] + [
    ("windows added up, " + name, right, "f", "f32[s=64]", "",
     ["fold[s, w](%0) : f32[s=64] ranges=(1 1 1 3)"],
     [line for k in range(3) for line in (
         "slice[w](%%0) : f32[s=64, w=1] ranges=(%d 0 1 1)" % k,
         "relabel(%%%d) : f32[s=64] relabel(w -> )" % (1 + 4 * k),
         "pad[s](%%%d) : f32[s=66] ranges=(%d %d 1 0) number=0" % (2 + 4 * k, lows[k], 2 - lows[k]),
         "slice[s](%%%d) : f32[s=64] ranges=(1 0 1 64)" % (3 + 4 * k))] +
     ["add(%4, %8) : f32[s=64]", "add(%13, %12) : f32[s=64]"])
    for name, right, lows in (("one by one", True, (0, 1, 2)), ("turned", False, (2, 1, 0)), ("one twice", False, (0, 1, 1)))
] + [
    ("a running sum, " + name, right, "u", "f32[t=64]", "",
     ["scan[s](%%0) : f32[s=64]%s" % flag, "relabel(%1) : f32[t=64] relabel(s -> t=64)"],
     ["iota[s]() : i32[s=64]", "iota[t]() : i32[t=64]", "%s : bool[s=64, t=64]" % mask, "cast(%3) : f32[s=64, t=64]",
      "dot[s](%0, %4) : f32[t=64]"])
    for name, right, flag, mask in (
        ("by a mask", True, "", "le(%1, %2)"), ("without the last", False, "", "lt(%1, %2)"),
        ("from behind", True, " reverse", "le(%2, %1)"), ("from the wrong end", False, " reverse", "le(%1, %2)"))
] + [
    ("the largest", True, "u", "f32[]", "",
     ["reduce[s](%0) : f32[] reduce=max"],
     ["2 topk[s, c](%0) : f32[c=1], i32[c=1]", "relabel(%1) : f32[] relabel(c -> )"]),
    ("the second largest", False, "u", "f32[]", "",
     ["reduce[s](%0) : f32[] reduce=max"],
     ["2 topk[s, c](%0) : f32[c=2], i32[c=2]", "slice[c](%1) : f32[c=1] ranges=(1 0 1 1)",
      "relabel(%3) : f32[] relabel(c -> )"]),
    ("the largest, looked up", True, "u", "f32[c=3]", "",
     ["2 topk[s, c](%0) : f32[c=3], i32[c=3]", "stop(%1) : f32[c=3]"],
     ["2 topk[s, c](%0) : f32[c=3], i32[c=3]", "gather[s](%0, %2) : f32[c=3]"]),
    ("the smallest", False, "u", "f32[c=3]", "",
     ["2 topk[s, c](%0) : f32[c=3], i32[c=3]", "stop(%1) : f32[c=3]"],
     ["neg(%0) : f32[s=64]", "2 topk[s, c](%1) : f32[c=3], i32[c=3]", "neg(%2) : f32[c=3]"]),
    ("of equal ones the first", False, "u", "i32[c=1]", "",
     ["2 topk[s, c](%0) : f32[c=1], i32[c=1]", "stop(%2) : i32[c=1]"],
     ["iota[s]() : i32[s=64]", "const() : i32[] number=63", "sub(%2, %1) : i32[s=64]", "gather[s](%0, %3) : f32[s=64]",
      "2 topk[s, c](%4) : f32[c=1], i32[c=1]", "sub(%2, %6) : i32[c=1]"]),
    # roundings: code that does not stream rounds at the same places as the call
    ("what was rounded is rounded", True, "y", "bf16[]", "",
     ["cast(%0) : bf16[]", "cast(%1) : f32[]", "cast(%2) : bf16[]"], ["cast(%0) : bf16[]"]),
    ("a rounding that is left out", False, "y", "f32[]", "",
     ["cast(%0) : bf16[]", "cast(%1) : f32[]", "exp(%2) : f32[]"], ["exp(%0) : f32[]"]),
    ("a rounding to other digits", False, "y", "f32[]", "",
     ["cast(%0) : bf16[]", "cast(%1) : f32[]"], ["cast(%0) : f16[]", "cast(%1) : f32[]"]),
    ("the digits that an operand has", True, "r", "bf16[]", "",
     ["cast(%0) : f32[]", "cast(%1) : bf16[]"], ["stop(%0) : bf16[]"]),
    ("positions with few digits, of which not all have so few", False, "x", "f32[s=4096]", "",
     ["iota[s]() : i32[s=4096]", "cast(%1) : f32[s=4096]", "mul(%0, %2) : f32[s=4096]"],
     ["iota[s]() : i32[s=4096]", "cast(%1) : bf16[s=4096]", "cast(%2) : f32[s=4096]", "mul(%0, %3) : f32[s=4096]"]),
    ("positions with few digits, all of which have so few", True, "u", "f32[s=64]", "",
     ["iota[s]() : i32[s=64]", "cast(%1) : f32[s=64]", "mul(%0, %2) : f32[s=64]"],
     ["iota[s]() : i32[s=64]", "cast(%1) : bf16[s=64]", "cast(%2) : f32[s=64]", "mul(%0, %3) : f32[s=64]"]),
    ("a tenth with few digits", False, "y", "f32[]", "",
     ["const() : f32[] number=0.1", "mul(%0, %1) : f32[]"],
     ["const() : bf16[] number=0.1", "cast(%1) : f32[]", "mul(%0, %2) : f32[]"]),
    ("three with few digits", True, "y", "f32[]", "",
     ["const() : f32[] number=3", "mul(%0, %1) : f32[]"],
     ["const() : bf16[] number=3", "cast(%1) : f32[]", "mul(%0, %2) : f32[]"]),
    ("a sum of one number, made wider, and back", True, "o", "bf16[]", "",
     ["mul(%0, %0) : bf16[d=1]", "relabel(%1) : bf16[] relabel(d -> )"],
     ["mul(%0, %0) : bf16[d=1]", "reduce[d](%1) : f32[]", "cast(%2) : bf16[]"]),
] + [
    # a row of such a matrix differs from what most of its places suggest
    ("an identity matrix of %d positions%s" % (n, ", and one off it" * off), not off, of, "f32[d=%d, e=2]" % n, "",
     ["relabel(%%0) : f32[d=%d, e=2] relabel(c -> d=%d)" % (n, n)],
     ["iota[d]() : i32[d=%d]" % n, "iota[c]() : i32[c=%d]" % n, "const() : i32[] number=%d" % off,
      *(line.replace("N", str(n)) for line in (
          "add(%2, %3) : i32[c=N]", "eq(%1, %4) : bool[d=N, c=N]", "cast(%5) : f32[d=N, c=N]",
          "dot[c](%6, %0) : f32[d=N, e=2]"))])
    for n, of in ((6, "g"), (64, "h")) for off in (0, 1)
] + [
    ("a loop, " + name, right, "u", "f32[s=64]", ADDS,
     ["scan[s](%%0) : f32[s=64]%s" % flag],
     ["const() : f32[] number=0",
      "2 loop(%%1, %%0) : f32[], f32[s=64] func=adds loop(label=h axis=s count=64 carried=1 stacked=1 stacked_out=1%s)" % way,
      "stop(%3) : f32[s=64]"])
    for name, right, flag, way in (("that adds", True, "", ""), ("that goes back", True, " reverse", " reverse"),
                                   ("the wrong way", False, "", " reverse"))
]

# A ring call is computed in parts. These may round at other places, but not more often. All of
# them are equal as real numbers.
ROUNDED = ["cast(%0) : bf16[]", "cast(%1) : f32[]"]
SUMMED = ["cast(%0) : bf16[]", "add(%1, %1) : bf16[]"]
WIDE = ["cast(%0) : bf16[]", "cast(%1) : f32[]", "add(%2, %2) : f32[]", "cast(%3) : bf16[]", "cast(%4) : f32[]"]
THREE = ["cast(%0) : bf16[]", "cast(%1) : bf16[]"]
PARTS = [  # name, right, arguments, type of the result, the lines of each
    ("rounded before or behind", True, "y", "f32[]", ["add(%0, %0) : f32[]", "cast(%1) : bf16[]", "cast(%2) : f32[]"],
     ROUNDED + ["add(%2, %2) : f32[]"]),
    ("rounded twice", False, "y", "f32[]", ["add(%0, %0) : f32[]", "cast(%1) : bf16[]", "cast(%2) : f32[]"],
     ROUNDED + ["add(%2, %2) : f32[]", "cast(%3) : bf16[]", "cast(%4) : f32[]"]),
    ("rounded to others", False, "y", "f32[]", ["add(%0, %0) : f32[]", "cast(%1) : bf16[]", "cast(%2) : f32[]"],
     ["cast(%0) : f16[]", "cast(%1) : f32[]", "add(%2, %2) : f32[]"]),
    ("rounded where the call does not", False, "y", "f32[]", ["add(%0, %0) : f32[]"], ROUNDED + ["add(%2, %2) : f32[]"]),
    ("rounded where there are more", False, "g", "f32[e=2]",
     ["reduce[c](%0) : f32[e=2]", "cast(%1) : bf16[e=2]", "cast(%2) : f32[e=2]"],
     ["cast(%0) : bf16[c=6, e=2]", "cast(%1) : f32[c=6, e=2]", "reduce[c](%2) : f32[e=2]"]),
    ("not rounded", True, "y", "f32[]", ROUNDED + ["add(%2, %2) : f32[]"], ["add(%0, %0) : f32[]"]),
    ("a product with few digits, added up with many", True, "g", "f32[e=2]",
     ["cast(%0) : bf16[c=6, e=2]", "const() : bf16[] number=1", "expand(%2) : bf16[c=6]", "dot[c](%1, %3) : bf16[e=2]",
      "cast(%4) : f32[e=2]"],
     ["cast(%0) : bf16[c=6, e=2]", "const() : bf16[] number=1", "expand(%2) : bf16[c=6]", "dot[c](%1, %3) : f32[e=2]",
      "add(%4, %4) : f32[e=2]", "sub(%5, %4) : f32[e=2]", "cast(%6) : bf16[e=2]", "cast(%7) : f32[e=2]"]),
    ("a product with few digits, and what is added up of it once more", False, "g", "f32[e=2]",
     ["cast(%0) : bf16[c=6, e=2]", "const() : bf16[] number=1", "expand(%2) : bf16[c=6]", "dot[c](%1, %3) : bf16[e=2]",
      "cast(%4) : f32[e=2]"],
     ["cast(%0) : bf16[c=6, e=2]", "const() : bf16[] number=1", "expand(%2) : bf16[c=6]", "dot[c](%1, %3) : bf16[e=2]",
      "cast(%4) : f32[e=2]", "add(%5, %5) : f32[e=2]", "sub(%6, %5) : f32[e=2]", "cast(%7) : bf16[e=2]", "cast(%8) : f32[e=2]"]),
    ("a sum with few digits, added up with many", True, "y", "f32[]", SUMMED + ["cast(%2) : f32[]"], WIDE),
    ("a sum with few digits, rounded twice", False, "y", "f32[]", SUMMED + ["cast(%2) : f32[]"],
     WIDE + ["neg(%5) : f32[]", "neg(%6) : f32[]", "cast(%7) : bf16[]", "cast(%8) : f32[]"]),
    ("a sum with many digits, rounded", False, "y", "f32[]", ["cast(%0) : bf16[]", "cast(%1) : f32[]", "add(%2, %2) : f32[]"],
     WIDE),
    # How often the values of which a result is made are rounded on the way to it.
    ("a sum with few digits, and once more", False, "y", "f32[]", SUMMED + ["cast(%2) : f32[]"],
     SUMMED + ["cast(%2) : f32[]", "add(%3, %3) : f32[]", "sub(%4, %3) : f32[]", "cast(%5) : bf16[]", "cast(%6) : f32[]"]),
    ("a sum with few digits, and two more", False, "y", "f32[]", SUMMED + ["cast(%2) : f32[]"],
     SUMMED + ["add(%2, %1) : bf16[]", "sub(%3, %1) : bf16[]", "cast(%4) : f32[]"]),
    ("a product with few digits by one", False, "y", "f32[]", SUMMED + ["cast(%2) : f32[]"],
     SUMMED + ["const() : bf16[] number=1", "mul(%2, %3) : bf16[]", "cast(%4) : f32[]"]),
    ("a sum with few digits, and nothing", True, "y", "f32[]", SUMMED + ["cast(%2) : f32[]"],
     SUMMED + ["const() : bf16[] number=0", "add(%2, %3) : bf16[]", "cast(%4) : f32[]", "cast(%5) : bf16[]",
               "cast(%6) : f32[]"]),
    ("sums with few digits, begun with nothing", True, "y z", "f32[]",
     THREE + ["add(%2, %3) : bf16[]", "add(%4, %3) : bf16[]", "cast(%5) : f32[]"],
     THREE + ["const() : bf16[] number=0", "add(%4, %3) : bf16[]", "add(%5, %3) : bf16[]", "add(%2, %6) : bf16[]",
              "cast(%7) : f32[]"]),
    ("sums with few digits, of which one waits", False, "y z", "f32[]",
     THREE + ["add(%2, %2) : bf16[]", "add(%4, %3) : bf16[]", "cast(%5) : f32[]"],
     THREE + ["add(%2, %3) : bf16[]", "add(%4, %2) : bf16[]", "cast(%5) : f32[]"]),
    ("sums with few digits, kept with many", True, "y z", "f32[]",
     THREE + ["add(%2, %2) : bf16[]", "add(%4, %3) : bf16[]", "cast(%5) : f32[]"],
     THREE + ["cast(%2) : f32[]", "cast(%3) : f32[]", "add(%4, %5) : f32[]", "add(%6, %4) : f32[]", "cast(%7) : bf16[]",
              "cast(%8) : f32[]"]),
    ("fewer digits without a cast", False, "g", "f32[e=2]", ["reduce[c](%0) : f32[e=2]"],
     ["const() : f32[] number=1", "expand(%1) : f32[c=6]", "dot[c](%0, %2) : bf16[e=2]", "cast(%3) : f32[e=2]"]),
]

# A ring call whose result is a sum over its three ranks: the value that is passed on in the sum's
# dtype is rounded once for each hop.
HOPS = """mesh m=3
func {name} : fn @1:1-2 {{
  arg %x.0 : bf16[p=6/m]
  arg %w.1 : bf16[p=6/m, q=6]
  %2 = dot[p](%x.0, %w.1) : {dtype}[q=6]{{sum m}} @1:1-2
{body}}}
func main : entry @1:1-2 {{
  %0 = input() : bf16[p=6/m] text=x @1:1-2
  %1 = input() : bf16[p=6/m, q=6] text=w @1:1-2
  %2 = call{call} @1:1-2
  return %2
}}
entry predict : main {{
  result name=y
}}
"""
AROUND = ["shift(%2) : T[q=6]{sum m} mesh={m}", "add(%2, %3) : T[q=6]{sum m}", "shift(%3) : T[q=6]{sum m} mesh={m}",
          "add(%4, %5) : T[q=6]"]
# name, whether it is right, the dtype of the sum, that of the value that is passed on (T), what is
# done with the latter
HOPPED = [
    ("summed at once", True, "bf16", "bf16", ["reduce_scatter(%2) : T[q=6/m] mesh={m}"]),
    ("rounded once a hop", True, "bf16", "bf16", AROUND + ["shard(%6) : T[q=6/m] mesh={m}"]),
    ("rounded once more", False, "bf16", "bf16",
     AROUND + ["add(%6, %2) : T[q=6]", "sub(%7, %2) : T[q=6]", "shard(%8) : T[q=6/m] mesh={m}"]),
    ("rounded twice a hop", False, "bf16", "bf16",
     ["shift(%2) : T[q=6]{sum m} mesh={m}", "const() : T[] number=2", "mul(%3, %4) : T[q=6]", "add(%2, %5) : T[q=6]",
      "sub(%6, %3) : T[q=6]", "shift(%3) : T[q=6]{sum m} mesh={m}", "add(%7, %8) : T[q=6]", "shard(%9) : T[q=6/m] mesh={m}"]),
    ("rounded once a hop, though the sum is not", False, "f32", "bf16",
     AROUND + ["cast(%6) : f32[q=6]", "shard(%7) : f32[q=6/m] mesh={m}"]),
]


def hops(row, placed):
    dtype, lines = (row[2], []) if placed else (row[3], [re.sub(r"\bT\b", row[3], line) for line in row[4]])
    body = "".join("  %%%d = %s @1:1-2\n" % (3 + i, line) for i, line in enumerate(lines))
    call = ("[q](%%0, %%1) : %s[q=6/m] func=left mesh={m}" if placed else "(%%0, %%1) : %s[q=6/m] func=right") % row[2]
    return HOPS.format(name="left" if placed else "right", dtype=dtype, body=body + "  return %%%d\n" % (2 + len(lines)), call=call)


PROGRAM = """mesh m=2, n=2
{more}func {name} : fn @1:1-2 {{
{body}}}
func main : entry @1:1-2 {{
{inputs}  %{n} = call{axes}({values}) : {made} func={name} {mesh}@1:1-2
  return %{n}
}}
entry predict : main {{
  result name=y
}}
"""


def program(arguments, made, more, lines, placed, axes=""):
    """One function that is called twice: by a ring call in the program before `expand`, and by a plain
    call in the program after it."""
    types = [TYPES[name] for name in arguments.split()]
    body = "".join("  arg %%a.%d : %s\n" % pair for pair in enumerate(types))
    value = len(types)
    for line in lines:
        n = int(line[0]) if line[0].isdigit() else 1
        body += "  %s = %s @1:1-2\n" % (", ".join("%%%d" % (value + k) for k in range(n)), line.lstrip("0123456789 "))
        value += n
    body += "  return %%%d\n" % (value - 1)
    inputs = "".join("  %%%d = input() : %s text=x%d @1:1-2\n" % (i, of, i) for i, of in enumerate(types))
    return PROGRAM.format(more=more, name="left" if placed else "right", body=body, inputs=inputs, n=len(types),
                          values=", ".join("%%%d" % i for i in range(len(types))), made=made, axes=axes if placed else "",
                          mesh="mesh={m} " if placed else "")


def verdict(boxed, folder, row, axes=""):
    texts = [hops(row, placed) if row in HOPPED else program(row[2], row[3], row[4], row[5] if placed else row[6], placed, axes)
             for placed in (True, False)]
    paths = []
    for placed in (True, False):
        paths.append(os.path.join(folder, "placed" if placed else "final"))
        with open(paths[-1], "w") as file:
            file.write(texts[not placed])
    done = subprocess.run([boxed] + paths, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() or "ended with %d: %s" % (done.returncode, done.stderr)


MOST_KIB = 64 * 1024


def crowded(boxed, folder):
    """A call that could stand for any of many ops, but stands for none: trying them in vain must not
    use up memory."""
    n, paths = 8000, []
    for name, first in ("placed", "exp(%0) : f32[]"), ("final", "call(%0) : f32[] func=none"):
        lines = ["%%2 = %s @1:1-2" % first] + ["%%%d = sin(%%%d) : f32[] @1:1-2" % (i, 1 if i == 3 else i - 1)
                                               for i in range(3, n)] + ["%%%d = sin(%%2) : f32[] @1:1-2" % n]
        text = PROGRAM.format(more="", name="none", body="  arg %a.0 : f32[]\n  %1 = cos(%a.0) : f32[] @1:1-2\n"
                              "  return %1\n", inputs="  %0 = input() : f32[] text=x @1:1-2\n"
                              "  %1 = input() : f32[] text=y @1:1-2\n", n=n, values="", made="f32[]", axes="", mesh="")
        paths.append(os.path.join(folder, name))
        with open(paths[-1], "w") as file:
            file.write(text.replace("  %%%d = call() : f32[] func=none @1:1-2" % n, "  " + "\n  ".join(lines)))
    done = subprocess.run([boxed, "--time"] + paths, capture_output=True, text=True, timeout=60)
    if done.stdout.startswith("fails: ") and int(done.stdout.split(", ")[-1].split()[0]) < MOST_KIB:
        return 0
    print("a call of none of many ops: %s%s" % (done.stdout, done.stderr))
    return 1


def main(boxed):
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        failed += crowded(boxed, folder)
        for row in ROWS + [row[:4] + ("",) + row[4:] for row in PARTS] + HOPPED:
            said = verdict(boxed, folder, row, "" if row in ROWS else "[s]")
            if said.startswith("holds" if row[1] else "fails: "):
                continue
            failed += 1
            print("%s: %s" % (row[0], said))
    print("%d passed, %d failed" % (len(ROWS) + len(PARTS) + len(HOPPED) + 1 - failed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
