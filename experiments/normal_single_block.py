"""One block that learns from random messages by four rules (Figures 9 and 10).

Entries uniform in [0, 1], raised to the powers EX and EY and normalised, are the messages f_X and b_Y of N
samples; large powers make them sharp. ML and KL make 100 iterations from a uniform matrix, VIT and VAR one
evaluation, and a random matrix ("ref") is the measure of nothing learned. What is compared is
sum_n log f' theta b.

The source prints curves and no numbers, and the sizes of its panels are lost; the reference values are an
independent computation, each the mean over 50 draws.

Half the samples held out: f and b are independent here, so there is nothing to learn, what ML gains on its
own samples is fitted noise, and the order turns round on the others. The source calls the two curves
practically the same for large N; so they are beside a total of hundreds, and not in the order of the rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import bar, beside, parser, save, show

from credo.learning.blocks import KL, ML, VAR, VIT, local_log_likelihood

RULES = {"ML": ML(), "KL": KL(), "VIT": VIT(), "VAR": VAR()}
NAMES = (*RULES, "ref")
ITERATIONS = 100
# (rows, columns, samples, EX, EY) -> reference means of NAMES.
REFERENCE = {
    (3, 4, 100, 1, 1): (-135.56, -137.72, -137.89, -138.27, -139.50),
    (3, 4, 100, 20, 20): (-133.96, -134.17, -134.58, -134.36, -153.04),
    (5, 6, 400, 1, 1): (-710.18, -715.23, -715.62, -716.30, -717.89),
    (5, 6, 400, 5, 5): (-703.47, -708.84, -710.67, -711.98, -731.44),
    (5, 6, 400, 20, 20): (-704.25, -705.20, -706.72, -706.30, -771.74),
}
Setting = tuple[int, int, int, int, int]


def draw(setting: Setting, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Random messages of a setting."""
    rows, columns, samples, sharp_x, sharp_y = setting
    found = []
    for states, power in ((rows, sharp_x), (columns, sharp_y)):
        u = rng.random((samples, states)) ** power
        found.append(u / u.sum(axis=1, keepdims=True))
    return found[0], found[1]


def learn(f: np.ndarray, b: np.ndarray, mask: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Rule -> matrices (iterations + 1, rows, columns), the first uniform; one matrix for VIT and VAR."""
    start = np.full((f.shape[1], b.shape[1]), 1.0 / b.shape[1])
    found = {}
    for name, rule in RULES.items():
        thetas = [start]
        for _ in range(ITERATIONS if name in ("ML", "KL") else 1):
            thetas.append(rule.update(thetas[-1], f, b, mask))
        found[name] = np.array(thetas if name in ("ML", "KL") else thetas[1:])
    return found


def random_matrix(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Rows from a uniform generator, normalised."""
    u = rng.random(shape)
    return u / u.sum(axis=1, keepdims=True)


def final_values(setting: Setting, rng: np.random.Generator, held_out: bool = False) -> list[float]:
    """The likelihood of each of NAMES on one draw; with `held_out`, twice that of the other half."""
    f, b = draw(setting, rng)
    mask = np.arange(len(f)) < len(f) // 2 if held_out else None
    judged = 2.0 * (1 - mask) if mask is not None else None
    found = learn(f, b, mask)
    thetas = [found[name][-1] for name in RULES] + [random_matrix((setting[0], setting[1]), rng)]
    return [local_log_likelihood(theta, f, b, judged) for theta in thetas]


def measure(draws: int, seed: int) -> list[dict[str, Any]]:
    """One record per setting, rule and kind of samples."""
    records: list[dict[str, Any]] = []
    with bar(len(REFERENCE)) as progress:
        for k, (setting, known) in enumerate(REFERENCE.items()):
            for held_out in (False, True):
                rng = np.random.default_rng([seed, k, int(held_out)])
                values = np.array([final_values(setting, rng, held_out) for _ in range(draws)])
                for c, name in enumerate(NAMES):
                    spread = float(values[:, c].std(ddof=1)) if draws > 1 else 0.0
                    records.append(
                        {
                            "setting": list(setting),
                            "rule": name,
                            "samples": "held out" if held_out else "all",
                            "draws": draws,
                            "mean": float(values[:, c].mean()),
                            "standard_error": spread / np.sqrt(draws),
                            "reference": None if held_out else known[c],
                        }
                    )
            progress.step(str(setting))
    return records


def report(records: list[dict[str, Any]]) -> None:
    """Reference and measured means side by side."""
    for kind in ("all", "held out"):
        rows = []
        for setting in REFERENCE:
            mine = [r for r in records if r["setting"] == list(setting) and r["samples"] == kind]
            if mine:
                cells = [beside(r["reference"], r["mean"], r["standard_error"], ".2f") for r in mine]
                rows.append([",".join(map(str, setting)), *cells])
        show(
            f"sum of log f' theta b, {kind} samples (reference | measured)", ["M_X,M_Y,N,EX,EY", *NAMES], rows
        )


def picture_curves(seed: int, settings: list[Setting]) -> Any:
    """Figure 9: likelihood against the iteration, one draw per panel."""
    from credo.plotting.style import COLOURS, new_figure, tidy

    figure = new_figure(3.1 * len(settings), 3.2)
    for k, setting in enumerate(settings):
        rng = np.random.default_rng([seed, k])
        f, b = draw(setting, rng)
        axes = figure.add_subplot(1, len(settings), k + 1)
        found = learn(f, b) | {"ref": random_matrix((setting[0], setting[1]), rng)[None]}
        for colour, name in zip(COLOURS, NAMES, strict=False):
            values = [local_log_likelihood(theta, f, b) for theta in found[name]]
            values = values if len(values) > 1 else values * (ITERATIONS + 1)
            axes.plot(values, color=colour, linewidth=1.2, label=name)
        axes.set_title("M_X={}, M_Y={}, N={}, EX={}, EY={}".format(*setting), fontsize=7)
        axes.set_xlabel("iteration", fontsize=8)
        tidy(axes)
    figure.axes[0].set_ylabel("sum of log f' theta b", fontsize=8)
    figure.axes[-1].legend(fontsize=7, frameon=False)
    return figure


def picture_coefficients(seed: int, settings: list[Setting]) -> Any:
    """Figure 10: coefficients of ML and KL against the iteration."""
    from credo.plotting import plot_trajectories

    runs: dict[str, dict[str, np.ndarray]] = {"ML": {}, "KL": {}}
    for k, setting in enumerate(settings):
        found = learn(*draw(setting, np.random.default_rng([seed, k])))
        for name, panels in runs.items():
            panels["{}x{}, EX={}".format(*setting[:2], setting[3])] = found[name]
    return plot_trajectories(runs)


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment from the command line."""
    options = parser(__doc__ or "")
    options.add_argument("--draws", type=int, default=None, help="draws per setting (50; 3 with --quick)")
    given = options.parse_args(arguments)
    records = measure(given.draws or (3 if given.quick else 50), given.seed)
    if not records:
        return
    report(records)
    shown = [s for s in REFERENCE if s[3] != 5]
    save(given.out, "normal-single-block", records, picture_curves(given.seed, shown))
    figure = picture_coefficients(given.seed, [shown[0], shown[2]])
    save(given.out, "normal-single-block-coefficients", records, figure)


if __name__ == "__main__":
    main()
