// Common parts of fakes of CUDA libraries in tests. Environment variables control them:
//
//   FAKE_LOG     a file to which calls of interest are appended
//   FAKE_FAIL    "NAME=CODE": calls of this function fail; "NAME=CODE@N": the Nth one. A new value starts
//                counting anew
//   FAKE_VALUES  "NAME=VALUE NAME=VALUE": what is answered otherwise than it would be
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const char *format, ...) {
	const char *path = getenv("FAKE_LOG");
	FILE *f = path && *path ? fopen(path, "a") : NULL;
	if (!f) return;
	char line[1024]; // written at once: threads may write side by side
	va_list args;
	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	fputs(line, f);
	fclose(f);
}

static long value(const char *name, long otherwise) {
	const char *s = getenv("FAKE_VALUES");
	size_t n = strlen(name);
	for (; s && *s; s += strcspn(s, " "), s += *s == ' ')
		if (!strncmp(s, name, n) && s[n] == '=') return atol(s + n + 1);
	return otherwise;
}

static int asked; // calls of the function that FAKE_FAIL names

// refused gives the code with which this call of a function shall fail, or 0.
static int refused(const char *name) {
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static char seen[128];
	const char *want = getenv("FAKE_FAIL");
	if (!want) want = "";
	int code = 0;
	size_t n = strlen(name);
	pthread_mutex_lock(&lock);
	if (strcmp(want, seen)) {
		snprintf(seen, sizeof seen, "%s", want);
		asked = 0;
	}
	if (!strncmp(want, name, n) && want[n] == '=') {
		const char *at = strchr(want, '@');
		asked++;
		if (!at || asked == atoi(at + 1)) code = atoi(want + n + 1);
	}
	pthread_mutex_unlock(&lock);
	return code;
}

#ifndef REFUSED
#define REFUSED // what else happens when a call is refused
#endif
#define MAY_FAIL \
	do { \
		int code = refused(__func__); \
		if (code) { \
			REFUSED \
			return code; \
		} \
	} while (0)
