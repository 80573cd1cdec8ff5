/*
 * Writes down what a program does to names in a folder, and ends it before one of these steps.
 *
 * cc -shared -fPIC -o steps.so tests/unit/optional_engine/steps.c -ldl
 * LD_PRELOAD=steps.so STEPS_FOLDER=FOLDER STEPS_LOG=FILE [STEPS_END=N] PROGRAM...
 *
 *   STEPS_FOLDER  only steps on names below this absolute path are written down and counted
 *   STEPS_LOG     the steps, one a line: a word and one or two absolute paths, separated by tabs
 *   STEPS_END     the program ends with status 99 before its step N, from 1; default: never
 *
 * Words: create, rename, unlink, rmdir, mkdir, sync (of a folder or a file). Writes to files are
 * not among them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long count;

/* The absolute path of a name relative to a folder's descriptor. */
static const char *absolute(int folder, const char *name, char *buffer)
{
	char link[64], base[PATH_MAX] = "";
	ssize_t length;
	if (name[0] == '/')
		return name;
	if (folder == AT_FDCWD) {
		if (!getcwd(base, sizeof(base)))
			return name;
	} else {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
		length = readlink(link, base, sizeof(base) - 1);
		base[length > 0 ? length : 0] = 0;
	}
	if (snprintf(buffer, PATH_MAX, "%s/%s", base, name) >= PATH_MAX)
		abort();
	return buffer;
}

static void step(const char *word, const char *path, const char *other)
{
	const char *folder = getenv("STEPS_FOLDER"), *end = getenv("STEPS_END");
	char line[2 * PATH_MAX + 32];
	int log, length;
	if (!folder || strncmp(path, folder, strlen(folder)))
		return;
	pthread_mutex_lock(&mutex);
	if (++count == (end ? atol(end) : 0))
		_exit(99);
	length = snprintf(line, sizeof(line), other ? "%s\t%s\t%s\n" : "%s\t%s\n", word, path, other);
	log = NEXT(open)(getenv("STEPS_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (log < 0 || write(log, line, length) != length)
		abort();
	close(log);
	pthread_mutex_unlock(&mutex);
}

static void opened(int folder, const char *name, int flags)
{
	char buffer[PATH_MAX];
	const char *path = absolute(folder, name, buffer);
	if (flags & O_CREAT && access(path, F_OK))
		step("create", path, NULL);
}

#define MODE(flags, mode) \
	do { \
		va_list more; \
		va_start(more, flags); \
		if (flags & O_CREAT) \
			mode = va_arg(more, mode_t); \
		va_end(more); \
	} while (0)

int open(const char *name, int flags, ...)
{
	mode_t mode = 0;
	MODE(flags, mode);
	opened(AT_FDCWD, name, flags);
	return NEXT(open)(name, flags, mode);
}

int open64(const char *name, int flags, ...)
{
	mode_t mode = 0;
	MODE(flags, mode);
	opened(AT_FDCWD, name, flags);
	return NEXT(open64)(name, flags, mode);
}

int openat(int folder, const char *name, int flags, ...)
{
	mode_t mode = 0;
	MODE(flags, mode);
	opened(folder, name, flags);
	return NEXT(openat)(folder, name, flags, mode);
}

FILE *fopen(const char *name, const char *mode)
{
	opened(AT_FDCWD, name, mode[0] == 'r' ? 0 : O_CREAT);
	return NEXT(fopen)(name, mode);
}

FILE *fopen64(const char *name, const char *mode)
{
	opened(AT_FDCWD, name, mode[0] == 'r' ? 0 : O_CREAT);
	return NEXT(fopen64)(name, mode);
}

int rename(const char *from, const char *to)
{
	char a[PATH_MAX], b[PATH_MAX];
	step("rename", absolute(AT_FDCWD, from, a), absolute(AT_FDCWD, to, b));
	return NEXT(rename)(from, to);
}

/* Removes a name; counts only where there is one. */
static int removes(int folder, const char *name)
{
	struct stat status;
	char buffer[PATH_MAX];
	const char *path = absolute(folder, name, buffer);
	if (lstat(path, &status))
		return 0;
	step(S_ISDIR(status.st_mode) ? "rmdir" : "unlink", path, NULL);
	return 1;
}

int unlink(const char *name)
{
	removes(AT_FDCWD, name);
	return NEXT(unlink)(name);
}

int rmdir(const char *name)
{
	removes(AT_FDCWD, name);
	return NEXT(rmdir)(name);
}

int remove(const char *name)
{
	removes(AT_FDCWD, name);
	return NEXT(remove)(name);
}

int unlinkat(int folder, const char *name, int flags)
{
	removes(folder, name);
	return NEXT(unlinkat)(folder, name, flags);
}

int mkdir(const char *name, mode_t mode)
{
	char buffer[PATH_MAX];
	const char *path = absolute(AT_FDCWD, name, buffer);
	if (access(path, F_OK))
		step("mkdir", path, NULL);
	return NEXT(mkdir)(name, mode);
}

static void synced(int file)
{
	char link[64], path[PATH_MAX] = "";
	ssize_t length;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	length = readlink(link, path, sizeof(path) - 1);
	path[length > 0 ? length : 0] = 0;
	step("sync", path, NULL);
}

int fsync(int file)
{
	synced(file);
	return NEXT(fsync)(file);
}

int fdatasync(int file)
{
	synced(file);
	return NEXT(fdatasync)(file);
}
