"""`engram play`: a game in the terminal."""

from __future__ import annotations

import sys
from typing import Any

from engram.arena.roster import player as player_of
from engram.drivers.search import Search
from engram.errors import EngramError, IllegalAction
from engram.games.catalogue import game as game_of
from engram.rng import derive_seed
from engram.search.limit import Limit

HELP = "a move, 'hint', 'undo', 'moves' or 'quit'"


def play_game(
    game_text: str, opponent: str, limit: Limit, *, human_player: int, seed: int, quiet: bool
) -> dict[str, Any]:
    """Plays one game against a person who types moves; returns its record."""
    game = game_of(game_text)
    rival = player_of(game, opponent)
    out = sys.stderr if quiet else sys.stdout

    def say(text: str) -> None:
        print(text, file=out, flush=True)

    moves: list[int] = []
    quit_early = False
    rival.new_game(derive_seed(seed, "play"))
    say(f"{game.name}: you are the {'second' if human_player else 'first'} player; type {HELP}")
    while True:
        state = game.play_moves(moves)
        say("\n" + game.render(state))
        if game.is_over(state):
            break
        if game.to_play(state) != human_player:
            choice = rival.choose(state, limit, derive_seed(seed, len(moves)))
            say(f"{opponent} plays {game.action_name(choice.action, state)}")
            moves.append(choice.action)
            rival.played(choice.action)
            continue
        out.write("your move: ")
        out.flush()
        line = sys.stdin.readline()
        word = line.strip()
        if not line or word == "quit":
            quit_early = True
            break
        if word == "":
            continue
        if word == "moves":
            say(" ".join(game.action_name(action, state) for action in game.legal_actions(state)))
        elif word == "hint":
            say(str(Search(game, "uct").run(state, limit, seed=seed)))
        elif word == "undo":
            own = [k for k in range(len(moves)) if game.to_play(game.play_moves(moves[:k])) == human_player]
            if own:
                del moves[own[-1] :]
                rival.new_game(derive_seed(seed, "play"))
                for action in moves:
                    rival.played(action)
            else:
                say("there is nothing to take back")
        else:
            try:
                action = game.parse_action(word, state)
                game.play(state, action)
            except (IllegalAction, EngramError) as error:
                say(f"{error}; type {HELP}")
                continue
            moves.append(action)
            rival.played(action)
    rival.close()
    record: dict[str, Any] = {
        "game": game.name,
        "opponent": opponent,
        "moves": game.move_names(moves),
        "outcome": None,
    }
    if not quit_early:
        outcome = game.outcome(game.play_moves(moves), human_player)
        record["outcome"] = outcome
        say("you win" if outcome > 0 else "you lose" if outcome < 0 else "a draw")
    return record
