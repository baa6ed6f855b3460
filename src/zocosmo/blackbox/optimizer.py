"""One run on a user's own losses, round by round: ask and tell, or with an oracle."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from zocosmo.blackbox.asked import Asked, where_asked
from zocosmo.blackbox.engine import Engine
from zocosmo.blackbox.questions import (
    Question,
    Singles,
    as_id,
    calls_of,
    graph_entry,
    method_entry,
    read_graph,
    read_method,
    read_run,
    schedule_entry,
    write_run,
)
from zocosmo.errors import InputError
from zocosmo.oracle import (
    Arrays,
    Mask,
    Oracle,
    Query,
    Values,
)


class Ask(NamedTuple):
    """A part of the query of round `round`: f_i at these points of every active node.

    With two sides there is a part for each direction. With one side the first part is x, and the others are
    one point each.
    """

    round: int
    points: Values  # (2, n, d): x + μu, then x − μu; with one side (1, n, d): x, then x + μu
    active: Mask  # (n,); losses of other nodes are ignored


class Optimizer(Engine):
    """One run of a method over a graph, all nodes in memory; the caller supplies the losses.

    Either `ask` for points and `tell` their losses, or let `advance` query an oracle: the bits are the same.
    Rigs of different speed take `questions` and are told one by one, in any order. `subspace` is the size of
    a public subspace around x0 in which the run moves; points and states have d coordinates all the same.

    Graph and method are objects or names; `given` are fields of a method by name, eta and mu among them. No
    point is ever outside `bounds`; with a `scale` eta and mu are those of z = x/scale [blackbox.place].

    >>> from zocosmo.graphs import ring
    >>> from zocosmo.methods import Cosmo
    >>> run = Optimizer([1.0, 2.0], graph=ring(4), method=Cosmo(q=1, eta=0.1, mu=0.01))
    >>> while run.t < 100:
    ...     run.tell((run.ask().points ** 2).sum(axis=-1))
    >>> bool(np.abs(run.mean).max() < 1e-6), run.bits_per_node, run.nfev
    (True, 12800.0, 800)
    """

    def __init__(self, x0: ArrayLike, **about: Any) -> None:
        super().__init__(x0, **about)
        self._singles = Singles(self.graph.n)
        self._between: Arrays | None = None  # what `save` writes if this round is half told
        self._fed: list[Values] = []  # what was told since then

    def restore(self, arrays: Mapping[str, NDArray[Any]], oracle: Oracle | None = None) -> None:
        super().restore(arrays, oracle)
        self._singles.kept = {}

    def ask(self) -> Ask:
        """The points of this round; the same until their losses are told."""
        query = self._pending()
        if query.sides == 2:
            return Ask(self.t, self._outside(np.stack(query.points())), self._active(query))
        points = query.points()[1 if self._here is None else 0]
        return Ask(self.t, self._outside(points[None]), self._active(query))

    def questions(self, node: int | None = None) -> list[Question]:
        """What is still to be asked of all nodes, or of one, before this query has its answers; points of all
        its directions. A node without questions waits for the others."""
        whole = self._whole()
        active, open_ = self._active(whole), calls_of(whole, len(self._told), self._here is not None)
        nodes = [i for i in np.flatnonzero(active).tolist() if node is None or i == node]
        out = []
        for call in open_ if any(self._singles.is_open(c, i) for c in open_ for i in nodes) else ():
            points = self._outside(self._point(whole, call))
            out += [
                Question(self.t, self._before + call, i, points[i])
                for i in nodes
                if self._singles.is_open(call, i)
            ]
        return out

    def tell(self, values: ArrayLike, question: Question | tuple[int, int, int] | None = None) -> bool | None:
        """Take the losses at the points asked for, (2, n) or (1, n). Refused values change nothing.

        With a question, or its id, take the loss of one node. Then the result says whether it was used: False
        if it came too late, because its round is over or the question was answered before.
        """
        if question is not None:
            return self._tell_one(as_id(question, self.graph.n), values)
        if self._singles.kept:
            raise InputError(f"round {self.t} is told one by one; go on with questions()")
        if self._rounds.asking is None:
            raise InputError(f"nothing has been asked in round {self.t}; call ask() before tell()")
        self._tell_all(np.asarray(values))
        return None

    def _tell_one(self, asked: tuple[int, int, int], value: Any) -> bool:
        t, call, node = asked
        if (t, call) < (self.t, self._before):
            return False
        whole = self._whole()
        calls = calls_of(whole, 0, False)
        if t > self.t or call - self._before not in calls or not self._active(whole)[node]:
            raise InputError(f"question {asked} has not been asked; take one of questions()")
        if call - self._before not in calls_of(whole, len(self._told), self._here is not None):
            return False
        if not self._singles.take((t, call - self._before, node), value):
            return False
        self._feed()
        return True

    def _feed(self) -> None:
        """Hand on the single answers once the pending query has all of them."""
        whole = self._whole()
        calls = calls_of(whole, len(self._told), self._here is not None)
        rows = [self._singles.row(call, self._active(whole)) for call in calls]
        if any(row is None for row in rows):
            return
        self._singles.kept = {}
        step = 2 if whole.sides == 2 else 1
        for k in range(0, len(rows), step):
            self._tell_all(np.stack(rows[k : k + step]))  # type: ignore[arg-type]

    def _tell_all(self, values: Values) -> None:
        query = self._pending()
        active = self._active(query)
        answers = self._checked(values, active, query.sides)
        if not self.is_half_told:
            self._between, self._fed = self._arrays(), []
        self._fed.append(answers)
        with np.errstate(all="ignore"):
            for row in answers:
                self._hear(row, active)
            if query.sides == 1 and self._here is None:
                self._here = answers[0]
                return
            slope = query.slope(answers[0], answers[1] if self._here is None else self._here)
        self._answer(slope)

    def save(self, path: str | Path) -> None:
        """Write all of the run to a file, answers of a round that is half told included."""
        place = None if self.place is None else [self.place.lo.tolist(), self.place.hi.tolist()]
        about = {
            **self._about,
            **{"graph": graph_entry(self.graph), "method": method_entry(self.method), "box": place},
            "schedule": schedule_entry(self.world.chosen),
        }
        arrays = (self._between if self.is_half_told else None) or self._arrays()
        fed = {f"fed.{k}": part for k, part in enumerate(self._fed if self.is_half_told else [])}
        write_run(Path(path), about, {"x0": self._x0, **arrays, **fed, **self._singles.arrays()})

    @classmethod
    def load(cls, path: str | Path) -> "Optimizer":
        """The run that `save` wrote, to the same bits."""
        about, arrays = read_run(Path(path))
        scale, box = arrays.get("place.scale"), about.pop("box")
        bounds = None if box is None else np.stack(box, axis=1)
        made: dict[str, Any] = {
            "graph": read_graph(about.pop("graph")),
            "method": read_method(about.pop("method")),
        }
        run = cls(arrays.pop("x0"), **made, **about, bounds=bounds, scale=scale)
        run.restore(arrays)
        for k in range(sum(name.startswith("fed.") for name in arrays)):
            run._pending()
            run._tell_all(arrays[f"fed.{k}"])
        run._singles.restore(arrays)
        return run

    def _whole(self) -> Query:
        """The pending query along all its directions."""
        query = self._rounds.ask()
        assert query is not None
        if self.place is not None:
            return self._placed(query)
        return query if self.lifting is None else self.lifting.query(query)

    def _point(self, whole: Query, call: int) -> Values:
        """The points of all nodes for one call of a query."""
        if whole.sides == 1:
            one = whole._replace(directions=whole.directions[max(call - 1, 0) :][:1])
            return one.points()[0 if call else 1]
        return whole._replace(directions=whole.directions[call // 2 :][:1]).points()[call % 2]

    def _checked(self, values: Values, active: Mask, sides: int) -> Values:
        shape = sides, self.graph.n
        if values.shape != shape or values.dtype.kind not in "iuf":
            raise InputError(f"tell takes numbers of shape {shape}, got {values.dtype} of {values.shape}")
        for query, node in np.argwhere(~np.isfinite(values) & active).tolist():
            call = query if sides == 2 else int(self._here is not None)
            asked = Asked(node, self.t, f"query {where_asked(call, sides)}")
            raise asked.error(f"the loss is {values[query, node]:g}", "tell a finite number")
        kept: Values = np.where(active, values, 0).astype(np.float64)
        return kept
