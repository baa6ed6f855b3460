"""zocosmo probe: before a fine-tuning, how large rounding is, and which μ, η, q and dtype follow."""

import inspect
import json
import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zocosmo.cli.common import SeedOption, app, as_seed, output, print_json
from zocosmo.cli.options import JsonOption
from zocosmo.errors import InputError, check_whole
from zocosmo.files import replace_file

if TYPE_CHECKING:
    from zocosmo.graphs.graph import Graph
    from zocosmo.llm.probe import Probe, Proposal
    from zocosmo.llm.subject import ModelSetting
    from zocosmo.llm.survey import Level

    Found = tuple[Probe, Proposal]

SHADES = {"float32": "#1b6ca8", "tf32": "#3f9142", "bfloat16": "#d1495b", "float16": "#edae49"}
ROUNDS = 1540  # the paper's longest
CHECKPOINTS = 20  # in the config that --to writes, or about as many
GUARD = {"grow": 0.05, "by": 0.5}  # as finetune has it

DtypeOption = Annotated[
    str, typer.Option(help="float32, tf32, bfloat16, float16; all compares the first three.")
]
MoreOption = Annotated[
    list[str] | None, typer.Option("--set", help="A further key of the problem: problem.rank=16. Repeatable.")
]
PilotsOption = Annotated[bool, typer.Option("--pilots/--no-pilots", help="Choose eta by short runs.")]
ToOption = Annotated[
    Path | None, typer.Option("--to", help="Write a config for zocosmo run and zocosmo finetune.")
]


@app.command("probe")
def probe_command(
    model: Annotated[str, typer.Option(help="A kept model, a folder, or a name of the hub.")] = "smollm2",
    task: Annotated[str, typer.Option(help="toy, sst2, qnli, boolq, mrpc, rte, or a YAML file.")] = "toy",
    data: Annotated[str, typer.Option(help="Folder with TASK/train.jsonl.")] = "",
    nodes: Annotated[int, typer.Option(help="Number of nodes.")] = 4,
    graph: Annotated[str, typer.Option(help="ring, complete, path, …, by its size alone.")] = "ring",
    method: Annotated[str, typer.Option(help="cosmo, edge_local, …: see zocosmo methods.")] = "edge_local",
    momentum: Annotated[float, typer.Option(help="beta, where the method has it.")] = 0.9,
    q: Annotated[int | None, typer.Option("--q", help="Coordinates in a support.")] = None,
    mu: Annotated[float | None, typer.Option(help="Judge this mu alone.")] = None,
    batch: Annotated[int, typer.Option(help="Examples in a query.")] = 4,
    dtype: DtypeOption = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, or auto.")] = "auto",
    directions: Annotated[int, typer.Option(help="Directions that are probed.")] = 16,
    examples: Annotated[int | None, typer.Option(help="Examples whose slopes are told apart.")] = None,
    pilots: PilotsOption = True,
    rounds: Annotated[int | None, typer.Option(help="Rounds of a pilot.  [default: 60, on a CPU 12]")] = None,
    for_rounds: Annotated[int, typer.Option(help="Rounds of the run that eta is for, and of --to.")] = ROUNDS,
    seed: SeedOption = "0",
    more: MoreOption = None,
    as_json: JsonOption = False,
    figure: Annotated[
        Path | None, typer.Option(help="Draw differences against mu: .svg, .png, .pdf.")
    ] = None,
    to: ToOption = None,
) -> None:
    """Measure rounding and slopes of a model's loss, and propose mu, eta, q and dtype with reasons.

    Training examples alone are read. Exit code 0 with a proposal, 1 where the choice is hopeless: rounding
    drowns the differences at every mu.

    \b
    Example: zocosmo probe --model smollm2 --task toy --dtype all --no-pilots
    """
    from zocosmo.llm.probe import named_graph, setting_of

    _check_numbers(for_rounds, rounds, mu, momentum)
    _check_files(figure, to)
    web = named_graph(graph, nodes)
    given = {"model": model, "task": task, "data": data, "batch": batch, "device": device}
    settings = _settings(setting_of(**{**given, **_further(more or [])}), dtype)
    choices: dict[str, Any] = {"q": q, "directions": directions, "examples": examples, "seed": as_seed(seed)}
    if mu is not None:
        choices["mus"] = (mu, 3 * mu)
    found, best = _probe(settings, method, choices)
    if best is not None and pilots:
        chosen = {"method": method, "planned": for_rounds, "rounds": rounds, "seed": as_seed(seed)}
        found[best] = _pilot(settings[best], found[best][0], web, {**chosen, **_momentum(method, momentum)})
    _report(found, best, figure, as_json=as_json)
    if best is None:
        raise typer.Exit(1)
    if to is not None:
        kind = {"kind": method, **_momentum(method, momentum)}
        text = as_config(settings[best], found[best][1], {"kind": graph, "n": web.n}, kind, for_rounds)
        replace_file(to, lambda path: path.write_text(text, encoding="utf-8"))
    if not as_json:
        print(f"\nnext: {_next(found[best][1], to)}")


def _report(found: list["Found"], best: int | None, figure: Path | None, *, as_json: bool) -> None:
    """All that was measured, in words or as JSON, and drawn if asked."""
    if as_json:
        print_json(as_report(found, best))
    else:
        _show(found, best)
    if figure is not None:
        draw(found, figure)


def _next(chosen: "Proposal", to: Path | None) -> str:
    """The command that trains with the proposal."""
    if to is not None:
        return f"zocosmo finetune {to}"
    numbers = f"--eta {chosen.eta:.3g} --mu {chosen.mu:.3g}"
    return f"zocosmo finetune {numbers}, with the same other options; or have --to FILE write a config for it"


def _check_numbers(for_rounds: int, rounds: int | None, mu: float | None, momentum: float) -> None:
    """Refuse what could only fail after the work is done."""
    check_whole("--for-rounds", for_rounds, 1)
    if rounds is not None:
        check_whole("--rounds", rounds, 1)
    if mu is not None and not mu > 0:
        raise InputError(f"--mu must be above 0, got {mu}")
    if not 0 <= momentum < 1:
        raise InputError(f"--momentum must be at least 0 and below 1, got {momentum}")


def _check_files(figure: Path | None, to: Path | None) -> None:
    from zocosmo.report.figures import check_figure

    if figure is not None:
        check_figure(figure)
    if to is not None and not to.parent.is_dir():
        raise InputError(f"folder {to.parent} does not exist; make it first")


def _settings(given: "ModelSetting", dtype: str) -> list["ModelSetting"]:
    """One for each dtype to look at; tf32 is a matter of GPUs."""
    from zocosmo.llm.backbone import pick_device

    if dtype != "all":
        return [replace(given, dtype=dtype)]
    names = ["float32", *(["tf32"] if pick_device(given.device) != "cpu" else []), "bfloat16"]
    return [replace(given, dtype=name) for name in names]


def _probe(
    settings: list["ModelSetting"], method: str, choices: dict[str, Any]
) -> tuple[list["Found"], int | None]:
    """Every dtype probed, and which to take. One model is held at a time."""
    from zocosmo.llm.probe import probe, recommend, size_for, suggest
    from zocosmo.llm.subject import Subject

    found = []
    for setting in settings:
        subject = Subject(setting)
        size = size_for(method, choices["q"], subject.d)
        one = probe(subject, say=_say(), **{**choices, "q": size})
        found.append((one, suggest(one)))
    return found, recommend(found)


def _pilot(setting: "ModelSetting", found: "Probe", graph: "Graph", chosen: dict[str, Any]) -> "Found":
    from zocosmo.llm.probe import with_pilots
    from zocosmo.llm.subject import Subject

    return found, with_pilots(Subject(setting), found, graph, say=_say(), **chosen)


def _momentum(method: str, momentum: float) -> dict[str, float]:
    from zocosmo.methods import METHODS

    return {"beta": momentum} if "beta" in inspect.signature(METHODS[method]).parameters else {}


def _further(texts: list[str]) -> dict[str, Any]:
    """Of --set rank=16: numbers as numbers, anything else as text."""
    further: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.removeprefix("problem.").partition("=")
        if not equals or not name.isidentifier() or name in ("dtype", "noise"):
            raise InputError(
                f"--set takes a further key of the problem, such as problem.rank=16; got {text!r}"
            )
        try:
            further[name] = json.loads(value)
        except ValueError:
            further[name] = value
    return further


def _say() -> Any:
    """Words on stderr, where somebody waits in front of it."""
    return (lambda text: print(f"zocosmo: {text}", file=sys.stderr)) if sys.stderr.isatty() else None


def as_report(found: list["Found"], best: int | None) -> dict[str, Any]:
    """All that was measured, as JSON can hold it: what is not finite becomes null."""
    rows = []
    for one, proposal in found:
        measured = {**asdict(one), "sources": dict(one.sources), "levels": [x._asdict() for x in one.levels]}
        runs = [{k: v for k, v in x._asdict().items() if k != "losses"} for x in proposal.pilots]
        rows.append({"probe": measured, "suggestion": {**proposal._asdict(), "pilots": runs}})
    report: dict[str, Any] = _plain(
        {"dtypes": rows, "recommended": None if best is None else found[best][1].dtype}
    )
    return report


def _plain(thing: Any) -> Any:
    if isinstance(thing, dict):
        return {name: _plain(part) for name, part in thing.items()}
    if isinstance(thing, list | tuple):
        return [_plain(part) for part in thing]
    return None if isinstance(thing, float) and not math.isfinite(thing) else thing


def _show(found: list["Found"], best: int | None) -> None:
    from rich.table import Table

    console = output()
    for one, proposal in found:
        parts = ", ".join(f"{name} {sigma:.2g}" for name, sigma in one.sources)
        console.print(f"{one.dtype}: rounding of one loss {one.noise:.2g} ({parts}); loss {one.loss:.4f}")
        table = Table("mu", "difference", "slope", "× rounding", "off the next", "", box=None, pad_edge=False)
        for level in one.levels:
            apart = "" if math.isnan(level.apart) else f"{level.apart:.1%}"
            numbers = (f"{level.mu:g}", f"{level.difference:.2e}", f"{level.slope:.4f}", f"{level.snr:.1f}")
            table.add_row(*numbers, apart, verdict(level, proposal))
        for column in table.columns[:5]:
            column.justify = "right"
        console.print(table)
        if proposal.pilots:
            console.print(_pilots(proposal))
        console.print("")
    for one, proposal in found:
        if len(found) > 1:
            word = "hopeless" if proposal.hopeless else f"mu = {proposal.mu:g}, {proposal.snr:.0f} × rounding"
            console.print(f"{one.dtype}: {word}; {1e3 * one.seconds:.3g} ms for an example", soft_wrap=True)
    for _, proposal in found if best is None else [found[best]]:
        console.print(str(proposal), soft_wrap=True)


def verdict(level: "Level", proposal: "Proposal") -> str:
    """A word about a μ."""
    from zocosmo.llm.survey import AGREE, ENOUGH

    if math.isnan(level.apart):
        return "to judge the one before"
    if level.snr < ENOUGH:
        return "mostly rounding" if level.snr < 3 else "too close to rounding"
    if level.apart > AGREE:
        return "the loss bends"
    return "chosen" if level.mu == proposal.mu else "fine"


def _pilots(proposal: "Proposal") -> Any:
    from rich.table import Table

    from zocosmo.llm.pilot import choose_eta

    best = choose_eta(proposal.pilots)[0]
    table = Table("pilot eta", "loss before", "after", "‖x̄‖/‖x0‖", "", box=None, pad_edge=False)
    for pilot in proposal.pilots:
        word = "diverged" if pilot.diverged else "chosen" if pilot.eta == best else ""
        numbers = (f"{pilot.eta:.4g}", f"{pilot.before:.4f}", f"{pilot.after:.4f}", f"{pilot.norm:.3f}")
        table.add_row(*numbers, word)
    for column in table.columns[:4]:
        column.justify = "right"
    return table


def as_config(
    setting: "ModelSetting", proposal: "Proposal", graph: dict[str, Any], method: dict[str, Any], rounds: int
) -> str:
    """A config of the proposal, with its noise, so that training logs the signal to noise ratio."""
    from zocosmo.llm.probe import setting_of
    from zocosmo.methods import METHODS

    usual = asdict(setting_of())
    problem = {"kind": "llm", "model": setting.model, "task": setting.task, "batch": setting.batch}
    problem |= {key: value for key, value in asdict(setting).items() if value != usual[key]}
    problem |= {"dtype": setting.dtype, "noise": float(f"{proposal.noise:.3g}")}
    chosen = {**method, "q": proposal.q, "eta": proposal.eta, "mu": proposal.mu}
    if "q" not in inspect.signature(METHODS[method["kind"]]).parameters:
        del chosen["q"]
    chosen["decay"] = {"kind": "cosine", "rounds": rounds}
    lines = [
        "# zocosmo probe proposed this, on training examples alone:",
        *(f"#   {w}" for w in proposal.why),
    ]
    lines += [
        f"problem: {_yaml(problem)}",
        f"graphs: [{_yaml(graph)}]",
        f"methods: [{_yaml(chosen)}]",
        "seeds: [1]  # the probe had another",
        f"rounds: {rounds}",
        f"log_every: {_every(rounds)}",
        f"guard: {_yaml(GUARD)}  # the step drops where states grow and the loss does not fall",
        "dtype: float32  # of the adapters",
        "wire: f32",
    ]
    return "\n".join(lines) + "\n"


def _every(rounds: int) -> int:
    """A divisor of the rounds, so that the last is measured, for as nearly 20 checkpoints as there is."""
    divisors = [k for k in range(1, rounds + 1) if rounds % k == 0]
    return min(divisors, key=lambda k: abs(math.log(k * CHECKPOINTS / rounds)))


def _yaml(value: Any) -> str:
    """As YAML 1.1 reads it back: text in quotes, floats with a dot."""
    if isinstance(value, dict):
        words = (part if key in ("kind", "dtype") else _yaml(part) for key, part in value.items())
        return "{" + ", ".join(f"{key}: {word}" for key, word in zip(value, words, strict=True)) + "}"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    text = repr(value)
    return text.replace("e", ".0e") if "e" in text and "." not in text else text


def draw(found: list["Found"], to: Path) -> None:
    """Differences over ±μu against μ, and what rounding alone would make of them, for every dtype."""
    from zocosmo.llm.survey import ENOUGH
    from zocosmo.report.figures import new_figure, save_figure

    figure, axes = new_figure(to, (6.5, 4.2))
    for one, proposal in found:
        mus, shade = [level.mu for level in one.levels], SHADES[one.dtype]
        floor = math.sqrt(2) * one.noise
        axes.loglog(mus, [level.difference for level in one.levels], "o-", color=shade, label=one.dtype)
        axes.axhline(floor, color=shade, linestyle="--", linewidth=1)
        axes.text(mus[-1], 1.15 * floor, f"rounding, {one.dtype}", color=shade, ha="right", fontsize=8)
        axes.axhline(ENOUGH * floor, color=shade, linestyle=":", linewidth=1)
        axes.text(mus[-1], 1.15 * ENOUGH * floor, f"{ENOUGH:g} ×", color=shade, ha="right", fontsize=8)
        if not proposal.hopeless:
            at = next(level for level in one.levels if level.mu == proposal.mu)
            axes.plot([at.mu], [at.difference], "o", color=shade, markersize=14, fillstyle="none")
    axes.set(xlabel="μ", ylabel="root mean square of f(x + μu) − f(x − μu)")
    axes.legend(loc="upper left", fontsize=9, framealpha=1.0, edgecolor="none")
    save_figure(figure, to, dpi=120)
