"""`engram train …`: one command a kind of learning."""

from __future__ import annotations

import typer

from engram.cli.train.distil import distil
from engram.cli.train.features import features
from engram.cli.train.records import records
from engram.cli.train.self_play import selfplay
from engram.cli.train.td import td

train_app = typer.Typer(
    help="Train networks (needs PyTorch: pip install 'engram[learn]') and tables of values.", no_args_is_help=True
)
for command in (records, selfplay, td, distil, features):
    train_app.command()(command)
