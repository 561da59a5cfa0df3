"""`engram train …`: one command a kind of learning."""

from __future__ import annotations

import typer

from engram.interfaces.train_distil_command import distil
from engram.interfaces.train_features_command import features
from engram.interfaces.train_records_command import records
from engram.interfaces.train_self_play_command import selfplay
from engram.interfaces.train_td_command import td

train_app = typer.Typer(
    help="Train networks (needs PyTorch: pip install 'engram[learn]') and tables of values.", no_args_is_help=True
)
for command in (records, selfplay, td, distil, features):
    train_app.command()(command)
