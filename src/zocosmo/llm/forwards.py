"""The queries of a round as forwards of the backbone: all adapters in one, or one by one."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from zocosmo.core.support import Direction, same_draw
from zocosmo.llm.backbone import both_points
from zocosmo.llm.sampling import Index, Sampler
from zocosmo.llm.subject import Subject
from zocosmo.oracle import Query
from zocosmo.torch.aside import to_device
from zocosmo.torch.rows import Rows

Values = NDArray[Any]


class Forwards:
    """Mean losses of the adapters of some rows on their examples of a round.

    States are rows on the device (`Rows`), or an array that is copied there.
    """

    def __init__(self, subject: Subject, sampler: Sampler, shape: tuple[int, ...], size: int) -> None:
        self.subject, self.sampler, self.shape, self.size = subject, sampler, shape, size  # size: all rows
        self._shifts: tuple[Direction, float, torch.Tensor] | None = None  # prepared for the next round

    @property
    def is_fused(self) -> bool:
        return self.subject.setting.queries == "fused"

    def losses(self, x: Any, t: int, rows: Index) -> torch.Tensor:
        """Mean losses at the states themselves."""
        return self.ask(self._tensor(x)[torch.from_numpy(rows)].float(), t, rows)

    def both_sides(self, query: Query, t: int, rows: Index) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Mean losses of the rows at x + μu, then at x − μu; and the coordinates that were asked about,
        (rows, q), None for all of them."""
        u, held = query.u, self._held(query.x)
        if held is not None and u.q < self.subject.d and self.is_fused and len(rows) == self.size:
            (x, owed), at = held.debt(u), held.places(u)
            batch = self.sampler.batch(t, rows, 2)
            return self.subject.backbone.both(x, at, self._shift(query), batch, owed), at
        x, at_some, shift = self._shifted(query, rows)
        if at_some is None:
            return self.ask(torch.cat([x + shift, x - shift]).float(), t, rows, times=2), None
        if not self.is_fused or len(rows) == 0:
            return self.ask(both_points(x, at_some, shift), t, rows, times=2), at_some
        return self.subject.backbone.both(x, at_some, shift, self.sampler.batch(t, rows, 2)), at_some

    def look_ahead(self, coming: Query, query: Query, rows: Index) -> None:
        """Prepare the shifts of the next round, and what a recorded forward will read, while `query` runs."""
        held = self._held(query.x)
        if held is None:
            return
        at, shift = held.places(coming.u), self._shift(coming)
        self._shifts = coming.u, coming.mu, shift
        if self.sampler.ready is not None and len(rows) == len(shift):
            x, owed = held.debt_after(query.u)
            self.subject.backbone.both_ahead(x, at, shift, self.sampler.ready.batch, owed)

    def ask(self, adapters: torch.Tensor, t: int, rows: Index, times: int = 1) -> torch.Tensor:
        """Mean losses of adapters on their rows' examples of round t, several times over."""
        backbone = self.subject.backbone
        if not len(rows):  # the only node here has no partner in this round
            return torch.empty(0)
        if self.is_fused:
            losses, _ = backbone.losses(adapters, self.sampler.batch(t, rows, times))
            return losses.view(len(adapters), -1).mean(dim=1)
        batches = self.sampler.each(t, rows)
        each = [
            backbone.losses(adapters[k : k + 1], batches[k % len(rows)])[0].mean()
            for k in range(len(adapters))
        ]
        return torch.stack(each)

    def _shifted(self, query: Query, rows: Index) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """x of the rows on the device, the coordinates that are asked about (None: all), and the shifts."""
        u, x, held = query.u, self._tensor(query.x), self._held(query.x)
        shift, at = self._shift(query).to(x.dtype), None
        if u.q < self.subject.d:
            wide = np.broadcast_to(u.index, (*self.shape, u.q)).reshape(-1, u.q)
            at = self._moved(wide) if held is None else held.places(u)
        if len(rows) == self.size:
            return x, at, shift
        kept = torch.from_numpy(rows).to(x.device)
        return x[kept], None if at is None else at[kept], shift[kept]

    def _shift(self, query: Query) -> torch.Tensor:
        """μ ε of every row, on the device."""
        made = self._shifts
        if made is not None and same_draw(made[0], query.u) and made[1] == query.mu:
            return made[2]
        wide = (*self.shape, query.u.q)
        return self._moved(np.broadcast_to(query.shift(), wide).reshape(-1, query.u.q))

    def _tensor(self, x: Any) -> torch.Tensor:
        """States as rows on the device, in the type they have."""
        held = self._held(x)
        return held.tensor if held is not None else self._moved(np.asarray(x).reshape(-1, self.subject.d))

    @staticmethod
    def _held(x: Any) -> Rows | None:
        """The states, where they are on the device already."""
        return x if isinstance(x, Rows) else None

    def _moved(self, array: Values) -> torch.Tensor:
        return to_device(array, self.subject.backbone.device)
