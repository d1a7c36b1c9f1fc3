/* SPDX-License-Identifier: Apache-2.0 */
/* The key that all nodes of a run know, and nobody else: the variable DTRUN_KEY, or else the
 * content of ~/.config/dtrun/key (XDG_CONFIG_HOME instead of ~/.config, where it is set). The first
 * node of the first run writes that file, which only its owner may read; hosts of a cluster usually
 * share the user's folder. */
#ifndef DT_RUNTIME_KEY_H
#define DT_RUNTIME_KEY_H

#include "base/digest.h"
#include "base/status.h"

/* Takes the variable out of the environment, so that ranks, compilers and other children of this
 * process do not have it. Called when the program begins. */
void dt_key_hide(void);
/* What the variable had; NULL: it was not set. */
const char *dt_key_given(void);
/* Fails with DT_EXIT_USAGE if there is neither, or others may read the file. */
DtStatus dt_key_find(uint8_t ret_key[DT_DIGEST_BYTES]);
/* A key made of the run's, for one purpose: "heads", number. */
void dt_key_derive(const uint8_t key[DT_DIGEST_BYTES], const char *purpose, uint64_t number,
                   uint8_t ret_key[DT_DIGEST_BYTES]);

#endif
