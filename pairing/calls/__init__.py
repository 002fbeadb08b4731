"""Which call and module of the reference is which of the candidate."""
