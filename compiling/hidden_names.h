/* Included after error_replies.h in each C file that mypyc has made from a module.
 *
 * The functions and variables of modules are of their library alone. If the compiler knows, what one file uses of
 * another needs no table of the dynamic linker. The headers of Python and of mypyc come before: what they declare is
 * elsewhere. */

#include "CPy.h"

#pragma GCC visibility push(hidden)
