"""Attacks, and what is said to users that must not be wrong."""
