from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def real_data() -> Path:
    """The folder of public data sets; tests that need it are skipped where it is not given."""
    folder = os.environ.get("TACIT_DATA")
    if not folder:
        pytest.skip("needs the public data sets: set TACIT_DATA to their folder")
    return Path(folder)
