# SPDX-License-Identifier: Apache-2.0
"""All-reduces between ranks on several hosts, by UCX and by sockets, and by Gloo and Open MPI:  reduce.py BUILD [PYTHON [ROUNDS]]

All go over TCP on the loopback of this machine. The programs run in turn, ROUNDS times (default 5); each number is the median of
rounds, each of which is the median of seven loops: microseconds, and then microseconds of processor time for each rank, which other
programs of the machine change less. PYTHON has torch; mpirun and libmpi.so.40 are Open MPI's. The report leaves out what is missing.
SIZES, RANKS (2) and HOSTS (as many) in the environment."""
import os
import shutil
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = int(os.environ.get("RANKS", 2))
HOSTS = int(os.environ.get("HOSTS", RANKS))
SIZES = [int(s) for s in os.environ.get("SIZES", "").split()] or [4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_all(commands, envs):
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ, **env))
               for command, env in zip(commands, envs)]
    text = "".join(process.communicate(timeout=900)[0] for process in started)
    rows = [line.split() for line in text.splitlines() if len(line.split()) == 3]
    return {size: (max(float(row[1]) for row in rows if int(row[0]) == size),
                   statistics.mean(float(row[2]) for row in rows if int(row[0]) == size)) for size in {int(row[0]) for row in rows}}


def table(title, sizes, times):
    print(title)
    print("%10s" % "bytes", *("%10s" % name for name in times), "%8s" % "ratio")
    for size in sizes:
        medians = {name: statistics.median(took[size]) for name, took in times.items() if took[size]}
        peers = [took for name, took in medians.items() if name in ("gloo", "mpi")]
        ratio = "%8.2f" % (medians["ucx"] / min(peers)) if peers and "ucx" in medians else ""
        print("%10d" % size, *("%10.1f" % medians.get(name, float("nan")) for name in times), ratio)


def main():
    build, python, rounds = sys.argv[1], (sys.argv[2:] or [sys.executable])[0], int((sys.argv[3:] or [5])[0])
    sizes = [str(size) for size in SIZES]
    programs = {}
    for comm in ("ucx", "tcp"):
        programs[comm] = lambda comm=comm: run_all([[os.path.join(build, "bench/hosts_reduce"), comm, str(RANKS), str(HOSTS), *sizes]],
                                                   [{"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}])
    if subprocess.run([python, "-c", "import torch.distributed"], capture_output=True).returncode == 0:
        def gloo():
            port = str(free_port())
            return run_all([[python, os.path.join(HERE, "peer_gloo.py"), *sizes]] * RANKS,
                           [{"RANK": str(i), "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                             "GLOO_SOCKET_IFNAME": "lo"} for i in range(RANKS)])
        programs["gloo"] = gloo
    if shutil.which("mpirun") and subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libmpi.so.40')"],
                                                 capture_output=True).returncode == 0:
        programs["mpi"] = lambda: run_all(
            [["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(RANKS), "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
              "--mca", "btl_tcp_if_include", "lo", sys.executable, os.path.join(HERE, "peer_mpi.py"), *sizes]], [{}])
    took = {name: {size: [] for size in SIZES} for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            for size, both in program().items():
                took[name][size].append(both)
    for i, title in enumerate(("microseconds", "microseconds of a processor")):
        table(title, SIZES, {name: {size: [both[i] for both in list_] for size, list_ in by_size.items()} for name, by_size in took.items()})


if __name__ == "__main__":
    main()
