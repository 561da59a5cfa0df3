"""`engram train selfplay`: a network from games against itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from engram.cli.options import GameOption, JsonOption, NetworkOption, SeedOption, guarded, print_json
from engram.cli.train.live import training_live


@guarded
def selfplay(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder that the training lives in.")],
    game: GameOption = "connect_four",
    network: NetworkOption = "residual",
    steps: Annotated[int, typer.Option(min=1, help="Batches in all.")] = 10_000,
    batch: Annotated[int, typer.Option(min=1, help="Positions in a batch.")] = 256,
    simulations: Annotated[int, typer.Option("--simulations", "-n", min=1, help="Of a search that is learnt.")] = 128,
    fast_simulations: Annotated[int, typer.Option(min=1, help="Of the other searches.")] = 32,
    full_share: Annotated[float, typer.Option(help="Share of searches that are learnt.")] = 0.25,
    num_games: Annotated[int, typer.Option("--games", min=1, help="Games side by side.")] = 64,
    exploration: Annotated[float, typer.Option(help="c of PUCT.")] = 1.5,
    noise: Annotated[float, typer.Option(help="Share of noise in the root's priors.")] = 0.25,
    temperature_moves: Annotated[Optional[int], typer.Option(help="Moves of a game drawn by visits.")] = None,
    root_value: Annotated[float, typer.Option(help="Share of the search's own value in the value learnt.")] = 0.0,
    reuse: Annotated[float, typer.Option(help="How often a position is learnt from.")] = 4.0,
    window: Annotated[int, typer.Option(min=1, help="Newest positions learnt from.")] = 200_000,
    refresh: Annotated[int, typer.Option(min=1, help="Steps between networks that play.")] = 250,
    gate: Annotated[int, typer.Option(min=0, help="Most pairs of games a new network must pass; 0: none.")] = 0,
    learning_rate: Annotated[float, typer.Option(help="Highest learning rate.")] = 2e-3,
    checkpoint_s: Annotated[float, typer.Option(help="Seconds between checkpoints.")] = 120.0,
    stop_at: Annotated[Optional[int], typer.Option(help="Stop after so many steps, for now.")] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
) -> None:
    """Learn a game from nothing but games against itself; the same command again goes on."""
    from engram.training import require

    require("training")
    from engram.training.self_play import SelfPlayOptions
    from engram.training.self_play_training import SelfPlayPlan, train_self_play

    options = SelfPlayOptions(
        num_games=num_games, simulations=simulations, fast_simulations=fast_simulations, full_share=full_share,
        exploration=exploration, noise_share=noise, temperature_moves=temperature_moves, root_value_share=root_value,
    )  # fmt: skip
    plan = SelfPlayPlan(
        game, network, steps, batch=batch, reuse=reuse, window=window, refresh=refresh, gate_pairs=gate,
        learning_rate=learning_rate, seed=seed, options=options,
    )  # fmt: skip
    with training_live(lambda now: _line(now, plan), quiet=as_json) as shown:
        done = train_self_play(plan, output, checkpoint_s=checkpoint_s, stop_at=stop_at, progress=shown)
    if as_json:
        return print_json({"folder": str(output), **asdict(done)})
    typer.echo(_line(done, plan))


def _line(now: Any, plan: Any) -> str:
    parts = [
        f"step {now.done:,}/{plan.steps:,}",
        f"{now.games:,} games of {now.mean_moves:.1f} moves, {now.positions:,} positions",
        f"won by the first {now.first_wins:.0%}, drawn {now.draws:.0%}",
    ]
    if now.losses is not None:
        parts.append(f"policy {now.losses.policy:.3f}, value {now.losses.value:.3f}")
    parts.append(f"network {now.networks}" + (f" ({now.refused} refused)" if now.refused else ""))
    return " · ".join([*parts, f"{now.seconds / 60:.1f} min"])
