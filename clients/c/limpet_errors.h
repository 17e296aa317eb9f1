/* The numbers of errors, those of proto/errors.def. A part of limpet.h, which includes it. */
#ifndef LIMPET_ERRORS_H
#define LIMPET_ERRORS_H

typedef enum LimpetErrorNumber {
    LIMPET_BAD_REQUEST = 1001,        /* malformed, an unknown option, or a value out of range */
    LIMPET_PROTOCOL_MISMATCH = 1002,  /* the peer does not speak this version, or not this protocol */
    LIMPET_TOO_LARGE = 1003,          /* over a size limit, which the message names */
    LIMPET_DENIED = 1004,             /* the caller may not do this on this controller */
    LIMPET_NO_SUCH_SESSION = 1101,    /* no open session has this name */
    LIMPET_SESSION_CLOSED = 1102,     /* closed during the call */
    LIMPET_OPTIONS_DIFFER = 1103,     /* the session exists with other options */
    LIMPET_BUSY = 1104,               /* the session's queue is full */
    LIMPET_NO_SUCH_RUN = 1105,        /* no running or stored call has this run_id */
    LIMPET_NO_SUCH_CHECKPOINT = 1106, /* the session has no checkpoint with this id or name */
    LIMPET_NO_SUCH_FILE = 1107,       /* no regular file is at this path in /session */
    LIMPET_CHECKPOINT_FAILED = 1108,  /* the message gives the reason */
    LIMPET_BRANCH_EXISTS = 1109,      /* an open branch has this name */
    LIMPET_LIMIT_REACHED = 1110,      /* a limit of this user, which the message names */
    LIMPET_FILE_FAILED = 1120,        /* an operation on a file in the sandbox failed */
    LIMPET_NOT_LISTENING = 1121,      /* nothing in the session takes connections on this port */
    LIMPET_INSTALL_FAILED = 1130,     /* packages could not be installed; the text gives the reason */
    LIMPET_NO_SUCH_TEMPLATE = 1140,   /* no template has this name */
    LIMPET_TEMPLATE_EXISTS = 1141,    /* a template has this name */
    LIMPET_TEMPLATE_FAILED = 1142,    /* no sandbox could be made of it; the message gives the reason */
    LIMPET_SAVE_FAILED = 1150,        /* the session could not be saved */
    LIMPET_RESTORE_FAILED = 1151,     /* the saved session is damaged, or could not be restored */
    LIMPET_SESSION_EXISTS = 1152,     /* a session of this name is open */
    LIMPET_IMAGE_MISSING = 1201,      /* the image does not exist */
    LIMPET_ENGINE_ERROR = 1202,       /* the message contains the error of the engine */
    LIMPET_UNAVAILABLE = 1203,        /* the controller cannot be reached or is shutting down */
    LIMPET_INTERNAL = 1204            /* out of memory, disk full, or a bug in Limpet */
} LimpetErrorNumber;

#endif
