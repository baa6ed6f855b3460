"""zocosmo payload: what one message costs."""

from pathlib import Path
from typing import Annotated

from zocosmo.cli.common import DOption, QOption, app, as_numbers, output, print_json
from zocosmo.cli.options import option
from zocosmo.core.values import VALUE_TYPES
from zocosmo.errors import check_known, check_whole
from zocosmo.report.figures import payload_figure
from zocosmo.report.payload import payload_report, payload_tables


@app.command()
def payload(
    d: DOption,
    q: QOption,
    value: Annotated[str, option(f"Value type: {', '.join(VALUE_TYPES)}.")] = "f32",
    reuse: Annotated[str, option("Rounds for which one coordinate list is kept.")] = "1,10,50",
    rounds: Annotated[int, option("Rounds over which the cost of the seed is spread.")] = 1000,
    figure: Annotated[Path | None, option("Also draw it: .svg, .png or .pdf.")] = None,
    as_json: Annotated[bool, option("Print JSON instead of tables.", "--json")] = False,
) -> None:
    """Print what one message costs under every codec, and the entropy bound.

    Example: zocosmo payload --d 6525621760 --q 8192
    """
    check_known("value type", value, VALUE_TYPES)
    kept = tuple(check_whole("--reuse", k, 1) for k in as_numbers(reuse))
    check_whole("--rounds", rounds, 1)
    report = payload_report(d, q, value=value, reuse=kept, rounds=rounds)
    if figure is not None:
        payload_figure(report, figure)
    if as_json:
        print_json(report)
    else:
        console = output()
        console.print(*payload_tables(report, about=console.width >= 120), sep="\n")
