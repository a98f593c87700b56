"""How the shells ask for completions and are answered, where click's own way does not do.

Bash ends a word at colons and `=`, and what it is given goes into the line as it stands: behind the quote that is open, or
behind the last such end. Zsh and fish replace the whole word.
"""

from __future__ import annotations

import os
import re
from typing import Any, NamedTuple

from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

# One line from bash: what is typed up to the cursor, from the command on. Names may hold blanks and stars.
BASH = """\
%(complete_func)s() {
    local answer kind line="${COMP_LINE:0:COMP_POINT}" program="${1/#\\~\\//$HOME/}"
    line="${COMP_WORDS[0]}${line#*"${COMP_WORDS[0]}"}"
    COMPREPLY=()
    while IFS= read -r answer; do
        kind="${answer%%%%,*}"
        if [[ $kind == dir ]]; then
            compopt -o dirnames
        elif [[ $kind == file ]]; then
            compopt -o default
        elif [[ $kind == plain ]]; then
            COMPREPLY+=("${answer#*,}")
        fi
    done < <(env HOMARUS_LINE="$line" HOMARUS_BREAKS="$COMP_WORDBREAKS" %(complete_var)s=bash_complete "$program" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""
# A shell that has not loaded its completion yet does so now; without it nothing could be registered.
ZSH_FIRST = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"
_BARE = re.compile(r"[^\w@%+=:,./-]")
_IN_DOUBLE = re.compile(r'[\\"$`]')


class Typed(NamedTuple):
    """A line of bash: its words as a command would get them, the quote that is open, and what of the last word stays as it is."""

    words: list[str]
    quote: str = ""
    kept: str = ""


def typed(line: str, breaks: str) -> Typed:
    """Read what is typed so far; the last word is the one to complete, and may be empty."""
    words, word, quote, kept, before = list[str](), "", "", "", ""
    begun = escaped = False
    for char in line:
        if escaped:
            # Within double quotes a backslash that protects nothing is one.
            word += char if not quote or _IN_DOUBLE.match(char) else f"\\{char}"
            escaped = False
        elif quote and char == quote:
            quote, kept = "", before  # what was quoted is replaced with its quotes
        elif char == "\\" and quote != "'":
            escaped = begun = True
        elif quote:
            word += char
        elif char in "'\"":
            quote, before, kept, begun = char, kept, word, True
        elif char.isspace():
            if begun:
                words.append(word)
            word, kept, begun = "", "", False
        else:
            word, begun = word + char, True
            kept = word if char in breaks else kept
    return Typed([*words, word], quote, kept)


def written(text: str, quote: str) -> str:
    """Return a text as it has to stand in a line of bash, within the quote that is open or without one."""
    if quote == "'":
        return text.replace("'", "'\\''")
    return (_IN_DOUBLE if quote else _BARE).sub(r"\\\g<0>", text)


class _Asked(ShellComplete):
    """A shell's question in which `--option=value` is one word: the answers are whole words, too."""

    lead = ""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return what may stand in place of the last word, for an option's value with the option before it."""
        name, equals, value = incomplete.partition("=")
        if equals and name.startswith("--") and "--" not in args:
            self.lead, args, incomplete = f"{name}=", [*args, name], value
        return [item for item in super().get_completions(args, incomplete) if str(item.value).isprintable()]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return one answer in the words of the shell's script."""
        if self.lead and item.type == "plain":
            item = CompletionItem(f"{self.lead}{item.value}", help=item.help)
        return super().format_completion(item)


class Bash(_Asked, BashComplete):
    """Bash, asked for the line as it is. A shell whose script is an older one still asks in click's way."""

    source_template = BASH
    line: Typed | None = None

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one that is typed, and that one."""
        line = os.environ.get("HOMARUS_LINE")
        if line is None:
            return super().get_completion_args()
        self.line = typed(line, os.environ.get("HOMARUS_BREAKS", ""))
        return self.line.words[1:-1], self.line.words[-1]

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """Return only what goes on as the word begins where bash replaces no more of it."""
        found, kept = super().get_completions(args, incomplete), self.line.kept if self.line else ""
        return [item for item in found if item.type != "plain" or f"{self.lead}{item.value}".startswith(kept)]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return what bash is to put into its line."""
        if self.line is None or item.type != "plain":
            return BashComplete.format_completion(self, item)
        rest = f"{self.lead}{item.value}"[len(self.line.kept) :]
        return f"plain,{written(rest, self.line.quote)}"


class Zsh(_Asked, ZshComplete):
    """Zsh quotes what it is given itself."""

    # A path may stand behind its option.
    source_template = ZSH_FIRST + ZshComplete.source_template.replace("_path_files", "compset -P '--*='; _path_files")

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return one answer; where it is described, a backslash would protect the character behind it."""
        if item.help:
            item = CompletionItem(str(item.value).replace("\\", "\\\\"), type=item.type, help=item.help)
        return super().format_completion(item)


class Fish(_Asked, FishComplete):
    """Fish quotes what it is given itself."""

    # A description may hold commas; only the first one ends the kind. A path may stand behind its option.
    source_template = re.sub(
        r"(__fish_complete_\w+) \$metadata\[2\];",
        r"""for path in (\1 $metadata[2]); echo "$lead$path"; end;""",
        FishComplete.source_template.replace('string split ","', 'string split -m 1 ","').replace(
            "    for completion in",
            "    set -l lead (string match -r -- '^--[^=]*=' (commandline -ct));\n    for completion in",
        ),
    )


KINDS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": Fish}
