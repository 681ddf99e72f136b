"""A small object of every class of this package that files keep, by its tag."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import credo
from credo import potentials
from credo.core.density import Sliced, _Coordinatewise, quadratic
from credo.core.errors import ConvergenceWarning
from credo.core.ground_cost import GroundCost
from credo.core.groups import Bilinear, Densities, Gaussians, LinearGaussians
from credo.core.linear_gaussian import product
from credo.core.result import Estimate, Status
from credo.core.variable import Variables
from credo.estimators import (
    GMMHMM,
    BayesianFactorAnalysis,
    BayesianMixture,
    BernoulliRBM,
    BetheLDA,
    CategoricalHMM,
    ChainCRF,
    ConditionalRBMClassifier,
    GaussianHMM,
    GaussianMixture,
    GaussianRBM,
    GraphCRF,
    ImageClassifier,
    InfiniteRBM,
    MaximumLikelihoodClassifier,
    PoissonHMM,
    VariationalCategoricalHMM,
    VariationalGaussianHMM,
)
from credo.evaluate import SampleScores, score_classes
from credo.families.additive import AdditiveGaussian
from credo.families.categorical import Categorical
from credo.families.conjugate_mixture import ConjugateMixture
from credo.families.conjugate_product import ConjugateProduct
from credo.families.dirichlet import Dirichlet
from credo.families.dirichlet_rows import DirichletRows
from credo.families.factor_gaussian import FactorGaussian
from credo.families.flow import Flow
from credo.families.gamma import Gamma, Poisson
from credo.families.gaussian import Gaussian, TiedGaussian
from credo.families.gaussian_diagonal import DiagonalGaussian, SphericalGaussian
from credo.families.gaussian_field import GaussianField
from credo.families.gaussian_wishart import GaussianWishart
from credo.families.independent import IndependentRows
from credo.families.mixture import Mixture, MixturePrior
from credo.families.normal_gamma import NormalGamma
from credo.families.posteriors import MixturePosterior
from credo.families.product import Product
from credo.families.scale_prior import GammaScales, SquaredScales
from credo.families.stick_breaking import StickBreaking
from credo.families.student import StudentT
from credo.learning.base import Fit
from credo.learning.block_records import BlockFit, BlockRun
from credo.learning.vb_factor_analysis import FactorPosterior
from credo.models.bayesian_tree import BayesianTree
from credo.models.conditional_rbm import ConditionalRBM
from credo.models.declared import Declared
from credo.models.factor_analysis import FactorAnalysis
from credo.models.factorial_hmm import FactorialHMM
from credo.models.fractional_rbm import FractionalRBM
from credo.models.hmm_parameters import HMMPrior
from credo.models.hmm_posteriors import HMMPosterior, SemiMarkovPosterior
from credo.models.mixture_of_trees import MixtureOfTrees
from credo.models.normal_form import Block, Diverter, NormalForm, Source
from credo.models.regression import Regression
from credo.models.semi_markov import SemiMarkov
from credo.models.table_posterior import TablePosterior
from credo.models.topic_model import TopicModel
from credo.nn.bijections.base import read_bijection

RNG = np.random.default_rng(7)
STEPS = [[0.7, 0.3], [0.1, 0.9]]
ROOT = RNG.normal(size=(2, 2, 2))
COVARIANCES = ROOT @ np.swapaxes(ROOT, 1, 2) + np.eye(2)
MEANS = RNG.normal(size=(2, 2))
X, Y = credo.Variable("x", credo.Real()), credo.Variable("y", credo.Real())
V, S = credo.Variable("v", credo.Real(2)), credo.Variable("s", ["off", "on"])
THETA = credo.Variable("theta", credo.Simplex(2))
RATE, SHARE = credo.Variable("rate", credo.Positive()), credo.Variable("share", credo.Interval(0, 1))
ROWS = RNG.normal(size=(5, 2))
TOPICS = np.arange(12.0).reshape(2, 2, 3)
INDEX, ONE = np.array([0]), np.array([[0]])


def graph() -> credo.FactorGraph:
    """A graph with tables, every kind of group, every domain and every named potential."""
    weights = RNG.normal(size=(1, 1))
    factors = [
        credo.TableFactor([S], [1.0, 2.0]),
        potentials.gaussian(X),
        credo.GaussianFactor([V], np.eye(2), [1.0, 2.0]),
        potentials.emission(Y, S, [0.0, 1.0], [1.0, 2.0]),
        credo.BilinearFactor([X], [Y], weights),
        potentials.gaussian_mixture(X, [0.5, 0.5], [0.0, 1.0], 1.0),
        potentials.laplace(X),
        potentials.laplace(X, Y, scale=2.0),
        potentials.clamped_laplace(X),
        potentials.clamped_laplace(X, Y),
        potentials.student(X),
        potentials.student(X, Y),
        potentials.bimodal(X, Y),
        potentials.kernel_density([X], ROWS[:, :1], 0.5),
        potentials.kernel_density([X, Y], ROWS, 0.5),
        potentials.density_ratio(X, Y, ROWS, 0.5),
        potentials.dirichlet(THETA, [2.0, 3.0]),
        potentials.categorical(S, THETA),
        credo.DensityFactor([RATE], product, 1.0, -1.0),
        credo.DensityFactor([SHARE], product, 1.0, 1.0),
    ]
    return credo.FactorGraph([X, Y, V, S, THETA, RATE, SHARE], factors)


def tree() -> credo.BayesNet:
    """Two variables, one edge."""
    return credo.BayesNet({"a": 2, "b": ["lo", "hi"]}, {"b": ["a"]}, {"a": [0.3, 0.7], "b": STEPS})


def hmm() -> credo.HMM:
    """Two states, Gaussian rows."""
    return credo.HMM([0.6, 0.4], STEPS, Gaussian(MEANS, COVARIANCES))


def normal_form() -> NormalForm:
    """A source, a diverter, blocks."""
    parts = [
        Source("S", [0.6, 0.4], fixed=True),
        Diverter("S", ["S1", "S2"]),
        Block("S1", "X", STEPS, tie="t"),
    ]
    return NormalForm({"S": 2, "S1": 2, "S2": 2, "X": 2}, parts)


def block_run() -> BlockRun:
    """One run of a training."""
    values = np.array([-3.0, -2.5])
    return BlockRun(
        normal_form(), Status.CONVERGED, values, values, values, values, {"t": RNG.random((2, 2, 2))}
    )


def log_linear() -> Any:
    """A weight, and a forbidden state."""
    features = [("a", [0, 1], 0), (("a", "b"), [[0, -np.inf], [0, 0]], None)]
    return credo.MarkovNet.log_linear({"a": 2, "b": 2}, features, [0.5])


def fit(**more: Any) -> Fit:
    """What learning returns."""
    values, trace = np.array([-2.0, -1.5]), {"validation": np.array([1.0])}
    about = (Estimate(-3.0, "exact"), trace, "em", 0.5, ("a note",))
    return Fit(hmm(), Status.CONVERGED, values, *about, **more)


def normal_gamma() -> NormalGamma:
    """One member, two coordinates."""
    return NormalGamma([[0.0, 1.0]], [[1.0, 2.0]], [[2.0, 2.0]], [[1.0, 3.0]])


def fitted(made: Any, *data: Any) -> Any:
    """An estimator after one step."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return made.fit(*data)


EXAMPLES: dict[str, Callable[[], Any]] = {
    "function of coordinates": lambda: _Coordinatewise(quadratic, (2, 0)),
    "sliced function": lambda: Sliced(product, (True, False)),
    "discrete": lambda: S.domain,
    "interval": lambda: SHARE.domain,
    "positive": lambda: RATE.domain,
    "real": lambda: V.domain,
    "simplex": lambda: THETA.domain,
    "FactorGraph": graph,
    "bilinear": lambda: Bilinear(INDEX, np.array([[0, 1]]), np.array([[2.0]])),
    "densities": lambda: Densities(INDEX, ONE, product, (np.array([1.0]), np.array([2.0]))),
    "gaussians": lambda: Gaussians(INDEX, ONE, np.ones((1, 1, 1)), np.ones((1, 1)), np.ones(1)),
    "linear gaussians": lambda: LinearGaussians(INDEX, ONE, np.ones((1, 1)), *np.ones((3, 1))),
    "ground cost": lambda: GroundCost.of([[0.0], [3.0]], [[4.0]], "squared"),
    "Transport": lambda: credo.transport([[0.0], [3.0]], [[4.0], [1.0]], epsilon=0.1),
    "estimate": lambda: Estimate(1.5, "lower"),
    "variable": lambda: S,
    "variables": lambda: Variables.of([S, X, credo.Variable("t", 3)]),
    "Categorical": lambda: Categorical(STEPS),
    "Dirichlet": lambda: Dirichlet([[1.0, 2.0]]),
    "DirichletRows": lambda: DirichletRows([1.0, 2.0, 3.0], [1, 2]),
    "Gamma": lambda: Gamma([1.0, 2.0], [3.0, 4.0]),
    "Poisson": lambda: Poisson([1.0, 2.0]),
    "Product": lambda: Product(
        [Categorical([[0.5, 0.5]]), Poisson([2.0])], ["alarm", "drops"], {"alarm": S.domain}
    ),
    "StudentT": lambda: StudentT([[0.5]], [[1.0]], [5.0], learn_freedom=False),
    "BlankHMM": lambda: credo.HMM.blank(2, {"hr": "gaussian"}, components=3),
    "FactorGaussian": lambda: FactorGaussian(MEANS[:1], [[[1.0], [0.5]]], [[1.0, 2.0]]),
    "Flow": lambda: Flow.started(
        "permutation + mixing + coupling(layers=2,width=2)", 2, 2,
        Mixture([[0.2, 0.8], [0.5, 0.5]], TiedGaussian(np.arange(8.0).reshape(4, 2), np.eye(2))),
        noise="uniform",
    ),
    "GammaScales": lambda: GammaScales(shape=3.0),
    "SquaredScales": lambda: SquaredScales(strength=0.1),
    "BlankFlow": lambda: Flow.blank("coupling(layers=2)", components=3),
    "bijection.actnorm": lambda: read_bijection("actnorm"),
    "bijection.chain": lambda: read_bijection("actnorm + coupling"),
    "bijection.coupling": lambda: read_bijection("coupling(layers=2, masks=random)"),
    "bijection.glow": lambda: read_bijection("glow(levels=2, shape=(4, 8))"),
    "bijection.ode": lambda: read_bijection("ode(steps=3)"),
    "bijection.planar": lambda: read_bijection("planar(layers=2)"),
    "bijection.radial": lambda: read_bijection("radial(layers=2)"),
    "bijection.maf": lambda: read_bijection("maf(layers=2)"),
    "bijection.spline": lambda: read_bijection("spline(knots=4)"),
    "bijection.mixing": lambda: read_bijection("mixing(first=identity)"),
    "bijection.permutation": lambda: read_bijection("permutation(seed=none)"),
    "BlankMixture": lambda: credo.Mixture.blank(2, "diagonal"),
    "IndependentRows": lambda: IndependentRows(Poisson([2.0])),
    "BlankNet": lambda: credo.BayesNet.from_edges([("a", "b")], states={"a": 2}),
    "Regression": lambda: Regression([1.0, 2.0], [1.0, 3.0], [[0.5], [0.25]]),
    "Gaussian": lambda: Gaussian(MEANS, COVARIANCES),
    "BlankSemiMarkov": lambda: SemiMarkov(states=2, durations=(2, 5), emission="poisson"),
    "GaussianField": lambda: GaussianField(MEANS[:1], COVARIANCES[:1], np.ones((2, 2))),
    "AdditiveGaussian": lambda: AdditiveGaussian([MEANS, MEANS[:1]], COVARIANCES[0]),
    "BlankFactorialHMM": lambda: credo.FactorialHMM(states=[2, 3], emission="additive"),
    "TiedGaussian": lambda: TiedGaussian(MEANS, COVARIANCES[0]),
    "DiagonalGaussian": lambda: DiagonalGaussian(MEANS, np.exp(MEANS)),
    "SphericalGaussian": lambda: SphericalGaussian(MEANS, [0.5, 2.0]),
    "GaussianWishart": lambda: GaussianWishart(MEANS, [1.0, 2.0], [3.0, 4.0], COVARIANCES),
    "Mixture": lambda: Mixture([[0.2, 0.8]], DiagonalGaussian(MEANS, np.exp(MEANS))),
    "MixturePrior": lambda: MixturePrior(Dirichlet([[2.0, 2.0]])),
    "NormalGamma": normal_gamma,
    "Fit": lambda: fit(posterior=normal_gamma(), evidence=Estimate(-4.0, "lower")),
    "GaussianHMM": lambda: fitted(GaussianHMM(2, max_iter=1, random_state=0), ROWS),
    "GMMHMM": lambda: fitted(GMMHMM(2, max_iter=1, random_state=0), ROWS),
    "CategoricalHMM": lambda: fitted(CategoricalHMM(2, max_iter=1, random_state=0), [0, 1, 1, 0, 2]),
    "PoissonHMM": lambda: fitted(PoissonHMM(2, max_iter=1, random_state=0), [0, 3, 1, 0, 2]),
    "ChainCRF": lambda: fitted(ChainCRF(max_iter=1), [ROWS, ROWS[:2]], [list("aabba"), list("ab")]),
    "GraphCRF": lambda: GraphCRF(inference="bp"),
    "TopicModel": lambda: TopicModel(2, mixtures=2, concentrations=1 + TOPICS, weights=[0.4, 0.6]),
    "BetheLDA": lambda: fitted(BetheLDA(2, max_iter=1, random_state=0), np.array([[1, 0, 2], [0, 3, 1]])),
    "ImageClassifier": lambda: fitted(
        ImageClassifier(2, epochs=1, batch_size=4, random_state=0), RNG.random((6, 4, 4)), list("ababab")
    ),
    "MaximumLikelihoodClassifier": lambda: fitted(
        MaximumLikelihoodClassifier(DiagonalGaussian(MEANS[:1], np.exp(MEANS[:1]))), ROWS, list("aabba")
    ),
    "ClassScores": lambda: score_classes(["a", "b"], ["a", "a"]),
    "SampleScores": lambda: SampleScores(2.5, 1.0, 0.1, 0.6, 0.97, 100),
    "BlockFit": lambda: BlockFit((block_run(),), "ml", 0.25),
    "BlockRun": block_run,
    "FactorAnalysis": lambda: FactorAnalysis(2, noise="isotropic"),
    "VariationalCategoricalHMM": lambda: fitted(
        VariationalCategoricalHMM(2, max_iter=1, n_init=1, random_state=0), np.array([[0], [1], [1]])
    ),
    "VariationalGaussianHMM": lambda: fitted(
        VariationalGaussianHMM(2, "diag", max_iter=1, n_init=1, random_state=0), ROWS
    ),
    "BayesianFactorAnalysis": lambda: fitted(BayesianFactorAnalysis(1, max_iter=1, random_state=0), ROWS),
    "BernoulliRBM": lambda: fitted(BernoulliRBM(1, n_iter=1, random_state=0), np.eye(2)),
    "GaussianRBM": lambda: fitted(GaussianRBM(1, n_iter=1, random_state=0), ROWS),
    "InfiniteRBM": lambda: fitted(InfiniteRBM(1, n_chains=3, random_state=0), np.eye(2)),
    "ConditionalRBMClassifier": lambda: ConditionalRBMClassifier(1, n_iter=1, random_state=0).fit(
        np.eye(2), np.eye(2)
    ),
    "GaussianMixture": lambda: fitted(GaussianMixture(2, max_iter=1, random_state=0), ROWS),
    "BayesianMixture": lambda: fitted(
        BayesianMixture(2, covariance_type="diag", max_iter=1, random_state=0), ROWS
    ),
    "FactorPosterior": lambda: FactorPosterior(MEANS, COVARIANCES, *np.ones((3, 2))),
    "HMMPosterior": lambda: HMMPosterior(
        DirichletRows([1.0, 2.0], [2]), DirichletRows(np.ones(4), [2, 2]), normal_gamma().repeat(2),
        DirichletRows([1.0, 1.0], [2]), DirichletRows(np.ones(4), [2, 2]), normal_gamma(),
    ),
    "SemiMarkovPosterior": lambda: SemiMarkovPosterior(
        DirichletRows([1.0, 2.0], [2]), DirichletRows(np.ones(4), [2, 2]), DirichletRows(np.ones(6), [3, 3]),
        normal_gamma().repeat(2), DirichletRows([1.0, 1.0], [2]), DirichletRows(np.ones(4), [2, 2]),
        DirichletRows(np.ones(6), [3, 3]), normal_gamma(), cut=False,
    ),
    "MixturePosterior": lambda: MixturePosterior(
        DirichletRows([1.0, 2.0], [2]), normal_gamma().repeat(2), StickBreaking.prior(2, 0.5), normal_gamma()
    ),
    "ConjugateMixture": lambda: ConjugateMixture(Dirichlet([[1.0, 2.0]]), Gamma([1.0, 2.0], [3.0, 1.0])),
    "ConjugateProduct": lambda: ConjugateProduct(
        Product([Categorical([[0.5, 0.5]]), Poisson([2.0])], ["alarm", "drops"]),
        [Dirichlet([[1.0, 2.0]]), Gamma([1.0], [3.0])],
    ),
    "StickBreaking": lambda: StickBreaking.prior(3, 0.5),
    "TablePosterior": lambda: TablePosterior(
        tree(), DirichletRows(np.ones(6), [2, 2, 2]), DirichletRows(np.ones(6), [2, 2, 2]), np.zeros(6, bool)
    ),
    "BayesNet": tree,
    "BayesianTree": lambda: BayesianTree({"a": 2, "b": 3}, [("a", "b")], rows=2, concentration=0.5),
    "GaussianNet": lambda: credo.GaussianNet(sparse.csr_matrix(COVARIANCES[0]), [1.0, 2.0], ["p", "q"]),
    "HybridNet": lambda: credo.HybridNet([X, S], [potentials.emission(X, S, [0.0, 5.0], 1.0)]),
    "LatentCRF": lambda: credo.LatentCRF(
        {"part": ("y", "h")}, {"h": 2}, states={"y": ["a", "b"]}, node_features={"y": ["f"]},
        node_weights={"y": [[0.5, 1.0]], "h": [[0.0, 0.25]]}, edge_weights={"part": [np.eye(2)]},
    ),
    "declared parameter": lambda: Declared("scale", credo.Positive(), np.array([[1, 0]])),
    "CRF": lambda: credo.CRF(["n", "v"], MEANS, COVARIANCES, node_features=["f", "g"]),
    "FactorialHMM": lambda: FactorialHMM.additive(
        [[0.5, 0.5]] * 2, [STEPS] * 2, [[[0.0], [1.0]], [[0.0], [3.0]]], [[0.1]]
    ),
    "HMM": hmm,
    "HMMPrior": lambda: HMMPrior(start=Dirichlet([[2.0, 2.0]]), emission=normal_gamma()),
    "LogLinear": log_linear,
    "MixtureOfTrees": lambda: MixtureOfTrees([0.1, 0.2, 0.7], [tree() for _ in range(3)]),
    "MarkovNet": lambda: credo.MarkovNet.ising({(0, 1): 0.5, (1, 2): -1.0}, fields=[0.1, 0.0, 0.2]),
    "NormalForm": normal_form,
    "BlankRBM": lambda: credo.RBM.blank(3, visible="gaussian"),
    "RBM": lambda: credo.RBM(MEANS, [0.5, 1.0], visible="gaussian", sd=[1.0, 2.0]),
    "ConditionalRBM": lambda: ConditionalRBM(MEANS, MEANS, MEANS, [0.5, 1.0]),
    "FractionalRBM": lambda: FractionalRBM(MEANS, [0.5, 2.0]),
    "block": lambda: Block("S", "X", STEPS),
    "diverter": lambda: Diverter("S", ["A", "B"]),
    "source": lambda: Source("S", [0.6, 0.4]),
    "SemiMarkov": lambda: SemiMarkov(
        [1, 0], [[0, 1], [1, 0]], [[0.2, 0.8], [0.5, 0.5]], Poisson([1.0, 9.0]), cut=False
    ),
}  # fmt: skip
