"""The studies of Qwen2-7B: what is printed, and where the logs of configs/model have it."""

from functools import partial

from zocosmo_paper.item import Item
from zocosmo_paper.items.constants import SHORT
from zocosmo_paper.items.long_models import MATCHING, REENCODING, SCHEDULING, SPANS
from zocosmo_paper.model import OURS, At, Every, Gap, Mean, ModelStudy, Open, Order, Same

COSMO, EXPLICIT, AWARE = "ZO-COSMO", "explicit-index Rand-k", "seed-aware Rand-k"
DENSE = "dense ZO-DSGD"
RAND, MARINA, FIRST = "indexed Rand-k", "ZO-MARINA-type", "matched first step"
NAN = float("nan")  # not printed
two = partial(At, "complete")  # two nodes
ring = partial(At, "ring")
short = partial(two, bits=SHORT)

DIAGNOSTICS = ModelStudy(
    "qwen-diagnostics",
    "Qwen2-7B on QNLI at 26.214 Mbit: values, indices, seeds",
    ("tab:qwen_diagnostics", "tab:qwen_qnli_equal_rounds", "fig:qwen_two_worker_qnli"),
    "At equal bits, values alone buy 100 rounds where explicit indices buy 59, and are more accurate.",
    (
        Mean("accuracy (%) at the budget, explicit indices", 61.75, 3.41, short(EXPLICIT), 10),
        Mean("accuracy (%) at the budget, seed-aware Rand-k", 66.48, 7.36, short(AWARE), 10),
        Mean("accuracy (%) at the budget, ZO-COSMO", 65.40, 3.57, short(COSMO), 10),
        Mean("query loss at 100 rounds, Rand-k", 6.700, 0.178, two(EXPLICIT, "local", round=100), 10),
        Mean("query loss at 100 rounds, ZO-COSMO", 6.609, 0.190, two(COSMO, "local", round=100), 10),
        Order(
            "values alone beat explicit indices", "+3.65 [0.49, 6.86] points", short(COSMO), short(EXPLICIT)
        ),
        Order(
            "ZO-COSMO has less query loss than explicit-index Rand-k",
            "0.182 [0.093, 0.273] less",
            short(COSMO, "local"),
            short(EXPLICIT, "local"),
        ),
        Gap(
            "accuracy (points), ZO-COSMO minus seed-aware Rand-k",
            -1.08,
            -5.85,
            3.67,
            short(COSMO),
            short(AWARE),
        ),
        Mean(
            "accuracy (%) before training, where ZO-MARINA-type stays",
            60.79,
            NAN,
            two(COSMO, round=0),
            10,
            "qwen-task-screen, QNLI",
        ),
        Same("both encodings of Rand-k are one trajectory", "identical", two(EXPLICIT), two(AWARE)),
        Order(
            "ZO-COSMO has less query loss than seed-aware Rand-k",
            "0.091 [0.006, 0.175] less",
            short(COSMO, "local"),
            short(AWARE, "local"),
        ),
    ),
    ("qwen_diagnostics",),
    OURS,
)
MOMENTUM = ModelStudy(
    "qwen-momentum",
    "Qwen2-7B on QNLI: momentum and the first step",
    ("tab:qwen_qnli_momentum_ablation",),
    "Momentum is more accurate than none at the same first step; at the same nominal step none is lost.",
    (
        Mean("accuracy (%), β = 0, same nominal step", 50.40, 0.61, two("same nominal step"), 10),
        Mean("accuracy (%), β = 0, same first step", 61.48, 3.31, two(FIRST), 10),
        Mean("accuracy (%), β = 0.9", 65.40, 3.57, two(COSMO), 10, "qwen-diagnostics, ZO-COSMO"),
        Order(
            "momentum beats none at the same first step", "+3.92 [1.67, 6.08] points", two(COSMO), two(FIRST)
        ),
    ),
    ("qwen_qnli_momentum_ablation",),
    OURS,
)
LORA = ModelStudy(
    "qwen-sst2",
    "Qwen2-7B on SST-2: two nodes, 100 rounds",
    ("tab:qwen_two_worker_lora", "fig:qwen_two_worker_sst2"),
    "All methods stay near the model's ceiling; ZO-COSMO does so with the fewest bits.",
    (
        Mean("accuracy (%) at 100 rounds, ZO-COSMO", 94.13, 0.42, two(COSMO)),
        Mean("accuracy (%) at 100 rounds, indexed Rand-k", 94.15, 0.63, two(RAND)),
        Mean("accuracy (%) at 100 rounds, ZO-MARINA-type", 94.84, 0.24, two(MARINA)),
        Mean("query loss of rounds 51 to 100, ZO-COSMO", 0.741, 0.165, two(COSMO, "local")),
        Mean("query loss of rounds 51 to 100, indexed Rand-k", 0.725, 0.060, two(RAND, "local")),
        Mean("query loss of rounds 51 to 100, ZO-MARINA-type", 0.976, 0.301, two(MARINA, "local")),
        Mean("accuracy (%) at 26.214 Mbit, indexed Rand-k", 94.56, 0.75, short(RAND)),
        Mean("query loss at 26.214 Mbit, indexed Rand-k", 0.843, 0.065, short(RAND, "local")),
        Mean("largest difference between the two replicas, ZO-COSMO", 0.0, NAN, two(COSMO, "disagreement")),
        Mean("largest difference between the two replicas, Rand-k", 0.0, NAN, two(RAND, "disagreement")),
        Order(
            "ZO-COSMO has less query loss than indexed Rand-k at 26.214 Mbit",
            "0.741 ± 0.165 against 0.843 ± 0.065",
            short(COSMO, "local"),
            short(RAND, "local"),
        ),
    ),
    ("qwen_two_worker_lora",),
    {**OURS, "step of the dense baseline": "that of ZO-COSMO"},
)
RESTORED = ModelStudy(
    "qwen-training-loss",
    "Qwen2-7B on SST-2: training losses of a figure whose setting is not printed",
    ("fig:qwen_training_restored",),
    "ZO-COSMO reaches a loss of 2.12 where dense ZO-DSGD reaches 11.46, with 308 times less payload.",
    (
        Mean("training loss reached, ZO-COSMO", 2.12, NAN, two(COSMO, "local"), 1),
        Mean("training loss reached, dense ZO-DSGD", 11.46, NAN, two(DENSE, "local"), 1),
        Order(
            "ZO-COSMO reaches less training loss than dense ZO-DSGD",
            "2.12 against 11.46",
            two(COSMO, "local"),
            two(DENSE, "local"),
        ),
    ),
    unsaid="nodes, rounds, step and seeds of this figure are not printed; the table beside it ends at 0.741",
)
TOPOLOGY = ModelStudy(
    "qwen-topology",
    "Qwen2-7B on QNLI: 2, 4 and 8 nodes, complete graphs and rings",
    ("fig:qwen_multi_agent",),
    "More passes of mixing leave less disagreement; accuracy does not always gain.",
    (
        Mean("accuracy (%), complete graph of 2", 66.96, 3.57, At("complete n=2", "cosmo")),
        Mean("accuracy (%), complete graph of 4", 66.66, 5.31, At("complete n=4", "cosmo")),
        Mean("accuracy (%), complete graph of 8", 63.92, 1.93, At("complete n=8", "cosmo")),
        Mean("accuracy (%), ring of 4", 62.10, 4.58, At("ring n=4", "cosmo")),
        Mean("accuracy (%), ring of 8", 62.54, 1.85, At("ring n=8", "cosmo")),
        Mean("accuracy (%), ring of 4, two passes", 61.19, 1.93, ring("cosmo", config=1)),
        Mean("accuracy (%), ring of 8, four passes", 62.97, 2.33, ring("cosmo", config=2)),
        Mean("RMS disagreement, ring of 4", 0.00595, 0.00018, At("ring n=4", "cosmo", "rms")),
        Mean("RMS disagreement, ring of 8", 0.01043, 0.00076, At("ring n=8", "cosmo", "rms")),
        Mean("RMS, ring of 4, two passes", 0.00192, 0.00005, ring("cosmo", "rms", config=1)),
        Mean("RMS, ring of 8, four passes", 0.00446, 0.00028, ring("cosmo", "rms", config=2)),
        *(
            Order(
                f"{passes} passes leave less disagreement than one on the ring of {n}",
                paper,
                ring("cosmo", "disagreement", config=config),
                At(f"ring n={n}", "cosmo", "disagreement"),
            )
            for config, n, passes, paper in (
                (1, 4, "two", "RMS 0.00192 against 0.00595"),
                (2, 8, "four", "RMS 0.00446 against 0.01043"),
            )
        ),
    ),
    ("qwen_multi_agent", "qwen_multi_agent_ring4", "qwen_multi_agent_ring8"),
    {**OURS, "disagreement": "over all coordinates, where the paper samples 2,048"},
)
EDGE_LOCAL = ModelStudy(
    "qwen-edge-local",
    "Qwen2-7B on QNLI: edge-local against global support at 26.214 Mbit per node",
    ("fig:qwen_edge_local",),
    "Matching buys 100 rounds where mixing with all neighbours buys 14 to 50, and is more accurate.",
    (
        *(
            Mean(f"accuracy (%), {graph} of 8, {method}", mean, std, At(f"{graph} n=8", method, bits=SHORT))
            for graph, method, mean, std in (
                ("complete", "global", 61.44, 0.24),
                ("complete", "edge-local with indices", 62.16, 1.19),
                ("complete", "edge-local", 64.85, 3.03),
                ("ring", "global", 61.09, 0.63),
                ("ring", "edge-local with indices", 61.88, 0.83),
                ("ring", "edge-local", 63.62, 0.85),
            )
        ),
        *(
            Order(
                f"edge-local beats global support: {metric}, {graph}",
                paper,
                At(graph, "edge-local", metric, SHORT),
                At(graph, "global", metric, SHORT),
            )
            for graph, metric, paper in (
                ("complete n=8", "accuracy", "+3.42 [1.06, 5.63] points"),
                ("ring n=8", "accuracy", "+2.53 [1.87, 3.07] points"),
                ("ring n=4", "accuracy", "+3.40 [0.31, 6.49] points"),
                ("complete n=8", "objective", "NLL 0.0366 [0.0030, 0.0649] less"),
                ("ring n=8", "objective", "NLL 0.0291 [0.0238, 0.0343] less"),
            )
        ),
        Gap(  # of the other three graphs there are orderings above
            "accuracy (points), edge-local minus global support, complete n=4",
            1.05,
            -2.00,
            4.10,
            At("complete n=4", "edge-local", bits=SHORT),
            At("complete n=4", "global", bits=SHORT),
        ),
        Gap(
            "accuracy (points) after 100 rounds, edge-local minus global support, ring n=8",
            1.08,
            0.07,
            2.07,
            At("ring n=8", "edge-local", round=100),
            At("ring n=8", "global", round=100),
        ),
        *(
            Every(
                f"{metric} after 100 rounds does not tell edge-local from global support, {count} graphs",
                paper,
                tuple(
                    Open(
                        graph,
                        SPANS,
                        At(graph, "edge-local", metric, round=100),
                        At(graph, "global", metric, round=100),
                    )
                    for graph in graphs
                ),
            )
            for metric, count, paper, graphs in (
                (
                    "accuracy",
                    "three",
                    "intervals span zero in three settings",
                    ("complete n=4", "complete n=8", "ring n=4"),
                ),
                (
                    "objective",
                    "four",
                    "all four NLL intervals span zero",
                    ("complete n=4", "complete n=8", "ring n=4", "ring n=8"),
                ),
            )
        ),
    ),
    ("qwen_edge_local",),
    OURS,
)
FULL = ModelStudy(
    "qwen-full-model",
    "Qwen2-7B on SST-2: 6.5 billion weights, one node",
    ("tab:qwen_indexed_sparse", "fig:qwen_stable"),
    "200 sparse rounds over all weights but embeddings and head keep, and slightly raise, the accuracy.",
    (
        Mean("accuracy (%) after 200 rounds", 95.03, 0.13, two("cosmo", round=200), 3),
        Mean("accuracy (%) before training", 94.84, NAN, two("cosmo", round=0), 3),
        Mean("accuracy (%) after 20 rounds of a large step", 51.95, NAN, two("large step", round=20), 1),
        Order("200 rounds beat none", "94.84 → 95.03 ± 0.13", two("cosmo", round=200), two("cosmo", round=0)),
    ),
    ("qwen_indexed_sparse",),
    {**OURS, "the row of a large step": "left out: the paper does not say how large"},
)
SCREEN = ModelStudy(
    "qwen-task-screen",
    "Qwen2-7B: the choice of the task",
    ("tab:qwen_task_selection",),
    "Of four tasks the rule selects QNLI: the most validation rows among those between 55 and 90 %.",
    tuple(
        Mean(f"accuracy (%) before training, {task}", mean, float("nan"), At("", task), 1)
        for task, mean in (("QNLI", 60.79), ("BoolQ", 81.01), ("MRPC", 69.12), ("RTE", 78.34))
    ),
    command="zocosmo screen --model NAME",
)
AUDIT = ModelStudy(
    "qwen-placement",
    "Qwen2-7B: the placement audit",
    ("appendix:experimental_details",),
    "Trajectories agree exactly on one copy of the backbone and on two, repeated, and measured in between.",
    (Order("all query values, states and measures are equal", "exactly", At("", ""), At("", "")),),
    command="zocosmo audit configs/model/placement_audit.yaml --set problem.model=NAME",
)

STUDIES = (
    SCREEN,
    DIAGNOSTICS,
    MOMENTUM,
    LORA,
    RESTORED,
    TOPOLOGY,
    EDGE_LOCAL,
    FULL,
    SCHEDULING,
    MATCHING,
    REENCODING,
)
ITEMS: list[Item] = [study.item() for study in (*STUDIES, AUDIT)]
