/* What the service manager that started this process is told. */
#pragma once

/* That clients are served, by sd_notify(3)'s protocol, once. Nothing where nobody asked for it in
 * NOTIFY_SOCKET. */
void notify_ready(void);
