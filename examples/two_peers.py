"""Two peers in two processes: agree on a support, exchange values only, mix exactly, read the bill.

They share a seed and a manifest, never their states. Run it with: python examples/two_peers.py
"""

import multiprocessing
from multiprocessing.connection import Connection

import numpy as np

from zocosmo import (
    CODECS,
    VALUE_TYPES,
    Bits,
    Header,
    Ledger,
    Manifest,
    Message,
    Tape,
    draw_support,
    frame,
    unframe,
)
from zocosmo.core import FRAME_BITS, check_same_session

SEED, D, Q, ROUNDS = "a seed that both peers know", 1_000_000, 1_000, 5
F32 = VALUE_TYPES["f32"]


def private_state(node: int) -> np.ndarray:
    """What a node holds and never shows: small integers, so that halving their sums is exact in float32."""
    words = Tape(f"private to node {node}").coins("state", 0).words(D)
    return (words % np.uint64(2**20)).astype(np.float32)


def cost(codec: str) -> Bits:
    """One framed message."""
    return CODECS[codec].bits(D, Q, F32).plus(FRAME_BITS)


def peer(node: int, link: Connection, result: Connection) -> None:
    """One node: everything it learns of the other arrives through `link`."""
    tape, other = Tape(SEED), 1 - node
    manifest = Manifest(seed_commitment=tape.commitment(), d=D, q=Q, method="average", n=2, edges=((0, 1),))
    link.send_bytes(manifest.to_bytes())
    check_same_session(manifest, Manifest.from_bytes(link.recv_bytes()), peer=other)

    x, session, ledger = private_state(node), manifest.fingerprint(), Ledger([(node, other)])
    for t in range(ROUNDS):
        support = draw_support(tape, t, 0, 1, d=D, q=Q)
        mine = support.restrict(x)
        header = Header(CODECS["values"], F32, t, node, size=Q)
        data = frame(header, Message(mine), d=D, session=session)
        link.send_bytes(data)
        ledger.send(node, other, cost("values"))
        assert cost("values").total == 8 * len(data)
        _, theirs = unframe(link.recv_bytes(), d=D, session=session, expect=header._replace(sender=other))
        support.put(x, (mine + theirs.values) / 2, out=x)
    result.send_bytes(ledger.network().total.to_bytes(8, "little") + x.tobytes())


def run_peers() -> tuple[int, np.ndarray]:
    """Bits that each peer sent, and the states that the two end with."""
    spawn = multiprocessing.get_context("spawn")
    link, results = spawn.Pipe(), [spawn.Pipe(duplex=False) for _ in range(2)]
    for node in range(2):
        spawn.Process(target=peer, args=(node, link[node], results[node][1]), daemon=True).start()
        results[node][1].close()  # so that a peer that dies is an error here, not a wait
    answers = [results[node][0].recv_bytes() for node in range(2)]
    states = np.stack([np.frombuffer(answer[8:], np.float32) for answer in answers])
    return int.from_bytes(answers[0][:8], "little"), states


def main() -> None:
    sent, states = run_peers()
    before = np.stack([private_state(node) for node in range(2)])
    touched = np.unique([draw_support(Tape(SEED), t, 0, 1, d=D, q=Q).index for t in range(ROUNDS)])
    rest = np.setdiff1d(np.arange(D), touched)
    print(f"{ROUNDS} rounds of {Q:,} values, d = {D:,}: {touched.size:,} coordinates mixed, no index sent")
    print(f"  both peers hold the same bits on them     {(states[0, touched] == states[1, touched]).all()}")
    print(f"  the average is kept exactly, everywhere   {(states.sum(axis=0) == before.sum(axis=0)).all()}")
    print(f"  every other coordinate is as it was       {(states[:, rest] == before[:, rest]).all()}")
    print(f"  each peer sent {sent:,} bits; by codec, the same rounds cost")
    for name in ("values", "delta", "indexed"):
        ledger = Ledger([(0, 1), (1, 0)])
        ledger.charge(ROUNDS, cost(name))
        bits = ledger.link(0, 1)
        parts = f"{bits.values:,} values + {bits.indices:,} indices + {bits.framing:,} framing"
        print(f"    {name:8s}{bits.total:8,} = {parts}")


if __name__ == "__main__":
    main()
