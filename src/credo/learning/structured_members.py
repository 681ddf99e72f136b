r"""Members of one family of objectives for structured prediction, told apart by two temperatures and a loss.

    U(w) = sum_n U_n(w),   U_n = U_n+ - U_n-
    U_n+ = eps_y log sum_y exp( [ loss(y_n, y) + eps_h log sum_h exp( w.f(x_n, y, h) / eps_h ) ] / eps_y )
    U_n- = eps_h log sum_h exp( w.f(x_n, y_n, h) / eps_h )

h are hidden nodes and missing labels, y the labels that are known. Both parts are powered sums (temperature 0
is a maximum), and in both the hidden variables are eliminated first, whatever their temperature.

    member                        eps_y  eps_h  loss
    crf, hcrf                       1      1    none    minus the conditional log-likelihood
    ssvm, mssvm                     0      1    yes     structured SVM; hidden variables are summed
    lssvm                           0      0    yes     latent structured SVM
    mllr                            1      0    none
    loss-augmented-likelihood       1      1    yes
    epsilon(eps=...)               eps    eps   yes
    powered(eps_y=..., eps_h=..., loss=...)     any other

Where nothing is hidden eps_h makes no difference: `ssvm` and `mssvm`, `crf` and `hcrf` are one then.

Members with a loss bound it: U_n >= loss(y_n, y') for y' = argmax_y eps_h log sum_h exp(w.f / eps_h), the
*annealed marginal MAP* labels, with exact inference. A prediction is made as the member was learned: annealed
marginal MAP, which is joint MAP for eps_h = 0, and each label by itself (`max-marginals`) for hcrf.

Source: Ping, Learning and Inference in Latent Variable Graphical Models, 2016, chapter 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..core import check
from ..core.errors import OptionError
from ..core.registry import near_misses, or_else, read_spec, read_value

__all__ = ["DECODINGS", "MEMBERS", "Decoding", "RiskMember", "member_of"]

Decoding = Literal["annealed", "joint-map", "marginal-map", "max-marginals"]
DECODINGS = ("annealed", "joint-map", "marginal-map", "max-marginals")


@dataclass(frozen=True)
class RiskMember:
    """Two temperatures, whether there is a loss, and how labels are predicted."""

    name: str  # of the objective
    eps_y: float  # of labels that are known
    eps_h: float  # of what is hidden
    has_loss: bool = True  # whether a loss is meant where none is named
    decoding: Decoding = "annealed"  # of predictions

    def __post_init__(self) -> None:
        """Check the temperatures."""
        for name, value in (("eps_y", self.eps_y), ("eps_h", self.eps_h)):
            check.finite(name, value)
            if value < 0:
                raise OptionError(
                    f"{name}: expected a temperature of 0 (a maximum) or more, got {value:g}; a powered sum "
                    "of negative temperature is none"
                )
        check.one_of("loss", self.has_loss, [False, True])

    @property
    def is_smooth(self) -> bool:
        """Whether the objective has a gradient everywhere, hidden variables or not."""
        return self.eps_y > 0 and self.eps_h > 0

    def prediction(self, *, has_hidden: bool) -> str:
        """What a field that was learned by it notes about predictions, see `models.decodings`."""
        if self.decoding != "annealed":
            return self.decoding
        if not has_hidden or self.eps_h == 0:
            return "joint-map"
        return "marginal-map" if self.eps_h == 1 else f"annealed(eps_h={self.eps_h!r})"


MEMBERS = {
    member.name: member
    for member in (
        RiskMember("crf", 1.0, 1.0, False),
        RiskMember("hcrf", 1.0, 1.0, False, "max-marginals"),
        RiskMember("loss-augmented-likelihood", 1.0, 1.0),
        RiskMember("lssvm", 0.0, 0.0),
        RiskMember("mllr", 1.0, 0.0, False),
        RiskMember("mssvm", 0.0, 1.0),
        RiskMember("ssvm", 0.0, 1.0),
    )
}


def member_of(objective: str | RiskMember) -> RiskMember:
    """A member by its name, such as `"mssvm"` or `"epsilon(eps=0.3)"`.

    Examples
    --------
    >>> from credo.learning.structured_members import member_of
    >>> member_of("mssvm").eps_y, member_of("epsilon(eps=0.3)").eps_h
    (0.0, 0.3)
    """
    if isinstance(objective, RiskMember):
        return objective
    if not isinstance(objective, str):
        raise OptionError(f"objective: expected a name such as 'mssvm', got {objective!r:.80}")
    name, parts = read_spec("objective", objective)
    if name in MEMBERS and not parts:
        return MEMBERS[name]
    given = {key.strip(): read_value(value.strip()) for key, _, value in (p.partition("=") for p in parts)}
    if name == "epsilon" and set(given) == {"eps"}:
        return RiskMember(objective, given["eps"], given["eps"])
    if name == "powered" and set(given) <= {"eps_y", "eps_h", "loss"}:
        return RiskMember(
            objective, given.get("eps_y", 0.0), given.get("eps_h", 1.0), given.get("loss", True)
        )
    raise OptionError(_unknown(name))


def _unknown(name: str) -> str:
    forms = {"epsilon": "epsilon(eps=0.5)", "powered": "powered(eps_y=0, eps_h=1, loss=true)"}
    if name in forms:
        return f"objective {name}: expected options as in '{forms[name]}'"
    if name in MEMBERS:
        return f"objective {name}: expected no options; write 'powered(eps_y=..., eps_h=...)' for others"
    known: list[Any] = [*MEMBERS, *forms.values()]
    near = near_misses(name, [*MEMBERS, *forms])
    return f"no objective named '{name}'; " + (
        f"did you mean {or_else(near)}?" if near else f"there are {known}"
    )
