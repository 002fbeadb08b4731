"""From tensors to numbers, and from numbers to verdicts."""
