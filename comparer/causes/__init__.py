"""What a divergence is likely caused by, with the numbers that say so."""
