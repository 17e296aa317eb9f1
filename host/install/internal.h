/* What the files of this folder share. Nobody else includes this. */
#pragma once

/* installer.py */
extern const char script_installer[];
