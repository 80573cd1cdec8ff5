/* Uses LMDB as a node does, with checksums, where nothing is damaged, or on purpose.
 *
 * usage: usage DIR race|spill|copy|open
 *   race   readers begin while commits overwrite the meta pages: each gets one snapshot
 *   spill  a transaction of more pages than LMDB keeps in memory, committed and aborted
 *   copy   copies, compacted or not, have the checksums and are as hard to damage
 *   open   what mdb_env_open() refuses, and what it makes of damaged meta pages
 * Silent and exit status 0 if all is right.
 */
#include "model.h"

#include <pthread.h>
#include <sys/resource.h>
#include <time.h>

#define CHECK(what)                                                                         \
	do {                                                                                \
		if (!(what)) {                                                              \
			fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);  \
			exit(1);                                                            \
		}                                                                           \
	} while (0)

static const char *dir;

/* ---- race ---- */

static volatile int stop;
static const MDB_dbi main_dbi = 1;

static void *reader(void *arg)
{
	MDB_env *env = arg;
	MDB_txn *txn;
	unsigned long *count = calloc(1, sizeof(*count));

	MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	while (!stop) {
		MDB_val k = {1, "n"}, v;
		size_t n;
		mdb_txn_reset(txn);
		MUST(mdb_txn_renew(txn));
		MUST(mdb_get(txn, main_dbi, &k, &v));
		CHECK(v.mv_size == sizeof(n));
		memcpy(&n, v.mv_data, sizeof(n));
		CHECK(n == mdb_txn_id(txn));
		++*count;
	}
	mdb_txn_abort(txn);
	return count;
}

static void race(void)
{
	const char *path = join(dir, "race");
	pthread_t threads[3];
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	unsigned long reads = 0, commits = 0;
	time_t end = time(NULL) + 4;

	env_remove(path);
	MUST(env_open(&env, path, 0));
	/* A reader that has to wait for a processor keeps pages from being used again. */
	MUST(mdb_env_set_mapsize(env, 4ull << 30));
	for (; time(NULL) < end; commits++) {
		size_t n;
		MDB_val k = {1, "n"}, v = {sizeof(n), &n};
		MUST(mdb_txn_begin(env, NULL, 0, &txn));
		MUST(mdb_dbi_open(txn, NULL, 0, &dbi));
		CHECK(dbi == main_dbi);
		n = mdb_txn_id(txn);
		MUST(mdb_put(txn, dbi, &k, &v, 0));
		MUST(mdb_txn_commit(txn));
		if (commits == 0)
			for (int i = 0; i < 3; i++)
				MUST(pthread_create(&threads[i], NULL, reader, env));
	}
	stop = 1;
	for (int i = 0; i < 3; i++) {
		void *count;
		MUST(pthread_join(threads[i], &count));
		reads += *(unsigned long *)count;
	}
	CHECK(commits > 100 && reads > 100);
	mdb_env_close(env);
	env_remove(path);
}

/* ---- spill ---- */

#define RECORDS 500000u
#define VALUE 100

static void put_all(MDB_txn *txn, MDB_dbi dbi, unsigned by)
{
	for (unsigned i = 0; i < RECORDS; i++) {
		/* each number once, in no order: 2^32 is no multiple of it */
		unsigned key = i * 2654435761u;
		unsigned char value[VALUE];
		MDB_val k = {4, &key}, v = {VALUE, value};
		memset(value, (int)(key + by), VALUE);
		MUST(mdb_put(txn, dbi, &k, &v, 0));
	}
}

static void check_all(MDB_env *env, unsigned by)
{
	MDB_txn *txn;
	MDB_cursor *cursor;
	MDB_val k, v;
	unsigned count = 0;
	int rc;

	MUST(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
	MUST(mdb_cursor_open(txn, main_dbi, &cursor));
	while ((rc = mdb_cursor_get(cursor, &k, &v, MDB_NEXT)) == 0) {
		unsigned key;
		memcpy(&key, k.mv_data, 4);
		CHECK(v.mv_size == VALUE);
		for (int i = 0; i < VALUE; i++)
			CHECK(((unsigned char *)v.mv_data)[i] == (unsigned char)(key + by));
		count++;
	}
	CHECK(rc == MDB_NOTFOUND && count == RECORDS);
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
}

/* MiB of memory that are the program's own, not the map's */
static unsigned long anonymous(void)
{
	char line[256];
	unsigned long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "RssAnon: %lu", &kib);
	CHECK(f && kib);
	fclose(f);
	return kib / 1024;
}

static void spill(void)
{
	const char *path = join(dir, "spill");
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	env_remove(path);
	MUST(env_open(&env, path, 0));
	MUST(mdb_env_set_mapsize(env, 1u << 30));
	for (unsigned by = 1; by <= 3; by++) {
		MUST(mdb_txn_begin(env, NULL, 0, &txn));
		MUST(mdb_dbi_open(txn, NULL, 0, &dbi));
		put_all(txn, dbi, by);
		CHECK(anonymous() < 90);
		if (by == 2) {
			mdb_txn_abort(txn);
			check_all(env, 1);
		} else {
			MUST(mdb_txn_commit(txn));
			check_all(env, by);
		}
	}
	mdb_env_close(env);
	MUST(env_open(&env, path, 0));
	check_all(env, 3);
	mdb_env_close(env);
	env_remove(path);
}

/* ---- copy ---- */

static void zero(const char *path, size_t offset, size_t size)
{
	image im = image_read(path);
	memset(im.data + offset, 0, size);
	image_write(path, im);
	free(im.data);
}

static void copy(void)
{
	const char *path = join(dir, "copy"), *to = join(dir, "copy.to");
	MDB_env *env, *e2;
	state s = {{0}}, s2;
	unsigned bad;
	int rc;

	env_remove(path);
	MUST(env_open(&env, path, 0));
	for (unsigned by = 1; by <= 5; by++)
		MUST(change(env, &s, by));
	for (int compact = 0; compact < 2; compact++) {
		/* a compacted copy begins to count again */
		unsigned by = compact ? 2 : 5;
		env_remove(to);
		MUST(mdb_env_copy2(env, to, compact ? MDB_CP_COMPACT : 0));
		MUST(env_open(&e2, to, 0));
		MUST(mdb_env_get_badmeta(e2, &bad));
		CHECK(bad == 0);
		CHECK(compare_now(e2, &s, by, 1, &rc) == FINE);
		s2 = s;
		MUST(change(e2, &s2, by + 1));
		MUST(change(e2, &s2, by + 2));
		MUST(change(e2, &s2, by + 3));
		CHECK(compare_now(e2, &s2, by + 3, 2, &rc) == FINE);
		mdb_env_close(e2);
	}
	/* A compacted copy with one meta page is still the same copy. */
	for (unsigned page = 0; page < 2; page++) {
		env_remove(to);
		MUST(mdb_env_copy2(env, to, MDB_CP_COMPACT));
		zero(to, page * 4096, 4096);
		MUST(env_open(&e2, to, 0));
		MUST(mdb_env_get_badmeta(e2, &bad));
		CHECK(bad == 1u << page);
		CHECK(compare_now(e2, &s, page ? 2 : 1, 3, &rc) == FINE);
		s2 = s;
		MUST(change(e2, &s2, page ? 3 : 2));
		mdb_env_close(e2);
		MUST(env_open(&e2, to, 0));
		MUST(mdb_env_get_badmeta(e2, &bad));
		CHECK(bad == 0);
		CHECK(compare_now(e2, &s2, page ? 3 : 2, 4, &rc) == FINE);
		mdb_env_close(e2);
	}
	/* A damaged page is not copied as a good one. */
	for (size_t page = 2; page < image_read(path).size / 4096; page++) {
		image im = image_read(path);
		zero(path, page * 4096 + 100, 200);
		env_remove(to);
		rc = mdb_env_copy2(env, to, MDB_CP_COMPACT);
		CHECK(rc == 0 || rc == MDB_BAD_CHECKSUM);
		if (rc == 0) {
			MUST(env_open(&e2, to, 0));
			CHECK(compare_now(e2, &s, 2, (unsigned)page, &rc) == FINE);
			mdb_env_close(e2);
		}
		image_write(path, im);
		free(im.data);
	}
	mdb_env_close(env);
	env_remove(path);
	env_remove(to);
}

/* ---- open ---- */

static int try_open(const char *path, unsigned flags, MDB_sum_func *func, unsigned size)
{
	MDB_env *env;
	int rc;

	MUST(mdb_env_create(&env));
	if (func)
		MUST(mdb_env_set_checksum(env, func, size));
	MUST(mdb_env_set_maxdbs(env, 2));
	rc = mdb_env_open(env, path, FLAGS | flags, 0600);
	mdb_env_close(env);
	return rc;
}

static void open_(void)
{
	const char *path = join(dir, "open");
	MDB_env *env;
	state s = {{0}}, before;
	image im;
	unsigned bad;
	int rc;

	env_remove(path);
	MUST(mdb_env_create(&env));
	CHECK(mdb_env_set_checksum(env, crc32c, 3) == EINVAL);
	CHECK(mdb_env_set_checksum(env, crc32c, 66) == EINVAL);
	mdb_env_close(env);

	/* checksums or not is decided when the file is made */
	MUST(try_open(path, 0, NULL, 0));
	CHECK(try_open(path, 0, crc32c, 4) == MDB_BAD_CHECKSUM);
	MUST(try_open(path, 0, NULL, 0));
	env_remove(path);
	MUST(env_open(&env, path, 0));
	for (unsigned by = 1; by <= 4; by++) {
		before = s;
		MUST(change(env, &s, by));
	}
	CHECK(mdb_env_rollback(env, 4) == MDB_CANT_ROLLBACK);
	CHECK(mdb_env_incr_dump(env, join(dir, "open.dump"), 1) == MDB_INCOMPATIBLE);
	unlink(join(dir, "open.dump"));
	mdb_env_close(env);
	CHECK(try_open(path, 0, NULL, 0) == MDB_BAD_CHECKSUM);
	CHECK(try_open(path, MDB_WRITEMAP, crc32c, 4) == MDB_INCOMPATIBLE);
	CHECK(try_open(path, 0, crc32c, 8) == MDB_BAD_CHECKSUM);
	MUST(try_open(path, MDB_RDONLY, crc32c, 4));
	im = image_read(path);

	/* the snapshot before, asked for */
	MUST(env_open(&env, path, MDB_PREVSNAPSHOT));
	CHECK(compare_now(env, &before, 3, 1, &rc) == FINE);
	mdb_env_close(env);

	for (unsigned page = 0; page < 2; page++) {
		zero(path, page * 4096, 4096);
		CHECK(try_open(path, MDB_PREVSNAPSHOT, crc32c, 4) == MDB_BAD_CHECKSUM);
		/* transaction 4 stands in page 0 */
		MUST(env_open(&env, path, MDB_RDONLY));
		MUST(mdb_env_get_badmeta(env, &bad));
		CHECK(bad == 1u << page);
		CHECK(compare_now(env, page ? &s : &before, page ? 4 : 3, 2, &rc) == FINE);
		mdb_env_close(env);
		image_write(path, im);
	}

	/* both */
	im.data[120] ^= 1;
	im.data[4096 + 120] ^= 1;
	image_write(path, im);
	CHECK(try_open(path, 0, crc32c, 4) == MDB_BAD_CHECKSUM);
	zero(path, 0, 8192);
	CHECK(try_open(path, 0, crc32c, 4) == MDB_INVALID);

	/* nothing committed yet and the first page lost: a new one */
	env_remove(path);
	MUST(try_open(path, 0, crc32c, 4));
	zero(path, 0, 4096);
	MUST(env_open(&env, path, 0));
	MUST(mdb_env_get_badmeta(env, &bad));
	CHECK(bad == 0);
	memset(&s, 0, sizeof(s));
	MUST(change(env, &s, 1));
	mdb_env_close(env);
	MUST(env_open(&env, path, 0));
	CHECK(compare_now(env, &s, 1, 3, &rc) == FINE);
	mdb_env_close(env);
	env_remove(path);
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: usage DIR race|spill|copy|open\n");
		return 2;
	}
	dir = argv[1];
	crc_init();
	if (!strcmp(argv[2], "race"))
		race();
	else if (!strcmp(argv[2], "spill"))
		spill();
	else if (!strcmp(argv[2], "copy"))
		copy();
	else if (!strcmp(argv[2], "open"))
		open_();
	else
		return 2;
	return 0;
}
