"""The papers that Tacit is built from, rerun and judged, and the design of a round's epsilon.

The way of the data: a `Paper` lists its `Piece`s of work; `work.py` computes those that its `Store` does not hold yet;
the paper turns the outcomes into `Section`s of figures and tables (`paper.py`) and into a `Judged` verdict for each
item of its `expected.json` (`claims.py`); `pages.py` writes the pages and the pictures, `verdicts.py` what the terminal
shows. `design/` is a verb of its own.
"""

__version__ = "0.1.0"
