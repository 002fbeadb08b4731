"""PLACEHOLDER comparer/report."""
