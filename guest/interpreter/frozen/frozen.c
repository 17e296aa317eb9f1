#include "guest/interpreter/frozen/frozen.h"

#include "guest/interpreter/pyref.h"

#ifdef LIMPET_FROZEN

static const struct _frozen modules[] = {
#include LIMPET_FROZEN
    {0},
};

void frozen_register(void)
{
    PyImport_FrozenModules = modules;
}

#else

void frozen_register(void)
{
}

#endif
