/* Copying between two connections. */
#pragma once

/* Copies both ways until both have ended, or one breaks off; the end of one way is passed on alone. Closes
 * neither. */
void relay(int one, int other);
