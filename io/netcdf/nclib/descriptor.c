// HDF5 resolves the symbolic links in the name of a file that it creates, for files beside it, and refuses a name that it
// cannot resolve: that of a descriptor of memory, "/proc/self/fd/N", leads to no name. This function takes the place of the
// one of the C library, and lets such names stand.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char descriptors[] = "/proc/self/fd/";

char *realpath(const char *restrict name, char *restrict resolved) {
	if (name && !strncmp(name, descriptors, sizeof descriptors - 1)) {
		return resolved ? strcpy(resolved, name) : strdup(name);
	}
	char *(*next)(const char *, char *) = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
	return next ? next(name, resolved) : NULL;
}

// For libraries that were compiled with checks of lengths (_FORTIFY_SOURCE).
char *__realpath_chk(const char *name, char *resolved, size_t length) {
	(void)length;
	return realpath(name, resolved);
}
