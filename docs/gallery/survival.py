"""
Survival
========

How long do patients live after surgery, given what a clinic and a laboratory know? A model whose hazard is constant
in each of some intervals is a Poisson model, so that it needs nothing new from the parties.
"""

# %%
# Times are censored where the study ended first.

import matplotlib.pyplot as plt
import numpy as np

from tacit import VerticalRegressor, survival_rows

ROWS = 1_500
rng = np.random.default_rng(0)
clinic = rng.normal(size=(ROWS, 2))  # age, stage
laboratory = rng.normal(size=(ROWS, 2))  # marker, iron
effects = np.array([0.3, 0.5, 0.7, 0.0])
times = 4 * rng.weibull(1.3, ROWS) * np.exp(-np.hstack([clinic, laboratory]) @ effects / 1.3) + 0.01
ends = rng.uniform(1, 8, ROWS)
seen, event = np.minimum(times, ends), times <= ends
print(f"{event.sum()} of {ROWS} patients died in {seen.sum():,.0f} years")

# %%
# One row for each patient and each interval that the patient entered, with the time spent there as exposure.

cuts = np.array([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
rows = survival_rows(seen, event, cuts=cuts)
interval = (rows.interval[:, None] == np.arange(1, len(cuts) + 1)).astype(float)
parties = {"clinic": np.hstack([clinic[rows.row], interval]), "laboratory": laboratory[rows.row]}
model = VerticalRegressor(loss="poisson", alpha=1e-6, tol=1e-8)
model.fit(parties, rows.event, exposure=rows.exposure)

names = ["age", "stage", "marker", "iron"]
found = np.concatenate([model.coef_by_party_["clinic"][:2], model.coef_by_party_["laboratory"]])
for name, value, true in zip(names, found, effects, strict=True):
    print(f"{name:8} hazard ratio {np.exp(value):.2f}   (the data were made with {np.exp(true):.2f})")

# %%
# Survival of the patients with the highest and with the lowest risk: predicted by the model, and observed (Kaplan and
# Meier).


def survival(risk: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Mean survival of patients with these scores at each time of the grid."""
    base = np.concatenate([[0.0], model.coef_by_party_["clinic"][2:]]) + model.intercept_
    edges = np.concatenate([[0.0], cuts, [np.inf]])
    spent = np.clip(grid[:, None] - edges[:-1], 0, edges[1:] - edges[:-1])
    return np.exp(-(spent @ np.exp(base))[:, None] * np.exp(risk)).mean(axis=1)


def kaplan_meier(time: np.ndarray, died: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Share of patients that live at each time of the grid."""
    order = np.argsort(time)
    left = len(time) - np.arange(len(time))
    steps = np.cumprod(1 - died[order] / left)
    return np.concatenate([[1.0], steps])[np.searchsorted(time[order], grid, side="right")]


risk = np.hstack([clinic, laboratory]) @ found
grid = np.linspace(0, 7, 200)
low, high = np.quantile(risk, [0.25, 0.75])
figure, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
groups = {"lowest risk": (risk <= low, "C0"), "highest risk": (risk >= high, "C3")}
for name, (chosen, color) in groups.items():
    observed = kaplan_meier(seen[chosen], event[chosen], grid)
    ax.step(grid, observed, where="post", color=color, alpha=0.6, label=f"quarter with the {name}, observed")
    ax.plot(grid, survival(risk[chosen], grid), color=color, linestyle="--", label="predicted")
ax.set(xlabel="years after surgery", ylabel="share alive", ylim=(0, 1.02))
ax.legend()
plt.show()
