"""What a run claims about privacy."""
