#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bugs planted into the compiler, and what finds them: planted.py DTC JUDGED [--build FOLDER] [NAME...]
planted.py --texts: only whether each row's text stands once in its file, and whether the copied folders are those that
meson.build builds.
planted.py --runtime [--build FOLDER] [--search] [NAME...]: the bugs of planted_runtime.py and
    planted_library.py.

For each row of planted_bugs.py the text of one file is changed in a copy of the tree, and dtc is built from it. It
compiles the row's cases with --verify, as users do; what finds the bug must be what the row says, or something earlier
(see planted_bugs.py), in every case that it changes. No verdict depends on how busy the machine is: limits are of processor
time, and where ranks could not be started, or nothing came of a command, the row says so. A bug that changes nothing is no bug: the texts of some case must
differ from those of the dtc given, and where the certificate stands alone, ranks must compute something else, as
JUDGED, which has no bug, says. With NAME only rows whose name or file has one of these words are tried. The copy is
built in a folder of its own, which --build keeps; with ccache a row takes some seconds.

Bugs of the runtime and the library are found by what their row says: `dtc --verify` of a program,
or a test, which is built and run in the copy. It must pass there without the bug. --search tries what other rows name, too, where a row's own
finder finds nothing.
"""
import filecmp
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import planted_bugs
import planted_library
import planted_runtime

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FOLDERS = "base cli codegen cost frontend ir kir lib passes plan runtime scripts search tokenizer verify".split()
UNBUILT = "examples lib scripts".split()  # builds and tests read them
TESTS = "bench examples tests".split()
FILES = "dtc.c dtrun.c meson.build meson_options.txt".split()
# seconds of processor time that a process may use; seconds after which a command that uses no
# processor time is ended
LIMIT = 120
PATIENCE = 3600  # seconds after which a command that takes no processor time is ended
EXAMPLES = ("llama_block.dsl",)
ORDER = ("abort", "certificate", "plan", "verify", "machine", "nothing")
SAID = (  # options of dtc
    ("certificate", "the layout is not proved"), ("plan", "the plan is not proved"),
    ("verify", "NOT equal to the serial"), ("verify", "program itself is WRONG"),
    ("machine", "NOT equal to the interpreter"), ("abort", "internal error"), ("abort", "no end"), ("abort", "abort"))
# the text that is compared here
BEHIND = ("codegen/", "passes/lower/", "ir/frame.c", "ir/view.c", "ir/graph.c", "ir/joined.c")
OUTSIDE = ("expand.c", "stage_ranges.c", "ring", "relay", "zigzag", "inline.c", "cse.c", "widen.c", "narrow.c", "optimizer.c", "differentiate.c", "reverse.c", "vjp_")


def copy_changed(old, new):
    """Copies what differs, with a new time, so that ninja rebuilds what an earlier run left changed."""
    if not os.path.exists(new) or not filecmp.cmp(old, new, shallow=False):
        shutil.copy(old, new)


class Tree:
    """The copy of the tree."""

    def __init__(self, folder, tests=False):
        self.folder, self.build = os.path.join(folder, "tree"), os.path.join(folder, "build")
        for name in FOLDERS + (TESTS if tests else []):
            shutil.copytree(os.path.join(ROOT, name), os.path.join(self.folder, name), dirs_exist_ok=True,
                            copy_function=copy_changed)
        for name in FILES:
            shutil.copy(os.path.join(ROOT, name), os.path.join(self.folder, name))
        # if each copy had its own path, a cache of objects would not help
        with open(os.path.join(self.folder, "meson.build")) as file:
            text = file.read().replace("meson.project_source_root() / 'lib'", "'%s'" % os.path.join(ROOT, "lib"))
        write(self.folder, "meson.build", text if tests else re.sub(r"subdir\('(bench|tests)'\)", "", text))
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            subprocess.run(["meson", "setup", self.build, self.folder, "-Dbuildtype=release",
                            "-Dtests=" + ("enabled" if tests else "disabled")],
                           check=True, capture_output=True)
        self.make()

    def make(self):
        done = subprocess.run(["ninja", "-C", self.build, "-j2", "dtc", "dtrun"], capture_output=True, text=True)
        return done.stdout if done.returncode else None

    def plant(self, file, old, new):
        """Plants the bug and builds dtc. Returns what is wrong, or None if dtc is built with the
        bug."""
        path = os.path.join(self.folder, file)
        with open(path) as source:
            text = source.read()
        if text.count(old) != 1:
            return "the old text stands %d times in %s" % (text.count(old), file)
        with open(path, "w") as source:
            source.write(text.replace(old, new))
        said = self.make()
        return "it does not build:\n" + "\n".join(re.findall(r"^.*error.*$", said, re.M)[:3]) if said else None

    def restore(self, file):
        shutil.copy(os.path.join(ROOT, file), os.path.join(self.folder, file))

    @property
    def dtc(self):
        return os.path.join(self.build, "dtc")


def run(*command):
    """The output of a command; if it used too much processor time, "no end"."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, preexec_fn=limit)
    return subprocess.CompletedProcess(command, -1, "", "no end") if done.returncode == -signal.SIGXCPU else done


def text_of(dtc, path, stage, options=()):
    done = run(dtc, path, "--data=synthetic", "--print-after=" + stage, *options)
    return done.stdout if done.returncode == 0 else None, done


def said_of(tool, *paths):
    done = run(tool, *paths)
    return done.stdout.splitlines()[-1] if done.returncode == 0 and done.stdout else "broken"


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


class Case:
    """A program with a layout, and its right text."""

    def __init__(self, tools, folder, name):
        self.tools, self.folder = tools, folder
        self.path = write(folder, name.replace(" ", "-") + ".dsl", planted_bugs.CASES[name]())
        self.options = planted_bugs.OPTIONS.get(name, [])
        self.final, done = text_of(tools[0], self.path, "expand", self.options)
        if not self.final:
            sys.exit("%s does not compile: %s" % (name, done.stderr[-1000:]))

    def differs(self, wrong, file):
        """Whether ranks compute something else, as far as the given tools can tell; None: the bug
        changes nothing."""
        final, _ = text_of(wrong, self.path, "expand", self.options)
        if file.startswith(BEHIND):
            return True if self.plan(wrong) != self.plan(self.tools[0]) else None
        if final == self.final:
            return None
        if final is None or any(part in os.path.basename(file) for part in OUTSIDE):
            return True
        placed = write(self.folder, "placed.ir", text_of(wrong, self.path, "reduce", self.options)[0])
        return said_of(self.tools[1], self.path, placed) == "differs"

    def plan(self, dtc):
        path = os.path.join(self.folder, "plan")
        if run(dtc, self.path, "--data=synthetic", "--no-kernels", "-o", path, *self.options).returncode:
            return None
        with open(path, "rb") as file:
            return file.read()

    def found_by(self, wrong):
        for options in (["--no-kernels"], []):
            done = run(wrong, self.path, "--data=synthetic", "--verify", *self.options, *options)
            said = done.stdout + done.stderr
            found = next((by for by, words in SAID if words in said), "nothing" if done.returncode == 0 else "refused")
            if found != "nothing":
                break
        return found


def tried(tree, cases, bug):
    """Returns (what finds it, or why it is no bug; whether that is as expected)"""
    what, file, old, new, names, by = bug
    wrong = tree.plant(file, old, new)
    found = []
    for name in names if not wrong else []:
        differs = cases(name).differs(tree.dtc, file)
        if differs is not None:
            found.append((name, cases(name).found_by(tree.dtc), differs))
    tree.restore(file)
    if wrong:
        return wrong, False
    text = ", ".join("%s: %s%s" % (name, by, "" if differs else " (though equal)") for name, by, differs in found)
    verdicts = [by for _, by, differs in found if differs]
    if not verdicts:
        return text or "it changes nothing", False
    return text, all(v in ORDER[:ORDER.index(by) + 1] for v in verdicts)


# ---- bugs of the runtime ----

class Finders:
    """What may find a bug of the runtime: programs for --verify, and tests of the suites."""

    def __init__(self, tree, folder):
        self.tree, self.paths, self.passes = tree, {}, {}
        for name, text in planted_runtime.CASES.items():
            self.paths[name] = write(folder, name + ".dsl", text)
        self.tests = {test["name"]: test for test in self.introspect("--tests")}
        self.files = {target["id"]: target["filename"] for target in self.introspect("--targets")}

    def introspect(self, what):
        said = subprocess.run(["meson", "introspect", what, self.tree.build], check=True, capture_output=True, text=True)
        return json.loads(said.stdout)

    def has_found(self, name):
        """Whether the build with the bug is refuted; None: what should find it does not build."""
        environment = dict(os.environ, DTC_LIBRARY=os.path.join(self.tree.folder, "lib"))
        if name.startswith("--verify "):
            done = subprocess.run([self.tree.dtc, self.paths[name.split()[1]], "--parallel", "two", "--verify"],
                                  capture_output=True, text=True, timeout=PATIENCE, env=environment)
            return "the plan's machine code does not compute what it says" in done.stderr
        test = self.tests[name]
        targets = [os.path.relpath(path, self.tree.build) for id in test["depends"] for path in self.files[id]]
        if subprocess.run(["ninja", "-C", self.tree.build, "-j2"] + targets, capture_output=True).returncode:
            return None
        environment.update(test["env"])
        return subprocess.run(test["cmd"], capture_output=True, timeout=PATIENCE, env=environment,
                              cwd=test["workdir"] or self.tree.build).returncode != 0

    def good(self, name):
        """Whether it finds nothing if no bug is planted."""
        if name not in self.passes:
            self.tree.make()
            self.passes[name] = self.has_found(name) is False
        return self.passes[name]


def runtime_bugs(words, kept, searches):
    bugs = planted_runtime.BUGS + planted_library.BUGS
    rows = [bug for bug in bugs if not words or any(word in bug[0] + bug[1] for word in words)]
    failed, others = [], list(dict.fromkeys(bug[4] for bug in bugs)) if searches else []
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        tree = Tree(kept or folder, tests=True)
        finders = Finders(tree, folder)
        for what, file, old, new, by in rows:
            said, found = "" if finders.good(by) else "fails without the bug", None
            said = said or tree.plant(file, old, new) or ""
            for name in [by] + others if not said else []:
                if finders.has_found(name):
                    found = name
                    break
            tree.restore(file)
            failed += [] if found == by else [what]
            print("%s %s (%s)\n    %s" % ("    " if found == by else "FAIL", what, file, said or found or "nothing"))
            sys.stdout.flush()
    print("".join("FAIL %s\n" % name for name in failed), end="")
    print("%d passed, %d failed" % (len(rows) - len(failed), len(failed)))
    return 1 if failed else 0


def missing_folders():
    """Names in which FOLDERS and meson.build differ."""
    with open(os.path.join(ROOT, "meson.build")) as file:
        text = file.read()
    listed = re.search(r"foreach folder : \[(.*?)\]", text, re.S)[1]
    built = set(re.findall(r"'(\w+)[/']", listed)) | set(re.findall(r"subdir\('(\w+)'\)", text))
    return sorted(set(FOLDERS + TESTS) ^ (built | set(UNBUILT)))


def texts():
    differ = missing_folders()
    wrong = ["FOLDERS are not those of meson.build: " + ", ".join(differ)] if differ else []
    rows = planted_bugs.BUGS + planted_runtime.BUGS + planted_library.BUGS
    for what, file, old, *_ in rows:
        with open(os.path.join(ROOT, file)) as source:
            n = source.read().count(old)
        wrong += ["%s: the old text stands %d times in %s" % (what, n, file)] if n != 1 else []
    print("".join("FAIL %s\n" % row for row in wrong), end="")
    print("%d passed, %d failed" % (len(rows) + 1 - len(wrong), len(wrong)))
    return 1 if wrong else 0


def main(arguments):
    if arguments == ["--texts"]:
        return texts()
    kept = None
    if "--build" in arguments:
        at = arguments.index("--build")
        kept = os.path.abspath(arguments[at + 1])
        del arguments[at:at + 2]
    if "--runtime" in arguments:
        words = [word for word in arguments if not word.startswith("--")]
        return runtime_bugs(words, kept, "--search" in arguments)
    tools, words = [os.path.abspath(path) for path in arguments[:2]], arguments[2:]
    failed, rows = [], [bug for bug in planted_bugs.BUGS if not words or any(word in bug[0] + bug[1] for word in words)]
    counts = dict.fromkeys(ORDER, 0)
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        for name in EXAMPLES:
            shutil.copy(os.path.join(ROOT, "examples", name), folder)
        tree, known = Tree(kept or folder), {}
        for bug in rows:
            text, good = tried(tree, lambda name: known.setdefault(name, None) or known.__setitem__(
                name, Case(tools, folder, name)) or known[name], bug)
            failed += [] if good else [bug[0]]
            counts[bug[5]] += good
            print("%s %s (%s)\n    %s" % ("    " if good else "FAIL", bug[0], bug[1], text))
            sys.stdout.flush()
    print(", ".join("%d by %s" % (n, by) for by, n in counts.items() if n))
    print("".join("FAIL %s\n" % name for name in failed), end="")
    print("%d passed, %d failed" % (len(rows) - len(failed), len(failed)))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
