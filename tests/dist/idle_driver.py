"""One process of a job that goes on without lost peers: run by `test_idle`, never by pytest.

It writes what its node did in each round to did.RANK.INCARNATION, a line at a time. At a gate, a round given
in the orders, it waits for a file gate.ROUND; `apart` gives every node a start of its own.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

from zocosmo.dist.engine import Host
from zocosmo.dist.rendezvous import join
from zocosmo.dist.run import Options, run_ranks
from zocosmo.errors import ZocosmoError
from zocosmo.experiments.plan import load_plan

ORDERS = Path(sys.argv[1])


class Diary:
    """Lines that are on disk as soon as they are written, whatever comes then."""

    def __init__(self, rank):
        self.rank, self.handle, self.partner = rank, None, None
        self.seen, self.mixes = -1, False  # the round whose draw was looked at; whether one is under way

    def write(self, **line):
        if self.handle is None:
            number = len(list(ORDERS.parent.glob(f"did.{self.rank}.*")))
            self.handle = os.open(ORDERS.parent / f"did.{self.rank}.{number}", os.O_CREAT | os.O_WRONLY)
        os.write(self.handle, json.dumps(line).encode() + b"\n")


def keep_diary(orders, rank):
    """Have the host of this process write down its rounds, and stop at gates."""
    diary, make, draw, mix, skip = Diary(rank), Host.__init__, Host.draw, Host.round, Host.skip

    def make_apart(self, run, channel, **options):
        make(self, run, channel, **options)
        if orders["apart"]:
            shifts = 1.0 + 0.1 * channel.nodes[None, :, None] / (1 + self.state.x.shape[-1])
            self.state = self.state._replace(x=self.state.x * shifts + channel.nodes[None, :, None])

    def draw_at_gates(self):
        if diary.seen == self.t:
            return draw(self)
        diary.seen = self.t
        if diary.handle is None:
            diary.write(t=self.t - 1, partner=rank, mixed=False, x=self.state.x[0, 0].tolist())
        if [rank, self.t] == orders["dies"] and not (ORDERS.parent / "died").exists():
            (ORDERS.parent / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        while self.t in orders["gates"] and not (ORDERS.parent / f"gate.{self.t}").exists():
            time.sleep(0.02)
        time.sleep(orders["pause"])
        found = draw(self)
        diary.partner = int(found.partners[0, 0])
        return found

    def note(self, act, mixed):
        t = self.t
        act(self)
        diary.write(t=t, partner=diary.partner, mixed=mixed, x=self.state.x[0, 0].tolist())

    def mix_and_note(self):
        diary.mixes = True
        try:
            note(self, mix, True)
        finally:
            diary.mixes = False

    def skip_and_note(self):
        if diary.mixes:  # the end of a round
            skip(self)
        else:
            note(self, skip, False)

    Host.__init__, Host.draw, Host.round, Host.skip = make_apart, draw_at_gates, mix_and_note, skip_and_note


def main():
    orders, job = json.loads(ORDERS.read_text(encoding="utf-8")), join(within=60.0)
    keep_diary(orders, job.rank)
    options = Options(on_lost_peer="idle", checkpoint_every=orders["every"], deadline=orders["deadline"])
    code = 0
    try:
        run_ranks(load_plan(Path(orders["config"])), job, Path(orders["out"]), options)
    except ZocosmoError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        code = 2
    os._exit(code)


if __name__ == "__main__":
    main()
