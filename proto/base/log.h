/* Structured log lines on standard error: one record a line, `key=value` pairs, levels by config.
 * Logging never blocks: when standard error cannot take a line at once the line is dropped and counted. */
#pragma once

#include "proto/base/base.h"

typedef enum LogLevel {
    LOG_ERROR,
    LOG_WARN,
    LOG_INFO,
    LOG_DEBUG,
} LogLevel;

void log_setup(const char *program, LogLevel level);
int log_level_from_name(const char *name); /* a LogLevel, or -EINVAL */

/* Makes this file standard error: it is appended to, and made with mode 0600. When it has `limit` bytes it
 * becomes PATH.1, in the place of an older one, and a new one begins. 0, or a negative errno and nothing is
 * changed. */
int log_to_file(const char *path, size_t limit);

/* Begins the file anew if that is due. Whether it was begun anew since this was last asked, here or by a
 * line: who shares standard error has the older one still. */
bool log_rotate(void);
/* Returns whether there is a file that this process begins anew. */
bool log_has_file(void);

/* log_info("session opened", "session=%s image=%s", id, image): a fixed event name, then fields. */
void log_write(LogLevel level, const char *event, const char *fields, ...) _printf_(3, 4);

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)
