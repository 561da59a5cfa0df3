"""Networks in use: what a position is worth and which moves are likely. Training is in `engram.training`."""
