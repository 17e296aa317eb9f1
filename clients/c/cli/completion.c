/* limpet completion: scripts for shells, and behind them the words that may stand in a place. */
#include <string.h>

#include "clients/c/cli/candidates.h"
#include "clients/c/cli/cli.h"

/* Each script calls `limpet completion words WORD...` with the words of the line up to the cursor, `limpet`
 * left out. The first line of the answer says what the rest is: `words`, one a line with a tab and its
 * meaning behind; `prefixes`, the same without a blank after them; `files` or `directories`, of which the
 * shell knows more. */
static const char bash[] =
    "# bash completion for limpet; put it into ~/.local/share/bash-completion/completions/limpet, or:\n"
    "#   source <(limpet completion bash)\n"
    "_limpet() {\n"
    "    local line=${COMP_LINE:0:COMP_POINT} current kind word strip\n"
    "    local -a words answer\n"
    "    read -ra words <<<\"$line\"\n"
    "    [[ $line != *[[:space:]] ]] || words+=('')\n"
    "    current=${words[-1]}\n"
    "    mapfile -t answer < <(limpet completion words \"${words[@]:1}\" 2>/dev/null)\n"
    "    kind=${answer[0]:-}\n"
    "    COMPREPLY=()\n"
    "    case $kind in\n"
    "    files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$current\") ;;\n"
    "    directories) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$current\") ;;\n"
    "    words | prefixes)\n"
    "        [[ $kind == words ]] || compopt -o nospace\n"
    "        # bash replaces only what stands behind the last colon or equals sign.\n"
    "        strip=${current%\"${current##*[:=]}\"}\n"
    "        for word in \"${answer[@]:1}\"; do\n"
    "            word=${word%%$'\\t'*}\n"
    "            [[ $word != \"$current\"* ]] || COMPREPLY+=(\"${word#\"$strip\"}\")\n"
    "        done ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _limpet limpet\n";

static const char zsh[] =
    "#compdef limpet\n"
    "# zsh completion for limpet; put it into a directory of $fpath as _limpet, or after compinit:\n"
    "#   source <(limpet completion zsh)\n"
    "_limpet() {\n"
    "    local kind word\n"
    "    local -a answer names meanings\n"
    "    answer=(\"${(@f)$(limpet completion words \"${(@)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
    "    kind=${answer[1]}\n"
    "    case $kind in\n"
    "    files) _files ;;\n"
    "    directories) _files -/ ;;\n"
    "    words|prefixes)\n"
    "        for word in \"${(@)answer[2,-1]}\"; do\n"
    "            names+=(\"${word%%$'\\t'*}\")\n"
    "            meanings+=(\"${word/$'\\t'/  -- }\")\n"
    "        done\n"
    "        if [[ $kind == words ]]; then\n"
    "            compadd -l -d meanings -a names\n"
    "        else\n"
    "            compadd -l -S '' -d meanings -a names\n"
    "        fi ;;\n"
    "    esac\n"
    "}\n"
    "if [[ $funcstack[1] == _limpet ]]; then _limpet \"$@\"; else compdef _limpet limpet; fi\n";

static const char fish[] =
    "# fish completion for limpet; put it into ~/.config/fish/completions/limpet.fish, or:\n"
    "#   limpet completion fish | source\n"
    "function __limpet_complete\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    set -l answer (limpet completion words $words[2..-1] 2>/dev/null)\n"
    "    switch \"$answer[1]\"\n"
    "        case words prefixes\n"
    "            printf '%s\\n' $answer[2..-1]\n"
    "        case files\n"
    "            __fish_complete_path (commandline -ct)\n"
    "        case directories\n"
    "            __fish_complete_directories (commandline -ct)\n"
    "    end\n"
    "end\n"
    "complete -c limpet -f -a '(__limpet_complete)'\n";

static const struct {
    const char *shell, *script;
} scripts[] = {{"bash", bash}, {"zsh", zsh}, {"fish", fish}};

static int run(const void *values, char **operands, int n)
{
    if (strcmp(operands[0], "words") == 0)
        return candidates_print(operands + 1, n - 1);
    for (size_t i = 0; i < ARRAY_SIZE(scripts); i++)
        if (n == 1 && strcmp(operands[0], scripts[i].shell) == 0) {
            fputs(scripts[i].script, stdout);
            return 0;
        }
    fprintf(stderr, "limpet: unknown shell; completion is available for bash, zsh and fish\n");
    return EXIT_USAGE;
}

const Command command_completion = {
    .name = "completion",
    .usage = "bash|zsh|fish",
    .summary = "Prints a shell script that completes commands, options, sessions and checkpoints",
    .details = "\nFor the current shell:  source <(limpet completion bash)     or zsh\n"
               "                        limpet completion fish | source\n"
               "The first lines of each script say how to install it permanently.",
    .operands_min = 1,
    .operands_max = -1,
    .operands = {COMPLETE_CHOICE},
    .choices = "bash|zsh|fish",
    .verbatim = true,
    .run = run,
};
