"""`engram play`: a game in the terminal."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Annotated, Any, TextIO

from engram.cli import options
from engram.cli.console import app, print_json
from engram.cli.options import option

if TYPE_CHECKING:
    from engram.drivers.limit import Limit
    from engram.games.game import Game
    from engram.games.state import State
    from engram.player import Player

HELP = "a move, 'hint', 'undo', 'moves' or 'quit'"


@app.command()
def play(
    game: options.Game = "connect_four",
    opponent: Annotated[str, option("Your opponent.", "--opponent", "-o")] = "uct",
    simulations: options.Simulations = None,
    seconds: options.Seconds = None,
    second: Annotated[bool, option("Let the opponent move first.", "--second")] = False,
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Play a game in the terminal; type `undo`, `hint` or `quit` instead of a move."""
    from engram.arena.roster import player as player_of
    from engram.games.catalogue import game as game_of

    rules = game_of(game)
    rival = player_of(rules, opponent)
    limit = options.move_limit(simulations, seconds)
    table = _Game(rules, rival, limit, human=int(second), seed=seed, out=sys.stderr if as_json else sys.stdout)
    try:
        rival.warm_up()
        outcome = table.play()
    finally:
        rival.close()
    if as_json:
        moves = rules.move_names(table.moves)
        forfeit = {"forfeit": table.forfeit} if table.forfeit else {}
        print_json({"game": rules.name, "opponent": opponent, "moves": moves, "outcome": outcome} | forfeit)


class _Game:
    """One game of a person, who types moves, against a player.

    Attributes:
      moves: so far. forfeit: why the player lost the game before its end; empty if it did not.
    """

    def __init__(self, rules: Game, rival: Player, limit: Limit, *, human: int, seed: int, out: TextIO):
        self.moves: list[int] = []
        self.forfeit = ""
        self._rules, self._rival, self._limit = rules, rival, limit
        self._human, self._seed, self._out = human, seed, out

    def play(self) -> float | None:
        """Plays to the end; returns the outcome for the person, or None where the person quits."""
        from engram.games.contract import UNIT_BOUNDS
        from engram.games.record import NATURE
        from engram.player import Forfeit

        rules = self._rules
        self._restart()
        player = "the player" if rules.players == 1 else f"the {'second' if self._human else 'first'} player"
        watches = self._human >= rules.players
        self._say(f"{rules.name}: {'you watch' if watches else f'you are {player}; type {HELP}'}")
        while True:
            state = rules.play_moves(self.moves)
            if rules.has("chance") and not rules.is_over(state) and rules.to_play(state) == NATURE:
                self._nature_moves(state)
                continue
            self._say("\n" + rules.render(state))
            if rules.is_over(state):
                break
            if rules.to_play(state) != self._human:
                try:
                    self._rival_moves(state)
                except Forfeit as error:
                    self.forfeit = str(error)
                    self._say(f"{self._rival.text}: {error}{'' if watches else '; you win'}")
                    return None if watches else (rules.bounds or UNIT_BOUNDS)[1]
            elif not self._person_moves(state):
                return None
        outcome = self._outcome()
        if rules.players == 1:
            self._say(f"{self._rival.text if watches else 'you'} reach{'es' if watches else ''} {outcome:g}")
            return outcome
        self._say("you win" if outcome > 0 else "you lose" if outcome < 0 else "a draw")
        return outcome

    def _outcome(self) -> float:
        """The return of the whole game for the person."""
        total = self._rules.line_return(self.moves)
        return 0.0 - total if self._human and self._rules.players == 2 else total

    def _nature_moves(self, state: State) -> None:
        action = self._rules.drawn(state, random.Random(self._derived_seed(f"nature {len(self.moves)}")).random())
        self._say(f"nature draws {self._rules.action_name(action, state)}")
        self._make(action)

    def _rival_moves(self, state: State) -> None:
        choice = self._rival.choose(state, self._limit, self._derived_seed(len(self.moves)))
        self._say(f"{self._rival.text} plays {self._rules.action_name(choice.action, state)}")
        self._make(choice.action)

    def _person_moves(self, state: State) -> bool:
        """Reads a line and obeys it; False if the person quits."""
        from engram.errors import EngramError

        self._out.write("your move: ")
        self._out.flush()
        line = sys.stdin.readline()
        word = line.strip()
        if not line or word == "quit":
            return False
        if word == "moves":
            names = (self._rules.action_name(action, state) for action in self._rules.legal_actions(state))
            self._say(" ".join(names))
        elif word == "hint":
            from engram.drivers.search import Search

            search = "uct" if self._rules.bounds else "uct(bounds=learnt)"
            self._say(str(Search(self._rules, search).run(state, self._limit, seed=self._seed)))
        elif word == "undo":
            self._undo()
        elif word:
            try:
                action = self._rules.parse_action(word, state)
                self._rules.play(state, action)
            except EngramError as error:
                self._say(f"{error}; type {HELP}")
            else:
                self._make(action)
        return True

    def _undo(self) -> None:
        """Takes back the person's last move and all moves after it."""
        for turn in reversed(range(len(self.moves))):
            if self._rules.to_play(self._rules.play_moves(self.moves[:turn])) == self._human:
                del self.moves[turn:]
                return self._restart()
        self._say("there is nothing to take back")

    def _restart(self) -> None:
        """Tells the rival of a new game and of the moves made so far."""
        self._rival.new_game(self._derived_seed("play"))
        for action in self.moves:
            self._rival.played(action)

    def _make(self, action: int) -> None:
        self.moves.append(action)
        self._rival.played(action)

    def _derived_seed(self, purpose: Any) -> int:
        from engram.rng import derive_seed

        return derive_seed(self._seed, purpose)

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)
