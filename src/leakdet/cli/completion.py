"""Shell completion of `leakdet`: what may stand at the end of a command line, for three shells."""

import re
from collections.abc import Callable, Mapping, Sequence

from leakdet.cli.door_settings import DOORS, known_settings

SHELLS = {
    "bash": """echo 'eval "$(leakdet completion bash)"' >> ~/.bashrc""",
    "zsh": """echo 'eval "$(leakdet completion zsh)"' >> ~/.zshrc   # below its compinit""",
    "fish": "leakdet completion fish > ~/.config/fish/completions/leakdet.fish",
}
USAGE = "\n".join(
    [
        "usage: leakdet completion SHELL",
        "",
        "Print a script by which the shell completes verbs, settings, options and files with TAB.",
        "To install it, for new shells:",
        "",
        *(f"  {shell:<6}{command}" for shell, command in SHELLS.items()),
    ]
)
FLAGS = {
    "--help": "the most used settings",
    "--version": "the version",
    "--multirun": "run every combination of a=1,2 b=x,y",
    "--cfg": "print what would run: --cfg job",
}
OPTION = re.compile(r"(--[a-z][a-z-]*)(?:\s+\{([^}]*)\})?")

# The last word is replaced after its last =, which separates words in bash.
BASH = r"""_leakdet() {
    local line=${COMP_LINE:0:COMP_POINT} start="" word meaning
    local -a words
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    local last=${words[${#words[@]}-1]}
    [[ $COMP_WORDBREAKS == *=* ]] && start=${last%"${last##*=}"}
    COMPREPLY=()
    while IFS=$'\t' read -r word meaning; do
        [[ -n $word ]] && COMPREPLY+=("${word#"$start"}")
    done <<< "$("$1" completion bash "${words[@]:1}" 2>/dev/null)"
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=.] ]] &&
        compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _leakdet leakdet"""

ZSH = r"""#compdef leakdet
_leakdet() {
    local line word entry
    local -a whole open
    for line in "${(@f)$("$words[1]" completion zsh "${(@)words[2,CURRENT-1]}" "$PREFIX" \
            2>/dev/null)}"; do
        word=${line%%$'\t'*}
        entry=$word
        [[ $line == *$'\t'* ]] && entry+=:${line#*$'\t'}
        if [[ $word == *[=.] ]]; then open+=($entry); else whole+=($entry); fi
    done
    (( $#open )) && _describe -t settings setting open -S ''
    (( $#whole )) && _describe -t values value whole
    (( $#open + $#whole )) || { compset -P '*='; _files }
}
compdef _leakdet leakdet"""

FISH = r"""function __leakdet_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found ($words[1] completion fish $words[2..-1] 2>/dev/null)
    if test (count $found) -gt 0
        printf '%s\n' $found
    else
        set -l parts (string match -r '^([^=]*=)?(.*)$' -- $words[-1])
        set -l key (string match -r '^[^=]*=' -- $words[-1])
        for path in (__fish_complete_path $parts[-1])
            printf '%s%s\n' "$key" $path
        end
    end
end
complete -c leakdet -f -a '(__leakdet_complete)'"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def candidates(
    words: Sequence[str], verbs: Mapping[str, str], usage: Callable[[str], str]
) -> dict[str, str]:
    """Candidates for the last word, with meanings; none where files may stand.

    `words` follow `leakdet`; `usage` gives the usage of a verb that has options, no settings.

    >>> candidates(["train", "optimizer.min"], {}, str)
    {'optimizer.min_lr=': 'Learning rate at the end.'}
    """
    *before, word = words
    known: Mapping[str, str]
    match before:
        case []:
            known = {**verbs, "completion": "complete words with TAB", "help": "explain a verb"}
        case ["help"]:
            known = verbs
        case ["completion"]:
            known = dict.fromkeys(SHELLS, "")
        case ["settings"]:
            known = {door: verbs.get(door, "") for door in DOORS}
        case [door, *given] if door in DOORS:
            known = FLAGS if word.startswith("-") else _settings(door, given, word)
        case [verb, *given] if verb in verbs:
            known = _options(usage(verb), given, word)
        case _:
            known = {}
    return {name: meaning for name, meaning in known.items() if name.startswith(word)}


def _settings(door: str, given: Sequence[str], word: str) -> dict[str, str]:
    """Names of settings and groups that are not given yet, or the values of the one before `=`."""
    known = known_settings(door)
    key, equals, value = word.partition("=")
    if equals:
        setting = known.settings.get(key)
        values = known.groups.get(key) or (setting.choices if setting else ())
        if setting and setting.kind is bool:
            values = ("true", "false")
        start = value[: value.rfind(",") + 1]
        return dict.fromkeys((f"{key}={start}{text}" for text in values), "")
    taken = {argument.partition("=")[0] for argument in given}
    meanings = {group: f"one of {', '.join(names)}" for group, names in known.groups.items()}
    meanings |= {s.name: s.meaning for s in known.settings.values() if not s.open}
    return _folded({f"{name}=": text for name, text in meanings.items() if name not in taken}, word)


def _folded(meanings: Mapping[str, str], word: str) -> dict[str, str]:
    """The names that begin with `word`; of those that share their next part, that part alone."""
    names = [name for name in meanings if name.startswith(word)]
    parts = {name: name[: name.find(".", len(word)) + 1] for name in names}
    counts = {part: list(parts.values()).count(part) for part in parts.values()}
    folded = {}
    for name, part in parts.items():
        if part and counts[part] > 1:
            folded[part] = f"{counts[part]} settings"
        else:
            folded[name] = meanings[name]
    return folded


def _options(usage: str, given: Sequence[str], word: str) -> dict[str, str]:
    """Options in a usage, or the choices of the one that was given last."""
    choices = {name: listed.split(",") for name, listed in OPTION.findall(usage)}
    if given and any(of_last := choices.get(given[-1], [])):
        return dict.fromkeys(of_last, "")
    return dict.fromkeys([*choices, "--help"], "") if word.startswith("-") else {}
