"""A ladder that go19 ran into against Pachi: values and choices with and without `tactics`.

    python experiments/go19_strength/ladder.py

Black, go19, begins the flight at move 61 and is caught at move 92.
"""

from __future__ import annotations

import engram

MOVES = """
A15 B8 H15 N17 P17 Q4 R13 D3 F16 C6 O3 R6 Q7 R7 Q9 K3 Q3 R3 R2 P3 Q2 P2 P4 O4 P5 O2 N3 N2 R4 Q5 M3 M2 S3 P6 O5
N5 O6 O7 N6 M5 Q6 R5 P7 Q8 P8 R8 R9 S9 S10 P9 O8 P10 Q11 S11 S8 Q10 R10 R11 T9 Q12 P11 O11 P12 P13 O12 N12 O13
O14 N13 M13 N14 N15 M14 L14 M15 M16 L15 K15 L16 L17 K16 J16 K17 K18 J17 H17 J18 H18 J19 K19 L18 H19
"""
PLAYER = "puct(network='go19',rollout=heavy,rollout_share=0.5,num_leaves=4,tactics={})"


def main() -> None:
    game = engram.game("go:19")
    searches = {tactics: engram.Search(game, PLAYER.format(tactics)) for tactics in ("false", "true")}
    state = game.initial_state()
    for number, name in enumerate(MOVES.split()):
        if number in (46, 54, 60, 62, 66, 70, 76, 86):
            print(f"move {number + 1}, played {name}", end="")
            for tactics, search in searches.items():
                search.clear()
                result = search.run(state, engram.Limit(simulations=1000))
                print(f", tactics={tactics} {game.action_name(result.action, state)} {result.value:+.2f}", end="")
            print(flush=True)
        state = game.play(state, game.parse_action(name, state))


if __name__ == "__main__":
    main()
