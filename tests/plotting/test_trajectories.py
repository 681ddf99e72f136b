"""Pictures of how matrices change while they learn."""

import numpy as np
import pytest

from credo.core.errors import QueryError
from credo.plotting import plot_trajectories

pytest.importorskip("matplotlib")


def test_trajectories_have_a_panel_per_matrix_and_run_and_one_for_the_generator():
    values = {"p(X|S)": np.full((5, 2, 3), 1 / 3), "p(S)": np.full((5, 1, 2), 0.5)}
    figure = plot_trajectories({"ML": values, "KL": values}, truth={"p(S)": np.array([[0.4, 0.6]])})
    assert len(figure.axes) == 6
    assert [len(axes.lines) for axes in figure.axes] == [6, 6, 0, 2, 2, 2]
    assert len(plot_trajectories({"ML": values}, parameters=["p(S)"]).axes) == 1


def test_runs_and_matrices_are_named():
    values = {"p(X)": np.full((5, 2, 3), 1 / 3), "p(S)": np.full((5, 1, 2), 0.5)}
    figure = plot_trajectories({"ML": values, "KL": values}, truth={"p(S)": np.array([[0.4, 0.6]])})
    assert [axes.get_title() for axes in figure.axes] == ["ML", "KL", "generator", "", "", ""]
    assert [axes.get_ylabel() for axes in figure.axes] == ["p(X)", "", "", "p(S)", "", ""]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: plot_trajectories({}), QueryError, "at least one run that recorded its matrices"),
        (
            lambda: plot_trajectories({"ML": {"p": np.ones((2, 1, 1))}}, parameters=["q"]),
            QueryError,
            "trajectories of ML: no parameter named 'q'",
        ),
    ],
)
def test_refusals_say_what_was_expected(call, error, message):
    with pytest.raises(error, match=message):
        call()
