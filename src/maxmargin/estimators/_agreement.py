"""What the front doors on factor graphs share: the parameters of soft agreement, and its solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validation import check_choice, check_number
from ..graphs.problem import GraphProblem
from ..graphs.soft import AGREEMENTS, STEPS, SoftAgreement
from ..solvers.acceleration import Accelerated
from ..solvers.base import Solver
from ..solvers.climb import Climb
from ..solvers.result import Result
from ._base import PREVIOUS, Settings, incompatible

if TYPE_CHECKING:
    from ._base import StructuredEstimator as _Base
else:
    _Base = object


class AgreementModel(_Base):
    """Mixin of estimators with the parameters ``agreement, rho, smoothing, steps``."""

    agreement: str
    rho: Any
    smoothing: float
    steps: str

    def _check_agreement(self) -> None:
        """Refuse parameters that no fit on a graph could use."""
        check_choice("agreement", self.agreement, AGREEMENTS)
        check_choice("steps", self.steps, STEPS)
        if not (isinstance(self.rho, str) and self.rho == "auto"):
            check_number("rho", self.rho, above=0)
        check_number("smoothing", self.smoothing, at_least=0)

    def _refuse_crf(self, what: str, remedy: str) -> None:
        if self.surrogate == "crf":
            raise incompatible(
                "crf",
                f"{what}: its likelihood needs a sum over all labellings, which no graph with "
                "cycles allows in reasonable time",
                remedy,
            )

    def _keep_certificate(self, result: Result, problem: Any) -> None:
        super()._keep_certificate(result, problem)
        self.bounds_ = dict(result.bounds)

    def _stepper(self, problem: Any, settings: Settings, *, dual_state: Any = PREVIOUS) -> Any:
        if not isinstance(problem, GraphProblem):
            return super()._stepper(problem, settings, dual_state=dual_state)
        if isinstance(self.solver, Solver):
            return super()._stepper(problem, settings, dual_state=dual_state)
        wanted = self._wanted_average()
        is_switch = isinstance(wanted, (bool, np.bool_))
        average = (3.0 if wanted else None) if is_switch else float(wanted)
        soft = SoftAgreement(
            self.agreement, self.rho, self.smoothing, self.steps, order=self.order, average=average
        )
        start = self._dual_for(problem) if dual_state is PREVIOUS else dual_state
        return Climb(Accelerated(soft), problem, rng=settings.rng, start=start)
