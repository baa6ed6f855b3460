"""The queries of a round as forwards of the backbone: all adapters in one, or one by one."""

from typing import Any

import numpy as np
import torch

from zocosmo.llm.backbone import ByPoints
from zocosmo.llm.batches import Index
from zocosmo.llm.sampling import Sampler, is_even
from zocosmo.llm.subject import Subject
from zocosmo.oracle import Query, Values, same_question
from zocosmo.torch.aside import to_device
from zocosmo.torch.lifted import DeviceLift, LiftedRows
from zocosmo.torch.rows import Rows, both_points

Found = tuple[torch.Tensor, torch.Tensor | None]  # mean losses; coordinates of x (rows, q), None for all


class Forwards:
    """Mean losses of the adapters of some rows on their examples of a round.

    States are `Rows` on the device, `LiftedRows`, or an array that is copied to it. The K directions of a
    query share a row's batch: each has the k-th of K blocks of it.
    """

    def __init__(self, subject: Subject, sampler: Sampler, shape: tuple[int, ...], size: int) -> None:
        self.subject, self.sampler, self.shape, self.size = subject, sampler, shape, size  # size: all rows
        self._shifts: tuple[Query, torch.Tensor] | None = None  # prepared for the next round
        self._lifted: tuple[DeviceLift, ByPoints] | None = None  # the last replayed

    @property
    def is_fused(self) -> bool:
        return self.subject.setting.queries == "fused"

    def losses(self, x: Any, t: int, rows: Index, part: tuple[int, int] = (0, 1)) -> torch.Tensor:
        """Mean losses at the states themselves, on a part (k, of) of the examples."""
        adapters = self._tensor(x)[torch.from_numpy(rows)].float()
        return self.ask(adapters, t, rows) if part == (0, 1) else self._ask_part(adapters, t, rows, *part)

    def both_sides(self, query: Query, t: int, rows: Index) -> Found:
        """Mean losses at x + μu of the rows, then at x − μu, each (rows, K); and the coordinates of u."""
        u, held, each = query.u, query.x, len(query.directions)
        if not len(rows):  # the only node here has no partner in this round
            return torch.empty(0), None
        replays = self.is_fused and len(rows) == self.size and is_even(self.subject.setting.batch, each)
        if isinstance(held, LiftedRows):
            return self._both_lifted(query, t, rows, replays=replays)
        if isinstance(held, Rows) and u.q < self.subject.d and replays:
            (x, owed), at = held.debt(u), held.places(u)
            batch = self.sampler.batch(t, rows, 2)
            return self.subject.backbone.both(x, at, self._shift(query), batch, owed), at
        x, at_some, shift = self._shifted(query, rows)
        if at_some is None:
            x = x.repeat_interleave(each, dim=0)
            return self.ask(torch.cat([x + shift, x - shift]).float(), t, rows, times=2), None
        if not self.is_fused or not is_even(self.subject.setting.batch, each):
            return self.ask(both_points(x, at_some, shift), t, rows, times=2), at_some
        return self.subject.backbone.both(x, at_some, shift, self.sampler.batch(t, rows, 2)), at_some

    def look_ahead(self, coming: Query, query: Query, rows: Index) -> None:
        """Prepare the shifts and the forward inputs of the next round while `query` runs."""
        held, ready = query.x, self.sampler.ready
        if isinstance(held, LiftedRows):
            shifts = held.prepare(coming.directions, coming.mu)
            if ready is not None and self._lifted is not None and len(rows) == self.size:
                self._lifted[1].load(held.tensor(), *shifts, ready.batch)
            return
        if not isinstance(held, Rows):
            return
        at, shift = held.places(coming.u), self._shift(coming)
        self._shifts = coming, shift
        if ready is not None and len(rows) == self.size:
            x, owed = held.debt_after(query.u)
            self.subject.backbone.replay_both.load(x, at, shift, *owed, ready.batch)

    def ask(self, adapters: torch.Tensor, t: int, rows: Index, times: int = 1) -> torch.Tensor:
        """Mean losses of adapters on their rows' examples of round t, each row `times` times.

        K adapters of each row, one after the other, have the K blocks of its examples.
        """
        backbone = self.subject.backbone
        if not len(rows):
            return torch.empty(0)
        of = len(adapters) // (times * len(rows))
        if self.is_fused:
            losses, _ = backbone.losses(adapters, self.sampler.batch(t, rows, times, of))
            return self.sampler.means(losses.view(len(adapters), -1), of)
        batches = self.sampler.each(t, rows, of)
        pairs = zip(adapters[:, None], batches * times, strict=True)
        return torch.stack([backbone.losses(adapter, batch)[0].mean() for adapter, batch in pairs])

    def _ask_part(self, adapters: torch.Tensor, t: int, rows: Index, k: int, of: int) -> torch.Tensor:
        batches = self.sampler.each(t, rows, of)[k::of]
        pairs = zip(adapters[:, None], batches, strict=True)
        return torch.stack([self.subject.backbone.losses(one, batch)[0].mean() for one, batch in pairs])

    def _both_lifted(self, query: Query, t: int, rows: Index, *, replays: bool) -> Found:
        """Lift z of all rows and directions on the device: within the forward if it can be replayed."""
        held: LiftedRows = query.x
        lift, (axes, signs, mu) = held.device_lift, held.shifts(query.directions, query.mu)
        if replays:
            batch = self.sampler.batch(t, rows, 2)
            return self._of_lifted(lift)(held.tensor(), axes, signs, mu, batch), lift.at(axes)
        points = lift.points(held.tensor(), axes, signs, mu)
        kept = torch.from_numpy(rows).to(points.device)
        some = points.view(2, self.size, len(query.directions), -1)[:, kept]
        return self.ask(some.flatten(0, 2), t, rows, times=2), lift.at(axes)[kept]

    def _of_lifted(self, lift: DeviceLift) -> ByPoints:
        if self._lifted is None or self._lifted[0] is not lift:
            self._lifted = lift, ByPoints(self.subject.backbone, lift.points)
        return self._lifted[1]

    def _shifted(self, query: Query, rows: Index) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """x of the rows on the device, the coordinates of u (None: all), and the shifts (rows · K, q)."""
        u, x, held = query.u, self._tensor(query.x), query.x
        shift, at = self._shift(query).to(x.dtype), None
        if u.q < self.subject.d:
            wide = np.broadcast_to(u.index, (*self.shape, u.q)).reshape(-1, u.q)
            at = held.places(u) if isinstance(held, Rows) else self._moved(wide)
        if len(rows) == self.size:
            return x, at, shift
        kept = torch.from_numpy(rows).to(x.device)
        by_row = shift.view(self.size, -1, u.q)
        return x[kept], None if at is None else at[kept], by_row[kept].flatten(0, 1)

    def _shift(self, query: Query) -> torch.Tensor:
        """μ ε of every row and direction, (rows · K, q) on the device."""
        if self._shifts is not None and same_question(self._shifts[0], query):
            return self._shifts[1]
        q, each = query.u.q, [one.shift() for one in query.each()]
        wide = np.broadcast_to(np.stack(each, axis=-2), (*self.shape, len(each), q))
        return self._moved(wide.reshape(-1, q))

    def _tensor(self, x: Any) -> torch.Tensor:
        """States as rows on the device, with their dtype."""
        return x.tensor if isinstance(x, Rows) else self._moved(np.asarray(x).reshape(-1, self.subject.d))

    def _moved(self, array: Values) -> torch.Tensor:
        return to_device(array, self.subject.backbone.device)
