"""Which call is the first to be wrong, and whether the fault is its own."""
