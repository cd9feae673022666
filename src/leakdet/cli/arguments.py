"""Arguments that doors with plain arguments share."""

import argparse
import glob
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches
from itertools import takewhile, zip_longest
from pathlib import Path
from typing import Any, NoReturn

from leakdet.cli.settings import REMOVED, known_settings
from leakdet.config import LabelsConfig
from leakdet.config.fields import with_point
from leakdet.core.errors import SettingsError
from leakdet.core.files import is_taken
from leakdet.core.locations import is_url, parse_location
from leakdet.core.messages import LOG, RESULT, asked_for, json_lines
from leakdet.core.process import WRONG, check_count, guarded

SETTING = re.compile(r"[A-Za-z_][\w.-]*=")
MAX_SHOWN = 200  # more make a page too long to work through


class Parser(argparse.ArgumentParser):
    """A parser that names a misspelt option before it misses other arguments."""

    removed: Mapping[str, str] = REMOVED  # options that there were, and what to do instead
    _words: Sequence[str] = ()  # of the command line

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._words = sys.argv[1:] if args is None else list(args)
        options = [name for name in self._option_string_actions if name.startswith("--")]
        words = list(takewhile(lambda word: word != "--", self._words))
        for word, following in zip_longest(words, words[1:], fillvalue=""):
            name, _, value = word.partition("=")
            for removed in (name, f"{name} {value or following}"):
                if removed in self.removed:
                    self.error(f"{removed} was removed. {self.removed[removed]}")
            known = any(option.startswith(name) for option in options)
            if name.startswith("--") and not known:
                close = get_close_matches(name, options, 1)
                hint = f" Did you mean {close[0]}?" if close else " --help lists them all."
                self.error(f"there is no option {name}.{hint}")
        parsed, rest = super().parse_known_args(args, namespace)
        paths = list(rest)
        for action in self._get_positional_actions():
            given = getattr(parsed, action.dest)
            paths += map(str, given if isinstance(given, list) else [given])
        for word in paths:
            if word in words and SETTING.match(word):  # and not behind --
                self._refuse_setting(word)
        return parsed, rest

    def _refuse_setting(self, word: str) -> None:
        """Refuse `name=value` in place of a path, where it names an option or a setting."""
        if os.path.lexists(word) or glob.glob(word):  # noqa: PTH207  as predict expands it
            return
        name, _, value = word.partition("=")
        option = f"--{name.rpartition('.')[2].replace('_', '-')}"
        reason = f"{word}: there is no such file, and {self.prog} takes options, not settings"
        if action := self._option_string_actions.get(option):
            allowed = action.choices is None or value in action.choices
            value = value if allowed else f"{{{','.join(map(str, action.choices or ()))}}}"
            self.error(f"{reason}. Write {option if action.nargs == 0 else f'{option} {value}'}")
        if option in self.removed:
            self.error(f"{reason}. {self.removed[option]}")
        if name in known_settings("train").elsewhere:  # those of all commands
            self.error(f"{reason}. --help lists its options.")

    def error(self, message: str) -> NoReturn:
        if not asked_for(self._words):
            super().error(message)
        for line in json_lines("error", message, "usage", exit_code=WRONG):
            print(line, file=sys.stderr)
        sys.exit(WRONG)


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """`--device`, `--trust-network`, `--quiet` and `--log`."""
    parser.add_argument(
        "--device", default="auto", help="auto, cpu, cuda, cuda:N or mps (default: auto)"
    )
    parser.add_argument(
        "--trust-network",
        action="append",
        default=[],
        metavar="PACKAGE.MODULE:CLASS",
        help="a network of your own that the model may load, by the name it was trained with",
    )
    add_log(parser)


def add_log(parser: argparse.ArgumentParser) -> None:
    """`--quiet` and `--log`."""
    add = parser.add_argument
    add("--quiet", action="store_true", help="print only results, warnings and errors")
    meaning = "full: details too; json: an object a line, with time, level, kind and message"
    add("--log", choices=("normal", "full", "json"), default="normal", help=meaning)


def run_verb(
    verb: Callable[[argparse.Namespace], int],
    arguments: argparse.Namespace,
    all_to_stderr: bool = False,
) -> int:
    """Run a verb with its arguments, guarded, as quiet and in the form that `add_log` was told."""

    def work() -> int:
        if arguments.quiet:
            LOG.setLevel(RESULT)
        return verb(arguments)

    return guarded(work, arguments.log, all_to_stderr)


def add_rules(parser: Parser, schema: type[Any], options: Sequence[str]) -> None:
    """`--rules`, and of the fields of a rule's `schema` those that are options.

    An option without a value is None, so that the file of `--rules` may give it.
    """
    group = parser.add_argument_group("the rule, and what a dig is worth")
    for known in fields(schema):
        option = f"--{known.name.replace('_', '-')}"
        if known.name not in options:
            moved = f"Write {known.name}: NUMBER into a file: --rules FILE, docs/worklist-rule.md."
            parser.removed = {**parser.removed, option: moved}
            continue
        kind = int if known.type in (int, "int") else number
        default = "unknown" if known.default is None else f"{known.default:g}"
        text = known.metadata["meaning"].rstrip(".").replace("%", "%%")
        meaning = f"{text[0].lower()}{text[1:]} (default: {default})"
        group.add_argument(option, type=kind, metavar="X", help=meaning)
    rest = "YAML file of the rule's other parameters, such as alarms: 2 (docs/worklist-rule.md)"
    group.add_argument("--rules", type=Path, metavar="FILE", help=rest)


def add_decision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threshold",
        type=number,
        metavar="T",
        help="call leaks where leak_prob reaches T, 0 to 1 (default: the model's own threshold)",
    )
    parser.add_argument(
        "--policy",
        help="fit the threshold anew on the model's validation scores: max_fpr=0.01, min_tpr=0.95, "
        "min_cost=10 (a missed leak costs ten needless digs) or max_f1",
    )
    add_undecided(
        parser, doubt="the model's own setting, and 0 with a --policy of a budget or cost"
    )


def add_undecided(parser: argparse.ArgumentParser, doubt: str = "the model's own setting") -> None:
    """`--unfamiliar`, `--doubt` and `--source`; `doubt` is the default of the second in words."""
    parser.add_argument(
        "--unfamiliar",
        choices=("off", "normal", "strict"),
        help="leave undecided what sounds unlike the model's training recordings (default: the "
        "model's own setting)",
    )
    parser.add_argument(
        "--doubt",
        type=number,
        metavar="D",
        help="leave undecided what is within D of a threshold of 0.5, of another within the same "
        f"odds (default: {doubt})",
    )
    parser.add_argument(
        "--source",
        choices=("rate", "off"),
        help="leave undecided files of a sample rate that no training recording had, as of another "
        "logger; off where the same logger's were converted (default: the model's own setting)",
    )


def decision_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_decision`. Raises `SettingsError` where their words are wrong."""
    from leakdet.detection.thresholds import checked_policy

    threshold, policy = arguments.threshold, arguments.policy
    if threshold is not None or policy is not None:
        checked_policy(threshold, policy)
    return {"threshold": threshold, "policy": policy, **undecided_of(arguments)}


def undecided_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of `add_undecided`. Raises `SettingsError` where the doubt is out of range."""
    if arguments.doubt is not None:
        from leakdet.detection.decision import checked_doubt

        checked_doubt(arguments.doubt)
    return {name: getattr(arguments, name) for name in ("unfamiliar", "doubt", "source")}


def add_rows(parser: argparse.ArgumentParser) -> None:
    """`--out`, `--format`, `--windows`, `--page`, `--suggest` and `--name-pattern`."""
    add = parser.add_argument
    add(
        "--out",
        type=parse_location,
        help="write to this file or URL (.csv, .jsonl, .xlsx), and FILE.json with model, settings "
        "and counts (default, and -: standard output)",
    )
    formats = "of the rows: csv or jsonl (default: by the name of --out); of parts csv or parquet"
    add("--format", choices=("csv", "jsonl", "parquet"), help=formats)
    windows = "also the leak_prob of every window: in jsonl as `timeline`, with --out NAME.csv in "
    add("--windows", action="store_true", help=windows + "NAME.windows.csv")
    page = (
        "also a page of the 50 most suspicious recordings, the first of all first, to look at and "
    )
    add("--page", type=Path, metavar="FILE", help=page + "hear: FILE.html")
    add(
        "--suggest",
        type=between(1, MAX_SHOWN),
        default=0,
        metavar="N",
        help="also name the N recordings whose truth would teach the model most, 1 to 200: "
        "NAME.confirm.csv, a table to fill in, and NAME.confirm.html, a page to hear and tick them",
    )
    columns = "read columns of the rows out of the names of files: "
    columns += "'{site}_{recorded_at:%%Y%%m%%d_%%H%%M}'"
    add("--name-pattern", metavar="PATTERN", help=columns)


def add_parts(parser: argparse.ArgumentParser) -> None:
    """`--parts`, `--new-only` and `--cluster`."""
    add = parser.add_argument
    add(
        "--parts",
        type=parse_location,
        metavar="DIR",
        help="for any number of files: write the rows of 256 files at a time to "
        "DIR/part-00000.csv and so on; the same command goes on where it stopped",
    )
    new = "with --parts: list the recordings again, and score those that are not in DIR's list"
    add("--new-only", action="store_true", help=new)
    add(
        "--cluster",
        metavar="ADDRESS",
        help="with --parts: score by Dask workers: local:N, N processes here; the JSON file of a "
        "scheduler; or tcp://HOST:PORT",
    )


def check_parts(arguments: argparse.Namespace) -> None:
    """Check that the options of `add_rows` and `add_parts` go together."""
    if not arguments.parts:
        for option, given in (("new-only", arguments.new_only), ("cluster", arguments.cluster)):
            if given:
                raise SettingsError(f"--{option} goes with parts; add --parts DIR.")
        if arguments.format == "parquet":
            raise SettingsError("--format parquet is for parts; add --parts DIR.")
        return
    if is_url(arguments.parts):
        raise SettingsError(
            f"--parts {arguments.parts}: parts are written to a disk; name a folder, and copy it "
            "afterwards."
        )
    for option in ("out", "windows", "page", "suggest"):
        if getattr(arguments, option, None):
            raise SettingsError(
                f"--{option} does not go with --parts, which writes rows alone; leave one out."
            )
    if arguments.format == "jsonl":
        raise SettingsError("--format jsonl does not go with --parts: parts are csv or parquet.")
    if "-" in arguments.paths:
        raise SettingsError(
            "- (standard input) does not go with --parts, whose files may be read again after a "
            "stop; name files or folders."
        )
    if arguments.cluster:
        from leakdet.core.parallel import check_cluster

        check_cluster("--cluster", arguments.cluster)
        if arguments.workers:
            raise SettingsError(
                "--workers does not go with --cluster, whose address says how many: local:4."
            )


def add_workers(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--workers", type=count, default=0, metavar="N", help=f"{what} (default: one per core)"
    )


def count(text: str) -> int:
    number = int(text)
    try:
        check_count("--workers", number)
    except SettingsError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return number


def number(text: str) -> float:
    """The type of an option that is a number, also one with a decimal comma."""
    return float(with_point(text))


def between(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that is a whole number in a range."""

    def parsed(text: str) -> int:
        number = int(text) if text.isdecimal() else -1
        if not least <= number <= most:
            raise argparse.ArgumentTypeError(f"{text!r}; allowed are {least} to {most}")
        return number

    return parsed


def add_labels(parser: argparse.ArgumentParser) -> None:
    """The label settings as options that may be repeated; see `labels_of`."""
    parser.add_argument(
        "--leak",
        action="append",
        metavar="LABEL",
        help="a label that means a leak; may be repeated (default: those of the model's training, "
        "or of the store for labels that were not there)",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        metavar="LABEL",
        help="leave out the recordings of this label; may be repeated",
    )
    parser.add_argument(
        "--rename",
        action="append",
        nargs=2,
        default=[],
        metavar=("OLD", "NEW"),
        help="give a label another name; may be repeated",
    )


def labels_of(arguments: argparse.Namespace) -> LabelsConfig:
    """The label settings of a command line. Raises `SettingsError` where they contradict."""
    rename = dict(arguments.rename)
    return LabelsConfig(leak=arguments.leak, ignore=arguments.ignore, rename=rename)


CLIP_S = 10.0
MOST_CLIP_S = 600.0


def add_window_files(parser: argparse.ArgumentParser) -> None:
    """`--labels`, `--labels-format`, `--clips` and `--clip-seconds`."""
    add = parser.add_argument
    labels = "write the suspected seconds of each recording into this new folder, a file for each"
    add("--labels", type=_folder, metavar="DIR", help=labels)
    kinds = "of --labels: selection tables of Raven, or label tracks of Audacity (default: raven)"
    add("--labels-format", choices=("raven", "audacity"), help=kinds)
    clips = "cut the most suspected seconds of every leak out of its recording, as WAV files in "
    clips += "this new folder"
    add("--clips", type=_folder, metavar="DIR", help=clips)
    longest = f"longest clip of --clips, 1 to {MOST_CLIP_S:g} (default: {CLIP_S:g})"
    add("--clip-seconds", type=_seconds, metavar="S", help=longest)


def check_window_files(arguments: argparse.Namespace) -> None:
    """Check that the options go together, and that their folders are new or empty."""
    if arguments.labels_format and not arguments.labels:
        raise SettingsError("--labels-format goes with labels; add --labels DIR.")
    if arguments.clip_seconds and not arguments.clips:
        raise SettingsError("--clip-seconds goes with clips; add --clips DIR.")
    for option in ("labels", "clips"):
        folder = getattr(arguments, option)
        if folder is None:
            continue
        if arguments.parts:
            raise SettingsError(
                f"--{option} does not go with --parts, which keeps rows and no windows. Run "
                f"predict --{option} again on the few recordings that matter, such as the leaks."
            )
        _check_new(folder, option)
    if arguments.clips and "-" in arguments.paths:
        raise SettingsError("--clips reads leaks again, and - (standard input) is read once.")
    if arguments.clips and arguments.labels and _same(arguments.clips, arguments.labels):
        raise SettingsError("--clips and --labels name the same folder; give each its own.")


def _check_new(folder: Path, option: str) -> None:
    if is_taken(folder) or (folder.is_symlink() and not folder.exists()):
        raise SettingsError(
            f"--{option} {folder}: exists already, and nothing is replaced; name a new folder."
        )


def _same(a: Path, b: Path) -> bool:
    return a.resolve() == b.resolve()


def _folder(text: str) -> Path:
    if is_url(text):
        raise argparse.ArgumentTypeError(f"{text}: name a folder on a disk, no URL")
    return Path(text)


def _seconds(text: str) -> float:
    try:
        seconds = number(text)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= MOST_CLIP_S:
        raise argparse.ArgumentTypeError(f"{text!r}; allowed are 1 to {MOST_CLIP_S:g} seconds")
    return seconds
