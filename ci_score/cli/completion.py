"""`ci-score completion`: completion of commands and options in a shell."""

from __future__ import annotations

from typing import cast

import click
from click.shell_completion import ShellComplete, get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for a SHELL.

    \b
    Examples:
      ci-score completion bash >> ~/.bashrc
      ci-score completion zsh >> ~/.zshrc
      ci-score completion fish > ~/.config/fish/completions/ci-score.fish
    """
    root = click.get_current_context().find_root()
    # click knows the three shells of the choice.
    completion = cast("type[ShellComplete]", get_completion_class(shell))
    click.echo(completion(root.command, {}, "ci-score", "_CI_SCORE_COMPLETE").source())
