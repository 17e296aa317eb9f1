/* limpet completion, and what a shell may complete. */
#include <string.h>

#include "clients/c/cli/cli.h"

/* A command line up to the cursor, as far as it matters. */
typedef struct TypedLine {
    const Command *command;
    const char *current;  /* the word at the cursor */
    const Option *option; /* with that argument; or NULL */
    const char *operands[OPERANDS_MAX];
    int n_operands;      /* before the cursor; those after the first ones are not kept */
    const char *session; /* the one that -s names, or the first operand */
} TypedLine;

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The option of "-s" or "--session", when its argument is the next word. */
static const Option *option_of(const Command *command, const char *word)
{
    for (size_t i = 0; i < command->options.n; i++) {
        const Option *option = &command->options.rows[i];
        char letter[] = {'-', option->letter, 0};

        if (option->argument && ((option->letter && strcmp(word, letter) == 0) ||
                                 (starts_with(word, "--") && strcmp(word + 2, option->name) == 0)))
            return option;
    }
    return NULL;
}

static void take_operand(TypedLine *line, const char *word)
{
    if (line->n_operands < OPERANDS_MAX)
        line->operands[line->n_operands] = word;
    line->n_operands++;
}

static TypedLine read_line(char **words, int n)
{
    TypedLine line = {.command = n > 1 ? command_find(words[0]) : NULL, .current = n > 0 ? words[n - 1] : ""};

    for (int i = 1; line.command && i < n - 1; i++) {
        const Option *option = option_of(line.command, words[i]);

        if (option && i == n - 2)
            line.option = option;
        else if (option && option->completes == COMPLETE_SESSION)
            line.session = words[i + 1];
        else if (!option && (words[i][0] != '-' || !words[i][1]))
            take_operand(&line, words[i]);
        i += option != NULL;
    }
    if (!line.session && line.n_operands > 0 && line.command->operands[0] == COMPLETE_SESSION)
        line.session = line.operands[0];
    return line;
}

static void print_word(const char *word, const char *meaning)
{
    cli_print_name(stdout, word);
    printf("%s%s\n", meaning ? "\t" : "", meaning ? meaning : "");
}

static void print_commands(void)
{
    puts("words");
    for (size_t i = 0; commands[i]; i++)
        print_word(commands[i]->name, commands[i]->summary);
}

static void print_options(const Command *command)
{
    puts("words");
    for (size_t i = 0; i < command->options.n; i++) {
        char name[64];

        snprintf(name, sizeof(name), "--%s", command->options.rows[i].name);
        print_word(name, command->options.rows[i].help);
    }
    print_word("--help", "show this help");
}

static void print_choices(const char *choices)
{
    puts("words");
    while (choices && *choices) {
        size_t size = strcspn(choices, "|");

        printf("%.*s\n", (int)size, choices);
        choices += size + (choices[size] == '|');
    }
}

static LimpetClient *connect_quietly(void)
{
    LimpetClient *client = limpet_new();

    if (client)
        limpet_set_autostart(client, false);
    if (client && limpet_connect(client, NULL) == 0)
        return client;
    limpet_free(client);
    return NULL;
}

/* The sessions; the branches of one of them; or all as "NAME:". */
static void print_sessions(Completes what, const char *of)
{
    _cleanup_(limpet_freep) LimpetClient *client = connect_quietly();
    _cleanup_(limpet_sessions_freep) LimpetSessions *list = NULL;
    size_t size = of ? strlen(of) : 0;

    puts(what == COMPLETE_SESSION_PATH ? "prefixes" : "words");
    if (!client || limpet_sessions(client, &list))
        return;
    for (size_t i = 0; i < list->n_sessions; i++) {
        const char *name = list->sessions[i].session;

        if (what == COMPLETE_SESSION_PATH)
            printf("%s:\n", name);
        else if (what == COMPLETE_SESSION)
            print_word(name, list->sessions[i].status);
        else if (of && starts_with(name, of) && name[size] == '/')
            print_word(name + size + 1, NULL);
    }
}

static void print_checkpoints(const char *session)
{
    _cleanup_(limpet_freep) LimpetClient *client = session ? connect_quietly() : NULL;
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;

    puts("words");
    if (!client || limpet_checkpoints(client, session, &list))
        return;
    for (size_t i = 0; i < list->n_checkpoints; i++) {
        const LimpetCheckpoint *c = &list->checkpoints[i];

        if (c->name)
            print_word(c->name, c->session);
        else
            print_word(c->id, c->automatic ? "automatic" : "manual");
    }
}

static void print_completed(Completes what, const char *choices, const char *session)
{
    switch (what) {
    case COMPLETE_SESSION:
    case COMPLETE_SESSION_PATH:
    case COMPLETE_BRANCH:
        print_sessions(what, session);
        break;
    case COMPLETE_CHECKPOINT:
        print_checkpoints(session);
        break;
    case COMPLETE_FILE:
        puts("files");
        break;
    case COMPLETE_DIRECTORY:
        puts("directories");
        break;
    case COMPLETE_COMMAND:
        print_commands();
        break;
    case COMPLETE_CHOICE:
        print_choices(choices);
        break;
    case COMPLETE_NOTHING:
        puts("words");
        break;
    }
}

/* Prints what may stand in the place of the last of these words of a command line, `limpet` left out. It
 * starts no controller, and of what cannot be had it says nothing. 0. */
static int candidates_print(char **words, int n)
{
    TypedLine line = read_line(words, n);
    int place = MIN(line.n_operands, OPERANDS_MAX - 1);

    if (n <= 1) {
        print_commands();
    } else if (!line.command) {
        puts("words");
    } else if (line.option) {
        print_completed(line.option->completes, line.option->choices, line.session);
    } else if (line.current[0] == '-') {
        print_options(line.command);
    } else if (line.command->operands_max >= 0 && line.n_operands >= line.command->operands_max) {
        puts("words");
    } else {
        if (line.command->operands_max < 0)
            place = 0;
        print_completed(line.command->operands[place], line.command->choices, line.session);
    }
    return 0;
}

/* ---- limpet completion ---- */

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
