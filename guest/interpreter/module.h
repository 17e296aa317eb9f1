/* The built-in module `_limpet`: what limpet_runtime may ask of the C side. */
#pragma once

/* Once, before Python is initialised. */
int module_register(void);
