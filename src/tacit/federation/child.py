"""A process that ends when the one that started it is gone, however that ended.

    python -m tacit.federation.child MODULE ARGUMENTS

runs a module so. A supervisor that is killed cannot end its children itself: without this they would go on unseen.
Imports the standard library alone: it must look for its parent before anything else is loaded.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import sys
import threading
import time

LOOK_EVERY = 0.5
PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """From now on end this process as soon as its parent is gone."""
    parent = os.getppid()

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK_EVERY)
        os._exit(1)

    threading.Thread(target=look, name="end with parent", daemon=True).start()


def main() -> None:
    """Run the module that the arguments name, as `python -m` would."""
    if sys.platform == "linux":  # at once, also where this process is stopped; the thread below works everywhere
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(os.environ["TACIT_SUPERVISOR"]):  # it was gone before
        sys.exit(1)
    end_with_parent()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
