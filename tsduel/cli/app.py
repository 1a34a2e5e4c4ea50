"""The command line. Only click is loaded here: `tsduel --help` is there at once."""

import os
import sys
from typing import Any

import click
from click.shell_completion import get_completion_class

import tsduel
from tsduel.cli import home
from tsduel.cli.commands import COMMANDS, PARTS, RUN, SIDES, WORDS, by_topic, example, refuse_unread
from tsduel.cli.knobs import KNOBS, refuse_unknown
from tsduel.core import codes, results
from tsduel.core.errors import UserError
from tsduel.question import experiments

HERE = ("here", "watch")
WITH_JSON = ("list", "status", "report")
ASKING = ("plan", "tsbs", "gobench", "bisect", "worst", "history")
SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
SHELLS = ("bash", "zsh", "fish")
CODES = """Exit codes: 0 done, 1 a defect of ours, 2 your input or your machine, 3 too many blocks failed, 4 a check
failed, 5 too noisy for a verdict, 6 a metric got worse (FAIL_ON=regression), 130 interrupted."""


_with_version = click.version_option(
    tsduel.__version__, prog_name="tsduel", message="%(prog)s %(version)s", help="print the version"
)


class Tsduel(click.Group):
    """All commands by topic. Words that begin with none are about the checkout that we stand in."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names that people type."""
        del ctx
        return [*HERE, *COMMANDS, "completion"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Make one command; its module is loaded when it runs."""
        del ctx
        if cmd_name in HERE:
            return _here(cmd_name)
        if cmd_name == "completion":
            return _completion()
        return _command(cmd_name) if cmd_name in COMMANDS or cmd_name in PARTS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take `tsduel v1.132.0` for `tsduel here v1.132.0`."""
        if args and args[0].partition("=")[0] == "--results":
            _, separator, value = args[0].partition("=")
            value, args = (value, args[1:]) if separator else (args[1] if args[1:] else "", args[2:])
            _settle(ctx, self.params[0], value)
        if args[:2] == ["queries", "check"]:
            args = ["queries-check", *args[2:]]
        commands = {*self.list_commands(ctx), *PARTS, "--help", "-h", "--version"}
        if not ctx.resilient_parsing and (not args or args[0] not in commands):
            args = [HERE[0], *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands by topic."""
        del ctx
        checkout = [("here", "the same as no command: see above"), ("watch", "quick after each build of the tree")]
        shell = [("completion", "completion for bash, zsh or fish: `tsduel completion --help`")]
        for topic, listed in [("In a checkout of a database", checkout), *by_topic(), ("Shell", shell)]:
            with formatter.section(topic):
                formatter.write_dl(listed)


def _options(names: list[str]) -> list[click.Parameter]:
    where = click.Option(["--results"], metavar="DIR", expose_value=False, callback=_settle, is_eager=True,
                         help="where runs are kept (default: results/ of our checkout, else as XDG says)")  # fmt: skip
    knobs = [
        _option(name, KNOBS[name].help, f"--{name.lower().replace('_', '-')}", metavar="VALUE")
        for name in names
        if name != "RUN"
    ]
    if "VIEW" in names:
        knobs.append(_option("VIEW", "a line for each phase too", "-v", "--verbose", flag_value="verbose"))
    return [*knobs, where]


def _option(variable: str, text: str, *flags: str, **more: Any) -> click.Option:
    """Return an option that sets a variable of the environment."""

    def call(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
        if value is not None and not ctx.resilient_parsing:
            os.environ[variable] = value

    return click.Option(flags, help=text, callback=call, expose_value=False, **more)


def _settle(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value and not ctx.resilient_parsing:
        home.settle(os.environ, results=value)


def _command(name: str) -> click.Command:
    command = (COMMANDS | PARTS)[name]
    about_run = command.scope == RUN
    metavar = "[RUN] [KNOB=VALUE]..." if about_run else "[KNOB=VALUE]..."

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        completions = [f"{knob}=" for knob in command.knobs]
        if about_run and results.home().is_dir():
            completions += [path.name for path in results.home().iterdir() if (path / "plan").is_dir()]
        return [word for word in completions if word.startswith(incomplete)]

    def call(words: tuple[str, ...]) -> int:
        from tsduel.cli import stage

        typed, set_here = [word for word in words if "=" not in word], [word for word in words if "=" in word]
        os.environ.update(knobs := home.words_to_knobs(set_here))
        names, goals = click.get_current_context().obj or ((), ())
        refuse_unread([name, *goals], [*names, *knobs])
        if name in WORDS and typed:
            os.environ[WORDS[name]], typed = " ".join(typed), []
        if name in ASKING:
            experiments.refuse_missing(os.environ.get("EXPERIMENT", ""))
        run = typed.pop(0) if about_run and typed else _run_of(name)
        if typed:
            raise UserError(f"{name}: {typed[0]!r} is not KNOB=VALUE; `tsduel {name} --help` lists the knobs")
        return stage.execute(name, run)

    words = click.Argument(["words"], nargs=-1, metavar=metavar, shell_complete=complete)
    parameters = [words, *_options(list(command.knobs))]
    if name in WITH_JSON:
        parameters.append(_option("TSDUEL_JSON", "for programs: JSON on stdout", "--json", flag_value="1"))
    epilog = example(name) + CODES
    return click.Command(
        name, callback=call, params=parameters, help=f"{command.help[0].upper()}{command.help[1:]}.", epilog=epilog,
        hidden=name in PARTS,
    )  # fmt: skip


OF_NEWEST_PLAN = {
    *("plan", "provision", "build", "run", "give-back", "tidy", "compare", "keep", "report"),
    *("import", "follow", "status", "stop"),
}
"""Without RUN these are about the run that was planned last, all others about the last that was compared."""


def _run_of(name: str) -> str:
    """Return RUN, or the run that a command without it is about."""
    from tsduel.cli import pipeline

    typed = os.environ.get("RUN", "")
    if typed or name not in OF_NEWEST_PLAN:
        return typed or "latest"
    if name == "plan":
        return pipeline.new_run(os.environ, os.environ.get("KIND", "") or "plan")
    return results.newest_plan()


def _here(name: str) -> click.Command:
    about = "compare the working tree of this checkout with its merge base, or the revisions that are named"
    revisions = click.Argument(["revisions"], nargs=-1, metavar="[REVISION [REVISION]] [KNOB=VALUE]...")
    parameters = [
        revisions,
        click.Option(["--against"], metavar="REVISION", help="the baseline in place of the merge base"),
        click.Option(["--full"], is_flag=True, help="the default experiment in place of quick"),
        *_options([knob for knob in COMMANDS["plan"].knobs if knob not in SIDES]),
    ]

    def call(revisions: tuple[str, ...], against: str | None, full: bool) -> int:  # noqa: FBT001 - click's signature
        from tsduel.cli import in_checkout

        os.environ.update(knobs := home.words_to_knobs(word for word in revisions if "=" in word))
        refuse_unread(["tsbs"], knobs)
        named = [word for word in revisions if "=" not in word]
        return in_checkout.main(named, against or "", full=full, watch=name == "watch")

    made = click.Command(name, callback=call, params=parameters, help=about, epilog=CODES)
    return _with_version(made) if name == HERE[0] else made  # `here` gets what is mistyped


def _completion() -> click.Command:
    def call(shell: str) -> None:
        made = get_completion_class(shell)
        assert made is not None  # noqa: S101 - SHELLS are click's
        click.echo(made(Tsduel("tsduel"), {}, "tsduel", "_TSDUEL_COMPLETE").source())

    return click.Command(
        "completion",
        callback=call,
        params=[click.Argument(["shell"], type=click.Choice(SHELLS))],
        help="Print completion for a shell: tsduel completion bash >~/.local/share/bash-completion/completions/tsduel, "
        "tsduel completion zsh >~/.zfunc/_tsduel, tsduel completion fish >~/.config/fish/completions/tsduel.fish",
    )


ABOUT = """Is the candidate faster or slower than the baseline, by how much, and how sure are we?

\b
tsduel                              in a checkout: the working tree against its merge base with the main branch
tsduel v1.132.0 v1.133.0            two revisions of it
tsduel --against v1.132.0 --full    the working tree against a revision, at full length
tsduel tsbs CANDIDATE=v1.134.0      anywhere: an experiment with its knobs, each a word or an option
"""


def main() -> int:
    """Run a command of `python -m tsduel`: results/ and the knobs are those of `make`."""
    try:
        refuse_unknown(names := os.environ.get("TSDUEL_GIVEN", "").split())
        goals = os.environ.pop("TSDUEL_GOALS", "").split()
        home.keep_out_of_home(os.environ)
        app = _with_version(Tsduel("tsduel", help=ABOUT, epilog=CODES, context_settings=SETTINGS))
        code: Any = app.main(prog_name="tsduel", standalone_mode=False, obj=(names, goals))
    except UserError as error:
        _say(str(error))
        return getattr(error, "code", codes.USER)
    except click.ClickException as error:
        _say(error.format_message())
        return codes.USER
    except click.Abort:
        _say("interrupted")
        return codes.INTERRUPTED
    return int(code or 0)


def installed() -> int:
    """Run `tsduel`: results and caches lie as XDG says, unless we are in a checkout of tsduel."""
    os.environ.setdefault("TSDUEL_TYPED", "1")
    home.settle(os.environ)
    return main()


def _say(text: str) -> None:
    for line in text.splitlines():
        print(f"tsduel: {line}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(installed())
