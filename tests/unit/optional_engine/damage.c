/* Damages a small LMDB environment in many ways, one at a time, and uses it: whatever was
 * damaged, an error is fine and right data is fine, wrong data and a crash are not.
 *
 * usage: damage DIR flip|flip-all|pages|cut|torn|live     (DIR: in RAM, best)
 *   flip   one bit of every byte of the file; every bit of the meta pages' used part and
 *          of the headers of all pages
 *   flip-all  every bit of the file (some minutes)
 *   pages  every page replaced by zeros, ones, noise and each of the other pages
 *   cut    the file cut at every multiple of 512
 *   torn   the last commits' meta pages partly written, and what else a power cut leaves
 *   live   a page damaged, and the file cut, while the environment is open
 * Each use is: open, read all records by cursor and some by key, two transactions that
 * write, read all again, and in some cases open again.
 * Prints one line with the number of cases by outcome; exit status 1 if any was bad.
 */
#include "model.h"

#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define COMMITS 9
#define PAGE 4096u
#define BATCH 2000

enum outcome { HARMLESS, CAUGHT, OLDER, BUSERROR, BAD, CRASHED, OUTCOMES };
static const char *const names[OUTCOMES] = {"harmless", "detected", "older snapshot",
					    "bus error", "wrong", "crashed"};
static const char *dir, *path;
/* Shared with the child that works on a batch. */
static struct {
	unsigned long at, count[OUTCOMES];
} *shared;

/* The file and the contents after each transaction; [0] is not used. */
static image after[COMMITS + 1];
static state contents[COMMITS + 1];

static void build(void)
{
	MDB_env *env;
	state s = {{0}};

	env_remove(path);
	MUST(env_open(&env, path, 0));
	for (unsigned by = 1; by <= COMMITS; by++) {
		MUST(change(env, &s, by));
		contents[by] = s;
		after[by] = image_read(path);
	}
	mdb_env_close(env);
}

/* Uses the environment in the file. Right is what transaction `by` left, or, if a meta
 * page is found damaged, the one before it.
 */
static enum outcome use(unsigned by, unsigned salt, int may_be_older)
{
	MDB_env *env;
	MDB_txn *txn;
	enum verdict v;
	unsigned bad, now;
	int rc;

	if (env_open(&env, path, 0))
		return CAUGHT;
	MUST(mdb_env_get_badmeta(env, &bad));
	if (mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) {
		mdb_env_close(env);
		return CAUGHT;
	}
	now = (unsigned)mdb_txn_id(txn);
	if (now == by || (now + 1 == by && (bad || may_be_older)))
		v = compare(txn, &contents[now], salt, &rc);
	else
		v = WRONG;
	mdb_txn_abort(txn);
	if (v == FINE) {
		state s = contents[now];
		for (unsigned i = 1; i <= 2 && v == FINE; i++) {
			if (change(env, &s, now + i))
				v = DETECTED;
			else
				v = compare_now(env, &s, now + i, salt + i, &rc);
		}
		mdb_env_close(env);
		if (v == FINE && (bad || salt % 16 == 0)) {
			/* The commits have repaired a damaged meta page. */
			MUST(env_open(&env, path, 0));
			MUST(mdb_env_get_badmeta(env, &bad));
			v = bad ? WRONG : compare_now(env, &s, now + 2, salt, &rc);
			mdb_env_close(env);
		}
	} else {
		mdb_env_close(env);
	}
	return v == WRONG ? BAD : v == DETECTED ? CAUGHT : now == by ? HARMLESS : OLDER;
}

static void on_bus_error(int sig)
{
	(void)sig;
	_exit(77);
}

/* Calls one(n) for n in [0, cases), in children that may crash. */
static void run(unsigned long cases, enum outcome (*one)(unsigned long))
{
	unsigned long start = 0;

	while (start < cases) {
		int status;
		unsigned long end = start + BATCH < cases ? start + BATCH : cases;
		pid_t pid;

		shared->at = start;
		fflush(stdout);
		if ((pid = fork()) == 0) {
			signal(SIGBUS, on_bus_error);
			for (; shared->at < end; shared->at++) {
				enum outcome o = one(shared->at);
				shared->count[o]++;
				if (o == BAD)
					printf("wrong: case %lu\n", shared->at);
			}
			fflush(stdout);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) < 0)
			fatal("fork", errno);
		start = end;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
			shared->count[BUSERROR]++;
			start = shared->at + 1;
		} else if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			shared->count[CRASHED]++;
			printf("crashed: case %lu, status %x\n", shared->at, (unsigned)status);
			start = shared->at + 1;
		}
	}
}

/* ---- flip ---- */

static enum outcome flip_bit(size_t offset, unsigned bit, unsigned salt)
{
	unsigned char *byte = &after[COMMITS].data[offset];
	enum outcome o;

	*byte ^= 1u << bit;
	image_write(path, after[COMMITS]);
	*byte ^= 1u << bit;
	o = use(COMMITS, salt, 0);
	/* The snapshot before the last one is right only if the newest meta page is damaged. */
	return o == OLDER && offset / PAGE != COMMITS % 2 ? BAD : o;
}

static enum outcome flip_all(unsigned long n)
{
	return flip_bit(n / 8, n % 8, (unsigned)n);
}

#define HEAD 64
#define METAHEAD 256

static enum outcome flip(unsigned long n)
{
	size_t size = after[COMMITS].size;
	unsigned salt = (unsigned)n, bit = n % 8;

	if (n < size)
		return flip_bit(n, mix(n) % 8, salt);
	n = (n - size) / 8;
	if (n < 2 * METAHEAD)
		return flip_bit(n / METAHEAD * PAGE + n % METAHEAD, bit, salt);
	n -= 2 * METAHEAD;
	return flip_bit((2 + n / HEAD) * PAGE + n % HEAD, bit, salt);
}

/* ---- pages ---- */

static enum outcome pages(unsigned long n)
{
	image im = image_copy(after[COMMITS]);
	size_t count = im.size / PAGE, at = n % count, how = n / count;
	enum outcome o;

	if (how < 3) {
		for (size_t i = 0; i < PAGE; i++)
			im.data[at * PAGE + i] =
			    (unsigned char)(how == 0 ? 0 : how == 1 ? 255 : mix(n * PAGE + i));
	} else {
		memcpy(im.data + at * PAGE, after[COMMITS].data + (how - 3) * PAGE, PAGE);
	}
	image_write(path, im);
	free(im.data);
	o = use(COMMITS, (unsigned)n, 0);
	return o == OLDER && at != COMMITS % 2 ? BAD : o;
}

/* ---- cut ---- */

static enum outcome cut(unsigned long n)
{
	image im = {after[COMMITS].data, n * 512};

	image_write(path, im);
	if (n == 0) {
		/* An empty file is a new environment to LMDB: whoever cannot have that looks. */
		MDB_env *env;
		MDB_stat st;
		MUST(env_open(&env, path, 0));
		MUST(mdb_env_stat(env, &st));
		mdb_env_close(env);
		return st.ms_entries == 0 ? CAUGHT : BAD;
	}
	return use(COMMITS, (unsigned)n, 0);
}

/* ---- torn ---- */

#define TORN_COMMITS 4
#define TORN_KINDS (257 + 9 + 9 + 6)

/* What a power cut in commit `by` can leave: all pages of it but its meta page are there
 * (LMDB waits for them), its meta page is partly there. The last kinds are worse: pages of
 * the transaction after it are there, too.
 */
static enum outcome torn(unsigned long n)
{
	unsigned by = COMMITS - (unsigned)(n % TORN_COMMITS) - 1, kind = (unsigned)(n / TORN_COMMITS);
	unsigned char *meta, *newer = after[by].data + by % 2 * PAGE;
	image im = image_copy(kind >= 275 ? after[by + 1] : after[by]);
	enum outcome o;

	/* The commit before: the page that this commit overwrites is still as it was. */
	memcpy(im.data, after[by - 1].data, 2 * PAGE);
	meta = im.data + by % 2 * PAGE;
	if (kind < 257) /* a device that does not even write sectors whole */
		memcpy(meta, newer, kind);
	else if (kind < 266) /* the first sectors */
		memcpy(meta, newer, (kind - 257) * 512);
	else if (kind < 275) /* the last sectors */
		memcpy(meta + (kind - 266) * 512, newer + (kind - 266) * 512,
		       PAGE - (kind - 266) * 512);
	else if (kind == 275) /* the next transaction has begun to write */
		memcpy(meta, newer, PAGE);
	else if (kind == 276) /* the same, and this commit's meta page is gone */
		memset(meta, 0, PAGE);
	else if (kind == 277)
		memset(meta, 255, PAGE);
	else if (kind == 278)
		memset(meta, 255, 512);
	else if (kind == 279)
		meta[100] ^= 16, memcpy(meta + 128, newer + 128, 128);
	else
		memcpy(meta, newer, 128);
	image_write(path, im);
	free(im.data);
	o = use(by, (unsigned)n, 1);
	/* It must start, with the one or the other snapshot. */
	return o == CAUGHT ? BAD : o;
}

/* ---- live ---- */

static enum outcome live(unsigned long n)
{
	size_t count = after[COMMITS].size / PAGE, at = n % count;
	MDB_env *env;
	enum verdict v;
	int rc, fd;
	state s = contents[COMMITS];

	image_write(path, after[COMMITS]);
	MUST(env_open(&env, path, 0));
	if (compare_now(env, &s, COMMITS, 0, &rc) != FINE)
		return BAD;
	fd = open(path, O_RDWR);
	if (n < count) {
		unsigned char byte = after[COMMITS].data[at * PAGE + 30] ^ 4;
		if (pwrite(fd, &byte, 1, (off_t)(at * PAGE + 30)) != 1)
			fatal("pwrite", errno);
	} else if (ftruncate(fd, (off_t)(at * PAGE))) {
		fatal("ftruncate", errno);
	}
	close(fd);
	v = compare_now(env, &s, COMMITS, 1, &rc);
	for (unsigned i = 1; i <= 2 && v == FINE; i++) {
		if (change(env, &s, COMMITS + i))
			v = DETECTED;
		else
			v = compare_now(env, &s, COMMITS + i, 1 + i, &rc);
	}
	mdb_env_close(env);
	return v == WRONG ? BAD : v == DETECTED ? CAUGHT : HARMLESS;
}

int main(int argc, char **argv)
{
	const char *what = argc == 3 ? argv[2] : "";
	unsigned long sum = 0;
	size_t size, count;

	if (argc != 3) {
		fprintf(stderr, "usage: damage DIR flip|flip-all|pages|cut|torn|live\n");
		return 2;
	}
	dir = argv[1];
	path = join(dir, what);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fatal("mmap", errno);
#ifdef __GLIBC__
	/* An environment's lists are large: not from the kernel, zeroed, each time. */
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
	crc_init();
	build();
	size = after[COMMITS].size;
	count = size / PAGE;
	if (!strcmp(what, "flip")) {
		run(size + 8 * (2 * METAHEAD + (count - 2) * HEAD), flip);
	} else if (!strcmp(what, "flip-all")) {
		run(8 * size, flip_all);
	} else if (!strcmp(what, "pages")) {
		run(count * (3 + count), pages);
	} else if (!strcmp(what, "cut")) {
		run(size / 512, cut);
	} else if (!strcmp(what, "torn")) {
		run(TORN_COMMITS * TORN_KINDS, torn);
	} else if (!strcmp(what, "live")) {
		run(2 * count, live);
	} else {
		fprintf(stderr, "damage: unknown kind '%s'\n", what);
		return 2;
	}
	env_remove(path);
	for (int i = 0; i < OUTCOMES; i++)
		sum += shared->count[i];
	printf("%s: %lu cases in %zu pages", what, sum, count);
	for (int i = 0; i < OUTCOMES; i++)
		printf(", %lu %s", shared->count[i], names[i]);
	printf("\n");
	return shared->count[BAD] || shared->count[CRASHED] ? 1 : 0;
}
