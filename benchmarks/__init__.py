"""Speed and memory of padiff, as ratios within one run; ``python -m benchmarks`` prints them."""
