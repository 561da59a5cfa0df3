"""`engram train …`: one command a kind of learning."""

from __future__ import annotations

import typer

from engram.interfaces.train_td_command import td

train_app = typer.Typer(help="Learn from play: tables of values.", no_args_is_help=True)
train_app.command()(td)
