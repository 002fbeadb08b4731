"""Which parameter of the reference is which of the candidate, and by which rule."""
