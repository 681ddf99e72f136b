"""Restored digits: noise, a missing patch, and what becomes of them (Figure 6.1).

A machine per corruption, by BP on images that are on above 127, as in `crbm-mnist`; the number of images and
epochs is told in the file of numbers.
"""

from __future__ import annotations

import numpy as np
from _common import bar, parser, save
from _machines import corrupted, errors, patient, silhouettes
from _restoring import predicted

import credo

TASKS = ("flip 10", "patch 8 to 0")
SHOWN = 7


def main(arguments: list[str] | None = None) -> None:
    """Learn both machines and draw."""
    from credo.plotting import plot_images

    given = parser(__doc__).parse_args(arguments)
    images, epochs = (60, 1) if given.quick else (3000, 5)
    data = silhouettes("mnist threshold").first(images, test=1000)
    hidden = 8 if given.quick else 256
    blank = credo.ConditionalRBM(np.zeros((784, hidden)), np.zeros((784, 784)), np.zeros((hidden, 784)))
    records, rows = [], [data.test[:SHOWN]]
    with bar(len(TASKS)) as progress:
        for task in TASKS:
            rng = np.random.default_rng(given.seed)
            x, test = corrupted(data.x, task, rng), corrupted(data.test, task, rng)
            with patient():
                fit = credo.fit(
                    blank, x, "boltzmann(negative=bp, batch=20, optimiser=sgd(rate=0.05, momentum=0.5))",
                    targets=data.x, max_iter=epochs, tol=0, seed=given.seed,
                )  # fmt: skip
            found = predicted(fit.model, "MLE-BP", test, 7 + epochs)
            told = errors(found, data.test, test)
            records.append(
                {"task": task, "images": images, "epochs": epochs, "all": told.all, "changed": told.changed}
            )
            rows += [test[:SHOWN], found[:SHOWN].astype(float)]
            progress.step(task)
    save(given.out, "crbm-pictures", records, plot_images(np.stack(rows), shape=(28, 28)))


if __name__ == "__main__":
    main()
