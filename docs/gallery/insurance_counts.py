"""
Insurance counts with exposure
==============================

An insurer counts claims; policies ran for months or for years. A garage chain knows how its customers drive. The model
is a Poisson regression with exposure, and equals scikit-learn's on pooled data.
"""

# %%
# Claims grow with the time that a policy ran. ``exposure`` says so, and needs no coefficient.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.model_selection import train_test_split

from tacit import PartyTables, VerticalRegressor, alone

ROWS = 40_000
rng = np.random.default_rng(0)
years = rng.uniform(0.1, 2.0, ROWS)
insurer = pd.DataFrame({"driver_age": rng.normal(size=ROWS), "power": rng.normal(size=ROWS)})
garage = pd.DataFrame({"mileage": rng.normal(size=ROWS), "brakes": rng.normal(size=ROWS)})
rate = 0.12 * np.exp(-0.3 * insurer["driver_age"] + 0.1 * insurer["power"] + 0.45 * garage["mileage"])
claims = rng.poisson(rate * years)
print(f"{claims.sum():,} claims in {years.sum():,.0f} years of {ROWS:,} policies")

tables = PartyTables({"insurer": insurer, "garage": garage})
train, test, y_train, y_test, years_train, years_test = train_test_split(tables, claims, years, random_state=0)

# %%
# Fit, and compare with scikit-learn on all data in one place.

model = VerticalRegressor(loss="poisson", alpha=1e-3, tol=1e-8)
model.fit(train, y_train, exposure=years_train)
own = alone(model, "insurer").fit(train, y_train, exposure=years_train)

everything = np.hstack([train.tables["insurer"], train.tables["garage"]])
pooled = PoissonRegressor(alpha=1e-3, tol=1e-8, max_iter=1000)
pooled.fit(everything, y_train / years_train, sample_weight=years_train)
scale = len(y_train) / years_train.sum()
print("coefficients  Tacit      ", np.round(model.coef_, 3))
print("              scikit-learn", np.round(pooled.coef_, 3), f"(its alpha weighs {scale:.2f} times as much)")

# %%
# Does the garage's knowledge help? Sort the test policies by the predicted rate, cut them into tenths, and compare
# predicted with observed claims per year. The steeper the line, the better are risks told apart.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharey=True, layout="constrained")
for ax, (name, one) in zip(axes, {"insurer alone": own, "both, by Tacit": model}.items(), strict=True):
    predicted = one.predict(test)
    tenths = np.array_split(np.argsort(predicted), 10)
    seen = [y_test[rows].sum() / years_test[rows].sum() for rows in tenths]
    errors = [np.sqrt(y_test[rows].sum()) / years_test[rows].sum() for rows in tenths]
    expected = [(predicted * years_test)[rows].sum() / years_test[rows].sum() for rows in tenths]
    places = np.arange(1, 11)
    ax.errorbar(places, seen, yerr=errors, fmt="o", color="0.3", capsize=2, label="observed, with standard error")
    ax.plot(places, expected, color="C0", linewidth=2, label="predicted")
    deviance = mean_poisson_deviance(y_test / years_test, predicted, sample_weight=years_test)
    ax.set(title=f"{name}: deviance {deviance:.3f}", xlabel="tenth of the policies, by predicted rate", xticks=places)
axes[0].set_ylabel("claims per year")
axes[0].legend(loc="upper left")
plt.show()
