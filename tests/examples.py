"""Objects that several tests look at."""

from zocosmo.core import Manifest, Tape

MANIFEST = Manifest(
    seed_commitment=Tape("shared").commitment(),
    d=100,
    q=8,
    method="edge_local",
    n=4,
    edges=((0, 1), (0, 3), (1, 2), (2, 3)),
    schedule="alternating",
    parameters={"eta": 0.1, "beta": 0.0, "coupling": "I"},
)
