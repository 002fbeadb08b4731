"""The formats of a result: one file for each, and what they share."""
