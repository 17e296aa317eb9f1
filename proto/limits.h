/* Every limit both sides must agree on. Sizes in bytes, times in seconds. */
#pragma once

#define PROTOCOL_VERSION 1

/* Limits of a message. Guests send results with displays; clients send code and file chunks. */
#define LIMIT_CLIENT_FRAME (8u << 20)
#define LIMIT_GUEST_FRAME  (32u << 20)
#define LIMIT_DEPTH        32u
#define LIMIT_NODES        200000u
#define LIMIT_KEYS         16384u /* of one map, those of the maps around it counted too */

/* Limits of a call. */
#define LIMIT_CODE          (4u << 20)
#define LIMIT_OUTPUT        (1u << 20)  /* a stream's share of the reply */
#define LIMIT_SPILL         (64u << 20) /* a stream stored whole under /session/.limpet */
#define LIMIT_RESULT        (1u << 20)  /* repr of the last expression */
#define LIMIT_TEXT          (4u << 20)  /* a text of the record: undecodable bytes grow to three */
#define LIMIT_TRACEBACK     (256u << 10)
#define LIMIT_BETWEEN       (64u << 10) /* of a stream between two calls */
#define LIMIT_DISPLAYS      256u
#define LIMIT_DISPLAY_BYTES (16u << 20) /* all displays of a call together */
#define LIMIT_CHANGED       64u         /* names of `changed` */
#define LIMIT_HOLDERS       5u          /* names of `memory` */
#define LIMIT_NAMESPACE     1000u       /* names of a reply to `namespace` */
#define LIMIT_DIMENSIONS    64u         /* of an array, as many as NumPy has */
#define LIMIT_NOT_RESTORED  32u
#define LIMIT_RESTORED      100u        /* notes of what a restore could not bring back */
#define LIMIT_NOTE          256u        /* bytes of a name, a type or a note of these */
#define LIMIT_CHUNK         (64u << 10) /* one OUTPUT message */
#define LIMIT_CREDIT        64u         /* OUTPUT messages under way to one client */
#define LIMIT_ASK           (1u << 20)  /* of a question, and of its answer */
#define LIMIT_ASKS          16u         /* questions of a call that wait at once */
#define LIMIT_ASKED         1000000u    /* questions of a call */
#define LIMIT_FILE_CHUNK    (1u << 20)  /* one PUT or GET message */

/* Files. */
#define LIMIT_FILE_ENTRIES  1000u /* of a page of a list, of a FETCH, of a STORE */
#define LIMIT_FILE_DEPTH    128u  /* directories within each other */
#define LIMIT_FILE_REQUESTS 8u    /* under way in one sandbox, those for events apart */
#define LIMIT_FILE_EVENTS   1000u /* of one reply */
#define LIMIT_WATCHES       16u
#define LIMIT_WATCHED       4096u /* directories, of all of them together */
#define WATCH_SECONDS       25.0  /* a question for events waits */

/* Commands and processes. */
#define LIMIT_PROCESSES    64u          /* running in a session at once */
#define LIMIT_COMMAND      (127u << 10) /* a line for bash: the kernel takes no longer argument */
#define LIMIT_ARGV         4096u        /* arguments of a program */
#define LIMIT_ARGV_BYTES   (1u << 20)   /* all of them together */
#define LIMIT_STDIN        (4u << 20)   /* standard input in one message */
#define LIMIT_ENDED        16u          /* processes in the background that have ended and are still known */
#define LIMIT_ORPHANS      256u         /* processes of nobody that are listed */
#define LIMIT_PROCESS_NAME 64u
#define LIMIT_TAIL         (1u << 20)   /* of the output of each that can be asked for */
#define LIMIT_PIECES       1024u        /* changes from one stream to the other within that */
#define LIMIT_OUTPUT_REPLY (256u << 10) /* of it in one reply */
#define LIMIT_DIALS        64u          /* connections to ports that are being made in a session at once */
#define OUTPUT_SECONDS     25.0         /* a question for output waits */

/* Packages. */
#define LIMIT_REQUIREMENTS (64u << 10) /* a requirements file */
#define LIMIT_PACKAGES     1000u       /* of a session */
#define LIMIT_LOCK         (1u << 20)  /* their versions and hashes */
#define LIMIT_INSTALL_LOG  (64u << 10) /* of what the installer wrote */
#define INSTALL_SECONDS    300.0       /* an install that sets no limit */

/* Names. */
#define LIMIT_SESSION_NAME 64u
#define LIMIT_SESSION_PATH 128u /* a branch's whole name: its origin's, a slash, its own */
#define LIMIT_RUN_ID       32u  /* hexadecimal digits: 128 bits */
#define LIMIT_PATH         4096u
#define LIMIT_ENV          128u
#define LIMIT_ENV_BYTES    (1u << 20) /* names and values of all of them together */
#define LIMIT_IMPORTS      64u
#define GUEST_SECRET_SIZE  32u
#define GUEST_UID          20001u /* of the interpreter in a container, and its group */
#define BROWSER_UID        20009u /* of the browser in a container; its group is the interpreter's */
#define SUPERVISOR_UID     20000u /* of process 1 of a container on the host, where that has a user namespace */

/* Templates. */
#define LIMIT_TEMPLATES 64u   /* of one user */
#define SETUP_SECONDS   300.0 /* the setup code of a template, where nothing else is said */

/* A session. */
#define LIMIT_QUEUE        64u /* calls waiting on one session; one more is Busy */
#define LIMIT_STORED_RUNS  64u
#define STORED_RUN_SECONDS 600u
#define SAVE_SECONDS       300u /* for saving or loading the variables */
#define LIMIT_LANGUAGE     32u  /* bytes of the name of a language */
#define LIMIT_BRANCHES     16u
#define LIMIT_FORKS        32u /* made at once */
#define LIMIT_CHECKPOINTS  64u /* of a session and its branches; with one more the oldest goes */
#define MEMORY_MINIMUM     (64u << 20)
#define PIDS_MINIMUM       16u
#define DISK_MINIMUM       (4u << 20)
#define DISK_MAXIMUM       (8192ull << 30)
#define FILES_MINIMUM      100u
#define FILES_MAXIMUM      100000000u
#define TIMEOUT_MAXIMUM    86400.0

/* Limits of a session's network. */
#define LIMIT_RULES           128u
#define LIMIT_RULE            300u /* bytes of one: a name and a port */
#define LIMIT_BINDINGS        32u
#define LIMIT_BINDING_HEADERS 32u         /* of one */
#define LIMIT_BINDING_HEADER  8192u       /* bytes of its value */
#define LIMIT_NETWORK         (56u << 10) /* all of it, encoded */
#define NETWORK_FORWARDER     3128u       /* the port of the loopback of a sandbox that leads there */

/* The ladder at a deadline or interrupt, after the first SIGINT. */
#define LADDER_SECOND_SIGINT 0.5
#define LADDER_KILL          2.0
