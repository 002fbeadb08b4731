"""Take one layer out of two dumps, with scripts that run it alone."""
