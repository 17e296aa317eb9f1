/* Commands whose work the Python package does. */
#ifndef LIMPET_CLI_PYTHON_H
#define LIMPET_CLI_PYTHON_H

/* Becomes `python3 -m MODULE OPERANDS...`: the Python that LIMPET_PYTHON names, that of the virtual
 * environment that this program is in, or the one of PATH. Returns an exit status where there is none;
 * `extra` is the one of the package that the module needs, or NULL. */
int become_python(const char *module, const char *extra, char **operands, int n);

#endif
