"""One side as a graph of operators and values; the vocabulary, lowering and float64 execution."""
