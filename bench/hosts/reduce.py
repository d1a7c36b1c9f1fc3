# SPDX-License-Identifier: Apache-2.0
"""All-reduces between two ranks on two hosts, by UCX and by sockets, beside Gloo and Open MPI:  reduce.py BUILD [PYTHON [ROUNDS]]

All go over TCP on the loopback of this machine. The programs run in turn, ROUNDS times (default 5); each number is the median of
rounds, each of which is the median of seven loops. PYTHON has torch; mpirun and libmpi.so.40 are Open MPI's. What is missing is left out.
"""
import os
import shutil
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = [int(s) for s in os.environ.get("SIZES", "").split()] or [4096, 65536, 1 << 20, 4 << 20, 16 << 20, 64 << 20]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run_all(commands, envs):
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=dict(os.environ, **env))
               for command, env in zip(commands, envs)]
    text = "".join(process.communicate(timeout=900)[0] for process in started)
    return {int(line.split()[0]): float(line.split()[1]) for line in text.splitlines() if len(line.split()) == 2}


def main():
    build, python, rounds = sys.argv[1], (sys.argv[2:] or [sys.executable])[0], int((sys.argv[3:] or [5])[0])
    sizes = [str(size) for size in SIZES]
    programs = {}
    for comm in ("ucx", "tcp"):
        programs[comm] = lambda comm=comm: run_all([[os.path.join(build, "bench/hosts_reduce"), comm, "2", *sizes]],
                                                   [{"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}])
    if subprocess.run([python, "-c", "import torch.distributed"], capture_output=True).returncode == 0:
        def gloo():
            port = str(free_port())
            return run_all([[python, os.path.join(HERE, "peer_gloo.py"), *sizes]] * 2,
                           [{"RANK": str(i), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                             "GLOO_SOCKET_IFNAME": "lo"} for i in range(2)])
        programs["gloo"] = gloo
    if shutil.which("mpirun") and subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libmpi.so.40')"],
                                                 capture_output=True).returncode == 0:
        programs["mpi"] = lambda: run_all(
            [["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "--mca", "pml", "ob1", "--mca", "btl", "tcp,self",
              "--mca", "btl_tcp_if_include", "lo", sys.executable, os.path.join(HERE, "peer_mpi.py"), *sizes]], [{}])
    times = {name: {size: [] for size in SIZES} for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            for size, took in program().items():
                times[name][size].append(took)
    print("%10s" % "bytes", *("%10s" % name for name in programs), "%8s" % "ratio")
    for size in SIZES:
        medians = {name: statistics.median(took[size]) for name, took in times.items() if took[size]}
        peers = [took for name, took in medians.items() if name in ("gloo", "mpi")]
        ratio = "%8.2f" % (medians["ucx"] / min(peers)) if peers and "ucx" in medians else ""
        print("%10d" % size, *("%10.1f" % medians.get(name, float("nan")) for name in programs), ratio)


if __name__ == "__main__":
    main()
