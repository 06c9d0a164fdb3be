"""The runtime of the sample split: nodes, delivery to neighbours, the loop, the result."""
