#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The certificate of plan files against edits of several records at once: planedits.py DTC EDITLOGICAL [DTRUN]

Each edit of a plan's text is one that no single field shows: what moves, moves in all records that speak of it. So
everybody finds everything where it says it is, and ranks compute something else all the same, or the runtime reads
what no result is. `dtc verify` accepts the plan as it was, written anew from its text, and refuses the edit with its
reason; what only --program can see, it refuses there. With DTRUN ranks run the edits of RUNS, and must compute other
losses or norms than the plan, or fail."""
import base64
import copy
import os
import random
import re
import subprocess
import sys
import tempfile

import planmutants

MICRO, SPLIT, STAGES = "quickstart none - 4 0 - f32", "quickstart d4 - 1 0 - f32", planmutants.CLASS
CHUNKS, CUT, TIED = "quickstart dc dualpipe_v 2 2 keep master", "gpt2 ut - 1 0 - f32", "tied"
EXPERTS, BLOCKS = "moe none - 4 0 all f32", "blocks"
# attention in two loops over its blocks, and over samples and heads
planmutants.EXAMPLES[BLOCKS] = ("examples/gpt2.dsl", "batch=4 seq=8 vocab=16 layers=2 embed=16 heads=2",
                                "cluster.nodes=1 cluster.gpus=2 parallel.mesh.data=2 parallel.micro.batch=1")
PROGRAM = os.path.join(planmutants.ROOT, "tests", "cli", "verify.dsl")


class Record:
    def __init__(self, tag, fields, blob=()):
        self.tag, self.fields, self.blob = tag, fields, list(blob)

    def __getitem__(self, name):
        return int(self.fields.get(name, 0))

    def __setitem__(self, name, value):
        self.fields[name] = str(value)

    def is_a(self, name):
        return self.fields.get("kind") == name

    def is_at(self, arena, base):
        return self.is_a("address") and (self["arena"], self["base"]) == (arena, base)


class Plan:
    def __init__(self, text):
        self.head, *lines = text.rstrip("\n").split("\n")
        self.records = []
        for line in lines:
            if not re.match(r"[A-Z]{4}\b", line):
                self.records[-1].blob.append(line)
                continue
            fields = re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\([^)]*\)|\S+)', re.sub(r"# \d+$", "", line))
            self.records.append(Record(line[:4], dict(fields)))

    def text(self):
        lines = [self.head]
        for record in self.records:
            lines.append(" ".join([record.tag] + ["%s=%s" % field for field in record.fields.items()]))
            lines += record.blob
        return "\n".join(lines) + "\n"

    def all(self, tag):
        return [record for record in self.records if record.tag == tag]

    def add(self, index, record, before="CODE"):
        same = self.all(record.tag)
        at = self.records.index(same[index] if index < len(same) else same[-1] if same else self.all(before)[0])
        self.records.insert(at + (bool(same) and index >= len(same)), record)

    def remove(self, record):
        self.records.remove(record)

    def named(self, tag, **fields):
        return next(r for r in self.all(tag) if all(r.fields.get(k) == v for k, v in fields.items()))

    def bodies(self, entries):
        """The instructions that these entries run."""
        items = [s for e in entries for s in self.all("SCHD")[e["first"]:e["first"] + e["count"]]]
        return [self.all("BODY")[item["body"]] for item in items if item.is_a("run")]

    def args(self, body):
        insts = self.all("INST")[body["first_inst"]:body["first_inst"] + body["n_insts"]]
        return [arg for inst in insts for arg in self.all("ARGS")[inst["first_arg"]:inst["first_arg"] + inst["n_args"]]]

    def move(self, old, new):
        """Moves all arguments at one place (arena, base) to another one."""
        for arg in self.all("ARGS"):
            if arg.is_at(*old):
                arg["arena"], arg["base"] = new

    def grow(self, arena, size):
        self.all("AREN")[arena]["bytes"] = max(size, self.all("AREN")[arena]["bytes"])
        for record in self.all("ASIZ")[arena::len(self.all("AREN"))]:
            record["bytes"] = self.all("AREN")[arena]["bytes"]


def new(record, **fields):
    made = copy.deepcopy(record)
    made.fields.update(fields)
    return made


# ---- what the runtime writes and reads ----

def two_scalars(plan):
    first, second = plan.all("SCAL")[:2]
    plan.move((first["arena"], first["offset"]), (second["arena"], second["offset"]))
    first["offset"] = second["offset"]


def scalar_in_store(plan):
    scalar, store = plan.all("SCAL")[0], plan.named("STOR", path='"wpe"')
    plan.move((scalar["arena"], scalar["offset"]), (store["arena"], store["offset"]))
    scalar["arena"], scalar["offset"] = store["arena"], store["offset"]


def step_over_rate(plan):
    """The learning rate, which only the update reads, is stored where a step has a temporary value:
    the gradient of the logits."""
    rate, far = plan.named("SCAL", name='"@lr"'), 1 << 16
    zeroed = next(a for a in plan.all("ARGS") if a.is_a("address") and a["arena"] == 3 and a["bytes"] == 128)
    old = (rate["arena"], rate["offset"])
    plan.move(old, (old[0], far))
    plan.move((3, zeroed["base"]), (old[0], far))
    rate["offset"] = far
    plan.grow(old[0], far + (1 << 12))


def norm_over_loss(plan):
    loss, norm = plan.named("METR", name='"loss"', entry='"step"'), plan.named("METR", name='"grad_norm"')
    plan.move((norm["arena"], norm["offset"]), (loss["arena"], loss["offset"]))
    norm["offset"] = loss["offset"]


def read_once(plan):
    """The batch is read before the loop over micro-batches."""
    before, inside = plan.bodies(plan.all("ENTR"))[:2]
    read = next(inst for inst in plan.all("INST")[inside["first_inst"]:] if inst.is_a("read"))
    plan.remove(read)
    plan.add(inside["first_inst"], read)
    inside["first_inst"], inside["n_insts"] = inside["first_inst"] + 1, inside["n_insts"] - 1
    before["n_insts"] += 1


def inputs_in_unknown_arena(plan):
    for n in range(len(plan.all("AREN")), 14):
        plan.add(n, Record("AREN", {"name": '"more"', "kind": "inputs", "bytes": "4096"}))
    for one in plan.all("INPT"):
        plan.move((one["arena"], one["offset"]), (13, 0))
        one["arena"], one["offset"] = 13, 0


def predicts_of_eval(plan):
    """The input for predictions is written to another place than `predict` reads."""
    tokens = plan.all("INPT")[2]
    for arg in (arg for body in plan.bodies(plan.all("ENTR")[1:3]) for arg in plan.args(body)):
        if arg.is_at(tokens["arena"], tokens["offset"]):
            arg["base"] = 1024
    plan.grow(tokens["arena"], 4096)
    tokens["offset"] = 1024


def sum_of_loss(plan):
    """The loss is stored between two gradients that are summed over ranks together."""
    loss = plan.named("METR", name='"loss"')
    far = {0: 0, 512: 516}
    for arg in plan.all("ARGS"):
        if arg.is_at(loss["arena"], loss["offset"]):
            arg["arena"], arg["base"] = 1, 512
        elif arg.is_at(1, 0) and arg["bytes"] == 1024:
            arg["bytes"] = 1028
        elif arg.is_a("address") and arg["arena"] == 1:
            arg["base"] = far.get(arg["base"], arg["base"] + 64)
    for store in plan.all("STOR"):
        if store["arena"] == 1:
            store["offset"] = far.get(store["offset"], store["offset"] + 64)
    for inst in plan.all("INST"):
        if inst.is_a("all_reduce") and inst["count"] == 256:
            inst["count"] = 257
    loss["arena"], loss["offset"] = 1, 512
    plan.grow(1, plan.all("AREN")[1]["bytes"] + 64)


def over_other_head(plan):
    """In the second iteration of the inner loop, a temporary of an attention block is stored over the
    output of the first iteration."""
    runs, far = plan.all("SCHD"), 1 << 20
    at = next(i for i, item in enumerate(runs) if item.is_a("loop") and runs[i + 1].is_a("loop"))
    blocks, behind = (plan.all("BODY")[runs[at + k]["body"]] for k in (2, 5))
    args = [arg for arg in plan.args(blocks) if arg.is_a("address")]
    made = [(arg["arena"], arg["base"]) for arg in args if arg["written"]]
    for arg in args + plan.args(behind)[:1]:
        if arg.is_at(*made[-1]):
            arg["base"] = far
        elif arg.is_at(*made[0]):
            arg["base"], arg["reg"] = far + 4096, "(%s-4096)" % ("0, " * runs[at + 1]["reg"])
    plan.grow(made[0][0], far + 8192)


# ---- records ----

def in_bucket(plan):
    store = plan.all("STOR")[0]
    axes = plan.all("AXIS")[store["first_axis"]:store["first_axis"] + store["n_axes"]]
    n, size = axes[0]["local"] * axes[1]["local"], plan.all("MESH")[0]["size"]
    plan.add(len(plan.all("PACK")), Record("PACK", {"extent": str(n * size), "run": str(n), "n_split": "1"}))
    store["pack"] = len(plan.all("PACK"))


def begins_later(plan):
    """The part of an axis, which is not a loop's, that a rank has begins one element later."""
    for store in plan.all("STOR"):
        axes = plan.all("AXIS")[store["first_axis"]:store["first_axis"] + store["n_axes"]]
        cut = [axis for axis in axes[max(1, store["n_loops"]):] if axis["local"] < axis["extent"]]
        if cut:
            cut[0]["first"] = 1
            return


def on_all_stages(plan):
    store = next(s for s in plan.all("STOR") if s.fields["path"] == '"h.ln1.gain"' and s["stage"] == 3)
    store["stage"] = -1


def other_owner(plan):
    stores = plan.all("STOR")
    owned = next(s for s in stores if s.is_a("grad") and s.fields["path"] == '"h.ln1.gain"')
    owned["of"] = next(i for i, s in enumerate(stores) if i != owned["of"] and s.fields["path"] == '"h.ln1.gain"')


def result_more(plan):
    loss = plan.all("METR")[0]
    plan.add(len(plan.all("METR")), new(loss, name='"accuracy"', offset="0"))


def other_formula(plan):
    plan.named("SHOW", entry='"eval"')["formula"] = '"mul(loss, 0.5)"'


def on_no_stage(plan):
    plan.named("METR", name='"m.0"')["stage"] = -1
    plan.grow(8, 128)


def no_eval(plan):
    plan.remove(plan.all("ENTR")[1])
    plan.remove(plan.all("NOTE")[1])
    plan.remove(plan.named("METR", entry='"eval"'))
    plan.remove(plan.named("SHOW", entry='"eval"'))
    for peak in plan.all("PEAK"):
        if peak["entry"] == 1:
            plan.remove(peak)
        elif peak["entry"]:
            peak["entry"] -= 1


def several_losses(plan):
    """Steps use other schedules than those that are combined; editlogical changes the facts."""
    entries, notes = plan.all("ENTR"), plan.all("NOTE")
    for entry, note in zip(entries, notes):
        if entry.fields["name"] == '"step"':
            plan.add(len(plan.all("ENTR")), new(entry, name='"step@x"'))
            plan.add(len(plan.all("NOTE")), new(note))
    plan.add(len(plan.all("METR")), new(plan.named("METR", name='"loss"'), entry='"step@x"'))
    plan.all("OBJE")[0]["step"] = '"step@x"'


EDITS = [(MICRO, two_scalars, "lies where something else does"),
         (MICRO, scalar_in_store, "lies where something else does"),
         (MICRO, step_over_rate, "@lr is overwritten, and still needed"),
         (MICRO, norm_over_loss, "a result of another entry is overwritten"),
         (MICRO, read_once, "a batch is read outside of the micro-batches"),
         (MICRO, inputs_in_unknown_arena, "the plan has 14 arenas"),
         (MICRO, predicts_of_eval, "does not hold value"),
         (BLOCKS, over_other_head, "what a block of attention writes overlaps output"),
         (TIED, sum_of_loss, "a scalar is not added over stages"),
         (SPLIT, in_bucket, "the record of store wte puts it into a bucket"),
         (CUT, begins_later, "has other axes"),
         (STAGES, on_all_stages, "is of no store of the program"),
         (CHUNKS, other_owner, "has another owner"),
         (MICRO, result_more, "is of no result of the program"),
         (MICRO, other_formula, "the plan's SHOW record has formula"),
         (TIED, on_no_stage, "names no stage"),
         (MICRO, no_eval, "of the program is 0 times in the plan"),
         (TIED, several_losses, "a pipeline has several losses")]
RUNS = [two_scalars, step_over_rate, read_once, inputs_in_unknown_arena, over_other_head, sum_of_loss, in_bucket,
        begins_later, on_all_stages, no_eval]


# ---- with --program ----

def notes_of(plan):
    blob = plan.all("LOGI")[0].blob
    return bytearray(base64.b64decode("".join(line[1:] for line in blob[blob.index(".") + 1:-1])))


def with_notes(plan, notes):
    made, text = copy.deepcopy(plan), base64.b64encode(notes).decode()
    blob = made.all("LOGI")[0].blob
    blob[blob.index(".") + 1:-1] = [":" + text[i:i + 100] for i in range(0, len(text), 100)]
    return made


def other_kernels(plan):
    """Plans in which an instruction calls another kernel of the same name, with other extents, and its
    note says the same."""
    kernels, notes = plan.all("KERN"), notes_of(plan)
    for at, inst in enumerate(plan.all("INST")):
        for number, kernel in enumerate(kernels):
            old = kernels[inst["ref"]] if inst.is_a("kernel") else kernel
            if number == inst["ref"] or old is kernel or any(old.fields.get(k) != kernel.fields.get(k)
                                                             for k in ("name", "n_pointers", "n_integers")):
                continue
            for byte in (i for i in range(len(notes)) if notes[i] == inst["ref"]):
                made = with_notes(plan, notes[:byte] + bytes([number]) + notes[byte + 1:])
                made.all("INST")[at]["ref"] = number
                yield made


def fewer_blocks(plan):
    made = copy.deepcopy(plan)
    made.all("LNCH")[0]["blocks"] = 1
    yield made


PROGRAMS = [([], other_kernels, "its notes differ"),
            (["--target=sm_90a", "--no-kernels"], fewer_blocks, "its kernels are not what the program's ops are")]


# ---- all of it ----

class Tools:
    def __init__(self, dtc, edit, dtrun, folder):
        self.dtc, self.edit, self.dtrun = dtc, edit, dtrun
        self.folder, self.out = folder, os.path.join(folder, "edited.plan")

    def write(self, plan, facts=("META", "META")):
        """The plan, with correct digests."""
        text = os.path.join(self.folder, "edited")
        with open(text, "w") as file:
            file.write(plan.text())
        made = subprocess.run([self.dtc, "asm", text, "-o", self.out], capture_output=True, text=True)
        if made.returncode:
            return made.stderr
        subprocess.run([self.edit, self.out, "facts", *facts, self.out], check=True)
        return ""

    def read(self, path):
        return Plan(subprocess.run([self.dtc, "dump", path], capture_output=True, text=True, check=True).stdout)

    def verify(self, *options):
        done = subprocess.run([self.dtc, "verify", self.out, *options], capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stderr


def judge(tools, layout, edit, reason):
    path = planmutants.compile_plan(tools.dtc, tools.folder, layout, tools.dtrun is not None)
    plan = tools.read(path)
    wrong = [said for said in [tools.write(plan) or tools.verify()] if said]
    edit(plan)
    said = tools.write(plan, ('step="step"', 'step="step@x"') if edit is several_losses else ("META", "META"))
    refused = tools.verify()
    if said or reason not in refused:
        wrong.append(said or refused or "is accepted")
    if tools.dtrun and edit in RUNS and planmutants.losses(tools.dtrun, path, tools.folder) == planmutants.losses(
            tools.dtrun, tools.out, tools.folder):
        wrong.append("computes the same")
    return ["%s of `%s`: %s" % (edit.__name__, layout, what) for what in wrong]


def judge_layouts(tools):
    """A note says that a kernel reads a value with another layout, which differs in the last bit of
    one of its strides."""
    plan = tools.read(planmutants.compile_plan(tools.dtc, tools.folder, EXPERTS, False))
    notes = notes_of(plan)
    for at in random.Random(1).sample(range(len(notes)), 200):
        edited = bytearray(notes)
        edited[at] ^= 1
        if not tools.write(with_notes(plan, edited)) and "in another layout than it has" in tools.verify():
            return []
    return ["no kernel reads what lies otherwise"]


def judge_program(tools, options, edits, reason):
    """The plan alone is accepted, since whoever edits it may rewrite notes and digests; it is refused
    when compared with the program."""
    path, against = os.path.join(tools.folder, "program.plan"), ["--program", PROGRAM, "--parallel", "none"]
    subprocess.run([tools.dtc, PROGRAM, "--parallel", "none", "-o", path, *options], check=True, capture_output=True)
    plan = tools.read(path)
    wrong = [said for said in [tools.write(plan) or tools.verify(*against)] if said]
    accepted = next((1 for made in edits(plan) if not tools.write(made) and not tools.verify()), 0)
    if not accepted or reason not in tools.verify(*against):
        wrong.append(tools.verify(*against) or "is accepted" if accepted else "no edit is accepted without the program")
    return ["%s: %s" % (edits.__name__, what) for what in wrong]


def main(arguments):
    dtc, edit, *dtrun = (os.path.abspath(path) for path in arguments)
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        tools = Tools(dtc, edit, dtrun[0] if dtrun else None, folder)
        for row in EDITS:
            wrong += judge(tools, *row)
        for row in PROGRAMS:
            wrong += judge_program(tools, *row)
        wrong += judge_layouts(tools)
    for what in wrong:
        print("FAIL", what)
    total = len(EDITS) + len(PROGRAMS) + 1
    print("%d passed, %d failed" % (max(total - len(wrong), 0), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
