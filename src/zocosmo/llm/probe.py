"""Measure the rounding and slopes of the loss before training, and propose μ, η, q and dtype."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from zocosmo.core.tape import Seed
from zocosmo.errors import InputError, check_known, check_whole
from zocosmo.experiments.plan import method_fields
from zocosmo.graphs.graph import GRAPHS, Graph
from zocosmo.llm.pilot import Pilot, Trials, choose_eta
from zocosmo.llm.quiet import Say, silent
from zocosmo.llm.second import Shape, length_for, pick_shift, rescaled
from zocosmo.llm.select import suggest_q
from zocosmo.llm.subject import Subject, open_subject
from zocosmo.llm.survey import AGREE, ENOUGH, NUDGES, WIDE, Level, Survey, pick_level, read_levels
from zocosmo.methods import METHODS
from zocosmo.methods.base import as_fields
from zocosmo.problems.language import ModelSetting

MUS = (1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3)  # the last only judges the one before
EXAMPLES = {"cuda": 256, "cpu": 64}  # whose single slopes are measured
MOST_BATCH = 1024  # largest batch that is proposed
LENGTHS = 5  # pilots of the second generation: lengths of steps are alike from task to task
WORTH = 1.5  # speed-up over float32 that justifies another dtype
FINER = 100.0  # least ratio of another dtype's rounding to float32's; on a GPU tf32 has 280, bfloat16 7,000


@dataclass(frozen=True)
class Probe:
    """The loss at the start as two-query methods see it, in one dtype."""

    dtype: str
    d: int
    q: int
    batch: int
    loss: float
    noise: float  # σ of one batch's loss: the largest of `sources`
    sources: tuple[tuple[str, float], ...]
    levels: tuple[Level, ...]  # by ascending μ
    slope: float  # root mean square of uᵀ∇f, f the mean over all examples
    spread: float  # standard deviation of slopes over single examples
    share: float  # ρ: signal's share of the mean square of a batch's slope
    curvature: float  # mean of uᵀHu
    bend: float  # standard deviation of uᵀHu
    seconds: float = field(default=0.0, compare=False)  # per example, best case


class Proposal(NamedTuple):
    """Parameters to start with, and the reasons. `str` gives it as text."""

    mu: float
    eta: float
    q: int
    dtype: str
    noise: float
    snr: float
    why: tuple[str, ...]
    hopeless: bool
    pilots: tuple[Pilot, ...] = ()
    shape: Shape | None = None  # of the second generation
    probed: float = math.nan  # the μ of the probe that shifts are as long as, where that is another

    @property
    def level(self) -> float:
        """The μ of the probe that was chosen."""
        return self.mu if self.shape is None else self.probed

    @property
    def pilot(self) -> float:
        """The η of the pilot that was chosen."""
        if self.shape is None:
            return choose_eta(self.pilots)[0]
        return min(self.pilots, key=lambda pilot: (pilot.diverged, pilot.after)).eta

    def __str__(self) -> str:
        word = "hopeless: " if self.hopeless else ""
        head = f"{word}mu = {self.mu:.3g}, eta = {self.eta:.3g}, q = {self.q}, dtype {self.dtype}"
        if self.shape is not None:
            more = f"subspace {self.shape.subspace or 'none'}, K = {self.shape.directions}, {self.shape.wire}"
            coupling = self.shape.method.get("coupling")
            head = f"{head}, {more}" + f", coupling {coupling}" * bool(coupling)
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
    shape: Shape | None = None,
    **options: Any,
) -> Proposal:
    """Probe, propose μ, run pilots, propose η, all on training examples. `options` go to the method.

    With a `shape` steps are those of the second generation, in its subspace: η is then the length of a step.

    `rounds` is the length of a pilot, `planned` that of the run: momentum applies more of its estimates in a
    longer run. The subject is cached, so a run of the same setting does not load the weights again. Do not
    train with the numbers of a `hopeless` proposal.
    """
    web = graph if isinstance(graph, Graph) else named_graph(graph, nodes)
    subject = open_subject(setting)
    if shape is not None:
        found = probe(subject, seed=seed, say=say)
        more = {"planned": planned, "seed": seed, "rounds": rounds, **options}
        return with_shape(subject, found, web, shape, pilots=pilots, say=say, **more)
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
    """The proposal for a probed subject, with η from pilots of the method on a graph."""
    first, tell = suggest(found), say or silent
    if takes(method, "q"):
        options["q"] = found.q
    kind: Any = METHODS[method]
    chosen = kind(eta=first.eta, mu=first.mu, **options)
    trials = Trials(subject, chosen, graph, planned=planned, schedule=schedule, seed=seed, rounds=rounds)
    tell(trials.words())
    last = suggest(found, trials.around(first.eta, say=tell))
    eta, why = last.eta, (*last.why, trials.words())
    if trials.dropped:
        eta /= trials.share
        share = f"the share of estimates that momentum {trials.dropped:g} applies in {trials.planned} rounds"
        why = (*why, f"eta = {eta:.3g}: that over {trials.share:.3g}, {share}")
    return last._replace(eta=eta, why=why)


def with_shape(
    subject: Subject,
    found: Probe,
    graph: Graph,
    shape: Shape,
    *,
    planned: int,
    pilots: bool = True,
    seed: Seed = 0,
    rounds: int | None = None,
    say: Say | None = None,
    schedule: str = "auto",
    **options: Any,
) -> Proposal:
    """μ and η of the second generation: shifts as long as the loss is straight, steps of a length that pilots
    choose."""
    tell, first = say or silent, suggest(found)
    level = pick_shift(found.levels)
    if level is None:
        return first._replace(shape=shape)
    length, share = level.mu * math.sqrt(found.q), found.slope**2 / (found.slope**2 + found.spread**2 or 1.0)
    mu = float(f"{length / math.sqrt(shape.q):.4g}")
    straight = (
        f"mu = {mu:.3g}: shifts of length {length:.3g}, the longest whose slopes are as at the next "
        f"({level.apart:.1%} apart); their differences are {level.snr:.0f} × rounding"
    )
    chosen = first._replace(mu=mu, q=shape.q, snr=level.snr, shape=shape, probed=level.mu, hopeless=False)
    eta, why = length_for(planned, graph.n, share, shape.kind)
    reasons: tuple[str, ...] = (f"rounding of one loss is {found.noise:.2g} in {found.dtype}", straight)
    if not pilots:
        return chosen._replace(eta=eta, why=(*shape.why, *reasons, why))
    method = METHODS[shape.kind](eta=eta, mu=mu, **as_fields({**shape.method, **options}))
    about: dict[str, Any] = {"planned": planned, "schedule": schedule, "seed": seed, "rounds": rounds}
    trials = Trials(subject, method, graph, subspace=shape.subspace, **about)
    tell(trials.words())
    first_length = length_for(trials.rounds, graph.n, share, shape.kind)[0]
    tried = trials.around(first_length, most=LENGTHS, say=tell)
    eta, lines = rescaled(tried, trials.rounds, planned)
    return chosen._replace(eta=eta, why=(*shape.why, *reasons, *lines, trials.words()), pilots=tuple(tried))


def named_graph(name: str, nodes: int) -> Graph:
    """A graph given by name and size alone."""
    check_known("graph", name, GRAPHS)
    try:
        built: Graph = GRAPHS[name](nodes)
    except TypeError:
        raise InputError(f"graph {name!r} needs more than a size; build it and pass the Graph") from None
    return built


def size_for(method: str, q: int | None, d: int) -> int:
    """The number of coordinates in the method's directions, and so in those of the probe."""
    return _checked_q(q, d) if takes(method, "q") else d


def takes(method: str, name: str) -> bool:
    """Whether a known method has this parameter."""
    check_known("method", method, METHODS)
    return name in method_fields(METHODS[method])


def _checked_q(q: int | None, d: int) -> int:
    return suggest_q(d) if q is None else check_whole("q", q, 1, d)


def setting_of(**given: Any) -> ModelSetting:
    """The setting of a config's `problem` with these keys, for adapters."""
    known = [f.name for f in fields(ModelSetting) if f.name != "coordinates"]
    for name in given:
        check_known("problem key", name, known)
    return ModelSetting(**given)


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

    Rounding is the largest of three spreads of a loss that should not change: with batch rows reordered, with
    other padding and other rows in the batch, and with adapters nudged by a tiny random u. The first two are
    0 if kernels compute a row the same way in any batch, however coarsely; a nudge makes every number round
    anew. The largest of `mus` only serves to judge the one before it.
    """
    q = _checked_q(q, subject.d)
    grid = sorted(set(mus))
    if len(grid) < 2 or not grid[0] > 0:
        raise InputError(f"mus must be at least two different numbers above 0, got {list(mus)}")
    given, tell = subject.setting, say or silent
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
    """The μ with the highest signal-to-noise ratio, without the last."""
    return max(levels[:-1], key=lambda level: level.snr)


def suggest(found: Probe, pilots: Sequence[Pilot] = ()) -> Proposal:
    """μ, η, q for a probed loss, with reasons; `hopeless` if rounding drowns the slopes at every μ.

    μ is the smallest whose difference is 20 times its rounding, so that noise is small, and whose slopes are
    within 10 % of those at the next larger μ, so that the loss is locally linear. η is that of the pilots, or
    else the analytic guess.
    """
    level, eta = pick_level(found.levels), analytic_eta(found)
    d, q = found.d, found.q
    why = [
        f"q = {q}: {q / d:.1%} of d = {d}; E‖ĝ‖² does not depend on q, bits do",
        f"rounding of one loss is {found.noise:.2g} in {found.dtype}",
    ]
    if level is None:
        best = loudest(found.levels)
        why += _words_for_hopeless(found, best)
        return Proposal(best.mu, eta, q, found.dtype, found.noise, best.snr, tuple(why), hopeless=True)
    why += [
        f"mu = {level.mu:.3g}: the smallest whose differences ({level.difference:.2g}) are {ENOUGH:g} × "
        f"their rounding ({level.snr:.0f} ×), with slopes as at the next mu ({level.apart:.1%} apart)",
        f"slopes: mean {found.slope:.2g}, standard deviation over examples {found.spread:.2g}; with a batch "
        f"of {found.batch}, {found.share:.1%} of the square is signal",
    ]
    if pilots:
        eta, reasons = choose_eta(pilots)
        why += reasons
    else:
        why.append(f"eta = {eta:.3g}: ½ (q/d) ρ/c, the analytic guess; run pilots to tell more")
    chosen = level.mu, eta, q, found.dtype, found.noise, level.snr
    return Proposal(*chosen, tuple(why), hopeless=False, pilots=tuple(pilots))


def analytic_eta(found: Probe) -> float:
    """η₀ = ½ (q/d) ρ/c with c = max(mean uᵀHu, a tenth of its standard deviation).

    A round moves a node by a ŝ along u, where a = η d/q, ŝ is the slope of a batch and s its signal. In the
    quadratic model the loss changes by −a ŝ s + ½ a² ŝ² uᵀHu. Averaged over batches and directions this is
    −a E s² + ½ a² c E ŝ², least at a = ρ/c with ρ = E s²/E ŝ²: the noisier the slope, the shorter the step.
    Halving it costs a quarter of the gain and leaves room for growing curvature. The mean of uᵀHu may be zero
    or negative; a tenth of its spread then keeps η finite.
    """
    c = max(found.curvature, found.bend / 10)
    eta = 0.5 * found.q / found.d * (found.share / c if c > 0 else 1.0)  # 1: no curvature seen
    return float(f"{eta:.3g}")  # a guess needs few digits


def recommend(found: Sequence[tuple[Probe, Proposal]]) -> int | None:
    """The index of the dtype to use: float32, or the fastest that works if it is 1.5 times as fast."""
    fine = [k for k, (_, each) in enumerate(found) if not each.hopeless]
    if not fine:
        return None
    safest = max(fine, key=lambda k: found[k][1].dtype == "float32")
    fastest = min(fine, key=lambda k: found[k][0].seconds)
    return fastest if WORTH * found[fastest][0].seconds < found[safest][0].seconds else safest


def _words_for_hopeless(found: Probe, best: Level) -> list[str]:
    """The failure and its remedies."""
    clear = [level for level in found.levels[:-1] if level.snr >= ENOUGH]
    if clear:
        return _words_for_bent(found, clear[0])
    words = [
        f"hopeless in {found.dtype}: even at mu = {best.mu:.3g} differences ({best.difference:.2g}) are only "
        f"{best.snr:.1f} × their rounding, and {ENOUGH:g} × is required",
        *_words_for_finer(found, best.slope),
    ]
    need = best.mu * ENOUGH / best.snr if best.snr else math.inf
    if need <= 1.0:
        words.append(f"or try mu near {need:.2g}, outside the probed range, if the loss is linear that far")
    wanted = (ENOUGH * found.noise / (math.sqrt(2) * best.mu)) ** 2 * found.batch - found.spread**2
    batch = wanted / found.slope**2 if found.slope else math.inf
    if found.batch < batch <= MOST_BATCH:
        words.append(f"or use a batch of about {math.ceil(batch)} at that mu: rounding averages out")
    return words


def _words_for_bent(found: Probe, first: Level) -> list[str]:
    """Remedies if the loss bends at every μ that clears the noise, `first` being the smallest of them.

    A smaller μ is proposed if it would clear the noise and the loss may be linear there: below the grid, or
    between `first` and the μ before it if their slopes agree.
    """
    words = [
        f"hopeless with these mus: differences clear the noise from mu = {first.mu:.3g} on, but slopes there "
        f"differ by {first.apart:.0%} from those at the next mu",
        *_words_for_finer(found, first.slope),
    ]
    least, at = _least_mu(found.noise, first.slope), found.levels.index(first)
    if at == 0:
        words.append(f"use smaller mus: down to about {least:.2g} they would clear the noise")
    elif found.levels[at - 1].apart <= AGREE:
        words.append(f"or use --mu {least:.2g}: it would clear the noise, and slopes agree around it")
    elif found.dtype == "float32":
        words.append(f"smaller mus drown in rounding; use a batch larger than {found.batch}")
    return words


def _words_for_finer(found: Probe, slope: float) -> list[str]:
    """For other dtypes, advise float32 and the smallest probed μ that would then clear the noise."""
    if found.dtype == "float32":
        return []
    least = _least_mu(found.noise / FINER, slope)
    mu = next((level.mu for level in found.levels[:-1] if level.mu >= least), None)
    then = "" if mu is None else f"; mu = {mu:.3g} should then do, if the loss is linear there"
    return [f"use float32: its rounding is at least {FINER:g} × finer{then}"]


def _least_mu(noise: float, slope: float) -> float:
    """The μ at which 2μ · slope is 20 times √2 σ, the rounding of a difference."""
    return ENOUGH * math.sqrt(2) * noise / (2 * slope) if slope else math.inf
