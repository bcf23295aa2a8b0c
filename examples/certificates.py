"""
What a certificate is
=====================

Every fit ends with two numbers: the training objective at the weights found (primal), and a value
that no weights at all can go below (dual). Their difference, the gap, proves how far the fit is
from the optimum. Callbacks see all of it while training goes on, and can stop it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

from maxmargin import Checked, MulticlassClassifier

X, y = load_digits(return_X_y=True)
X = X / 16

# %%
# Train with a check after every pass, until the objective is within 0.1 % of the best.

each_pass = Checked("auto", every=1)
model = MulticlassClassifier(tol=1e-3, solver=each_pass, random_state=0).fit(X, y)
print(f"{model.status_} after {model.n_iter_} passes")
print(f"primal {model.primal_:.6f}, dual {model.dual_:.6f}, gap {model.gap_:.1e}")

# %%
# A callback that has seen enough stops the fit; what is certified then is still true.


def good_enough(check):
    """Stop at ten per cent."""
    return check.gap > 0.1 * check.primal


early = MulticlassClassifier(
    tol=1e-3, solver=each_pass, callbacks=[good_enough], random_state=0
).fit(X, y)
print(
    f"{early.status_} after {early.n_iter_} passes with a gap of {early.gap_ / early.primal_:.1%}"
)
assert early.primal_ - early.gap_ <= model.primal_

# %%
# The optimum is always between the two lines.

passes = [check.passes for check in model.history_]
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(passes, [check.primal for check in model.history_], label="primal")
left.plot(passes, [check.dual for check in model.history_], label="dual")
left.set_ylim(0, 3 * model.primal_)
left.set_xlabel("passes")
left.legend()
right.semilogy(passes, [check.gap / check.primal for check in model.history_])
right.set_xlabel("passes")
right.set_ylabel("relative gap")
plt.show()
