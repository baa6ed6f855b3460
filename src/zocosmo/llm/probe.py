"""Noise first: how large rounding of the loss is, how large its slopes, and which μ, η, q, dtype follow."""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.graphs.graph import GRAPHS, Graph
from zocosmo.llm.pilot import Pilot, Trials, choose_eta
from zocosmo.llm.select import suggest_q
from zocosmo.llm.subject import ModelSetting, Subject, open_subject
from zocosmo.llm.survey import AGREE, ENOUGH, NUDGES, WIDE, Level, Survey, pick_level, read_levels
from zocosmo.methods import METHODS
from zocosmo.problems.language import llm

MUS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)  # the last is there to judge the one before
EXAMPLES = {"cuda": 256, "cpu": 64}  # by which slopes of single examples are told from their mean
MOST_BATCH = 1024  # that is worth proposing
WORTH = 1.5  # times as fast: what another dtype must be to take the place of float32
FINER = 100.0  # times: float32 against others; on a GPU 280 (tf32) and 7,000 (bfloat16) were measured

Say = Callable[[str], None]


@dataclass(frozen=True)
class Probe:
    """A loss as two-query methods see it at the start, in one dtype."""

    dtype: str
    d: int
    q: int
    batch: int
    loss: float
    noise: float  # σ of the loss of one batch: the largest of what follows
    sources: tuple[tuple[str, float], ...]
    levels: tuple[Level, ...]  # by ascending μ
    slope: float  # root mean square of uᵀ∇f, f the mean over all examples
    spread: float  # standard deviation of slopes over single examples
    share: float  # ρ: what of the mean square of a batch's slope is signal
    curvature: float  # mean uᵀHu, and its standard deviation, where they show best
    bend: float
    seconds: float = field(default=0.0, compare=False)  # for one example, at best


class Proposal(NamedTuple):
    """Where to begin, and why. `str` gives it as text."""

    mu: float
    eta: float
    q: int
    dtype: str
    noise: float
    snr: float
    why: tuple[str, ...]
    hopeless: bool
    pilots: tuple[Pilot, ...] = ()

    def __str__(self) -> str:
        word = "hopeless: " if self.hopeless else ""
        head = f"{word}mu = {self.mu:.3g}, eta = {self.eta:.3g}, q = {self.q}, dtype {self.dtype}"
        return "\n".join([head, *(f"  {reason}" for reason in self.why)])


def suggest_for(
    setting: ModelSetting,
    *,
    nodes: int = 4,
    graph: str | Graph = "ring",
    method: str = "edge_local",
    planned: int,
    q: int | None = None,
    seed: Seed = 0,
    pilots: bool = True,
    rounds: int | None = None,
    say: Say | None = None,
    **options: Any,
) -> Proposal:
    """Probe, propose μ, run pilots, propose η: all from training examples. `options` are the method's own.

    `rounds` are those of a pilot, `planned` those of the run to come: momentum applies more of its estimates
    in a longer one. The subject is kept, so that a run of the same setting need not load the weights again.
    A suggestion that is `hopeless` has numbers too, but nobody should train with them.
    """
    web = graph if isinstance(graph, Graph) else named_graph(graph, nodes)
    subject = open_subject(setting)
    found = probe(subject, q=size_for(method, q, subject.d), seed=seed, say=say)
    first = suggest(found)
    if not pilots or first.hopeless:
        return first
    chosen = {"method": method, "planned": planned, "seed": seed, "rounds": rounds, **options}
    return with_pilots(subject, found, web, say=say, **chosen)


def with_pilots(
    subject: Subject,
    found: Probe,
    graph: Graph,
    *,
    method: str,
    planned: int,
    seed: Seed = 0,
    rounds: int | None = None,
    say: Say | None = None,
    schedule: str = "auto",
    **options: Any,
) -> Proposal:
    """The suggestion for a probed subject, with η from pilots of the method on a graph."""
    first = suggest(found)
    check_known("method", method, METHODS)
    kind: Any = METHODS[method]
    sizes = {"q": found.q} if "q" in inspect.signature(kind).parameters else {}
    chosen = kind(eta=first.eta, mu=first.mu, **sizes, **options)
    trials = Trials(subject, chosen, graph, planned=planned, schedule=schedule, seed=seed, rounds=rounds)
    if say is not None:
        say(trials.words())
    last = suggest(found, trials.around(first.eta, say=say))
    why = (*last.why, trials.words())
    if trials.dropped:
        eta = last.eta / trials.share
        why = (*why, f"eta = {eta:.3g}: that over {trials.share:.3g}, {_share_in_words(trials)}")
        return last._replace(eta=eta, why=why)
    return last._replace(why=why)


def named_graph(name: str, nodes: int) -> Graph:
    """A graph that is known by its name and size."""
    check_known("graph", name, GRAPHS)
    try:
        built: Graph = GRAPHS[name](nodes)
    except TypeError:
        raise InputError(f"graph {name!r} has more choices than its size; build it, and give it") from None
    return built


def size_for(method: str, q: int | None, d: int) -> int:
    """Coordinates of a probe's direction: those that the method moves in a round."""
    check_known("method", method, METHODS)
    if "q" not in inspect.signature(METHODS[method]).parameters:
        return d
    return suggest_q(d) if q is None else check_whole("q", q, 1, d)


def setting_of(**given: Any) -> ModelSetting:
    """The setting that a config's `problem` with these keys has."""
    known = [f.name for f in fields(ModelSetting)]
    for name in given:
        check_known("problem key", name, known)
    defaults = {name: p.default for name, p in inspect.signature(llm).parameters.items() if name in known}
    return ModelSetting(**{**defaults, **given})


def probe(
    subject: Subject,
    *,
    q: int | None = None,
    mus: Sequence[float] = MUS,
    directions: int = 16,
    examples: int | None = None,
    seed: Seed = 0,
    say: Say | None = None,
) -> Probe:
    """Measure rounding, slopes and curvature at the start, along public directions of q coordinates.

    Rounding is the largest of three spreads of a loss that should not change: batch rows in another order,
    other padding and company, and adapters nudged by a tiny random u. The first two can be silent where
    kernels treat a row alike in any company, though every number is rounded by 1 %; a nudge moves numbers
    across their roundings. Of the `mus` the largest is there to judge the one before it.
    """
    q = suggest_q(subject.d) if q is None else check_whole("q", q, 1, subject.d)
    grid = sorted(set(mus))
    if len(grid) < 2 or not grid[0] > 0:
        raise InputError(f"mus must be two different numbers above 0, or more; got {list(mus)}")
    given, tell = subject.setting, say or (lambda text: None)
    tell(f"{given.dtype}: differences over ±μu, {len(grid)} μ, {directions} directions")
    survey = Survey(subject, q, check_whole("directions", directions, 2), seed)
    far = max(WIDE, grid[-2])
    sides = {mu: survey.sides(mu) for mu in sorted({*NUDGES, *grid, far})}
    tell(f"{given.dtype}: rounding of the loss")
    sources = (*survey.still(), ("nudged", survey.nudged(sides, far)))
    noise = max(sigma for _, sigma in sources)
    levels = read_levels({mu: sides[mu] for mu in grid}, survey.centre, noise)
    wide = read_levels({far: sides[far]}, survey.centre, noise)[0]
    best = pick_level(levels) or loudest(levels)
    size = min(examples or EXAMPLES.get(subject.backbone.device.type, 256), len(subject.train))
    tell(f"{given.dtype}: slopes of {size} single examples")
    slope, spread = survey.single(best.mu, check_whole("examples", size, 2))
    return Probe(
        dtype=given.dtype,
        d=subject.d,
        q=q,
        batch=given.batch,
        loss=float(survey.centre.mean()),
        noise=noise,
        sources=sources,
        levels=levels,
        slope=slope,
        spread=spread,
        share=slope**2 / (slope**2 + spread**2 / given.batch) if slope else 0.0,
        curvature=wide.curvature,
        bend=math.sqrt(max(wide.bend**2 - 6 * noise**2 / wide.mu**4, 0.0)),  # variances 1 + 4 + 1
        seconds=survey.seconds,
    )


def loudest(levels: Sequence[Level]) -> Level:
    """The μ with the highest signal to noise, of those that were judged."""
    return max(levels[:-1], key=lambda level: level.snr)


def suggest(found: Probe, pilots: Sequence[Pilot] = ()) -> Proposal:
    """μ, η, q for a probed loss, with reasons; `hopeless` where rounding drowns the slopes at every μ.

    μ is the smallest whose difference is 20 times its rounding and whose slopes are those of the next larger
    within 10 %: the first keeps noise out, the second says that the loss is straight that far. η is that of
    the pilots, or else the analytic guess.
    """
    level, eta, why = pick_level(found.levels), analytic_eta(found), [q_reason(found.d, found.q)]
    why.append(f"rounding of one loss is {found.noise:.2g} in {found.dtype}")
    if level is None:
        best = loudest(found.levels)
        why += _words_for_hopeless(found, best)
        return Proposal(best.mu, eta, found.q, found.dtype, found.noise, best.snr, tuple(why), True)
    why += [
        f"mu = {level.mu:.3g}: the smallest whose differences ({level.difference:.2g}) are {ENOUGH:g} × what "
        f"rounding makes of them ({level.snr:.0f} ×), with slopes as at the next ({level.apart:.1%} apart)",
        f"slopes: {found.slope:.2g} on the mean, {found.spread:.2g} from example to example; of the square "
        f"of a batch of {found.batch}, {found.share:.1%} is signal",
    ]
    if pilots:
        eta, reasons = choose_eta(pilots)
        why += reasons
    else:
        why.append(f"eta = {eta:.3g}: ½ (q/d) ρ/c, the analytic guess; pilots would tell more")
    chosen = level.mu, eta, found.q, found.dtype, found.noise, level.snr
    return Proposal(*chosen, tuple(why), hopeless=False, pilots=tuple(pilots))


def analytic_eta(found: Probe) -> float:
    """η₀ = ½ (q/d) ρ/c with c = max(mean uᵀHu, a tenth of its standard deviation).

    A round moves a node by a ŝ along u, where a = η d/q and ŝ is the slope of a batch, s its signal. In the
    quadratic model the loss changes by −a ŝ s + ½ a² ŝ² uᵀHu. Averaged over batches and directions this is
    −a E s² + ½ a² c E ŝ², least at a = ρ/c with ρ = E s²/E ŝ²: the noisier the slope, the shorter the step.
    Half of it costs a quarter of the gain and leaves room for curvature that grows. The mean of uᵀHu may
    vanish, or be negative; a tenth of its spread stands in, so that η stays finite.
    """
    c = max(found.curvature, found.bend / 10)
    eta = 0.5 * found.q / found.d * (found.share / c if c > 0 else 1.0)  # 1: straight as far as seen
    return float(f"{eta:.3g}")  # a guess has few digits


def q_reason(d: int, q: int) -> str:
    return f"q = {q}: {q / d:.1%} of d = {d}; E‖ĝ‖² does not depend on q, bits do"


def recommend(found: Sequence[tuple[Probe, Proposal]]) -> int | None:
    """Which of several dtypes to take: float32, or the fastest that works, if it is 1.5 times as fast."""
    fine = [k for k, (_, each) in enumerate(found) if not each.hopeless]
    if not fine:
        return None
    safest = max(fine, key=lambda k: found[k][1].dtype == "float32")
    fastest = min(fine, key=lambda k: found[k][0].seconds)
    return fastest if WORTH * found[fastest][0].seconds < found[safest][0].seconds else safest


def _share_in_words(trials: Trials) -> str:
    return f"the share of its estimates that momentum {trials.dropped:g} applies in {trials.planned} rounds"


def _words_for_hopeless(found: Probe, best: Level) -> list[str]:
    """What is wrong, and what would work."""
    clear = [level for level in found.levels[:-1] if level.snr >= ENOUGH]
    if clear:
        return _words_for_bent(found, clear[0])
    words = [
        f"hopeless in {found.dtype}: even at mu = {best.mu:.3g} differences ({best.difference:.2g}) are only "
        f"{best.snr:.1f} × what rounding makes of them, and {ENOUGH:g} × are asked",
        *_words_for_finer(found, best.slope),
    ]
    need = best.mu * ENOUGH / best.snr if best.snr else math.inf
    if need <= 1.0:
        words.append(f"or mu near {need:.2g}, if the loss is straight that far, which nobody looked at")
    wanted = (ENOUGH * found.noise / (math.sqrt(2) * best.mu)) ** 2 * found.batch - found.spread**2
    batch = wanted / found.slope**2 if found.slope else math.inf
    if found.batch < batch <= MOST_BATCH:
        words.append(f"or a batch of about {math.ceil(batch)} at that mu: rounding averages out")
    return words


def _words_for_bent(found: Probe, first: Level) -> list[str]:
    """Where the loss bends at every μ that clears the noise, `first` the least of them.

    A μ below it is worth a look where it would clear the noise and the loss may be straight: below the grid,
    where nobody has looked, or between `first` and the μ before it, where the slopes of the two agree.
    """
    words = [
        f"hopeless with these mus: differences clear the noise from mu = {first.mu:.3g} on, but slopes there "
        f"are {first.apart:.0%} off those of the next",
        *_words_for_finer(found, first.slope),
    ]
    least, at = _least_mu(found.noise, first.slope), found.levels.index(first)
    if at == 0:
        words.append(f"give smaller mus: down to about {least:.2g} they would clear the noise")
    elif found.levels[at - 1].apart <= AGREE:
        words.append(f"or --mu {least:.2g}: it would clear the noise, and slopes agree around it")
    elif found.dtype == "float32":
        words.append(f"smaller mus drown in rounding; a batch larger than {found.batch} averages it out")
    return words


def _words_for_finer(found: Probe, slope: float) -> list[str]:
    """float32, and the least μ looked at that would then clear the noise, where it would be another dtype."""
    if found.dtype == "float32":
        return []
    least = _least_mu(found.noise / FINER, slope)
    mu = next((level.mu for level in found.levels[:-1] if level.mu >= least), None)
    then = "" if mu is None else f"; mu = {mu:.3g} should then do, where the loss is straight"
    return [f"take float32: its rounding is {FINER:g} × finer or more{then}"]


def _least_mu(noise: float, slope: float) -> float:
    """The μ from which on 2μ · slope is 20 times √2 σ, what rounding makes of a difference."""
    return ENOUGH * math.sqrt(2) * noise / (2 * slope) if slope else math.inf
