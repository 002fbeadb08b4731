"""Record what a model does while somebody else runs it."""
