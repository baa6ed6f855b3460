"""One process of many cases: run by `ranks.run_cases`, never by pytest.

Takes a list of cases in JSON, goes through them with its peers, each case in a corner of the store of its
own, and writes what it found to said.RANK beside the list. A case may give some ranks other entries.
"""

import dataclasses
import json
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch.distributed as c10d

from zocosmo.dist import manifests, study
from zocosmo.dist.channel import TorchChannel
from zocosmo.dist.handshake import hand_out
from zocosmo.dist.links import Links
from zocosmo.dist.rendezvous import join
from zocosmo.dist.run import Options, run_ranks
from zocosmo.experiments.config import Config
from zocosmo.experiments.plan import read_plan

made = []  # channels in order, one for each trial
published = []  # what was set in the store


class CountingChannel(TorchChannel):
    """A channel that remembers what went below it, and whether that was part of a measurement."""

    def __init__(self, *args, **options):
        self.below = {"messages": {}, "measurements": {}}
        self.kind = "messages"
        made.append(self)
        super().__init__(*args, **options)

    def _blobs(self, out, sizes):
        self.kind = "measurements"
        try:
            return super()._blobs(out, sizes)
        finally:
            self.kind = "messages"

    def report(self):
        ledger = self.ledger(self.codec)
        return {
            "crossed": [[*link, count] for link, count in self.crossed.items()],
            "messages": self.messages,
            "ledger": [
                [*link, *ledger.link(*link)] for link in self.place.graph.links if link[0] in self._at
            ],
            "below": {kind: sorted(by_peer.items()) for kind, by_peer in self.below.items()},
            "peers": self.links.peers(),
        }


class CountingGroup:
    """A process group of two that counts the bytes it is given to send."""

    def __init__(self, group, peer):
        self.group, self.peer, self.recv = group, peer, group.recv

    def send(self, tensors, place, tag):
        tally = made[-1].below[made[-1].kind]
        tally[self.peer] = tally.get(self.peer, 0) + sum(t.numel() * t.element_size() for t in tensors)
        return self.group.send(tensors, place, tag)


def count_bytes():
    """Have every group made from now on count what it sends."""
    connect = Links.connect

    def connect_and_count(self, peer):
        connect(self, peer)
        group, place = self._groups[peer]
        self._groups[peer] = CountingGroup(group, peer), place

    Links.connect = connect_and_count
    study.TorchChannel = CountingChannel


def record_store():
    """Keep a copy of all that this process sets in the store."""
    put = c10d.Store.set

    def put_and_keep(self, key, content):
        published.append(key.encode() + content if isinstance(content, bytes) else f"{key}{content}".encode())
        put(self, key, content)

    c10d.Store.set = put_and_keep


def run_case(job, case):
    case = {**case, **case.get("ranks", {}).get(str(job.rank), {})}
    job = dataclasses.replace(job, store=c10d.PrefixStore(case["name"], job.store))
    if "within" in case:
        job = dataclasses.replace(job, join_within=case["within"])
        job.store.set_timeout(timedelta(seconds=case["within"]))
    key = bytes.fromhex(case["key"]) if "key" in case else None
    manifests.source_hash = lambda: case.get("source", "0" * 64)
    if "hand_out" in case:
        return {"seeds": hand_out(job, case["hand_out"], key)}
    plan = read_plan(Config(case["config"], "case.yaml"), "case")
    options = Options(key=key, **case.get("options", {}))
    log = run_ranks(plan, job, Path(case["out"]), options)
    return {"trials": [channel.report() for channel in made], "has_log": log is not None}


def say(job, case):
    """What a case came to: its findings or its error, how long it took, and what it told the store."""
    made.clear()
    published.clear()
    began = time.monotonic()
    try:
        found = run_case(job, case)
    except Exception as error:  # the test says which may be
        found = {"error": type(error).__name__, "text": str(error), "channels": len(made)}
    return {**found, "seconds": time.monotonic() - began, "published": [each.hex() for each in published]}


def main():
    listed = Path(sys.argv[1])
    count_bytes()
    record_store()
    job = join(within=60.0)
    said = {case["name"]: say(job, case) for case in json.loads(listed.read_text(encoding="utf-8"))}
    listed.with_name(f"said.{job.rank}").write_text(json.dumps(said), encoding="utf-8")
    job.publish("end of cases", b"")  # nobody leaves while a peer still needs an answer


if __name__ == "__main__":
    main()
