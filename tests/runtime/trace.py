# SPDX-License-Identifier: Apache-2.0
# Whether a trace shows each rank by itself, in order, and the bytes that the log of the same run counts:
#     trace.py RANKS trace.json log.jsonl
# Perfetto takes the number of a thread for that of any process's thread, and 0 for none.
import collections
import json
import sys

ranks = int(sys.argv[1])
events = json.load(open(sys.argv[2]))["traceEvents"]
traffic = [line for line in map(json.loads, open(sys.argv[3])) if line["event"] == "traffic"][0]
wrong = []


def check(good, what):
    if not good:
        wrong.append(what)


def meta(name):
    return [e for e in events if e["ph"] == "M" and e["name"] == name]


names = {e["pid"]: e["args"]["name"] for e in meta("process_name")}
order = {e["pid"]: e["args"]["sort_index"] for e in meta("process_sort_index")}
lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in meta("thread_name")}
threads = [tid for _, tid in lanes]
check(len(names) == ranks == len(set(names.values())), f"{len(names)} processes of {ranks} ranks")
check(0 not in names and 0 not in threads, "a number is 0")
check(len(set(threads)) == len(threads) == 3 * ranks, f"threads {sorted(threads)}")
check(not set(threads) & set(names), "a thread has the number of a process")
check([names[p].split(",")[0] for p in sorted(order, key=order.get)] == [f"rank {r}" for r in range(ranks)], f"order {order}")
check(len(meta("thread_sort_index")) == 3 * ranks, "lanes without an order")

received = collections.Counter()
slices = [e for e in events if e["ph"] == "X"]
for e in slices:
    lane, args = lanes.get((e["pid"], e["tid"])), e.get("args", {})
    moves = e["name"] in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "shift", "shift_back", "send", "recv")
    check(lane == ("entries" if "inst" not in args else "communication" if moves else "compute"), f"{e} in lane {lane}")
    if not moves:
        continue
    check("channel" in args if e["name"] in ("send", "recv") else len(args["ranks"]) > 1, f"no peers: {e}")
    if e["name"] == "send":
        check(args["sent"] > 0 and 0 <= args["to"] < ranks, f"send: {e}")
    else:
        received[args.get("group", "messages")] += args["received"]
counted = collections.Counter()
for group in traffic["groups"]:
    counted[" ".join(group["axes"])] += group["received"]
counted["messages"] = sum(traffic["channels"])
check(any(received.values()) and +received == +counted, f"received {dict(received)}, the log counts {dict(counted)}")
for what in wrong[:10]:
    print("trace.py:", what)
sys.exit(bool(wrong))
