#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The graph of a plan:  dot.py DTC

Each graph is read by a parser of the DOT language (what of it a report needs): brackets match,
every arrow joins nodes that are declared once, there is a cluster for each stage. The graph shows
the same numbers as --report=json: bytes of messages, of collectives, of tensors. `dot -Tsvg` of
Graphviz must accept the graph; without Graphviz this check is skipped, with a message."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PIPES = """include "%s/examples/gpt2.dsl"
cluster seven { gpus = 7; gpu = "a100-80g" }
cluster eight { gpus = 8; gpu = "a100-80g" }
cluster many { nodes = 2; gpus = 7; gpu = "a100-80g" }
parallel line on eight { mesh pipe = 4, data = 2; shard batch on data; pipeline h on pipe; micro batch = 8; zero 1 on data }
parallel zb on eight { mesh pipe = 8; pipeline h on pipe (schedule = zb_h1); micro batch = 16 }
parallel parts on eight { mesh pipe = 2, tensor = 4; shard heads, ffn, vocab on tensor
  pipeline h on pipe (schedule = interleaved_1f1b, chunks = 7); micro batch = 8 }
parallel v on seven { mesh pipe = 7; pipeline h on pipe (schedule = zb_v); micro batch = 16 }
parallel long on many { mesh pipe = 14; pipeline h on pipe; micro batch = 16 }
"""
LAYOUTS = ("line", "zb", "parts", "v", "long")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
TOKEN = re.compile(r'\s*(->|[{}\[\];=,]|"(?:[^"\\]|\\.)*"|[A-Za-z_][A-Za-z_0-9]*|-?[0-9.]+)')


class Reader:
    """digraph NAME { statements }"""

    def __init__(self, text):
        self.tokens, at = [], 0
        text = text.strip()
        while at < len(text):
            if text[at:].lstrip().startswith("<"):
                at += len(text[at:]) - len(text[at:].lstrip())
                end, depth = at, 0
                while depth or end == at:
                    depth += {"<": 1, ">": -1}.get(text[end], 0)
                    end += 1
                self.tokens.append(text[at:end])
                at = end
                continue
            match = TOKEN.match(text, at)
            assert match, "no token of DOT: %r" % text[at : at + 60]
            self.tokens.append(match.group(1))
            at = match.end()
        self.at, self.nodes, self.arrows, self.clusters = 0, {}, [], {}
        self.take("digraph")
        self.word()
        self.statements()
        assert self.at == len(self.tokens), "something stands behind the graph"

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, token):
        assert self.peek() == token, "%r where %r belongs" % (self.peek(), token)
        self.at += 1

    def word(self):
        token = self.peek()
        assert re.fullmatch(r'[A-Za-z_0-9.-]+|"(?:[^"\\]|\\.)*"|<.*>', token, re.S), "%r is no name" % token
        self.at += 1
        return token

    def attributes(self):
        found = {}
        self.take("[")
        while self.peek() != "]":
            name = self.word()
            self.take("=")
            assert name not in found, name + " twice"
            found[name] = self.word().strip('"')
            if self.peek() == ",":
                self.take(",")
        self.take("]")
        return found

    def statements(self):
        found = {}
        self.take("{")
        while self.peek() != "}":
            name = self.word()
            if name == "subgraph":
                cluster = self.word()
                assert cluster not in self.clusters, cluster + " twice"
                self.clusters[cluster] = None
                self.clusters[cluster] = self.statements()
                continue
            if self.peek() == "=":
                self.take("=")
                found[name] = self.word().strip('"')
            elif self.peek() == "->":
                self.take("->")
                to = self.word()
                self.arrows.append((name, to, self.attributes() if self.peek() == "[" else {}))
            else:
                values = self.attributes()
                if name not in ("graph", "node", "edge"):
                    assert name not in self.nodes, name + " is declared twice"
                    self.nodes[name] = values
            if self.peek() == ";":
                self.take(";")
        self.take("}")
        return found


def size(words):
    number, unit = words.split()
    return float(number) * UNITS[unit]


def near(a, b, what, slack=0.01):
    assert abs(a - b) <= slack * max(a, b, 1), "%s: %g instead of %g" % (what, a, b)


def check(graph, report, full):
    names = set(graph.nodes)
    for a, b, _ in graph.arrows:
        assert {a, b} <= names, "%s -> %s joins what is not declared" % (a, b)
    stages = [name for name in graph.clusters if name.startswith("cluster_stage")]
    assert len(stages) == (report["stages"] if full else 4), stages
    if not full:
        assert "rest" in names
        return
    messages = [size(values["label"]) for a, b, values in graph.arrows if a[0] == "p" and b[0] == "p"]
    near(sum(messages), sum(c["received"] / c["runs"] for c in report["traffic"]["channels"] if c["runs"]) * report["stages"]
         / report["ranks"], "messages")
    received = sum(size(re.search(r"\\n([0-9.]+ \w+) received", node["label"]).group(1))
                   * report["ranks"] / report["stages"]
                   for name, node in graph.nodes.items() if name[0] == "c")
    near(received, sum(g["received"] for g in report["traffic"]["groups"]), "collectives")
    for number, stage in enumerate(report["memory"]["stages"]):
        cells = re.findall(r'align="right">([^<]*)<', graph.nodes["m%d" % number]["label"])
        for column, arena in ((0, "parameters"), (1, "gradients"), (2, "optimizer")):
            drawn = sum(size(cell) for cell in cells[column::3] if cell)
            near(drawn, stage[arena], "%s of stage %d" % (arena, number), 0.02)


def main():
    dtc = os.path.abspath(sys.argv[1])
    graphviz = shutil.which("dot")
    passed = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        pipes = os.path.join(folder, "pipes.dsl")
        with open(pipes, "w", encoding="utf-8") as file:
            file.write(PIPES % ROOT)
        rows = [(pipes, "--parallel", layout, "-D", "layers=12", "-D", "vocab=50304") for layout in LAYOUTS]
        rows += [(os.path.join(ROOT, "examples/gpt2.dsl"),), (os.path.join(ROOT, "examples/quickstart.dsl"),
                 "--parallel", "two"), (os.path.join(ROOT, "examples/moe.dsl"),)]
        for row in rows:
            for details in (False, True):
                options = ["--details"] if details else []
                run = [dtc, *row, "--report=dot", *options]
                text = subprocess.run(run, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
                report = subprocess.run([dtc, *row, "--report=json"], check=True, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL).stdout
                try:
                    check(Reader(text), json.loads(report), details or "long" not in row)
                except AssertionError as wrong:
                    raise AssertionError("%s: %s" % (" ".join(run[1:]), wrong)) from None
                passed += 1
                if not graphviz:
                    skipped += 1
                    continue
                drawn = subprocess.run([graphviz, "-Tsvg"], input=text.encode(), stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, timeout=100)
                assert drawn.returncode == 0 and not drawn.stderr, (run, drawn.stderr.decode())
                assert drawn.stdout.count(b'class="node"') == len(Reader(text).nodes), run
    if skipped:
        print("SKIP no Graphviz on this machine: graphs were read, not drawn")
    print("%d passed, 0 failed, %d skipped" % (passed, skipped))


main()
