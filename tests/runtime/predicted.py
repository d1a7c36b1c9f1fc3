# SPDX-License-Identifier: Apache-2.0
"""What a trace of dtrun says that was predicted:  predicted.py DTC DTRUN

Plans are priced for one device and run on this machine. The trace's prices, its simulated step on each rank's tracks and
the step's seconds are those of dtc's reports of the same plan, to the last digit; prices of all that a rank ran in a step
add up to what the report says that the stage spends on products, kernels and copies. Plans that name no device have
none of it, and numbers that no device has are no reason for a trace that cannot be read."""

import collections
import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS, RANKS = 3, 4
MINE = """
device "mine" { gpu = false; units = 1; peak_f32 = 0.05GFLOP/s; bandwidth = 20GB/s; intra = link(7GB/s, 1us) }
"""
SUMS = {"gemm": "matrix products", "kernel": "fused kernels", "copy": "copies", "zero": "copies", "read": "copies"}
KINDS = {"gemm", "copy", "zero", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift", "shift_back", "send", "recv",
         "read", "wait"}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, "%s: exit code %d\n%s%s" % (" ".join(command), done.returncode, done.stdout[-800:], done.stderr[-1500:])
    return done.stdout + done.stderr if command[0].endswith("dtrun") else done.stdout


def events_of(path):
    with open(path) as file:
        return json.load(file)["traceEvents"]


def is_predicted(event):
    return event.get("cat", "").startswith("predicted")


def tracks_of(events):
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}


def processes_of(events):
    return {e["args"]["name"].split(",")[0]: e["pid"] for e in events if e["ph"] == "M" and e["name"] == "process_name"}


def check_numbers(events):
    """Checks what Perfetto needs: no track has the number of another track or of a process; slices of
    a track do not overlap, unless one contains the other."""
    tracks = [tid for _, tid in tracks_of(events)]
    processes = set(processes_of(events).values())
    assert len(set(tracks)) == len(tracks) and not set(tracks) & processes and 0 not in processes | set(tracks), tracks
    slices = collections.defaultdict(list)
    for e in events:
        if is_predicted(e):
            assert (e["pid"], e["tid"]) in tracks_of([m for m in events if m["pid"] == e["pid"]]), e
            slices[e["tid"]].append((e["ts"], -e["dur"]))
    for track, all_of in slices.items():
        open_until = []
        for begin, minus in sorted(all_of):
            while open_until and open_until[-1] <= begin + 0.002:
                open_until.pop()
            assert not open_until or begin - minus <= open_until[-1] + 0.002, "track %d: slices cross at %f" % (track, begin)
            open_until.append(begin - minus)


def check_prices(events, report):
    """Checks the prices of all measured slices; returns how many instructions have a price."""
    wanted = {e["args"]["of"]: e["args"].get("predicted") for e in report if "of" in e.get("args", {})}
    seen = set()
    for e in events:
        if e["ph"] == "X" and "inst" in e.get("args", {}):
            number, price = e["args"]["inst"], e["args"].get("predicted")
            assert number not in wanted or wanted[number] == price, (number, price, wanted[number])
            assert price is None if e["name"] in ("recv", "wait") else price is not None or e["name"] == "read", e
            seen.add(number)
    assert set(wanted) <= seen, "never ran: %s" % sorted(set(wanted) - seen)
    return len(seen & set(wanted))


def check_sums(events, whole, rank, stage):
    """The instructions of each kind that a rank ran in its last step cost as much as the report
    says."""
    last = [e for e in events if e["ph"] == "X" and e["pid"] == rank and e["name"] in ("step %d" % (STEPS - 1), "update %d" % (STEPS - 1))]
    begin, end = min(e["ts"] for e in last), max(e["ts"] + e["dur"] for e in last)
    sums = collections.Counter()
    for e in events:
        if e["pid"] == rank and "inst" in e.get("args", {}) and begin <= e["ts"] <= end:
            kind = e["name"].split()[0]
            kind = SUMS.get(kind if kind in KINDS else "kernel")
            sums[kind] += e["args"].get("predicted", 0) if kind else 0
    for kind in set(SUMS.values()):
        wanted = whole["time"]["stages"][stage][kind]
        assert math.isclose(sums[kind], wanted, rel_tol=1e-9, abs_tol=1e-12), (kind, sums[kind], wanted)


def check_steps(events, whole):
    predicted = [e for e in events if "predicted_step" in e.get("args", {})]
    assert len(predicted) == 2 * STEPS * RANKS and {e["args"]["predicted_step"] for e in predicted} == {whole["time"]["step"]}, predicted[:2]
    took = collections.Counter()
    for e in predicted:
        took[e["pid"], e["name"].split()[1]] += e["dur"] * 1e-6
    ratios = [(e["pid"], e["args"]["ratio"]) for e in events if e["ph"] == "C" and e["name"] == "measured / predicted"]
    wanted = [(pid, seconds / whole["time"]["step"]) for (pid, _), seconds in took.items()]
    assert len(ratios) == len(wanted) == STEPS * RANKS
    for (rank, is_), (other, should) in zip(sorted(ratios), sorted(wanted)):
        assert rank == other and math.isclose(is_, should, rel_tol=1e-3), (rank, is_, should)


def check_shown(said, whole):
    """The line of the last step, with the predicted time, and the MFU by the report's formula."""
    shown = re.search(r"[0-9.]+( [kM])? tokens/s .* ([0-9.e+-]+) ms a step, predicted ([0-9.e+-]+) ms  MFU ([0-9.]+) %",
                      [line for line in said.splitlines() if line.startswith("step ")][-1])
    assert shown, said
    step, predicted, mfu = map(float, shown.groups()[1:])
    time = whole["time"]
    assert math.isclose(predicted, 1e3 * time["step"], rel_tol=0.005), (predicted, time["step"])
    wanted = 100 * time["model_flops"] / (step * 1e-3 * time["peak"] * RANKS)
    assert math.isclose(mfu, wanted, rel_tol=0.01, abs_tol=0.051), (said, wanted)
    return mfu


def check_drawn(events, report, rank, stage, device):
    """The predicted tracks of a rank are those of its stage in the report, shifted to the time at
    which rank 0's last step begins."""
    ranks = processes_of(events)
    begin = [e for e in events if e["ph"] == "X" and e["pid"] == ranks["rank 0"] and e["name"] == "step %d" % (STEPS - 1)][0]["ts"]
    drawn, there = [], []
    for e, wanted in ((x, y) for x, y in ((events, drawn), (report, there))):
        names = tracks_of(e)
        process = ranks["rank %d" % rank] if e is events else processes_of(report)["stage %d" % stage]
        for s in e:
            if is_predicted(s) and s["pid"] == process:
                wanted.append((names[s["pid"], s["tid"]], s["ts"] - (begin if e is events else 0), s["dur"], s["name"], s["cat"], s["args"]))
    assert len(drawn) == len(there) > 20, (rank, len(drawn), len(there))
    for is_, should in zip(drawn, there):
        assert is_[0] == "predicted for %s: %s" % (device, should[0]) and is_[2:] == should[2:], (is_, should)
        assert abs(is_[1] - should[1]) < 0.01, (is_, should)


def check(dtc, dtrun, program, layout, device, ranks_of_stage):
    plan = "%s.%s.plan" % (layout, device)
    run(dtc, program, "--parallel", layout, "--set", 'cluster.gpu="%s"' % device, "--target=cpu", "-o", plan)
    said = run(dtrun, plan, "--steps", str(STEPS), "--set", "eval.every=0", "--trace", "trace.json")
    events, report = events_of("trace.json"), json.loads(run(dtc, "report", plan, "--report=trace"))["traceEvents"]
    whole = json.loads(run(dtc, "report", plan, "--report=json"))
    assert whole["device"] == device
    for e in events, report:
        check_numbers(e)
    assert check_shown(said, whole) > 0 or device != "mine"
    ranks = processes_of(events)
    n = check_prices(events, report)
    check_steps(events, whole)
    for rank in range(RANKS):
        stage = ranks_of_stage.index(next(members for members in ranks_of_stage if rank in members))
        check_sums(events, whole, ranks["rank %d" % rank], stage)
        check_drawn(events, report, rank, stage, device)
    said = run(dtc, "report", plan, "--measured", "trace.json")
    assert "measured: %d steps of %d ranks" % (STEPS, RANKS) in said, said[-1500:]
    print("ok %s for %s: %d instructions" % (layout, device, n), flush=True)
    return plan


def check_none(dtc, dtrun, program):
    """The device `cpu` stands for no particular processor."""
    run(dtc, program, "--parallel", "z0", "--target=cpu", "-o", "none.plan")
    run(dtrun, "none.plan", "--quiet", "--steps", "2", "--trace", "none.json")
    with open("none.json") as file:
        assert "predicted" not in file.read()


def check_hostile(dtc, dtrun, plan):
    """Devices that are infinitely slow, or fast, or finish before they begin: the trace must still be
    valid JSON."""
    text = run(dtc, "dump", plan)
    for value in "1e308", "-1e308", "1e-308", "0":
        lines = [line if not line.startswith("DEVC") or "name=device" in line else
                 " ".join(word for word in line.split(" ") if not word.startswith("value=")) + (" value=" + value if value != "0" else "")
                 for line in text.splitlines()]
        with open("hostile.txt", "w") as file:
            file.write("\n".join(lines) + "\n")
        run(dtc, "asm", "hostile.txt", "-o", "hostile.plan")
        run(dtrun, "hostile.plan", "--quiet", "--steps", "1", "--trace", "hostile.json")
        with open("hostile.json") as file:
            traces = file.read(), run(dtc, "report", "hostile.plan", "--report=trace")
        # Python reads NaN and Infinity as numbers, but JSON does not allow them
        for trace in traces:
            json.loads(trace, parse_constant=lambda word: sys.exit("hostile: %s in the trace" % word))


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with open(os.path.join(HERE, "zero.dsl")) as file, open("program.dsl", "w") as to:
            to.write(file.read() + MINE)
        alike, two = [{0, 1, 2, 3}], [{0, 1}, {2, 3}]
        plan = check(dtc, dtrun, "program.dsl", "pipe_ahead", "a100-80g", two)
        check(dtc, dtrun, "program.dsl", "chunks", "mine", two)
        check(dtc, dtrun, "program.dsl", "ahead2", "mine", alike)
        check_none(dtc, dtrun, "program.dsl")
        check_hostile(dtc, dtrun, plan)
    print("5 passed, 0 failed")


if __name__ == "__main__":
    main()
