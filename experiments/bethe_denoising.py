"""Denoising a 50 x 50 picture by four methods: error, log Z and seconds per iteration (Figures 8.3 and 8.4).

Nodes N(x_u - y_u; 0, 0.01), edges the Laplace potential of x_u - x_v with scale 0.03, constant beyond 0.2.
The source's picture is not given: a square, a disc and a slope of grey, with noise N(0, 0.1^2), stand in.
PBP and EPBP have 100 particles, QBethe one component and 3 nodes ("ours": three components, 5 nodes, means
that start near the noisy pixels); a pixel's value is the mode of its belief. An iteration is a sweep of all
messages, or a gradient step of QBethe. Seconds per iteration are measured in one run, one method after the
other, without compiling and without reading beliefs: wall time, and CPU time of all cores together, because
the particle methods use several and a step of QBethe one.

The source prints seconds: QBethe 0.02, EPBP 50, PBP 305, in MATLAB on one core; for error and log Z it
shows curves: QBethe begins worse than the others and ends better. log Z of QBethe is a lower bound here,
because one component is mean field; those of the others are Bethe values, and the error of all methods is
that of their modes.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from _bethe import infer
from _common import bar, parser, save, show

import credo
from credo import potentials
from credo.core.result import Status
from credo.inference.problem.base import Problem, algorithms

METHODS = {
    "PBP": "particle-bp(particles={k}, proposal=belief, steps=5, redraws={n})",
    "PBP, ours": "particle-bp(particles={k}, redraws={n})",
    "EPBP": "ep-particle-bp(particles={k}, widen=1, redraws={n})",
    "EP": "ep",
}
ASCENTS = {
    "QBethe": "bethe(renewals=0, components=1, nodes=3)",
    "QBethe, ours": "bethe(renewals=0, components=3, nodes=5, spread=0.01)",
}
LOOKS = (1, 2, 5, 10, 20, 50, 100, 200, 500)  # steps of QBethe after which its error is computed
SECONDS = {"QBethe": 0.02, "EPBP": 50.0, "PBP": 305.0}  # per iteration, published
TIMINGS = 3  # runs whose median is the time of QBethe
NOISE = 0.1
CLOCKS = {"seconds": time.perf_counter, "cpu": time.process_time}

Record = dict[str, Any]


def scene(side: int) -> np.ndarray:
    """Grey values between 0 and 1: a slope, a bright square and a dark disc."""
    row, column = np.mgrid[0:side, 0:side] / (side - 1)
    picture = 0.3 + 0.4 * column
    picture[(np.abs(row - 0.3) < 0.16) & (np.abs(column - 0.3) < 0.16)] = 0.9
    picture[(row - 0.68) ** 2 + (column - 0.68) ** 2 < 0.2**2] = 0.1
    return picture


def model_of(noisy: np.ndarray) -> credo.HybridNet:
    """The grid model of a picture: (8.6) and (8.7)."""
    rows, columns = noisy.shape
    x = [[credo.Variable(f"x{r},{c}", credo.Real()) for c in range(columns)] for r in range(rows)]
    factors: list[Any] = [
        potentials.gaussian(x[r][c], float(noisy[r, c]), 0.01) for r in range(rows) for c in range(columns)
    ]
    pairs = [(x[r][c], x[r][c + 1]) for r in range(rows) for c in range(columns - 1)]
    pairs += [(x[r][c], x[r + 1][c]) for r in range(rows - 1) for c in range(columns)]
    factors += [potentials.clamped_laplace(a, b, scale=0.03, limit=0.2) for a, b in pairs]
    return credo.HybridNet([v for line in x for v in line], factors)


def restored(result: Any, shape: tuple[int, ...]) -> np.ndarray:
    """The modes of the beliefs."""
    found = result.marginals
    return np.array([found[name].mode for name in found]).reshape(shape)


class Race:
    """One picture and what the methods made of it."""

    def __init__(self, side: int, particles: int, sweeps: int, seed: int) -> None:
        self.clean = scene(side)
        self.noisy = self.clean + np.random.default_rng(seed).normal(0.0, NOISE, self.clean.shape)
        self.model = model_of(self.noisy)
        self.particles, self.sweeps, self.seed = particles, sweeps, seed
        self.records: list[Record] = []
        self.pictures: dict[str, np.ndarray] = {}

    def note(self, method: str, iteration: int, result: Any, spent: dict[str, float]) -> None:
        """Write down where a method stands."""
        picture = restored(result, self.clean.shape)
        self.pictures[method] = picture
        self.records.append(
            {
                "method": method,
                "iteration": iteration,
                "mse": float(((picture - self.clean) ** 2).mean()),
                "log_z": None if result.log_z is None else result.log_z.value,
                **spent,
            }
        )

    def sweep(self, method: str) -> None:
        """A method that passes messages, sweep by sweep; the first one compiles and is not timed."""
        algorithm = algorithms.resolve(METHODS[method].format(k=self.particles, n=self.sweeps))
        problem = Problem.about(self.model.to_factor_graph())
        algorithm.step(problem, algorithm.start(problem, np.random.default_rng(self.seed)))
        state = algorithm.start(problem, np.random.default_rng(self.seed))
        for k in range(self.sweeps):
            began = _now()
            state, _ = algorithm.step(problem, state)
            spent = _since(began)
            self.note(method, k + 1, algorithm.read(problem, state, Status.OUT_OF_ITERATIONS), spent)

    def ascend(self, method: str) -> None:
        """A mixture after several numbers of steps; it may need fewer than the last."""
        spec = ASCENTS[method]
        self._ascent(spec, LOOKS[-1])  # compiles
        whole = [self._ascent(spec, LOOKS[-1]) for _ in range(TIMINGS)]
        none = [self._ascent(spec, 1) for _ in range(TIMINGS)]
        steps = len(whole[0][0].trace["objective"])
        spent = {
            clock: float(np.median([t[clock] for _, t in whole]) - np.median([t[clock] for _, t in none]))
            / max(steps - 1, 1)
            for clock in CLOCKS
        }
        for most in LOOKS:
            result, _ = self._ascent(spec, most)
            self.note(method, len(result.trace["objective"]), result, spent)

    def _ascent(self, spec: str, steps: int) -> tuple[Any, dict[str, float]]:
        began = _now()
        result = infer(self.model, spec, max_iter=steps, tol=0, seed=self.seed)
        return result, _since(began)


def _now() -> dict[str, float]:
    return {name: clock() for name, clock in CLOCKS.items()}


def _since(began: dict[str, float]) -> dict[str, float]:
    return {name: clock() - began[name] for name, clock in CLOCKS.items()}


def report(race: Race) -> None:
    """Final error, log Z, and seconds per iteration beside those published."""
    methods = list(dict.fromkeys(r["method"] for r in race.records))
    per = {
        clock: {m: float(np.median([r[clock] for r in race.records if r["method"] == m])) for m in methods}
        for clock in CLOCKS
    }
    rows = []
    for method in methods:
        last = [r for r in race.records if r["method"] == method][-1]
        said = SECONDS.get(method)
        rows.append(
            [
                method,
                str(last["iteration"]),
                f"{last['mse']:.5f}",
                "-" if last["log_z"] is None else f"{last['log_z']:.1f}",
                f"{'-' if said is None else format(said, 'g')} | {per['seconds'][method]:.5f}",
                f"{per['cpu'][method]:.5f}",
            ]
        )
    noise = ((race.noisy - race.clean) ** 2).mean()
    show(
        f"{race.clean.shape[0]} x {race.clean.shape[1]} pixels; error of the noisy picture {noise:.5f}",
        ["", "iterations", "mean squared error", "log Z", "seconds (published | measured)", "CPU seconds"],
        rows,
    )
    for clock, seconds in per.items():
        if set(SECONDS) <= set(methods):
            print(
                f"{clock}: an iteration of EPBP is worth {seconds['EPBP'] / seconds['QBethe']:.0f} of QBethe "
                f"(published 2500), one of PBP {seconds['PBP'] / seconds['QBethe']:.0f} (published 15250)"
            )


def picture(race: Race) -> Any:
    """Pictures above, curves of the error and of log Z below."""
    from credo.plotting.style import COLOURS, new_figure, tidy

    shown = {"clean": race.clean, "noisy": race.noisy, **race.pictures}
    figure = new_figure(1.6 * len(shown), 4.8)
    for k, (name, values) in enumerate(shown.items()):
        axes = figure.add_subplot(2, len(shown), k + 1)
        axes.imshow(values, cmap="gray", vmin=0, vmax=1)
        axes.set_title(name, fontsize=8)
        axes.set_axis_off()
    for j, key in enumerate(("mse", "log_z")):
        axes = figure.add_subplot(2, 2, 3 + j)
        for colour, method in zip(COLOURS, race.pictures, strict=False):
            mine = [r for r in race.records if r["method"] == method and r[key] is not None]
            axes.plot(
                [r["iteration"] for r in mine],
                [r[key] for r in mine],
                "o-",
                ms=2,
                lw=1,
                color=colour,
                label=method,
            )
        axes.set_xscale("log")
        axes.set_xlabel("iteration", fontsize=8)
        axes.set_ylabel("mean squared error" if key == "mse" else "log Z", fontsize=8)
        tidy(axes)
    figure.axes[-2].legend(fontsize=7, frameon=False)
    return figure


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--sweeps", type=int, default=None, help="of message passing (10; 2 with --quick)")
    given = options.parse_args(arguments)
    side, particles = (8, 10) if given.quick else (50, 100)
    race = Race(side, particles, given.sweeps or (2 if given.quick else 10), given.seed)
    with bar(len(ASCENTS) + len(METHODS)) as progress:
        for method in ASCENTS:
            race.ascend(method)
            progress.step(method)
        for method in METHODS:
            race.sweep(method)
            progress.step(method)
    if race.records:
        report(race)
        save(given.out, "bethe-denoising", race.records, picture(race))


if __name__ == "__main__":
    main()
