"""Networks in use: the value of a position and its likely moves. Training is in `engram.training`."""
