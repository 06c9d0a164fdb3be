"""The papers rerun: pieces of work, their cached outcomes, figures and tables, and a verdict on every claim.

The way of the data: a `Paper` lists its `Piece`s of work (`work.py`); `runner.py` computes those that the `store.py`
does not hold yet; the paper turns the outcomes into `Section`s of figures and tables (`page_parts.py`) and into a
`Judged` verdict for each item of its `expected.json` (`claims.py`); `page.py` writes the page and the pictures.
"""
