/* limpet._native: what the Python client does for every call, in C. It holds what the package's own
 * limpet/_connection/_pure.py does and takes its place where it could be built; _transport.py beside it
 * chooses.
 *
 * Only Python's stable ABI, that of 3.10: one build serves every Python from there on. Functions that return
 * a PyObject * return a new reference, or NULL with an exception set. */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "proto/wire.h"

#define KEYS_KEPT 256u /* a power of two */
#define KEY_MOST  32u  /* bytes of one that is kept */

/* Keys of maps, so that one that comes in every message is made once. One takes the place of another. */
typedef struct KeyCache {
    PyObject *kept[KEYS_KEPT];
} KeyCache;

/* State of the module. */
typedef struct Native {
    PyObject *bad_request, *too_large, *protocol_mismatch; /* limpet.errors */
    KeyCache keys;
} Native;

static inline void py_decrefp(PyObject **object)
{
    Py_XDECREF(*object);
}

/* Appends what `value` is in msgpack. 0, or -1 with TypeError, ValueError or OverflowError. */
int encode_value(Writer *w, PyObject *value);

/* From now on that object is what stands for this text as a key: so a dict finds it at a glance. */
void keep_key(KeyCache *keys, PyObject *text);

/* Returns the Python value of a sound object; a map is a dict. */
PyObject *decode_map(KeyCache *keys, const msgpack_object_map *map);

/* The types. */
extern PyType_Spec wire_spec, shape_spec;

Native *native_of(PyObject *module);
