"""Every method written a second time, message by message, from the paper.

A node is an object that knows its own state, the tape, the graph and the bytes it received. An oracle for the
tests of the batched engine: plain and slow on purpose, and compared with `==`, so each line of arithmetic
stands in the order that the engine promises. Sums run over nodes in ascending order.
"""

import math
from typing import NamedTuple

import numpy as np

from zocosmo.core import (
    CODECS,
    FRAME_BITS,
    VALUE_TYPES,
    Message,
    Tape,
    balanced_support,
    draw_signs,
    draw_support,
)
from zocosmo.core.levels import LEVEL
from zocosmo.core.message import Codec
from zocosmo.core.payload import Bits
from zocosmo.core.values import ValueType
from zocosmo.errors import InputError, check_known
from zocosmo.graphs import SCHEDULES, Graph, metropolis

STATE_TYPES = {"float64": "f64", "float32": "f32", "float16": "f16"}
NEUTRAL = {"beta": 0.0, "passes": 1, "balanced": False}  # what a method that leaves them out does
NEUTRAL |= {"directions": 1, "signs": "independent", "sides": 2, "step_rule": "plain"}


class Literal(NamedTuple):
    states: list  # (n, d) after each round
    bits: dict  # (sender, receiver) → Bits, for every link of the graph
    queries: list  # by node
    messages: list  # (t, sender, receiver, bytes) in the order in which they crossed


class Sent(NamedTuple):
    """Bytes for a peer, and what their price is computed from."""

    receiver: int
    codec: Codec
    size: int
    data: bytes
    value: ValueType | None = None  # what it is charged as, where that is not the wire's


class Wire(NamedTuple):
    carried: ValueType
    charged: ValueType
    lossy: bool

    @classmethod
    def of(cls, name, dtype):
        own = VALUE_TYPES[STATE_TYPES[dtype.name]]
        if name == "nominal_f32":
            return cls(own, VALUE_TYPES["f32"], lossy=False)
        check_known("wire", name, VALUE_TYPES)
        return cls(VALUE_TYPES[name], VALUE_TYPES[name], lossy=name != own.name)


class Public:
    """What all nodes know before the first round: the session, and no state of anyone."""

    def __init__(self, method, graph, tape, d, wire, dtype, schedule):
        self.method, self.graph, self.tape, self.d, self.wire, self.dtype = (
            method,
            graph,
            tape,
            d,
            wire,
            dtype,
        )
        self.weights = metropolis(graph).matrix().astype(dtype)
        self.schedule = SCHEDULES[schedule](graph) if schedule else None

    def support(self, t, *ids):
        """The coordinates of a round, of an edge in it, or of a node in it."""
        rule = balanced_support if self.method["balanced"] else draw_support
        return rule(self.tape, t, *ids, d=self.d, q=self.method["q"]).index

    def signs(self, t, *ids, q):
        return draw_signs(self.tape, t, *ids, q=q).astype(self.dtype)

    def vectors(self, t, *ids, q):
        """All K sign vectors on a support: those after the first go on in its stream, or are rows of H."""
        first, count = self.signs(t, *ids, q=q), self.method["directions"]
        if self.method["signs"] == "independent":
            stream = self.tape.coins("sign", t, *ids).signs(q * count)
            more = [stream[k * q : (k + 1) * q] for k in range(1, count)]
        else:
            matrix = sylvester(q)
            rows = some_of(self.tape.coins("rows", t, *ids), len(matrix) - 1, min(count, len(matrix)) - 1)
            more = [first * np.array(matrix[r + 1][:q]) for r in rows]
        return [first, *(signs.astype(self.dtype) for signs in more)]

    def codec(self, size):
        return CODECS["dense" if size == self.d else self.method["codec"]]

    def rounded(self, values):
        """Q(values), back in the state type: what a receiver of these values will read."""
        return self.wire.carried.round(values).astype(self.dtype)

    def pack(self, receiver, index, values):
        codec = self.codec(values.size)
        message = Message(self.wire.carried.round(values), index if codec.field.carries == "index" else None)
        data = codec.encode(message, d=self.d, value=self.wire.carried)
        return Sent(receiver, codec, values.size, data)

    def unpack(self, data, size, on_tape=None):
        """Coordinates and values of a message; the tape is asked only where the bytes do not say."""
        codec = self.codec(size)
        message = codec.decode(data, d=self.d, q=size, value=self.wire.carried)
        index = np.arange(self.d) if codec.name == "dense" else message.index
        return on_tape if index is None else index, message.values.astype(self.dtype)


class Node:
    """One participant: `move` queries and fills `out`, `receive` reads what came, `finish` ends the round."""

    def __init__(self, i, public, query, x):
        self.i, self.public, self.query, self.x = i, public, query, x.copy()
        self.m, self.queries, self.out = np.zeros_like(x), 0, []
        self.n, self.d, self.peers, self.w = (
            public.graph.n,
            x.size,
            public.graph.neighbours[i],
            public.weights[i],
        )
        self.v = 0.0
        names = "q eta mu beta passes coupling psi gamma period sides step_rule"
        for name in names.split():
            setattr(self, name, public.method.get(name))
        for name in ("perturbations", "bits", "sides", "theta", "directions", "hold"):
            setattr(self, name, public.method.get(name))

    def slope(self, t, index, eps):
        """[f(x + μu; ξ) − f(x − μu; ξ)] / 2μ, the difference and the quotient in double"""
        mu, plus, minus = self.x.dtype.type(self.mu), self.x.copy(), self.x.copy()
        plus[index] = self.x[index] + mu * eps
        minus[index] = self.x[index] + (-mu) * eps
        self.queries += 2
        f_plus, f_minus = float(self.query(self.i, plus, t)), float(self.query(self.i, minus, t))
        return self.x.dtype.type((f_plus - f_minus) / (2 * self.mu))

    def forward_slopes(self, t, directions):
        """[f(x + μu; ξ) − f(x; ξ)] / μ along each of several dense directions; f(x; ξ) is asked once."""
        mu, here = self.x.dtype.type(self.mu), float(self.query(self.i, self.x.copy(), t))
        self.queries += 1 + len(directions)
        there = [float(self.query(self.i, self.x + mu * eps, t)) for eps in directions]
        return [self.x.dtype.type((f - here) / self.mu) for f in there]

    def momentum(self, t, index, eps):
        """m on S after this round's estimate   [eq:optional_subspace_momentum]"""
        return self.blended(index, ((self.d / index.size) * self.slope(t, index, eps)) * eps)

    def blended(self, index, g):
        self.m[index] = self.beta * self.m[index] + (1 - self.beta) * g
        return self.m[index]

    def slopes(self, t, index, vectors):
        """One slope for each sign vector; from one side all share f(x), which is asked first."""
        if self.sides == 2:
            return [self.slope(t, index, eps) for eps in vectors]
        here, found = float(self.query(self.i, self.x.copy(), t)), []
        for eps in vectors:
            there = self.x.copy()
            there[index] = self.x[index] + self.x.dtype.type(self.mu) * eps
            found.append(self.x.dtype.type((float(self.query(self.i, there, t)) - here) / self.mu))
        self.queries += 1 + len(vectors)
        return found

    def ask(self, t, index, vectors, peers):
        """The first half of a round: slopes, v, and what peers are told of it before anyone steps."""
        self.index, self.vectors_, self.s = index, vectors, self.slopes(t, index, vectors)
        self.waits = self.step_rule == "normalised"
        if self.step_rule != "plain":
            mean = 0.0
            for s in self.s:
                mean += float(s) * float(s)
            mean /= len(self.s)
            self.v = 0.95 * self.v + 0.05 * mean if self.v else mean
        if not self.waits:
            return self.go(t)
        data = self.level().to_bytes(2, "little", signed=True)
        self.out = [Sent(j, CODECS["values"], 1, data, LEVEL) for j in peers]

    def level(self):
        if not self.v:
            return -(2**15)
        m, e = math.frexp(self.v)
        return max(1 - 2**15, min(2**15 - 1, round((e + (2 * m - 1)) * 256)))

    def told(self, inbox, weights):
        """v from the levels of peers: the mean of logarithms, one number of 1/256 a peer."""
        own = self.level()
        move = 0.0
        for j, data in sorted(inbox):
            theirs = int.from_bytes(data, "little", signed=True)
            if own != -(2**15) != theirs:
                move += float(weights[j]) * (theirs / 256 - own / 256)
        if self.v:
            total = own / 256 + round(move * 2**16) / 2**16
            e = math.floor(total)
            self.v = math.ldexp((total - e + 1) / 2, e)
        self.waits = False

    def estimate(self):
        """ĝ on S of all directions."""
        total = self.s[0] * self.vectors_[0]
        for s, eps in zip(self.s[1:], self.vectors_[1:], strict=True):
            total = total + s * eps
        size = self.index.size * len(self.s)
        if self.step_rule == "plain":
            return total * (self.d / size)
        return total * self.x.dtype.type(1 / math.sqrt(size * self.v) if self.v else 0.0)

    def to_all(self, index, values):
        return [self.public.pack(j, index, values) for j in self.peers]

    def heard(self, data, index):
        """A peer's values at these coordinates; one that its message lacks is nan, so that it shows."""
        where, values = self.public.unpack(data, index.size, on_tape=index)
        full = np.full(self.d, np.nan, self.x.dtype)
        full[where] = values
        return full[index]

    def mixed(self, y, theirs):
        """y_i + Σ_j w_ij (Q(y_j) − Q(y_i)), which keeps the average, and keeps what is equal as it is."""
        own, acc = self.public.rounded(y), y
        for j in sorted(theirs):
            acc = acc + self.w[j] * (theirs[j] - own)
        return acc

    def weighted(self, terms):
        first, *rest = sorted(terms)
        acc = self.w[first] * terms[first]
        for j in rest:
            acc = acc + self.w[j] * terms[j]
        return acc

    def finish(self, t):
        pass


class Cosmo(Node):
    """[alg:zo_cosmo] One support and one sign vector for all; q values to every neighbour, `passes` times."""

    def move(self, t):
        index = self.public.support(t)
        self.ask(t, index, self.public.vectors(t, q=index.size), self.peers)

    def go(self, t):
        self.y = self.x[self.index] - self.eta * self.blended(self.index, self.estimate())
        self.left, self.out = self.passes, self.to_all(self.index, self.y)

    def receive(self, t, inbox):
        if self.waits:
            self.told(inbox, self.w)
            return self.go(t)
        self.y = self.mixed(self.y, {j: self.heard(data, self.index) for j, data in inbox})
        self.left -= 1
        if self.left:
            self.out = self.to_all(self.index, self.y)

    def finish(self, t):
        self.x[self.index] = self.y


class EdgeLocal(Node):
    """[alg:edge_local_cosmo] A matched pair shares support and signs and averages; who is unmatched rests."""

    def move(self, t):
        j = int(self.public.schedule.partners(self.public.tape, t)[self.i])
        if j == self.i:
            return
        pair = min(self.i, j), max(self.i, j)
        index = self.public.support(t, *(pair if self.coupling == "I" else ()))
        vectors = self.public.vectors(t, *(() if self.coupling == "G" else pair), q=index.size)
        self.partner = j
        self.ask(t, index, vectors, [j])

    def go(self, t):
        self.y = self.x[self.index] - self.eta * self.blended(self.index, self.estimate())
        self.out = [self.public.pack(self.partner, self.index, self.y)]

    def receive(self, t, inbox):
        if self.waits:
            self.told(inbox, {self.partner: 0.5})
            return self.go(t)
        ((_, data),) = inbox
        y, theirs = self.y, self.heard(data, self.index)
        if self.public.wire.lossy:
            self.x[self.index] = y + 0.5 * (theirs - self.public.rounded(y))
        else:
            self.x[self.index] = (y + theirs) / 2


class RandK(Node):
    """x_i = y_i + P_i Σ_j w_ij P_j (y_j − y_i): each node has a support of its own, mixed where two meet."""

    def move(self, t):
        index = self.public.support(t, self.i)
        self.ask(t, index, self.public.vectors(t, self.i, q=index.size), self.peers)

    def go(self, t):
        y = self.x[self.index] - self.eta * self.blended(self.index, self.estimate())
        self.x[self.index] = y
        self.out = self.to_all(self.index, y)

    def receive(self, t, inbox):
        if self.waits:
            self.told(inbox, self.w)
            return self.go(t)
        own = self.public.rounded(self.x[self.index])
        for j, data in sorted(inbox):
            where, theirs = self.public.unpack(data, self.index.size, on_tape=self.public.support(t, j))
            both, here, there = np.intersect1d(self.index, where, return_indices=True)
            self.x[both] = self.x[both] + self.w[j] * (theirs[there] - own[here])


class Dense(Node):
    """x_i = Σ_j w_ij y_j on all d coordinates, each node with signs of its own."""

    def move(self, t):
        self.ask(t, np.arange(self.d), self.public.vectors(t, self.i, q=self.d), self.peers)

    def go(self, t):
        self.x = self.x - self.eta * self.estimate()
        self.out = self.to_all(self.index, self.x)

    def receive(self, t, inbox):
        if self.waits:
            self.told(inbox, self.w)
            return self.go(t)
        self.x = self.mixed(self.x, {j: self.public.unpack(data, self.d)[1] for j, data in inbox})


class ComDszo(Node):
    """[eq:com_dszo_instantiation] Top-q innovations Q, an estimate x̂ of x, accumulated disagreement B."""

    def __init__(self, i, public, query, x):
        super().__init__(i, public, query, x)
        if public.codec(self.q).field.carries != "index" and self.q < self.d:
            raise InputError(f"codec {public.method['codec']!r} hides Top-q's coordinates; choose 'indexed'")
        self.x_hat, self.B = x.copy(), np.zeros_like(x)
        self.top()

    def top(self):
        """The q largest magnitudes of x − x̂, ties to the lowest coordinate: a stable sort, largest first."""
        innovation = self.x - self.x_hat
        self.index = np.sort(np.argsort(-np.abs(innovation), kind="stable")[: self.q])
        self.values = innovation[self.index]

    def lift(self, index, values):
        full = np.zeros_like(self.x)
        full[index] = values
        return full

    def move(self, t):
        eps = self.public.signs(t, self.i, q=self.d)
        self.g = self.slope(t, np.arange(self.d), eps) * eps
        self.Q = {self.i: self.lift(self.index, self.public.rounded(self.values))}
        self.out = self.to_all(self.index, self.values)

    def receive(self, t, inbox):
        self.Q |= {j: self.lift(*self.public.unpack(data, self.q)) for j, data in inbox}

    def finish(self, t):
        Q, WQ = self.Q[self.i], self.weighted(self.Q)
        self.x_hat = self.x_hat + self.psi * Q
        self.B = self.B + self.psi * (Q - WQ)
        self.x = (self.x - self.gamma * self.B) - self.eta * self.g
        self.top()


class MarinaType(Node):
    """[alg:appendix_marina_like] Everyone applies everyone's momentum; all d coordinates every `period`."""

    def __init__(self, i, public, query, x):
        super().__init__(i, public, query, x)
        if len(self.peers) != self.n - 1:
            raise InputError(f"marina_type needs a complete graph, got {public.graph!r}; use complete(n)")

    def support(self, t, i):
        return np.arange(self.d) if t % self.period == 0 else self.public.support(t, i)

    def move(self, t):
        index = self.support(t, self.i)
        m = self.momentum(t, index, self.public.signs(t, self.i, q=index.size))
        self.h = {self.i: (index, self.public.rounded(m))}
        self.out = self.to_all(index, m)

    def receive(self, t, inbox):
        size = self.h[self.i][0].size
        self.h |= {j: self.public.unpack(data, size, on_tape=self.support(t, j)) for j, data in inbox}

    def finish(self, t):
        total = np.zeros_like(self.x)
        for _, (index, h) in sorted(self.h.items()):
            total[index] += h
        self.x = self.x - (self.eta / self.n) * total


class RandKAverage(MarinaType):
    """Averaged sparse updates of the two-worker tables: as above, and never dense."""

    def support(self, t, i):
        return self.public.support(t, i)


class Flood(Node):
    """Seed–scalar flooding: every slope reaches every node over a spanning tree, relayed as received."""

    def __init__(self, i, public, query, x):
        super().__init__(i, public, query, x)
        self.peers = tree_peers(public.graph)[i]
        self.codec, self.value = CODECS["seed_scalar"], public.wire.carried

    def move(self, t):
        eps = self.public.signs(t, self.i, q=self.d)
        scalar = np.array([self.slope(t, np.arange(self.d), eps)])
        self.s = {self.i: self.public.rounded(scalar)[0]}
        message = Message(self.value.round(scalar), seed=self.i)
        data = self.codec.encode(message, d=self.d, value=self.value)
        self.out = [Sent(j, self.codec, 1, data) for j in self.peers]

    def receive(self, t, inbox):
        for sender, data in inbox:
            message = self.codec.decode(data, d=self.d, q=1, value=self.value)
            self.s[message.seed] = message.values.astype(self.x.dtype)[0]
            self.out += [Sent(j, self.codec, 1, data) for j in self.peers if j != sender]

    def finish(self, t):
        first, *rest = (self.s[j] * self.public.signs(t, j, q=self.d) for j in sorted(self.s))
        total = first
        for term in rest:
            total = total + term
        self.x = self.x - (self.eta / self.n) * total


class Residues(NamedTuple):
    """Integers modulo 2^b, written two bytes each and charged b bits each."""

    width: int

    def bits(self, d, q, value):
        return Bits(values=self.width * q).padded()

    def pack(self, receiver, k):
        return Sent(receiver, self, len(k), np.array(k, "<u2").tobytes())


def public_dither(tape, label, *ids, size):
    """Odd multiples of 2⁻¹⁷, a 16-bit word of the tape each."""
    data = tape.coins(label, *ids).bytes(2 * size).tobytes()
    return [(2 * int.from_bytes(data[2 * k : 2 * k + 2], "little") + 1) / 2**17 for k in range(size)]


class InTree(Node):
    """Sums go up the breadth-first tree of node 0, and the root's come down."""

    def __init__(self, i, public, query, x):
        super().__init__(i, public, query, x)
        peers = tree_peers(public.graph)
        towards, queue = {0: None}, [0]
        for j in queue:
            below = [k for k in peers[j] if k not in towards]
            towards |= dict.fromkeys(below, j)
            queue += below
        self.parent, self.children = towards[i], [j for j in peers[i] if towards[j] == i]

    def add_up(self, own):
        self.own, self.heard_from = own, {}
        self.send_up()

    def send_up(self):
        if set(self.heard_from) < set(self.children):
            return
        self.sum = list(self.own)
        for j in sorted(self.children, reverse=True):
            self.sum = [a + b for a, b in zip(self.sum, self.heard_from[j], strict=True)]
        if self.parent is None:
            self.spread(self.pack(0, self.sum).data)
        else:
            self.out = [self.pack(self.parent, self.sum)]

    def receive(self, t, inbox):
        for j, data in inbox:
            if j == self.parent:
                self.spread(data)
            else:
                self.heard_from[j] = self.unpack(data)
                self.send_up()

    def spread(self, data):
        self.total = self.unpack(data)
        self.out += [self.pack(j, self.total)._replace(data=data) for j in self.children]

    def pack(self, receiver, values):
        carried, size = self.public.wire.carried, len(values)
        message = Message(carried.round(np.array(values, self.x.dtype)))
        data = CODECS["values"].encode(message, d=size, value=carried)
        return Sent(receiver, CODECS["values"], size, data)

    def unpack(self, data):
        size = len(self.own)
        message = CODECS["values"].decode(data, d=size, q=size, value=self.public.wire.carried)
        return list(message.values.astype(self.x.dtype))


class TreeMean(InTree):
    """K numbers in L rounds: each node walks in the span of the same directions, then all walk the mean."""

    def move(self, t):
        e, last = divmod(t, self.hold)
        index = self.public.support(e)
        vectors = self.public.vectors(e, q=index.size)
        s, q, K = self.slopes(t, index, vectors), index.size, len(vectors)
        if last == 0:
            self.held, self.moved = self.x[index].copy(), [self.x.dtype.type(0)] * K
        self.moved = [
            c + -self.eta * ((self.d / (q * K)) * each) for c, each in zip(self.moved, s, strict=True)
        ]
        self.at, self.along_, self.total = index, vectors, self.moved
        if last == self.hold - 1:
            self.add_up(self.moved)

    def finish(self, t):
        meets = (t + 1) % self.hold == 0
        c = [each / self.n for each in self.total] if meets else self.total
        moved = c[0] * self.along_[0]
        for one, eps in zip(c[1:], self.along_[1:], strict=True):
            moved = moved + one * eps
        self.x[self.at] = self.held + moved


class TreeSum(InTree):
    """The same directions for all; sums modulo 2^b."""

    square = 0.0

    def move(self, t):
        P = range(self.perturbations)
        self.z, every = [self.public.signs(t, p, q=self.d) for p in P], np.arange(self.d)
        s = self.forward_slopes(t, self.z) if self.sides == 1 else [self.slope(t, every, z) for z in self.z]
        self.floats = t == 0 or self.bits == 32
        self.scale = 0.0
        if not self.floats:
            exponent = math.frexp(4.0 * math.sqrt(self.square))[1]
            least = 2.0**-60
            self.scale = max(math.ldexp(1.0, exponent - (self.bits - 1)), least) if self.square else least
            r = public_dither(self.public.tape, "tree dither", t, self.i, size=len(s))
            s = [math.floor(float(one) / self.scale + shift) for one, shift in zip(s, r, strict=True)]
        self.add_up(s)

    def pack(self, receiver, values):
        if not self.floats:
            return Residues(self.bits).pack(receiver, [k % 2**self.bits for k in values])
        sent = super().pack(receiver, values)
        if self.bits == 32:
            return sent
        words = -(-self.public.wire.charged.bits // self.bits)
        return Sent(receiver, Residues(self.bits), len(values) * words, sent.data)

    def unpack(self, data):
        return super().unpack(data) if self.floats else np.frombuffer(data, "<u2").tolist()

    def finish(self, t):
        if not self.floats:
            self.total = [self.scale * k for k in self.nearest(t)]
        P, n = self.perturbations, self.n
        step = sum((self.x.dtype.type(T) * z for T, z in zip(self.total[1:], self.z[1:], strict=True)),
                   self.x.dtype.type(self.total[0]) * self.z[0])  # fmt: skip
        self.x = self.x - (self.eta / (n * P)) * step
        seen = sum(float(T) * float(T) for T in self.total) / P
        seen = max(seen - n * self.scale * self.scale / 12, seen / 4)
        self.square = 0.9 * self.square + (1 - 0.9) * seen if t else seen

    def nearest(self, t):
        """Each K + N/2 − Σ r, in [−2^(b−1), 2^(b−1)): numbers of few bits, so that nothing rounds."""
        half, P = 2 ** (self.bits - 1), self.perturbations
        r = [public_dither(self.public.tape, "tree dither", t, j, size=P) for j in range(self.n)]
        shifts = [self.n / 2 - sum(own[p] for own in r) for p in range(P)]
        return [(k + shift + half) % (2 * half) - half for k, shift in zip(self.total, shifts, strict=True)]


class Moniqua(Node):
    """States modulo B in b bits; the receiver takes the copy that is nearest to its own state."""

    def move(self, t):
        eps = self.public.signs(t, self.i, q=self.d)
        self.g = self.slope(t, np.arange(self.d), eps) * eps
        self.delta = 2 * self.theta / (2**self.bits - 1)
        r = public_dither(self.public.tape, "moniqua", t, size=self.d)
        self.at = [float(x) / self.delta + shift for x, shift in zip(self.x, r, strict=True)]
        self.k = [math.floor(each) for each in self.at]
        residues = [k % 2**self.bits for k in self.k]
        self.moved = [0.0] * self.d
        self.out = [Residues(self.bits).pack(j, residues) for j in self.peers]

    def receive(self, t, inbox):
        for j, data in sorted(inbox):
            for c, residue in enumerate(np.frombuffer(data, "<u2").tolist()):
                whole, here = 2**self.bits, self.at[c] - 0.5
                copy = residue + whole * math.floor((here - residue) / whole + 0.5)
                self.moved[c] += metropolis(self.public.graph).matrix()[self.i, j] * (copy - self.k[c])

    def finish(self, t):
        moved = (self.gamma * self.delta) * np.array(self.moved)
        self.x = (self.x + moved.astype(self.x.dtype)) - self.eta * self.g


class Fzoo(Node):
    """Alone: K one-sided slopes, over their standard deviation."""

    def move(self, t):
        K, dtype = self.directions, self.x.dtype.type
        u = [self.public.signs(t, self.i, k, q=self.d) for k in range(K)]
        s = self.forward_slopes(t, u)
        mean = sum(s, dtype(0)) / dtype(K)
        square = sum(((one - mean) * (one - mean) for one in s), dtype(0)) / dtype(K - 1)
        if square > 0:
            weights = [one / (dtype(K) * np.sqrt(square)) for one in s]
            self.x = self.x - self.eta * sum(
                (w * z for w, z in zip(weights[1:], u[1:], strict=True)), weights[0] * u[0]
            )


def tree_peers(graph):
    """Each node's peers in the breadth-first spanning tree of node 0, ascending."""
    peers, queue = {0: []}, [0]
    for i in queue:  # grows while it is read
        for j in graph.neighbours[i]:
            if j not in peers:
                peers[i].append(j)
                peers[j] = [i]
                queue.append(j)
    return {i: sorted(each) for i, each in peers.items()}


def sylvester(q):
    """The Hadamard matrix of the least power of two that is at least q: H, then (H H; H −H) of it."""
    matrix = [[1]]
    while len(matrix) < q:
        matrix = [row + row for row in matrix] + [row + [-sign for sign in row] for row in matrix]
    return matrix


def some_of(coins, n, k):
    """k of 0…n−1, ascending: the first distinct words mod n that are not too large, or all but the first."""
    fewer, taken, count = (k if 2 * k <= n else n - k), set(), 64
    while len(taken) < fewer:
        words, taken, count = coins.words(count).tolist(), set(), 2 * count
        for word in words:
            if word < 2**64 - 2**64 % n and len(taken) < fewer:
                taken.add(word % n)
    return sorted(taken) if 2 * k <= n else [r for r in range(n) if r not in taken]


KINDS = {
    "cosmo": Cosmo,
    "edge_local": EdgeLocal,
    "rand_k": RandK,
    "rand_k_average": RandKAverage,
    "dense": Dense,
    "com_dszo": ComDszo,
    "marina_type": MarinaType,
    "flood": Flood,
    "tree_sum": TreeSum,
    "tree_mean": TreeMean,
    "moniqua": Moniqua,
    "fzoo": Fzoo,
}


def run_literal(
    method: dict, graph: Graph, query, x0, *, seed, rounds, wire="f64", dtype=np.float64, schedule=None
) -> Literal:
    """All rounds of one method. x0 is the common start (d,), or (n, d) where each node has its own."""
    check_known("method", method["kind"], KINDS)
    if method["kind"] == "edge_local":
        check_known("schedule", schedule, SCHEDULES)
    dtype, d = np.dtype(dtype), np.shape(x0)[-1]
    starts = np.broadcast_to(np.asarray(x0, dtype), (graph.n, d))
    public = Public({**NEUTRAL, **method}, graph, Tape(seed), d, Wire.of(wire, dtype), dtype, schedule)
    nodes = [KINDS[method["kind"]](i, public, query, starts[i]) for i in range(graph.n)]
    run = Literal([], dict.fromkeys(graph.links, Bits()), [], [])
    with np.errstate(over="ignore", invalid="ignore"):  # a run that diverges is a result too
        for t in range(rounds):
            one_round(t, nodes, run)
    run.queries.extend(node.queries for node in nodes)
    return run


def one_round(t, nodes, run):
    """All query, then all send and all receive until nobody has anything to say."""
    for node in nodes:
        node.move(t)
    while any(node.out for node in nodes):
        inboxes = [[] for _ in nodes]
        for node in nodes:
            for sent in node.out:
                link, value = (node.i, sent.receiver), sent.value or node.public.wire.charged
                cost = sent.codec.bits(node.d, sent.size, value).plus(FRAME_BITS)
                run.bits[link] = run.bits[link].plus(cost)
                run.messages.append((t, *link, sent.data))
                inboxes[sent.receiver].append((node.i, sent.data))
            node.out = []
        for node, inbox in zip(nodes, inboxes, strict=True):
            if inbox:
                node.receive(t, inbox)
    for node in nodes:
        node.finish(t)
    run.states.append(np.stack([node.x for node in nodes]))
