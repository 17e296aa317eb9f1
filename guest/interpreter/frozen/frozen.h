/* limpet_runtime as part of the program: Python finds it there before it looks anywhere else. */
#pragma once

/* Before Python begins. Does nothing in a build that has no Python to compile it. */
void frozen_register(void);
