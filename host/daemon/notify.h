/* Messages to the service manager that started this process. */
#pragma once

/* Tells once that clients are served, by sd_notify(3)'s protocol. Does nothing where NOTIFY_SOCKET asks for
 * nothing. */
void notify_ready(void);
