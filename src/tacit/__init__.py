"""Train one model together without sharing data, by ADMM, and get a privacy certificate that can be checked."""

__version__ = "0.1.0"
