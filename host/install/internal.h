/* Shared by the files of this folder, and included by nobody else. */
#pragma once

/* installer.py */
extern const char script_installer[];
