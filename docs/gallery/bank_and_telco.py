"""
A bank and a telephone company
==============================

A bank knows which customers repaid their loans. A telephone company knows how the same people pay their bills. Together
they predict defaults better than the bank alone, and neither hands over its table.
"""

# %%
# Two tables about the same people. The bank, named first, holds the labels.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import RocCurveDisplay, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from tacit import ContributionDisplay, CurvesDisplay, PartyTables, VerticalClassifier, alone, pooled

ROWS = 6_000
rng = np.random.default_rng(0)
age = rng.uniform(18, 80, ROWS)
debt = rng.gamma(2.0, 4.0, ROWS)
late = rng.poisson(1.2, ROWS)
months = rng.uniform(0, 120, ROWS)
plan = rng.choice(["prepaid", "basic", "gold"], ROWS, p=[0.3, 0.5, 0.2])
score = -2.4 + 0.05 * debt + ((age - 45) / 25) ** 2 + 0.6 * late - 0.012 * months + 0.7 * (plan == "prepaid")
default = np.where(rng.random(ROWS) < 1 / (1 + np.exp(-score)), "yes", "no")

tables = PartyTables(
    {
        "bank": pd.DataFrame({"age": age, "debt": debt}),
        "telco": pd.DataFrame({"late_bills": late, "months": months, "plan": plan}),
    }
)
train, test, y_train, y_test = train_test_split(tables, default, random_state=0)
print(f"{ROWS:,} customers, of whom {np.mean(default == 'yes'):.0%} did not repay")

# %%
# One model of curves, trained together. ``alone`` gives the bank's own model, and ``pooled`` a model of all data in one
# place: the first is what joining must beat, the second is the most that it could reach.

model = VerticalClassifier(terms="spline")
models = {
    "bank alone": alone(model, "bank"),
    "all data in one place": pooled(model),
    "both, by Tacit": model,
}
figure, ax = plt.subplots(figsize=(6, 4.6), layout="constrained")
styles = {"bank alone": ("0.5", 1.5), "all data in one place": ("moccasin", 7), "both, by Tacit": ("C0", 1.5)}
for name, one in models.items():
    one.fit(train, y_train)
    chance = one.predict_proba(test)[:, 1]
    area = roc_auc_score(y_test == "yes", chance)
    print(f"{name:22}  AUC {area:.3f}  log loss {log_loss(y_test, chance):.4f}")
    color, width = styles[name]
    RocCurveDisplay.from_predictions(
        y_test == "yes", chance, name=name, ax=ax, curve_kwargs={"color": color, "linewidth": width}
    )
ax.set(xlabel="false positive rate", ylabel="true positive rate", title="Rows that no model was trained on")
plt.show()

# %%
# Tacit's model is that of all data in one place: the thin line lies on the broad one. What each column adds to the
# score:

CurvesDisplay.from_estimator(model)
plt.show()

# %%
# Each party has its own columns in its own part of the model. For one customer, this is what either adds:

ContributionDisplay.from_estimator(model, test, row=0)
plt.show()
