/* Shared by the commands about processes. */
#pragma once

#include "clients/c/cli/cli.h"

DEFINE_CLEANUP(LimpetProcesses *, limpet_processes_free);
DEFINE_CLEANUP(LimpetOutput *, limpet_output_free);

/* Name of a process among processes: its run_id, or the number of an orphan. */
#define PROCESS_NAME_SIZE LIMPET_RUN_ID_SIZE

/* Finds the process of a session that a person names by its id or the beginning of that, its name, or its
 * number. An exit status after a message where none or several are meant. */
int process_find(LimpetClient *client, const char *session, const char *named, char ret[PROCESS_NAME_SIZE],
                 bool *ret_terminal);

/* The exit status of `limpet` for the record of a command: its own, or one that tells how it was ended. */
int process_exit_status(const LimpetResult *result);

/* The terminal that standard input is. False where it is none. */
bool process_own_terminal(LimpetTerminalSize *ret);
