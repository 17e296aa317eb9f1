/* Candidates: what a shell may complete, from the tables of the commands. */
#pragma once

/* Prints what may stand in the place of the last of these words of a command line, `limpet` left out. It
 * starts no controller, and of what cannot be had it says nothing. 0. */
int candidates_print(char **words, int n);
