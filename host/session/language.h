/* Names of languages. What a language is stands in guest/languages; the controller knows no more than names.
 */
#pragma once

#include "proto/wire.h"

/* The name of a language that is asked for by its name or an alias, in capitals or not; of one that is not
 * known here the name as it is, as an image may have more. Absent for Python. */
Text language_name(Text asked);
