"""Where a plan runs: parties, coordinator, the loop between them, and what is left on disk."""
