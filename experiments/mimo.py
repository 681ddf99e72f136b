"""Symbol detection in a multiple-antenna channel by message passing (Figure 3.5).

    y = H x + e,   x in {-1, 1}^8,   e ~ N(0, s2 I),   ratio = 1 / s2
    p(x | y) ~ prod_i exp( <h_i, y> x_i / s2 )  prod_{i<j} exp( -S_ij x_i x_j / s2 ),   S = H'H

H is a 4 x 4 complex channel written as an 8 x 8 real one, entries N(0, 1/8); symbol i and i + 4 are
the two parts of a complex symbol, which is wrong if either part is. Every draw is a complete
graph of eight binary variables with couplings and fields of their own; all message-passing
detectors are one kernel on the log ratios z_ts = log m_ts(1) / m_ts(-1),

    z_ts <- (1 - eta) z_ts + (eta / alpha) f(2 alpha J_ts, 2 h_t + sum_w z_wt - alpha z_st),
    f(k, d) = log (e^(k+d) + 1) / (e^d + e^k)

with alpha = eta = 1 for BP, eta = 1/2 for damped BP, eta = alpha for alpha-BP, and alpha = 4, eta = 1
for tree-reweighted BP (edges of K8 appear in a random spanning tree with probability 1/4). The MMSE
prior multiplies exp( -(x_i - mu_i)^2 / (2 v_i) ) in, from the linear estimate mu and its variances v.

The source prints no numbers; the reference column is an independent simulation with 4000 draws and
sequential updates. Orders to expect: alpha-BP near 0.5 beats MMSE and leaves a gap to exact MAP,
the MMSE prior shrinks it, BP is behind MMSE. At high ratios most detectors stop without having
converged, so their rates depend on the order of the updates, which the source does not give: at ratio
14, 6000 draws, BP has .131 variable by variable (incoming messages, as here), .137 edge by edge and .147
flooding; tree-reweighted BP .088, .115 and .111; alpha 0.9 .096, .107 and .113.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from _common import bar, beside, parser, save, show

from credo.kernels.jit import jit

N = 8
RATIOS = np.linspace(1, 40, 10)
ALPHAS = (0.3, 0.5, 0.7, 0.9)
SWEEPS = 50

METHODS = (
    "MMSE", "MAP", "exact marginals", "BP", "damped BP", "TRW", "mean field",
    *(f"alpha {a}" for a in ALPHAS),
    *(f"alpha {a} + MMSE" for a in ALPHAS),
)  # fmt: skip

# ratio -> complex symbol error rates of the reference simulation (4000 draws).
_COLUMNS = (
    "MMSE", "MAP", "BP", "alpha 0.3", "alpha 0.5", "alpha 0.7", "alpha 0.9",
    "alpha 0.3 + MMSE", "alpha 0.5 + MMSE", "alpha 0.7 + MMSE", "alpha 0.9 + MMSE",
    "damped BP", "TRW", "mean field",
)  # fmt: skip
_RATES = {
    1.0: (0.392, 0.399, 0.387, 0.389, 0.387, 0.387, 0.387, 0.387, 0.387, 0.387, 0.387, 0.387, 0.388, 0.388),
    5.33: (0.164, 0.095, 0.183, 0.110, 0.109, 0.131, 0.164, 0.112, 0.109, 0.112, 0.118, 0.147, 0.132, 0.163),
    14.0: (0.078, 0.011, 0.124, 0.042, 0.027, 0.048, 0.092, 0.032, 0.022, 0.024, 0.035, 0.115, 0.087, 0.123),
    22.67: (
        0.054, 0.0029, 0.117, 0.033, 0.016, 0.036, 0.084, 0.016, 0.0086, 0.014, 0.027, 0.112, 0.101, 0.123,
    ),
    40.0: (
        0.031, 0.0009, 0.109, 0.029, 0.011, 0.031, 0.077, 0.011, 0.0049, 0.0071, 0.022, 0.106, 0.106, 0.128,
    ),
}  # fmt: skip
REFERENCE_DRAWS = 4000


def reference(method: str, ratio: float) -> float | None:
    """The reference rate, where there is one."""
    near = [r for r in _RATES if abs(r - ratio) < 0.01]
    return _RATES[near[0]][_COLUMNS.index(method)] if near and method in _COLUMNS else None


def draw(count: int, ratio: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Channels, received vectors and sent symbols."""
    re, im = rng.normal(scale=np.sqrt(1 / N), size=(2, count, N // 2, N // 2))
    channel = np.concatenate([np.concatenate([re, -im], axis=2), np.concatenate([im, re], axis=2)], axis=1)
    sent = rng.choice([-1.0, 1.0], size=(count, N))
    noise = rng.normal(scale=np.sqrt(1 / ratio), size=(count, N))
    return channel, np.einsum("dij,dj->di", channel, sent) + noise, sent


def model(channel: np.ndarray, received: np.ndarray, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """Couplings J (draws, n, n) with zero diagonal, and fields h (draws, n)."""
    couplings = -ratio * np.einsum("dki,dkj->dij", channel, channel)
    couplings[:, np.arange(N), np.arange(N)] = 0.0  # x_i^2 = 1: the diagonal is a constant
    return couplings, ratio * np.einsum("dki,dk->di", channel, received)


def mmse(channel: np.ndarray, received: np.ndarray, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """The linear estimate and its variances, for signals of unit variance."""
    gram = np.einsum("dki,dkj->dij", channel, channel) + np.eye(N) / ratio
    inverse = np.linalg.inv(gram)
    mean = np.einsum("dij,dkj,dk->di", inverse, channel, received, optimize=True)
    return mean, np.einsum("dii->di", inverse) / ratio


def exact(couplings: np.ndarray, fields: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The most likely vector, and the means under the exact posterior, by enumeration."""
    states = 2.0 * ((np.arange(2**N)[:, None] >> np.arange(N)) & 1) - 1
    products = (states[:, :, None] * states[:, None, :]).reshape(2**N, -1)
    score = fields @ states.T + 0.5 * couplings.reshape(len(couplings), -1) @ products.T
    weight = np.exp(score - score.max(axis=1, keepdims=True))
    return states[score.argmax(axis=1)], (weight @ states) / weight.sum(axis=1, keepdims=True)


@jit
def _response(k, d):
    """log (e^(k+d) + 1) / (e^d + e^k) without overflow."""
    up = max(k + d, 0.0) + np.log1p(np.exp(-abs(k + d)))
    down = max(k, d) + np.log1p(np.exp(-abs(k - d)))
    return up - down


@jit
def message_passing(couplings, fields, alpha, eta, sweeps):
    """Log odds of every variable after some sequential sweeps from uniform messages, draw by draw."""
    draws, n = fields.shape
    odds = 2.0 * fields
    for draw in range(draws):
        z = np.zeros((n, n))  # z[t, s]: message from t to s
        total = odds[draw]
        for _ in range(sweeps):
            for s in range(n):
                for t in range(n):
                    if t != s:
                        cavity = total[t] - alpha * z[s, t]
                        new = _response(2.0 * alpha * couplings[draw, t, s], cavity)
                        new = (1.0 - eta) * z[t, s] + eta / alpha * new
                        total[s] += new - z[t, s]
                        z[t, s] = new
    return odds


@jit
def mean_field(couplings, fields, sweeps):
    """Means of the factorised approximation after sequential sweeps from zero, draw by draw."""
    draws, n = fields.shape
    means = np.zeros((draws, n))
    for draw in range(draws):
        for _ in range(sweeps):
            for i in range(n):
                field = fields[draw, i]
                for j in range(n):
                    field += couplings[draw, i, j] * means[draw, j]
                means[draw, i] = np.tanh(field)
    return means


def decide(method: str, channel: np.ndarray, received: np.ndarray, ratio: float) -> np.ndarray:
    """Numbers whose signs are a detector's decisions."""
    couplings, fields = model(channel, received, ratio)
    if method == "MMSE":
        return mmse(channel, received, ratio)[0]
    if method == "MAP":
        return exact(couplings, fields)[0]
    if method == "exact marginals":
        return exact(couplings, fields)[1]
    if method == "mean field":
        return mean_field(couplings, fields, SWEEPS)
    if method.endswith("MMSE"):
        mean, variance = mmse(channel, received, ratio)
        fields = fields + mean / variance
    alpha, eta = {"BP": (1.0, 1.0), "damped BP": (1.0, 0.5), "TRW": (N / 2, 1.0)}.get(method, (0.0, 0.0))
    if alpha == 0:
        alpha = eta = float(method.split()[1])
    return message_passing(couplings, fields, alpha, eta, SWEEPS)


def rates(decisions: np.ndarray, sent: np.ndarray) -> dict[str, float]:
    """Error rates of complex symbols and of bits, and the standard error of the former."""
    wrong = (decisions >= 0) != (sent > 0)
    symbol = (wrong[:, : N // 2] | wrong[:, N // 2 :]).mean(axis=1)
    return {
        "symbol_error": float(symbol.mean()),
        "spread": float(symbol.std()),
        "standard_error": float(symbol.std() / np.sqrt(len(symbol))),
        "bit_error": float(wrong.mean()),
    }


def run(draws: int, ratios: np.ndarray, seed: int) -> list[dict[str, Any]]:
    """One record per ratio and method; every method sees the same draws."""
    records: list[dict[str, Any]] = []
    with bar(len(ratios) * len(METHODS)) as progress:
        for ratio, child in zip(ratios, np.random.SeedSequence(seed).spawn(len(ratios)), strict=True):
            channel, received, sent = draw(draws, float(ratio), np.random.default_rng(child))
            for method in METHODS:
                found = rates(decide(method, channel, received, float(ratio)), sent)
                known = reference(method, ratio)
                record = {"ratio": float(ratio), "method": method, "draws": draws, **found}
                records.append({**record, "reference": known, "z": _z(found, known, draws)})
                progress.step(f"ratio {ratio:.1f}, {method}")
    return records


def _z(found: dict[str, float], known: float | None, draws: int) -> float | None:
    """Difference to the reference in standard errors of the difference."""
    if known is None or found["symbol_error"] == 0:
        return None
    # Few errors make a poor spread: it is scaled up where the reference has more of them.
    spread = found["spread"] * np.sqrt(max(1.0, known / found["symbol_error"]))
    return float((found["symbol_error"] - known) / (spread * np.sqrt(1 / draws + 1 / REFERENCE_DRAWS)))


def report(records: list[dict[str, Any]]) -> None:
    """Reference and measured rates side by side."""
    known = [r for r in dict.fromkeys(r["ratio"] for r in records) if reference("MMSE", r) is not None]
    by_key = {(r["ratio"], r["method"]): r for r in records}
    rows = [
        [method]
        + [
            beside(r["reference"], r["symbol_error"], r["standard_error"], ".4f")
            if (r := by_key.get((ratio, method)))
            else ""
            for ratio in known
        ]
        for method in METHODS
    ]
    show(
        "Complex symbol error rate, reference | measured",
        ["detector", *(f"ratio {r:.2f}" for r in known)],
        rows,
    )
    gaps = [abs(r["z"]) for r in records if r["z"] is not None]
    if gaps:
        inside = sum(g <= 2 for g in gaps)
        print(
            f"\n{inside} of {len(gaps)} within 2 standard errors of the reference, the worst {max(gaps):.1f}"
        )


def picture(records: list[dict[str, Any]]) -> Any:
    """The three panels of the figure."""
    from credo.plotting.style import COLOURS, new_figure, tidy

    figure = new_figure(12, 4)
    panels = {
        "alpha-BP": ["BP", *(f"alpha {a}" for a in ALPHAS)],
        "alpha-BP with the MMSE estimate as prior": [f"alpha {a} + MMSE" for a in ALPHAS],
        "other approximations": ["mean field", "damped BP", "TRW", "alpha 0.5", "alpha 0.5 + MMSE"],
    }
    for k, (title, methods) in enumerate(panels.items()):
        axes = figure.add_subplot(1, 3, k + 1)
        for colour, method in zip(("#777777", "#000000", *COLOURS), ["MMSE", "MAP", *methods], strict=False):
            mine = [r for r in records if r["method"] == method and r["symbol_error"] > 0]
            style = "--" if method in ("MMSE", "MAP") else "-"
            axes.plot(
                [r["ratio"] for r in mine],
                [r["symbol_error"] for r in mine],
                style, color=colour, marker="o", markersize=3, linewidth=1.2, label=method,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_xlabel("ratio of signal to noise variance")
        axes.set_ylabel("symbol error rate")
        axes.set_title(title, fontsize=9)
        axes.legend(fontsize=7, frameon=False)
        tidy(axes)
    return figure


def main(arguments: list[str] | None = None) -> None:
    """Run the experiment from the command line."""
    options = parser(__doc__ or "")
    options.add_argument(
        "--draws", type=int, default=None, help="channels per ratio (5000; 300 with --quick)"
    )
    given = options.parse_args(arguments)
    draws = given.draws or (300 if given.quick else 5000)
    records = run(draws, RATIOS[[0, 1, 3, 5, 9]] if given.quick else RATIOS, given.seed)
    if records:
        report(records)
        save(given.out, "mimo", records, picture(records))


if __name__ == "__main__":
    main()
