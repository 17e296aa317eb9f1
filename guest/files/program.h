/* `limpet-guest files`: the files process, which the supervisor starts on first use. It reads and changes
 * files for clients as what it is, a process of the sandbox's own user without any power: the kernel lets it
 * do what code in the sandbox may do, and nothing else. It says nothing that is believed. */
#pragma once

/* Serves the channel until that ends. The current directory is that of the session. The exit status. */
int files_main(void);
