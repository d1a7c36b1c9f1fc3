#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a C file that defines the text of file $1 as the string $2.
set -eu
printf '/* Made from %s by scripts/embed.sh. */\nextern const char %s[];\nconst char %s[] =\n' "$(basename "$1")" "$2" "$2"
sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$/\\n"/' "$1"
printf ';\n'
