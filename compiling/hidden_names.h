/* Included after error_replies.h in each C file that mypyc has made from a module.
 *
 * The functions and variables of modules are used in their library alone. When the compiler knows this, what one file
 * uses of another needs no table of the dynamic linker. The header of mypyc comes before, with those of Python: what
 * they declare may be in another library. */

#include "CPy.h"

#pragma GCC visibility push(hidden)
