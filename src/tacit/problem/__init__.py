"""What is minimised: losses of predictions and regularizers of coefficients."""
