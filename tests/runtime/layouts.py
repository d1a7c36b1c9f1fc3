#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts on real ranks:  layouts.py DTC DTRUN

A small GPT under layouts that split parameters, activations and samples, each for 20 steps on as many processes as it has
ranks. No rank count divides the vocabulary: it is padded. Losses and gradient norms must be those of one rank: sums over
ranks are taken in another order, so each of some thousand additions may differ by its last bit, 6e-8 of a partial sum;
over 20 steps of this model 1e-5 is ten times what is seen. On device `apart`, whose memory only instructions reach, as a
GPU's, numbers and bytes received are the same to the last bit. A checkpoint of each layout is loaded by the next, on the
other device. Bytes on
each group and channel, counted by the ranks, must equal those of `dtc --report`, and for Megatron's layout the closed
form: four all-reduces of batch * seq * embed per layer.

With DT_SHARE=K/N in the environment (tests/share.py) one layout of N of the GPT is trained, and those are handed over; of
the layouts of images, `six` among them, and of the programs that bring their own one of N. The closed forms always are
compared with reports.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

STEPS, TOLERANCE = 20, 1e-5
LAYERS, BATCH, SEQ, EMBED = 2, 8, 16, 32
PROGRAM = """include "std.dsl"
dim batch = %d, seq = %d, kseq = seq, vocab = 61
dim layers = %d, embed = %d, heads = 4, head = embed // heads, ffn = 4 * embed
layer attention(x[batch, seq, embed]) -> [batch, seq, embed] {
  q = wq:linear[embed, (heads, head)](x, bias = false)
  k = wk:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  v = wv:linear[embed, (heads, head)](x, bias = false)[seq -> kseq]
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5, mask = iota[kseq] <= iota[seq])
  return wo:linear[(heads, head), embed](o)
}
layer mlp(x[batch, seq, embed]) -> [batch, seq, embed] {
  return x |> up:linear[embed, ffn] |> gelu_tanh |> down:linear[ffn, embed]
}
model gpt(i32 tokens[batch, seq]) -> [batch, seq, vocab] {
  param wte[vocab, embed] = normal(0.02)
  param wpe[seq, embed] = normal(0.02)
  x = wte[vocab = tokens] + wpe
  repeat h in layers {
    x = x + attention(ln1:layernorm[embed](x))
    x = x + dropout(mlp(ln2:layernorm[embed](x)), 0.1)
  }
  return ln_f:layernorm[embed](x) @embed wte
}
train {
  i32 tokens[batch, seq], i32 labels[batch, seq] = next_token(synthetic(0, vocab))
  loss = mean[batch, seq](xent[vocab](gpt(tokens), labels))
  optimizer = adamw(lr = 1e-3, decay = 0.1, decay_if = rank > 1, clip = 1.0)
  eval = every(10, steps = 2, data = next_token(synthetic(0, vocab)))
  steps = %d
}
""" % (BATCH, SEQ, LAYERS, EMBED, STEPS)
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../passes/programs")
TENSOR = "shard heads, ffn on tensor; shard vocab on tensor (pad = 8)"
LAYOUTS = {
    "tensor": (2, "mesh tensor = 2; " + TENSOR),
    "tensor_data": (4, "mesh data = 2, tensor = 2; shard batch on data; %s; micro batch = 2" % TENSOR),
    "sequence": (4, "mesh data = 2, tensor = 2; shard batch on data; %s; shard seq on tensor" % TENSOR),
    "two": (4, "mesh row = 2, column = 2; shard embed on row; shard heads, ffn on column"),
    "context": (4, "mesh context = 2, tensor = 2; %s; shard seq on context, tensor" % TENSOR),
    "zero": (4, "mesh data = 2, tensor = 2; shard batch on data; %s; zero 3 on data" % TENSOR),
    "ahead": (4, "mesh data = 4; shard batch on data; micro batch = 2; zero 3 on data (prefetch = 1)"),
    "pipeline": (4, 'mesh pipe = 2, tensor = 2; %s; pipeline h on pipe (schedule = "1f1b"); micro batch = 4' % TENSOR),
    "ring": (4, "mesh context = 4; shard seq on context; shard kseq on context (ring = true)"),
    "zigzag": (4, "mesh context = 4; shard seq on context (order = zigzag); "
                  "shard kseq on context (ring = true, order = zigzag)"),
    "ulysses": (2, "mesh context = 2; shard attend.heads on context; shard seq on context"),
}

# Images: windows along split axes. Six mesh axes split one tensor, three of whose axes are split
# by two each.
IMAGES = """include "std.dsl"
dim batch = 4, classes = 4, wide = 16
axis aa, bb, cc
model net(image[batch, height = 32, width = 16, chan = 4]) -> [batch, classes] {
  x = image |> c1:conv(4) |> relu |> c2:conv(8, k = 7, stride = 2) |> relu |> c3:conv(4, k = 1, stride = 2) |> maxpool
  x = dropout(x[height -> aa, width -> bb, chan -> cc], 0.2)
  param w[aa = x.aa, bb = x.bb, cc = x.cc, wide] = normal(0.1)
  return relu(x @(aa, bb, cc) w) |> f:linear[wide, classes]
}
train {
  image[batch, height = 32, width = 16, chan = 4] = synthetic(0, 1)
  i32 label[batch] = synthetic(0, classes)
  loss = mean[batch](xent[classes](net(image), label))
  optimizer = adamw(lr = 1e-3)
  steps = %d
}
""" % STEPS
IMAGE_LAYOUTS = {
    "rows": (4, "mesh half = 2, side = 2; shard height on half, side"),
    "tiles": (4, "mesh rows = 2, columns = 2; shard height on rows; shard width on columns; micro batch = 2"),
}
SIX = "mesh a = 2, b = 2, c = 2, d = 2, e = 2, f = 2; shard aa on a, b; shard bb on c; shard cc on e, f; shard batch on d"


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit("%s: exit code %d\n%s" % (" ".join(command), done.returncode, done.stderr[-1500:]))
    return done.stdout


def events(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def numbers(log):
    of = [(e, dict(e.get("metrics", {}), **e)) for e in log if e["event"] in ("step", "eval")]
    return [(e["event"], e["step"], key, values[key]) for e, values in of
            for key in ("loss", "grad_norm", *e.get("metrics", {})) if key in values]


def execute(dtc, dtrun, program, name):
    run(dtc, program, "--parallel", name, "-o", name + ".plan")
    run(dtrun, name + ".plan", "--quiet", "--overwrite", "--log", name + ".jsonl")
    log = events(name + ".jsonl")
    run(dtrun, name + ".plan", "--quiet", "--overwrite", "--log", name + ".apart.jsonl", "--device", "apart")
    apart = events(name + ".apart.jsonl")
    assert numbers(apart) == numbers(log), name + ": memory apart gives other numbers"
    assert [e["groups"] for e in apart if e["event"] == "traffic"] == [e["groups"] for e in log if e["event"] == "traffic"]
    return log


def check_numbers(name, log, serial):
    got, wanted = numbers(log), numbers(serial)
    assert [n[:3] for n in got] == [n[:3] for n in wanted], name
    for a, b in zip(got, wanted):
        assert abs(a[3] - b[3]) <= TOLERANCE * abs(b[3]), "%s: %s after step %d is %.9g instead of %.9g" % (
            name, a[2], a[1], a[3], b[3])


def check_traffic(name, log, report):
    counted = [e for e in log if e["event"] == "traffic"][0]
    assert counted["steps"] == STEPS
    assert len(counted["groups"]) == len(report["groups"]) and len(counted["channels"]) == len(report["channels"]), name
    for ran, planned in zip(counted["groups"], report["groups"]):
        assert ran["axes"] == planned["axes"]
        assert ran["received"] == STEPS * planned["received"], "%s: %d bytes over %s, the report says %g in %d steps" % (
            name, ran["received"], ran["axes"], planned["received"], STEPS)
    for number, (ran, planned) in enumerate(zip(counted["channels"], report["channels"])):
        assert ran == STEPS * planned["received"], "%s: %d bytes through channel %d, the report says %g in %d steps" % (
            name, ran, number, planned["received"], STEPS)


def check_handing_over(dtc, dtrun, serial):
    """One run that goes through all layouts: each continues from the checkpoint of the previous one."""
    names, log = ["none"] + share.of(LAYOUTS) + ["none"], []
    for i, name in enumerate(names):
        steps = STEPS * (i + 1) // len(names)
        resume = ["--resume", "saved"] if i else []
        run(dtrun, name + ".plan", "--quiet", "--steps", str(steps), "--log", "%d.jsonl" % i, "--save", "saved",
            "--device", "apart" if i % 2 else "cpu", *resume)
        log += [e for e in events("%d.jsonl" % i) if e["event"] == "step"]
    check_numbers("handed over", log, [e for e in serial if e["event"] == "step"])


def check_halos(report):
    """c1 reads one row of each neighbour, c2 three and two rows: in the forward pass, once more in the
    backward pass, and their gradients are sent back."""
    row = 4 * 4 * 16 * 4  # bytes of batch, width, channels
    got = {(c["path"], c["kind"]): c["received"] for c in report["collectives"] if "halo" in c["why"]}
    assert got == {("c1", "shift"): row, ("c1", "shift_back"): row, ("c2", "shift"): (3 + 3 + 2) * row,
                   ("c2", "shift_back"): (2 + 2 + 3) * row}, got


def write(path, program, layouts):
    with open(path, "w") as file:
        file.write(program)
        for name, (ranks, lines) in layouts.items():
            file.write('cluster of_%s { gpus = %d; gpu = "cpu" }\n' % (name, ranks))
            file.write("parallel %s on of_%s { %s }\n" % (name, name, lines))


def check_layouts(dtc, dtrun, program, layouts):
    """Runs each layout, checks its numbers and traffic; returns the serial run's log."""
    serial = execute(dtc, dtrun, program, "none")
    for name in layouts:
        log = execute(dtc, dtrun, program, name)
        check_numbers(name, log, serial)
        check_traffic(name, log, traffic(dtc, program, name))
    return serial


def traffic(dtc, program, name):
    """The traffic that the report predicts for the layout."""
    return json.loads(run(dtc, program, "--parallel", name, "--no-kernels", "--report=json"))["traffic"]


def check_images(dtc, dtrun):
    layouts = dict(IMAGE_LAYOUTS, six=(64, SIX))
    write("images.dsl", IMAGES, layouts)
    check_halos(traffic(dtc, "images.dsl", "rows"))
    mine = share.of(layouts)
    serial = check_layouts(dtc, dtrun, "images.dsl", [name for name in mine if name in IMAGE_LAYOUTS])
    if "six" not in mine:
        return
    run(dtc, "images.dsl", "--parallel", "six", "-o", "six.plan")
    run(dtrun, "six.plan", "--quiet", "--steps", "2", "--log", "six.jsonl")
    check_numbers("six", [e for e in events("six.jsonl") if e["event"] == "step"],
                  [e for e in serial if e["event"] == "step" and e["step"] <= 2])


def check_counts(log):
    """metrics.dsl counts samples: its metrics are whole numbers of 12 samples, or of two batches in an
    evaluation."""
    for e in (e for e in log if e["event"] in ("step", "eval")):
        batches, values = 2 if e["event"] == "eval" else 1, e["metrics"]
        for count in batches * values["seen"], 12 * batches * values["accuracy"]:
            assert 0 <= count <= 12 * batches and abs(count - round(count)) < 1e-4, "metrics count %r" % e
        assert values["seen"] > 0, "no sample counts: %r" % e


def check_own(dtc, dtrun):
    """Programs that contain their layouts. An evaluation draws its own random numbers, whenever it is
    made."""
    done = 0
    for program in share.of(("draws", "layers", "ghost", "metrics", "frozen_paths", "drawing_fns")):
        path = os.path.join(PROGRAMS, program + ".dsl")
        with open(path) as file:
            names = re.findall(r"^parallel (\w+)", file.read(), re.M)
        for name in ["none"] + names:
            run(dtc, path, "--parallel", name, "-o", name + ".plan")
            run(dtrun, name + ".plan", "--quiet", "--overwrite", "--log", name + ".jsonl", "--save", "%s_%s" % (program, name))
            log = events(name + ".jsonl")
            serial = log if name == "none" else serial
            check_numbers("%s, %s" % (program, name), log, serial)
            if program == "metrics":
                check_counts(log)
        run(dtrun, name + ".plan", "--quiet", "--eval", "--resume", program + "_none", "--log", program + ".jsonl")
        check_numbers("evaluation", events(program + ".jsonl"), [e for e in serial if e["event"] == "eval"][-1:])
        done += len(names)
    return done


def check_megatron(report, ranks):
    """The traffic of one rank in a step, without the embedding and the head."""
    size, n = 4 * BATCH * SEQ * EMBED, ranks
    sums = [c for c in report["collectives"] if c["kind"] == "all_reduce" and c["runs"] % LAYERS == 0]
    assert sum(c["runs"] for c in sums) == 4 * LAYERS, sums
    assert sum(c["received"] for c in sums) == 4 * LAYERS * 2 * size * (n - 1) / n, sums


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write("gpt.dsl", PROGRAM, LAYOUTS)
        mine = share.of(LAYOUTS)
        serial = check_layouts(dtc, dtrun, "gpt.dsl", mine)
        check_megatron(traffic(dtc, "gpt.dsl", "tensor"), 2)
        check_handing_over(dtc, dtrun, serial)
        check_images(dtc, dtrun)
        own = check_own(dtc, dtrun)
    print("%d passed, 0 failed" % (len(mine) + own + 3))


if __name__ == "__main__":
    main()
