"""The catalogue: one module per fix, each with `FIX`. Order matters: the first fix that claims a place gets it."""
