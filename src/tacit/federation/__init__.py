"""Training between organisations: each keeps its data, its settings and its budget on its own disk."""
