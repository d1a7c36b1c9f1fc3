# SPDX-License-Identifier: Apache-2.0
"""Changes manifests of checkpoints, for tests."""
import hashlib
import json


def rewrite(path, change):
    """change(manifest) edits the manifest in place; after that the file gets the right digest
    (runtime/manifest.c)."""
    with open(path) as file:
        manifest = json.load(file)
    del manifest["digest"]
    change(manifest)
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
    manifest["digest"] = hashlib.blake2b(text, digest_size=32).hexdigest()
    with open(path, "w") as file:
        json.dump(manifest, file)
