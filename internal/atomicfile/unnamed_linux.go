package atomicfile

import "golang.org/x/sys/unix"

// unnamed opens a new file without a name in a folder.
const unnamed = unix.O_TMPFILE
