"""Nim as a plain Python game: try `engram move --game "examples/nim.py:nim(heaps=[3,4,5])"`.

The player who takes the last object wins. An action is heap · 8 + (objects taken - 1).
"""

from engram import PythonGame

MOST = 8


class Nim:
    """A position, with all the methods that engram needs."""

    def __init__(self, heaps):
        self.heaps = list(heaps)
        self.player = 0

    def legal_actions(self):
        return [heap * MOST + take for heap, objects in enumerate(self.heaps) for take in range(objects)]

    def play(self, action):
        heap, take = divmod(action, MOST)
        self.heaps[heap] -= take + 1
        self.player = 1 - self.player

    def to_play(self):
        return self.player

    def outcome(self):
        return -1.0 if self.player == 0 else 1.0  # the player to move has lost

    def copy(self):
        other = Nim(self.heaps)
        other.player = self.player
        return other

    def __str__(self):
        return f"{self.heaps}, player {self.player} to move"


def nim(heaps=(3, 4, 5)):
    """Nim with up to 8 objects in each heap."""
    return PythonGame(
        "nim:" + "-".join(map(str, heaps)),
        lambda: Nim(heaps),
        num_actions=MOST * len(heaps),
        max_moves=sum(heaps),
        action_name=lambda action: f"{action % MOST + 1}from{action // MOST + 1}",
    )
