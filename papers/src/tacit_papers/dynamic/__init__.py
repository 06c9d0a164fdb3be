"""T. Zhang and Q. Zhu, "Dynamic differential privacy for ADMM-based distributed classification learning", rerun."""
