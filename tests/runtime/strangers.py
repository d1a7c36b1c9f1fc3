#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers at all ports of a run over two nodes:  strangers.py DTC DTRUN CRAFTED RANDOM

They do not know the run's key. CRAFTED hellos look right: digests of other keys, hellos that were heard in another meeting, any bit
changed, parts of them, roles and numbers of nodes of every kind, messages of agents. RANDOM messages are bytes. They come while node 0
waits for node 1, while both start, and at every port that ranks open, also when they start again. Nobody takes a place or gets one byte more than a random number;
the run has the bits of one node. That hellos look right is checked by the key: then node 0 compares what they say."""

import contextlib
import hashlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from hosts import compile_plan, free_port, outputs, ranks_of, wait_for
from runs import bytes_of, check, failures, write_tokens

KEY = "the key of these strangers"
CHALLENGE, HELLO, WELCOME, HOST, VALUES, AT_ONCE = 40, 488, 528, 64, 7 * 48, 50
STEPS, RESTARTS = 50, 2
draw = random.Random(5)


def digest_of_key(text):
    whole = hashlib.blake2b(digest_size=32)
    for part in (b"dtrun key", text.encode()):
        whole.update(struct.pack("<Q", len(part)) + part)
    return whole.digest()


def signed(key, challenge, hello):
    """The keyed digest of a hello without its own."""
    message = hello[:HELLO - 32].ljust(max(HELLO, WELCOME), b"\0")
    return hashlib.blake2b(struct.pack("<Q", 1) + challenge[8:] + message, key=key, digest_size=32).digest()


def hello_for(challenge, key, role=1, node=1, host=b"stranger"):
    text = challenge[:8] + struct.pack("<IIII", role, node, 0, 0) + host.ljust(HOST, b"\0") + bytes(VALUES) + draw.randbytes(32)
    return text + signed(key, challenge, text)


def crafted(challenge, heard, keys):
    """What one sends after a challenge; heard: right hellos for other challenges."""
    role, node = draw.choice((0, 1, 1, 2, 3, 4, 2**32 - 1)), draw.choice((0, 1, 1, 2, 7, 2**31, 2**32 - 1))
    hello = hello_for(challenge, draw.choice(keys), role, node)
    kind = draw.randrange(9)
    if kind == 0:
        return hello
    if kind == 1:
        return draw.choice(heard)
    if kind == 2:  # a right one of another meeting, with this challenge's magic and a bit changed
        bit, old = draw.randrange(8 * HELLO), bytearray(draw.choice(heard))
        old[bit // 8] ^= 1 << bit % 8
        return bytes(old)
    if kind == 3:
        return hello[:HELLO - 32] + bytes(32)
    if kind == 4:
        return hello[:HELLO - 32] + challenge[8:]  # the random number as a digest
    if kind == 5:
        return hello[:draw.randrange(HELLO)]
    if kind == 6:
        return hello + draw.choice(heard) + draw.randbytes(draw.randrange(600))
    if kind == 7:  # messages of agents: length, kind, node, attempt, code, port, flags, nodes, ranks, form, token, text
        return b"".join(struct.pack("<IIIIIIIIIIQ", 58, draw.randrange(1, 14), node, draw.randrange(3), draw.randrange(300), 1, 0, 2, 8, 0, 0) +
                        b"0123456789" for _ in range(12))
    return challenge + bytes(WELCOME)  # the listener's own words


def connect(port):
    one = socket.socket()
    one.bind(("127.%d.%d.%d" % (draw.randrange(1, 9), draw.randrange(256), draw.randrange(1, 255)), 0))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    one.settimeout(20)
    one.connect(("127.0.0.1", port))
    return one


def receive(one, n):
    data = b""
    while len(data) < n:
        more = one.recv(n - len(data))
        if not more:
            break
        data += more
    return data


def ends(one):
    """What the other side says after a whole hello until it disconnects."""
    try:
        return receive(one, 10000)
    except ConnectionResetError:
        return b""


def attack(port, n, make, seen):
    """n strangers, some at a time. Returns how many got a challenge, and how many were answered with more."""
    leaks, arrived = 0, 0
    while n > 0:
        ones = []
        for _ in range(min(n, AT_ONCE)):
            try:
                ones.append(connect(port))
            except OSError:  # nobody listens there any more
                n = 0
        n -= len(ones)
        for one in ones:
            try:
                challenge = receive(one, CHALLENGE)
                text = make(challenge) if len(challenge) == CHALLENGE else b""
                leaks += challenge in seen
                if len(challenge) == CHALLENGE:
                    arrived += 1
                    seen.add(challenge)
                one.sendall(text)
                if len(text) < HELLO and draw.random() < 0.5:
                    one.shutdown(socket.SHUT_WR)
                one.setblocking(len(text) >= HELLO)
                leaks += len(ends(one) if len(text) >= HELLO else one.recv(1)) > 0
            except (BlockingIOError, OSError):
                pass
            one.close()
    return arrived, leaks


def listening(pids):
    """Ports on which these processes listen."""
    sockets = set()
    for pid in pids:
        try:
            for fd in os.listdir("/proc/%d/fd" % pid):
                sockets.add(os.readlink("/proc/%d/fd/%s" % (pid, fd)))
        except OSError:
            pass
    ports = set()
    for path in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(path) as file:
            for words in (line.split() for line in file.readlines()[1:]):
                if words[3] == "0A" and "socket:[%s]" % words[9] in sockets:
                    ports.add(int(words[1].split(":")[1], 16))
    return ports


def children(pid):
    """As ranks_of, and faster."""
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


class Siege(threading.Thread):
    """Attacks every port that the processes of a run open, while it is open."""
    def __init__(self, started, make, seen):
        super().__init__(daemon=True)
        self.started, self.make, self.seen = started, make, seen
        self.ports, self.open, self.leaks, self.is_over = {}, [], 0, False  # ports: how many challenges came from each

    def look(self, one):
        """Whether the connection lasts."""
        try:
            one["came"] += one["socket"].recv(1000)
        except BlockingIOError:
            return time.time() < one["until"]
        except OSError:
            return False
        if len(one["came"]) == CHALLENGE and not one["is_sent"]:
            self.leaks += one["came"] in self.seen
            self.seen.add(one["came"])
            self.ports[one["port"]] += 1
            one["is_sent"] = True
            with contextlib.suppress(OSError):
                one["socket"].sendall(self.make(one["came"]))
            return True
        self.leaks += len(one["came"]) > CHALLENGE
        return False  # it was closed

    def run(self):
        while not self.is_over:
            pids = []
            for process in list(self.started):
                pids += [process.pid] + children(process.pid)
            for port in listening(pids):
                self.ports.setdefault(port, 0)
                for _ in range(3 if len(self.open) < 300 else 0):
                    with contextlib.suppress(OSError):
                        one = connect(port)
                        one.setblocking(False)
                        self.open.append({"socket": one, "port": port, "came": b"", "is_sent": False, "until": time.time() + 8})
            for one in list(self.open):
                if not self.look(one):
                    one["socket"].close()
                    self.open.remove(one)
            time.sleep(0.002)


def start(dtrun, node, port, *more):
    env = dict(os.environ, DTRUN_KEY=KEY)
    return subprocess.Popen([dtrun, "pipe.plan", "--quiet", "--nodes", "2", "--node", str(node), "--meet", "127.0.0.1:%d" % port, "--comm", "tcp",
                             "--restarts", str(RESTARTS), "--steps", str(STEPS), *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)


def start_slowly(process):
    """Stops the ranks of a node again and again while they start, so that ports of the other node stay open for a while."""
    for _ in range(4):
        ranks = ranks_of(process)
        for number, seconds in ((signal.SIGSTOP, 0.3), (signal.SIGCONT, 0.03)):
            for pid in ranks:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            time.sleep(seconds)


def until_listens(process, port):
    for _ in range(1000):
        if port in listening([process.pid]):
            return
        time.sleep(0.02)
    sys.exit("node 0 does not listen")


def check_format(port):
    """With the key, node 0 reads what a hello says; without, it says nothing. Returns right hellos for challenges that are over."""
    heard = []
    for key, wanted in ((KEY, b"there is a node with number 7 already"), (KEY + "!", b"")):
        one = connect(port)
        challenge = receive(one, CHALLENGE)
        one.sendall(hello_for(challenge, digest_of_key(key), node=7, host=b"friend"))
        check(wanted in ends(one) if wanted else ends(one) == b"", "the answer to %s" % key)
        one.close()
    for _ in range(20):
        one = connect(port)
        heard.append(hello_for(receive(one, CHALLENGE), digest_of_key(KEY)))
        one.close()
    return heard


def main():
    dtc, dtrun = (os.path.abspath(path) for path in sys.argv[1:3])
    n_crafted, n_random = int(sys.argv[3]), int(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_tokens()
        compile_plan(dtc, "pipe")
        subprocess.run([dtrun, "pipe.plan", "--quiet", "--steps", str(STEPS), *outputs("alone")], check=True, timeout=100)
        port, seen = free_port(), set()
        first = start(dtrun, 0, port, *outputs("many"))
        until_listens(first, port)
        heard, began = check_format(port), time.time()
        keys = [bytes(32), digest_of_key(""), digest_of_key("dtrun key"), hashlib.blake2b(KEY.encode(), digest_size=32).digest(),
                draw.randbytes(32)]
        came, leaks = attack(port, n_crafted, lambda challenge: crafted(challenge, heard, keys), seen)
        came_too, more = attack(port, n_random, lambda challenge: (challenge[:8] if draw.random() < 0.5 else b"") +
                                draw.randbytes(draw.choice((draw.randrange(64), HELLO - 8, HELLO, draw.randrange(3000)))), seen)
        leaks += more
        check(came == n_crafted and came_too == n_random, "%d and %d strangers got a challenge" % (came, came_too))
        check(first.poll() is None, "node 0 has ended: %s" % first.returncode)
        print("ok %d crafted and %d random messages in %.1f s" % (n_crafted, n_random, time.time() - began), flush=True)
        started = [first]
        siege = Siege(started, lambda challenge: crafted(challenge, heard, keys), seen)
        siege.start()
        started.append(start(dtrun, 1, port, *outputs("many")))
        for _ in range(RESTARTS):
            wait_for("many.log", 2)
            os.remove("many.log")  # the next attempt makes it again
            os.kill(ranks_of(started[1])[0], signal.SIGKILL)
            start_slowly(started[1])
        said = []
        for process in started:
            try:
                said.append(process.communicate(timeout=100)[0])
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                said.append(process.communicate()[0] + " (did not end)")
        siege.is_over = True
        siege.join()
        check([process.returncode for process in started] == [0, 0], "the run among strangers: %s" % said)
        ends_of = ["step-%08d/%s.safetensors" % (STEPS, part) for part in ("model", "optimizer")]
        check(all(bytes_of("many/" + path) == bytes_of("alone/" + path) for path in ends_of), "other bits among strangers")
        check(leaks + siege.leaks == 0, "%d strangers were answered" % (leaks + siege.leaks))
        ranks = sum(n for at, n in siege.ports.items() if at != port)
        check(siege.ports.get(port, 0) > 0 and (ranks > 0 or n_random < 10**4), "challenges: %s" % siege.ports)
        lines = [line for text in said for line in text.splitlines()]
        check(all(re.search(r"a program on [0-9.]+ was refused: it knows another key|refused: there is a node with number 7|waits for node 1|"
                            r"waits until all nodes|rank \d was ended by signal 9|starting again|^  ", line) for line in lines),
              "what is said: %s" % lines)
        check(len(lines) < 40 and not any(KEY in line for line in lines), "%d lines" % len(lines))
        print("ok %d ports of the run, %d challenges, %d of ranks" % (len(siege.ports), sum(siege.ports.values()), ranks), flush=True)
    print("2 passed, %d failed" % len(failures))
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
