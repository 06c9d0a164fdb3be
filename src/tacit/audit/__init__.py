"""Attacks on private mechanisms: what is claimed must withstand them, and what is broken must not."""
