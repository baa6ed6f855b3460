"""zocosmo churn: events drawn at random, for `zocosmo run CONFIG --events FILE`."""

from collections import Counter
from pathlib import Path
from typing import Annotated

from zocosmo.cli.common import app
from zocosmo.cli.options import ConfigArgument, SeedsOption, SetOption, as_seeds, option


@app.command("churn")
def churn_command(
    config: ConfigArgument,
    out: Annotated[Path, option("The file of events to write.")],
    term: Annotated[int, option("Rounds of a term.")] = 50,
    churn: Annotated[float, option("Share of the members that go, and join, with each term.")] = 0.01,
    dying: Annotated[float, option("Share of those who go that die without a word.")] = 0.5,
    late: Annotated[float, option("Probability that a node misses the soft deadline of a round.")] = 0.01,
    tail: Annotated[float, option("Exponent of the tail of delays; smaller is heavier.")] = 1.5,
    half: Annotated[float, option("Share of failed exchanges that fail at one end only.")] = 0.1,
    draw: Annotated[int, option("Seed of the events.")] = 0,
    seeds: SeedsOption = "",
    set_: SetOption = None,
) -> None:
    """Draw events for a config: members that join, leave and die, and exchanges that fail.

    \b
    Example: zocosmo example network > network.yaml && zocosmo churn network.yaml --out events.jsonl
    """
    from zocosmo.experiments.events import random_record
    from zocosmo.experiments.plan import load_plan
    from zocosmo.terms.churn import Churn
    from zocosmo.terms.events import write_events

    plan = load_plan(config, as_seeds(seeds), set_)
    record = random_record(plan, Churn(term, churn, dying, late, tail, half), draw)
    write_events(out, record)
    counts = Counter(event.event for event in record.events)
    print(f"{out}: " + ", ".join(f"{count:,} {name}" for name, count in counts.items()))
