"""KaTrain's own game, engine and players against `engram analysis`, without a screen.

    pip install katrain && python benchmarks/katrain.py

It plays some moves, asks for every analysis that KaTrain's menu has, and lets each of its players move.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import time
from pathlib import Path

COMMAND = [sys.executable, "-m", "engram", "analysis", "-s", "puct(network='go9',num_leaves=4)"]
MODES = ("extra", "equalize", "alternative", "sweep", "local")
PATIENCE_S = 300.0


def configuration(folder: str) -> Path:
    """KaTrain's own settings, with engram as its engine, in a file."""
    import katrain

    settings = json.loads((Path(katrain.__path__[0]) / "config.json").read_text())
    settings["engine"].update(backend="custom", altcommand=shlex.join(COMMAND), max_visits=200, fast_visits=25)
    path = Path(folder) / "config.json"
    path.write_text(json.dumps(settings))
    return path


def main() -> None:
    os.environ["KIVY_NO_ARGS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        sys.argv = ["katrain", str(configuration(folder))]
        from katrain.core import ai, constants
        from katrain.core.base_katrain import KaTrainBase
        from katrain.core.engine import KataGoEngine
        from katrain.core.game import Game, Move

        class WithoutScreen(KaTrainBase):
            class controls:  # noqa: N801
                set_status = staticmethod(print)

            errors: list[str] = []  # noqa: RUF012

            def log(self, message, level=constants.OUTPUT_INFO):
                if level == constants.OUTPUT_ERROR:
                    self.errors.append(str(message))

        katrain = WithoutScreen(debug_level=0)
        engine = KataGoEngine(katrain, katrain.config("engine"))

        def settle() -> None:
            start = time.monotonic()
            while not engine.is_idle():
                assert time.monotonic() - start < PATIENCE_S and engine.check_alive()
                time.sleep(0.05)

        game = Game(katrain, engine, game_properties={"SZ": 9, "KM": 7.5, "RU": "chinese"})
        settle()
        for vertex in ("E5", "C3", "G3"):
            game.play(Move.from_gtp(vertex, player=game.current_node.next_player))
            settle()
            node = game.current_node
            print(f"{vertex}: score {node.score:.1f}, chance {node.winrate:.3f}, points lost {node.points_lost:.1f}")
        for mode in MODES:
            game.analyze_extra(mode)
            settle()
        game.current_node.analyze(engine, region_of_interest=[0, 3, 0, 3], visits=300, time_limit=False)
        settle()
        game.analyze_extra("ponder")
        time.sleep(2)
        game.analyze_extra("stop")
        settle()
        for player in sorted({*constants.AI_STRATEGIES} - {constants.AI_HUMAN, constants.AI_PRO}):  # they need KataGo's
            move, _ = ai.generate_ai_move(game, player, katrain.config(f"ai/{player}"))
            settle()
            print(f"{player}: {move.gtp()}")
        engine.shutdown(finish=False)
        assert not katrain.errors, katrain.errors


if __name__ == "__main__":
    main()
