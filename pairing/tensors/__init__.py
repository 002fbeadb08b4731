"""Which tensor of two paired calls is which, and in what layout."""
