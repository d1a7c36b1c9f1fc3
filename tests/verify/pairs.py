#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of a few lines beside others that are nearly the same: pairs.py PROVE. Each case has a serial program, a
placed one that must be proved, and changes of that by which it means something else, or nothing at all: they must be
refused, and for the reason that is given. `means={f.3}` is the number of value 3 of function f of the serial
program."""
import os
import re
import subprocess
import sys
import tempfile

MESH = "mesh m=2, n=2\n"


def entry(inputs, ops, results, name="predict", stores=()):
    """A function with these inputs and ops. Each op makes one value, or as many as the number before
    it says. And the function's entry."""
    lines = ["  %%%d = input() : %s text=in%d @1:1-2" % (n, type_, n) for n, type_ in enumerate(inputs)]
    number = len(inputs)
    for op in ops:
        count = re.match(r"(\d) ", op)
        n = int(count.group(1)) if count else 1
        lines.append("  %s = %s @1:1-2" % (", ".join("%%%d" % (number + i) for i in range(n)), op[2:] if count else op))
        number += n
    goes = ["store=%d" % store for store in stores] or ["name=y%d" % i for i in range(len(results))]
    return "func %s : entry @1:1-2 {\n%s\n  return %s\n}\nentry %s : %s {\n%s}\n" % (
        name, "\n".join(lines), ", ".join("%%%d" % n for n in results), name, name,
        "".join("  result %s\n" % where for where in goes))


def meant(serial, placed):
    """The placed program, with the numbers that values have in the serial text."""
    numbers, func = {}, ""
    for line in serial.split("\n"):
        if line.startswith("func "):
            func, at = line.split()[1], 0
        n = line.split(" = ")[0].count("%") if line.startswith("  %") else int(line.startswith("  arg %"))
        for _ in range(n):
            numbers[func, at] = len(numbers) + 1
            at += 1
    return re.sub(r"\{(\w+)\.(\d+)\}", lambda m: str(numbers[m.group(1), int(m.group(2))]), placed)


def unplaced(text):
    """The serial program for a placed one whose values are only named, not moved."""
    return re.sub(r" means=\{[^}]*\}", "", text)


CASES = []  # what it is about, serial, placed, changes: (message, old, new, old, new ..)


def case(what, serial, placed, *changes):
    CASES.append((what, serial, placed, changes))


# ---- what is one number, or one after the other ----

ZEROS = entry(["f32[a=2]"], ["const() : f32[]", "expand(%1) : f32[a=2]", "expand(%1) : f32[a=2]",
                             "concat[a](%2, %0, %3) : f32[a=6] means={predict.4}",
                             "sin(%4) : f32[a=6] means={predict.5}"], [5])
case("zeros around a value", unplaced(ZEROS), ZEROS,
     ("is not what", "%2 = expand(%1) : f32[a=2]", "%2 = expand(%1) : f32[a=1]",
      "%3 = expand(%1) : f32[a=2]", "%3 = expand(%1) : f32[a=3]"),
     ("not as long as its operands", "%3 = expand(%1) : f32[a=2]", "%3 = expand(%1) : f32[a=3]"))
SIN = entry(["f32[a=4]"], ["sin(%0) : f32[a=4]"], [1])
SELECTED = entry(["f32[a=4]"], ["iota[a]() : i32[a=4]", "const() : i32[] number=5", "cast(%2) : i32[]",
    "cast(%3) : i32[]",
                                "lt(%1, %4) : bool[a=4]", "const() : f32[]", "where(%5, %0, %6) : f32[a=4]",
                                "cast(%7) : f32[a=4]", "sin(%8) : f32[a=4] means={predict.1}"], [9])
case("a selection of all", SIN, SELECTED,
     ("is not what", "number=5", "number=3"),
     ("is not what", "cast(%2) : i32[]", "cast(%2) : bool[]"),  # 5 becomes 1
     ("another dtype", "where(%5, %0, %6) : f32", "where(%5, %0, %6) : bf16"),
     ("an attribute that ops have, once", "number=5", "number=5 number=1"),
     ("an attribute that ops have, once", "number=5", "xnumber=5 number=1"))
WIDE = entry(["f32[b=4, h=16]"], ["iota[h]() : i32[h=16]", "const() : i32[] number=16", "lt(%1, %2) : bool[h=16]",
                                  "const() : f32[]", "where(%3, %0, %4) : f32[b=4, h=16]",
                                  "sin(%5) : f32[b=4, h=16] means={predict.1}"], [6])
case("positions of one axis", entry(["f32[b=4, h=16]"], ["sin(%0) : f32[b=4, h=16]"], [1]), WIDE,
     ("positions are of one axis", "iota[h]() : i32[h=16]", "iota[h]() : i32[b=4, h=16]", "number=16", "number=8"),
     ("positions are of one axis", "iota[h]() : i32[h=16]", "iota[b]() : i32[h=16]"))
ALONG = "func along : body @1:1-2 {\n  arg %0 : i32[]\n  arg %1 : f32[] means={along.1}\n  return %1\n}\n"
LOOP = "loop(%1) : f32[] func=along loop(label=a axis=a count=4 carried=1)"
CUT = ALONG + entry(["f32[a=4]"], ["const() : f32[] number=3", LOOP, "slice[a](%0) : f32[a=4] ranges=(0 0 1 4)",
                                   "sin(%3) : f32[a=4] means={predict.3}"], [4, 2])
case("a cut of all", unplaced(ALONG) + entry(["f32[a=4]"], ["const() : f32[] number=3", LOOP, "sin(%0) : f32[a=4]"],
    [3, 2]), CUT,
     ("not as long as it says", "ranges=(0 0 1 4)", "ranges=(0 0 1 2)"),
     ("not as long as it says", "ranges=(0 0 1 4)", "ranges=(0 0 4611686018427387904 4)"),
     ("a loop of this size", "count=4", "count=0"))
NAMED = entry(["f32[h=8]"], ["relabel(%0) : f32[s=2, t=4] relabel(h -> s=2, t=4) means={predict.1}"], [1])
case("axes of a relabel", unplaced(NAMED), NAMED,
     ("not as many elements", "relabel(h -> s=2, t=4)", "relabel(h -> s=4, t=2)"))

# ---- sums ----

R = " means={predict.6}"
SUMS = ["const() : f32[] number=3", LOOP, "sin(%0) : f32[a=4]", "cos(%0) : f32[a=4]", "add(%3, %4) : f32[a=4]"]
PARTS = ALONG + entry(["f32[a=4]"], SUMS + ["reduce[a](%3) : f32[]" + R, "reduce[a](%4) : f32[]" + R,
                                            "slice[a](%5) : f32[a=2] ranges=(0 2 1 2)", "reduce[a](%8) : f32[]" + R,
                                            "add(%6, %7) : f32[]", "add(%10, %9) : f32[]"], [10, 2])
case("terms beside a part of all", unplaced(ALONG) + entry(["f32[a=4]"], SUMS + ["reduce[a](%5) : f32[]"], [6, 2]),
    PARTS,
     ("is not what", "return %10", "return %11"))
E = "f32[e=3]"
LACKS = """func body : body @1:1-2 {
  arg %0 : i32[]
  arg %1 : f32[e=3] means={body.1}
  arg %2 : f32[e=3] means={body.2}
  arg %3 : f32[e=3] means={body.1}
  arg %4 : f32[e=3] means={body.2}
  arg %5 : f32[e=3]
  %6 = add(%1, %5) : f32[e=3] means={body.4} @1:1-2
  %7 = add(%2, %1) : f32[e=3] means={body.5} @1:1-2
  %8 = add(%3, %5) : f32[e=3] means={body.4} @1:1-2
  %9 = add(%4, %1) : f32[e=3] means={body.5} @1:1-2
  return %6, %7, %8, %9
}
""" + entry([E], ["sin(%0) : " + E, "cos(%0) : " + E, "exp(%0) : " + E, "const() : f32[]", "expand(%4) : " + E,
                  "4 loop(%1, %2, %5, %5, %3) : f32[e=3], f32[e=3], f32[e=3], f32[e=3] func=body "
                  "loop(label=l axis=l count=4 carried=4 invariant=1)", "add(%2, %9) : " + E], [10])
BEGINS = """func body : body @1:1-2 {
  arg %0 : i32[]
  arg %1 : f32[e=3]
  arg %2 : f32[e=3]
  arg %3 : f32[e=3]
  %4 = add(%1, %3) : f32[e=3] @1:1-2
  %5 = add(%2, %1) : f32[e=3] @1:1-2
  return %4, %5
}
""" + entry([E], ["sin(%0) : " + E, "cos(%0) : " + E, "exp(%0) : " + E,
                  "2 loop(%1, %2, %3) : f32[e=3], f32[e=3] func=body "
                  "loop(label=l axis=l count=4 carried=2 invariant=1)"], [5])
case("a sum that begins with 0", BEGINS, LACKS,
     # the value with which another one began is missing
     ("does not become", "%9 = add(%4, %1)", "%9 = add(%2, %3)"))

# ---- exchanges, stages ----

ADDED = MESH + entry(["f32[a=4/m, b=4]"], ["reduce[a](%0) : f32[b=4]{sum m} means={predict.1}",
    "all_reduce(%1) : f32[b=4] mesh={m}",
                                      "cast(%2) : f32[b=4]", "sin(%3) : f32[b=4] means={predict.2}"], [4])
case("a sum over ranks", entry(["f32[a=4, b=4]"], ["reduce[a](%0) : f32[b=4]", "sin(%1) : f32[b=4]"], [2]), ADDED,
     ("changes its dtype", "all_reduce(%1) : f32", "all_reduce(%1) : bf16"),
     ("makes no sum of the pending one", "all_reduce(%1) : f32[b=4] mesh={m}",
     "reduce_scatter(%1) : f32[b=4/m] reduce=min mesh={m}",
      "cast(%2) : f32[b=4]", "cast(%2) : f32[b=4/m]", "sin(%3) : f32[b=4]", "sin(%3) : f32[b=4/m]"))
GATHERED = MESH + entry(["f32[a=4/m, b=4]"], ["all_gather(%0) : f32[a=4, b=4] mesh={m}", "cast(%1) : f32[a=4, b=4]",
                                              "sin(%2) : f32[a=4, b=4] means={predict.1}"], [3])
case("a gather", entry(["f32[a=4, b=4]"], ["sin(%0) : f32[a=4, b=4]"], [1]), GATHERED,
     ("changes its dtype", "all_gather(%0) : f32", "all_gather(%0) : bf16"),
     ("the order of its axes", "all_gather(%0) : f32[a=4, b=4]", "all_gather(%0) : f32[b=4, a=4]"))
BOUND = entry(["f32[a=4]"], ["bind(%0) : f32[a=4] text=q", "cast(%1) : f32[a=4]",
    "sin(%2) : f32[a=4] means={predict.1}"], [3])
case("a mark", SIN, BOUND, ("another dtype", "bind(%0) : f32", "bind(%0) : bf16"))
SCATTERED = MESH + entry(["f32[b=4/m, s=4]", "i32[b=4/m, s=4]"],
    ["scatter_add[v; b, s](%0, %1) : f32[v=4]{sum m} means={predict.2}",
                                                          "all_reduce(%2) : f32[v=4] mesh={m}"], [3])
case("what is scattered", entry(["f32[b=4, s=4]", "i32[b=4, s=4]"], ["scatter_add[v; b, s](%0, %1) : f32[v=4]"], [2]),
    SCATTERED,
     ("an index lies otherwise", "i32[b=4/m, s=4]", "i32[b=4, s=4/m]"),
     ("an index lies otherwise", "i32[b=4/m, s=4]", "i32[b=4, s=4]"))
EDGE = MESH + entry(["f32[h=8/m]"], [
    'relabel(%0) : f32["@h"=2/m, "@h.part"=4] relabel(h -> "@h"=2, "@h.part"=4)',
    'slice["@h.part"](%1) : f32["@h"=2/m, "@h.part"=1] ranges=(3 0 1 1)', 'iota["@h"]() : i32["@h"=2/m]',
    "const() : i32[]",
    'eq(%3, %4) : bool["@h"=2/m]', "const() : f32[]", 'shift(%2) : f32["@h"=2/m, "@h.part"=1] mesh={m}',
    'where(%5, %6, %7) : f32["@h"=2/m, "@h.part"=1]', 'concat["@h.part"](%8, %1) : f32["@h"=2/m, "@h.part"=5]',
    'window["@h.part", w](%9) : f32["@h"=2/m, "@h.part"=4, w=2] ranges=(0 0 1 2)',
    'relabel(%10) : f32[h=8/m, w=2] relabel("@h", "@h.part" -> h=8) means={predict.1}'], [11])
case("an edge of a neighbour", entry(["f32[h=8]"], ["window[h, w](%0) : f32[h=8, w=2] ranges=(1 0 1 2)"], [1]), EDGE,
     # each rank has two parts, and passes on both
     ("one part per rank", '"@h"=2', '"@h"=4', '"@h.part"=4', '"@h.part"=2', '"@h.part"=5', '"@h.part"=3',
     "ranges=(3 0 1 1)", "ranges=(1 0 1 1)"))


def grads(p, q, gp, gq):
    return """store 0 : param f32[h=8] path=p%s
store 1 : param f32[h=8] path=q%s
store 2 : grad f32[h=8] path=p of=0%s
store 3 : grad f32[h=8] path=q of=1%s
""" % (p, q, gp, gq)


STEP = grads("", "", "", "") + entry([], ["param() : f32[h=8] text=p store=0", "param() : f32[h=8] text=q store=1",
    "exp(%0) : f32[h=8]",
                              "exp(%1) : f32[h=8]"], [2, 3], "grad", (2, 3)) + entry(
    [], ["param() : f32[h=8] text=p store=2", "param() : f32[h=8] text=q store=3"], [0, 1], "update", (0, 1))
PIPELINE = """pipeline "1f1b" mesh=pipe stages=(0, 1) micro=1 {
  run grad {
    piece 0 : f=grad.f0
    piece 1 : f=grad.f1
    stage 0 : "0F0"
    stage 1 : "1F0"
  }
}
"""


def staged(text, stage):
    return re.sub(r"^(entry .*) \{", r"\1 stage=%d {" % stage, text, flags=re.M)


def stage(i):
    path = "pq"[i]
    return staged(entry([], ["param() : f32[h=8] text=%s store=%d" % (path, i), "neg(%0) : f32[h=8]",
    "neg(%1) : f32[h=8]",
                             "exp(%%0) : f32[h=8] means={grad.%d}" % (2 + i)], [3], "grad.f%d" % i, (2 + i,)) +
                  entry([], ["param() : f32[h=8] text=%s store=%d" % (path, 2 + i)], [0], "update.%d" % i, (i,)), i)


STAGES = "mesh pipe=2\n" + grads(*(" stage=%d" % i for i in (0, 1, 0, 1))) + stage(0) + stage(1) + PIPELINE
case("stages", STEP, STAGES,
     ("between stages|parts of one value", "neg(%0) : f32[h=8]", "shard(%0) : f32[h=8/pipe] mesh={pipe}",
     "neg(%1) : f32[h=8]",
      # half of the samples, of either stage
      "all_gather(%1) : f32[h=8] mesh={pipe}", "exp(%0)", "exp(%2)"),
     ("is of no stage", "grad.f1 stage=1", "grad.f1"),
     ("another name than what it belongs to", "store 2 : grad f32[h=8] path=p", "store 2 : grad f32[h=8] path=q",
     "store 3 : grad f32[h=8] path=q", "store 3 : grad f32[h=8] path=p"),
     ("of another stage|not of its stage", "text=p store=0 @", "text=q store=1 @", "exp(%0) : f32[h=8] means={grad.2}",
     "exp(%0) : f32[h=8] means={grad.3}"))

# ---- stores ----

FROZEN = MESH + "store 0 : param f32[h=8/m] path=p\n" + entry(
    [], ["param() : f32[h=8/m] text=p store=0", "reduce[h](%0) : f32[]{sum m} means={predict.1}",
    "all_reduce(%1) : f32[] mesh={m}"], [2])
case("a parameter", "store 0 : param f32[h=8] path=p\n" + entry([], ["param() : f32[h=8] text=p store=0",
    "reduce[h](%0) : f32[]"], [1]), FROZEN,
     ("hold terms of a sum", "f32[h=8/m]", "f32[h=8]{sum m}"),
     ("hold terms of a sum", "mesh m=2, n=2", "mesh m=2 time, n=2"),
     ("begins otherwise", "path=p", "path=p init=const(1, 0)"))
SUB = "sub(%0, %1) : f32[h=8] means={update.2}"
UPDATE = grads("", "", "", "") + entry([], ["param() : f32[h=8] text=p store=0", "param() : f32[h=8] text=q store=1",
    "exp(%0) : f32[h=8] means={grad.2}",
    "sin(%1) : f32[h=8] means={grad.3}"], [2, 3], "grad", (2, 3)) + entry(
    [], ["param() : f32[h=8] text=p store=0", "param() : f32[h=8] text=p store=2", SUB,
    "param() : f32[h=8] text=q store=3"], [2, 3], "update", (0, 1))
case("an update", unplaced(UPDATE), UPDATE,
     ("is added to what its store holds", "result store=0", "result store=0 accumulate"),
     ("is not what is added up there", "store 2 : grad f32[h=8] path=p", "store 2 : grad f32[h=8] path=q",
     "store 3 : grad f32[h=8] path=q", "store 3 : grad f32[h=8] path=p"))

# ---- buckets ----

PACKED = MESH + entry(["f32[a=8/m]"], ['pack(%0) : f32["@split"=2/m, "@bucket"=4]', "unpack(%1) : f32[a=8/m]",
    "sin(%2) : f32[a=8/m] means={predict.1}"], [3])
case("a bucket", entry(["f32[a=8]"], ["sin(%0) : f32[a=8]"], [1]), PACKED,
     ("no member of the bucket", "input() : f32[a=8/m]", "input() : f32[a=8/m~]"),
     ("shorter than what is in it", '"@bucket"=4', '"@bucket"=2'),
     ("lies otherwise than what", '"@split"=2/m, "@bucket"=4', '"@split"=4/m, "@bucket"=4'))
MASKED = entry(["f32[a=4]"], ["iota[a]() : i32[a=4]", "const() : i32[] number=4", "lt(%1, %2) : bool[a=4]",
    'pack(%3) : bool["@bucket"=4]', 'pack(%0) : f32["@bucket"=4]', "const() : f32[]",
    'where(%4, %5, %6) : f32["@bucket"=4]', "unpack(%7) : f32[a=4]", "cast(%8) : f32[a=4]",
    "sin(%9) : f32[a=4] means={predict.1}"], [10])
case("a selection of all that is in a bucket", SIN, MASKED,
     ("is not what", 'where(%4, %5, %6) : f32["@bucket"=4]', 'where(%4, %5, %6) : bf16["@bucket"=4]',
      "unpack(%7) : f32[a=4]", "unpack(%7) : bf16[a=4]"))
SQUARES = entry(["f32[a=3]"], ["const() : f32[] number=1", "add(%0, %1) : f32[a=3]", "mul(%0, %0) : f32[a=3]",
    "mul(%2, %2) : f32[a=3]",
                               "reduce[a](%3) : f32[]", "reduce[a](%4) : f32[]"], [5, 6])
RUNS = entry(["f32[a=3]"], ['pack(%0) : f32["@bucket"=4]', "const() : f32[] number=1",
    "add(%0, %2) : f32[a=3] means={predict.2}",
                            'pack(%3) : f32["@bucket"=4]', 'add(%1, %2) : f32["@bucket"=4] means={predict.2}',
                            'mul(%1, %1) : f32["@bucket"=4] means={predict.3}',
                            'mul(%4, %4) : f32["@bucket"=4] means={predict.4}',
                            'reduce["@bucket"](%6) : f32[] means={predict.5}',
                            'reduce["@bucket"](%7) : f32[] means={predict.6}'], [8, 9])
# the store contains 1, and is added
case("what is behind the members of a bucket", SQUARES, RUNS, ("may be other than 0", "mul(%4, %4)", "mul(%5, %5)"))
HOLD = """store 0 : param f32[h=3] path=p
store 1 : moment1 f32[h=3] path=p of=0
"""
KEEP = entry([], ["param() : f32[h=3] text=p store=0", "param() : f32[h=3] text=p store=1", "const() : f32[] number=2",
                  "mul(%1, %2) : f32[h=3]", "mul(%1, %1) : f32[h=3]", "reduce[h](%4) : f32[]",
                  "mul(%0, %5) : f32[h=3]"], [6, 3], "update", (0, 1))
KEPT = """store 0 : param f32[h=3] path=p bucket=2
store 1 : moment1 f32[h=3] path=p of=0 bucket=3
store 2 : param f32["@bucket"=4] path="@bucket0"
store 3 : moment1 f32["@bucket"=4] path="@bucket0" of=2
""" + entry([], ['param() : f32["@bucket"=4] text="@bucket0" store=2',
    'param() : f32["@bucket"=4] text="@bucket0" store=3', "const() : f32[] number=2",
                 'mul(%1, %2) : f32["@bucket"=4] means={update.3}', 'mul(%1, %1) : f32["@bucket"=4] means={update.4}',
                 'reduce["@bucket"](%4) : f32[] means={update.5}', 'mul(%0, %5) : f32["@bucket"=4] means={update.6}'],
                 [6, 3], "update", (2, 3))
case("what a store has behind its members", HOLD + KEEP, KEPT,
     ("members overlap", "bucket=2", "bucket=2 at=2"),
     ("stored on 1 of 2", 'store 2 : param f32["@bucket"=4] path="@bucket0"',
     'store 2 : param f32["@bucket"=4] path=p'))
MEMBERS = KEPT.replace("  return %6, %3\n", """  %7 = unpack(%3) : f32[h=3] @1:1-2
  %8 = pack(%7) : f32["@bucket"=4] @1:1-2
  return %6, %8
""")
case("a bucket that is put together anew", HOLD + KEEP, MEMBERS,
     ("more than its members", "  %8 = pack(%7)", """  %8 = const() : f32[] number=3 @1:1-2
  %9 = expand(%8) : f32[x=1] @1:1-2
  %10 = pack(%7, %9)""", "return %6, %8", "return %6, %10"))
SCALE = "const() : f32[] number=2"  # or what a state that is in no bucket says
case("a bucket times a state",
     HOLD + "store 2 : state f32[] path=t\n" + KEEP.replace(SCALE, "param() : f32[] text=t store=2"),
     KEPT.replace(SCALE, "param() : f32[] text=t store=4").replace("func ", "store 4 : state f32[] path=t\nfunc ", 1))
# the moment grows by 2, and so does the store after it, which the next step adds
MORE = (("mul(%1, %2)", "add(%1, %2)"),)
CASES.append(("what a store will have behind its members", HOLD + KEEP.replace(*MORE[0]), None,
    (("what a store has behind", KEPT.replace(*MORE[0])),)))

# ---- padding ----

LOOKUP = """store 0 : param f32[v=3] path=x
store 1 : param i32[v=3] path=i
""" + entry([], ["param() : f32[v=3] text=x store=0", "param() : i32[v=3] text=i store=1", "iota[v]() : i32[v=3]",
    "const() : i32[] number=3",
                 "lt(%2, %3) : bool[v=3]", "const() : f32[]", "gather[v](%0, %1) : f32[v=3] means={predict.6}",
                 "where(%4, %6, %5) : f32[v=3] means={predict.7}", "reduce[v](%7) : f32[] means={predict.8}"], [8])
LOWEST = "store 0 : param i32[s=3] path=i\n" + entry(
    [], ["param() : i32[s=3] text=i store=0", "const() : f32[] number=-inf", "expand(%1) : f32[s=3]",
         "scatter_add[v; s](%2, %0) : f32[v=3] means={predict.3}",
         "reduce[v](%3) : f32[] reduce=max means={predict.4}"], [4])
RATIO = "store 0 : param f32[v=3] path=x\n" + entry(
    [], ["param() : f32[v=3] text=x store=0", "const() : f32[] number=1e-30",
    "mul(%0, %0) : f32[v=3] means={predict.2}",
         "add(%2, %1) : f32[v=3] means={predict.3}", "div(%0, %3) : f32[v=3] means={predict.4}",
         "reduce[v](%4) : f32[] means={predict.5}"], [5])


def padded(text):
    return MESH + "padded v=3 of 4\n" + text.replace("v=3", "v=4")


case("a lookup by what is padded", unplaced(LOOKUP), padded(LOOKUP), ("does not hold the identity", "reduce[v](%7)",
    "reduce[v](%6)"))
# nothing is added there, and the store contains 0
CASES.append(("the largest of what is added up where it is padded", unplaced(LOWEST), None,
    (("does not hold the identity", padded(LOWEST)),)))
case("a quotient of zeros", unplaced(RATIO), padded(RATIO))
LEAST = RATIO.replace("1e-30", "1e-60")
CASES.append(("a quotient by what is 0 in f32", unplaced(LEAST), None, (("does not hold the identity", padded(LEAST)),
    )))
TWICE = """store 0 : param f32[v=3] path=p
store 1 : grad f32[v=3] path=p of=0
"""
UPDATED = entry([], ["param() : f32[v=3] text=p store=0", "param() : f32[v=3] text=p store=1",
                     "sub(%0, %1) : f32[v=3] means={update.2}"], [2], "update", (0,))
ADDED_UP = "".join(staged(text.replace("result store=1", "result store=1 accumulate"), 0) for text in (
    entry([], ["param() : f32[v=3] text=p store=0", "neg(%0) : f32[v=3] means={grad.1}"], [1], "grad.f0", (1,)),
    entry([], ["param() : f32[v=3] text=p store=0", "abs(%0) : f32[v=3] means={grad.2}"], [1], "grad.f1", (1,)),
    UPDATED.replace(" update ", " update.0 ").replace(": update ", ": update.0 ")))
PIECES = TWICE.replace(" path", " stage=0 path") + ADDED_UP + PIPELINE.replace("stages=(0, 1)", "stages=(0, 0)")
PIECES = "mesh pipe=2\npadded v=3 of 4\n" + PIECES.replace("v=3", "v=4")
case("a gradient of two pieces", TWICE + entry(
    [], ["param() : f32[v=3] text=p store=0", "neg(%0) : f32[v=3]", "abs(%0) : f32[v=3]", "add(%1, %2) : f32[v=3]"],
    [3], "grad", (1,)) + unplaced(UPDATED), PIECES,
     ("do not add up", "result store=1 accumulate\n}\nfunc grad.f1", "result store=1\n}\nfunc grad.f1"))
_, GRADIENT, _, _ = CASES[-1]
CASES += [("a gradient of two pieces, one with padding", GRADIENT.replace(op, "cos("), None,
           (("has padding that is not zero", PIECES.replace(op, "cos(")),)) for op in ("neg(", "abs(")]


def changed(placed, change):
    """Returns the message and the changed text; every old text must occur."""
    text = placed or change[1]
    for old, new in zip(change[1::2], change[2::2]) if placed else ():
        assert old in text, old
        text = text.replace(old, new)
    return change[0], text


def main(prover):
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for what, serial, placed, changes in CASES:
            texts = [("^holds", placed)] * (placed is not None) + [changed(placed, change) for change in changes]
            paths = []
            for i, text in enumerate([serial] + [meant(serial, text) for _, text in texts]):
                paths.append(os.path.join(folder, "%d.ir" % i))
                with open(paths[-1], "w") as file:
                    file.write(text)
            done = subprocess.run([prover] + paths, capture_output=True, text=True, check=True, timeout=60)
            verdicts = done.stdout.splitlines()
            assert len(verdicts) == len(texts), done.stdout
            for (want, text), verdict in zip(texts, verdicts):
                good = re.search(want, verdict) is not None and verdict.startswith("holds") == want.startswith("^holds")
                passed, failed = passed + good, failed + (not good)
                if not good:
                    print("FAIL %s: wanted `%s`, got `%s` for\n%s" % (what, want, verdict, text))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
