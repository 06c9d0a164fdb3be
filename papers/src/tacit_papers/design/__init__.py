"""`tacit design`: the alpha of a round that balances loss and privacy, and what choosing it costs."""
