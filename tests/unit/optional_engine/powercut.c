/* Cuts the power at every moment of some commits, many times in different ways, and looks
 * whether the environment opens by itself with the right snapshot.
 *
 * usage: powercut DIR sync|nometasync|torn
 *
 * What LMDB writes goes through the wrappers below (linked with --wrap), which keep what a
 * disk has for certain apart from what the kernel may write some time: writes not yet
 * followed by fdatasync(), unless to a file opened with O_DSYNC. After a cut each sector
 * of 512 bytes has any of the versions it was given since it was certain, regardless of
 * the other sectors. With O_DSYNC the cut may come while the sectors are written.
 *
 * Right is, with `sync`, the transaction whose commit returned last, or the one that is
 * being committed; with `nometasync` (MDB_NOMETASYNC) also the one before. `torn` is
 * `sync` on a disk that does not even write sectors whole: pieces of 64 bytes. A file that
 * is just being created may be lost there.
 * Prints one line with counts; exit status 1 if any was wrong.
 */
#define _GNU_SOURCE
#include "model.h"

#include <sys/uio.h>

#define COMMITS 30
#define CUTS 12
#define MAXFILE (1u << 20)
#define MAXPENDING 256

/* The file as the disk has it for certain, and the writes since. */
static unsigned char durable[MAXFILE];
static size_t durable_size;
static struct {
	unsigned char *data;
	size_t offset, size;
} pending[MAXPENDING];
static unsigned pendings;

static int recording;
static dev_t device;
static ino_t inode;
static const char *cut_path;
static state contents[COMMITS + 2];
/* The last transaction whose commit returned; the oldest and newest that are right. */
static unsigned returned, slack, sector = 512;
static unsigned long cuts, by_age[3], repaired, wrong;
static uint64_t seed;

static uint64_t dice(void)
{
	return mix(seed++);
}

/* ---- the cut ---- */

static void check(void)
{
	MDB_env *env;
	MDB_txn *txn;
	state s;
	unsigned now = 0, bad = 0;
	enum verdict v = WRONG;
	int rc;

	if (sector < 512 && !returned)
		return;
	cuts++;
	if ((rc = env_open(&env, cut_path, 0)) == 0) {
		MUST(mdb_env_get_badmeta(env, &bad));
		if ((rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) == 0) {
			now = (unsigned)mdb_txn_id(txn);
			if (now == 0 && returned <= slack)
				v = FINE;
			else if (now >= 1 && now + slack >= returned && now <= returned + 1)
				v = compare(txn, &contents[now], (unsigned)cuts, &rc);
			mdb_txn_abort(txn);
		}
		s = contents[now];
		for (unsigned i = 1; i <= 3 && v == FINE; i++) {
			v = change(env, &s, now + i) ? WRONG
						     : compare_now(env, &s, now + i, i, &rc);
		}
		mdb_env_close(env);
	}
	if (v != FINE) {
		wrong++;
		printf("wrong: cut %lu after commit %u: found %u, %s\n", cuts, returned, now,
		       mdb_strerror(rc));
	} else {
		by_age[returned + 1 - now > 2 ? 2 : returned + 1 - now]++;
	}
	repaired += bad != 0;
}

static void cut(void)
{
	static unsigned char disk[MAXFILE];
	size_t size = durable_size;
	image im;

	memcpy(disk, durable, sizeof(disk));
	for (unsigned n = 0; n < CUTS; n++) {
		/* none, all, few, half, most of the sectors */
		unsigned of = n < 2 ? 0 : 1u << (n % 4);
		memcpy(disk, durable, durable_size);
		memset(disk + durable_size, 0, MAXFILE - durable_size);
		size = durable_size;
		for (size_t at = 0; at < MAXFILE; at += sector) {
			unsigned covering = 0, versions;
			for (unsigned i = 0; i < pendings; i++)
				covering += pending[i].offset < at + sector &&
					    pending[i].offset + pending[i].size > at;
			if (!covering)
				continue;
			versions = n == 0 ? 0
				   : n == 1
				       ? covering
				       : dice() % of == 0 ? 0 : 1 + (unsigned)(dice() % covering);
			for (unsigned i = 0; i < pendings && versions; i++) {
				size_t from = pending[i].offset, to = from + pending[i].size;
				if (from >= at + sector || to <= at)
					continue;
				from = from > at ? from : at;
				to = to < at + sector ? to : at + sector;
				memcpy(disk + from, pending[i].data + (from - pending[i].offset),
				       to - from);
				size = size > to ? size : to;
				versions--;
			}
		}
		/* The length of the file is pending, too: as far as sectors were written, in
		 * whole pages, as LMDB writes nothing less.
		 */
		im.data = disk;
		im.size = (size + 4095) / 4096 * 4096;
		env_remove(cut_path);
		image_write(cut_path, im);
		recording = 0;
		check();
		recording = 1;
	}
}

/* ---- the disk ---- */

static int is_ours(int fd)
{
	struct stat st;
	return recording && fstat(fd, &st) == 0 && st.st_ino == inode && st.st_dev == device;
}

static void settle(unsigned first)
{
	for (unsigned i = first; i < pendings; i++) {
		size_t end = pending[i].offset + pending[i].size;
		memcpy(durable + pending[i].offset, pending[i].data, pending[i].size);
		durable_size = durable_size > end ? durable_size : end;
		free(pending[i].data);
	}
	pendings = first;
}

static void wrote(int fd, const struct iovec *iov, int count, size_t offset)
{
	unsigned first = pendings;

	for (int i = 0; i < count; i++) {
		if (pendings == MAXPENDING || offset + iov[i].iov_len > MAXFILE)
			fatal("powercut: too much", E2BIG);
		pending[pendings].data = malloc(iov[i].iov_len);
		memcpy(pending[pendings].data, iov[i].iov_base, iov[i].iov_len);
		pending[pendings].offset = offset;
		pending[pendings].size = iov[i].iov_len;
		offset += iov[i].iov_len;
		pendings++;
	}
	cut();
	if (fcntl(fd, F_GETFL) & O_DSYNC) {
		settle(first);
		cut();
	}
}

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t offset)
{
	ssize_t rc = __real_pwrite(fd, data, size, offset);
	if (is_ours(fd)) {
		struct iovec one = {(void *)(uintptr_t)data, size};
		wrote(fd, &one, 1, (size_t)offset);
	}
	return rc;
}

ssize_t __real_writev(int fd, const struct iovec *iov, int count);
ssize_t __wrap_writev(int fd, const struct iovec *iov, int count);
ssize_t __wrap_writev(int fd, const struct iovec *iov, int count)
{
	off_t offset = lseek(fd, 0, SEEK_CUR);
	ssize_t rc = __real_writev(fd, iov, count);
	if (is_ours(fd))
		wrote(fd, iov, count, (size_t)offset);
	return rc;
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int __wrap_fdatasync(int fd)
{
	if (is_ours(fd)) {
		settle(0);
		cut();
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *path;
	MDB_env *env;
	struct stat st;
	state s = {{0}};
	int nometasync = argc == 3 && !strcmp(argv[2], "nometasync");

	if (argc != 3 || (!nometasync && strcmp(argv[2], "sync") && strcmp(argv[2], "torn"))) {
		fprintf(stderr, "usage: powercut DIR sync|nometasync|torn\n");
		return 2;
	}
	if (!strcmp(argv[2], "torn"))
		sector = 64;
	path = join(argv[1], "powercut");
	cut_path = join(argv[1], "powercut.cut");
	slack = nometasync ? 1 : 0;
	crc_init();
	env_remove(path);

	/* Not env_open(): that has MDB_NOSYNC, which is right for the looks at the cuts. */
	image_write(path, (image){NULL, 0});
	if (stat(path, &st))
		fatal(path, errno);
	inode = st.st_ino;
	device = st.st_dev;
	MUST(mdb_env_create(&env));
	MUST(mdb_env_set_checksum(env, crc32c, 4));
	MUST(mdb_env_set_mapsize(env, MAXFILE));
	MUST(mdb_env_set_maxdbs(env, 2));
	recording = 1;
	MUST(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOTLS | (nometasync ? MDB_NOMETASYNC : 0),
			  0600));
	for (unsigned by = 1; by <= COMMITS; by++) {
		/* what it will be: the looks happen while it is committed */
		state next = s;
		for (unsigned key = 0; key < KEYS; key++) {
			unsigned what = mix(by * 7919ull + key) % 12;
			if (by == 1 ? what < 8 : what < 3)
				next.by[key] = by;
			else if (by > 1 && what < 5)
				next.by[key] = 0;
		}
		contents[by] = next;
		MUST(change(env, &s, by));
		if (memcmp(&s, &next, sizeof(s)))
			fatal("powercut: model", EINVAL);
		returned = by;
	}
	recording = 0;
	mdb_env_close(env);
	env_remove(path);
	env_remove(cut_path);
	printf("%s: %lu cuts, %lu being committed, %lu committed last, %lu the one before, "
	       "%lu meta pages repaired, %lu wrong\n",
	       argv[2], cuts, by_age[0], by_age[1], by_age[2], repaired, wrong);
	return wrong ? 1 : 0;
}
