"""Rendezvous: how processes find each other, through torch's store. Nothing here opens its own server."""

import hashlib
import os
import secrets
import socket
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from zocosmo.dist.job import JOIN as JOIN
from zocosmo.dist.job import NOTICE as NOTICE
from zocosmo.dist.job import Job as Job
from zocosmo.dist.lifeline import hold_on
from zocosmo.dist.torched import c10d
from zocosmo.errors import InputError, PeerLost

LOCAL = ("localhost", "127.0.0.1", "::1")
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
POLL = 0.01  # seconds between polls of the store


def join(*, listen: str | None = None, within: float = JOIN) -> Job:
    """Join the other processes that `torchrun`, `zocosmo launch` or you started.

    Connections use `listen`, an address of this machine. The default is 127.0.0.1, which requires all
    processes to be on this machine.
    """
    env = os.environ
    hold_on()
    if missing := [name for name in NEEDED if name not in env]:
        raise InputError(
            f"{', '.join(missing)} are not set: start this with torchrun or zocosmo launch, or set "
            "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process"
        )
    _check_numbers(env)
    address = listen or env.get("ZOCOSMO_LISTEN") or _local_address(env)
    check_address(address)
    timeout = timedelta(seconds=within)
    hosts = env["RANK"] == "0" and env.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    if not hosts:
        _await_store(env["MASTER_ADDR"], int(env["MASTER_PORT"]), within)
    try:
        store, rank, world = next(iter(c10d.rendezvous("env://", timeout=timeout)))
    except (RuntimeError, ValueError) as error:
        where, why = f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}", str(error).splitlines()[0][:160]
        raise PeerLost(
            f"no store at {where} within {within:g} s: the port is taken, or processes are missing ({why})"
        ) from error
    attempt = int(env.get("TORCHELASTIC_RESTART_COUNT", "0"))
    room = str(attempt)
    store.set_timeout(timeout)
    if "TORCHELASTIC_RUN_ID" in env:  # torchrun: agents count restarts separately; one store serves all
        room = _room(c10d.PrefixStore("zocosmo rooms", store), rank, world, within)
        attempt = max(attempt, int(room.partition(".")[0]))
    store = c10d.PrefixStore(f"zocosmo/{room}", store)
    return Job(store, rank, world, attempt, address, within, hosts)


def _check_numbers(env: Mapping[str, str]) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"):
        if not env[name].isdecimal():
            raise InputError(f"{name} must be a whole number, got {env[name]!r}")
    if int(env["RANK"]) >= int(env["WORLD_SIZE"]):
        raise InputError(f"RANK {env['RANK']} must be below WORLD_SIZE {env['WORLD_SIZE']}; ranks start at 0")


def _await_store(host: str, port: int, within: float) -> None:
    """Wait until the port accepts connections; torch would wait too, but print long warnings."""
    since = time.monotonic()
    while True:
        try:
            socket.create_connection((host, port), timeout=max(0.1, within)).close()
            return
        except OSError as error:
            if time.monotonic() - since > within:
                raise PeerLost(
                    f"no store answers at {host}:{port} within {within:g} s ({error.strerror or error}); "
                    "start rank 0, or check its log"
                ) from None
        time.sleep(0.1)


def _room(store: Any, rank: int, world: int, within: float) -> str:
    """A namespace in the store for this start only, named by the number of earlier starts.

    The store also holds keys of earlier starts. So each process publishes a new token; rank 0 invites the
    tokens it finds, all answer, and rank 0 opens the room once it has all answers.
    """
    mine, since, sent = secrets.token_hex(8), time.monotonic(), ""
    store.set(f"hello/{rank}", mine)
    number = int(store.add("starts", 1)) - 1 if rank == 0 else 0
    while time.monotonic() - since < within:
        if rank == 0 and store.check([f"hello/{k}" for k in range(world)]):
            tokens = [store.get(f"hello/{k}").decode() for k in range(world)]
            invited = f"{number}.{'.'.join(tokens)}"
            if invited != sent:
                store.set("invited", sent := invited)
        invited = store.get("invited").decode() if store.check(["invited"]) else ""
        if mine in invited.split(".")[1:]:
            name = hashlib.blake2b(invited.encode(), digest_size=8).hexdigest()
            store.set(f"{name}/{rank}", "")
            if rank == 0 and store.check([f"{name}/{k}" for k in range(world)]):
                store.set(f"{name}/open", "")
            if store.check([f"{name}/open"]):
                return f"{invited.partition('.')[0]}.{name}"
        time.sleep(POLL)
    raise PeerLost(f"not all of {world} processes joined within {within:g} s; check their logs")


def is_launched() -> bool:
    """Whether this process was started as one of several."""
    return all(name in os.environ for name in NEEDED)


def check_address(address: str) -> None:
    """Raise an error unless this is an address of this machine."""
    try:
        family, kind, *_, place = socket.getaddrinfo(address, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(place)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{address!r} is not an address of this machine ({reason}); give another") from None


def _local_address(env: Mapping[str, str]) -> str:
    everyone_here = env.get("LOCAL_WORLD_SIZE") == env["WORLD_SIZE"] or env["MASTER_ADDR"] in LOCAL
    if not everyone_here:
        raise InputError(
            f"processes on several machines (store at {env['MASTER_ADDR']}): set this machine's address "
            "with --listen ADDRESS or ZOCOSMO_LISTEN"
        )
    return "127.0.0.1"
