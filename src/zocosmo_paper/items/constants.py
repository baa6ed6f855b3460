"""Constants of the paper: costs of messages, rounds and budgets, recomputed from d, q and B.

d = 2,523,136 for LoRA is from the paper. For the full model it prints 6.53B; the public layer shapes of
Qwen2-7B without embeddings and head give d = 6,525,621,760.
"""

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from itertools import chain, product
from typing import Any, NamedTuple

from zocosmo.core.message import CODECS
from zocosmo.graphs.graph import Graph, complete, grid, ring, star
from zocosmo.theory import payload
from zocosmo_paper.claim import NO, WITHIN, Claim, constant, repeated
from zocosmo_paper.claim import check as own_check
from zocosmo_paper.item import Evidence, Findings, Item, Table

LORA, FULL, Q, B = 2_523_136, 6_525_621_760, 8192, 32
PRINTED_FULL = 6_530_000_000
PERIOD = 25  # of dense rounds, MARINA-type
OPERATORS = "tab-public-randomness-operators"


class Fact(NamedTuple):
    """A number: in words, as printed, and ours."""

    words: str
    printed: str
    value: Fraction | float
    note: str = ""
    sign: str = ""  # printed before the number, such as ≥; does not affect the verdict
    ours_only: bool = False  # a check of ours, not a value that is printed as such
    again: str = ""  # the line that counts this number, if it is printed twice

    @property
    def paper(self) -> str:
        return f"{self.sign} {self.printed}".strip()

    @property
    def ours(self) -> str:
        """Our value in the printed unit."""
        return f"{exactly(100 * self.value)}%" if self.printed.endswith("%") else exactly(self.value)

    @property
    def both(self) -> str:
        """A cell of a table in the paper's layout: paper / ours."""
        return f"{self.paper} / {self.ours}"


def check(rows: Iterable[Fact]) -> list[Claim]:
    """A verdict for each number."""
    claims = [(row, constant(row.words, row.printed, row.value, row.paper, row.note)) for row in rows]
    claims = [(row, repeated(claim, row.again) if row.again else claim) for row, claim in claims]
    return [own_check(claim) if row.ours_only else claim for row, claim in claims]


def beside(name: str, title: str, rows: Iterable[Fact]) -> Table:
    """The paper's numbers and ours, side by side."""
    return Table(name, title, ["", "paper", "ours"], [[row.words, row.paper, row.ours] for row in rows])


def exactly(value: Fraction | float) -> str:
    """A number with enough digits to tell it from a rounded one.

    >>> exactly(80_740_352), exactly(Fraction(65, 32)), exactly(341_656.5312)
    ('80,740,352', '2.03125', '341,656.5')
    """
    number = float(value)
    if number.is_integer():
        return f"{number:,.0f}"
    return f"{number:,.1f}" if number >= 1000 else f"{number:.6g}"


# tab:appendix_payload_examples

ROUNDED = "from d rounded to 2.52M; the exact dimension gives ours"
SHAPES = "from d rounded to 6.53B; the public layer shapes give ours, which is below the printed bound"


CELL = "the cell of the table"


def _payload_rows() -> dict[str, list[Fact]]:
    """By setting: the cells of the table in order, then numbers repeated in the text."""
    lora, full = payload.link_costs(LORA, Q, B), payload.link_costs(FULL, Q, B)
    rounded = payload.link_costs(PRINTED_FULL, Q, B)
    return {
        "LoRA": [
            Fact("LoRA: ZO-COSMO bits", "262.1K", lora.values),
            Fact("LoRA: entropy bound", "341.6K", lora.entropy, ROUNDED, "≥"),
            Fact("LoRA: coordinate list", "442.4K", lora.coordinate_list),
            Fact("LoRA: dense", "80.6M", lora.dense, ROUNDED),
            Fact("LoRA: first dense message, in the text", "80.740M", lora.dense),
        ],
        "full model": [
            Fact("full model: ZO-COSMO bits", "262.1K", full.values, again="the same cell of LoRA"),
            Fact("full model: entropy bound at d = 6,525,621,760", "434.6K", full.entropy, SHAPES, "≥"),
            Fact("full model: coordinate list", "532.5K", full.coordinate_list),
            Fact("full model: dense", "2.09e11", full.dense),
            Fact(
                "full model: entropy bound at d = 6.53B", "434.6K", rounded.entropy, sign="≥", ours_only=True
            ),
            Fact("full model: index bits, in the text", "270336", full.coordinate_list - full.values),
            Fact("full model: value bits, in the text", "262144", full.values, again=CELL),
        ],
    }


def find_payload(evidence: Evidence) -> Findings:
    settings, lines = _payload_rows(), []
    for (name, rows), d in zip(settings.items(), (LORA, FULL), strict=True):
        wire = [exactly(CODECS[codec].bits(d, Q).payload) for codec in ("values", "indexed", "dense")]
        lines.append([name, f"{d:,}", f"{Q:,}", *(row.both for row in rows[:4]), " / ".join(wire)])
    costs = ["ZO-COSMO", "entropy bound", "coordinate list", "dense"]
    layout = Table(
        "tab-appendix-payload-examples",
        "Bits of a message on a directed link, paper / ours",
        ["setting", "d", "q", *costs, "our codecs charge"],
        lines,
        "Ours are closed forms; codecs charge for values / coordinates and values / all values.",
    )
    text = [row for rows in settings.values() for row in rows[4:]]
    tables = [layout, beside("payload-text", "The same in the text", text)]
    return Findings(check(chain(*settings.values())), tables)


# tab:appendix_index_share

SHARES = {  # by bits of a value
    "LoRA": (LORA, "22", {32: "40.7%", 16: "57.9%", 8: "73.3%", 1: "95.7%"}),
    "full model": (FULL, "33", {32: "50.8%", 16: "67.3%", 8: "80.5%", 1: "97.1%"}),
}


def find_shares(evidence: Evidence) -> Findings:
    rows, lines = [], []
    for name, (d, bits, shares) in SHARES.items():
        rows.append(Fact(f"{name}: ⌈log₂ d⌉", bits, payload.index_bits(d)))
        for width, printed in shares.items():
            words = f"{name}: index share, values of {width} bit" + ("s" if width > 1 else "")
            rows.append(Fact(words, printed, payload.index_share(d, width)))
        lines.append([name, f"{d:,}", *(row.both for row in rows[-1 - len(shares) :])])
    columns = ["setting", "d", "⌈log₂ d⌉", *(f"B = {width}" for width in SHARES["LoRA"][2])]
    title = "Share of an indexed message that is indices, paper / ours"
    return Findings(check(rows), [Table("tab-appendix-index-share", title, columns, lines)])


# tab:appendix_round_multipliers, reuse of a list, totals of MARINA-type

MULTIPLIERS = {"LoRA": (LORA, "1.69", "13.94"), "full model": (FULL, "2.03", "3.19e4")}


SAME = "the multiplier of a LoRA round"


def _multiplier_rows(name: str) -> list[Fact]:
    d, indexed, marina = MULTIPLIERS[name]
    ours = payload.marina_multiplier(d, Q, K=PERIOD, B=B)
    return [
        Fact(f"{name}: indexed multiplier", indexed, payload.reuse_multiplier(d, K=1, B=B)),
        Fact(f"{name}: MARINA-type multiplier, K = {PERIOD}", marina, ours),
    ]


def _total_rows() -> list[Fact]:
    """Mbit on a link after 100 rounds   [tab:qwen_two_worker_lora]"""
    T, costs = 100, payload.link_costs(LORA, Q, B)
    values, indexed = T * costs.values, T * costs.coordinate_list
    marina = payload.marina_total(LORA, Q, K=PERIOD, T=T, B=B)
    return [
        Fact("100 LoRA rounds: ZO-COSMO", "26.2M", values, again="the short LoRA budget"),
        Fact("100 LoRA rounds: indexed Rand-k", "44.2M", indexed),
        Fact("100 LoRA rounds: MARINA-type", "365.4M", marina),
        Fact("100 LoRA rounds: indexed, relative", "1.69", Fraction(indexed, values), again=SAME),
        Fact("100 LoRA rounds: MARINA-type, relative", "13.94", Fraction(marina, values), again=SAME),
        Fact("100 LoRA rounds: dense, relative", "308", Fraction(costs.dense, costs.values), again="d/q"),
    ]


def find_multipliers(evidence: Evidence) -> Findings:
    settings = {name: _multiplier_rows(name) for name in MULTIPLIERS}
    totals, reuse = _total_rows(), []
    for K, printed in ((1, "2.03"), (10, "1.10"), (50, "1.02")):
        words = f"full model: one coordinate list, K = {K}"
        again = "the indexed multiplier of the full model" if K == 1 else ""
        reuse.append(Fact(words, printed, payload.reuse_multiplier(FULL, K=K, B=B), again=again))
    layout = Table(
        "tab-appendix-round-multipliers",
        "Cost of a round relative to values alone, paper / ours",
        ["setting", "d", "q", "indexed", f"MARINA-type, K = {PERIOD}"],
        [
            [name, f"{MULTIPLIERS[name][0]:,}", f"{Q:,}", *(row.both for row in rows)]
            for name, rows in settings.items()
        ],
    )
    tables = [
        layout,
        beside("list-reuse", "One coordinate list for K rounds, relative to values alone", reuse),
        beside("marina-totals", "Bits on a link after 100 LoRA rounds", totals),
    ]
    return Findings(check(chain(*settings.values(), reuse, totals)), tables)


# Rounds that a budget pays

SHORT, LONG = 100 * Q * B, 1540 * Q * B  # printed as 26.214M and 403.702M
NETWORKS = (  # protocol, graph, and the rounds that the short budget pays
    ("global", "complete graph of 4", complete(4), "33"),
    ("global", "complete graph of 8", complete(8), "14"),
    ("global", "ring of 4", ring(4), "50"),
    ("global", "ring of 8", ring(8), "50"),
    ("edge_local", "ring of 8", ring(8), "100"),
)


def _budget_rows() -> list[Fact]:
    costs, paid = payload.link_costs(LORA, Q, B), payload.affordable_rounds
    indexed = paid(SHORT, costs.coordinate_list)
    spent = indexed * costs.coordinate_list
    marina = payload.marina_rounds(LORA, Q, K=PERIOD, budget=SHORT, B=B)
    rows = [
        Fact("short LoRA budget", "26.214M", SHORT),
        Fact("26.214 Mbit: rounds of values", "100", paid(SHORT, costs.values)),
        Fact("26.214 Mbit: rounds with indices", "59", indexed),
        Fact("26.214 Mbit: spent by 59 indexed rounds", "26.100M", spent),
        Fact("26.214 Mbit: share left unused by them", "0.44%", Fraction(SHORT - spent, SHORT)),
        Fact("26.214 Mbit: rounds of MARINA-type", "0", marina, "its first dense message costs more"),
    ]
    for protocol, where, graph, printed in NETWORKS:
        bits = payload.operators(graph.n, graph.edges, Q, B=B)[protocol].bits
        words = f"26.214 Mbit per node: {protocol.replace('_', '-')} rounds, {where}"
        rows.append(Fact(words, printed, paid(SHORT, bits)))
    return [
        *rows,
        Fact("long LoRA budget", "403.702M", LONG),
        Fact("403.702 Mbit: rounds of values", "1540", paid(LONG, costs.values)),
        Fact("403.702 Mbit: rounds with indices", "912", paid(LONG, costs.coordinate_list)),
    ]


# The shared seed, spread over rounds   [eq:seed_numeric_example]

TEXT = "the index bits of `payload`"
MOST_ROUNDS = 10_000  # the bound is checked at every horizon up to this


def _seed_rows() -> list[Fact]:
    horizons = range(1, MOST_ROUNDS + 1)
    counter = max(Fraction(payload.sync_bits(T), T) for T in horizons)
    above = max(payload.seed_cost(Q, T=T, B=B) - Q * B - Fraction(128, T) for T in horizons)
    full = payload.link_costs(FULL, Q, B)
    return [
        Fact(f"most counter bits a round, T up to {MOST_ROUNDS:,}", "0.32", counter, ours_only=True),
        Fact(f"most bits a round above 128/T, T up to {MOST_ROUNDS:,}", "0.32", above, sign="≤"),
        Fact("full model: value bits a round", "262144", full.values, again=CELL),
        Fact("full model: index bits a round", "270336", full.coordinate_list - full.values, again=TEXT),
    ]


def listed(name: str, title: str, rows: Callable[[], list[Fact]]) -> Callable[[Evidence], Findings]:
    """The `find` of an item that is one list of constants."""

    def find(evidence: Evidence) -> Findings:
        found = rows()
        return Findings(check(found), [beside(name, title, found)])

    return find


# tab:public_randomness_operators


GRAPHS: dict[str, Graph] = {
    "ring n=8": ring(8),
    "ring n=64": ring(64),
    "complete": complete(8),
    "grid": grid(16),
    "star": star(9),
}
PROTOCOLS = {
    "global support": ("global", "neighbours", "δ̄qB", "1"),
    "edge-local support": ("edge_local", "matched peer", "qB", "1"),
    "seed–scalar flood": ("flooding", "every node", "(N − 1)b", "D_G"),
}
PERFECT = ("ring n=8", "ring n=64", "complete")  # graphs whose matchings are perfect
SLICE = 16  # coordinates per message in the short runs


def find_operators(evidence: Evidence) -> Findings:
    """The formulas of the table against the ledger of short runs, exactly."""
    log = evidence.logs[OPERATORS]
    claims: list[Claim] = []
    lines = []
    for (label, graph), (method, words) in product(GRAPHS.items(), PROTOCOLS.items()):
        protocol, destination, bits_words, stages_words = words
        formula = payload.operators(graph.n, graph.edges, SLICE)[protocol]
        run = log[(log["graph"] == label) & (log["method"] == method)].iloc[-1]
        bits, stages = billed(run), Fraction(int(run["stages"]), int(run["round"]))
        name = label.split(" ")[0]
        where, of_bits = f"{name} of {graph.n}: {method}", f"{bits_words} = {exactly(formula.bits)}"
        of_stages = f"{stages_words} = {formula.stages}" if stages_words == "D_G" else stages_words
        if protocol != "edge_local" or label in PERFECT:
            claims.append(equal(f"{where}, bits per node and round", of_bits, formula.bits, bits))
        claims.append(equal(f"{where}, link stages", of_stages, Fraction(formula.stages), stages))
        counted = [of_bits, exactly(bits), of_stages, exactly(stages)]
        lines.append([f"{name}, N = {graph.n}", method, destination, *counted])
    columns = ["graph", "protocol", "to", "bits per node and round", "billed", "link stages", "counted"]
    notes = (
        f"q = {SLICE}, B = 32, b = 96. qB is for perfect matchings; on the grid and the star some nodes "
        "idle, and edge-local costs less."
    )
    title = "Payload and link stages of public-randomness protocols"
    return Findings(claims, [Table(OPERATORS, title, columns, lines, notes)])


def billed(run: Any) -> Fraction:
    """Payload bits per node and round of a run, exactly; without frames, as in the paper."""
    bits = sum(int(run[kind]) for kind in ("value_bits", "index_bits", "control_bits"))
    return Fraction(bits, int(run["n"]) * int(run["round"]))


def equal(words: str, formula: str, expected: Fraction, found: Fraction) -> Claim:
    """A formula of the paper against a count, which must be equal without rounding."""
    return own_check(Claim(words, formula, float(found), WITHIN if expected == found else NO))


DIMENSION = {
    "dimension of the full model": "6,525,621,760, from the public layer shapes; the paper prints 6.53B only"
}
ITEMS: Sequence[Item] = [
    Item(
        "payload",
        "Representative payloads",
        ("tab:appendix_payload_examples",),
        "Values alone cost 262.1K bits a message at either size; a private support costs at least 341.6K and "
        "434.6K, a coordinate list 442.4K and 532.5K, a dense message far more.",
        find_payload,
        ours=DIMENSION,
    ),
    Item(
        "index-share",
        "Share of indices in indexed messages",
        ("tab:appendix_index_share",),
        "Indices are 40.7 to 97.1 % of an indexed message, more the fewer bits a value has.",
        find_shares,
        ours=DIMENSION,
    ),
    Item(
        "round-multipliers",
        "Cost of a round against values alone",
        ("tab:appendix_round_multipliers", "eq:periodic_adaptive_multiplier", "tab:qwen_two_worker_lora"),
        "Indices cost 1.69 or 2.03 times as much, dense rounds now and then 13.94 or 3.19e4 times; a "
        "list that serves 10 or 50 rounds costs 1.10 or 1.02 times as much.",
        find_multipliers,
        ours=DIMENSION,
    ),
    Item(
        "budget-rounds",
        "Rounds that a LoRA budget pays",
        ("eq:budget_T_cosmo", "eq:budget_T_indexed", "appendix:experimental_details", "fig:qwen_edge_local"),
        "26.214 Mbit pay 100 rounds of values, 59 with indices, no dense one; 403.702 Mbit pay 1540 and 912.",
        listed("budget-rounds", "Rounds that a budget pays at d = 2,523,136 and q = 8192", _budget_rows),
    ),
    Item(
        "seed-cost",
        "Cost of the shared seed, spread over rounds",
        ("eq:seed_amortized_cost", "eq:seed_numeric_example"),
        "A 128-bit seed and a 32-bit counter every 100 rounds cost at most 128/T + 0.32 bits a round.",
        listed("seed-cost", "Seed and counter, bits a round", _seed_rows),
        ours=DIMENSION,
    ),
    Item(
        "public-randomness",
        "Payload and stages of public-randomness protocols",
        ("tab:public_randomness_operators",),
        "A node sends δ̄qB bits a round with a global support and qB edge-locally, in one link stage; a flood "
        "takes (N − 1)b bits and as many stages as the graph is wide.",
        find_operators,
        (OPERATORS,),
        {
            "graphs": "rings of 8 and 64, complete of 8, a grid of 16, a star of 9; 20 rounds, q = 16",
            "flood": "charged at its lower bound: each message over the N − 1 edges of a spanning tree",
        },
    ),
]
