/* A directory that is not to change any more. */
#pragma once

#include "host/files/sha256.h"
#include "proto/base/problem.h"

/* Goes through all below `directory`, which nobody else writes to: removes what is neither file nor
 * directory, takes the right to write from everybody, gives it to whoever runs us, and hashes names, contents
 * and whether a file may be executed. 0, or negative with the problem set. */
int package_seal(int directory, char ret_hash[SHA256_HEX_SIZE], Problem *problem);
