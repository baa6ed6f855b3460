"""A host from start to end: it keeps the job, and writes what came of it."""

from collections.abc import Callable
from pathlib import Path

from zocosmo.net.host import Host
from zocosmo.net.hosttrace import traced_host
from zocosmo.net.invitation import Invitation
from zocosmo.net.keys import AllowList
from zocosmo.net.roll import EVENTS, clear
from zocosmo.trace import FOLDER, STUDY


def serve(
    invitation: Invitation,
    secret: bytes,
    listen: str,
    folder: Path,
    allowed: AllowList,
    say: Callable[[str], None],
    *,
    replace: bool = False,
) -> int:
    """Keep a job to its end; gives the exit code: 0 if somebody came to the last round."""
    if replace:
        clear(folder)
        (folder / FOLDER / STUDY).unlink(missing_ok=True)
    host = Host(invitation, secret, listen, folder, allowed.name_of, say)
    print(f"join with: zocosmo join {host.address} --key FILE", flush=True)
    if host.roll.term is None:
        say(f"waits for {host.seats} members")
    with traced_host(host, folder, is_secret=invitation.seeds is not None):
        finished = host.run()
    if not finished:
        say(f"{host.ended}; nobody came to round {host.plan.last}")
        return 1
    from zocosmo.net.gather import gather

    about = f"{finished} members came to round {host.plan.last}; events: {folder / EVENTS}"
    secret_seed = invitation.seeds is not None  # a log would tell it
    why = "the seed is secret" if secret_seed else gather(host.plan, host.roll.record(), folder)
    if why:
        print(f"{about}; no log here, {why}: zocosmo run CONFIG --events FILE makes one")
    else:
        print(f"{about}; log, states and ledger: {folder}")
    return 0
