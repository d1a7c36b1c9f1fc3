# SPDX-License-Identifier: Apache-2.0
"""Attention in one kernel, on stand-ins of CUDA's libraries:  attention.py DTC DTRUN [all | NAME]

Each form of attention is compiled for the processor, where it is loops of products, and for sm_90a, where it is a kernel
forward and one backward (run by the shim), and trained for two steps; once more with cuDNN's stand-in instead of the kernels where the plan
says that it is attention which the library has, too. Losses, norms of gradients and parameters agree but for the rounding of
the dtype that is computed in. dtc proves each plan. Every form has its kernels, and those without are said. What a plan says
wrongly to the library is found by the certificate and by the numbers; what the library lacks is said.

Without `all` or a name these are the forms of SOME, or the share of them that DT_SHARE=K/N names (tests/share.py). All else
always runs."""

import array
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import manifests

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import share

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

TEXT = """include "std.dsl"
dim batch = {batch}, seq = {s}, kseq = {t}, embed = 12, heads = {heads}, group = {group}, head = {d}, reach = {s} + {t}
model net(x[batch, seq, embed], y[batch, kseq, embed], i32 end[batch]) -> [batch, seq, embed] {{
  q = wq:linear[embed, (heads, group, head)](x, std = {std})
  k = wk:linear[embed, (heads, head)](y, std = {std})
  v = wv:linear[embed, (heads, head)](y, std = 0.5)
{before}
  o = attend[seq, kseq, head](q, k, v, scale = head ** -0.5{more})
  return wo:linear[(heads, group, head), embed](o, std = 0.3)
}}
train {{
  x[batch, seq, embed] = synthetic(-1, 1)
  y[batch, kseq, embed] = synthetic(-1, 1)
  i32 end[batch] = synthetic({t} // 2, {t} + 1)
  z = net(x, y, end)
  loss = sum[batch, seq, embed](z * z) / (batch * seq)
  optimizer = sgd(lr = 0.05)
  precision = mixed(compute = {dtype}, params = f32, grads = f32{scale})
  steps = 2
}}
"""
TWINS = """cluster twins { gpus = 2; gpu = "cpu" }
parallel twice on twins { mesh twin = 2; shard batch on twin }
"""
MASKS = {  # lines before the function, arguments of attend
    "all": ("", ""),
    "causal": ("", ", mask = iota[kseq] <= iota[seq]"),
    "window": ("", ", mask = iota[kseq] <= iota[seq] and iota[seq] - iota[kseq] < 9"),
    "offset": ("", ", mask = iota[kseq] + 5 < iota[seq]"),  # the first rows see nothing
    "none": ("", ", mask = iota[kseq] + 1000 < iota[seq]"),  # no row does
    "ends": ("", ", mask = iota[kseq] < end"),
    "both": ("", ", mask = iota[kseq] < end and iota[kseq] <= iota[seq]"),
    "table": ("  param far[heads, reach] = normal(0.5)\n  b = far[reach = iota[seq] - iota[kseq] + size[kseq] - 1]\n", ", bias = b"),
    "bias": ("  param b[heads, seq, kseq] = normal(0.5)\n", ", bias = b, mask = iota[kseq] <= iota[seq]"),
    "slope": ("  b = 0.1 * iota[kseq] - 0.1 * iota[seq]\n", ", bias = b"),
    "keys": ("  param b[heads, kseq] = normal(0.5)\n", ", bias = b"),
}
#         mask      dtype  batch heads group  s   t   d
SHAPES = [
    ("all", "f32", 1, 1, 1, 16, 16, 16), ("all", "f32", 2, 3, 1, 17, 23, 20), ("all", "bf16", 1, 2, 1, 33, 70, 32),
    ("all", "f16", 2, 1, 2, 20, 18, 24), ("all", "f32", 1, 1, 1, 1, 5, 8), ("all", "bf16", 1, 1, 1, 7, 1, 64),
    ("causal", "f32", 2, 2, 1, 29, 29, 8), ("causal", "f32", 1, 2, 1, 130, 130, 32), ("causal", "bf16", 1, 2, 1, 130, 130, 64),
    ("causal", "f16", 1, 1, 3, 65, 65, 40), ("causal", "f32", 1, 1, 1, 40, 40, 128), ("causal", "bf16", 1, 1, 1, 70, 70, 128),
    ("causal", "f32", 1, 1, 1, 33, 33, 256), ("causal", "bf16", 1, 1, 1, 20, 20, 256), ("causal", "f32", 1, 1, 4, 19, 31, 16),
    ("window", "f32", 1, 2, 1, 90, 90, 16), ("window", "bf16", 2, 1, 2, 150, 150, 32), ("window", "f32", 1, 1, 1, 15, 15, 4),
    ("offset", "f32", 1, 2, 1, 40, 40, 16), ("offset", "bf16", 1, 1, 2, 70, 66, 32), ("offset", "f16", 1, 1, 1, 66, 70, 16),
    ("none", "f32", 1, 1, 1, 30, 30, 16), ("none", "bf16", 1, 1, 1, 70, 70, 16),
    ("ends", "f32", 3, 1, 1, 21, 37, 16), ("ends", "bf16", 2, 2, 1, 66, 80, 32), ("both", "f32", 3, 2, 1, 70, 70, 8),
    ("table", "f32", 2, 2, 1, 19, 14, 16), ("table", "bf16", 2, 1, 1, 70, 67, 32),
    ("bias", "f32", 2, 2, 1, 34, 34, 16), ("bias", "bf16", 3, 1, 2, 67, 67, 16), ("bias", "f32", 1, 1, 1, 5, 9, 4),
    ("slope", "f32", 1, 2, 1, 68, 33, 16), ("slope", "bf16", 1, 2, 1, 20, 67, 16),
    ("keys", "f32", 2, 2, 1, 21, 35, 16),
]
FORMS = "tests/cli/forms.dsl"  # a function of one's own: capped scores, a window, a bias by distance, dropout
SINKS = "tests/cli/streams.dsl"  # a score without a value in each row's softmax, whose gradient saves other sums
FILES = [("forms", FORMS, "none", 1, []), ("forms, a ring", FORMS, "r", 4, []), ("forms, zigzag", FORMS, "z", 4, []),
         ("forms, heads", FORMS, "b", 4, []), ("forms, 16 bits", FORMS, "h", 4, ["--set", "train.precision=mixed(compute = bf16, params = f32, grads = f32)"]),
         ("sinks", SINKS, "none", 1, ["-D", "seq=150"]),
         ("sinks, 16 bits", SINKS, "none", 1, ["-D", "seq=150", "--set", "train.precision=mixed(compute = bf16, params = f32, grads = f32)"])]
SOME = (3, 4, 9, 13, 14, 17, 20, 22, 28, 36, 39, 40)  # forms that run without `all`
BOUND = {"f32": 2.0 ** -15, "f16": 2.0 ** -11, "bf16": 2.0 ** -8}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    if done.returncode:
        sys.exit("%s: exit code %d\n%s%s" % (" ".join(command), done.returncode, done.stdout[-800:], done.stderr[-2500:]))
    return done.stdout + done.stderr


def tensors(folder):
    found = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            head, data = json.loads(file.read(size)), file.read()
        for key, of in head.items():
            if key != "__metadata__" and of["dtype"] == "F32":
                begin, end = of["data_offsets"]
                found[name + key + str(begin)] = array.array("f", data[begin:end])
    return found


def train(dtrun, plan, *arguments):
    run(dtrun, plan, "--quiet", "--overwrite", "--steps", "2", "--log", plan + ".jsonl", "--save", plan + ".saved", *arguments)
    with open(plan + ".jsonl") as file:
        steps = [e for e in map(json.loads, file) if e["event"] == "step"]
    return [e[key] for e in steps for key in ("loss", "grad_norm")], tensors(os.path.join(plan + ".saved", "step-00000002"))


def far(x, y, dtype):
    """The largest difference, of the largest of them; what should be zero (gradients of keys, alike for all keys) is not, and
    in 16 bits is what roundings leave: the kernel rounds exp(z - m) for the product, loops round it divided by the sum."""
    most = max(max(map(abs, x)), 0.1 if dtype == "f32" else 1)
    return max(abs(a - b) for a, b in zip(x, y)) / most


def records(dtc, plan):
    return sum(line.startswith("SDPA ") for line in run(dtc, "dump", plan).splitlines())


def library_has(mask, dtype, keys):
    """Whether the library has it: a softmax of at least two scores in 16 bits, with all keys, or those
    before the query, or only the last ones of these."""
    return dtype != "f32" and mask in ("all", "causal", "window") and keys > 1


def compare(tools, here, name, path, layout, dtype, more, library, number):
    """here: what the processor runs, either compiled loops or interpreted ones, which give the same
    bits."""
    dtc, dtrun = tools
    plans = []
    for target in (here, "sm_90a"):
        plans.append("%d.%s.plan" % (number, target))
        said = run(dtc, path, "--parallel", layout, "--data=synthetic", "--target=" + target, "--epilogues=all", "-o", plans[-1], *more)
        assert "L0588" not in said, "%s: %s" % (name, said)
    wanted, worst = train(dtrun, plans[0], "--gemm", "plain"), (0, "")
    assert records(dtc, plans[1]) == 3 * library, "%s: the library is said to have %d kernels" % (name, records(dtc, plans[1]))
    for attention in ("generated", "cudnn")[:1 + library]:
        worst = max(worst, (farthest(wanted, train(dtrun, plans[1], "--share-gpu", "--attention", attention), dtype), attention))
    return worst[0] <= BOUND[dtype], "%s: %s within %.2g" % (name, worst[1], worst[0])


def farthest(wanted, got, dtype):
    assert wanted[1].keys() == got[1].keys() and wanted[1]
    return max([far(wanted[0], got[0], dtype)] + [far(values, got[1][key], dtype) for key, values in wanted[1].items()])


# wrong values that a plan gives the library for its kernels: pattern, replacement, and how often
# the record of the backward pass comes second
FAULTS = [
    ("scale=[^ ]*", "scale=1.5"), ("causal=1 ", ""), ("causal=1 ", "causal=1 window=4 "),
    (r"pointer=\((\d+), (\d+), (\d+), ", r"pointer=(\1, \3, \2, "), (r"(pointer=\(.*), (\d+), (\d+)\)", r"\1, \3, \2)"),
    (r"pointer=\((.*?), (.*?), (.*?), (.*?), (.*?), (.*?), ", r"pointer=(\1, \2, \3, \4, \6, \5, "),
    (r"of_head=\((\d+), (.*?)\) of_row=\((\d+), ", r"of_head=(\3, \2) of_row=(\1, "), ("kv_heads=2", "kv_heads=1"),
]


def write(path, mask, dtype, batch, heads, group, s, t, d, end=""):
    before, arguments = MASKS[mask]
    with open(path, "w") as file:
        file.write(TEXT.format(batch=batch, heads=heads, group=group, s=s, t=t, d=d, dtype=dtype, before=before, more=arguments,
                               std=1 if dtype == "f32" else 0.5, scale="") + end)
    return path


def planted(tools):
    """Makes each fault in the record of the forward pass, then in that of the backward pass: whichever
    exists must show it."""
    dtc, dtrun = tools
    plan, failed, n = "planted.plan", 0, 0
    run(dtc, write("planted.dsl", "causal", "bf16", 2, 2, 2, 9, 9, 16), "--parallel", "none", "--data=synthetic", "--target=sm_90a", "-o", plan)
    wanted, text = train(dtrun, plan, "--attention", "cudnn"), run(dtc, "dump", plan).splitlines()
    places = [i for i, line in enumerate(text) if line.startswith("SDPA ")][:2]
    for pattern, by in FAULTS:
        for place in places:
            line = re.sub(pattern, by, text[place], count=1)
            if line == text[place] or "-1, -1)" in line and r"\2)" in by:
                continue
            with open("faulty.txt", "w") as file:
                file.write("\n".join(text[:place] + [line] + text[place + 1:]) + "\n")
            said = subprocess.run([dtc, "asm", "faulty.txt", "-o", "faulty.plan"], capture_output=True, text=True)
            n += 1
            if said.returncode:  # the plan's reader refuses it
                assert "SDPA" in said.stderr, said.stderr
                continue
            proof = subprocess.run([dtc, "verify", "faulty.plan"], capture_output=True, text=True)
            try:
                off = farthest(wanted, train(dtrun, "faulty.plan", "--attention", "cudnn", "--unproved"), "bf16")
            except SystemExit:  # text that is no number
                off = float("inf")
            good = proof.returncode and "is not the attention that its record of SDPA says" in proof.stderr + proof.stdout and not off <= BOUND["bf16"]
            failed += not good
            if not good:
                print("FAIL %s: off by %.2g, %s" % (line, off, proof.stderr or proof.stdout))
    print("ok   %d faults in what a plan says to the library" % n)
    return failed, plan


def missing(dtrun, plan):
    """Messages if the library, or memory for it, is not as it should be. A run that asks for the
    library gets nothing else."""
    train(dtrun, plan, "--attention", "generated")
    with open(plan + ".jsonl") as file:
        need = next(e["memory"] for e in map(json.loads, file) if e["event"] == "start")
    cases = [("cudnn=90100", "cuDNN here is 9.1.0, and 9.16 is the oldest that will do", 1), ("cudnn_bytes=100000", "bytes of workspace: it wants 100256 bytes", 1),
             ("memory=%d" % (need + 100), "a rank needs", 4)]
    for word, said, code in cases:
        os.environ["DT_STANDIN"] = word
        for more in ([], ["--attention", "cudnn"]):
            done = subprocess.run([dtrun, plan, "--quiet", "--steps", "1", *more], capture_output=True, text=True)
            assert done.returncode == (code if more else 0) and said in done.stderr, "%s %s: %d %s" % (word, more, done.returncode, done.stderr)
            assert bool(more) or done.stderr.startswith("dtrun: note: attention by the plan's own kernels"), done.stderr
        del os.environ["DT_STANDIN"]
    print("ok   what is said without the library")


def without_scores(dtrun, plan):
    """If the workspace for gradients of scores is too large, an engine that does not keep them is
    used, and gives the same bits."""
    wanted = train(dtrun, plan, "--attention", "cudnn")
    os.environ["DT_STANDIN"] = "cudnn=92500,cudnn_scores=10000000"
    assert train(dtrun, plan, "--attention", "cudnn") == wanted
    del os.environ["DT_STANDIN"]
    print("ok   an engine without gradients of scores")


def attention_of(folder, steps):
    with open("%s/step-%08d/manifest.json" % (folder, steps)) as file:
        return json.load(file)["attention"]


def kept(dtrun, plan):
    """A run that goes on has the attention of its checkpoint: the plan's own kernels without a
    word of it on the command line; where it has another one, a note says it."""
    def steps(n, *arguments, standin=""):
        os.environ["DT_STANDIN"] = standin
        done = subprocess.run([dtrun, plan, "--quiet", "--steps", str(n), *arguments],
                              capture_output=True, text=True, check=True)
        del os.environ["DT_STANDIN"]
        return done.stderr

    wanted = {}
    for which in ("generated", "cudnn"):
        wanted[which] = train(dtrun, plan, "--attention", which)[1]
        steps(1, "--save", which, "--attention", which)
        said = steps(2, "--resume", which)
        assert tensors(which + "/step-00000002") == wanted[which] and "note" not in said, said
        for n in (1, 2):
            assert attention_of(which, n).split()[0] == which
    assert wanted["generated"] != wanted["cudnn"]
    note = "note: attention is computed by the plan's own kernels (generated), and was by cudnn 9."
    for arguments, standin in ((["--attention", "generated"], ""), ([], "cudnn=90100")):
        said = steps(3, "--resume", "cudnn/step-00000002", *arguments, standin=standin)
        assert note in said, said
    said = steps(3, "--resume", "generated/step-00000002", "--attention", "cudnn")
    assert "note: attention is computed by the library (cudnn 9." in said, said
    print("ok   a run that goes on keeps its attention")


def timed(tools):
    """What is faster on rank 0 computes attention on all ranks; a later run on such a GPU, and a run
    that continues, keep the choice. Epilogues are given, since the time that they take here decides otherwise."""
    dtc, dtrun = tools
    run(dtc, write("timed.dsl", "causal", "bf16", 2, 2, 2, 9, 9, 16, TWINS), "--parallel", "twice", "--data=synthetic",
        "--target=sm_90a-interpreted", "-o", "timed.plan")
    wanted, caches = {}, 0

    def attend(standin, *arguments, cache=None):
        nonlocal caches
        caches += 1
        os.environ["DT_STANDIN"], os.environ["XDG_CACHE_HOME"] = "gpus=2," + standin, os.path.abspath(cache or "cache%d" % caches)
        got = train(dtrun, "timed.plan", "--comm", "shm", "--epilogues", "all", *arguments)
        with open("timed.plan.jsonl") as file:
            said = [e["text"] for e in map(json.loads, file) if e["event"] == "product" and "attention: by" in e["text"]]
        return got, attention_of("timed.plan.saved", 2).split()[0], "".join(said)

    usual = {name: os.environ.get(name) for name in ("DT_STANDIN", "XDG_CACHE_HOME")}
    for which in ("generated", "cudnn"):
        wanted[which], got, said = attend("", "--attention", which)
        assert (got, said) == (which, ""), said
        run(dtrun, "timed.plan", "--comm", "shm", "--quiet", "--overwrite", "--steps", "1", "--save", "begun." + which,
            "--attention", which, "--epilogues", "all")
    assert wanted["generated"] != wanted["cudnn"]
    # a checkpoint as runs saved it when the library was always used
    shutil.copytree("begun.cudnn", "begun.old")
    manifests.rewrite("begun.old/step-00000001/manifest.json", lambda manifest: manifest.pop("attention"))
    cases = [("", "cudnn", [], None), ("cudnn_slow=1", "generated", [], None), ("cudnn_slow0=1", "generated", [], "kept"),
             ("cudnn_slow1=1", "cudnn", ["--attention", "timed"], None), ("", "generated", [], "kept"),
             ("cudnn_slow=1", "cudnn", ["--algorithms", "first"], None), ("cudnn_slow=1", "cudnn", ["--attention", "cudnn"], None),
             ("cudnn_slow=1", "cudnn", ["--resume", "begun.cudnn"], None),
             ("cudnn_slow=1", "cudnn", ["--resume", "begun.old"], None), ("", "generated", ["--resume", "begun.generated"], None)]
    for n, (standin, which, more, cache) in enumerate(cases):
        got, attention, said = attend(standin, *more, cache=cache)
        # earlier steps are not in its log
        part = got if "--resume" not in more else (wanted[which][0], got[1])
        assert attention == which and part == wanted[which], (n, attention)
        by = "attention: by the plan's own kernels; " if which == "generated" else "attention: by the library; "
        chosen = not more or "timed" in more
        assert said.startswith(by) if chosen else said == "", (n, said)
        assert not chosen or ("kept from an earlier run" in said) == (n == 4) and (" us by the library" in said) == (n != 4), (n, said)
    got, attention, said = attend("cudnn_slow=1", "--resume", "begun.cudnn", "--attention", "timed")  # the faster, whatever it had
    assert attention == "generated" and got[1] != wanted["cudnn"][1] and said.startswith("attention: by the plan's own kernels; "), said
    # GPU 1 cannot run any kernel of the library, or only one of them
    for standin in ("cudnn_bytes1=1000000", "cudnn_scores1=1000000"):
        got, attention, said = attend(standin)
        assert (got, attention, said) == (wanted["generated"], "generated", ""), (standin, attention, said)
        note = run(dtrun, "timed.plan", "--comm", "shm", "--quiet", "--steps", "1")
        assert "note: attention by the plan's own kernels on all ranks: what rank 1 would use is not what rank 0" in note, note
    for name, value in usual.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    print("ok   attention by whoever is faster")


def rounds(dtc):
    """The functions save the maxima, the sums and the product of one pass over the keys, also if a row
    has an additional score without a value; for other attention other values are saved."""
    text = run(dtc, os.path.join(ROOT, SINKS), "--parallel", "none", "--target=sm_90a", "--emit=cuda", "--no-kernels")
    kernels = [kernel for kernel in text.split("DT_KERNEL(")[1:] if "dt_max_quad(" in kernel]
    # kernels of a step, of an evaluation
    assert len(kernels) == 2, "%d kernels make maxima of scores" % len(kernels)
    for kernel in kernels:
        assert kernel.count("for (int64_t c0 = 0;") == 1, "attention with a sink goes along its keys more than once"
    print("ok   one round with a sink")


def main():
    tools = [os.path.abspath(path) for path in sys.argv[1:3]]
    only = sys.argv[3] if len(sys.argv) > 3 else "some"
    failed, here = 0, "interpreted" if only == "some" else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        work = []
        for i, (mask, dtype, batch, heads, group, s, t, d) in enumerate(SHAPES):
            name = "%s, %s, batch %d, %d x %d heads, %d queries, %d keys of %d" % (mask, dtype, batch, heads, group, s, t, d)
            path = os.path.abspath(write("%d.dsl" % i, mask, dtype, batch, heads, group, s, t, d))
            work.append((name, path, "none", dtype, [], library_has(mask, dtype, t)))
        for name, path, layout, ranks, more in FILES:
            work.append((name, os.path.join(ROOT, path), layout, "bf16" if "bf16" in "".join(more) else "f32", more, False))
        work = [(*w, i) for i, w in enumerate(work) if only == "all" or (i in share.of(SOME) if only == "some" else only in w[0])]
        assert work, "no form is called %s" % only
        with ThreadPoolExecutor(2) as pool:
            for good, said in pool.map(lambda w: compare(tools, here, *w), work):
                print("ok  " if good else "FAIL", said, flush=True)
                failed += not good
        wrong, plan = planted(tools)
        missing(tools[1], plan)
        without_scores(tools[1], plan)
        kept(tools[1], plan)
        timed(tools)
        rounds(tools[0])
    failed += wrong
    print("%d passed, %d failed" % (len(work) + 6 - failed, failed))
    return 1 if failed else 0


sys.exit(main())
