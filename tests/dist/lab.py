"""Hosts on one machine: programs that meet only over a network that can be slow, and can be cut.

Each host is a network namespace with one address. Its cable ends in a namespace that no host shares, where a
process of our own carries frames from port to port: not every kernel can delay or drop them itself. Nothing
of it is seen on the machine's own network. Linux and root only; `available()` says what is missing elsewhere.
"""

import array
import contextlib
import ctypes
import errno
import functools
import itertools
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from math import isfinite
from pathlib import Path

from zocosmo.errors import InputError, check_whole

MAX_HOSTS = 254  # what 10.77.0.0/24 has room for
MTU_FRAME = 2048  # more than any frame of a 1500-byte cable
BATCH = 64  # frames taken from one port before the next has its turn
BUFFER = 64 << 20  # bytes of a port's queue: several full TCP windows, for frames that come in bursts
RETRIES = 20
SECONDS_TO_END = 10.0

# The kernel's numbers that Python has no names for.
CLONE_NEWNET = 0x40000000
ETH_P_ALL = 3
SOL_PACKET, PACKET_STATISTICS, PACKET_IGNORE_OUTGOING = 263, 6, 23
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SIOCETHTOOL, OFFLOADS = 0x8946, (0x17, 0x1F, 0x24)  # set: checksums, TCP segments, segments of any kind

_IP = shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
_serials = itertools.count()


@functools.cache
def available() -> str | None:
    """Why hosts cannot be made here, or None where they can."""
    if not sys.platform.startswith("linux"):
        return f"hosts need Linux namespaces; this is {sys.platform}"
    if os.geteuid() != 0:
        return f"hosts need root; this is user {os.geteuid()}"
    if _IP is None:
        return "hosts need the ip command of iproute2; none is installed"
    name = f"lab-{os.getpid()}-probe"
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
        _ip("netns", "add", name)
        _ip("-n", name, "link", "add", "one", "type", "veth", "peer", "name", "two")
        _ip("netns", "exec", name, "true")
    except (OSError, RuntimeError) as refusal:
        return f"hosts need namespaces, veth pairs and raw sockets; {refusal}"
    finally:
        sweep([name])
    return None


class Hosts:
    """`count` hosts and the switch between them; leaving the block ends every program and undoes the rest.

    Hosts know each other's hardware addresses from the start, so `delay` is all that a first message waits
    for, and a cut is silence, as it is across a router, and not an early "no route to host".
    """

    def __init__(self, count: int, delay: float = 0.0) -> None:
        self.count = check_whole("a number of hosts", count, least=1, most=MAX_HOSTS)
        self.delay = check_delay(delay)
        stem = f"lab-{os.getpid()}-{next(_serials)}"
        self.names = [f"{stem}-{k}" for k in range(count)]
        self.switch_name = f"{stem}-switch"
        self.programs: list[subprocess.Popen] = []
        self._switch: subprocess.Popen | None = None

    def __enter__(self) -> "Hosts":
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, k: int, args: list[str], env: dict[str, str] | None = None, **popen) -> subprocess.Popen:
        """Start a program inside host k; `env` is added to the environment, the rest is Popen's own.

        The program's process is the one returned. It is killed, and its pipes closed, with the hosts.
        """
        inside = [_IP, "netns", "exec", self.names[self._host(k)], *args]
        program = subprocess.Popen(inside, env={**os.environ, **(env or {})}, **popen)
        self.programs.append(program)
        return program

    def address(self, k: int) -> str:
        return address(self._host(k))

    def cut(self, i: int, j: int | None = None) -> None:
        """Lose all frames between hosts i and j, those under way too; without j, between i and all others."""
        self._tell("cut", *self._pair(i, j))

    def join(self, i: int, j: int | None = None) -> None:
        """Carry frames between hosts i and j again; without j, between i and all others."""
        self._tell("join", *self._pair(i, j))

    def hide(self, k: int) -> None:
        """Put host k behind a router that translates addresses: nobody can open a TCP connection to it."""
        self._tell("hide", self._host(k))

    def set_delay(self, seconds: float) -> None:
        """Seconds that a frame takes one way, from now on: none overtakes those already under way."""
        self.delay = check_delay(seconds)
        self._tell("set_delay", self.delay)

    def missed(self) -> int:
        """Frames lost so far for want of room, not by a cut: 0 unless the machine cannot keep up."""
        return self._tell("missed")

    def close(self) -> None:
        for program in self.programs:
            end(program)
        if self._switch is not None:
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                self._switch.stdin.close()  # its word to sweep and to leave
                self._switch.wait(SECONDS_TO_END)
            end(self._switch)
        sweep([*self.names, self.switch_name])

    def _start(self) -> None:
        """The switch process first: should this one die at any point, that one clears up."""
        command = [sys.executable, "-I", __file__, self.switch_name, *self.names]
        pipe = subprocess.PIPE
        self._switch = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        _ip("-batch", "-", lines=[f"netns add {name}" for name in (*self.names, self.switch_name)])
        cables = [cable for k, name in enumerate(self.names) for cable in cable_lines(k, name)]
        _ip("-n", self.switch_name, "-batch", "-", lines=cables)
        for k, name in enumerate(self.names):
            _ip("-n", name, "-batch", "-", lines=host_lines(k, self.count))
        self._tell("open")
        self._tell("set_delay", self.delay)

    def _tell(self, *words: object) -> int:
        """One order to the switch; back when it is carried out."""
        try:
            self._switch.stdin.write(json.dumps(words) + "\n")
            self._switch.stdin.flush()
            return json.loads(self._switch.stdout.readline())
        except (AttributeError, OSError, ValueError) as cause:
            raise RuntimeError(f"no switch for {words[0]!r}; call it inside `with Hosts(…)`") from cause

    def _host(self, k: int) -> int:
        return check_whole("a host", k, most=self.count - 1)

    def _pair(self, i: int, j: int | None) -> tuple[int, int | None]:
        if i == j:
            raise InputError(f"host {i} has no link to itself; name two hosts")
        return self._host(i), None if j is None else self._host(j)


def address(k: int) -> str:
    return f"10.77.0.{k + 1}"


def hardware(k: int) -> bytes:
    return bytes([2, 0, 0, 0, 0, k + 1])  # 2: given by us, not by a maker


def check_delay(seconds: float) -> float:
    if not (isfinite(seconds) and seconds >= 0):
        raise InputError(f"a delay must be finite and 0 or more seconds, got {seconds!r}")
    return float(seconds)


def cable_lines(k: int, name: str) -> list[str]:
    """What lays the cable from the switch's port k to a host."""
    far = f"name eth0 address {hardware(k).hex(':')} netns {name}"
    return [f"link add port{k} type veth peer {far}", f"link set port{k} up"]


def host_lines(k: int, count: int) -> list[str]:
    """What a host is told of itself and of the others."""
    own = ["link set lo up", f"addr add {address(k)}/24 dev eth0", "link set eth0 up"]
    others = (j for j in range(count) if j != k)
    return own + [f"neigh add {address(j)} lladdr {hardware(j).hex(':')} dev eth0" for j in others]


def end(program: subprocess.Popen) -> None:
    program.kill()
    program.wait()
    for pipe in filter(None, (program.stdin, program.stdout, program.stderr)):
        with contextlib.suppress(OSError):  # what was never written has no reader now
            pipe.close()


def sweep(names: list[str]) -> None:
    """Kill what still runs in these namespaces and delete them; those that are gone are no error."""
    for name in filter(exists, names):
        deadline = time.monotonic() + SECONDS_TO_END
        while (running := running_in(name)) and time.monotonic() < deadline:
            for process in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.01)
        delete(name)


def delete(name: str) -> None:
    with contextlib.suppress(RuntimeError):  # another may have been first
        _ip("netns", "del", name)


def exists(name: str) -> bool:
    return Path("/run/netns", name).exists()


def running_in(name: str) -> list[int]:
    listed = subprocess.run([_IP, "netns", "pids", name], capture_output=True, text=True, check=False).stdout
    return [int(process) for process in listed.split()]


def _ip(*args: str, lines: list[str] | None = None) -> None:
    text = "".join(f"{line}\n" for line in lines or [])
    done = subprocess.run([_IP, *args], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = done.stderr.strip().replace("\n", "; ")
        raise RuntimeError(f"ip {' '.join(args)} failed: {complaint or done.returncode}")


class Switch:
    """The process between the hosts: each frame goes to its port after the delay, in the order of arrival."""

    def __init__(self, name: str, hosts: list[str]) -> None:
        self.name, self.hosts = name, hosts
        self.ports: list[socket.socket] = []
        self.place = {hardware(k): (k,) for k in range(len(hosts))}
        self.cuts: set[tuple[int, int]] = set()
        self.hidden: set[int] = set()  # hosts to which nobody can open a connection
        self.delay, self.lost = 0.0, 0
        self.wire: deque[tuple[float, int, int, bytes]] = deque()  # due, source, target, frame

    def serve(self) -> None:
        """Carry frames and obey orders until no one is left to give them."""
        while True:
            wait = max(0.0, self.wire[0][0] - time.monotonic()) if self.wire else None
            ready, _, _ = select.select([sys.stdin, *self.ports], [], [], wait)
            if sys.stdin in ready and not self.obey():
                return
            for source, port in enumerate(self.ports):
                if port in ready:
                    self.take(source, port)
            self.deliver()

    def obey(self) -> bool:
        """One order, and word that it is done; False where the pipe is closed."""
        order = os.read(sys.stdin.fileno(), 4096)  # one at a time, and smaller than a pipe's atom
        if order:
            name, *words = json.loads(order)
            print(json.dumps(getattr(self, name)(*words) or 0), flush=True)
        return bool(order)

    def open(self) -> None:
        for host in self.hosts:
            enter(host)
            send_plain_frames("eth0")
        enter(self.name)
        self.ports = [open_port(f"port{k}") for k in range(len(self.hosts))]

    def set_delay(self, seconds: float) -> None:
        self.delay = seconds

    def hide(self, k: int) -> None:
        self.hidden.add(k)

    def cut(self, i: int, j: int | None) -> None:
        self.cuts |= self.links(i, j)
        self.wire = deque(each for each in self.wire if each[1:3] not in self.cuts)

    def join(self, i: int, j: int | None) -> None:
        self.cuts -= self.links(i, j)

    def links(self, i: int, j: int | None) -> set[tuple[int, int]]:
        others = [k for k in range(len(self.hosts)) if k != i] if j is None else [j]
        return {(i, k) for k in others} | {(k, i) for k in others}

    def missed(self) -> int:
        """The kernel's count of frames that found a port's queue full, which reading sets to 0, and ours."""
        for port in self.ports:
            self.lost += struct.unpack("II", port.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1]
        return self.lost

    def take(self, source: int, port: socket.socket) -> None:
        """Put what has come to a port on the wire; what names no host (a broadcast) goes to all others."""
        everyone = range(len(self.ports))
        for _ in range(BATCH):
            try:
                frame = port.recv(MTU_FRAME, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            due = time.monotonic() + self.delay
            if self.wire:
                due = max(due, self.wire[-1][0])  # the delay may have been cut short
            for target in self.place.get(frame[:6], everyone):
                is_lost = (source, target) in self.cuts or (target in self.hidden and is_opening(frame))
                if target != source and not is_lost:
                    self.wire.append((due, source, target, frame))

    def deliver(self) -> None:
        now = time.monotonic()
        while self.wire and self.wire[0][0] <= now:
            _, _, target, frame = self.wire.popleft()
            self.lost += not sent(self.ports[target], frame)


def is_opening(frame: bytes) -> bool:
    """Whether a frame opens a TCP connection: SYN without ACK, over IPv4."""
    if frame[12:14] != b"\x08\0" or frame[23] != socket.IPPROTO_TCP:
        return False
    flags = frame[14 + 4 * (frame[14] & 15) + 13]
    return flags & 0x12 == 0x02


def enter(name: str) -> None:
    """Make a namespace this process's own; sockets opened before stay where they are."""
    with Path("/run/netns", name).open() as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter namespace {name}")


def send_plain_frames(interface: str) -> None:
    """Have whole frames of one MTU with their checksums leave an interface.

    A veth puts both off to hardware that is not there: frames that we carry would arrive with no checksum.
    """
    import fcntl  # not on every system on which `available` must answer

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for offload in OFFLOADS:
            value = array.array("I", [offload, 0])
            request = struct.pack("16sP16x", interface.encode(), value.buffer_info()[0])
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def open_port(interface: str) -> socket.socket:
    """All frames that come in at an interface, none that we send from it."""
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)  # hears nothing until it is bound
    port.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    port.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    port.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, BUFFER)
    port.bind((interface, ETH_P_ALL))
    return port


def sent(port: socket.socket, frame: bytes) -> bool:
    """Hand a frame to a host whose queue may be full for a moment."""
    for _ in range(RETRIES):
        try:
            port.send(frame)
            return True
        except OSError as refusal:
            if refusal.errno != errno.ENOBUFS:
                return False
        time.sleep(0.0005)
    return False


def main() -> None:
    """The switch, until the process that started it closes the pipe or dies; then nothing may be left."""
    name, *hosts = sys.argv[1:]
    try:
        Switch(name, hosts).serve()
    finally:
        sweep(hosts)
        delete(name)  # where this process still runs; the kernel waits for it to end


if __name__ == "__main__":
    main()
