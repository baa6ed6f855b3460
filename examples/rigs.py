"""Four rigs, one setting: tune 12 knobs that all share, from noisy readings, without a gradient.

Each rig has an optimum of its own and shows nobody its readings; neighbours on a ring exchange a few values
a round. The best common setting is the average of the four optima. Run it with: python examples/rigs.py
"""

import numpy as np

from zocosmo import minimize, suggest

KNOBS, ROUNDS = 12, 400


class Rig:
    """Reads a loss that is least at an optimum of its own, with noise of 1 %."""

    def __init__(self, number: int) -> None:
        self.noise = np.random.default_rng(number)
        self.optimum = 1.0 + 0.2 * self.noise.standard_normal(KNOBS)

    def __call__(self, x: np.ndarray) -> float:
        gains = np.linspace(1.0, 3.0, KNOBS)
        return float(gains @ (x - self.optimum) ** 2 + 0.01 * self.noise.standard_normal())


def main() -> None:
    rigs = [Rig(number) for number in range(4)]
    best = np.mean([rig.optimum for rig in rigs], axis=0)
    hint = suggest(rigs, np.zeros(KNOBS), wire="f32")
    print(f"Four readings at a time suggest\n  {hint}\n")
    result = minimize(
        rigs, np.zeros(KNOBS), q=hint.q, eta=hint.eta, mu=hint.mu, rounds=ROUNDS, wire="f32", measure=True
    )
    print(result.log.iloc[::8].round(4).to_string(index=False))
    away = float(np.abs(result.x - best).max())
    print(f"\n{result.message} Every knob is within {away:.3f} of the best common setting.")
    print(f"{result.nfev:,} readings; each rig sent {result.bits:,.0f} bits to its two neighbours, where")
    print(f"sending all {KNOBS} knobs would have taken {ROUNDS * 2 * 32 * KNOBS:,}.")


if __name__ == "__main__":
    main()
