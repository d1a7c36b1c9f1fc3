#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pruned weights:  prune.py DTC DTRUN

--prune sets to zero what a plain search in Python does, whatever the layout and the dtype of the parameters: 2 of 4 neighbours
along the first axis or along another one, or a part of a whole tensor. Training with `keep_zeros` then leaves these elements
at zero, on one rank, on two with ZeRO 3 and on four with a pipeline and tensor parallelism, and changes the others as it does
where the layer itself multiplies by a constant mask. Without `keep_zeros` the zeros do not last."""

import os
import sys
import tempfile

from runs import CLUSTERS, NET, PIPE, check, compare_tensors, failures, run, saved, write_tokens

PROGRAM = NET + """  optimizer = OPTIMIZER
  KEEP
  PRECISION
  steps = 8
}
""" + CLUSTERS + """parallel data on two { mesh data = 2; shard batch on data; zero 3 on data }
""" + PIPE
KEEP = "keep_zeros = \"h.*.w\""
MIXED = "precision = mixed(compute = bf16, params = bf16, master = f32)"
SHAPES = {"up": (8, 16), "down": (16, 8)}


def compile_plan(tools, name, layout, keep=KEEP, precision="", optimizer="adamw(lr = 0.01, decay = 0.1)"):
    with open(name + ".dsl", "w") as file:
        file.write(PROGRAM.replace("KEEP", keep).replace("PRECISION", precision).replace("OPTIMIZER", optimizer))
    run([tools[0], name + ".dsl", "--parallel", layout, "-o", name + ".plan"])


def groups_of(n, shape, axis, of):
    """The elements, by number, that are compared with each other."""
    stride = 1
    for extent in shape[axis + 1:]:
        stride *= extent
    for i in range(n):
        if i // stride % shape[axis] % of == 0:
            yield [i + k * stride for k in range(of)]


def prune_groups(values, shape, axis, kept, of):
    values = list(values)
    for group in groups_of(len(values), shape, axis, of):
        for i in sorted(group, key=lambda at: -abs(values[at]))[kept:]:
            values[i] = 0.0
    return values


def prune_share(values, share):
    least = sorted(map(abs, values))[int(share * len(values))]
    return [value if abs(value) >= least else 0.0 for value in values]


def want(tensors, rules):
    """rules: by part of the path a function from values and shape to values."""
    pruned = {}
    for name, values in tensors.items():
        pruned[name] = list(values)
        for part, rule in rules.items():
            if name.startswith("h.") and name.endswith(".%s.w" % part):
                pruned[name] = rule(values, SHAPES[part])
    return pruned


RULES = (
    (("h.*.w=2:4",), {part: lambda v, s: prune_groups(v, s, 0, 2, 4) for part in SHAPES}),
    (("h.*.up.w=1:4/mid", "h.*.down.w=60%"), {"up": lambda v, s: prune_groups(v, s, 1, 1, 4),
                                              "down": lambda v, s: prune_share(v, 0.6)}))


def test_prunes(tools):
    for layout in ("none", "data", "pipe"):
        compile_plan(tools, layout, layout)
        compile_plan(tools, layout + ".mixed", layout, precision=MIXED)
        for plan in (layout, layout + ".mixed"):
            run([tools[1], plan + ".plan", "--quiet", "--steps", "3", "--save", plan])
            begin = saved(plan, 3)
            for number, (options, rules) in enumerate(RULES):
                to = "%s.%d" % (plan, number)
                arguments = [word for option in options for word in ("--prune", option)]
                run([tools[1], plan + ".plan", "--quiet", "--resume", plan, "--save", to, "--steps", "3", *arguments])
                got = saved(to, 3)
                for name, values in want(begin, rules).items():
                    check(list(got[name]) == values, "%s: `%s` is pruned otherwise by %s" % (to, name, options))


def zeros(tensors):
    return {name: [value == 0 for value in values] for name, values in tensors.items() if name.startswith("h.")}


def test_keeps(tools):
    last = {}
    for plan in ("none", "data", "pipe", "none.mixed", "data.mixed"):
        run([tools[1], plan + ".plan", "--quiet", "--resume", plan + ".0", "--save", plan + ".on"])
        before, last[plan] = saved(plan + ".0", 3), saved(plan + ".on", 8)
        now = zeros(last[plan])
        for name, at in zeros(before).items():
            check(now[name] == at, "%s: zeros of `%s` have moved" % (plan, name))
            check(list(last[plan][name]) != list(before[name]), "%s: `%s` has not changed" % (plan, name))
    for plan in ("data", "pipe"):
        compare_tensors(plan, last[plan], last["none"], saved("none.0", 3))
    compile_plan(tools, "lost", "none", keep="")
    run([tools[1], "lost.plan", "--quiet", "--resume", "none.0", "--save", "lost"])
    check(zeros(saved("lost", 8)) != zeros(saved("none.0", 3)), "zeros last without keep_zeros")


def test_gradient(tools):
    """One step of plain descent: elements that are not zero change as they do without keep_zeros, the others not at all."""
    for name, keep in (("keep", KEEP), ("free", "")):
        compile_plan(tools, name, "none", keep=keep, optimizer="sgd(lr = 0.1)")
        run([tools[1], name + ".plan", "--quiet", "--weights", "none.0", "--steps", "1", "--save", name])
    before, keep, free = saved("none.0", 3), saved("keep", 1), saved("free", 1)
    for name in SHAPES:
        path = "h.1.%s.w" % name
        for old, kept, other in zip(before[path], keep[path], free[path]):
            check(kept == (other if old else 0.0), "`%s` becomes %g, and %g without keep_zeros" % (path, kept, other))


def test_refused(tools):
    for options, text, code in (
            (("--resume", "none", "--prune", "h.*.w"), "--prune takes PATTERN=2:4", 2),
            (("--resume", "none", "--prune", "h.*.w=4:4"), "not all can stay", 2),
            (("--resume", "none", "--prune", "h.*.w=2:99"), "of at most 32 neighbours", 2),
            (("--resume", "none", "--prune", "h.*.w=100%"), "less than 100", 2),
            (("--resume", "none", "--prune", "h.*.w=2:4/"), "--prune takes PATTERN=2:4", 2),
            (("--resume", "none", "--prune", "h.*.w=2:4/wide"), "has no axis wide", 2),
            (("--resume", "none", "--prune", "h.*.w=2:5"), "no multiple of 5", 2),
            (("--resume", "none", "--prune", "h.*.v=2:4"), "no parameter of the plan has a path that matches", 2),
            (("--prune", "h.*.w=2:4"), "--prune belongs to --resume and --weights", 2),
            (("--resume", "absent", "--or-start", "--prune", "h.*.w=2:4"), "there is no checkpoint in absent", 2)):
        said = run([tools[1], "none.plan", "--quiet", "--steps", "3", *options], wants=code)
        check(text in said, "%s: %s" % (options, said))


def test_copies(tools):
    """A copy begins as its pruned original; it has tensors of its own in a checkpoint."""
    alone = "loss = mean[batch, seq](xent[vocab](m(tokens), labels))"
    both = ("policy = m\n  reference = reference:copy(policy)\n  z = policy(tokens)\n"
            "  loss = mean[batch, seq](xent[vocab](z, labels)) + mean[batch, seq, vocab]((z - reference(tokens)) ** 2)")
    with open("copy.dsl", "w") as file:
        file.write(PROGRAM.replace(alone, both).replace("KEEP", "").replace("PRECISION", "").replace("OPTIMIZER", "sgd(lr = 0.1)"))
    run([tools[0], "copy.dsl", "--parallel", "none", "-o", "copy.plan"])
    said = run([tools[1], "copy.plan", "--weights", "none", "--steps", "0", "--save", "copied", "--prune", "h.*.w=2:4"])
    check("--prune h.*.w=2:4 prunes 8 tensors, of which 4 are of copies (the first: `reference.h.0." in said, said)
    got = saved("copied", 0)
    for name, values in want({name: of for name, of in saved("none", 3).items() if name in got}, RULES[0][1]).items():
        check(list(got[name]) == values and got["reference." + name] == got[name], "copies: `%s` is pruned otherwise" % name)
    said = run([tools[1], "copy.plan", "--weights", "none", "--steps", "0", "--prune", "reference.*.w=2:4"], wants=2)
    check(".w` is a copy, which begins with the value of its original: name that" in said, said)
    said = run([tools[1], "copy.plan", "--resume", "copied", "--steps", "0", "--save", "more", "--prune", "*.up.w=1:4"])
    check("prunes 4 tensors, of which 2 are of copies" in said, said)
    said = run([tools[1], "copy.plan", "--resume", "copied", "--steps", "0", "--save", "other", "--prune", "h.*.up.w=1:4"])
    check("--prune" not in said and saved("other", 0)["reference.h.0.up.w"] == got["h.0.up.w"] and
          saved("other", 0)["h.0.up.w"] == saved("more", 0)["reference.h.0.up.w"], "the original alone: " + said)


def main(tools):
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        test_prunes(tools)
        test_keeps(tools)
        test_gradient(tools)
        test_refused(tools)
        test_copies(tools)
    print("prune: %d failed" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(path) for path in sys.argv[1:]]))
