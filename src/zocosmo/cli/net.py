"""zocosmo host, join, leave, members, key: one job on machines that come and go."""

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.cli.common import add_group, app, print_json, say
from zocosmo.cli.options import (
    RUNS,
    ConfigArgument,
    JsonOption,
    OutOption,
    ReplaceOption,
    SetOption,
    argument,
    option,
)
from zocosmo.core.tape import Seed
from zocosmo.errors import InputError

if TYPE_CHECKING:
    from zocosmo.net.invitation import Invitation
    from zocosmo.net.member import Member

keys = add_group("key", "Keys of members: make one, and show its public half.")

KeyOption = Annotated[Path, option("File with your secret key (mode 600).", "--key")]
AddressArgument = Annotated[str, argument("ADDR:PORT/KEY, as zocosmo host prints it.")]


@app.command()
def host(
    config: ConfigArgument,
    listen: Annotated[str, option("ADDR:PORT to accept members on.")] = "127.0.0.1:7345",
    key: Annotated[
        Path | None, option("File with the host's secret key; made in --out if not given.")
    ] = None,
    allow: Annotated[Path | None, option("File with the public keys that may join, one a line.")] = None,
    allow_any: Annotated[bool, option("Let any key join.", "--allow-any")] = False,
    out: OutOption = None,
    set_: SetOption = None,
    seed_file: Annotated[
        Path | None, option("File with a secret seed, made by zocosmo key new, in place of the config's.")
    ] = None,
    soft: Annotated[float | None, option("Seconds to wait for a message; learned if not given.")] = None,
    lead: Annotated[int, option("Rounds by which members may be ahead of the slowest.", min=1)] = 200,
    dead_after: Annotated[
        float, option("Seconds without a heartbeat after which a member is removed.")
    ] = 20.0,
    clip: Annotated[
        float | None, option("Refuse messages that would move an entry by more; off for exactness.")
    ] = None,
    replace: ReplaceOption = False,
) -> None:
    """Keep a job that others join: its plan, who is a member, and the record of what happened.

    It begins when as many members have joined as the graph has nodes. Start it again, and the job goes on.

    \b
    Example: zocosmo example network > network.yaml && zocosmo host network.yaml --allow keys.txt
    """
    from zocosmo.net.keys import AllowList, host_key
    from zocosmo.net.serve import serve

    if (allow is None) == (not allow_any):
        raise InputError("say who may join: --allow FILE with public keys, or --allow-any")
    told = _invitation(config, set_, seed_file, soft=soft, lead=lead, dead_after=dead_after, clip=clip)
    folder = RUNS / told.name if out is None else out
    folder.mkdir(parents=True, exist_ok=True)
    secret = host_key(folder / "host.key" if key is None else key)
    code = serve(told, secret, listen, folder, AllowList(allow, say), say, replace=replace)
    raise typer.Exit(code)


def _invitation(config: Path, changes: list[str] | None, seed_file: Path | None, **how: Any) -> "Invitation":
    from zocosmo.net.invitation import Invitation
    from zocosmo.net.keys import read_seed

    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{config} cannot be read: {error}") from None
    seeds: list[Seed] | None = None if seed_file is None else [read_seed(seed_file)]
    return Invitation(config.stem, text, list(changes or ()), seeds, **how)


@app.command()
def join(
    address: AddressArgument,
    key: KeyOption,
    listen: Annotated[
        str, option("ADDR:PORT to accept other members on; 0: any port; none: only connect out.")
    ] = "0.0.0.0:0",
    problem: Annotated[
        list[str] | None, option("A setting of the problem that is yours: path=/my/data; repeat.")
    ] = None,
    out: OutOption = None,
    name: Annotated[str, option("What others call you.")] = "",
    announce: Annotated[
        str, option("ADDR or ADDR:PORT at which others reach you, if not what the host sees.")
    ] = "",
    run_code: Annotated[
        bool, option("Let the config run code by name: problems python and command.", "--run-code")
    ] = False,
) -> None:
    """Take part in a job on this machine. Ctrl-C leaves politely; a second one at once.

    \b
    Example: zocosmo join 192.0.2.7:7345/KEY --key my.key
    """
    from zocosmo.dist.seal import read_key
    from zocosmo.net.member import Member
    from zocosmo.net.sockets import parse_address

    secret, where = read_key(key), parse_address(address)
    own = [f"problem.{each}" for each in problem or ()]
    member = Member(
        where,
        secret,
        listen=None if listen == "none" else listen,
        out=out,
        own=own,
        say=say,
        name=name,
        address=announce,
        run_code=run_code,
    )
    _leave_on_interrupt(member)
    print(member.run())
    raise typer.Exit(0 if member.is_fine else 1)


def _leave_on_interrupt(member: "Member") -> None:
    """The first interrupt asks to leave, the second ends the process."""

    def leave(number: int, frame: Any) -> None:
        say("leaves at the next change of terms; again to end at once")
        member.leave()
        signal.signal(number, signal.SIG_DFL)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, leave)


@app.command()
def leave(
    folder: Annotated[Path, argument("The --out folder of the member that is to leave.")],
    member: Annotated[int | None, option("Its number, if several members of this machine are there.")] = None,
) -> None:
    """Have a member of this machine leave politely, as Ctrl-C in its terminal would.

    \b
    Example: zocosmo leave runs/network --member 3
    """
    from zocosmo.net.store import ask_to_leave

    print(f"member {ask_to_leave(folder, member)} leaves")


@app.command()
def members(address: AddressArgument, key: KeyOption, as_json: JsonOption = False) -> None:
    """List the members of a job, as its host sees them.

    \b
    Example: zocosmo members 192.0.2.7:7345/KEY --key my.key
    """
    from zocosmo.dist.seal import read_key
    from zocosmo.net.ask import ask_members
    from zocosmo.net.sockets import parse_address

    found = ask_members(parse_address(address), read_key(key))
    if as_json:
        print_json({"members": found})
        return
    for each in found:
        print(
            f"{each['id']:>4}  {each['name']:<16} round {each['round']:<8} heard {each['silent']:.1f} s ago  "
            f"{each['address']}"
        )


@keys.command("new")
def key_new(path: Annotated[Path, argument("The file to make.")]) -> None:
    """Make a key, and print its public half: give that to the host of a job.

    \b
    Example: zocosmo key new my.key
    """
    from zocosmo.net.keys import new_key

    print(new_key(path))


@keys.command("show")
def key_show(path: Annotated[Path, argument("A key file.")]) -> None:
    """Print the public half of a key.

    \b
    Example: zocosmo key new its.key && zocosmo key show its.key
    """
    from zocosmo.net.keys import public_key

    print(public_key(path))
