"""The studies of Qwen2-7B on the ring of four with fixed matchings   [appendix:qwen_long_correlation]"""

from functools import partial

from zocosmo_paper.items.constants import LONG, SHORT
from zocosmo_paper.model import OURS, At, Every, Gap, Mean, ModelStudy, Open, Order, Same, Span

ALL, MATCHED = "all-neighbour", "matching G"
DROP = "edge_local decay=drop(at=100, by=0.1) coupling="
VALUES, INDEXED = "edge_local coupling=", "edge_local indexed coupling="
NAN = float("nan")  # not printed
SPANS = "the interval spans zero"
ring = partial(At, "ring")  # four nodes, with alternating matchings
ring_short, ring_long = partial(ring, bits=SHORT), partial(ring, bits=LONG)


def late(coupling: str, metric: str = "accuracy", step: str = DROP, rounds: int = 1540) -> At:
    """A coupling on the ring after many rounds."""
    return ring(f"{step}{coupling}", metric, round=rounds)


SCHEDULING = ModelStudy(
    "qwen-scheduling",
    "Qwen2-7B on QNLI: matching against all neighbours, same directions",
    ("appendix:qwen_long_correlation",),
    "With the correlation of queries held fixed, matching has less label NLL at equal bits.",
    (
        Mean("NLL, all neighbours", 0.6472, 0.0231, ring_short(ALL, "objective")),
        Mean("NLL, matching", 0.5902, 0.0474, ring_short(MATCHED, "objective")),
        Mean("accuracy (%), all neighbours", 60.18, 1.86, ring_short(ALL)),
        Mean("accuracy (%), matching", 64.58, 5.40, ring_short(MATCHED)),
        Order(
            "matching has less NLL than all-neighbour mixing",
            "0.0570 [0.0172, 0.1050] less",
            ring_short(MATCHED, "objective"),
            ring_short(ALL, "objective"),
        ),
        Gap(
            "accuracy (points), matching minus all neighbours",
            4.40,
            -0.01,
            9.42,
            ring_short(MATCHED),
            ring_short(ALL),
        ),
        Every(
            "accuracy and NLL after 100 rounds do not tell matching from all neighbours",
            "both intervals span zero",
            tuple(
                Open(metric, SPANS, ring(MATCHED, metric, round=100), ring(ALL, metric, round=100))
                for metric in ("accuracy", "objective")
            ),
        ),
    ),
    ("qwen_long_correlation",),
    OURS,
)
MATCHING = ModelStudy(
    "qwen-couplings",
    "Qwen2-7B on QNLI: couplings G, S and I to 1,540 rounds",
    ("fig:qwen_matching_v27", "appendix:qwen_long_correlation"),
    "With a tenfold drop of the step all couplings go on learning, S more than G; a constant step loses all.",
    (
        Mean("accuracy (%) at 1,540 rounds, G, drop", 74.07, 2.58, late("G")),
        Mean("accuracy (%) at 1,540 rounds, S, drop", 77.82, 2.80, late("S")),
        Mean("accuracy (%) at 1,540 rounds, I, drop", 75.97, 2.75, late("I")),
        Mean("NLL at 1,540 rounds, G, drop", 0.528, 0.022, late("G", "objective")),
        Mean("NLL at 1,540 rounds, S, drop", 0.501, 0.031, late("S", "objective")),
        Mean("NLL at 1,540 rounds, I, drop", 0.528, 0.028, late("I", "objective")),
        Mean("accuracy (%) at 1,540 rounds, G, constant", 50.12, 0.69, late("G", step=VALUES)),
        Mean("accuracy (%) at 1,540 rounds, S, constant", 49.72, 0.23, late("S", step=VALUES)),
        Mean("accuracy (%) at 1,540 rounds, I, constant", 50.00, 0.96, late("I", step=VALUES)),
        *(
            Mean(f"RMS disagreement at 1,540 rounds, {coupling}, drop", mean, NAN, late(coupling, "rms"))
            for coupling, mean in (("G", 0.00826), ("S", 0.00804), ("I", 0.00728))
        ),
        Every(
            "RMS disagreement at 1,540 rounds, G, S and I, constant",
            "1.65–1.71",
            tuple(Span(coupling, "1.65", "1.71", late(coupling, "rms", VALUES)) for coupling in "GSI"),
        ),
        *(
            Gap(f"accuracy (points), drop minus constant, {c}", mean, NAN, NAN, late(c), late(c, step=VALUES))
            for c, mean in (("G", 23.95), ("S", 28.10), ("I", 25.96))
        ),
        Every(
            "1,540 rounds leave less disagreement than 100: G, S and I, drop",
            "lower disagreement than at round 100",
            tuple(
                Order(
                    coupling,
                    "lower",
                    late(coupling, "disagreement"),
                    late(coupling, "disagreement", rounds=100),
                )
                for coupling in "GSI"
            ),
        ),
        Every(
            "NLL at round 100 is that of the constant step: G, S and I, drop",
            "round-100 records reproduce the reference exactly",
            tuple(
                Same(
                    coupling,
                    "exactly",
                    late(coupling, "objective", rounds=100),
                    late(coupling, "objective", step=VALUES, rounds=100),
                )
                for coupling in "GSI"
            ),
            by_construction=True,
        ),
        Gap("accuracy (points), I minus S, drop", -1.86, -5.39, 2.21, late("I"), late("S")),
        *(
            Order(f"1,540 rounds beat 100, {c}, drop", f"{paper} points", late(c), late(c, rounds=100))
            for c, paper in (
                ("G", "+9.49 [6.79, 11.84]"),
                ("S", "+12.56 [7.56, 17.08]"),
                ("I", "+12.38 [7.87, 16.89]"),
            )
        ),
        Order("S is more accurate than G, drop", "+3.75 [0.24, 6.79] points", late("S"), late("G")),
        Order(
            "S has less NLL than G, drop",
            "0.0272 [0.0090, 0.0485] less",
            late("S", "objective"),
            late("G", "objective"),
        ),
        Order(
            "I leaves less disagreement than S, drop",
            "RMS 0.00077 [0.00022, 0.00131] less",
            late("I", "disagreement"),
            late("S", "disagreement"),
        ),
    ),
    ("qwen_matching_v27",),
    OURS,
)
REENCODING = ModelStudy(
    "qwen-reencoding",
    "Qwen2-7B on QNLI: the same trajectories with values and with indices",
    ("appendix:qwen_long_correlation",),
    "At 403.702 Mbit per node values alone buy 1,540 rounds where indices buy 912, and I is more accurate.",
    (
        Mean("accuracy (%), I, indices", 73.36, 4.04, ring_long(f"{INDEXED}I")),
        Mean(
            "accuracy (%), I, values", 75.97, 2.75, ring_long(f"{VALUES}I"), again="qwen-couplings, I, drop"
        ),
        Order(
            "values alone beat indices, I",
            "+2.61 [0.23, 6.32] points",
            ring_long(f"{VALUES}I"),
            ring_long(f"{INDEXED}I"),
        ),
        *(
            Gap(
                f"accuracy (points), values minus indices, {c}",
                mean,
                low,
                high,
                ring_long(f"{VALUES}{c}"),
                ring_long(f"{INDEXED}{c}"),
            )
            for c, mean, low, high in (("G", 5.26, -0.05, 10.57), ("S", 5.11, -1.27, 12.66))
        ),
        Every(
            "NLL does not tell values from indices: G, S and I",
            "all three NLL intervals span zero",
            tuple(
                Open(
                    coupling,
                    SPANS,
                    ring_long(f"{VALUES}{coupling}", "objective"),
                    ring_long(f"{INDEXED}{coupling}", "objective"),
                )
                for coupling in "GSI"
            ),
        ),
    ),
    ("qwen_reencoding",),
    OURS,
)
