/* Places in a container, as host and guest agree. */
#pragma once

/* Packages that are mounted while it runs: below its root. */
#define PACKAGES_TARGET "opt/limpet/packages"
