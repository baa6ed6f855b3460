"""The queries of a round as forwards of the backbone: all adapters in one, or one by one."""

from typing import Any

import numpy as np
import torch

from zocosmo.core.support import Direction, same_draw
from zocosmo.llm.backbone import both_points
from zocosmo.llm.batches import Index
from zocosmo.llm.sampling import Sampler
from zocosmo.llm.subject import Subject
from zocosmo.oracle import Query, Values
from zocosmo.torch.aside import to_device
from zocosmo.torch.rows import Rows


class Forwards:
    """Mean losses of the adapters of some rows on their examples of a round.

    States are `Rows` on the device, or an array that is copied to it.
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
        """Mean losses at x + μu of the rows, then at x − μu; and u's coordinates (rows, q), None for all."""
        u, held = query.u, query.x
        if isinstance(held, Rows) and u.q < self.subject.d and self.is_fused and len(rows) == self.size:
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
        """Prepare the shifts and the forward inputs of the next round while `query` runs."""
        held = query.x
        if not isinstance(held, Rows):
            return
        at, shift = held.places(coming.u), self._shift(coming)
        self._shifts = coming.u, coming.mu, shift
        if self.sampler.ready is not None and len(rows) == len(shift):
            x, owed = held.debt_after(query.u)
            self.subject.backbone.replay_both.load(x, at, shift, *owed, self.sampler.ready.batch)

    def ask(self, adapters: torch.Tensor, t: int, rows: Index, times: int = 1) -> torch.Tensor:
        """Mean losses of adapters on their rows' examples of round t, each row `times` times."""
        backbone = self.subject.backbone
        if not len(rows):  # the only node here has no partner in this round
            return torch.empty(0)
        if self.is_fused:
            losses, _ = backbone.losses(adapters, self.sampler.batch(t, rows, times))
            return losses.view(len(adapters), -1).mean(dim=1)
        batches = self.sampler.each(t, rows)
        pairs = zip(adapters[:, None], batches * times, strict=True)
        return torch.stack([backbone.losses(adapter, batch)[0].mean() for adapter, batch in pairs])

    def _shifted(self, query: Query, rows: Index) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor]:
        """x of the rows on the device, the coordinates of u (None: all), and the shifts."""
        u, x, held = query.u, self._tensor(query.x), query.x
        shift, at = self._shift(query).to(x.dtype), None
        if u.q < self.subject.d:
            wide = np.broadcast_to(u.index, (*self.shape, u.q)).reshape(-1, u.q)
            at = held.places(u) if isinstance(held, Rows) else self._moved(wide)
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
        """States as rows on the device, with their dtype."""
        return x.tensor if isinstance(x, Rows) else self._moved(np.asarray(x).reshape(-1, self.subject.d))

    def _moved(self, array: Values) -> torch.Tensor:
        return to_device(array, self.subject.backbone.device)
