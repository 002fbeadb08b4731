"""Models for pairing tests: transformers' own in torch, ports with another tree in Paddle."""
