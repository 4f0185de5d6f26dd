/* Included at the beginning of each C file that mypyc has made from a module.
 *
 * In each function that an exception passes, mypyc makes a frame and a code object for the traceback. For an error reply
 * that took more than half of the time of the request, and nothing shows the traceback of a ReplyError. */

#include "CPy.h"
#include <string.h>

static inline int is_error_reply(PyObject *type) {
    PyTypeObject *each = (PyTypeObject *)type;
    while (each != NULL && strcmp(each->tp_name, "ReplyError") != 0)
        each = each->tp_base;
    return each != NULL;
}

#define CPy_AddTraceback(file, function, line, globals) \
    do { \
        if (!is_error_reply(PyErr_Occurred())) (CPy_AddTraceback)(file, function, line, globals); \
    } while (0)
