"""pdml rerun: randomized labels, the unbiased loss, noise in the objective, decaying noise on models.

`rows.py` has what the paper leaves open, and the data; `runs.py` drives the package's own pdml; `adult.py`, `table.py`
and `beside.py` are the pieces of work; `claims*.py` judge; `figures.py` and `paper.py` show.
"""
