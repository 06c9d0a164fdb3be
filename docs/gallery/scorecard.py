"""
A scorecard
===========

Credit officers read points, not logarithms of odds. A joint model becomes a scorecard of whole points, part by
part: each party can print its own.
"""

# %%
# Two files and a job, as two organisations would have them.

import tempfile
from contextlib import chdir
from itertools import pairwise
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import tacit
from tacit.cli.main import main

ROWS = 4_000
folder = tempfile.mkdtemp()
rng = np.random.default_rng(0)
customer = [f"c{number:05d}" for number in range(ROWS)]
income, years = rng.gamma(4.0, 900.0, ROWS).round(), rng.integers(0, 30, ROWS)
home = rng.choice(["owner", "tenant", "with parents"], ROWS, p=[0.4, 0.45, 0.15])
late = rng.poisson(0.8, ROWS)
odds = 1.2 - 0.0004 * income - 0.06 * years + 0.5 * (home == "with parents") - 0.5 * (home == "owner") + 0.8 * late
bad = rng.random(ROWS) < 1 / (1 + np.exp(-(odds - 1.9)))
bank = pd.DataFrame({"customer": customer, "income": income, "years": years, "home": home})
bank["result"] = np.where(bad, "bad", "good")
bank.to_csv(f"{folder}/bank.csv", index=False)
pd.DataFrame({"customer": customer, "late_bills": late}).sample(frac=1).to_csv(f"{folder}/telco.csv", index=False)
Path(folder, "credit.toml").write_text(
    """
[job]
holdout = 0.25

[model]
terms = "spline"

[[party]]
name = "bank"
data = "bank.csv"
id = "customer"
label = "result"
positive = "bad"

[[party]]
name = "telco"
data = "telco.csv"
id = "customer"
"""
)

# %%
# ``tacit train`` and ``tacit scorecard`` would do the same at a terminal.

with chdir(folder):
    model = tacit.run_job("credit.toml", "runs/credit", note=print)
    main(["scorecard", "runs/credit", "--pdo", "20", "--score", "600", "--odds", "50", "--out", "card.csv"])
card = pd.read_csv(f"{folder}/card.csv")
print(card.to_string(index=False, na_rep=""))

# %%
# The bank scores its customers. 20 points more double the odds of repaying; 600 points are odds of 50 to 1.

predictions = model.predict({name: f"{folder}/{name}.csv" for name in ("bank", "telco")})
chance = np.asarray(predictions.probability)
by_id = bank.set_index("customer")["result"].loc[np.asarray(predictions.ids)].to_numpy()
points = 600 + 20 / np.log(2) * (np.log((1 - chance) / chance) - np.log(50))

figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.6), layout="constrained")
edges = np.linspace(*np.quantile(points, [0.002, 0.998]), 31)
for kind, color in (("good", "C0"), ("bad", "C3")):
    axes[0].hist(points[by_id == kind], bins=edges, density=True, alpha=0.55, color=color, label=f"{kind} customers")
axes[0].set(xlabel="points", ylabel="share of customers", yticks=[])
axes[0].legend()
cuts = np.quantile(points, np.linspace(0, 1, 11))
within = [(points >= low) & (points <= high) for low, high in pairwise(cuts)]
middle = [points[rows].mean() for rows in within]
axes[1].plot(middle, [np.mean(by_id[rows] == "bad") for rows in within], "o", color="0.3", label="observed, by tenths")
axes[1].plot(middle, [chance[rows].mean() for rows in within], color="C0", label="what the points say")
axes[1].set(xlabel="points", ylabel="share of bad customers")
axes[1].legend()
plt.show()
