"""
Three hospitals
===============

Three hospitals measure the same things about different patients. Each has too few for a good model. They train one
together, hospital by hospital in a ring, without a server that would hold the rows.
"""

# %%
# The breast cancer data of scikit-learn, dealt out unevenly. A third of the patients is kept for the test.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from tacit import ConvergenceDisplay, HorizontalClassifier, Privacy

ROWS = 569
X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X[:ROWS, :10])
X_train, X_test, y_train, y_test = train_test_split(X, y[:ROWS], test_size=0.33, random_state=0, stratify=y[:ROWS])

names = ["north", "south", "valley"]
places = np.random.default_rng(1).choice(names, len(X_train), p=[0.6, 0.28, 0.12])
patients = {name: X_train[places == name] for name in names}
diagnoses = {name: y_train[places == name] for name in names}
print({name: len(rows) for name, rows in patients.items()})

# %%
# The joint model, and each hospital's own. Nobody sends a row: neighbours in the ring exchange models.

joint = HorizontalClassifier(alpha=0.01, graph="ring")
joint.fit(patients, diagnoses)
losses = {"all three, by Tacit": log_loss(y_test, joint.predict_proba(X_test))}
for name in names:
    own = LogisticRegression(C=1 / (0.01 * len(patients[name]))).fit(patients[name], diagnoses[name])
    losses[f"{name} alone"] = log_loss(y_test, own.predict_proba(X_test))
together = LogisticRegression(C=1 / (0.01 * len(X_train)), tol=1e-8).fit(X_train, y_train)
losses["all rows in one place"] = log_loss(y_test, together.predict_proba(X_test))

figure, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
order = [*(f"{name} alone" for name in reversed(names)), "all three, by Tacit", "all rows in one place"]
bars = ax.barh(order, [losses[name] for name in order], color=["0.7"] * 3 + ["C0", "C1"])
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.set(xlabel="log loss on test patients (smaller is better)", xlim=(0, 1.15 * max(losses.values())))
plt.show()

# %%
# How fast the ring agrees:

ConvergenceDisplay.from_estimator(joint)
plt.show()

# %%
# With privacy, a patient may ask: does the model tell that I was in it? ``epsilon`` bounds that, for the whole run and
# against all other hospitals together. With so few patients the price is high, and it is better to know that.

epsilons = [0.5, 1, 2, 4, 8, 16]
private = []
for epsilon in epsilons:
    runs = [
        HorizontalClassifier(
            alpha=0.01, graph="ring", privacy=Privacy(epsilon=epsilon, row_norm=4.0, noise_seed=seed), random_state=seed
        )
        .fit(patients, diagnoses)
        .predict_proba(X_test)
        for seed in range(5)
    ]
    private.append([log_loss(y_test, chances) for chances in runs])

figure, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
ax.plot(epsilons, np.mean(private, axis=1), marker="o", label="mean of five private runs")
ax.fill_between(epsilons, np.min(private, axis=1), np.max(private, axis=1), alpha=0.2, linewidth=0)
for name, style in (("all three, by Tacit", "-"), ("valley alone", "--"), ("south alone", ":")):
    ax.axhline(losses[name], color="0.4", linestyle=style, linewidth=1, label=f"{name}, without noise")
ax.set(xscale="log", xlabel="epsilon of the whole run", ylabel="log loss on test patients")
ax.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
ax.minorticks_off()
ax.legend()
plt.show()
