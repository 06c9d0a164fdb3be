"""The sharing paper rerun: features split between parties, ADMM sharing against SGD, noise on what is shared."""
