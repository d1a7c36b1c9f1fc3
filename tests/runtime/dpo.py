#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Preferences and the copy of a model that they are measured by:  dpo.py DTC DTRUN

The programs of dpo.dsl. A base is trained and saved; blocks with `copy` begin with it, from a checkpoint and from files of
another program, so their first loss is log 2 and the copy is the base, bit for bit, also after training and in a resumed run.
With adapters, the copy holds nothing but adapters of its own. Two ranks with tensor parallelism, or ZeRO 3 and micro-batches,
learn what one learns. Where PyTorch is installed, losses, rewards, accuracies and what six steps change are those of TRL's
formula, -logsigmoid(beta * ((log p_c - log ref_c) - (log p_r - log ref_r))), differentiated by PyTorch, with all parameters
and with LoRA."""

import json
import math
import os
import re
import shutil
import sys
import tempfile

from runs import OF_VALUE, bytes_of, check, compare_tensors, failures, norm, run, saved, tensors_of

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, BATCH, SEQ, BETA, RATE, MOMENTUM, HEADS = 6, 4, 24, 0.3, 0.05, 0.5, 2
LORA = 'adapt "*.wq", "*.wv", "*.down" = lora(rank = 2, alpha = 6)'
WORDS = "the cat sat on a mat and then it ran home to see what was for dinner today".split()


def pairs():
    lines = []
    for i in range(26):
        prompt = " ".join(WORDS[i % 7:i % 7 + 3 + i % 4])
        chosen, rejected = (" " + " ".join(WORDS[(i * k) % 11:][:2 + (i + k) % 5]) for k in (3, 5))
        lines.append({"prompt": prompt, "chosen": chosen, "rejected": rejected, "id": i})
    return lines


def write_data():
    os.mkdir("tok")
    shutil.copy(os.path.join(HERE, "../tokenizer/fixtures/gpt2.json"), "tok/tokenizer.json")
    with open("pairs.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in pairs())
    with open("texts.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": line["prompt"] + line["chosen"]}) + "\n" for line in pairs())


def compile_plan(tools, name, train="dpo", layout="none", more=(), adapters=False):
    with open(os.path.join(HERE, "dpo.dsl"), encoding="utf-8") as file:
        text = file.read()
    with open("p.dsl", "w", encoding="utf-8") as file:
        file.write(re.sub("# adapters: .*", LORA, text) if adapters else text)
    return run([tools[0], "p.dsl", "--train", train, "--parallel", layout, "-o", name, *more])


def train(tools, plan, folder, *options):
    run([tools[1], plan, "--quiet", "--log", folder + ".jsonl", "--save", folder, *options])
    with open(folder + ".jsonl", encoding="utf-8") as file:
        return [{**event, **event.get("metrics", {})} for event in map(json.loads, file) if event["event"] == "step"]


def near(a, b):
    return abs(a - b) <= 4 * OF_VALUE * max(1, abs(b))


def of_copy(tensors):
    return {name[len("reference."):]: tensor for name, tensor in tensors.items() if name.startswith("reference.")}


# ---- what the copy is ----

def begins_as_the_base(tools):
    compile_plan(tools, "base.plan", "base")
    train(tools, "base.plan", "base", "--steps", "3")
    base = tensors_of("base/step-00000003/model.safetensors")
    compile_plan(tools, "dpo.plan")
    events = train(tools, "dpo.plan", "full", "--weights", "base")
    check(near(events[0]["loss"], math.log(2)) and events[0]["gained"] == events[0]["lost"] == 0, "the first loss is log 2")
    last = saved("full", STEPS)
    check(of_copy(last) == base, "the copy is the base after training")
    check(all(last[name] != base[name] for name in base), "all parameters train")
    check(not [name for name in last if name.startswith("moment") and "reference" in name], "the copy has no moments")
    run([tools[1], "dpo.plan", "--weights", "base", "--steps", "0", "--export", "files", "--like", "none"])
    exported = tensors_of("files/model.safetensors")
    check(len(exported) == 22 and exported["wte"] == base["wte"], "the export has the policy alone")
    train(tools, "dpo.plan", "imported", "--import", "files", "--steps", "0")
    check(bytes_of("imported/step-00000000/model.safetensors") != b"" and of_copy(saved("imported", 0)) == base,
          "imported, too")
    return base, events


def goes_on(tools, events):
    """A resumed run has the copy of the run before; a run with --weights copies what it begins with."""
    train(tools, "dpo.plan", "half", "--weights", "base", "--steps", "3")
    rest = train(tools, "dpo.plan", "half2", "--resume", "half", "--steps", str(STEPS))
    check([e["loss"] for e in rest] == [e["loss"] for e in events[3:]], "a resumed run goes on")
    check(saved("half2", STEPS) == saved("full", STEPS), "a resumed run ends with the same bits")
    train(tools, "dpo.plan", "again", "--weights", "full", "--steps", "0")
    full, again = saved("full", STEPS), saved("again", 0)
    check(of_copy(again) == {name: full[name] for name in of_copy(full)}, "--weights makes a new copy")
    initial = train(tools, "dpo.plan", "initial", "--steps", "1")
    check(near(initial[0]["loss"], math.log(2)), "initial values are copied")


def has_no_dropout(tools, events):
    compile_plan(tools, "drop.plan", more=("-D", "drop=0.4"))
    dropped = train(tools, "drop.plan", "drop", "--weights", "base", "--steps", "1")[0]
    check(not near(dropped["loss"], math.log(2)), "the policy drops")
    check(near(dropped["told"], events[0]["told"]), "the copy does not drop")


def ranks_agree(tools, base, events):
    for layout in ("zero", "tensor"):
        compile_plan(tools, layout + ".plan", layout=layout)
        got = train(tools, layout + ".plan", layout, "--weights", "base")
        for name in ("loss", "accuracy", "gained", "lost"):
            check(all(near(a[name], b[name]) for a, b in zip(got, events)), "%s on two ranks: %s" % (name, layout))
        compare_tensors(layout, saved(layout, STEPS), saved("full", STEPS), base)


def adapts(tools, base):
    compile_plan(tools, "lora.plan", adapters=True)
    listed = run([tools[0], "p.dsl", "--train", "dpo", "--params"])
    copies = [line.split()[0] for line in listed.splitlines() if line.startswith("reference.")]
    check(len(copies) == 6 and all(".lora." in name for name in copies), "the copy has adapters alone: %s" % copies)
    events = train(tools, "lora.plan", "lora", "--weights", "base")
    check(near(events[0]["loss"], math.log(2)), "the first loss with adapters")
    last = saved("lora", STEPS)
    check(all(last[name] == base[name] for name in base), "adapters leave the base")
    check(all(not any(values) for name, values in of_copy(last).items() if name.endswith(".b")), "copies begin with b = 0")
    run([tools[1], "lora.plan", "--resume", "lora", "--steps", "0", "--export", "merged", "--like", "none"])
    check(tensors_of("merged/model.safetensors")["h.0.k"] is not None, "adapters are added in the export")
    compile_plan(tools, "zero.plan", layout="zero", adapters=True)
    said = run([tools[0], "p.dsl", "--train", "dpo", "--parallel", "zero", "--verify", "--no-kernels"])
    check("equal to the serial program: 2 ranks, 2 micro-batches" in said, "verified: " + said)
    got = train(tools, "zero.plan", "lora_zero", "--weights", "base")
    check(all(near(a["loss"], b["loss"]) for a, b in zip(got, events)), "adapters on two ranks")
    return events, last


# ---- what PyTorch says ----

def samples(tools):
    """Tokens and targets of all steps, [step][row][pair][seq], as the run reads them."""
    said, rows = run([tools[1], "dpo.plan", "--show-samples", str(STEPS * BATCH)]), []
    for line in said.splitlines():
        if line.startswith("sample "):
            rows.append([])
        found = re.match(r' *\d+ +(\d+) ".*?" +(train|-) +(-?\d+)', line)
        rest = re.match(r" *(\d+) to \d+: token (\d+), without a target", line)
        if found:
            rows[-1].append((int(found[1]), int(found[3])))
        elif rest:
            rows[-1] += [(int(rest[2]), -1)] * (2 * SEQ - len(rows[-1]))
    return [[[row[:SEQ], row[SEQ:]] for row in rows[at:at + BATCH]] for at in range(0, len(rows), BATCH)]


class Model:
    """The model of dpo.dsl in PyTorch, in double precision, with the tensors of a checkpoint."""

    def __init__(self, torch, tensors, scale):
        self.torch, self.scale = torch, scale
        shapes = {"wte": (512, 16), "w": (16, 16), "up.w": (16, 20), "down.w": (20, 16)}
        self.of = {}
        for name, values in tensors.items():
            kind = ".".join(name.split(".")[-2:])
            shape = (-1, 2) if name.endswith(".a") else (2, -1) if name.endswith(".b") else \
                shapes.get(name) or shapes.get(kind) or (shapes["w"] if name.endswith(".w") else (-1,))
            self.of[name] = torch.tensor(list(values), dtype=torch.float64).reshape(shape)

    def norm(self, x, gain):
        return x * self.torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.of[gain]

    def linear(self, x, name):
        y = x @ self.of[name + ".w"]
        if name + ".b0" in self.of:
            y = y + self.of[name + ".b0"]
        if name + ".lora.a" in self.of:
            y = y + self.scale * (x @ self.of[name + ".lora.a"]) @ self.of[name + ".lora.b"]
        return y

    def logits(self, tokens):
        torch, x = self.torch, self.of["wte"][tokens]
        seen = torch.ones(SEQ, SEQ, dtype=torch.bool).tril()
        for h in ("h.0.", "h.1."):
            n = self.norm(x, h + "n1.gain")
            q, k, v = (self.linear(n, h + name).unflatten(-1, (HEADS, -1)).transpose(-3, -2) for name in ("wq", "wk", "wv"))
            z = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~seen, -math.inf)
            x = x + self.linear((z.softmax(-1) @ v).transpose(-3, -2).flatten(-2), h + "wo")
            u = torch.nn.functional.gelu(self.linear(self.norm(x, h + "n2.gain"), h + "up"), approximate=GELU)
            x = x + self.linear(u, h + "down")
        return self.norm(x, "out.gain") @ self.of["wte"].T

    def logp(self, tokens, targets):
        found = self.logits(tokens).log_softmax(-1).gather(-1, targets.clamp(min=0)[..., None])[..., 0]
        return (found * (targets >= 0)).sum(-1)


GELU = "none"


def compare_with_pytorch(torch, what, begin, trained, reference, data, events, last):
    policy, frozen = Model(torch, begin, 3.0), Model(torch, reference, 3.0)
    for name in trained:
        policy.of[name].requires_grad_()
    optimizer = torch.optim.SGD([policy.of[name] for name in trained], lr=RATE, momentum=MOMENTUM)
    for step, rows in enumerate(data):
        both = torch.tensor(rows)
        tokens, targets = both[..., 0], both[..., 1]
        with torch.no_grad():
            before = frozen.logp(tokens, targets)
        rewards = BETA * (policy.logp(tokens, targets) - before)
        loss = -torch.nn.functional.logsigmoid(rewards[:, 0] - rewards[:, 1]).mean()
        want = {"loss": loss.item(), "gained": rewards[:, 0].mean().item(), "lost": rewards[:, 1].mean().item()}
        if step > 0:  # the first rewards are all 0: roundings decide
            want["accuracy"] = (rewards[:, 0] > rewards[:, 1]).double().mean().item()
        for name, value in want.items():
            check(near(events[step][name], value), "%s: step %d: %s is %g, PyTorch's %g"
                  % (what, step, name, events[step][name], value))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for name in trained:
        change = policy.of[name].detach().reshape(-1) - torch.tensor(list(begin[name]), dtype=torch.float64)
        ours = [a - b for a, b in zip(last[name], begin[name])]
        off = norm([a - b for a, b in zip(ours, change.tolist())])
        check(off <= 1e-3 * norm(ours) > 0, "%s: `%s` changes by %g, PyTorch's by another %g" % (what, name, norm(ours), off))


def main():
    tools = [os.path.abspath(tool) for tool in sys.argv[1:3]]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["XDG_CACHE_HOME"] = os.environ.get("XDG_CACHE_HOME", folder)
        write_data()
        base, events = begins_as_the_base(tools)
        goes_on(tools, events)
        has_no_dropout(tools, events)
        ranks_agree(tools, base, events)
        adapted, last = adapts(tools, base)
        sys.path.pop(0)  # PyTorch wants Python's own profile, not profile.py of this folder
        try:
            import torch
        except ImportError as error:
            print("not compared with PyTorch: %s" % error)
        else:
            data = samples(tools)
            compare_with_pytorch(torch, "all parameters", base, sorted(base), base, data, events, saved("full", STEPS))
            begin = {**base, **of_copy(last)}
            compare_with_pytorch(torch, "adapters", begin, sorted(of_copy(last)), base, data, adapted, last)
        os.chdir("/")
    print("%d failed" % len(failures))
    return len(failures) > 0


if __name__ == "__main__":
    sys.exit(main())
