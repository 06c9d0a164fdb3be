"""What the papers behind the private methods offer around them: the choice of alpha, and learning guarantees."""
